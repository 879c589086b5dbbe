/* attention_backward_loops.h: attention's backward: dots, dq, dk and dv.
 *
 * Included by attention_loops.h. All memory is the caller's scratch. A block of keys is combined with a block of
 * queries of one head. Keys are the columns of panels of nr, queries their rows:
 *
 *     weights[query][nr] = Q·Kᵀ, then P      gradients[query][nr] = dO·Vᵀ, then dS
 *     dk and dv, as [d][nr], continue with Qᵀ·dS and dOᵀ·P  chains over the queries that see all keys of the panel
 *     dq, as [query][d], continues with dS·K                chains over the keys that all queries of a tile see
 *
 * With dropout, dO·Vᵀ is multiplied by the dropout factors before dS is computed, and P after that.
 *
 * The mask leaves triangles: pairs at the begin and the end of a panel or tile that only some of its rows see. They are
 * computed in chains (sums in ascending order, one fma after another) row by row. Blocks of
 * queries ascend for a block of keys, and blocks of keys ascend for a query; dq of a query is kept until the next block
 * of keys, in its place if that is fp32, else in `sums`. */

/* The scratch of a thread, and the blocks of keys and queries that are packed there. */
typedef struct backward_space {
    size_t key, keys, query, queries;      /* the blocks: where they begin and how many rows they have */
    float *key_columns, *value_columns;    /* [panel][d][nr] */
    float *key_elements;                   /* [panel of d][key][nr] */
    float *query_columns, *dout_columns;   /* [tile][d][mr] */
    float *query_elements, *dout_elements; /* [tile of d][query][mr] */
    float *weights, *gradients;            /* [panel][query up to mr][nr] */
    float *factors;                        /* the same; of dropout */
    float *turned;                         /* gradients of a tile of queries as [key][mr] */
    float *dk, *dv;                        /* [panel][d up to mr][nr] */
    float *dq;                             /* [query up to mr][d up to whole panels and v16] */
    float *m, *l, *dots;                   /* [query up to mr][nr]: the same number in every column */
    float *rows;                           /* [nr][d up to 16] */
    float *wide_keys, *wide_values;        /* [key][d up to 16]: 16-bit rows, widened */
    float *wide_queries, *wide_douts;      /* [query][d up to 16] */
    wide_rows key_rows;                    /* of the blocks */
    wide_rows query_rows, dout_rows;
    float *sums; /* [head of the kv head][T][d up to 16]: unfinished dq in fp32, for 16-bit tensors */
} backward_space;

/* Returns the next `elems` floats of the scratch, and advances *scratch behind them by whole v16. */
static float *take(float **scratch, size_t elems) {
    float *at = *scratch;
    *scratch += up(elems, LANES);
    return at;
}

/* Returns the floats of a row of space->dq. */
static size_t dq_stride(const engine *e, size_t d) { return up(up(d, e->nr), LANES); }

/* Divides the scratch; ls_attention_scratch_elems() in kernels.h must cover what it takes. */
static backward_space carve_backward(const ls_attention *a, const engine *e, float *scratch) {
    size_t d = a->head_size, wide = wide_elems(a);
    size_t columns = up(LS_ATTENTION_KEYS, e->nr), rows = up(LS_ATTENTION_BLOCK, e->mr), tiled = up(d, e->mr);
    return (backward_space){.key_columns = take(&scratch, columns * d),
                            .value_columns = take(&scratch, columns * d),
                            .key_elements = take(&scratch, LS_ATTENTION_KEYS * up(d, e->nr)),
                            .query_columns = take(&scratch, rows * d),
                            .dout_columns = take(&scratch, rows * d),
                            .query_elements = take(&scratch, LS_ATTENTION_BLOCK * tiled),
                            .dout_elements = take(&scratch, LS_ATTENTION_BLOCK * tiled),
                            .weights = take(&scratch, columns * rows),
                            .gradients = take(&scratch, columns * rows),
                            .factors = take(&scratch, columns * rows),
                            .turned = take(&scratch, columns * e->mr),
                            .dk = take(&scratch, columns * tiled),
                            .dv = take(&scratch, columns * tiled),
                            .dq = take(&scratch, rows * dq_stride(e, d)),
                            .m = take(&scratch, rows * e->nr),
                            .l = take(&scratch, rows * e->nr),
                            .dots = take(&scratch, rows * e->nr),
                            .rows = take(&scratch, e->nr * up(d, LANES)),
                            .wide_keys = take(&scratch, LS_ATTENTION_KEYS * wide),
                            .wide_values = take(&scratch, LS_ATTENTION_KEYS * wide),
                            .wide_queries = take(&scratch, LS_ATTENTION_BLOCK * wide),
                            .wide_douts = take(&scratch, LS_ATTENTION_BLOCK * wide),
                            .sums = scratch};
}

