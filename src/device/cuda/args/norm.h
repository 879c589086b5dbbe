/* norm.h: the arguments of the kernels of norm.cu and norm_drop.cu (layer norm and RMS norm, without and with
 * dropout), which ops/norm.c fills in. */
#ifndef LS_DEVICE_CUDA_ARGS_NORM_H
#define LS_DEVICE_CUDA_ARGS_NORM_H

#include "device/cuda/common/drop.h"
#include "device/cuda/common/list.h"

enum {
    LS_CUDA_NORM_ROWS = 8,            /* of a block, at most */
    LS_CUDA_NORM_THREADS = 256,       /* of a block, at most */
    LS_CUDA_NORM_CHAIN_THREADS = 512, /* of a block, at most, in ls_cuda_norm_chains; a thread has four columns */
    LS_CUDA_NORM_FEW_ROWS = 4,        /* of a block at a time in layer_norm_chains_few and rms_norm_chains_few */
};

/* The fields of ls_norm_call; pointers are device memory. */
typedef struct ls_cuda_norm {
    size_t rows, C;
    int rms, act, add;
    float eps;
    const float *x;
    size_t x_stride;
    const void *branch; /* NULL: x is normalised, else x + branch */
    float *sum;         /* gets x + branch; NULL: it is not stored */
    const float *w, *b;
    void *y; /* NULL in backward: y is not computed again */
    size_t y_stride;
    float *mean, *rstd;
    const void *dy;
    size_t dy_stride;
    float *dx;
    size_t dx_stride;
    void *dx_copy; /* NULL: none */
    int together;  /* rows of a block, held in shared memory; 0: one row, which is too long for it and is read again */
    int pitch;     /* floats from one of them to the next */
    int aligned;   /* rows of all tensors begin with packs of four and end with them */
    ls_cuda_drop drop;
} ls_cuda_norm;

/* Backward with the gradients of the parameters, which are sums over tokens. A token slice (a fixed part of a sequence)
 * is cut into at most `most` blocks of `block` tokens, and each has a thread block. Rows and columns are aligned. */
typedef struct ls_cuda_norm_chains {
    ls_cuda_norm norm;
    ls_cuda_slices slices;
    size_t block, most;
    float *dw, *db, *dx_sums; /* [sequence][slice][block of tokens][column], for token_join_few; NULL: not wanted */
} ls_cuda_norm_chains;

#endif
