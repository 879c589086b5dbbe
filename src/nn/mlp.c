/* mlp.c: the MLP half of a block, forward and backward.
 *
 *     x ─ norm ─ in ─ GELU, or silu(gate)·up ─ out ─ + x
 *
 * A row of the gated form is cut as its weight is: slice by slice, gate columns before up columns. The output of the
 * activation is made again in backward: it is wide, and cheap beside the products. */
#include "nn/transformer.h"

static uint32_t place_of(const ls_block *block) { return 2 * (uint32_t)block->layer + 2; }

/* One call for each slice, since gate and up are neighbours only inside one. */
static ls_status gated(const ls_nn *nn, const void *in, void *out, const void *dout, void *din) {
    size_t hidden = nn->own.hidden, all = nn->shape->hidden, base = ls_slice_begin(all, nn->S, nn->slice0);
    for (int i = 0; i < nn->slices; i++) {
        size_t begin = ls_slice_begin(all, nn->S, nn->slice0 + i) - base;
        size_t end = ls_slice_begin(all, nn->S, nn->slice0 + i + 1) - base;
        size_t gate = 2 * begin, up = gate + (end - begin);
        ls_gated_call call = {.rows = ls_nn_rows(nn), .columns = end - begin, .in_stride = 2 * hidden};
        call.act = nn->policy.act;
        call.gate = ls_nn_from(nn, in, gate);
        call.up = ls_nn_from(nn, in, up);
        if (dout == NULL) {
            call.y = ls_nn_at(nn, out, begin);
            call.y_stride = hidden;
            LS_TRY(nn->ops->gated_forward(nn->device, &call));
        } else {
            call.dy = ls_nn_from(nn, dout, begin);
            call.dy_stride = hidden;
            call.dgate = ls_nn_at(nn, din, gate);
            call.dup = ls_nn_at(nn, din, up);
            call.din_stride = 2 * hidden;
            LS_TRY(nn->ops->gated_backward(nn->device, &call));
        }
    }
    return LS_OK;
}

static ls_status activate(const ls_nn *nn, const void *in, void *out) {
    if (ls_shape_is_llama(nn->shape)) return gated(nn, in, out, NULL, NULL);
    return nn->ops->gelu_forward(nn->device, out, in, nn->policy.act, ls_nn_rows(nn) * nn->own.hidden);
}

/* x: what the norm gives, for all rows. */
static ls_status project_and_activate(const ls_nn *nn, const ls_half *p, const void *x, void *pre, void *out) {
    size_t hidden = nn->own.hidden;
    if (ls_shape_is_llama(nn->shape) || p->in_b == NULL || ls_policy_is_16(&nn->policy)) {
        LS_TRY(ls_nn_project(nn, pre, x, p->in_w, p->in_b));
        return activate(nn, pre, out);
    }
    /* Bias and GELU in one pass over memory. */
    LS_TRY(ls_nn_project(nn, pre, x, p->in_w, NULL));
    ls_bias_gelu_call call = {.rows = ls_nn_rows(nn), .columns = hidden, .c = pre, .c_stride = hidden};
    call.bias = p->in_b->w;
    call.pre = pre;
    call.pre_stride = hidden;
    call.y = out;
    call.y_stride = hidden;
    return nn->ops->bias_gelu_forward(nn->device, &call);
}

ls_status ls_mlp_half_forward(ls_block *block, ls_nn *nn, const float *x, float *y) {
    ls_half p = ls_mlp_params(block, nn->shape);
    ls_saved *saved = &block->saved;
    const void *norm;
    LS_TRY(ls_nn_norm(nn, nn->scratch.norm, saved->norm2, x, p.norm_w, p.norm_b));
    LS_TRY(ls_nn_gather(nn, nn->scratch.norm, nn->policy.act, nn->scratch.rows, &norm));
    LS_TRY(project_and_activate(nn, &p, norm, saved->wide, nn->scratch.wide));
    LS_TRY(ls_nn_project_sliced(nn, nn->scratch.branch, nn->scratch.wide, p.out_w, p.out_b));
    return ls_nn_residual(nn, y, x, nn->scratch.branch, nn->policy.act, place_of(block));
}

