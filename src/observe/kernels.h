/* kernels.h: the work of GPU queues in one step, from the spans of a traced run.
 *
 * A span belongs to the step in which it began; where workers have several queues, one of them, "compute", computes. */
#ifndef LS_OBSERVE_KERNELS_H
#define LS_OBSERVE_KERNELS_H

#include "observe/trace_read.h"

/* One kernel for one operation, all its launches of all workers; waits are those of compute queues. */
typedef struct ls_kernel_row {
    const char *name, *of;
    ls_kernel_kind kind;
    size_t count;
    double us, longest_us;
} ls_kernel_row;

/* A queue of a worker in the step. */
typedef struct ls_kernel_lane {
    int worker;
    const char *name;
    const ls_trace_kernel *kernel; /* in the order of time; the trace's */
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
    ls_kernel_lane *lane;             /* by worker; the one that computes first */
    ls_kernel_row *row;               /* the slowest first */
    double us[LS_KERNEL_KINDS];       /* mean of the workers; waiting: of compute queues */
    double launches[LS_KERNEL_KINDS]; /* the same */
} ls_kernels;

/* Of the timeline's step. LS_ERR_RESOURCE; there is nothing to free then. */
struct ls_timeline;
ls_status ls_kernels_make(const ls_trace *trace, const struct ls_timeline *timeline, ls_kernels *out);
void ls_kernels_free(ls_kernels *kernels);

#endif
