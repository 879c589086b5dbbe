/* kernels.h: what each GPU queue (CUDA stream) did in one step of a traced run, summed by queue and by kernel.
 *
 * A span (one kernel, copy or wait on a queue) belongs to the step in which it began, even if it ends later. The
 * queue named "compute" is a worker's compute queue; the busy time of its other queues (communication, copies) is
 * compared with it to find how much was overlapped. A timeline (timeline.h) has the result; `lockstep timeline` prints
 * it. */
#ifndef LS_OBSERVE_KERNELS_H
#define LS_OBSERVE_KERNELS_H

#include "observe/trace_read.h"

/* All launches of one kernel for one operation `of` and of one kind, by all workers; `us` is their total time. Waits
 * count only if they are on a compute queue. */
typedef struct ls_kernel_row {
    const char *name, *of;
    ls_kernel_kind kind;
    size_t count;
    /* sum over all launches and workers, and the longest single one */
    double us, longest_us;
} ls_kernel_row;

/* One queue of one worker in the step. */
typedef struct ls_kernel_lane {
    int worker;
    const char *name;
    const ls_trace_kernel *kernel; /* in order of time; belongs to the trace */
    size_t count;                  /* spans at `kernel` */
    double us[LS_KERNEL_KINDS];    /* by kind: copies, waits, ... */
    double busy_us;                /* all but waiting */
    double hidden_us; /* part of busy_us that overlapped with spans, waits excluded, of the worker's compute queue; 0
                         for that queue, and without one */
    /* Times between spans, and those of at most ten microseconds, which launches alone can cause. */
    double gaps_us, small_gaps_us;
    size_t gaps, small_gaps;
} ls_kernel_lane;

typedef struct ls_kernels {
    int workers; /* number of workers that have at least one lane */
    size_t lanes, rows;
    ls_kernel_lane *lane;             /* by worker, its compute queue first */
    ls_kernel_row *row;               /* by total time, longest first */
    double us[LS_KERNEL_KINDS];       /* mean per worker; waiting: of compute queues only */
    double launches[LS_KERNEL_KINDS]; /* likewise */
} ls_kernels;

struct ls_timeline;
/* Sums the spans that began within the timeline's step into lanes and rows. *out points into the trace, which must
 * outlive it; the caller frees it with ls_kernels_free(). A trace without spans of queues gives no lanes. Fails only
 * with LS_ERR_RESOURCE; then there is nothing to free. */
ls_status ls_kernels_make(const ls_trace *trace, const struct ls_timeline *timeline, ls_kernels *out);
/* Frees lanes and rows, and empties the struct. */
void ls_kernels_free(ls_kernels *kernels);

#endif
