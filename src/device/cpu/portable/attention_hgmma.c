/* attention_hgmma.c: attention with the tensor cores of NVIDIA's GPUs, on any CPU; docs/reference/arithmetic.md,
 * "Attention", has the formulas.
 *
 * Eight queries (or keys) are worked on together, as many as a tile of the unit's sums has rows. What lies behind the
 * last of them, or behind the end of a granule, is +0, and no result of it is kept. Numbers of all types are 16 bits
 * here until a formula needs them in fp32. */
#include "base/cpu.h"
#include "base/rng.h"
#include "device/cpu/kernels.h"
#include "device/cpu/portable/exp2.h"
#include "device/cpu/portable/hgmma.h"
#include "device/cpu/simd/portable.h"

#define LSK_NAME(stem) stem##_portable
#include "device/cpu/simd/math.h"

enum { KEYS = 128 }; /* of a block of the running maximum */

/* A granule of each of eight rows. */
typedef struct granules {
    uint16_t row[TILE][GRANULE];
} granules;

static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* Rounds to the 16-bit type, to nearest even. */
static inline uint16_t rounded(float x, ls_dtype act) {
    return act == LS_BF16 ? ls_bf16_from_f32(x) : ls_f16_from_f32(x);
}

/* What a tensor is multiplied in: its type and the unit. */
typedef struct kind {
    ls_dtype act;
    ls_unit unit;
} kind;

/* Calls add_granules() with a format that the compiler knows. */
#define ADD_BY_KIND(c, ld, a, b, of)                                                                                   \
    do {                                                                                                               \
        if (ls_unit_granule((of).unit) == 8 && (of).act == LS_BF16)                                                    \
            add_granules(c, ld, a, b, ampere_bf16);                                                                    \
        else if (ls_unit_granule((of).unit) == 8)                                                                      \
            add_granules(c, ld, a, b, ampere_f16);                                                                     \
        else if ((of).act == LS_BF16)                                                                                  \
            add_granules(c, ld, a, b, format_bf16);                                                                    \
        else                                                                                                           \
            add_granules(c, ld, a, b, format_f16);                                                                     \
    } while (0)

/* Compiles add_granules() for any CPU. */
static void add_portable(float *c, size_t ld, const uint16_t *a, const uint16_t *b, kind of) {
    ADD_BY_KIND(c, ld, a, b, of);
}

#ifdef __x86_64__
/* Compiles add_granules() for AVX2, as in hgmma.c. */
__attribute__((target("avx2"))) static void add_avx2(float *c, size_t ld, const uint16_t *a, const uint16_t *b,
                                                     kind of) {
    ADD_BY_KIND(c, ld, a, b, of);
}
#else
#    define add_avx2 add_portable
#endif

/* Adds one granule to c[i][j] for row i of a and row j of b (eight of each, of GRANULE values), by the formula of the
 * unit. */
static void add(float *c, size_t ld, const uint16_t *a, const uint16_t *b, kind of) {
    if (ls_cpu_use(LS_ISA_AVX2))
        add_avx2(c, ld, a, b, of);
    else
        add_portable(c, ld, a, b, of);
}

/* A tensor of one head: `count` rows, `stride` elements apart. */
typedef struct rows {
    const uint16_t *at;
    size_t stride, count;
} rows;

/* Returns the first `count` rows of a head. */
static rows rows_of(ls_attention_in x, size_t head, size_t count) {
    return (rows){(const uint16_t *)x.at + head * x.head_stride, x.row_stride, count};
}

/* Returns elements i … of rows row …: a granule of each of eight rows. */
static granules take_along(rows x, size_t row, size_t i, size_t d) {
    granules to = {{{0}}};
    for (size_t r = 0; r < TILE && row + r < x.count; r++)
        memcpy(to.row[r], x.at + (row + r) * x.stride + i, min_size(GRANULE, d - i) * sizeof *x.at);
    return to;
}

/* Returns rows row … of elements i …: sixteen rows are a granule of each of eight elements. */
static granules take_across(rows x, size_t row, size_t i, size_t d) {
    granules to = {{{0}}};
    for (size_t r = 0; r < GRANULE && row + r < x.count; r++)
        for (size_t e = 0; e < TILE && i + e < d; e++) to.row[e][r] = x.at[(row + r) * x.stride + i + e];
    return to;
}

/* Computes the sums over d of eight rows of x with eight of y. */
static void dot_rows(float out[TILE][TILE], rows x, size_t x_row, rows y, size_t y_row, size_t d, kind of) {
    memset(out, 0, sizeof(float[TILE][TILE]));
    for (size_t i = 0; i < d; i += GRANULE) {
        granules a = take_along(x, x_row, i, d), b = take_along(y, y_row, i, d);
        add(out[0], TILE, a.row[0], b.row[0], of);
    }
}

