/* param_slices.c: a worker's slices of a shape, and the two crossings of the TP group.
 *
 * With sequence parallelism worker t has tokens ⌊tT/tp⌋ … ⌊(t+1)T/tp⌋ − 1 of each sequence in the residual stream.
 * Sequences cross one by one, since only the tokens of one sequence are neighbours on both sides; or, with
 * crosses_at_once, all together through scratch.cross, where rows lie worker by worker. */
#include <assert.h>

#include "nn/nn.h"

enum { SEQUENCES_AT_ONCE = 8 }; /* collectives under way at the same time */

void ls_nn_take_slices(ls_nn *nn, int S, int first, int count) {
    const ls_shape *shape = nn->shape;
    assert(S <= LS_SLICES_MAX && first >= 0 && count >= 1 && first + count <= S);
    nn->S = S;
    nn->slice0 = first;
    nn->slices = count;
    size_t kv = ls_slice_begin(shape->kv_heads, S, first), hidden = ls_slice_begin(shape->hidden, S, first);
    ls_widths own = {.first_id = ls_shape_first_id(shape, S, first)};
    own.kv_heads = ls_slice_begin(shape->kv_heads, S, first + count) - kv;
    own.heads = own.kv_heads * (shape->H / shape->kv_heads);
    own.query = own.heads * shape->head_size;
    own.qkv = own.query + 2 * own.kv_heads * shape->head_size;
    own.hidden = ls_slice_begin(shape->hidden, S, first + count) - hidden;
    own.mlp = ls_shape_family(shape)->gated ? 2 * own.hidden : own.hidden;
    own.vocabulary = ls_shape_first_id(shape, S, first + count) - own.first_id;
    size_t grain = shape->vocabulary_grain ? shape->vocabulary_grain : 1;
    own.logits = (own.vocabulary + grain - 1) / grain * grain;
    nn->own = own;
    nn->tp.size = S / count;
    nn->tp.index = first / count;
}

/* Returns the first token of a sequence that worker t of the TP group has in the stream. */
static size_t token_of(const ls_nn *nn, int t) { return ls_slice_begin(nn->rows.T, nn->tp.size, t); }

void ls_nn_set_rows(ls_nn *nn, size_t B, size_t T) {
    nn->rows.B = B;
    nn->rows.T = T;
    nn->rows.first = 0;
    nn->rows.token0 = nn->tp.sequence_parallel ? token_of(nn, nn->tp.index) : 0;
    nn->rows.stream_T = nn->tp.sequence_parallel ? token_of(nn, nn->tp.index + 1) - nn->rows.token0 : T;
}

void *ls_nn_take(const ls_nn *nn, ls_arena *arena, const char *kind, size_t rows, size_t columns) {
    return ls_arena_take_array(arena, kind, rows, columns * ls_dtype_bytes(nn->policy.act));
}

void *ls_nn_take_cross(const ls_nn *nn, ls_arena *arena) {
    if (!nn->tp.sequence_parallel || !nn->tp.crosses_at_once) return NULL;
    return ls_arena_take_array(arena, "scratch", ls_nn_rows(nn), nn->shape->C * sizeof(float));
}

void ls_nn_take_joins(const ls_nn *nn, ls_arena *arena, ls_scratch *scratch) {
    size_t rows = ls_nn_rows(nn), C = nn->shape->C, share = (rows + (size_t)nn->tp.size - 1) / (size_t)nn->tp.size;
    size_t most = ls_nn_stream_rows(nn) > share && nn->tp.sequence_parallel ? ls_nn_stream_rows(nn) : share;
    bool rounds = nn->tp.size > 1 && ls_policy_is_16(&nn->policy);
    if (nn->tp.sequence_parallel || rounds)
        scratch->rows = ls_arena_take_array(arena, "scratch", rows, C * sizeof(float));
    if (rounds) scratch->joined = ls_arena_take_array(arena, "scratch", most, C * sizeof(float));
    scratch->cross = ls_nn_take_cross(nn, arena);
}

/* ---- crossings --------------------------------------------------------------------------------------------------- */

