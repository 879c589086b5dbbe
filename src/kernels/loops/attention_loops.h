/* attention_loops.h: causal attention, written once over v16.
 *
 * Included by one file per ISA, after its simd header, with LSK_NAME(stem) and LSK_ATTENTION_ROWS (how many v16
 * accumulators the registers of the machine hold).
 *
 * Everything is made of the two products of attention_tiles_loops.h, dots and chains:
 *
 *                      lanes are    rows are    scores [row][16]    chains
 *     forward          queries      keys        s, then p           o  = p·V  over keys
 *     backward_queries queries      keys        s, dP, then dS      dq = dS·K over keys
 *     backward_keys    keys         queries     s, dP, then P, dS   dv = P·dO, dk = dS·Q over heads, then queries
 *
 * Invariants: lanes past the end of a block, and masked scores, hold numbers that nobody reads. Lane sums of l are by
 * key number mod 16: with lanes as queries that is one v16 for each residue. */
#include <math.h>
#include <stddef.h>

#include "kernels/attention.h"
#include "kernels/simd/math.h"
#include "kernels/loops/attention_tiles_loops.h"

enum { PARTS = LS_ATTENTION_BLOCK / LANES };

/* Up to sixteen queries (or keys) from position `base`. */
typedef struct part {
    size_t base, count;
} part;

/* The scratch of one thread. */
typedef struct workspace {
    float *packed[2]; /* [part][d][16]: queries and dout, or keys and values */
    float *rows[2];   /* [CHUNK][padded d]: gathered rows of the other side */
    float *scores;    /* forward: [part][T][16]; backward: [CHUNK][16], and products after them */
    float *products;
} workspace;

static const float lane_numbers[LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

static float *row_out(ls_attention_out x, size_t row, size_t head) {
    return x.at + row * x.row_stride + head * x.head_stride;
}

static workspace carve(float *scratch, size_t d) {
    size_t packed = LS_ATTENTION_BLOCK * d, rows = CHUNK * padded(d);
    float *scores = scratch + 2 * packed + 2 * rows;
    return (workspace){.packed = {scratch, scratch + packed},
                       .rows = {scratch + 2 * packed, scratch + 2 * packed + rows},
                       .scores = scores,
                       .products = scores + CHUNK * LANES};
}

static void zero_rows(ls_attention_out x, size_t row, size_t rows, size_t head, size_t d) {
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < d; i++) row_out(x, row + r, head)[i] = 0;
}

static void scale_rows(ls_attention_out x, size_t row, size_t rows, size_t head, size_t d, float scale) {
    for (size_t r = 0; r < rows; r++) {
        float *at = row_out(x, row + r, head);
        for (size_t i = 0; i < d; i++) at[i] = scale * at[i];
    }
}

/* Cuts positions base … base+count−1 into parts of sixteen; returns how many. */
static size_t cut(part parts[PARTS], size_t base, size_t count) {
    size_t n = 0;
    for (size_t at = 0; at < count; at += LANES)
        parts[n++] = (part){.base = base + at, .count = min_size(LANES, count - at)};
    return n;
}

/* True in the lanes whose query sees key `key`. */
static v16m sees(part queries, size_t key) {
    return v16_le(v16_set1((float)(key - queries.base)), v16_load(lane_numbers));
}

/* The rows of a chunk of keys from `key` that the lanes may take. */
static span keys_seen(part queries, size_t key) {
    return (span){.begin = -LANES, .end = (ptrdiff_t)queries.base - (ptrdiff_t)key + 1};
}

/* The maximum of m and the scores with keys key … key+rows−1. */
static v16 raise_maximum(v16 m, const float *scores, part queries, size_t key, size_t rows) {
    size_t r = 0;
    v16 other = m;
    for (; r + 1 < rows && key + r + 1 <= queries.base; r += 2) {
        m = v16_max(m, v16_load(scores + r * LANES));
        other = v16_max(other, v16_load(scores + (r + 1) * LANES));
    }
    m = v16_max(m, other);
    for (; r < rows; r++) {
        v16 higher = v16_max(m, v16_load(scores + r * LANES));
        m = key + r <= queries.base ? higher : v16_select(sees(queries, key + r), higher, m);
    }
    return m;
}

