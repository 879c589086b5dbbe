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

/* y = residual + dropout(x); residual may be NULL. */
static ls_status drop(const ls_nn *nn, float *y, const float *residual, const float *x, uint32_t place) {
    size_t sequences = nn->stream_T == nn->T ? nn->B : 1;
    for (size_t b = 0; b < nn->B; b += sequences) {
        size_t at = b * nn->stream_T * nn->shape->C;
        ls_dropout_call call = call_of(nn, place, b, sequences);
        call.x = x + at;
        call.residual = residual ? residual + at : NULL;
        call.y = y + at;
        LS_TRY(nn->ops->dropout_add(nn->device, &call));
    }
    return LS_OK;
}

ls_status ls_nn_residual(const ls_nn *nn, float *y, const float *x, const float *branch, uint32_t place) {
    if (nn->dropout.p > 0) return drop(nn, y, x, branch, place);
    return x ? nn->ops->add(nn->device, y, x, branch, ls_nn_stream_rows(nn) * nn->shape->C) : LS_OK;
}

ls_status ls_nn_residual_backward(const ls_nn *nn, const float *d, uint32_t place, float *keep, const float **out) {
    size_t bytes = ls_nn_stream_rows(nn) * nn->shape->C * sizeof(float);
    if (nn->dropout.p > 0) {
        float *to = keep ? keep : nn->scratch.branch;
        *out = to;
        return drop(nn, to, NULL, d, place);
    }
    *out = keep ? keep : d;
    return keep ? ls_device_copy(nn->device, keep, d, bytes) : LS_OK;
}
