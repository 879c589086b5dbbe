/* residual.c: additions to the residual stream, with dropout of what is added, and the parts of a half around its body:
 * norm, gathered rows, branch and residual. */
#include "nn/blocks/transformer.h"

enum { PURPOSE_DROPOUT = 0x44524f50 }; /* and the place in the model behind it */

ls_drop ls_nn_drop_of(const ls_nn *nn, uint32_t place) {
    const ls_dropout *dropout = &nn->dropout;
    ls_drop drop = {.scale = 0};
    if (!(dropout->p > 0)) return drop;
    drop.first = dropout->first_sequence * nn->rows.T + nn->rows.token0;
    drop.together = nn->rows.stream_T;
    drop.gap = nn->rows.T - nn->rows.stream_T;
    drop.key = ls_rng_key_make(dropout->seed, PURPOSE_DROPOUT + place, dropout->step);
    ls_drop_set_rate(&drop, dropout->p);
    return drop;
}

/* Computes y = residual + dropout(x). The residual may be NULL; with it y is fp32. `place` names the dropout in the
 * model. */
static ls_status drop(const ls_nn *nn, void *y, ls_dtype y_dtype, const float *residual, const void *x,
                      ls_dtype x_dtype, uint32_t place) {
    size_t C = nn->shape->C;
    ls_dropout_call call = {
        ls_nn_stream_rows(nn), C, ls_nn_drop_of(nn, place), x, x_dtype, C, residual, C, y, y_dtype, C};
    return nn->ops->dropout_add(nn->device, &call);
}

ls_status ls_nn_residual(const ls_nn *nn, float *y, const float *x, const void *branch, ls_dtype dtype,
                         uint32_t place) {
    if (nn->dropout.p > 0) return drop(nn, y, LS_F32, x, branch, dtype, place);
    return x ? nn->ops->add(nn->device, &(ls_add_call){y, x, branch, dtype, ls_nn_stream_rows(nn) * nn->shape->C})
             : LS_OK;
}

ls_status ls_nn_residual_backward(const ls_nn *nn, const float *d, ls_dtype dtype, uint32_t place, bool is_rounded,
                                  void *keep, void *space, const void **out) {
    size_t elems = ls_nn_stream_rows(nn) * nn->shape->C;
    void *to = keep ? keep : space;
    /* Rows that the TP group has in common count once. */
    if (nn->rounded.counts && dtype != LS_F32 && (nn->tp.sequence_parallel || nn->tp.index == 0)) {
        *nn->rounded.elems += (int64_t)elems;
        LS_TRY(nn->ops->count(nn->device, &(ls_count_call){nn->rounded.counts, d, 1, dtype, elems}));
    }
    *out = to;
    if (is_rounded) return LS_OK;
    if (nn->dropout.p > 0) return drop(nn, to, dtype, NULL, d, LS_F32, place);
    if (dtype != LS_F32) return nn->ops->convert(nn->device, &(ls_convert_call){to, dtype, d, LS_F32, elems});
    if (keep) return ls_device_copy(nn->device, keep, d, elems * sizeof(float));
    *out = d;
    return LS_OK;
}

/* ---- halves ------------------------------------------------------------------------------------------------------ */

ls_status ls_half_norm(const ls_nn *nn, const ls_half *half, const float *x, const void **norm) {
    LS_TRY(ls_nn_norm(nn, half->scratch->norm, half->stats, x, half->norm_w, half->norm_b));
    return ls_nn_gather(nn, half->scratch->norm, nn->policy.act, nn->scratch.rows, norm);
}

ls_status ls_half_sum(const ls_nn *nn, const ls_half *half, const ls_half *before, const float *x, float *sum) {
    ls_drop drop = ls_nn_drop_of(nn, before->place);
    return ls_nn_sum_norm(nn, half->scratch->norm, half->stats, x, before->branch, &drop, sum, half->norm_w,
                          half->norm_b);
}

ls_status ls_half_sum_norm(const ls_nn *nn, const ls_half *half, const ls_half *before, const float *x, float *sum,
                           const void **norm) {
    LS_TRY(ls_half_sum(nn, half, before, x, sum));
    return ls_nn_gather(nn, half->scratch->norm, nn->policy.act, nn->scratch.rows, norm);
}

ls_status ls_half_branch(ls_block *block, ls_nn *nn, const ls_half *half, const void *norm) {
    LS_TRY(half->forward(block, nn, half, norm));
    return ls_nn_project_sliced(nn, half->branch, half->inner, half->out_w, half->out_b);
}

