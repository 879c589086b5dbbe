/* residual.c: additions to the residual stream, with dropout of what is added. */
#include "nn/transformer.h"

enum { PURPOSE_DROPOUT = 0x44524f50 }; /* and the place in the model behind it */

static ls_dropout_call call_of(const ls_nn *nn, uint32_t place) {
    const ls_dropout *dropout = &nn->dropout;
    size_t C = nn->shape->C;
    ls_dropout_call call = {.rows = ls_nn_rows(nn), .columns = C, .x_stride = C, .residual_stride = C, .y_stride = C};
    call.key = ls_rng_key_make(dropout->seed, PURPOSE_DROPOUT + place, dropout->step);
    call.index0 = dropout->first_sequence * nn->T;
    ls_dropout_set_rate(&call, dropout->p);
    return call;
}

ls_status ls_nn_residual(const ls_nn *nn, float *y, const float *x, const float *branch, uint32_t place) {
    if (nn->dropout.p > 0) {
        ls_dropout_call call = call_of(nn, place);
        call.x = branch;
        call.residual = x;
        call.y = y;
        return nn->ops->dropout_add(nn->device, &call);
    }
    return x ? nn->ops->add(nn->device, y, x, branch, ls_nn_rows(nn) * nn->shape->C) : LS_OK;
}

ls_status ls_nn_residual_backward(const ls_nn *nn, const float *d, uint32_t place, const float **out) {
    *out = d;
    if (!(nn->dropout.p > 0)) return LS_OK;
    ls_dropout_call call = call_of(nn, place);
    call.x = d;
    call.y = nn->scratch.branch;
    *out = call.y;
    return nn->ops->dropout_add(nn->device, &call);
}
