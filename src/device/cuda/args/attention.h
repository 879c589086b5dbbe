/* attention.h: the arguments of the attention kernels, which ops/attention.c fills in: those of attention.cu (with
 * chains: dot products in ascending order), and, as a member of their own arguments (attention_hgmma.h), those of
 * tensor cores. The sizes of blocks and tiles are those of attention.cu. Pointers are device memory. */
#ifndef LS_DEVICE_CUDA_ARGS_ATTENTION_H
#define LS_DEVICE_CUDA_ARGS_ATTENTION_H

#include "device/cuda/common/philox.h"
#include "device/cuda/common/types.h"

enum {
    LS_CUDA_ATTENTION_HEAD_MAX = 256,         /* largest size of a head */
    LS_CUDA_ATTENTION_FORWARD_THREADS = 128,  /* 8 across the keys, 16 down the queries */
    LS_CUDA_ATTENTION_BACKWARD_THREADS = 256, /* 16 × 16 */
    LS_CUDA_ATTENTION_DOTS_ROWS = 16,         /* queries of a block of attention_dots, 16 threads each */
    LS_CUDA_ATTENTION_FEW_THREADS = 256,      /* of a block of attention_few, for generation */
};

/* Floats of shared memory of a block, for heads of d elements, a tile of `own` rows that the block keeps, and
 * tiles of `other` rows that pass by (`tiles` of them at once). A row has 4 more floats than it needs, one of
 * weights 8 more, against bank conflicts; the + 3 are m, l and D of a query. */
#define LS_CUDA_ATTENTION_FORWARD_ELEMS(d, own, other)                                                                 \
    (((own) + (other)) * ((d) + 4) + (other) * (d) + (own) * ((other) + 8))
#define LS_CUDA_ATTENTION_QUERIES_ELEMS(d, own, other) ((2 * (own) + 4 * (other)) * ((d) + 4) + (own) * ((other) + 8))
#define LS_CUDA_ATTENTION_KEYS_ELEMS(d, own, other, tiles)                                                             \
    (2 * (own) * ((d) + 4) + 2 * (own) * ((other) + 8) + (tiles) * (other) * (2 * ((d) + 4) + 3))

/* A tensor of heads. Element i of a head's row of a sequence is at[sequence·sequence_stride + row·row_stride +
 * head·head_stride + i]; strides count elements. */
typedef struct ls_cuda_heads {
    void *at;
    size_t row_stride, head_stride, sequence_stride;
} ls_cuda_heads;

/* One part of a call: the heads of a slice (nn/param.h), in all sequences. All parts of a call are one launch. Fields
 * are those of ls_attention (calls.h). */
typedef struct ls_cuda_attention_part {
    uint32_t heads, kv_heads;
    float scale;
    uint32_t drop_threshold; /* and the rest: ls_attention_drop */
    float drop_scale;        /* 0: no dropout */
    ls_cuda_rng drop_key;
    uint64_t drop_head0, drop_heads;
    ls_cuda_heads q, k, v, o, dout, dq, dk, dv;
    float *m, *l, *dots; /* maximum, sum and D of each query: at[sequence·stat_elems + head·stat_stride + row] */
    size_t stat_stride;
} ls_cuda_attention_part;

/* The arguments of all kernels. In attention.cu blockIdx.x is a head (of queries or of keys), counted over the parts,
 * blockIdx.y a sequence, blockIdx.z a tile. z varies slowest, so the longest tiles of all heads start first. In
 * attention_dots and attention_few blockIdx.x is a query (or a block of them), y a head, z a sequence. */
typedef struct ls_cuda_attention {
    const ls_cuda_attention_part *parts; /* on the device */
    int T, first_query, head_size, act;  /* of ls_attention; act: ls_dtype */
    int is_vector;     /* rows and heads of all tensors begin at multiples of four elements, and head_size is one */
    size_t stat_elems; /* of m, l and dots, from one sequence to the next */
} ls_cuda_attention;

#endif