/* scores = exp(scores − m), for all keys of the queries; returns l. Masked scores become +0, which adds nothing. */
static v16 exponentials(float *scores, v16 m, part queries) {
    float lanes[LANES * LANES] = {0};
    for (size_t key = 0; key < queries.base + queries.count; key++) {
        v16 p = v16_exp(v16_sub(v16_load(scores + key * LANES), m));
        if (key > queries.base) p = v16_select(sees(queries, key), p, v16_set1(0));
        v16_store(scores + key * LANES, p);
        float *lane = lanes + key % LANES * LANES;
        v16_store(lane, v16_add(v16_load(lane), p));
    }
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t j = 0; j < half; j++)
            v16_store(lanes + j * LANES, v16_add(v16_load(lanes + j * LANES), v16_load(lanes + (j + half) * LANES)));
    return v16_load(lanes);
}

/* o = o / l */
static void divide_rows(const ls_attention *a, part queries, size_t head, const float *l) {
    for (size_t j = 0; j < queries.count; j++) {
        float *o = row_out(a->o, queries.base - a->first_query + j, head);
        for (size_t i = 0; i < a->head_size; i++) o[i] = o[i] / l[j];
    }
}

/* Scores of the parts with every key that they see, and their maxima. */
static void forward_scores(const ls_attention *a, size_t kv, const part *parts, size_t n, workspace to, v16 *m) {
    size_t d = a->head_size, keys = parts[n - 1].base + parts[n - 1].count;
    for (size_t key = 0; key < keys; key += CHUNK) {
        gather_chunk(to.rows[0], a->k, key, keys, kv, d);
        for (size_t p = 0; p < n; p++) {
            size_t end = parts[p].base + parts[p].count;
            if (key >= end) continue;
            float *scores = to.scores + (p * a->T + key) * LANES;
            size_t rows = min_size(CHUNK, end - key);
            dots(scores, to.packed[0] + p * LANES * d, to.rows[0], rows, d, a->scale);
            m[p] = raise_maximum(m[p], scores, parts[p], key, rows);
        }
    }
}

/* o goes on with p·V; o starts as zeros. */
static void forward_outputs(const ls_attention *a, size_t head, size_t kv, const part *parts, size_t n,
                            workspace from) {
    size_t d = a->head_size, keys = parts[n - 1].base + parts[n - 1].count;
    for (size_t key = 0; key < keys; key += CHUNK) {
        gather_chunk(from.rows[0], a->v, key, keys, kv, d);
        for (size_t p = 0; p < n; p++) {
            size_t end = parts[p].base + parts[p].count;
            if (key >= end) continue;
            chains(row_out(a->o, parts[p].base - a->first_query, head), a->o.row_stride, parts[p].count,
                   from.scores + (p * a->T + key) * LANES, from.rows[0], min_size(CHUNK, end - key), d,
                   keys_seen(parts[p], key));
        }
    }
}

static void forward_block(const ls_attention *a, size_t head, size_t query, size_t count, float *scratch) {
    size_t d = a->head_size, kv = head / (a->heads / a->kv_heads), row = query - a->first_query;
    workspace room = carve(scratch, d);
    part parts[PARTS];
    size_t n = cut(parts, query, count);
    v16 m[PARTS];
    for (size_t p = 0; p < n; p++) {
        pack(room.packed[0] + p * LANES * d, row_in(a->q, row + p * LANES, head), a->q.row_stride, parts[p].count, d);
        m[p] = v16_set1(-INFINITY);
    }
    forward_scores(a, kv, parts, n, room, m);
    float l[LS_ATTENTION_BLOCK];
    for (size_t p = 0; p < n; p++) {
        v16 sum = exponentials(room.scores + p * a->T * LANES, m[p], parts[p]);
        v16_store(l + p * LANES, sum);
        size_t stat = head * a->stat_stride + row + p * LANES;
        v16_store_n(a->m + stat, m[p], parts[p].count);
        v16_store_n(a->l + stat, sum, parts[p].count);
    }
    zero_rows(a->o, row, count, head, d);
    forward_outputs(a, head, kv, parts, n, room);
    for (size_t p = 0; p < n; p++) divide_rows(a, parts[p], head, l + p * LANES);
}

