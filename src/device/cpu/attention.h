/* attention.h: causal attention of one sequence, forward and backward (docs/arithmetic.md, "Attention").
 *
 * Query head h reads key/value head h / (heads / kv_heads). A query at position t sees the keys 0 … t. Memory stays
 * linear in T: forward keeps m (the maximum) and l (the sum) of each query and head, backward makes the weights anew.
 *
 * A kernel takes ranges, and any division of the heads, queries or keys into ranges gives the same bits. Ranges with
 * scratch of their own may run at the same time:
 *
 *     forward           o, m, l      of a range of heads and queries
 *     backward_dots     dots         of a range of heads and queries    after forward
 *     backward          dq, dk, dv   of one kv head and its heads       after backward_dots of these
 *
 *     backward_queries  dq           of a range of heads and queries    after backward_dots of these
 *     backward_keys     dk, dv       of a range of keys of one kv head  after backward_dots of all queries
 *
 * The last two together give what `backward` gives; they make the weights twice, but can be divided further.
 *
 * Tensors are strided, so that q, k and v may lie in one fused buffer; a cache of keys and values for generation is
 * read fastest where the rows of a head are neighbours. Outputs are overwritten, not added to, and do not overlap any
 * input. No alignment beyond the element's is needed. */
#ifndef LS_DEVICE_CPU_ATTENTION_H
#define LS_DEVICE_CPU_ATTENTION_H

#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "device/unit.h"
#include "lockstep.h"

/* Element i of a head's row is at[row·row_stride + head·head_stride + i]. */
typedef struct ls_attention_in {
    const void *at;
    size_t row_stride, head_stride;
} ls_attention_in;

typedef struct ls_attention_out {
    void *at;
    size_t row_stride, head_stride;
} ls_attention_out;

/* Dropout of the weights. Whether that of a pair of query and key is kept is a function of the key and the pair's index
 * ((head0 + head)·T + query)·T + key alone, which is below LS_RNG_INDEX_LIMIT. Backward makes the same choice again. */
typedef struct ls_attention_drop {
    ls_rng_key key;
    uint32_t threshold; /* weights whose number is below are dropped: kernels/dropout.h */
    float scale;        /* of those that are kept; 0: there is no dropout */
    uint64_t head0;     /* the number of head 0, counted over all sequences and heads of the batch */
    uint64_t heads;     /* of a sequence, those of other parts and workers too */
} ls_attention_drop;

/* The tensors of one sequence. Rows of k, v, dk and dv are positions 0 … T−1; rows of the others are positions
 * first_query … T−1. Generation with a cache of keys has first_query > 0; backward needs first_query = 0. */
typedef struct ls_attention {
    size_t T, heads, kv_heads, head_size; /* kv_heads divides heads; head_size ≥ 1 */
    size_t first_query;
    ls_dtype act; /* of q, k, v, o and their gradients; weights and dS are rounded to it where products read them */
    ls_unit unit; /* with LS_BF16: who makes the products */
    float scale;  /* > 0, finite */
    ls_attention_drop drop;
    ls_attention_in q, k, v;
    ls_attention_out o;
    float *m, *l, *dots; /* one number for a query and head: [head·stat_stride + row]; dots is D of the contract */
    size_t stat_stride;
    ls_attention_in dout; /* the gradient of o; this and the rest is for backward alone */
    ls_attention_out dq, dk, dv;
} ls_attention;

typedef struct ls_attention_kernels {
    /* o, m and l from q, k and v, for positions query_begin … query_end−1 of heads head_begin … head_end−1. */
    void (*forward)(const ls_attention *a, size_t head_begin, size_t head_end, size_t query_begin, size_t query_end,
                    float *scratch);
    /* dots from dout and o. */
    void (*backward_dots)(const ls_attention *a, size_t head_begin, size_t head_end, size_t query_begin,
                          size_t query_end);
    /* dq of the heads of one kv head, dk and dv of that one, from q, k, v, dout, m, l and dots. */
    void (*backward)(const ls_attention *a, size_t kv_head, float *scratch);
    /* dq from q, k, v, dout, m, l and dots. */
    void (*backward_queries)(const ls_attention *a, size_t head_begin, size_t head_end, size_t query_begin,
                             size_t query_end, float *scratch);
    /* dk and dv of keys key_begin … key_end−1 of one kv head, from q, k, v, dout, m, l and dots of all queries. */
    void (*backward_keys)(const ls_attention *a, size_t kv_head, size_t key_begin, size_t key_end, float *scratch);
} ls_attention_kernels;

/* What kernels work on at a time, in positions: ranges of a multiple of LS_ATTENTION_BLOCK waste nothing, and larger
 * ones save packing. Tiles of the products have at most LS_ATTENTION_TILE rows or columns. */
enum {
    LS_ATTENTION_BLOCK = 96,     /* queries */
    LS_ATTENTION_KEYS = 288,     /* keys in backward; a multiple of the queries */
    LS_ATTENTION_CHUNK = 256,    /* keys that are packed together in forward */
    LS_ATTENTION_TILE = 32,      /* at most */
    LS_ATTENTION_KEPT = 1 << 20, /* elements of all keys, up to which forward packs them once for all queries */
};

/* Floats of scratch that any of the kernels needs in one thread, for this shape, type and unit. Its contents mean
 * nothing between calls. */
static inline size_t ls_attention_scratch_elems(const ls_attention *a) {
    size_t T = a->T, block = LS_ATTENTION_BLOCK + LS_ATTENTION_TILE, keys = LS_ATTENTION_KEYS + LS_ATTENTION_TILE;
    size_t row = a->head_size + LS_ATTENTION_TILE, sums = 0;
    size_t packed = LS_ATTENTION_CHUNK + (T <= LS_ATTENTION_KEPT / a->head_size ? T : 0);
    size_t forward = (2 * packed + 2 * block + LS_ATTENTION_TILE) * row + block * (T + 2 * LS_ATTENTION_TILE);
    size_t tiles = 3 * block * keys + (keys + 3 * block) * LS_ATTENTION_TILE;
    size_t backward = (5 * keys + 5 * block + 2 * LS_ATTENTION_TILE) * row + tiles;
    if (a->act != LS_F32) { /* rows in fp32, and dq of a whole kv head; a unit packs all keys at once */
        bool is_unit = a->unit != LS_UNIT_CHAIN;
        size_t rows = is_unit ? 4 : a->heads / a->kv_heads;
        if (__builtin_mul_overflow(rows * row, T + LS_ATTENTION_TILE, &sums) || sums > SIZE_MAX / 64)
            return SIZE_MAX / 16;
        forward += (LS_ATTENTION_CHUNK + block) * row + (is_unit ? T * row + block * T : 0);
        backward += 2 * (keys + block) * row + sums;
    }
    return forward > backward ? forward : backward;
}

void ls_attention_kernels_fill_portable(ls_attention_kernels *t);
void ls_attention_kernels_fill_neon(ls_attention_kernels *t);
void ls_attention_kernels_fill_avx2(ls_attention_kernels *t);
void ls_attention_kernels_fill_avx512(ls_attention_kernels *t);
/* For bf16 tensors alone, on an ARM64 CPU with BF16. On x86-64 attention makes chains, whatever the unit is. */
void ls_attention_kernels_fill_bfmmla(ls_attention_kernels *t);

#endif
