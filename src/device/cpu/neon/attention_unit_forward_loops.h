/* attention_unit_forward_loops.h: o, m and l of a block of queries, with matmuls on BFMMLA.
 *
 * Included by attention.c, behind attention_loops.h and bfmmla_loops.h. Keys are the columns here, so that a row of
 * scores is one query and its lanes are those of sum16:
 *
 *     scores[query][key] = Q·Kᵀ             tiles of 8 queries and 12 keys, over granules of d
 *     m, p = exp(s − m), l, dropout         along the row; p is rounded on its way into a panel of 12 queries
 *     sums of [d][query] = Vᵀ·pᵀ            tiles of 8 elements and 12 queries, over granules of keys
 *
 * Keys that a query does not see have the score −inf and so the weight +0. Granules behind the last key that any query
 * of the panel sees are left out; those that only some queries see add zeros to the sums of the others. */

/* The scratch of a thread. */
typedef struct unit_forward {
    size_t keys;              /* that the queries of this call see */
    uint16_t *key_lines;      /* [panel of 12 keys][d/4][12][4] */
    uint16_t *value_elements; /* [tile of 8 elements][key/4][8][4] */
    uint16_t *query_lines;    /* [tile of 8 queries][d/4][8][4] */
    uint16_t *weights;        /* [panel of 12 queries][key/4][12][4] */
    float *scores;            /* [query][stride] */
    float *sums;              /* of a tile */
    float *rows;              /* [12][d up to 16] */
    size_t stride;
    size_t panel_elems; /* of `weights` */
} unit_forward;

/* Takes `elems` 16-bit numbers from the scratch. */
static uint16_t *take_halves(float **scratch, size_t elems) { return (uint16_t *)(void *)take(scratch, elems / 2); }

/* Divides the scratch for queries that see `keys` keys. */
static unit_forward carve_unit_forward(const ls_attention *a, size_t keys, float *scratch) {
    size_t along = up(a->head_size, UNIT_K), across = up(a->head_size, UNIT_A), whole = up(keys, LANES) + LANES;
    return (unit_forward){.keys = keys,
                          .key_lines = take_halves(&scratch, up(keys, UNIT_B) * along),
                          .value_elements = take_halves(&scratch, up(keys, UNIT_K) * across),
                          .query_lines = take_halves(&scratch, LS_ATTENTION_BLOCK * along),
                          .weights = take_halves(&scratch, LS_ATTENTION_BLOCK * whole),
                          .scores = take(&scratch, LS_ATTENTION_BLOCK * whole),
                          .sums = take(&scratch, UNIT_TILE),
                          .rows = take(&scratch, UNIT_B * up(a->head_size, LANES)),
                          .stride = whole,
                          .panel_elems = UNIT_B * whole};
}

/* Packs `rows` rows as panels of `width` lines each. */
static void pack_unit_lines(const ls_attention *a, uint16_t *panels, size_t width, ls_attention_in x, size_t row,
                            size_t head, size_t rows) {
    for (size_t r = 0; r < rows; r += width)
        unit_pack_lines(panels + r * up(a->head_size, UNIT_K), width, row_in(a, x, row + r, head), x.row_stride,
                        min_size(width, rows - r), a->head_size);
}

/* Computes the scores of `count` queries from `query` on, without the scale, with all keys that they see. */
static void score_unit_block(const ls_attention *a, const unit_forward *space, size_t query, size_t count) {
    size_t along = up(a->head_size, UNIT_K), granules = along / UNIT_K;
    for (size_t key = 0; key < query + count; key += UNIT_B)
        for (size_t r = key < query + UNIT_A ? 0 : (key - query) / UNIT_A * UNIT_A; r < count; r += UNIT_A)
            unit_rows(granules, space->query_lines + r * along, space->key_lines + key * along,
                      space->scores + r * space->stride + key, space->stride);
}

/* Returns the maximum of `elems` numbers, whole v16; NaN wins. */
static float highest_of(const float *x, size_t elems) {
    float32x4_t a = vld1q_f32(x), b = vld1q_f32(x + 4), c = vld1q_f32(x + 8), d = vld1q_f32(x + 12);
    for (size_t i = LANES; i < elems; i += LANES) {
        a = vmaxq_f32(a, vld1q_f32(x + i));
        b = vmaxq_f32(b, vld1q_f32(x + i + 4));
        c = vmaxq_f32(c, vld1q_f32(x + i + 8));
        d = vmaxq_f32(d, vld1q_f32(x + i + 12));
    }
    return v16_hmax((v16){a, b, c, d});
}

/* Returns exp(x) for x ≤ 0, +0 where the result is below 2^−126. A NaN that comes in is 0x7FC00000, as every NaN of
 * these sums is, and comes out as the same. */
LSK_INLINE v16 exp_below(v16 x) {
    return v16_select(v16_lt(x, v16_set1(-0x1.5d589ep+6f)), v16_set1(0.0f), lsk_exp_core(x));
}

/* Stores four granules of one line of a panel, rounded to bf16. */
UNIT_TARGET LSK_INLINE void store_granules(uint16_t *to, v16 p) {
    enum { STEP = UNIT_B * UNIT_K };
    vst1_u16(to, unit_round_four(p.q0));
    vst1_u16(to + STEP, unit_round_four(p.q1));
    vst1_u16(to + 2 * STEP, unit_round_four(p.q2));
    vst1_u16(to + 3 * STEP, unit_round_four(p.q3));
}

