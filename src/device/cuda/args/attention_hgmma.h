/* attention_hgmma.h: the arguments and tile sizes of the attention kernels for tensor cores, which
 * ops/attention_hgmma.c fills in: those of attention_hgmma.cu and attention_hgmma_once.cu (Hopper, with TMA tiles), and
 * those of attention_hgmma_any.cu (mma.sync, any GPU and alignment; also the statistics and dropout masks of all). */
#ifndef LS_DEVICE_CUDA_ARGS_ATTENTION_HGMMA_H
#define LS_DEVICE_CUDA_ARGS_ATTENTION_HGMMA_H

#include "device/cuda/args/attention.h"

enum {
    LS_CUDA_HGMMA_KEYS = 128,       /* of a block of the running maximum: the contract's */
    LS_CUDA_HGMMA_ANY_QUERIES = 64, /* rows of a tile of attention_hgmma_any.cu */
    LS_CUDA_HGMMA_ANY_KEYS = 64,    /* of a tile of its backward */
    LS_CUDA_HGMMA_ANY_FORWARD_THREADS = 128,
    LS_CUDA_HGMMA_ANY_BACKWARD_THREADS = 256,
    LS_CUDA_HGMMA_STATS_ROWS = 16,
    LS_CUDA_HGMMA_STATS_WIDE_ROWS = 128,
    LS_CUDA_HGMMA_STAT_STEP = 128, /* rows of statistics are filled up to a multiple */
    LS_CUDA_HGMMA_PARTS = 7,       /* parts (ls_cuda_attention_part) of one launch with tensor maps, at most */
    LS_CUDA_HGMMA_SUMS = 64 * 64,  /* gradients of 64 queries */
    LS_CUDA_HGMMA_MASK_TILE = 128, /* queries and keys of a block of attention_hgmma_masks */
    LS_CUDA_HGMMA_MASK_THREADS = 256,
};

/* Numbers of 16 bits in shared memory. Rows have 8 more than they need, against bank conflicts. Forward loads some rows
 * of K, then of V, into the same place: so few of them that the 100 KiB of compute capability 8.6 suffice. */
#define LS_CUDA_HGMMA_ANY_SOME_KEYS(d) ((d) > 128 ? 64 : LS_CUDA_HGMMA_KEYS)
#define LS_CUDA_HGMMA_ANY_FORWARD_ELEMS(d)                                                                             \
    ((LS_CUDA_HGMMA_ANY_QUERIES + LS_CUDA_HGMMA_ANY_SOME_KEYS(d)) * ((d) + 8) +                                        \
     LS_CUDA_HGMMA_ANY_QUERIES * (LS_CUDA_HGMMA_KEYS + 8))
#define LS_CUDA_HGMMA_ANY_BACKWARD_ELEMS(d)                                                                            \
    (2 * (LS_CUDA_HGMMA_ANY_QUERIES + LS_CUDA_HGMMA_ANY_KEYS) * ((d) + 8) +                                            \
     2 * LS_CUDA_HGMMA_ANY_QUERIES * (LS_CUDA_HGMMA_ANY_KEYS + 8))

/* Tiles of attention_hgmma.cu: warp groups that compute, rows, bytes of shared memory. */
enum {
    LS_CUDA_HGMMA_FORWARD_GROUPS_64 = 3,
    LS_CUDA_HGMMA_FORWARD_GROUPS_64_DROP = 2, /* three have no registers for what is dropped */
    LS_CUDA_HGMMA_FORWARD_GROUPS_128 = 2,
    LS_CUDA_HGMMA_BACKWARD_GROUPS = 2,
    LS_CUDA_HGMMA_SHARED = 224 << 10, /* all that there is: a multiprocessor has one block */
};

/* The arguments of all these kernels. a.parts are those of this launch. stats, for backward alone (NULL in forward),
 * has for each sequence and head of the call stat_rows numbers L and as many D; rows that are no queries have L = +∞
 * and D = 0, so that their weights are +0. */
typedef struct ls_cuda_attention_hgmma {
    ls_cuda_attention a;
    float *stats;
    size_t stat_rows;
    uint32_t B, heads, kv_heads; /* sequences; heads of queries and of keys in this launch */
    uint32_t all_heads, head0;   /* heads of the call; the number of this launch's first one */
    float *sums;     /* of attention_hgmma_once.cu, for each head of the call and 64 queries: LS_CUDA_HGMMA_SUMS, */
    uint32_t *turns; /* and tiles of keys that they have passed, zeroed with the statistics; NULL: none */
    uint16_t *masks; /* which weights dropout keeps; NULL: there is none. A line is a query or, masks_across, a key, and
                      * has a bit for each key or query: of 64 number i has those of columns 8·j + 2·i and the next, two
                      * for each j. A head has stat_rows / 64 blocks of stat_rows times four such numbers; those of
                      * which nothing is seen are not written. */
    float drop_scale; /* of those that are kept */
    int masks_across;
} ls_cuda_attention_hgmma;

/* The tensor maps of one part. Coordinates are element, head, row, sequence. */
typedef struct ls_cuda_attention_maps {
    ls_cuda_tensor_map q, k, v, dout;
} ls_cuda_attention_maps;

/* Blocks stay and take one tile after another, the longest of all heads first. */
typedef struct ls_cuda_attention_tiles {
    ls_cuda_attention_hgmma h;
    uint32_t rows; /* tiles down the rows of a head: of queries, or of keys where a block owns keys */
    ls_cuda_attention_maps maps[LS_CUDA_HGMMA_PARTS];
} ls_cuda_attention_tiles;

#endif
