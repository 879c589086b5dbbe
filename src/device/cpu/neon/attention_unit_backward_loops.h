/* attention_unit_backward_loops.h: dq, dk and dv with matmuls on BFMMLA.
 *
 * Included by attention.c, behind attention_unit_forward_loops.h. Keys are packed once. A block of queries of one head
 * meets one block of keys after the other, eight queries at a time:
 *
 *     scores[query][key] = Q·Kᵀ      gradients[query][key] = dO·Vᵀ      tiles of 8 queries and 12 keys
 *     P and dS, rounded, four queries and four keys at a time, into panels:
 *         weights_turned, gradients_turned   lines are keys, granules are of queries
 *         gradients_kept                     lines are queries, granules are of keys
 *     dv and dk of [d][key] go on with dOᵀ·P and Qᵀ·dS; dq of [d][query] goes on with Kᵀ·dSᵀ: tiles of 8 and 12
 *
 * Pairs that do not see each other have the weight +0, as have queries behind the last. Granules count from position 0
 * of the sequence, so blocks of queries begin at a multiple of four where dk and dv are made. */

enum { UNIT_STRIDE = LS_ATTENTION_KEYS + LANES }; /* of a row of scores */

/* The scratch of a thread, and the present blocks. */
typedef struct unit_backward {
    size_t first_key, all_keys;                  /* that are packed */
    size_t key, keys, query, queries;            /* the blocks: where they begin and how many rows they have */
    uint16_t *key_lines, *value_lines;           /* [panel of 12 keys][d/4][12][4] */
    uint16_t *key_elements;                      /* [tile of d][key/4][8][4] */
    uint16_t *query_lines, *dout_lines;          /* [tile of 8 queries][d/4][8][4] */
    uint16_t *query_elements, *dout_elements;    /* [tile of d][query/4][8][4] */
    uint16_t *weights_turned, *gradients_turned; /* [panel of 12 keys of the block][query/4][12][4] */
    uint16_t *gradients_kept;                    /* [panel of 12 queries][key of the block/4][12][4] */
    float *scores, *gradients;                   /* [8][UNIT_STRIDE] */
    float *factors;                              /* [4][UNIT_STRIDE]; of dropout */
    float *dk, *dv;                              /* [panel of 12 keys][tile of d][96] */
    float *dq;                                   /* [panel of 12 queries][tile of d][96] */
    float *rows;                                 /* [12][d up to 16] */
} unit_backward;

/* Divides the scratch, for keys first_key … end−1. */
static unit_backward carve_unit_backward(const ls_attention *a, size_t first_key, size_t end, float *scratch) {
    size_t along = up(a->head_size, UNIT_K), across = up(a->head_size, UNIT_A), all = up(end - first_key, UNIT_B);
    size_t keys = LS_ATTENTION_KEYS, queries = LS_ATTENTION_BLOCK;
    return (unit_backward){.first_key = first_key,
                           .all_keys = end - first_key,
                           .key_lines = take_halves(&scratch, all * along),
                           .value_lines = take_halves(&scratch, all * along),
                           .key_elements = take_halves(&scratch, all * across),
                           .query_lines = take_halves(&scratch, queries * along),
                           .dout_lines = take_halves(&scratch, queries * along),
                           .query_elements = take_halves(&scratch, queries * across),
                           .dout_elements = take_halves(&scratch, queries * across),
                           .weights_turned = take_halves(&scratch, keys * queries),
                           .gradients_turned = take_halves(&scratch, keys * queries),
                           .gradients_kept = take_halves(&scratch, keys * queries),
                           .scores = take(&scratch, UNIT_A * UNIT_STRIDE),
                           .gradients = take(&scratch, UNIT_A * UNIT_STRIDE),
                           .factors = take(&scratch, 4 * UNIT_STRIDE),
                           .dq = take(&scratch, queries * across),
                           .rows = take(&scratch, UNIT_B * up(a->head_size, LANES)),
                           .dk = take(&scratch, all * across),
                           .dv = take(&scratch, all * across)};
}

/* Packs all keys and values of the call, for one kv head. */
static void pack_unit_keys(const ls_attention *a, size_t kv, const unit_backward *space) {
    size_t key = space->first_key, keys = space->all_keys;
    pack_unit_lines(a, space->key_lines, UNIT_B, a->k, key, kv, keys);
    pack_unit_lines(a, space->value_lines, UNIT_B, a->v, key, kv, keys);
    unit_pack_elements(space->key_elements, row_in(a, a->k, key, kv), a->k.row_stride, keys, a->head_size);
}