/* Stores exp(scale·score − m) of `elems` scores, whole v16, into one line of a panel, times `factors` if `drop`;
 * returns the lanes of l so far, before dropout. */
UNIT_TARGET LSK_INLINE v16 exponentials_of(uint16_t *line, const float *scores, size_t elems, float scale, float m,
                                           v16 lanes, const float *factors, const int drop) {
    for (size_t i = 0; i < elems; i += LANES) {
        v16 s = v16_mul(v16_set1(scale), v16_load(scores + i)), p = exp_below(v16_sub(s, v16_set1(m)));
        lanes = v16_add(lanes, p);
        if (drop) p = v16_mul(p, v16_load(factors + i));
        store_granules(line + i * UNIT_B, p);
    }
    return lanes;
}

/* Computes the weights of the query in row r of the block, stores them rounded into its line, and sets *m; returns l.
 * Behind its last key the line goes on with +0 as far as that of the panel's last query does. */
UNIT_TARGET static float weigh_unit_row(const ls_attention *a, const unit_forward *space, size_t head, size_t query,
                                        size_t r, float *m) {
    size_t keys = query + r + 1, elems = up(keys, LANES), end = up(query + (r / UNIT_B + 1) * UNIT_B, UNIT_K);
    float *scores = space->scores + r * space->stride, factors[LS_ATTENTION_KEYS];
    uint16_t *line = space->weights + r / UNIT_B * space->panel_elems + r % UNIT_B * UNIT_K;
    v16 lanes = v16_set1(0);
    for (size_t key = keys; key < elems; key++) scores[key] = -INFINITY;
    *m = a->scale * highest_of(scores, elems);
    if (!is_dropping(a)) {
        lanes = exponentials_of(line, scores, elems, a->scale, *m, lanes, NULL, 0);
    } else {
        for (size_t key = 0; key < elems; key += LS_ATTENTION_KEYS) {
            size_t n = min_size(LS_ATTENTION_KEYS, elems - key);
            make_factors(a, factors, head, query + r, key, min_size(n, keys - key));
            lanes = exponentials_of(line + key * UNIT_B, scores + key, n, a->scale, *m, lanes, factors, 1);
        }
    }
    for (size_t key = elems; key < end; key += UNIT_K) vst1_u16(line + key * UNIT_B, vdup_n_u16(0));
    return v16_sum(lanes);
}

/* Computes o of the panel of queries from row r of the block on. */
static void output_unit_panel(const ls_attention *a, const unit_forward *space, size_t head, size_t query, size_t r,
                              size_t count, const float *l) {
    size_t d = a->head_size, stride = up(d, LANES), keys = up(space->keys, UNIT_K), n = min_size(UNIT_B, count - r);
    size_t granules = up(query + r + n, UNIT_K) / UNIT_K;
    for (size_t i = 0; i < d; i += UNIT_A) {
        unit_sums(granules, space->value_elements + i * keys, space->weights + r / UNIT_B * space->panel_elems, 0,
                  space->sums);
        unit_untangle(space->rows + i, stride, space->sums);
    }
    for (size_t j = 0; j < n; j++)
        divided_row(row_out(a, a->o, query + r + j - a->first_query, head), a->act, space->rows + j * stride, l[r + j],
                    d);
}

/* Computes o, m and l of `count` queries of one head. */
static void forward_unit_block(const ls_attention *a, const unit_forward *space, size_t head, size_t query,
                               size_t count) {
    float l[LS_ATTENTION_BLOCK], m[LS_ATTENTION_BLOCK];
    size_t row = query - a->first_query, stat = head * a->stat_stride + row;
    pack_unit_lines(a, space->query_lines, UNIT_A, a->q, row, head, count);
    score_unit_block(a, space, query, count);
    for (size_t r = 0; r < count; r++) {
        l[r] = weigh_unit_row(a, space, head, query, r, &m[r]);
        a->m[stat + r] = m[r];
        a->l[stat + r] = l[r];
    }
    for (size_t r = 0; r < count; r += UNIT_B) output_unit_panel(a, space, head, query, r, count, l);
}

/* Computes o, m and l of a range of heads and queries, causal only: ls_attention_kernels.forward. */
static void lsk_attention_forward_bfmmla(const ls_attention *a, size_t head_begin, size_t head_end, size_t query_begin,
                                         size_t query_end, float *scratch) {
    if (query_begin == query_end) return;
    unit_forward space = carve_unit_forward(a, query_end, scratch);
    size_t packed = SIZE_MAX; /* the kv head whose keys and values lie in `space` */
    for (size_t head = head_begin; head < head_end; head++) {
        size_t kv = head / (a->heads / a->kv_heads);
        if (kv != packed) {
            pack_unit_lines(a, space.key_lines, UNIT_B, a->k, 0, kv, query_end);
            unit_pack_elements(space.value_elements, row_in(a, a->v, 0, kv), a->v.row_stride, query_end, a->head_size);
        }
        packed = kv;
        for (size_t query = query_begin; query < query_end; query += LS_ATTENTION_BLOCK)
            forward_unit_block(a, &space, head, query, min_size(LS_ATTENTION_BLOCK, query_end - query));
    }
}
