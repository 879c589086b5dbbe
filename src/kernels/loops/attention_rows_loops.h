/* attention_rows_loops.h: o, m and l of a single query: generation, where keys and values are read once and nothing is
 * shared.
 *
 * Included by attention_loops.h. Lanes are keys, so that the lanes of l are those of sum16. Keys go by in chunks,
 * turned so that a lane is a key; lanes behind the last key are −inf, and their weight is +0, which adds nothing to l.
 */

enum { ROWS_KEYS = 4 * LANES };

/* scores = scale·(chains of the query with turned keys), 64 of them. */
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

/* Scores of one query with keys 0 … keys−1, up to a whole chunk. */
static void score_row(const ls_attention *a, const engine *e, size_t kv, const float *query, size_t keys, float *turned,
                      float *scores) {
    size_t d = a->head_size;
    for (size_t key = 0; key < keys; key += ROWS_KEYS) {
        pack_rows(e, turned, LANES, row_in(a->k, key, kv), a->k.row_stride, min_size(ROWS_KEYS, keys - key), d);
        score_keys(scores + key, query, turned, d, a->scale);
    }
    for (size_t key = keys; key < up(keys, ROWS_KEYS); key++) scores[key] = -INFINITY;
}

static void forward_row(const ls_attention *a, const engine *e, size_t head, size_t query, float *scratch) {
    size_t d = a->head_size, kv = head / (a->heads / a->kv_heads), row = query - a->first_query, keys = query + 1;
    float *turned = scratch, *sums = turned + ROWS_KEYS * d, *scores = sums + up(d, LANES);
    score_row(a, e, kv, row_in(a->q, row, head), keys, turned, scores);
    v16 highest = v16_set1(-INFINITY), lanes = v16_set1(0);
    for (size_t key = 0; key < keys; key += LANES) highest = v16_max(highest, v16_load(scores + key));
    float m = v16_hmax(highest);
    for (size_t key = 0; key < keys; key += LANES) {
        v16 p = v16_exp(v16_sub(v16_load(scores + key), v16_set1(m)));
        v16_store(scores + key, p);
        lanes = v16_add(lanes, p);
    }
    float l = v16_sum(lanes), *o = row_out(a->o, row, head);
    if (is_dropping(a)) drop_row(a, scores, head, query, keys);
    for (size_t i = 0; i < up(d, LANES); i++) sums[i] = 0;
    for (size_t key = 0; key < keys; key += ROWS_KEYS)
        chain_row(sums, scores + key, 1, row_in(a->v, key, kv), a->v.row_stride, min_size(ROWS_KEYS, keys - key), d);
    for (size_t i = 0; i < d; i++) o[i] = sums[i] / l;
    a->m[head * a->stat_stride + row] = m;
    a->l[head * a->stat_stride + row] = l;
}

static void forward_rows(const ls_attention *a, size_t head_begin, size_t head_end, size_t query, float *scratch) {
    engine e = engine_make();
    for (size_t head = head_begin; head < head_end; head++) forward_row(a, &e, head, query, scratch);
}
