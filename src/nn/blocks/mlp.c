/* mlp.c: the body of the MLP half of a block.
 *
 *     x ─ norm ─ in ─ GELU, silu(gate)·up or gelu(gate)·up ─ out ─ + x
 *
 * A row of the gated form is cut as its weight is: slice by slice, gate columns before up columns. Backward
 * recomputes the output of the activation unless --keep-activations saves it, because it is wide, and cheap beside the
 * matmuls. */
#include "nn/blocks/transformer.h"

/* Computes out from in or, if dout is not NULL, only the gradient din of in, from in and dout: one call for each slice,
 * since gate and up are neighbours only inside a slice. */
static ls_status gated(const ls_nn *nn, const void *in, void *out, const void *dout, void *din) {
    size_t hidden = nn->own.hidden, all = nn->shape->hidden, base = ls_slice_begin(all, nn->S, nn->slice0);
    for (int i = 0; i < nn->slices; i++) {
        size_t begin = ls_slice_begin(all, nn->S, nn->slice0 + i) - base;
        size_t end = ls_slice_begin(all, nn->S, nn->slice0 + i + 1) - base;
        size_t gate = 2 * begin, up = gate + (end - begin);
        ls_gated_call call = {.rows = ls_nn_rows(nn), .columns = end - begin, .in_stride = 2 * hidden};
        call.fn = nn->shape->gelu_gate ? LS_GATE_GELU : LS_GATE_SILU;
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

/* Computes the output of the activation from `in`, its input. */
static ls_status activate(const ls_nn *nn, const void *in, void *out) {
    if (ls_shape_family(nn->shape)->gated) return gated(nn, in, out, NULL, NULL);
    return nn->ops->act_forward(
        nn->device, &(ls_act_call){LS_ACT_GELU, out, NULL, in, nn->policy.act, ls_nn_rows(nn) * nn->own.hidden});
}

/* Returns the columns of gates in a slice, for a matmul that has the gate as its epilogue. Returns 0 if there is no
 * such epilogue: it knows SiLU alone, and slices of one width. */
static size_t gate_of(const ls_nn *nn) {
    size_t slices = (size_t)nn->S;
    return nn->shape->gelu_gate || nn->shape->hidden % slices ? 0 : nn->shape->hidden / slices;
}

/* Computes the input of the activation (saved->wide) and its output (half->inner), fused if the device can. */
static ls_status forward(ls_block *block, ls_nn *nn, const ls_half *half, const void *norm) {
    const ls_transformer_saved *saved = block->saved;
    void *pre = saved->wide;
    if (!ls_shape_family(nn->shape)->gated)
        return ls_nn_project_gelu(nn, pre, half->inner, norm, half->in_w, half->in_b);
    bool is_done = false;
    if (gate_of(nn) && !half->in_b)
        LS_TRY(ls_nn_project_gated(nn, pre, half->inner, gate_of(nn), norm, half->in_w, &is_done));
    if (is_done) return LS_OK;
    LS_TRY(ls_nn_project(nn, pre, norm, half->in_w, half->in_b));
    return activate(nn, pre, half->inner);
}

/* Computes dwide, the gradient of the activation's input, and recomputes `inner`, the activation's output, unless it
 * is NULL or saved. */
static ls_status backward(ls_block *block, ls_nn *nn, const ls_half *half, const void *rows, void *dwide, void *inner) {
    const ls_transformer_saved *saved = block->saved;
    const void *pre = saved->wide;
    if (nn->keeps_act) inner = NULL;
    if (!ls_shape_family(nn->shape)->gated) return ls_nn_project_gelu_grad(nn, dwide, inner, pre, rows, half->out_w);
    bool is_done = false;
    if (gate_of(nn)) LS_TRY(ls_nn_project_gated_grad(nn, dwide, inner, pre, gate_of(nn), rows, half->out_w, &is_done));
    if (is_done) return LS_OK;
    LS_TRY(ls_nn_project(nn, half->scratch->dact, rows, half->out_w, NULL));
    LS_TRY(gated(nn, pre, NULL, half->scratch->dact, dwide));
    return inner ? activate(nn, pre, inner) : LS_OK;
}

/* Recomputes the activation's output for the second phase of backward, unless it is saved. The MLP has no parameters
 * of its own. */
static ls_status weights(ls_block *block, ls_nn *nn, const ls_half *half, const void *dwide, ls_block_pass phase) {
    (void)dwide;
    const ls_transformer_saved *saved = block->saved;
    return phase == LS_BACKWARD_WEIGHTS && !nn->keeps_act ? activate(nn, saved->wide, half->inner) : LS_OK;
}

ls_half ls_mlp_half(ls_block *block, const ls_nn *nn) {
    const ls_transformer_saved *saved = block->saved;
    ls_half half = ls_half_open(block, 1);
    half.in_width = nn->own.mlp;
    half.inner = nn->keeps_act ? saved->inner : half.scratch->wide;
    half.inner_width = nn->own.hidden;
    half.branch = half.scratch->branch;
    half.dwide = half.scratch->dwide;
    half.forward = forward;
    half.weights = weights;
    half.backward = backward;
    return half;
}