/* Adds one granule of rows of x, times their weights, to sums[row][d up to TILE]. */
static void add_rows(float *sums, size_t stride, const granules *weights, rows x, size_t row, size_t d, kind of) {
    for (size_t i = 0; i < d; i += TILE) {
        granules elements = take_across(x, row, i, d);
        add(sums + i, stride, weights->row[0], elements.row[0], of);
    }
}

/* Returns what the tensors of this call are multiplied in. */
static kind kind_of(const ls_attention *a) { return (kind){a->act, a->unit}; }

/* Returns the dropout factor of a pair: 0 if it is dropped, else the scale; 1 without dropout. */
static float drop_factor(const ls_attention *a, size_t head, size_t query, size_t key) {
    uint64_t index = ((a->drop.head0 + head) * a->T + query) * a->T + key;
    if (!(a->drop.scale > 0)) return 1.0f;
    return ls_rng_u32(a->drop.key, index) < a->drop.threshold ? 0.0f : a->drop.scale;
}

/* Returns the scale of scores inside exp2. */
static float scale2_of(const ls_attention *a) { return (float)((double)a->scale * 0x1.71547652b82fep+0); }

/* Returns the floats of a row of sums: the head size rounded up to whole tiles. */
static size_t stride_of(const ls_attention *a) { return (a->head_size + TILE - 1) / TILE * TILE; }

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* Returns those of keys first … first+KEYS−1 that the query sees, counted from `first`. */
static ls_positions seen_of(const ls_attention *a, size_t query, size_t first) {
    ls_positions keys = ls_mask_keys(a->mask, (ls_positions){query, query + 1});
    size_t end = min_size(keys.end, first + KEYS);
    return (ls_positions){keys.begin > first ? keys.begin - first : 0, end > first ? end - first : 0};
}

/* A query on its way over the blocks of keys; lanes of l by (key mod 8) / 2. */
typedef struct progress {
    float m, l[4], alpha;
} progress;

/* Turns the scores of one query with a block of KEYS keys, of which it sees `seen`, into weights before the division by
 * l (0 for keys that it does not see). Updates m and l in *p, and sets p->alpha, by which the query's sums so far must
 * be multiplied. */
static void weigh(progress *p, float *scores, ls_positions seen, float scale2) {
    float m = p->m;
    if (seen.begin >= seen.end && m == -INFINITY) { /* before the first key that it sees */
        memset(scores, 0, KEYS * sizeof *scores);
        p->alpha = 1;
        return;
    }
    for (size_t k = 0; k < KEYS; k++) scores[k] = k >= seen.begin && k < seen.end ? scores[k] : -INFINITY;
    for (size_t k = 0; k < KEYS; k++) m = lsk_max(m, scores[k]);
    p->alpha = unit_exp2((p->m - m) * scale2);
    float shift = -m * scale2;
    p->m = m;
    for (int t = 0; t < 4; t++) p->l[t] *= p->alpha;
    for (size_t k = 0; k < KEYS; k++) scores[k] = unit_exp2(fmaf(scores[k], scale2, shift));
    for (size_t k = 0; k < KEYS; k += 2) p->l[k % 8 / 2] += scores[k] + scores[k + 1];
}

/* Continues up to eight queries from `query` on with a block of KEYS keys from first_key on: their progress p, and
 * sums[query][stride] = alpha·sums + weights·V, with the weights after dropout and rounded. */
static void forward_block(const ls_attention *a, size_t head, size_t query, size_t first_key, progress *p,
                          float *sums) {
    float scores[TILE][KEYS], some[TILE][TILE], scale2 = scale2_of(a);
    size_t kv = head / (a->heads / a->kv_heads), stride = stride_of(a), count = min_size(TILE, a->T - query);
    rows q = rows_of(a->q, head, a->T - a->first_query), k = rows_of(a->k, kv, a->T), v = rows_of(a->v, kv, a->T);
    for (size_t key = 0; key < KEYS; key += TILE) {
        dot_rows(some, q, query - a->first_query, k, first_key + key, a->head_size, kind_of(a));
        for (size_t r = 0; r < TILE; r++) memcpy(scores[r] + key, some[r], sizeof some[r]);
    }
    for (size_t r = 0; r < count; r++) {
        weigh(&p[r], scores[r], seen_of(a, query + r, first_key), scale2);
        for (size_t i = 0; i < stride; i++) sums[r * stride + i] *= p[r].alpha;
    }
    const ls_positions block = {first_key, first_key + KEYS},
                       keys = ls_mask_keys(a->mask, (ls_positions){query, query + count});
    size_t key = keys.begin > block.begin ? (keys.begin - block.begin) / GRANULE * GRANULE : 0;
    for (; key < KEYS && first_key + key < keys.end; key += GRANULE) {
        granules weights = {{{0}}};
        for (size_t r = 0; r < count; r++)
            for (size_t j = 0; j < GRANULE; j++) {
                float factor = ls_mask_sees(a->mask, query + r, first_key + key + j)
                                   ? drop_factor(a, head, query + r, first_key + key + j)
                                   : 1;
                weights.row[r][j] = rounded(scores[r][key + j] * factor, a->act);
            }
        add_rows(sums, stride, &weights, v, first_key + key, a->head_size, kind_of(a));
    }
}

