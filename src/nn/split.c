/* split.c: a worker's slices of a shape, and the two crossings of the tp row.
 *
 * With sequence parallelism worker t has tokens ⌊tT/tp⌋ … ⌊(t+1)T/tp⌋ − 1 of each sequence in the residual stream.
 * Sequences cross one by one, since only the tokens of one sequence are neighbours on both sides. */
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
    ls_widths own = {.first_id = ls_slice_begin(shape->V, S, first)};
    own.kv_heads = ls_slice_begin(shape->kv_heads, S, first + count) - kv;
    own.heads = own.kv_heads * (shape->H / shape->kv_heads);
    own.query = own.heads * shape->head_size;
    own.qkv = own.query + 2 * own.kv_heads * shape->head_size;
    own.hidden = ls_slice_begin(shape->hidden, S, first + count) - hidden;
    own.mlp = ls_shape_is_llama(shape) ? 2 * own.hidden : own.hidden;
    own.vocabulary = ls_slice_begin(shape->V, S, first + count) - own.first_id;
    nn->own = own;
    nn->tp_size = S / count;
    nn->tp_index = first / count;
}

static size_t token_of(const ls_nn *nn, int t) { return ls_slice_begin(nn->T, nn->tp_size, t); }

void ls_nn_set_rows(ls_nn *nn, size_t B, size_t T) {
    nn->B = B;
    nn->T = T;
    nn->first = 0;
    nn->token0 = nn->sequence_parallel ? token_of(nn, nn->tp_index) : 0;
    nn->stream_T = nn->sequence_parallel ? token_of(nn, nn->tp_index + 1) - nn->token0 : T;
}

/* ---- crossings --------------------------------------------------------------------------------------------------- */

static ls_status finish(ls_request **requests, int count) {
    ls_status status = LS_OK;
    for (int i = 0; i < count; i++) {
        ls_status one = ls_request_wait(requests[i]);
        if (status == LS_OK) status = one;
    }
    return status;
}

ls_status ls_nn_gather(const ls_nn *nn, const float *stream, float *room, const float **all) {
    size_t bytes[LS_SLICES_MAX], C = nn->shape->C;
    ls_request *requests[SEQUENCES_AT_ONCE];
    *all = stream;
    if (!nn->sequence_parallel) return LS_OK;
    *all = room;
    for (int t = 0; t < nn->tp_size; t++) bytes[t] = (token_of(nn, t + 1) - token_of(nn, t)) * C * sizeof(float);
    for (size_t b = 0; b < nn->B;) {
        int count = 0;
        for (; count < SEQUENCES_AT_ONCE && b < nn->B; b++, count++)
            LS_TRY(ls_comm_all_gather_start(nn->tp, stream + b * nn->stream_T * C, room + b * nn->T * C, bytes,
                                            &requests[count]));
        LS_TRY(finish(requests, count));
    }
    return LS_OK;
}

static ls_status scatter(const ls_nn *nn, const float *rows, float *stream) {
    size_t shards[LS_SLICES_MAX + 1], C = nn->shape->C;
    ls_request *requests[SEQUENCES_AT_ONCE];
    for (int t = 0; t <= nn->tp_size; t++) shards[t] = token_of(nn, t) * C;
    for (size_t b = 0; b < nn->B;) {
        int count = 0;
        for (; count < SEQUENCES_AT_ONCE && b < nn->B; b++, count++) {
            const void *part = rows + b * nn->T * C;
            LS_TRY(ls_comm_reduce_scatter_start(nn->tp, NULL, LS_F32, &part, stream + b * nn->stream_T * C, shards,
                                                nn->T * C, &requests[count]));
        }
        LS_TRY(finish(requests, count));
    }
    return LS_OK;
}

ls_status ls_nn_join(const ls_nn *nn, float *stream, const ls_param *bias) {
    size_t C = nn->shape->C;
    if (nn->tp_size > 1) {
        const void *part = stream;
        if (nn->sequence_parallel)
            LS_TRY(scatter(nn, nn->scratch.rows, stream));
        else
            LS_TRY(ls_comm_all_reduce(nn->tp, NULL, LS_F32, &part, stream, ls_nn_rows(nn) * C));
    }
    return bias ? nn->ops->bias_add(nn->device, stream, C, bias->w, ls_nn_stream_rows(nn), C) : LS_OK;
}
