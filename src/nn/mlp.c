/* mlp.c: the MLP half of a block, forward and backward.
 *
 *     x ─ norm ─ in ─ GELU, or silu(gate)·up ─ out ─ + x
 *
 * A row of the gated form is cut as its weight is: slice by slice, gate columns before up columns. The output of the
 * activation is made again in backward: it is wide, and cheap beside the products. */
#include "nn/transformer.h"

/* One call for each slice, since gate and up are neighbours only inside one. */
static ls_status gated(const ls_nn *nn, const float *in, float *out, const float *dout, float *din) {
    const ls_shape *shape = nn->shape;
    for (int i = 0; i < nn->S; i++) {
        size_t begin = ls_slice_begin(shape->hidden, nn->S, i), end = ls_slice_begin(shape->hidden, nn->S, i + 1);
        size_t gate = 2 * begin, up = gate + (end - begin);
        ls_gated_call call = {.rows = ls_nn_rows(nn), .columns = end - begin, .in_stride = 2 * shape->hidden};
        call.gate = in + gate;
        call.up = in + up;
        if (dout == NULL) {
            call.y = out + begin;
            call.y_stride = shape->hidden;
            LS_TRY(nn->ops->gated_forward(nn->device, &call));
        } else {
            call.dy = dout + begin;
            call.dy_stride = shape->hidden;
            call.dgate = din + gate;
            call.dup = din + up;
            call.din_stride = 2 * shape->hidden;
            LS_TRY(nn->ops->gated_backward(nn->device, &call));
        }
    }
    return LS_OK;
}

static ls_status activate(const ls_nn *nn, const float *in, float *out) {
    if (ls_shape_is_llama(nn->shape)) return gated(nn, in, out, NULL, NULL);
    return nn->ops->gelu_forward(nn->device, out, in, ls_nn_rows(nn) * nn->shape->hidden);
}

static ls_status project_and_activate(const ls_nn *nn, const ls_half *p, float *pre, float *out) {
    size_t hidden = nn->shape->hidden;
    if (ls_shape_is_llama(nn->shape) || p->in_b == NULL) {
        LS_TRY(ls_nn_project(nn, pre, nn->scratch.norm, p->in_w, p->in_b));
        return activate(nn, pre, out);
    }
    /* Bias and GELU in one pass over memory. */
    LS_TRY(ls_nn_project(nn, pre, nn->scratch.norm, p->in_w, NULL));
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
    LS_TRY(ls_nn_norm(nn, nn->scratch.norm, saved->norm2, x, p.norm_w, p.norm_b));
    LS_TRY(project_and_activate(nn, &p, saved->wide, nn->scratch.wide));
    LS_TRY(ls_nn_project_sliced(nn, nn->scratch.branch, nn->scratch.wide, p.out_w, p.out_b));
    return ls_nn_residual(nn, y, x, nn->scratch.branch, 2 * (uint32_t)block->layer + 2);
}

/* dwide, from the gradient of the activation's output. */
static ls_status activate_backward(const ls_nn *nn, const ls_half *p, const float *pre, const float *branch) {
    const ls_scratch *scratch = &nn->scratch;
    if (ls_shape_is_llama(nn->shape)) {
        LS_TRY(ls_nn_project(nn, scratch->dact, branch, p->out_w, NULL));
        return gated(nn, pre, NULL, scratch->dact, scratch->dwide);
    }
    LS_TRY(ls_nn_project(nn, scratch->dwide, branch, p->out_w, NULL));
    return nn->ops->gelu_backward(nn->device, scratch->dwide, scratch->dwide, pre, ls_nn_rows(nn) * nn->shape->hidden);
}

ls_status ls_mlp_half_backward(ls_block *block, ls_nn *nn, const float *x, float *d) {
    const ls_shape *shape = nn->shape;
    ls_half p = ls_mlp_params(block, shape);
    ls_saved *saved = &block->saved;
    const ls_scratch *scratch = &nn->scratch;
    const float *branch;
    LS_TRY(ls_nn_residual_backward(nn, d, 2 * (uint32_t)block->layer + 2, &branch));
    if (p.out_b) LS_TRY(ls_nn_grad_bias(nn, p.out_b, branch));
    LS_TRY(activate(nn, saved->wide, scratch->wide));
    LS_TRY(ls_nn_grad_matrix(nn, &p.out_w->grad, scratch->wide, shape->hidden, branch, shape->C));
    LS_TRY(activate_backward(nn, &p, saved->wide, branch));
    if (p.in_b) LS_TRY(ls_nn_grad_bias(nn, p.in_b, scratch->dwide));
    LS_TRY(ls_nn_norm(nn, scratch->norm, saved->norm2, x, p.norm_w, p.norm_b));
    LS_TRY(ls_nn_grad_matrix(nn, &p.in_w->grad, scratch->dwide, ls_shape_mlp_width(shape), scratch->norm, shape->C));
    LS_TRY(ls_nn_project_sliced(nn, scratch->dnorm, scratch->dwide, p.in_w, NULL));
    LS_TRY(ls_nn_norm_backward(nn, scratch->norm, scratch->dnorm, saved->norm2, x, p.norm_w, p.norm_b));
    return nn->ops->add(nn->device, d, d, scratch->norm, ls_nn_rows(nn) * shape->C);
}
