/* attention_forward_loops.h: o, m and l of a block of queries.
 *
 * Included by attention_loops.h. A panel is nr queries, one in each column; keys run down its rows:
 *
 *     scores[key][nr]  = K·Qᵀ     tiles of mr keys; a chunk of keys at a time serves all panels
 *     m, p = exp(s − m), l        along the rows, flat: sixteen rows of keys are nr v16; then dropout of p
 *     outputs[d][nr]   = Vᵀ·p     chains over the keys that every query of the panel sees
 *
 * Before and behind these, each query takes the keys of the triangles, those that some queries of its panel do not see,
 * in a chain of its own. Masked scores are −inf: they raise no maximum, and their weight is +0, which adds nothing to
 * l.
 */

/* A panel: its columns are queries base … base+count−1. */
typedef struct panel {
    size_t base, count;
    ls_positions seen;   /* keys that one of the queries sees */
    ls_positions shared; /* keys that all of them see; where there are none, both ends are base + 1 */
    size_t first;        /* the chunk with the first key that is seen: scores begin here */
    float *scores;       /* [key][nr] */
    float *outputs;      /* [d up to mr][nr] */
    float *highest;      /* [STEP_MAX·16]: maxima of the scores so far, by place in a step */
} panel;

/* Flat loops over scores take `step` v16 at a time, whole rows of keys, so that a v16 of the step has the same queries
 * in every iteration. Panels are as small as four queries. */
enum { STEP_MAX = 4, PANELS_MAX = LS_ATTENTION_BLOCK / 4 };

/* Returns how many v16 a flat loop over scores takes at a time: a whole number of rows of nr. */
static size_t step_of(const engine *e) { return e->nr % 3 == 0 ? 3 : 4; }

/* Returns the keys of a chunk: whole tiles, and a multiple of sixteen. */
static size_t chunk_keys(const engine *e) {
    size_t unit = e->mr;
    while (unit % LANES != 0) unit += e->mr;
    assert(unit <= LS_ATTENTION_CHUNK);
    return LS_ATTENTION_CHUNK / unit * unit;
}

/* Sets the scores with keys key … key+rows−1 to −inf for queries of the panel that do not see the key. */
static void mask_scores(const ls_attention *a, const panel *p, size_t key, size_t rows, size_t nr) {
    for (size_t k = key; k < min_size(p->shared.begin, key + rows); k++)
        for (size_t j = behind(ls_mask_end_query(a->mask, k, a->T), p->base); j < p->count; j++)
            p->scores[k * nr + j] = -INFINITY;
    for (size_t k = max_size(key, p->shared.end); k < key + rows; k++) {
        size_t hidden = min_size(nr, k - p->base);
        for (size_t j = 0; j < hidden; j++) p->scores[k * nr + j] = -INFINITY;
        for (size_t j = k < a->T ? behind(ls_mask_end_query(a->mask, k, a->T), p->base) : nr; j < p->count; j++)
            p->scores[k * nr + j] = -INFINITY;
    }
}

/* Raises the running maxima, by place in a step, with `elems` more scores; `step` is a constant. */
LSK_INLINE void raise_highest(float *highest, const float *scores, size_t elems, const size_t step) {
    v16 best[STEP_MAX];
    UNROLL_ALL
    for (size_t j = 0; j < step; j++) best[j] = v16_load(highest + j * LANES);
    for (size_t i = 0; i < elems; i += step * LANES) {
        UNROLL_ALL
        for (size_t j = 0; j < step; j++) best[j] = v16_max(best[j], v16_load(scores + i + j * LANES));
    }
    UNROLL_ALL
    for (size_t j = 0; j < step; j++) v16_store(highest + j * LANES, best[j]);
}

/* Computes the scores of a panel with packed keys key … end−1, without the scale, masks them, and raises their
 * maxima. */
static void score_panel(const ls_attention *a, engine *e, const panel *p, const float *queries, const float *keys,
                        size_t key, size_t end) {
    size_t d = a->head_size, nr = e->nr, seen = min_size(end, p->seen.end), rows = up(seen - key, LANES);
    float *scores = p->scores + key * nr;
    for (size_t r = 0; r < seen - key; r += e->mr) product(e, d, keys + r * d, queries, 0, scores + r * nr, nr);
    mask_scores(a, p, key, rows, nr);
    if (step_of(e) == 3)
        raise_highest(p->highest, scores, rows * nr, 3);
    else
        raise_highest(p->highest, scores, rows * nr, 4);
}

/* Computes m of the queries of a panel from the maxima by place. The scale is positive, so it may be applied after the
 * maximum. */