static void LSK_NAME(lsk_attention_forward)(const ls_attention *a, size_t head_begin, size_t head_end,
                                            size_t query_begin, size_t query_end, float *scratch) {
    for (size_t head = head_begin; head < head_end; head++)
        for (size_t query = query_begin; query < query_end; query += LS_ATTENTION_BLOCK)
            forward_block(a, head, query, min_size(LS_ATTENTION_BLOCK, query_end - query), scratch);
}

static void LSK_NAME(lsk_attention_backward_dots)(const ls_attention *a, size_t head_begin, size_t head_end,
                                                  size_t query_begin, size_t query_end) {
    for (size_t head = head_begin; head < head_end; head++)
        for (size_t query = query_begin; query < query_end; query++) {
            const float *dout = row_in(a->dout, query, head), *o = row_out(a->o, query, head);
            v16 sum = v16_set1(0);
            size_t i = 0;
            for (; i + LANES <= a->head_size; i += LANES) sum = v16_fma(v16_load(dout + i), v16_load(o + i), sum);
            if (i < a->head_size) {
                size_t rest = a->head_size - i;
                sum = v16_fma(v16_load_n(dout + i, rest, 0), v16_load_n(o + i, rest, 0), sum);
            }
            a->dots[head * a->stat_stride + query] = v16_sum(sum);
        }
}

/* P = exp(s − m) / l and dS = P·(dP − D): scores become P, products become dS. */
LSK_INLINE void weigh(float *scores, float *products, v16 m, v16 l, v16 delta) {
    v16 p = v16_div(v16_exp(v16_sub(v16_load(scores), m)), l);
    v16_store(scores, p);
    v16_store(products, v16_mul(p, v16_sub(v16_load(products), delta)));
}

/* The share of gathered keys key … key+rows−1 in dq of the queries of a part. */
static void backward_queries_part(const ls_attention *a, size_t head, size_t key, size_t rows, part queries, size_t p,
                                  workspace room) {
    size_t d = a->head_size, stat = head * a->stat_stride + queries.base;
    dots(room.scores, room.packed[0] + p * LANES * d, room.rows[0], rows, d, a->scale);
    dots(room.products, room.packed[1] + p * LANES * d, room.rows[1], rows, d, 1);
    v16 m = v16_load_n(a->m + stat, queries.count, 0), l = v16_load_n(a->l + stat, queries.count, 1);
    v16 delta = v16_load_n(a->dots + stat, queries.count, 0);
    for (size_t r = 0; r < rows; r++) weigh(room.scores + r * LANES, room.products + r * LANES, m, l, delta);
    chains(row_out(a->dq, queries.base, head), a->dq.row_stride, queries.count, room.products, room.rows[0], rows, d,
           keys_seen(queries, key));
}

static void backward_queries_block(const ls_attention *a, size_t head, size_t query, size_t count, float *scratch) {
    size_t d = a->head_size, kv = head / (a->heads / a->kv_heads), keys = query + count;
    workspace room = carve(scratch, d);
    part parts[PARTS];
    size_t n = cut(parts, query, count);
    for (size_t p = 0; p < n; p++) {
        size_t at = p * LANES * d;
        pack(room.packed[0] + at, row_in(a->q, parts[p].base, head), a->q.row_stride, parts[p].count, d);
        pack(room.packed[1] + at, row_in(a->dout, parts[p].base, head), a->dout.row_stride, parts[p].count, d);
    }
    zero_rows(a->dq, query, count, head, d);
    for (size_t key = 0; key < keys; key += CHUNK) {
        gather_chunk(room.rows[0], a->k, key, keys, kv, d);
        gather_chunk(room.rows[1], a->v, key, keys, kv, d);
        for (size_t p = 0; p < n; p++) {
            size_t end = parts[p].base + parts[p].count;
            if (key < end) backward_queries_part(a, head, key, min_size(CHUNK, end - key), parts[p], p, room);
        }
    }
    scale_rows(a->dq, query, count, head, d, a->scale);
}

