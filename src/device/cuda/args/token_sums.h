/* token_sums.h: the arguments of the kernels of token_sums.cu, sums over tokens for gradients of biases and norms,
 * which ops/token_sums.c, ops/norm.c and ops/embed_grad.c fill in. A first kernel sums the tokens of each slice (a
 * fixed part) of each sequence in order, a chain; a second one adds the sequences of each gradient group, and the
 * groups by a tree. */
#ifndef LS_DEVICE_CUDA_ARGS_TOKEN_SUMS_H
#define LS_DEVICE_CUDA_ARGS_TOKEN_SUMS_H

#include "device/cuda/common/list.h"
#include "device/cuda/common/pack.h"

/* Of a block: threads, where slices are whole; warps, where slices are cut into blocks of tokens. */
enum { LS_CUDA_CHAIN_THREADS = 64, LS_CUDA_CHAIN_WARPS = 8 };
enum { LS_CUDA_JOIN_WARPS = 16 }; /* of a block of token_join_few */
enum { LS_CUDA_TOKEN_SUMS = 3 };  /* sums of one operation, at most: of dw, db and dx */
/* What is summed: dy; dy and its products with the normalised x; these products alone. */
enum { LS_CUDA_CHAIN_BIAS, LS_CUDA_CHAIN_LAYER, LS_CUDA_CHAIN_RMS };

/* The arguments of the first kernels: the chains over the tokens of each (sequence, slice), which is row number
 * sequence·slices + slice of `rows`. */
typedef struct ls_cuda_chains {
    ls_cuda_rows rows;
    ls_cuda_slices slices;
    size_t block; /* tokens of the chains that a slice is cut into, which are added ascending; 0: it is not */
    int act;      /* ls_dtype of dy */
    const void *dy;
    size_t dy_stride;
    const float *x;
    size_t x_stride;
    const float *mean, *rstd; /* of a norm */
    float *out[2];            /* [sequence][slice][column], of dw or a bias and of db */
} ls_cuda_chains;

/* The arguments of token_join and token_join_few: each of `rows` is summed over the sequences in their order by
 * groups, then by the tree over groups. */
typedef struct ls_cuda_token_join {
    ls_cuda_rows rows;
    ls_cuda_slices slices; /* a row for each; that of one without tokens becomes −0, or with accumulate keeps its value;
                            * slices 0: rows are no slices */
    size_t block; /* tokens of the chains that a slice was cut into, which are added in order; 0: it is one chain */
    size_t in_stride, in_sequence; /* elements from a row to the next, from a sequence to the next */
    const float *in[LS_CUDA_TOKEN_SUMS];
    float *out[LS_CUDA_TOKEN_SUMS]; /* rows without gaps */
    int are_tokens; /* inputs are tokens themselves, one per sequence, whose chain +0 + x is made here */
    int accumulate, groups;
    ls_cuda_sizes bounds;
} ls_cuda_token_join;

#endif