static void find_maxima(float *m, const engine *e, const panel *p, float scale) {
    size_t nr = e->nr, rows = step_of(e) * LANES / nr;
    for (size_t j = 0; j < nr; j += LANES) {
        v16 best = v16_load(p->highest + j);
        for (size_t r = 1; r < rows; r++) best = v16_max(best, v16_load(p->highest + r * nr + j));
        v16_store(m + j, v16_mul(v16_set1(scale), best));
    }
}

/* Turns scores into exp(scale·score − m), in place; sums[16][nr] become the lanes of l. */
static void exponentials(float *scores, size_t rows, size_t nr, float scale, const float *m_by_place, size_t step,
                         float *sums) {
    for (size_t i = 0; i < LANES * nr; i++) sums[i] = 0;
    for (size_t r = 0; r < rows; r += LANES, scores += LANES * nr)
        for (size_t v = 0; v < nr; v += step)
            for (size_t j = 0; j < step; j++) {
                size_t at = (v + j) * LANES;
                v16 s = v16_mul(v16_set1(scale), v16_load(scores + at));
                v16 p = v16_exp(v16_sub(s, v16_load(m_by_place + j * LANES)));
                v16_store(scores + at, p);
                v16_store(sums + at, v16_add(v16_load(sums + at), p));
            }
}

/* Turns the scores of a panel into weights, and computes m and l of its queries; m and l have space for whole v16. */
static void weigh_panel(const engine *e, const panel *p, float scale, float *m, float *l) {
    float m_by_place[STEP_MAX * LANES], sums[LANES * LS_ATTENTION_TILE];
    size_t nr = e->nr, step = step_of(e);
    find_maxima(m, e, p, scale);
    for (size_t i = 0; i < step * LANES; i++) m_by_place[i] = m[i % nr];
    exponentials(p->scores + p->first * nr, up(p->seen.end, LANES) - p->first, nr, scale, m_by_place, step, sums);
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half * nr; i++) sums[i] = sums[i] + sums[half * nr + i];
    for (size_t j = 0; j < nr; j++) l[j] = sums[j];
}

/* Starts the outputs of a panel with the triangle of keys before those that all of its queries see. */
static void start_panel(const ls_attention *a, size_t kv, const engine *e, const panel *p, float *wide, float *rows) {
    size_t d = a->head_size, stride = up(d, LANES);
    for (size_t i = 0; i < e->nr * stride; i++) rows[i] = 0;
    for (size_t key = p->seen.begin; key < p->shared.begin; key += LS_ATTENTION_BLOCK) {
        size_t end = min_size(key + LS_ATTENTION_BLOCK, p->shared.begin);
        wide_rows values = wide_rows_of(a, a->v, key, kv, end - key, wide);
        for (size_t j = 0; j < p->count; j++) {
            size_t from = max_size(key, ls_mask_first_key(a->mask, p->base + j));
            if (from < end)
                chain_row(rows + j * stride, p->scores + from * e->nr + j, e->nr, values, from - key, end - from, d);
        }
    }
    transpose(e, p->outputs, e->nr, rows, stride, e->nr, d);
}

/* Continues the outputs with packed values key … end−1, as far as every query of the panel sees the key. */
static void output_panel(engine *e, const panel *p, const float *values, size_t key, size_t end, size_t d) {
    size_t from = max_size(key, p->shared.begin), n = min_size(end, p->shared.end) - from;
    for (size_t i = 0; i < d; i += e->mr)
        product(e, n, values + i * (end - key) + (from - key) * e->mr, p->scores + from * e->nr, from > p->seen.begin,
                p->outputs + i * e->nr, e->nr);
}

/* Finishes the outputs of a panel with the triangle of keys behind those that all its queries see, divides by l, and
 * stores o. Row `at` of `values` is that of the panel's first query. */
static void finish_panel(const ls_attention *a, size_t head, const engine *e, const panel *p, const float *l,
                         wide_rows values, size_t at, float *rows) {
    size_t d = a->head_size, stride = up(d, LANES);
    transpose(e, rows, stride, p->outputs, e->nr, d, e->nr);
    for (size_t j = 0; j < p->count; j++) {
        float *row = rows + j * stride;
        size_t query = p->base + j, from = max_size(p->shared.end, ls_mask_first_key(a->mask, query));
        if (from <= query)
            chain_row(row, p->scores + from * e->nr + j, e->nr, values, at + from - p->base, query + 1 - from, d);
        divided_row(row_out(a, a->o, p->base - a->first_query + j, head), a->act, row, l[j], d);
    }
}