/* Computes o, m and l of `count` ≤ TILE queries of a head; `sums` is scratch of TILE rows. m is the largest score
 * before the scale. */
static void forward_queries(const ls_attention *a, size_t head, size_t query, size_t count, float *sums) {
    progress p[TILE];
    size_t stride = stride_of(a), row = query - a->first_query;
    memset(sums, 0, TILE * stride * sizeof *sums);
    for (size_t r = 0; r < TILE; r++) p[r] = (progress){.m = -INFINITY};
    const ls_positions keys = ls_mask_keys(a->mask, (ls_positions){query, query + count});
    for (size_t key = keys.begin / KEYS * KEYS; key < keys.end; key += KEYS)
        forward_block(a, head, query, key, p, sums);
    for (size_t r = 0; r < count; r++) {
        float l = (p[r].l[0] + p[r].l[1]) + (p[r].l[2] + p[r].l[3]), inverse = 1.0f / l;
        uint16_t *o = (uint16_t *)a->o.at + (row + r) * a->o.row_stride + head * a->o.head_stride;
        for (size_t i = 0; i < a->head_size; i++) o[i] = rounded((sums[r * stride + i] + 0.0f) * inverse, a->act);
        a->m[head * a->stat_stride + row + r] = p[r].m;
        a->l[head * a->stat_stride + row + r] = l;
    }
}

