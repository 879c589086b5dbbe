/* residual.c: additions to the residual stream, with dropout of what is added. */
#include "nn/transformer.h"

enum { PURPOSE_DROPOUT = 0x44524f50 }; /* and the place in the model behind it */

/* Sequence b of the micro-batch, or, from 0 on, all of them where they are neighbours. */
static ls_dropout_call call_of(const ls_nn *nn, uint32_t place, size_t b, size_t sequences) {
    const ls_dropout *dropout = &nn->dropout;
    size_t C = nn->shape->C;
    ls_dropout_call call = {.rows = sequences * nn->stream_T, .columns = C};
    call.x_stride = call.residual_stride = call.y_stride = C;
    call.key = ls_rng_key_make(dropout->seed, PURPOSE_DROPOUT + place, dropout->step);
    call.index0 = (dropout->first_sequence + b) * nn->T + nn->token0;
    ls_dropout_set_rate(&call, dropout->p);
    return call;
}

/* y = residual + dropout(x); residual may be NULL, and y is fp32 with it. */
static ls_status drop(const ls_nn *nn, void *y, ls_dtype y_dtype, const float *residual, const void *x,
                      ls_dtype x_dtype, uint32_t place) {
    size_t sequences = nn->stream_T == nn->T ? nn->B : 1;
    for (size_t b = 0; b < nn->B; b += sequences) {
        size_t at = b * nn->stream_T * nn->shape->C;
        ls_dropout_call call = call_of(nn, place, b, sequences);
        call.x = (const char *)x + at * ls_dtype_bytes(x_dtype);
        call.x_dtype = x_dtype;
        call.residual = residual ? residual + at : NULL;
        call.y = (char *)y + at * ls_dtype_bytes(y_dtype);
        call.y_dtype = y_dtype;
        LS_TRY(nn->ops->dropout_add(nn->device, &call));
    }
    return LS_OK;
}

ls_status ls_nn_residual(const ls_nn *nn, float *y, const float *x, const void *branch, ls_dtype dtype,
                         uint32_t place) {
    if (nn->dropout.p > 0) return drop(nn, y, LS_F32, x, branch, dtype, place);
    return x ? nn->ops->add(nn->device, y, x, branch, dtype, ls_nn_stream_rows(nn) * nn->shape->C) : LS_OK;
}

ls_status ls_nn_residual_backward(const ls_nn *nn, const float *d, ls_dtype dtype, uint32_t place, void *keep,
                                  const void **out) {
    size_t elems = ls_nn_stream_rows(nn) * nn->shape->C;
    void *to = keep ? keep : nn->scratch.branch;
    /* Rows that the tp row has in common count once. */
    if (nn->act_counts && dtype != LS_F32 && (nn->sequence_parallel || nn->tp_index == 0)) {
        *nn->act_elems += (int64_t)elems;
        LS_TRY(nn->ops->count(nn->device, nn->act_counts, d, 1, dtype, elems));
    }
    *out = to;
    if (nn->dropout.p > 0) return drop(nn, to, dtype, NULL, d, LS_F32, place);
    if (dtype != LS_F32) return nn->ops->convert(nn->device, to, dtype, d, LS_F32, elems);
    if (keep) return ls_device_copy(nn->device, keep, d, elems * sizeof(float));
    *out = d;
    return LS_OK;
}
