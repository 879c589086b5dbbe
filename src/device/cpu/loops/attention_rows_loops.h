/* attention_rows_loops.h: forward attention of a single query, as in generation, where queries share no keys or values.
 * Writes the output o and, for backward, the largest score m and the sum l of exp(score − m).
 *
 * Included by attention_loops.h. Keys are taken in chunks, transposed so that a lane is a key. So l is a sum16 (the
 * fixed order of 16 partial sums, docs/reference/arithmetic.md), the same bits as in attention of many queries. Scores
 * of keys that the query does not see are −inf; their weight is +0, which adds nothing to l. */

enum { ROWS_KEYS = 4 * LANES };

/* The scratch of a thread. */
typedef struct rows_space {
    float *turned; /* [d][key] of a chunk */
    float *query;  /* the query as fp32, if it is 16-bit */
    float *wide;   /* the same of keys or values: [key of a chunk][d rounded up to 16] */
    float *sums;   /* of values times weights: [d rounded up to 16] */
    float *scores; /* [T rounded up to ROWS_KEYS] */
} rows_space;

/* Divides the scratch, for a head of d elements; ls_attention_scratch_elems() must cover what it takes. */
static rows_space carve_rows(size_t d, float *scratch) {
    size_t row = up(d, LANES);
    float *query = scratch + ROWS_KEYS * d, *wide = query + row, *sums = wide + ROWS_KEYS * row;
    return (rows_space){scratch, query, wide, sums, sums + row};
}

/* Computes 64 scores: scale times the chains of the query with transposed keys. */
static void score_keys(float *scores, const float *query, const float *turned, size_t d, float scale) {
    v16 s0 = v16_set1(0), s1 = s0, s2 = s0, s3 = s0;
    for (size_t i = 0; i < d; i++) {
        v16 q = v16_set1(query[i]);
        s0 = v16_fma(q, v16_load(turned + i * LANES), s0);
        s1 = v16_fma(q, v16_load(turned + (d + i) * LANES), s1);
        s2 = v16_fma(q, v16_load(turned + (2 * d + i) * LANES), s2);
        s3 = v16_fma(q, v16_load(turned + (3 * d + i) * LANES), s3);
    }
    v16_store(scores, v16_mul(v16_set1(scale), s0));
    v16_store(scores + LANES, v16_mul(v16_set1(scale), s1));
    v16_store(scores + 2 * LANES, v16_mul(v16_set1(scale), s2));
    v16_store(scores + 3 * LANES, v16_mul(v16_set1(scale), s3));
}

/* Computes the scores of one query with these keys, in whole chunks; those of keys outside the range become −inf. */
static void score_row(const ls_attention *a, const engine *e, size_t kv, const float *query, ls_positions keys,
                      const rows_space *space) {
    size_t d = a->head_size, begin = keys.begin / ROWS_KEYS * ROWS_KEYS;
    float *scores = space->scores;
    for (size_t key = begin; key < keys.end; key += ROWS_KEYS) {
        size_t count = min_size(ROWS_KEYS, keys.end - key);
        pack_rows(e, space->turned, LANES, wide_rows_of(a, a->k, key, kv, count, space->wide), count, d);
        score_keys(scores + key, query, space->turned, d, a->scale);
    }
    for (size_t key = begin; key < keys.begin; key++) scores[key] = -INFINITY;
    for (size_t key = keys.end; key < up(keys.end, ROWS_KEYS); key++) scores[key] = -INFINITY;
}

/* Computes o, m and l of one query of one head. */
static void forward_row(const ls_attention *a, const engine *e, size_t head, size_t query, const rows_space *space) {
    size_t d = a->head_size, kv = head / (a->heads / a->kv_heads), row = query - a->first_query;
    const ls_positions keys = ls_mask_keys(a->mask, (ls_positions){query, query + 1});
    const size_t begin = keys.begin / LANES * LANES;
    float *scores = space->scores, *sums = space->sums;
    score_row(a, e, kv, wide_rows_of(a, a->q, row, head, 1, space->query).at, keys, space);
    v16 highest = v16_set1(-INFINITY), lanes = v16_set1(0);
    for (size_t key = begin; key < keys.end; key += LANES) highest = v16_max(highest, v16_load(scores + key));
    float m = v16_hmax(highest);
    for (size_t key = begin; key < keys.end; key += LANES) {
        v16 p = v16_exp(v16_sub(v16_load(scores + key), v16_set1(m)));
        v16_store(scores + key, p);
        lanes = v16_add(lanes, p);
    }
    float l = v16_sum(lanes);
    if (is_dropping(a)) drop_row(a, scores, head, query, keys.begin, keys.end);
    round_weights(scores + begin, up(keys.end, LANES) - begin, a->act);
    for (size_t i = 0; i < up(d, LANES); i++) sums[i] = 0;
    for (size_t key = keys.begin; key < keys.end; key += ROWS_KEYS) {
        size_t count = min_size(ROWS_KEYS, keys.end - key);
        chain_row(sums, scores + key, 1, wide_rows_of(a, a->v, key, kv, count, space->wide), 0, count, d);
    }
    divided_row(row_out(a, a->o, row, head), a->act, sums, l, d);
    a->m[head * a->stat_stride + row] = m;
    a->l[head * a->stat_stride + row] = l;
}

/* Computes o, m and l of one query for a range of heads. */
static void forward_rows(const ls_attention *a, size_t head_begin, size_t head_end, size_t query, float *scratch) {
    engine e = engine_make();
    rows_space space = carve_rows(a->head_size, scratch);
    for (size_t head = head_begin; head < head_end; head++) forward_row(a, &e, head, query, &space);
}