/* ---- packing ----------------------------------------------------------------------------------------------------- */

/* Packs a block of keys and values of a kv head into `space`. `for_dq`: keys also in the layout that dq needs. */
static void open_keys(const ls_attention *a, const engine *e, size_t kv, size_t key, size_t keys, int for_dq,
                      backward_space *space) {
    size_t d = a->head_size;
    space->key = key;
    space->keys = keys;
    space->key_rows = wide_rows_of(a, a->k, key, kv, keys, space->wide_keys);
    pack_rows(e, space->key_columns, e->nr, space->key_rows, keys, d);
    pack_rows(e, space->value_columns, e->nr, wide_rows_of(a, a->v, key, kv, keys, space->wide_values), keys, d);
    if (for_dq) pack_elements(e, space->key_elements, e->nr, space->key_rows, keys, d);
}

/* Repeats each number nr times: one for every column of a panel. */
static void spread(float *to, const float *from, size_t rows, size_t nr) {
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < nr; j++) to[r * nr + j] = from[r];
}

/* Packs a block of queries of a head, their dO and statistics into `space`. `for_keys`: also in the layout that dk and
 * dv need. */
static void open_queries(const ls_attention *a, const engine *e, size_t head, size_t query, size_t queries,
                         int for_keys, backward_space *space) {
    size_t d = a->head_size, stat = head * a->stat_stride + query;
    space->query = query;
    space->queries = queries;
    space->query_rows = wide_rows_of(a, a->q, query, head, queries, space->wide_queries);
    space->dout_rows = wide_rows_of(a, a->dout, query, head, queries, space->wide_douts);
    pack_rows(e, space->query_columns, e->mr, space->query_rows, queries, d);
    pack_rows(e, space->dout_columns, e->mr, space->dout_rows, queries, d);
    spread(space->m, a->m + stat, queries, e->nr);
    spread(space->l, a->l + stat, queries, e->nr);
    spread(space->dots, a->dots + stat, queries, e->nr);
    if (!for_keys) return;
    pack_elements(e, space->query_elements, e->mr, space->query_rows, queries, d);
    pack_elements(e, space->dout_elements, e->mr, space->dout_rows, queries, d);
}

/* Returns which columns of the block of keys these keys are; clipped to the block, so it may be empty. */
static ls_positions columns_of(const backward_space *space, ls_positions keys) {
    return (ls_positions){min_size(behind(keys.begin, space->key), space->keys),
                          min_size(behind(keys.end, space->key), space->keys)};
}

/* Returns the columns of the block of keys that row r of the block of queries sees. */
static ls_positions columns_of_row(const ls_attention *a, const backward_space *space, size_t r) {
    size_t query = space->query + r;
    return columns_of(space, ls_mask_keys(a->mask, (ls_positions){query, query + 1}));
}

/* ---- weights and their gradients --------------------------------------------------------------------------------- */

/* Computes the dropout factors (the scale or +0) of all pairs of the two blocks. */
static void make_block_factors(const ls_attention *a, const engine *e, size_t head, const backward_space *space) {
    size_t nr = e->nr, rows = up(space->queries, e->mr);
    float row[LS_ATTENTION_KEYS + LS_ATTENTION_TILE] = {0}; /* panels are whole */
    for (size_t r = 0; r < space->queries; r++) {
        size_t n = columns_of_row(a, space, r).end;
        if (n > 0) make_factors(a, row, head, space->query + r, space->key, n);
        for (size_t j = 0; j < n; j += nr) memcpy(space->factors + j * rows + r * nr, row + j, nr * sizeof *row);
    }
}

/* Turns scores and dO·Vᵀ, in place, into P = exp(s − m) / l and dS = P·(dP − D); with dropout into P·f and P·(f·dP −
 * D). `drop` is a constant. */