/* The scratch of a thread, and the panels of the block of queries. */
typedef struct forward_space {
    size_t keys;        /* that the queries of this call see */
    int kept;           /* all keys and values are packed, else a chunk of them at a time */
    float *key_tiles;   /* [tile][d][mr] */
    float *value_tiles; /* [chunk][tile of d][key][mr] */
    float *queries;     /* [panel][d][nr] */
    float *rows;        /* [nr][d up to 16] */
    float *wide;        /* [key of a chunk][d up to 16], where 16-bit rows are widened */
    float *wide_values; /* [query][d up to 16]: those of the block */
    float *rest;        /* outputs and scores of the panels */
    panel panels[PANELS_MAX];
    float highest[PANELS_MAX][STEP_MAX * LANES + LS_ATTENTION_TILE]; /* a row may be read beyond a step */
    size_t count;
} forward_space;

/* Divides the scratch for queries that see `keys` keys; ls_attention_scratch_elems() must cover what it takes. */
static void carve_forward(forward_space *space, const ls_attention *a, const engine *e, size_t keys, float *scratch) {
    size_t d = a->head_size, chunk = chunk_keys(e), wide = wide_elems(a);
    space->keys = keys;
    space->kept = a->T <= LS_ATTENTION_KEPT / d;
    size_t kept = space->kept ? up(keys, chunk) : chunk;
    space->key_tiles = scratch;
    space->value_tiles = space->key_tiles + kept * d;
    space->queries = space->value_tiles + kept * up(d, e->mr);
    space->rows = space->queries + up(LS_ATTENTION_BLOCK, e->nr) * d;
    space->wide = space->rows + e->nr * up(d, LANES);
    space->wide_values = space->wide + LS_ATTENTION_CHUNK * wide;
    space->rest = space->wide_values + LS_ATTENTION_BLOCK * wide;
}

/* Cuts a block of `count` queries into panels, and resets their maxima. */
static void cut_panels(const ls_attention *a, forward_space *space, const engine *e, size_t query, size_t count) {
    size_t d = a->head_size, nr = e->nr, panels = (count + nr - 1) / nr;
    float *outputs = space->rest, *scores = outputs + panels * nr * up(d, e->mr);
    /* A tile may end behind the last key, and sixteen rows of keys are whole. */
    size_t rows = query + count + LANES + e->mr;
    space->count = panels;
    for (size_t i = 0; i < panels; i++) {
        const ls_positions queries = {query + i * nr, min_size(query + (i + 1) * nr, query + count)};
        const ls_positions seen = ls_mask_keys(a->mask, queries), shared = ls_mask_shared_keys(a->mask, queries);
        space->panels[i] = (panel){.base = queries.begin,
                                   .count = queries.end - queries.begin,
                                   .seen = seen,
                                   .shared = {min_size(shared.begin, shared.end), shared.end},
                                   .first = seen.begin / chunk_keys(e) * chunk_keys(e),
                                   .scores = scores + i * rows * nr,
                                   .outputs = outputs + i * nr * up(d, e->mr),
                                   .highest = space->highest[i]};
        for (size_t j = 0; j < STEP_MAX * LANES + LS_ATTENTION_TILE; j++) space->highest[i][j] = -INFINITY;
    }
}

/* Returns the end of the chunk of keys that begins with `key`. */
static size_t chunk_end(const forward_space *space, const engine *e, size_t key) {
    return min_size(key + chunk_keys(e), space->keys);
}

/* Packs the chunk of keys from `key` on, and returns its panels. */
static float *pack_keys(const ls_attention *a, const engine *e, size_t kv, size_t key, forward_space *space) {
    float *to = space->key_tiles + (space->kept ? key * a->head_size : 0);
    size_t count = chunk_end(space, e, key) - key;
    pack_rows(e, to, e->mr, wide_rows_of(a, a->k, key, kv, count, space->wide), count, a->head_size);
    return to;
}

/* Packs the chunk of values from `key` on, and returns its panels. */
static float *pack_values(const ls_attention *a, const engine *e, size_t kv, size_t key, forward_space *space) {
    float *to = space->value_tiles + (space->kept ? key * up(a->head_size, e->mr) : 0);
    size_t count = chunk_end(space, e, key) - key;
    pack_elements(e, to, e->mr, wide_rows_of(a, a->v, key, kv, count, space->wide), count, a->head_size);
    return to;
}

