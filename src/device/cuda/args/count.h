/* count.h: what the kernels of count.cu are started with. */
#ifndef LS_DEVICE_CUDA_ARGS_COUNT_H
#define LS_DEVICE_CUDA_ARGS_COUNT_H

#include "device/cuda/common/pack.h"

enum { LS_CUDA_COUNTS = 4, LS_CUDA_COUNT_PACKS = 4 };

/* Patterns of products: up to `flushed` they round to 0, from `high` on they are at the upper end. */
typedef struct ls_cuda_count {
    ls_cuda_flat flat;
    const float *x;
    float scale;
    uint32_t flushed, high;
    unsigned long long *out; /* LS_CUDA_COUNTS, in the order of ls_count */
} ls_cuda_count;

typedef struct ls_cuda_difference {
    ls_cuda_flat flat;
    float *before;
    const float *after, *by;
    unsigned long long *lost;
} ls_cuda_difference;

typedef struct ls_cuda_find {
    ls_cuda_flat flat;
    const void *x;
    int dtype;
    unsigned long long *first; /* the smallest index so far */
} ls_cuda_find;

typedef struct ls_cuda_losses {
    const float *loss;
    size_t n, T, context;
    unsigned long long *sum; /* total, count and bad of ls_loss_sum; what is added wraps */
} ls_cuda_losses;

typedef struct ls_cuda_right {
    const float *z;
    size_t z_stride, rows, columns;
    const int32_t *targets;
    unsigned long long *right;
} ls_cuda_right;

#endif