LSK_INLINE void weigh(const backward_space *space, size_t at, size_t stats, size_t elems, float scale, const int drop) {
    float *weights = space->weights + at, *gradients = space->gradients + at;
    const float *m = space->m + stats, *l = space->l + stats, *dots = space->dots + stats,
                *factors = space->factors + at;
    for (size_t i = 0; i < elems; i += LANES) {
        v16 s = v16_mul(v16_set1(scale), v16_load(weights + i)), dp = v16_load(gradients + i);
        v16 p = v16_div(v16_exp(v16_sub(s, v16_load(m + i))), v16_load(l + i));
        if (drop) dp = v16_mul(v16_load(factors + i), dp);
        v16_store(gradients + i, v16_mul(p, v16_sub(dp, v16_load(dots + i))));
        v16_store(weights + i, drop ? v16_mul(p, v16_load(factors + i)) : p);
    }
}

/* Runs weigh() without dropout. */
static void weigh_all(const backward_space *space, size_t at, size_t stats, size_t elems, float scale) {
    weigh(space, at, stats, elems, scale, 0);
}

/* Runs weigh() with dropout. */
static void weigh_kept(const backward_space *space, size_t at, size_t stats, size_t elems, float scale) {
    weigh(space, at, stats, elems, scale, 1);
}

/* Returns the rows of the block of queries that see at least one key of the panel of columns from j on; with `all`,
 * those that see all keys of it. */
static ls_positions rows_seeing(const ls_attention *a, const engine *e, const backward_space *space, size_t j,
                                int all) {
    const ls_positions keys = {space->key + j, space->key + min_size(j + e->nr, space->keys)};
    ls_positions queries = (all ? ls_mask_shared_queries : ls_mask_queries)(a->mask, keys, a->T);
    return (ls_positions){behind(queries.begin, space->query),
                          min_size(behind(queries.end, space->query), space->queries)};
}

/* Computes P and dS of the pairs of the two blocks, rounded as matmuls read them, for tiles of queries that see a key
 * of the panel. */
static void weigh_blocks(const ls_attention *a, engine *e, size_t head, const backward_space *space) {
    size_t d = a->head_size, mr = e->mr, nr = e->nr, rows = up(space->queries, mr);
    if (is_dropping(a)) make_block_factors(a, e, head, space);
    for (size_t j = 0; j < space->keys; j += nr) {
        const ls_positions seeing = rows_seeing(a, e, space, j, 0);
        size_t first = seeing.begin / mr * mr, last = up(seeing.end, mr), at = j * rows;
        for (size_t r = first; r < last; r += mr) {
            product(e, d, space->query_columns + r * d, space->key_columns + j * d, 0, space->weights + at + r * nr,
                    nr);
            product(e, d, space->dout_columns + r * d, space->value_columns + j * d, 0, space->gradients + at + r * nr,
                    nr);
        }
        if (first >= last) continue;
        size_t elems = (last - first) * nr;
        at += first * nr;
        (is_dropping(a) ? weigh_kept : weigh_all)(space, at, first * nr, elems, a->scale);
        round_weights(space->weights + at, elems, a->act);
        round_weights(space->gradients + at, elems, a->act);
    }
}

/* ---- dk and dv --------------------------------------------------------------------------------------------------- */

/* Continues sums[d][nr] (dk or dv) of the panel of keys from column `column` on with the rows `range` of the queries,
 * each of which sees only some of the keys. */
static void key_triangle(const ls_attention *a, const engine *e, const backward_space *space, size_t column,
                         float *sums, const float *weights, wide_rows x, ls_positions range) {
    size_t d = a->head_size, nr = e->nr, stride = up(d, LANES);
    float *rows = space->rows;
    transpose(e, rows, stride, sums, nr, d, nr);
    for (size_t j = 0; j < min_size(nr, space->keys - column); j++) {
        const size_t key = space->key + column + j;
        size_t from = max_size(behind(key, space->query), range.begin);
        size_t end = min_size(behind(ls_mask_end_query(a->mask, key, a->T), space->query), range.end);
        if (from < end) chain_row(rows + j * stride, weights + from * nr + j, nr, x, from, end - from, d);
    }
    transpose(e, sums, nr, rows, stride, nr, d);
}