/* Computes the scores of all panels of the block. */
static void score_block(const ls_attention *a, engine *e, size_t kv, size_t keys, forward_space *space) {
    size_t d = a->head_size;
    for (size_t key = space->panels[0].first; key < keys; key += chunk_keys(e)) {
        const float *tiles = space->kept ? space->key_tiles + key * d : pack_keys(a, e, kv, key, space);
        for (size_t i = 0; i < space->count; i++)
            if (key >= space->panels[i].first && key < space->panels[i].seen.end)
                score_panel(a, e, &space->panels[i], space->queries + i * e->nr * d, tiles, key,
                            chunk_end(space, e, key));
    }
}

/* Computes the outputs of all panels, but for the triangles behind the shared keys. */
static void output_block(const ls_attention *a, engine *e, size_t kv, size_t keys, forward_space *space) {
    size_t d = a->head_size;
    for (size_t i = 0; i < space->count; i++)
        if (space->panels[i].seen.begin < space->panels[i].shared.begin)
            start_panel(a, kv, e, &space->panels[i], space->wide_values, space->rows);
    for (size_t key = space->panels[0].first; key < keys; key += chunk_keys(e)) {
        const float *tiles = space->kept ? space->value_tiles + key * up(d, e->mr) : pack_values(a, e, kv, key, space);
        size_t end = chunk_end(space, e, key);
        for (size_t i = 0; i < space->count; i++)
            if (max_size(key, space->panels[i].shared.begin) < min_size(end, space->panels[i].shared.end))
                output_panel(e, &space->panels[i], tiles, key, end, d);
    }
}

/* Computes o, m and l of a block of queries of one head. */
static void forward_block(const ls_attention *a, engine *e, size_t head, size_t query, size_t count,
                          forward_space *space) {
    size_t d = a->head_size, kv = head / (a->heads / a->kv_heads), row = query - a->first_query;
    float m[LS_ATTENTION_TILE], l[PANELS_MAX][LS_ATTENTION_TILE];
    cut_panels(a, space, e, query, count);
    pack_rows(e, space->queries, e->nr, wide_rows_of(a, a->q, row, head, count, space->wide), count, d);
    score_block(a, e, kv, query + count, space);
    for (size_t i = 0; i < space->count; i++) {
        const panel *p = &space->panels[i];
        weigh_panel(e, p, a->scale, m, l[i]);
        if (is_dropping(a)) drop_panel(a, e, p->scores, head, p->base, p->count, p->first);
        round_weights(p->scores + p->first * e->nr, (up(p->seen.end, LANES) - p->first) * e->nr, a->act);
        size_t stat = head * a->stat_stride + p->base - a->first_query;
        for (size_t j = 0; j < p->count; j++) a->m[stat + j] = m[j];
        for (size_t j = 0; j < p->count; j++) a->l[stat + j] = l[i][j];
    }
    output_block(a, e, kv, query + count, space);
    wide_rows values = wide_rows_of(a, a->v, query, kv, count, space->wide_values);
    for (size_t i = 0; i < space->count; i++)
        finish_panel(a, head, e, &space->panels[i], l[i], values, i * e->nr, space->rows);
}

/* Computes o, m and l of a range of heads and queries; keys of a kv head are packed once for all its heads if they
 * fit. */
static void forward_panels(const ls_attention *a, size_t head_begin, size_t head_end, size_t query_begin,
                           size_t query_end, float *scratch) {
    engine e = engine_make();
    forward_space space;
    carve_forward(&space, a, &e, query_end, scratch);
    size_t packed = SIZE_MAX; /* the kv head whose keys and values lie in `space` */
    for (size_t head = head_begin; head < head_end; head++) {
        size_t kv = head / (a->heads / a->kv_heads);
        for (size_t key = 0; space.kept && kv != packed && key < query_end; key = chunk_end(&space, &e, key)) {
            pack_keys(a, &e, kv, key, &space);
            pack_values(a, &e, kv, key, &space);
        }
        packed = kv;
        for (size_t query = query_begin; query < query_end; query += LS_ATTENTION_BLOCK)
            forward_block(a, &e, head, query, min_size(LS_ATTENTION_BLOCK, query_end - query), &space);
    }
}

/* Computes o, m and l: ls_attention_kernels.forward. One query alone (generation) goes to attention_rows_loops.h. */
static void LSK_NAME(lsk_attention_forward)(const ls_attention *a, size_t head_begin, size_t head_end,
                                            size_t query_begin, size_t query_end, float *scratch) {
    if (query_end - query_begin == 1)
        forward_rows(a, head_begin, head_end, query_begin, scratch);
    else if (query_begin < query_end)
        forward_panels(a, head_begin, head_end, query_begin, query_end, scratch);
}
