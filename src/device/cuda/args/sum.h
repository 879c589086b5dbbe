/* sum.h: the arguments of the kernels of sum.cu (sums and maxima of several tensors, scaling), which ops/sum.c
 * fills in. */
#ifndef LS_DEVICE_CUDA_ARGS_SUM_H
#define LS_DEVICE_CUDA_ARGS_SUM_H

#include "device/cuda/common/list.h"
#include "device/cuda/common/pack.h"

/* Packs that a thread loads before it stores, of add and scale, and of tree_sum_few; tensors that tree_sum_few adds, at
 * most. */
enum { LS_CUDA_SUM_PACKS = 4, LS_CUDA_TREE_PACKS = 2, LS_CUDA_FEW_LEAVES = 4 };

/* y = a + b, element by element; b may be 16-bit. */
typedef struct ls_cuda_add {
    ls_cuda_flat flat;
    int b_dtype;
    float *y;
    const float *a;
    const void *b;
} ls_cuda_add;

/* out = the sum by the balanced binary tree, or the maximum, of `count` tensors of this dtype, element by element. */
typedef struct ls_cuda_join {
    ls_cuda_flat flat;
    int dtype, count;
    float *out;
    ls_cuda_pointers inputs;
} ls_cuda_join;

/* Pieces of a launch of tree_rows: arguments of a kernel are at most 4 KiB. */
enum { LS_CUDA_ROWS_PIECES = 192 };

/* As ls_tree_rows_call: the first row of each piece, rows[i][leaves][n[i]], becomes the tree over its rows. */
typedef struct ls_cuda_tree_rows {
    int count, leaves;
    float *rows[LS_CUDA_ROWS_PIECES];
    size_t n[LS_CUDA_ROWS_PIECES];
    unsigned first[LS_CUDA_ROWS_PIECES + 1]; /* block of threads with which a piece begins */
} ls_cuda_tree_rows;

/* y = x·factor; in the kernel set, which has no x, every element becomes the factor. */
typedef struct ls_cuda_scale {
    ls_cuda_flat flat;
    float factor;
    float *y;
    const float *x;
} ls_cuda_scale;

#endif