/* Continues dk and dv of a panel with such rows by key_triangle(). */
static void key_triangles(const ls_attention *a, const engine *e, const backward_space *space, size_t column,
                          ls_positions range) {
    size_t at = column * up(space->queries, e->mr), sums = column * up(a->head_size, e->mr);
    if (range.begin >= range.end) return;
    key_triangle(a, e, space, column, space->dv + sums, space->weights + at, space->dout_rows, range);
    key_triangle(a, e, space, column, space->dk + sums, space->gradients + at, space->query_rows, range);
}

/* Continues dk and dv of the block of keys with the block of queries. */
static void add_to_keys(const ls_attention *a, engine *e, const backward_space *space) {
    size_t d = a->head_size, mr = e->mr, nr = e->nr, rows = up(space->queries, mr);
    for (size_t j = 0; j < space->keys; j += nr) {
        const ls_positions some = rows_seeing(a, e, space, j, 0), all = rows_seeing(a, e, space, j, 1);
        size_t at = j * rows, sums = j * up(d, mr);
        size_t first = min_size(all.begin, some.end), n = behind(all.end, first);
        if (some.begin >= some.end) continue;
        key_triangles(a, e, space, j, (ls_positions){some.begin, first});
        for (size_t i = 0; i < d && n > 0; i += mr) {
            size_t from = i * space->queries + first * mr;
            product(e, n, space->dout_elements + from, space->weights + at + first * nr, 1, space->dv + sums + i * nr,
                    nr);
            product(e, n, space->query_elements + from, space->gradients + at + first * nr, 1,
                    space->dk + sums + i * nr, nr);
        }
        key_triangles(a, e, space, j, (ls_positions){first + n, some.end});
    }
}

/* Sets floats to +0. */
static void zero(float *x, size_t elems) {
    for (size_t i = 0; i < elems; i++) x[i] = 0;
}

/* Starts dk and dv of the block of keys from +0. */
static void start_keys(const ls_attention *a, const engine *e, backward_space *space) {
    size_t elems = up(space->keys, e->nr) * up(a->head_size, e->mr);
    zero(space->dk, elems);
    zero(space->dv, elems);
}

/* Stores the sums of the block of keys (dk or dv) times `scale`, rounded to the tensor's type. */
static void store_keys(const ls_attention *a, const engine *e, size_t kv, const float *sums, ls_attention_out to,
                       float scale, const backward_space *space) {
    size_t d = a->head_size, stride = up(d, LANES), nr = e->nr;
    for (size_t j = 0; j < space->keys; j += nr) {
        transpose(e, space->rows, stride, sums + j * up(d, e->mr), nr, d, nr);
        for (size_t r = 0; r < min_size(nr, space->keys - j); r++)
            scaled_row(row_out(a, to, space->key + j + r, kv), a->act, space->rows + r * stride, scale, d);
    }
}

/* Stores dv, and dk times the scale of attention. */
static void finish_keys(const ls_attention *a, const engine *e, size_t kv, const backward_space *space) {
    store_keys(a, e, kv, space->dv, a->dv, 1, space);
    store_keys(a, e, kv, space->dk, a->dk, a->scale, space);
}

/* ---- dq ---------------------------------------------------------------------------------------------------------- */

/* Transposes the gradients of the tile of queries from row r on to [key][mr], for `keys` keys. */
static void turn_gradients(const engine *e, const backward_space *space, float *turned, size_t r, size_t keys) {
    size_t rows = up(space->queries, e->mr), nr = e->nr;
    for (size_t j = 0; j < keys; j += nr)
        transpose(e, turned + j * e->mr, e->mr, space->gradients + j * rows + r * nr, nr, e->mr,
                  min_size(nr, keys - j));
}

/* Continues dq of row r with keys begin … end−1 of the block, which this row sees but not all rows of its tile do. */
static void query_triangle(const ls_attention *a, const engine *e, const backward_space *space, size_t r, size_t begin,
                           size_t end, float *dq) {
    size_t rows = up(space->queries, e->mr), nr = e->nr, d = a->head_size;
    for (size_t k = begin; k < end;) {
        size_t panel_end = min_size(end, (k / nr + 1) * nr);
        chain_row(dq, space->gradients + k / nr * nr * rows + r * nr + k % nr, 1, space->key_rows, k, panel_end - k, d);
        k = panel_end;
    }
}