/* Packs a block of queries of a head, with their dO. */
static void open_unit_queries(const ls_attention *a, size_t head, size_t query, size_t queries, unit_backward *space) {
    size_t d = a->head_size;
    space->query = query;
    space->queries = queries;
    pack_unit_lines(a, space->query_lines, UNIT_A, a->q, query, head, queries);
    pack_unit_lines(a, space->dout_lines, UNIT_A, a->dout, query, head, queries);
    unit_pack_elements(space->query_elements, row_in(a, a->q, query, head), a->q.row_stride, queries, d);
    unit_pack_elements(space->dout_elements, row_in(a, a->dout, query, head), a->dout.row_stride, queries, d);
}

/* Makes the block of keys that begins with packed key `at` the current one. */
static void open_unit_keys(unit_backward *space, size_t at) {
    space->key = space->first_key + at;
    space->keys = min_size(LS_ATTENTION_KEYS, space->all_keys - at);
}

/* Returns how many columns of the block of keys the rows up to r of the queries see. */
static size_t seen_keys(const unit_backward *space, size_t r) {
    size_t end = space->query + r + 1;
    return end > space->key ? min_size(end - space->key, space->keys) : 0;
}

/* What the four queries from row r on have in common, each number in a register of its own. */
typedef struct four_queries {
    v16 m, l, dots;
    v16i last; /* the last column that the query sees; −1: none */
} four_queries;

/* Loads the statistics of the four queries from row r on; rows that do not exist see no key. */
static four_queries open_four(const ls_attention *a, size_t head, size_t r, const unit_backward *space) {
    float m[4], l[4], dots[4];
    int32_t last[4];
    for (size_t i = 0; i < 4; i++) {
        int there = r + i < space->queries;
        size_t stat = head * a->stat_stride + space->query + r + i;
        m[i] = there ? a->m[stat] : 0;
        l[i] = there ? a->l[stat] : 1;
        dots[i] = there ? a->dots[stat] : 0;
        last[i] = there ? (int32_t)seen_keys(space, r + i) - 1 : -1;
    }
#define EACH(type, dup, x)                                                                                             \
    (type) { dup((x)[0]), dup((x)[1]), dup((x)[2]), dup((x)[3]) }
    return (four_queries){EACH(v16, vdupq_n_f32, m), EACH(v16, vdupq_n_f32, l), EACH(v16, vdupq_n_f32, dots),
                          EACH(v16i, vdupq_n_s32, last)};
#undef EACH
}

/* Loads four numbers each of four rows, `stride` apart. */
LSK_INLINE v16 load_four(const float *x, size_t stride) {
    return (v16){vld1q_f32(x), vld1q_f32(x + stride), vld1q_f32(x + 2 * stride), vld1q_f32(x + 3 * stride)};
}

/* Computes P and dS of the four queries from row r on, for columns begin … end−1 (multiples of four), and stores them
 * in three panels. `drop` and `masked` are constants; `masked`: columns that a query does not see become +0. */
UNIT_TARGET LSK_INLINE void weigh_columns(const unit_backward *space, const four_queries *four, size_t r, size_t begin,
                                          size_t end, float scale, const int drop, const int masked) {
    const float *scores = space->scores + r % UNIT_A * UNIT_STRIDE,
                *gradients = space->gradients + r % UNIT_A * UNIT_STRIDE;
    size_t turned = up(space->queries, UNIT_K) * UNIT_B, kept = up(space->keys, UNIT_B) * UNIT_B;
    uint16_t *row = space->gradients_kept + r / UNIT_B * kept + r % UNIT_B * UNIT_K;
    const int32x4_t places = {0, 1, 2, 3};
    for (size_t j = begin; j < end; j += UNIT_K) {
        v16 s = v16_mul(v16_set1(scale), load_four(scores + j, UNIT_STRIDE)),
            dp = load_four(gradients + j, UNIT_STRIDE);
        v16 p = v16_div(exp_below(v16_sub(s, four->m)), four->l), f = v16_set1(1);
        if (drop) {
            f = load_four(space->factors + j, UNIT_STRIDE);
            dp = v16_mul(f, dp);
        }
        v16 ds = v16_mul(p, v16_sub(dp, four->dots));
        if (drop) p = v16_mul(p, f);
        if (masked) {
            int32x4_t column = vaddq_s32(vdupq_n_s32((int32_t)j), places);
            v16m hidden = v16i_gt((v16i){column, column, column, column}, four->last);
            p = v16_select(hidden, v16_set1(0), p);
            ds = v16_select(hidden, v16_set1(0), ds);
        }
        uint16x8_t first = unit_round(ds.q0, ds.q1), second = unit_round(ds.q2, ds.q3);
        size_t at = j / UNIT_B * turned + r * UNIT_B + j % UNIT_B * UNIT_K;
        unit_turn(space->weights_turned + at, unit_round(p.q0, p.q1), unit_round(p.q2, p.q3));
        unit_turn(space->gradients_turned + at, first, second);
        vst1q_u16(row + j * UNIT_B, first);
        vst1q_u16(row + j * UNIT_B + 8, second);
    }
}

