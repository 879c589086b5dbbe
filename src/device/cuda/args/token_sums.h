/* token_sums.h: what the kernels of token_sums.cu are started with. */
#ifndef LS_DEVICE_CUDA_ARGS_TOKEN_SUMS_H
#define LS_DEVICE_CUDA_ARGS_TOKEN_SUMS_H

#include "device/cuda/common/list.h"
#include "device/cuda/common/pack.h"

enum { LS_CUDA_CHAIN_THREADS = 64, LS_CUDA_CHAIN_WARPS = 8 }; /* the latter: of a block where slices are cut */
enum { LS_CUDA_JOIN_WARPS = 16 };                             /* of a block that joins few columns */
enum { LS_CUDA_TOKEN_SUMS = 3 };                              /* of one operation, at most */
enum { LS_CUDA_CHAIN_BIAS, LS_CUDA_CHAIN_LAYER, LS_CUDA_CHAIN_RMS };

/* The chains over the tokens of each (sequence, slice): row number sequence·slices + slice of `rows`. */
typedef struct ls_cuda_chains {
    ls_cuda_rows rows;
    ls_cuda_slices slices;
    size_t block; /* tokens of the chains that a slice is cut into, which are added ascending; 0: it is not */
    int act;
    const void *dy;
    size_t dy_stride;
    const float *x;
    size_t x_stride;
    const float *mean, *rstd;
    float *out[2]; /* [sequence][slice][column], of dw or a bias and of db */
} ls_cuda_chains;

/* Sums of what sequences contribute to each of `rows`, in their order by groups, then the tree over groups. */
typedef struct ls_cuda_token_join {
    ls_cuda_rows rows;
    ls_cuda_slices slices; /* a row for each; one without tokens has no sum */
    size_t block;          /* tokens of the chains of a slice, row by row, to be added ascending; 0: it is one */
    size_t in_stride, in_sequence; /* elements from a row to the next, from a sequence to the next */
    const float *in[LS_CUDA_TOKEN_SUMS];
    float *out[LS_CUDA_TOKEN_SUMS]; /* without gaps */
    int are_tokens;                 /* sequences of one token, whose chain +0 + x is made here */
    int accumulate, groups;
    ls_cuda_sizes bounds;
} ls_cuda_token_join;

#endif
