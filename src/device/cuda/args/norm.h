/* norm.h: what the kernels of norm.cu and norm_drop.cu are started with. */
#ifndef LS_DEVICE_CUDA_ARGS_NORM_H
#define LS_DEVICE_CUDA_ARGS_NORM_H

#include "device/cuda/common/drop.h"
#include "device/cuda/common/list.h"

enum {
    LS_CUDA_NORM_ROWS = 8,            /* of a block, at most */
    LS_CUDA_NORM_THREADS = 256,       /* of a block, at most */
    LS_CUDA_NORM_CHAIN_THREADS = 512, /* the same where it has a chain of tokens, and a thread four columns */
    LS_CUDA_NORM_FEW_ROWS = 4,        /* of a block at a time, where chains are few */
};

/* As ls_norm_call. */
typedef struct ls_cuda_norm {
    size_t rows, C;
    int rms, act, add;
    float eps;
    const float *x;
    size_t x_stride;
    const void *branch; /* NULL: x is normalised, else x + branch */
    float *sum;         /* NULL: nobody wants it */
    const float *w, *b;
    void *y; /* backward: NULL, where it is not made again */
    size_t y_stride;
    float *mean, *rstd;
    const void *dy;
    size_t dy_stride;
    float *dx;
    size_t dx_stride;
    void *dx_copy; /* NULL: none */
    int together;  /* rows of a block: their numbers lie in shared memory; 0: one row, which is too long for it */
    int pitch;     /* numbers from one of them to the next */
    int aligned;   /* rows of all tensors begin with packs of four and end with them */
    ls_cuda_drop drop;
} ls_cuda_norm;

/* Backward with the sums over tokens: a block of threads for each block of `block` tokens that a token slice of a
 * sequence is cut into, of which there are `most` in a slice at most. Rows and columns are aligned. */
typedef struct ls_cuda_norm_chains {
    ls_cuda_norm norm;
    ls_cuda_slices slices;
    size_t block, most;
    float *dw, *db, *dx_sums; /* [sequence][slice][number][column]; NULL: not wanted */
} ls_cuda_norm_chains;

#endif
