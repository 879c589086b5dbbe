/* kernels.h: what GPU queues (CUDA streams) did in one step, from the spans of a traced run: by queue, and by kernel.
 *
 * A span belongs to the step in which it began. If a worker has several queues, the one named "compute" computes, and
 * the others are compared with it. `lockstep timeline` and the doctor use this. */
#ifndef LS_OBSERVE_KERNELS_H
#define LS_OBSERVE_KERNELS_H

#include "observe/trace_read.h"

/* All launches of one kernel for one operation `of`, by all workers. Of waits, only those of compute queues count. */
typedef struct ls_kernel_row {
    const char *name, *of;
    ls_kernel_kind kind;
    size_t count;
    double us, longest_us;
} ls_kernel_row;

/* One queue of one worker in the step. */
typedef struct ls_kernel_lane {
    int worker;
    const char *name;
    const ls_trace_kernel *kernel; /* in order of time; belongs to the trace */
    size_t count;
    double us[LS_KERNEL_KINDS];
    double busy_us;   /* all but waiting */
    double hidden_us; /* part of busy_us that overlapped with the worker's compute queue; 0 for that queue */
    /* Times between spans, and those of at most ten microseconds, which launches alone can cause. */
    double gaps_us, small_gaps_us;
    size_t gaps, small_gaps;
} ls_kernel_lane;

typedef struct ls_kernels {
    int workers; /* that have lanes */
    size_t lanes, rows;
    ls_kernel_lane *lane;             /* by worker, its compute queue first */
    ls_kernel_row *row;               /* by total time, longest first */
    double us[LS_KERNEL_KINDS];       /* mean per worker; waiting: of compute queues only */
    double launches[LS_KERNEL_KINDS]; /* likewise */
} ls_kernels;

/* Adds up the spans of the timeline's step. *out points into the trace, which must outlive it, and is freed with
 * ls_kernels_free(). Fails only with LS_ERR_RESOURCE; then there is nothing to free. */
struct ls_timeline;
ls_status ls_kernels_make(const ls_trace *trace, const struct ls_timeline *timeline, ls_kernels *out);
void ls_kernels_free(ls_kernels *kernels);

#endif