static void LSK_NAME(lsk_attention_backward_queries)(const ls_attention *a, size_t head_begin, size_t head_end,
                                                     size_t query_begin, size_t query_end, float *scratch) {
    for (size_t head = head_begin; head < head_end; head++)
        for (size_t query = query_begin; query < query_end; query += LS_ATTENTION_BLOCK)
            backward_queries_block(a, head, query, min_size(LS_ATTENTION_BLOCK, query_end - query), scratch);
}

/* The share of gathered rows skip … rows−1, the queries from `query` on, in dk and dv of the keys of a part. All of
 * them see the first key of the part. */
static void backward_keys_part(const ls_attention *a, size_t head, size_t query, size_t skip, size_t rows, part keys,
                               size_t p, workspace room) {
    size_t d = a->head_size, kv = head / (a->heads / a->kv_heads), stat = head * a->stat_stride + query;
    const float *q = room.rows[0] + skip * padded(d), *dout = room.rows[1] + skip * padded(d);
    rows -= skip;
    dots(room.scores, room.packed[0] + p * LANES * d, q, rows, d, a->scale);
    dots(room.products, room.packed[1] + p * LANES * d, dout, rows, d, 1);
    for (size_t r = 0; r < rows; r++)
        weigh(room.scores + r * LANES, room.products + r * LANES, v16_set1(a->m[stat + r]), v16_set1(a->l[stat + r]),
              v16_set1(a->dots[stat + r]));
    span seen = {.begin = (ptrdiff_t)keys.base - (ptrdiff_t)query, .end = (ptrdiff_t)rows};
    chains(row_out(a->dv, keys.base, kv), a->dv.row_stride, keys.count, room.scores, dout, rows, d, seen);
    chains(row_out(a->dk, keys.base, kv), a->dk.row_stride, keys.count, room.products, q, rows, d, seen);
}

static void backward_keys_block(const ls_attention *a, size_t kv, size_t key, size_t count, float *scratch) {
    size_t d = a->head_size, group = a->heads / a->kv_heads;
    workspace room = carve(scratch, d);
    part parts[PARTS];
    size_t n = cut(parts, key, count);
    for (size_t p = 0; p < n; p++) {
        size_t at = p * LANES * d;
        pack(room.packed[0] + at, row_in(a->k, parts[p].base, kv), a->k.row_stride, parts[p].count, d);
        pack(room.packed[1] + at, row_in(a->v, parts[p].base, kv), a->v.row_stride, parts[p].count, d);
    }
    zero_rows(a->dk, key, count, kv, d);
    zero_rows(a->dv, key, count, kv, d);
    for (size_t head = kv * group; head < (kv + 1) * group; head++)
        for (size_t query = key; query < a->T; query += CHUNK) {
            size_t rows = gather_chunk(room.rows[0], a->q, query, a->T, head, d);
            gather_chunk(room.rows[1], a->dout, query, a->T, head, d);
            for (size_t p = 0; p < n; p++) {
                size_t skip = parts[p].base > query ? parts[p].base - query : 0;
                if (skip < rows) backward_keys_part(a, head, query + skip, skip, rows, parts[p], p, room);
            }
        }
    scale_rows(a->dk, key, count, kv, d, a->scale);
}

static void LSK_NAME(lsk_attention_backward_keys)(const ls_attention *a, size_t kv_head, size_t key_begin,
                                                  size_t key_end, float *scratch) {
    for (size_t key = key_begin; key < key_end; key += LS_ATTENTION_BLOCK)
        backward_keys_block(a, kv_head, key, min_size(LS_ATTENTION_BLOCK, key_end - key), scratch);
}

static void LSK_NAME(fill_attention)(ls_attention_kernels *t) {
    t->forward = LSK_NAME(lsk_attention_forward);
    t->backward_dots = LSK_NAME(lsk_attention_backward_dots);
    t->backward_queries = LSK_NAME(lsk_attention_backward_queries);
    t->backward_keys = LSK_NAME(lsk_attention_backward_keys);
}