/* Runs weigh_columns() without dropout; columns before `full` need no mask. */
UNIT_TARGET static void weigh_some(const unit_backward *space, const four_queries *four, size_t r, size_t full,
                                   size_t end, float scale) {
    weigh_columns(space, four, r, 0, full, scale, 0, 0);
    weigh_columns(space, four, r, full, end, scale, 0, 1);
}

/* Runs weigh_columns() with dropout and mask. */
UNIT_TARGET static void weigh_dropped(const unit_backward *space, const four_queries *four, size_t r, size_t end,
                                      float scale) {
    weigh_columns(space, four, r, 0, end, scale, 1, 1);
}

/* Packs weights and gradients of four queries from row r on as all three kinds of panels, for columns they see. */
static void weigh_four(const ls_attention *a, size_t head, size_t r, const unit_backward *space) {
    four_queries four = open_four(a, head, r, space);
    size_t end = up(seen_keys(space, r / UNIT_B * UNIT_B + UNIT_B - 1), UNIT_B);
    size_t full = r + 4 <= space->queries ? seen_keys(space, r) / UNIT_K * UNIT_K : 0;
    if (!is_dropping(a)) {
        weigh_some(space, &four, r, full, end, a->scale);
        return;
    }
    for (size_t i = 0; i < min_size(4, space->queries - r); i++) {
        size_t n = seen_keys(space, r + i);
        if (n > 0) make_factors(a, space->factors + i * UNIT_STRIDE, head, space->query + r + i, space->key, n);
    }
    weigh_dropped(space, &four, r, end, a->scale);
}

/* Computes and packs P and dS of the current blocks, eight queries at a time. */
static void weigh_unit_blocks(const ls_attention *a, size_t head, const unit_backward *space) {
    size_t along = up(a->head_size, UNIT_K), granules = along / UNIT_K, at = (space->key - space->first_key) * along;
    for (size_t r = 0; r < space->queries; r += UNIT_A) {
        size_t seen = seen_keys(space, r + UNIT_A - 1);
        for (size_t j = 0; j < seen; j += UNIT_B) {
            unit_rows(granules, space->query_lines + r * along, space->key_lines + at + j * along, space->scores + j,
                      UNIT_STRIDE);
            unit_rows(granules, space->dout_lines + r * along, space->value_lines + at + j * along,
                      space->gradients + j, UNIT_STRIDE);
        }
        weigh_four(a, head, r, space);
        if (r + 4 < space->queries) weigh_four(a, head, r + 4, space);
    }
}

/* Continues dk and dv of the block of keys with the block of queries, from the first granule that sees a key of a
 * panel. */
static void add_to_unit_keys(const ls_attention *a, const unit_backward *space) {
    size_t across = up(a->head_size, UNIT_A), rows = up(space->queries, UNIT_K), at = space->key - space->first_key;
    for (size_t j = 0; j < space->keys; j += UNIT_B) {
        size_t key = space->key + j, first = key > space->query ? (key - space->query) / UNIT_K * UNIT_K : 0;
        if (first >= rows) return;
        size_t granules = (rows - first) / UNIT_K, lines = j * rows + first * UNIT_B;
        for (size_t i = 0; i < a->head_size; i += UNIT_A) {
            size_t elements = i * rows + first * UNIT_A, to = (at + j) * across + i * UNIT_B;
            unit_sums(granules, space->dout_elements + elements, space->weights_turned + lines, 1, space->dv + to);
            unit_sums(granules, space->query_elements + elements, space->gradients_turned + lines, 1, space->dk + to);
        }
    }
}

/* Adds the block of keys to dq of the block of queries; the first block of keys of the sequence sets dq. Call with
 * ascending blocks. */
static void add_to_unit_queries(const ls_attention *a, const unit_backward *space) {
    size_t across = up(a->head_size, UNIT_A), keys = up(space->all_keys, UNIT_K),
           kept = up(space->keys, UNIT_B) * UNIT_B;
    for (size_t r = 0; r < space->queries; r += UNIT_B) {
        size_t granules = up(seen_keys(space, min_size(r + UNIT_B, space->queries) - 1), UNIT_K) / UNIT_K;
        for (size_t i = 0; i < a->head_size; i += UNIT_A)
            unit_sums(granules, space->key_elements + i * keys + space->key * UNIT_A,
                      space->gradients_kept + r / UNIT_B * kept, space->key > 0, space->dq + r * across + i * UNIT_B);
    }
}

