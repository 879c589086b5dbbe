/* parts.h: the formulas of a step's traffic, axis by axis; for the traffic*.c files only. */
#ifndef LS_PARALLEL_TRAFFIC_PARTS_H
#define LS_PARALLEL_TRAFFIC_PARTS_H

#include "parallel/layout/micro_batches.h"
#include "parallel/traffic/traffic.h"

typedef struct ls_traffic_job {
    const ls_layout_task *task;
    ls_layout layout; /* as it is run: zero 0 where dp is 1, no sequence parallelism where tp is 1 */
    ls_place_in_layout place;
    ls_micro_list micros;
    ls_schedule schedule;
    ls_step_traffic *out;
} ls_traffic_job;

static inline void ls_traffic_count(const ls_traffic_job *job, int axis, ls_traffic_kind kind, uint64_t calls,
                                    uint64_t bytes) {
    job->out->of[axis][kind].calls += calls;
    job->out->of[axis][kind].bytes += bytes;
}

/* Bytes of `calls` all-reduces of `elems` elements on member r of W. In all of them together it hands over parts of
 * `part_bytes` for an element, and the sums have `width`. */
static inline uint64_t ls_traffic_all_reduce_bytes(uint64_t calls, uint64_t part_bytes, size_t elems, int W, int r,
                                                   size_t width) {
    uint64_t own = ls_slice_begin(elems, W, r + 1) - ls_slice_begin(elems, W, r);
    return part_bytes * (elems - own) + calls * (uint64_t)(W - 1) * own * width;
}

/* Of chunk c of this stage: its number, and its blocks. */
static inline int ls_traffic_chunk(const ls_traffic_job *job, int c) { return c * job->layout.pp + job->place.pp; }

/* traffic_dp.c */
ls_status ls_traffic_of_dp(const ls_traffic_job *job);
/* Elements of the tied table that this worker updates. */
ls_status ls_traffic_tied_elems(const ls_traffic_job *job, size_t *elems);

#endif
