/* count.h: the arguments of the kernels of count.cu (counts of numbers, differences, sums of losses), which
 * ops/count.c fills in. Results are added to device memory by integer atomics, whose order does not matter. */
#ifndef LS_DEVICE_CUDA_ARGS_COUNT_H
#define LS_DEVICE_CUDA_ARGS_COUNT_H

#include "device/cuda/common/pack.h"

enum { LS_CUDA_COUNTS = 4, LS_CUDA_COUNT_PACKS = 4 }; /* kinds of ls_count; packs that a thread loads at a time */

/* Counts of x·scale (ls_count_call). `flushed` and `high` are fp32 bit patterns of |x·scale|: an x that is not 0 counts
 * as flushed up to `flushed`, where the type in question rounds to 0; any x counts as high from `high`, 1/16 of the
 * type's largest number, to infinity, but not NaN. */
typedef struct ls_cuda_count {
    ls_cuda_flat flat;
    const float *x;
    float scale;
    uint32_t flushed, high;
    unsigned long long *out; /* LS_CUDA_COUNTS, in the order of ls_count */
} ls_cuda_count;

/* before = after − before, as ls_difference_call; `lost` grows. */
typedef struct ls_cuda_difference {
    ls_cuda_flat flat;
    float *before;
    const float *after, *by;
    unsigned long long *lost;
} ls_cuda_difference;

/* The search for the first element that is not finite, as ls_find_bad_call. */
typedef struct ls_cuda_find {
    ls_cuda_flat flat;
    const void *x;
    int dtype;
    unsigned long long *first; /* the smallest index found so far; all bits set before the launch */
} ls_cuda_find;

/* The exact sum of losses, as ls_add_losses_call: n losses of sequences of T tokens, without the first `context`
 * of each. */
typedef struct ls_cuda_losses {
    const float *loss;
    size_t n, T, context;
    unsigned long long *sum; /* total, count and bad of ls_loss_sum; negative addends wrap around */
} ls_cuda_losses;

/* The count of right answers, as ls_count_right_call; `right` grows. */
typedef struct ls_cuda_right {
    const float *z;
    size_t z_stride, rows, columns;
    const int32_t *targets;
    unsigned long long *right;
} ls_cuda_right;

#endif