/* Continues dq of the block of queries, in `space`, with the block of keys; goes_on 0: starts from +0. */
static void add_to_queries(const ls_attention *a, engine *e, int goes_on, const backward_space *space) {
    size_t d = a->head_size, mr = e->mr, nr = e->nr, stride = dq_stride(e, d);
    for (size_t r = 0; r < space->queries; r += mr) {
        const size_t end = min_size(r + mr, space->queries);
        const ls_positions queries = {space->query + r, space->query + end};
        const ls_positions all = columns_of(space, ls_mask_shared_keys(a->mask, queries));
        size_t first = min_size(all.begin, all.end), n = all.end - first;
        int has_sum = goes_on;
        if (columns_of_row(a, space, r).begin < first) {
            if (!has_sum) zero(space->dq + r * stride, (end - r) * stride);
            for (size_t j = r; j < end; j++) {
                size_t from = columns_of_row(a, space, j).begin;
                if (from < first) query_triangle(a, e, space, j, from, first, space->dq + j * stride);
            }
            has_sum = 1;
        }
        turn_gradients(e, space, space->turned, r, all.end);
        for (size_t i = 0; i < d; i += nr)
            product(e, n, space->turned + first * mr, space->key_elements + i * space->keys + first * nr, has_sum,
                    space->dq + r * stride + i, stride);
        for (size_t j = r; j < end; j++) {
            const ls_positions keys = columns_of_row(a, space, j);
            size_t from = max_size(keys.begin, all.end);
            if (from < keys.end) query_triangle(a, e, space, j, from, keys.end, space->dq + j * stride);
        }
    }
}

/* Returns where the unfinished dq of a query is kept between blocks of keys: in the output if that is fp32, else in the
 * scratch. */
static float *dq_row(const ls_attention *a, const backward_space *space, size_t head, size_t query) {
    if (a->act == LS_F32) return row_out(a, a->dq, query, head);
    return space->sums + (head % (a->heads / a->kv_heads) * a->T + query) * up(a->head_size, LANES);
}

/* Loads the unfinished dq of the block of queries. */
static void load_queries(const ls_attention *a, const engine *e, size_t head, const backward_space *space) {
    size_t stride = dq_stride(e, a->head_size);
    for (size_t r = 0; r < space->queries; r++)
        scaled_row(space->dq + r * stride, LS_F32, dq_row(a, space, head, space->query + r), 1, a->head_size);
}

/* Keeps the unfinished dq of the block of queries for the next block of keys. */
static void keep_queries(const ls_attention *a, const engine *e, size_t head, const backward_space *space) {
    size_t stride = dq_stride(e, a->head_size);
    for (size_t r = 0; r < space->queries; r++)
        scaled_row(dq_row(a, space, head, space->query + r), LS_F32, space->dq + r * stride, 1, a->head_size);
}

/* Stores the finished dq of the block, times the scale of attention and rounded. */
static void store_queries(const ls_attention *a, const engine *e, size_t head, const backward_space *space) {
    size_t stride = dq_stride(e, a->head_size);
    for (size_t r = 0; r < space->queries; r++)
        scaled_row(row_out(a, a->dq, space->query + r, head), a->act, space->dq + r * stride, a->scale, a->head_size);
}

/* Returns whether dq of the queries from `query` on already has terms of blocks of keys before the one that begins with
 * `key`. */
static int has_earlier_keys(const ls_attention *a, size_t query, size_t key) {
    return ls_mask_first_key(a->mask, query) / LS_ATTENTION_KEYS * LS_ATTENTION_KEYS < key;
}