/* Waits for all requests; returns the first failure. */
static ls_status finish(ls_request **requests, int count) {
    ls_status status = LS_OK;
    for (int i = 0; i < count; i++) {
        ls_status one = ls_request_wait(requests[i]);
        if (status == LS_OK) status = one;
    }
    return status;
}

/* Returns the bytes of the tokens that worker t has of one sequence; a token has `row` bytes. */
static size_t cross_bytes(const ls_nn *nn, int t, size_t row) { return (token_of(nn, t + 1) - token_of(nn, t)) * row; }

/* Reorders rows of `row` bytes: from worker by worker, as a collective moves them, to sequence by sequence (to_rows),
 * or back. */
static ls_status turn_rows(const ls_nn *nn, char *rows, size_t row, bool to_rows) {
    for (int t = 0; t < nn->tp.size; t++) {
        char *apart = (char *)nn->scratch.cross + nn->rows.B * token_of(nn, t) * row,
             *at = rows + token_of(nn, t) * row;
        size_t bytes = cross_bytes(nn, t, row), all = nn->rows.T * row;
        ls_copy_rows_call call = to_rows ? (ls_copy_rows_call){at, all, apart, bytes, nn->rows.B, bytes}
                                         : (ls_copy_rows_call){apart, bytes, at, all, nn->rows.B, bytes};
        LS_TRY(nn->ops->copy_rows(nn->device, &call));
    }
    return LS_OK;
}

/* Returns whether the rows of all sequences are moved by one collective: there are several, and crosses_at_once. */
static bool is_one_crossing(const ls_nn *nn) { return nn->tp.crosses_at_once && nn->rows.B > 1; }

/* Gathers the rows of all sequences by one collective, through scratch.cross, into `space`. */
static ls_status gather_at_once(const ls_nn *nn, const void *stream, size_t row, void *space) {
    size_t bytes[LS_SLICES_MAX];
    for (int t = 0; t < nn->tp.size; t++) bytes[t] = nn->rows.B * cross_bytes(nn, t, row);
    LS_TRY(ls_tensor_all_gather(nn->device, nn->tp.comm, stream, nn->scratch.cross, bytes));
    return turn_rows(nn, space, row, true);
}

ls_status ls_nn_gather(const ls_nn *nn, const void *stream, ls_dtype dtype, void *space, const void **all) {
    size_t bytes[LS_SLICES_MAX], row = nn->shape->C * ls_dtype_bytes(dtype);
    ls_request *requests[SEQUENCES_AT_ONCE];
    *all = stream;
    if (!nn->tp.sequence_parallel) return LS_OK;
    *all = space;
    if (!nn->tp.comm) return LS_OK;
    if (is_one_crossing(nn)) return gather_at_once(nn, stream, row, space);
    for (int t = 0; t < nn->tp.size; t++) bytes[t] = cross_bytes(nn, t, row);
    for (size_t b = 0; b < nn->rows.B;) {
        int count = 0;
        for (; count < SEQUENCES_AT_ONCE && b < nn->rows.B; b++, count++)
            LS_TRY(ls_tensor_all_gather_start(nn->device, nn->tp.comm,
                                              (const char *)stream + b * nn->rows.stream_T * row,
                                              (char *)space + b * nn->rows.T * row, bytes, &requests[count]));
        LS_TRY(finish(requests, count));
    }
    return LS_OK;
}

/* Reduces the rows of all sequences by one collective, through scratch.cross; each worker gets its rows in `stream`. */
static ls_status scatter_at_once(const ls_nn *nn, float *rows, float *stream) {
    size_t shards[LS_SLICES_MAX + 1], C = nn->shape->C;
    const void *part = nn->scratch.cross;
    for (int t = 0; t <= nn->tp.size; t++) shards[t] = nn->rows.B * token_of(nn, t) * C;
    LS_TRY(turn_rows(nn, (char *)rows, C * sizeof(float), false));
    return ls_tensor_reduce_scatter(nn->device, nn->tp.comm, NULL, LS_F32, &part, stream, shards, ls_nn_rows(nn) * C);
}