/* Gradients inside a half, from which its weight gradients are computed. */
typedef struct half_grads {
    const void *branch;  /* [stream][C] of what goes to the residual stream */
    const void *rows;    /* the same for all rows */
    void *dwide, *dnorm; /* of the output of the first projection, and of the norm */
} half_grads;

/* Computes the weight gradients of the second projection, and of the bias of the first. */
static ls_status outer_weights(const ls_nn *nn, const ls_half *half, const half_grads *g) {
    if (half->out_b && !half->has_bias) LS_TRY(ls_nn_grad_stream_bias(nn, half->out_b, g->branch));
    LS_TRY(
        ls_nn_grad_matrix(nn, half->out_w, half->inner, half->inner_width, half->inner_width, g->rows, nn->shape->C));
    return half->in_b ? ls_nn_grad_bias(nn, half->in_b, g->dwide) : LS_OK;
}

/* Computes the weight gradients of the first projection, whose input is `norm`; and of the norm, unless its backward
 * has done so (`is_whole`). */
static ls_status inner_weights(const ls_nn *nn, const ls_half *half, const half_grads *g, const float *x,
                               const void *norm, bool is_whole) {
    LS_TRY(ls_nn_grad_matrix(nn, half->in_w, g->dwide, half->in_width, half->in_width, norm, nn->shape->C));
    return is_whole ? LS_OK : ls_nn_norm_params(nn, g->dnorm, half->stats, x, half->norm_w, half->norm_b);
}

ls_status ls_half_backward(ls_block *block, ls_nn *nn, const ls_half *half, ls_half *before, const float *x, float *d,
                           ls_block_pass phase) {
    bool both = phase == LS_BACKWARD_BOTH;
    const void *norm;
    const ls_transformer_scratch *scratch = half->scratch;
    half_grads g = {.branch = both ? NULL : half->kept->branch,
                    .dwide = both ? half->dwide : half->kept->dwide,
                    .dnorm = both ? scratch->dnorm : half->kept->dnorm};
    if (phase != LS_BACKWARD_WEIGHTS)
        LS_TRY(ls_nn_residual_backward(nn, d, nn->policy.act, half->place, half->is_rounded,
                                       both ? NULL : half->kept->branch, scratch->branch, &g.branch));
    LS_TRY(ls_nn_gather(nn, g.branch, nn->policy.act, nn->scratch.rows2, &g.rows));
    if (phase != LS_BACKWARD_WEIGHTS) {
        LS_TRY(half->backward(block, nn, half, g.rows, g.dwide, both ? half->inner : NULL));
        LS_TRY(ls_nn_project_sliced(nn, g.dnorm, g.dwide, half->in_w, NULL));
    }
    if (phase != LS_BACKWARD_INPUT && half->weights) LS_TRY(half->weights(block, nn, half, g.dwide, phase));
    if (phase != LS_BACKWARD_INPUT) LS_TRY(outer_weights(nn, half, &g));
    if (phase == LS_BACKWARD_WEIGHTS) {
        LS_TRY(ls_half_norm(nn, half, x, &norm));
        return inner_weights(nn, half, &g, x, norm, false);
    }
    /* The gradient of the branch is not needed any more: d changes, and that of the half before may lie in its place.
     * What the norm gave is made again in the same pass. */
    bool whole = both && ls_nn_norm_is_whole(nn);
    ls_nn_norm_more more = {.add = true, .y = both ? scratch->norm : NULL, .b = half->norm_b, .params = whole};
    if (half->start) more.branch = before->branch, more.sum = scratch->middle;
    bool rounds = ls_policy_is_16(&nn->policy);
    /* Dropout of the half before, in this block or in the one before it. */
    more.drop = ls_nn_drop_of(nn, half->place - 1);
    if (before && rounds) {
        more.copy = both ? scratch->branch : before->kept->branch;
        more.bias = whole ? before->out_b : NULL;
        before->is_rounded = true;
        before->has_bias = whole;
    } else if (!before && nn->fusion.next) {
        more.copy = scratch->branch;
    }
    LS_TRY(ls_nn_norm_backward(nn, d, g.dnorm, half->stats, half->start ? half->start : x, half->norm_w, &more));
    if (!both) return LS_OK;
    LS_TRY(ls_nn_gather(nn, scratch->norm, nn->policy.act, nn->scratch.rows, &norm));
    return inner_weights(nn, half, &g, x, norm, whole);
}
