/* embed_grad.h: the arguments of the kernels of embed_grad.cu, the gradient of the token table, which
 * ops/embed_grad.c fills in: first a radix sort of the rows of dy by token id, then a sum for each id. */
#ifndef LS_DEVICE_CUDA_ARGS_EMBED_GRAD_H
#define LS_DEVICE_CUDA_ARGS_EMBED_GRAD_H

#include "device/cuda/common/list.h"

enum {
    LS_CUDA_SORT_BITS = 8, /* of a digit of the radix sort */
    LS_CUDA_SORT_DIGITS = 1 << LS_CUDA_SORT_BITS,
    LS_CUDA_SORT_THREADS = 256, /* of a block, which sorts a tile */
    LS_CUDA_SORT_ROUNDS = 8,    /* rows of a thread in a tile */
    LS_CUDA_SORT_TILE = LS_CUDA_SORT_THREADS * LS_CUDA_SORT_ROUNDS,
    LS_CUDA_SCAN_THREADS = 1024, /* at most */
    LS_CUDA_TOKEN_GRAD_THREADS = 128,
    LS_CUDA_FEW_LEVELS = 4,       /* of the tree over 16 gradient groups, for which token_grad is compiled */
    LS_CUDA_TOKEN_MANY = 64,      /* an id with more rows goes to the list, for a block; others have a warp */
    LS_CUDA_TOKEN_LONG_WARPS = 8, /* of such a block */
};

/* One pass of the sort, by the digit at bit `shift` of the id's place in the table (id − id_begin). */
typedef struct ls_cuda_sort {
    const int32_t *ids;
    int32_t id_begin;
    uint32_t places; /* rows of the table; a token outside it goes behind all others */
    uint32_t n;      /* rows to sort */
    int shift;
    uint32_t tiles;       /* of LS_CUDA_SORT_TILE rows */
    uint32_t *counts;     /* [digit][tile] */
    const uint32_t *from; /* row numbers as they are sorted so far; NULL: 0 … n − 1 */
    uint32_t *to;
    uint32_t *keys; /* places of the rows in `to`, or NULL */
    uint32_t *list; /* that of ls_cuda_token_grad: its count is set to 0 */
} ls_cuda_sort;

/* The sums: as ls_token_grad_call, over the rows in sorted order. */
typedef struct ls_cuda_token_grad {
    const uint32_t *order, *keys; /* row numbers, sorted, and the place in the table of each */
    uint32_t *list; /* the number of ids with more than LS_CUDA_TOKEN_MANY rows, then where in the order each begins */
    uint32_t n, places;
    float *dtoken;
    const float *dy;
    size_t dy_stride, C, T;
    int aligned, accumulate, groups;
    ls_cuda_sizes bounds;
} ls_cuda_token_grad;

#endif