/* Returns one more than the last query that sees one of these keys. */
static size_t end_query(const ls_attention *a, size_t key, size_t keys) {
    return ls_mask_queries(a->mask, (ls_positions){key, key + keys}, a->T).end;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* Computes dots = sum16 of dO·O for each query and head: ls_attention_kernels.backward_dots. */
static void LSK_NAME(lsk_attention_backward_dots)(const ls_attention *a, size_t head_begin, size_t head_end,
                                                  size_t query_begin, size_t query_end) {
    for (size_t head = head_begin; head < head_end; head++)
        for (size_t query = query_begin; query < query_end; query++) {
            const void *dout = row_in(a, a->dout, query, head), *o = row_out(a, a->o, query, head);
            v16 sum = v16_set1(0);
            for (size_t i = 0; i < a->head_size; i += LANES) {
                size_t n = part_of(a->head_size - i);
                sum = v16_fma(widened(dout, i, n, a->act), widened(o, i, n, a->act), sum);
            }
            a->dots[head * a->stat_stride + query] = v16_sum(sum);
        }
}

/* Computes dq of the heads of one kv head, and its dk and dv: ls_attention_kernels.backward. */
static void LSK_NAME(lsk_attention_backward)(const ls_attention *a, size_t kv, float *scratch) {
    size_t T = a->T, group = a->heads / a->kv_heads;
    engine e = engine_make();
    backward_space space = carve_backward(a, &e, scratch);
    for (size_t key = 0; key < T; key += LS_ATTENTION_KEYS) {
        open_keys(a, &e, kv, key, min_size(LS_ATTENTION_KEYS, T - key), 1, &space);
        start_keys(a, &e, &space);
        for (size_t head = kv * group; head < (kv + 1) * group; head++)
            for (size_t query = key; query < end_query(a, key, space.keys); query += LS_ATTENTION_BLOCK) {
                int goes_on = has_earlier_keys(a, query, key);
                open_queries(a, &e, head, query, min_size(LS_ATTENTION_BLOCK, T - query), 1, &space);
                weigh_blocks(a, &e, head, &space);
                add_to_keys(a, &e, &space);
                if (goes_on) load_queries(a, &e, head, &space);
                add_to_queries(a, &e, goes_on, &space);
                (query + space.queries <= key + space.keys ? store_queries : keep_queries)(a, &e, head, &space);
            }
        finish_keys(a, &e, kv, &space);
    }
}

/* Computes dq of one block of queries of a head, over all keys that they see. */
static void backward_queries_block(const ls_attention *a, size_t head, size_t query, size_t queries, float *scratch) {
    size_t kv = head / (a->heads / a->kv_heads), end = query + queries;
    engine e = engine_make();
    backward_space space = carve_backward(a, &e, scratch);
    open_queries(a, &e, head, query, queries, 0, &space);
    size_t first = ls_mask_first_key(a->mask, query) / LS_ATTENTION_KEYS * LS_ATTENTION_KEYS;
    for (size_t key = first; key < end; key += LS_ATTENTION_KEYS) {
        open_keys(a, &e, kv, key, min_size(LS_ATTENTION_KEYS, end - key), 1, &space);
        weigh_blocks(a, &e, head, &space);
        add_to_queries(a, &e, key > first, &space);
    }
    store_queries(a, &e, head, &space);
}

/* Computes dq of a range of heads and queries: ls_attention_kernels.backward_queries. */
static void LSK_NAME(lsk_attention_backward_queries)(const ls_attention *a, size_t head_begin, size_t head_end,
                                                     size_t query_begin, size_t query_end, float *scratch) {
    for (size_t head = head_begin; head < head_end; head++)
        for (size_t query = query_begin; query < query_end; query += LS_ATTENTION_BLOCK)
            backward_queries_block(a, head, query, min_size(LS_ATTENTION_BLOCK, query_end - query), scratch);
}

/* Computes dk and dv of one block of keys, over all queries of the kv head's heads. */
static void backward_keys_block(const ls_attention *a, size_t kv, size_t key, size_t keys, float *scratch) {
    size_t group = a->heads / a->kv_heads;
    engine e = engine_make();
    backward_space space = carve_backward(a, &e, scratch);
    open_keys(a, &e, kv, key, keys, 0, &space);
    start_keys(a, &e, &space);
    for (size_t head = kv * group; head < (kv + 1) * group; head++)
        for (size_t query = key; query < end_query(a, key, keys); query += LS_ATTENTION_BLOCK) {
            open_queries(a, &e, head, query, min_size(LS_ATTENTION_BLOCK, a->T - query), 1, &space);
            weigh_blocks(a, &e, head, &space);
            add_to_keys(a, &e, &space);
        }
    finish_keys(a, &e, kv, &space);
}

/* Computes dk and dv of a range of keys: ls_attention_kernels.backward_keys. */
static void LSK_NAME(lsk_attention_backward_keys)(const ls_attention *a, size_t kv_head, size_t key_begin,
                                                  size_t key_end, float *scratch) {
    for (size_t key = key_begin; key < key_end; key += LS_ATTENTION_KEYS)
        backward_keys_block(a, kv_head, key, min_size(LS_ATTENTION_KEYS, key_end - key), scratch);
}