ls_status ls_mlp_half_recompute(ls_block *block, ls_nn *nn, const float *x) {
    ls_half p = ls_mlp_params(block, nn->shape);
    const void *norm;
    LS_TRY(ls_nn_norm(nn, nn->scratch.norm, block->saved.norm2, x, p.norm_w, p.norm_b));
    LS_TRY(ls_nn_gather(nn, nn->scratch.norm, nn->policy.act, nn->scratch.rows, &norm));
    return ls_nn_project(nn, block->saved.wide, norm, p.in_w, p.in_b);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* dwide, from the gradient of the branch for all rows. */
static ls_status activate_backward(const ls_nn *nn, const ls_half *p, const void *pre, const void *rows, void *dwide) {
    if (ls_shape_is_llama(nn->shape)) {
        LS_TRY(ls_nn_project(nn, nn->scratch.dact, rows, p->out_w, NULL));
        return gated(nn, pre, NULL, nn->scratch.dact, dwide);
    }
    LS_TRY(ls_nn_project(nn, dwide, rows, p->out_w, NULL));
    return nn->ops->gelu_backward(nn->device, dwide, dwide, pre, nn->policy.act, ls_nn_rows(nn) * nn->own.hidden);
}

static ls_status weights(ls_block *block, ls_nn *nn, const ls_half *p, const ls_half_grads *g, const float *x,
                         const void *rows) {
    ls_saved *saved = &block->saved;
    const ls_scratch *scratch = &nn->scratch;
    const void *norm;
    if (p->out_b) LS_TRY(ls_nn_grad_stream_bias(nn, p->out_b, g->branch));
    LS_TRY(activate(nn, saved->wide, scratch->wide));
    LS_TRY(ls_nn_grad_matrix(nn, p->out_w, scratch->wide, nn->own.hidden, nn->own.hidden, rows, nn->shape->C));
    if (p->in_b) LS_TRY(ls_nn_grad_bias(nn, p->in_b, g->wide));
    LS_TRY(ls_nn_norm(nn, scratch->norm, saved->norm2, x, p->norm_w, p->norm_b));
    LS_TRY(ls_nn_gather(nn, scratch->norm, nn->policy.act, scratch->rows, &norm));
    LS_TRY(ls_nn_grad_matrix(nn, p->in_w, g->wide, nn->own.mlp, nn->own.mlp, norm, nn->shape->C));
    return ls_nn_norm_params(nn, g->dnorm, saved->norm2, x, p->norm_w, p->norm_b);
}

ls_status ls_mlp_half_backward(ls_block *block, ls_nn *nn, const float *x, float *d, ls_backward_phase phase) {
    ls_half p = ls_mlp_params(block, nn->shape);
    ls_scratch *scratch = &nn->scratch;
    bool both = phase == LS_BACKWARD_BOTH;
    ls_half_grads g = {block->kept.branch2, both ? scratch->dwide : block->kept.dwide,
                       both ? scratch->dnorm : block->kept.dnorm2};
    const void *rows;
    if (phase != LS_BACKWARD_WEIGHTS)
        LS_TRY(ls_nn_residual_backward(nn, d, nn->policy.act, place_of(block), both ? NULL : block->kept.branch2,
                                       &g.branch));
    LS_TRY(ls_nn_gather(nn, g.branch, nn->policy.act, scratch->rows2, &rows));
    if (phase != LS_BACKWARD_WEIGHTS) {
        LS_TRY(activate_backward(nn, &p, block->saved.wide, rows, g.wide));
        LS_TRY(ls_nn_project_sliced(nn, g.dnorm, g.wide, p.in_w, NULL));
    }
    if (phase != LS_BACKWARD_INPUT) LS_TRY(weights(block, nn, &p, &g, x, rows));
    if (phase == LS_BACKWARD_WEIGHTS) return LS_OK;
    return ls_nn_norm_backward(nn, d, true, g.dnorm, block->saved.norm2, x, p.norm_w);
}
