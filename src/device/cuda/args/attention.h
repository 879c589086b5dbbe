/* attention.h: what the kernels of attention.cu are started with, and how large their tiles are. */
#ifndef LS_DEVICE_CUDA_ARGS_ATTENTION_H
#define LS_DEVICE_CUDA_ARGS_ATTENTION_H

#include "device/cuda/common/philox.h"
#include "device/cuda/common/types.h"

enum {
    LS_CUDA_ATTENTION_HEAD_MAX = 256,         /* of a head's size */
    LS_CUDA_ATTENTION_FORWARD_THREADS = 128,  /* 8 across the keys, 16 down the queries */
    LS_CUDA_ATTENTION_BACKWARD_THREADS = 256, /* 16 × 16 */
    LS_CUDA_ATTENTION_DOTS_ROWS = 16,
    LS_CUDA_ATTENTION_FEW_THREADS = 256,
};

/* Rows of the tile that a block keeps, and of the one that passes by; numbers in shared memory. A row has 4 more
 * numbers than it needs, one of weights 8 more, against bank conflicts. */
#define LS_CUDA_ATTENTION_FORWARD_ELEMS(d, own, other)                                                                 \
    (((own) + (other)) * ((d) + 4) + (other) * (d) + (own) * ((other) + 8))
#define LS_CUDA_ATTENTION_QUERIES_ELEMS(d, own, other) ((2 * (own) + 4 * (other)) * ((d) + 4) + (own) * ((other) + 8))
#define LS_CUDA_ATTENTION_KEYS_ELEMS(d, own, other, tiles)                                                             \
    (2 * (own) * ((d) + 4) + 2 * (own) * ((other) + 8) + (tiles) * (other) * (2 * ((d) + 4) + 3))

/* Element i of a head's row of a sequence is at[sequence·sequence_stride + row·row_stride + head·head_stride + i]. */
typedef struct ls_cuda_heads {
    void *at;
    size_t row_stride, head_stride, sequence_stride;
} ls_cuda_heads;

/* ls_attention, of all sequences. */
typedef struct ls_cuda_attention_part {
    uint32_t heads, kv_heads;
    float scale;
    uint32_t drop_threshold;
    float drop_scale; /* 0: no dropout */
    ls_cuda_rng drop_key;
    uint64_t drop_head0, drop_heads;
    ls_cuda_heads q, k, v, o, dout, dq, dk, dv;
    float *m, *l, *dots;
    size_t stat_stride;
} ls_cuda_attention_part;

/* blockIdx.x is a head (of queries or of keys), counted over the parts, blockIdx.y a sequence, blockIdx.z a tile: so
 * the longest tiles of all heads come first. Of dots and few: y, z and x. */
typedef struct ls_cuda_attention {
    const ls_cuda_attention_part *parts;
    int T, first_query, head_size, act;
    int is_vector; /* rows and heads of all tensors begin at multiples of four elements, and head_size is one */
    size_t stat_elems;
} ls_cuda_attention;

#endif