/* ls_attention_kernels.forward. */
static void lsk_attention_forward_hgmma(const ls_attention *a, size_t head_begin, size_t head_end, size_t query_begin,
                                        size_t query_end, float *scratch) {
    prepare_exp2();
    for (size_t head = head_begin; head < head_end; head++)
        for (size_t query = query_begin; query < query_end; query += TILE)
            forward_queries(a, head, query, min_size(TILE, query_end - query), scratch);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* Computes the weights of eight queries with eight keys, rounded as matmuls read them: P after dropout, and dS. */
static void weights_of(const ls_attention *a, size_t head, size_t query, size_t key, uint16_t p[TILE][TILE],
                       uint16_t ds[TILE][TILE]) {
    float scores[TILE][TILE], dp[TILE][TILE], scale2 = scale2_of(a);
    size_t kv = head / (a->heads / a->kv_heads);
    dot_rows(scores, rows_of(a->q, head, a->T), query, rows_of(a->k, kv, a->T), key, a->head_size, kind_of(a));
    dot_rows(dp, rows_of(a->dout, head, a->T), query, rows_of(a->v, kv, a->T), key, a->head_size, kind_of(a));
    memset(p, 0, sizeof(uint16_t[TILE][TILE]));
    memset(ds, 0, sizeof(uint16_t[TILE][TILE]));
    for (size_t r = 0; r < TILE && query + r < a->T; r++) {
        size_t stat = head * a->stat_stride + query + r;
        float log2_l = v16_first(v16_log(v16_set1(a->l[stat]))) * 0x1.715476p+0f;
        float all = fmaf(a->m[stat], scale2, log2_l);
        for (size_t j = 0; j < TILE; j++) {
            if (!ls_mask_sees(a->mask, query + r, key + j)) continue;
            float weight = unit_exp2(fmaf(scores[r][j], scale2, -all)),
                  factor = drop_factor(a, head, query + r, key + j);
            p[r][j] = rounded(weight * factor, a->act);
            ds[r][j] = rounded(weight * (dp[r][j] * factor - a->dots[stat]), a->act);
        }
    }
}

/* Writes `count` rows of sums·scale, rounded, to rows `row` … of a head. */
static void write_rows(const ls_attention *a, ls_attention_out to, size_t head, size_t row, size_t count,
                       const float *sums, float scale) {
    for (size_t r = 0; r < count; r++) {
        uint16_t *at = (uint16_t *)to.at + (row + r) * to.row_stride + head * to.head_stride;
        for (size_t i = 0; i < a->head_size; i++) at[i] = rounded(sums[r * stride_of(a) + i] * scale, a->act);
    }
}

/* Computes dq of `count` ≤ TILE queries of a head; `sums` is scratch of TILE rows. */
static void query_grads(const ls_attention *a, size_t head, size_t query, size_t count, float *sums) {
    size_t kv = head / (a->heads / a->kv_heads), stride = stride_of(a);
    memset(sums, 0, TILE * stride * sizeof *sums);
    const ls_positions keys = ls_mask_keys(a->mask, (ls_positions){query, query + count});
    for (size_t key = keys.begin / GRANULE * GRANULE; key < keys.end; key += GRANULE) {
        granules weights;
        for (size_t half = 0; half < GRANULE; half += TILE) {
            uint16_t p[TILE][TILE], ds[TILE][TILE];
            weights_of(a, head, query, key + half, p, ds);
            for (size_t r = 0; r < TILE; r++) memcpy(weights.row[r] + half, ds[r], sizeof ds[r]);
        }
        add_rows(sums, stride, &weights, rows_of(a->k, kv, a->T), key, a->head_size, kind_of(a));
    }
    write_rows(a, a->dq, head, query, count, sums, a->scale);
}

/* Computes dk and dv of `count` ≤ TILE keys of a kv head, over all of its query heads in order; dk and dv are scratch
 * of TILE rows each. */
static void key_grads(const ls_attention *a, size_t kv, size_t key, size_t count, float *dk, float *dv) {
    size_t group = a->heads / a->kv_heads, stride = stride_of(a);
    const ls_positions queries = ls_mask_queries(a->mask, (ls_positions){key, key + count}, a->T);
    memset(dk, 0, TILE * stride * sizeof *dk);
    memset(dv, 0, TILE * stride * sizeof *dv);
    for (size_t head = kv * group; head < (kv + 1) * group; head++)
        for (size_t query = queries.begin / GRANULE * GRANULE; query < queries.end; query += GRANULE) {
            granules ps = {{{0}}}, dss = {{{0}}};
            for (size_t half = 0; half < GRANULE && query + half < a->T; half += TILE) {
                uint16_t p[TILE][TILE], ds[TILE][TILE];
                weights_of(a, head, query + half, key, p, ds);
                for (size_t r = 0; r < TILE; r++)
                    for (size_t j = 0; j < TILE; j++) {
                        ps.row[j][half + r] = p[r][j];
                        dss.row[j][half + r] = ds[r][j];
                    }
            }
            add_rows(dv, stride, &ps, rows_of(a->dout, head, a->T), query, a->head_size, kind_of(a));
            add_rows(dk, stride, &dss, rows_of(a->q, head, a->T), query, a->head_size, kind_of(a));
        }
    write_rows(a, a->dk, kv, key, count, dk, a->scale);
    write_rows(a, a->dv, kv, key, count, dv, 1.0f);
}

/* ls_attention_kernels.backward_queries. */
static void lsk_attention_backward_queries_hgmma(const ls_attention *a, size_t head_begin, size_t head_end,
                                                 size_t query_begin, size_t query_end, float *scratch) {
    prepare_exp2();
    for (size_t head = head_begin; head < head_end; head++)
        for (size_t query = query_begin; query < query_end; query += TILE)
            query_grads(a, head, query, min_size(TILE, query_end - query), scratch);
}

/* ls_attention_kernels.backward_keys. */
static void lsk_attention_backward_keys_hgmma(const ls_attention *a, size_t kv_head, size_t key_begin, size_t key_end,
                                              float *scratch) {
    prepare_exp2();
    for (size_t key = key_begin; key < key_end; key += TILE)
        key_grads(a, kv_head, key, min_size(TILE, key_end - key), scratch, scratch + TILE * stride_of(a));
}

/* ls_attention_kernels.backward, by the two above: keys first, then queries. */
static void lsk_attention_backward_hgmma(const ls_attention *a, size_t kv_head, float *scratch) {
    size_t group = a->heads / a->kv_heads;
    lsk_attention_backward_keys_hgmma(a, kv_head, 0, a->T, scratch);
    lsk_attention_backward_queries_hgmma(a, kv_head * group, (kv_head + 1) * group, 0, a->T, scratch);
}

void ls_attention_kernels_fill_hgmma(ls_attention_kernels *table) {
    table->forward = lsk_attention_forward_hgmma;
    table->backward = lsk_attention_backward_hgmma;
    table->backward_queries = lsk_attention_backward_queries_hgmma;
    table->backward_keys = lsk_attention_backward_keys_hgmma;
}
