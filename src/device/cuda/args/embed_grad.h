/* embed_grad.h: what the kernels of embed_grad.cu are started with. */
#ifndef LS_DEVICE_CUDA_ARGS_EMBED_GRAD_H
#define LS_DEVICE_CUDA_ARGS_EMBED_GRAD_H

#include "device/cuda/common/list.h"

enum {
    LS_CUDA_SORT_BITS = 8, /* of a digit */
    LS_CUDA_SORT_DIGITS = 1 << LS_CUDA_SORT_BITS,
    LS_CUDA_SORT_THREADS = 256,
    LS_CUDA_SORT_ROUNDS = 8, /* rows of a thread */
    LS_CUDA_SORT_TILE = LS_CUDA_SORT_THREADS * LS_CUDA_SORT_ROUNDS,
    LS_CUDA_SCAN_THREADS = 1024,
    LS_CUDA_TOKEN_GRAD_THREADS = 128,
    LS_CUDA_FEW_LEVELS = 4, /* of the tree over 16 groups */
    LS_CUDA_TOKEN_MANY = 64, /* rows of an id from which on a block takes it */
    LS_CUDA_TOKEN_LONG_WARPS = 8,
};

/* One pass of a sort of rows by id: by the digit at `shift` of the id's place in the table. */
typedef struct ls_cuda_sort {
    const int32_t *ids;
    int32_t id_begin;
    uint32_t places; /* rows of the table; a token that has none goes behind all others */
    uint32_t n;
    int shift;
    uint32_t tiles;
    uint32_t *counts;     /* [digit][tile] */
    const uint32_t *from; /* rows as they are sorted so far; NULL: in their own order */
    uint32_t *to;
    uint32_t *keys; /* places of the rows in `to`, or NULL */
    uint32_t *list; /* made empty */
} ls_cuda_sort;

typedef struct ls_cuda_token_grad {
    const uint32_t *order, *keys;
    uint32_t *list; /* how many ids have many rows, then where in the order each begins */
    uint32_t n, places;
    float *dtoken;
    const float *dy;
    size_t dy_stride, C, T;
    int aligned, accumulate, groups;
    ls_cuda_sizes bounds;
} ls_cuda_token_grad;

#endif