/* Stores rows row … row+count−1 of `to` from the sums of their panels. */
static void store_unit_rows(const ls_attention *a, const unit_backward *space, const float *sums, ls_attention_out to,
                            size_t row, size_t head, size_t count, float scale) {
    size_t d = a->head_size, stride = up(d, LANES), across = up(d, UNIT_A);
    for (size_t r = 0; r < count; r += UNIT_B) {
        for (size_t i = 0; i < d; i += UNIT_A) unit_untangle(space->rows + i, stride, sums + r * across + i * UNIT_B);
        for (size_t j = 0; j < min_size(UNIT_B, count - r); j++)
            scaled_row(row_out(a, to, row + r + j, head), a->act, space->rows + j * stride, scale, d);
    }
}

/* Starts dk and dv of all packed keys from +0. */
static void start_unit_keys(const ls_attention *a, const unit_backward *space) {
    size_t elems = up(space->all_keys, UNIT_B) * up(a->head_size, UNIT_A);
    zero(space->dk, elems);
    zero(space->dv, elems);
}

/* Stores dk and dv of all packed keys. */
static void finish_unit_keys(const ls_attention *a, size_t kv, const unit_backward *space) {
    store_unit_rows(a, space, space->dv, a->dv, space->first_key, kv, space->all_keys, 1);
    store_unit_rows(a, space, space->dk, a->dk, space->first_key, kv, space->all_keys, a->scale);
}

/* Computes a block of queries of one head with all packed keys that it sees. `for_keys`: continues dk and dv;
 * `for_queries`: computes and stores dq. */
static void backward_unit_block(const ls_attention *a, size_t head, size_t query, size_t end, unit_backward *space,
                                int for_keys, int for_queries) {
    open_unit_queries(a, head, query, min_size(LS_ATTENTION_BLOCK, end - query), space);
    for (size_t at = 0; at < space->all_keys && space->first_key + at < query + space->queries; at += space->keys) {
        open_unit_keys(space, at);
        weigh_unit_blocks(a, head, space);
        if (for_keys) add_to_unit_keys(a, space);
        if (for_queries) add_to_unit_queries(a, space);
    }
    if (for_queries) store_unit_rows(a, space, space->dq, a->dq, query, head, space->queries, a->scale);
}

/* Computes dq of the heads of one kv head, and its dk and dv: ls_attention_kernels.backward. */
static void lsk_attention_backward_bfmmla(const ls_attention *a, size_t kv, float *scratch) {
    size_t group = a->heads / a->kv_heads;
    unit_backward space = carve_unit_backward(a, 0, a->T, scratch);
    pack_unit_keys(a, kv, &space);
    start_unit_keys(a, &space);
    for (size_t head = kv * group; head < (kv + 1) * group; head++)
        for (size_t query = 0; query < a->T; query += LS_ATTENTION_BLOCK)
            backward_unit_block(a, head, query, a->T, &space, 1, 1);
    finish_unit_keys(a, kv, &space);
}

/* Computes dq of a range of heads and queries: ls_attention_kernels.backward_queries. */
static void lsk_attention_backward_queries_bfmmla(const ls_attention *a, size_t head_begin, size_t head_end,
                                                  size_t query_begin, size_t query_end, float *scratch) {
    unit_backward space = carve_unit_backward(a, 0, query_end, scratch);
    size_t packed = SIZE_MAX; /* the kv head whose keys and values lie in `space` */
    for (size_t head = head_begin; head < head_end; head++) {
        size_t kv = head / (a->heads / a->kv_heads);
        if (kv != packed) pack_unit_keys(a, kv, &space);
        packed = kv;
        for (size_t query = query_begin; query < query_end; query += LS_ATTENTION_BLOCK)
            backward_unit_block(a, head, query, query_end, &space, 0, 1);
    }
}

/* Computes dk and dv of a range of keys: ls_attention_kernels.backward_keys. */
static void lsk_attention_backward_keys_bfmmla(const ls_attention *a, size_t kv, size_t key_begin, size_t key_end,
                                               float *scratch) {
    size_t group = a->heads / a->kv_heads;
    unit_backward space = carve_unit_backward(a, key_begin, key_end, scratch);
    pack_unit_keys(a, kv, &space);
    start_unit_keys(a, &space);
    for (size_t head = kv * group; head < (kv + 1) * group; head++)
        for (size_t query = key_begin / UNIT_K * UNIT_K; query < a->T; query += LS_ATTENTION_BLOCK)
            backward_unit_block(a, head, query, a->T, &space, 1, 0);
    finish_unit_keys(a, kv, &space);
}