/* Adds the fp32 rows of all workers in the order of slices; each worker gets the sums of its rows of the stream. */
static ls_status scatter(const ls_nn *nn, float *rows, float *stream) {
    size_t shards[LS_SLICES_MAX + 1], C = nn->shape->C;
    ls_request *requests[SEQUENCES_AT_ONCE];
    if (!nn->tp.comm) return LS_OK;
    if (is_one_crossing(nn)) return scatter_at_once(nn, rows, stream);
    for (int t = 0; t <= nn->tp.size; t++) shards[t] = token_of(nn, t) * C;
    for (size_t b = 0; b < nn->rows.B;) {
        int count = 0;
        for (; count < SEQUENCES_AT_ONCE && b < nn->rows.B; b++, count++) {
            const void *part = rows + b * nn->rows.T * C;
            LS_TRY(ls_tensor_reduce_scatter_start(nn->device, nn->tp.comm, NULL, LS_F32, &part,
                                                  stream + b * nn->rows.stream_T * C, shards, nn->rows.T * C,
                                                  &requests[count]));
        }
        LS_TRY(finish(requests, count));
    }
    return LS_OK;
}

/* Reduces to a 16-bit type: each worker adds up its share of the rows, adds the bias, rounds, and sends the rows to the
 * others. */
static ls_status join_rounded(const ls_nn *nn, void *stream, ls_dtype dtype, const float *bias) {
    size_t bytes[LS_SLICES_MAX], shards[LS_SLICES_MAX + 1], C = nn->shape->C, rows = ls_nn_rows(nn);
    size_t row = C * ls_dtype_bytes(dtype), first = ls_slice_begin(rows, nn->tp.size, nn->tp.index);
    size_t own = ls_slice_begin(rows, nn->tp.size, nn->tp.index + 1) - first;
    const void *part = nn->scratch.rows;
    char *mine = (char *)stream + first * row;
    for (int t = 0; t <= nn->tp.size; t++) shards[t] = ls_slice_begin(rows, nn->tp.size, t) * C;
    for (int t = 0; t < nn->tp.size; t++) bytes[t] = (shards[t + 1] - shards[t]) * ls_dtype_bytes(dtype);
    if (nn->tp.comm)
        LS_TRY(ls_tensor_reduce_scatter(nn->device, nn->tp.comm, NULL, LS_F32, &part, nn->scratch.joined, shards,
                                        rows * C));
    LS_TRY(nn->ops->bias_add(nn->device, &(ls_bias_add_call){mine, dtype, C, nn->scratch.joined, C, bias, own, C}));
    return nn->tp.comm ? ls_tensor_all_gather(nn->device, nn->tp.comm, mine, stream, bytes) : LS_OK;
}

/* Joins under sequence parallelism: each worker gets its rows of the stream, with bias and rounded. */
static ls_status join_scattered(const ls_nn *nn, void *stream, ls_dtype dtype, const float *bias) {
    size_t C = nn->shape->C;
    float *sum = dtype == LS_F32 ? stream : nn->scratch.joined;
    LS_TRY(scatter(nn, nn->scratch.rows, sum));
    if (dtype == LS_F32 && !bias) return LS_OK;
    return nn->ops->bias_add(nn->device, &(ls_bias_add_call){stream, dtype, C, sum, C, bias, ls_nn_stream_rows(nn), C});
}

ls_status ls_nn_join(const ls_nn *nn, void *stream, ls_dtype dtype, const ls_param *bias) {
    size_t C = nn->shape->C, rows = ls_nn_rows(nn);
    const float *b = bias ? bias->w : NULL;
    if (nn->tp.sequence_parallel) return join_scattered(nn, stream, dtype, b);
    if (dtype != LS_F32) return join_rounded(nn, stream, dtype, b);
    const void *part = stream;
    if (nn->tp.comm) LS_TRY(ls_tensor_all_reduce(nn->device, nn->tp.comm, NULL, LS_F32, &part, stream, rows * C));
    return b ? nn->ops->bias_add(nn->device, &(ls_bias_add_call){stream, LS_F32, C, stream, C, b, rows, C}) : LS_OK;
}
