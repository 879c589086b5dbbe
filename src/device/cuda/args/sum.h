/* sum.h: what the kernels of sum.cu are started with. */
#ifndef LS_DEVICE_CUDA_ARGS_SUM_H
#define LS_DEVICE_CUDA_ARGS_SUM_H

#include "device/cuda/common/list.h"
#include "device/cuda/common/pack.h"

enum { LS_CUDA_SUM_PACKS = 4, LS_CUDA_TREE_PACKS = 2, LS_CUDA_FEW_LEAVES = 4 }; /* packs that a thread has under way */

/* y = a + b */
typedef struct ls_cuda_add {
    ls_cuda_flat flat;
    int b_dtype;
    float *y;
    const float *a;
    const void *b;
} ls_cuda_add;

/* Of `count` tensors. */
typedef struct ls_cuda_join {
    ls_cuda_flat flat;
    int dtype, count;
    float *out;
    ls_cuda_pointers inputs;
} ls_cuda_join;

/* As ls_tree_rows_call; arguments of a kernel are at most 4 KiB. */
enum { LS_CUDA_ROWS_PIECES = 192 };

typedef struct ls_cuda_tree_rows {
    int count, leaves;
    float *rows[LS_CUDA_ROWS_PIECES];
    size_t n[LS_CUDA_ROWS_PIECES];
    unsigned first[LS_CUDA_ROWS_PIECES + 1]; /* block of threads with which a piece begins */
} ls_cuda_tree_rows;

/* y = x·factor; without x every element becomes the factor. */
typedef struct ls_cuda_scale {
    ls_cuda_flat flat;
    float factor;
    float *y;
    const float *x;
} ls_cuda_scale;

#endif
