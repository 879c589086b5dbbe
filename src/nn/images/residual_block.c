/* residual_block.c: two convolutions with batch norm, and a way past them.
 *
 *     x ─┬─ conv_bn 0, ReLU ─ conv_bn 1 ─ + ─ ReLU ─ y
 *        └─ conv_bn 2, where sizes change ──┘
 *
 * The gradient of x is that through the convolutions plus that of the way past them. */
#include "nn/images/conv_bn.h"
#include "nn/images/image_layer.h"

/* Returns whether the skip path has a convolution, because stride or channels change the sizes. */
static bool has_side(const ls_block *block) { return block->conv_bns == 3; }

/* Adds the parameters of its two or three conv_bns. */
static void declare(ls_block *block, const ls_shape *shape) {
    static const char *const numbers[LS_CONV_BN_MAX] = {"1", "2", "-side"};
    (void)shape;
    for (int u = 0; u < block->conv_bns; u++) ls_conv_bn_declare(block, u, numbers[u]);
}

/* Takes memory from the arena for the conv_bns and for the gradients of the skip path. */
static void carve_scratch(const ls_block *block, void *state, ls_scratch *shared, const ls_nn *nn, bool for_backward,
                          ls_arena *arena) {
    ls_conv_bns_scratch *scratch = state;
    ls_conv_bn_carve_scratch(block, scratch, shared, nn, for_backward, arena);
    if (!for_backward) return;
    scratch->shortcut = ls_image_take(nn, arena, "scratch", ls_extent_elems(block->conv_bn[1].out));
    scratch->dpre = ls_image_take(nn, arena, "scratch", ls_extent_elems(block->conv_bn[0].out));
    if (has_side(block)) scratch->side = ls_image_take(nn, arena, "scratch", ls_extent_elems(block->conv_bn[0].in));
}

/* Computes all conv_bns into their saved tensors; the block's output is that of conv_bn 1. */
static ls_status run(ls_block *block, ls_nn *nn, const float *x) {
    const ls_conv_bns_saved *saved = block->saved;
    const float *past = x;
    LS_TRY(ls_conv_bn_forward(block, nn, 0, x, NULL));
    if (has_side(block)) {
        LS_TRY(ls_conv_bn_forward(block, nn, 2, x, NULL));
        past = saved->unit[2].y;
    }
    return ls_conv_bn_forward(block, nn, 1, saved->unit[0].y, past);
}

/* Computes the block's output y from x, and saves what backward needs. */
static ls_status forward(ls_block *block, ls_nn *nn, const float *x, float *y) {
    const ls_conv_bns_saved *saved = block->saved;
    LS_TRY(run(block, nn, x));
    return ls_device_copy(nn->device, y, saved->unit[1].y, nn->rows.B * block->out * sizeof *y);
}

/* Fills the saved tensors in again from x. */
static ls_status recompute(ls_block *block, ls_nn *nn, const float *x, unsigned parts) {
    return parts & LS_SAVE_WIDE ? run(block, nn, x) : LS_OK;
}

/* Turns d into the gradient of x, and computes what the weight gradients need in `grads`. */
static ls_status inputs(ls_block *block, ls_nn *nn, const ls_conv_bn_grads *grads, float *d) {
    const ls_conv_bns_scratch *scratch = block->scratch;
    const float *past = scratch->shortcut;
    LS_TRY(ls_conv_bn_backward(block, nn, 1, d, &grads[1], scratch->shortcut));
    LS_TRY(ls_conv_bn_input(block, nn, 1, &grads[1], scratch->dpre));
    LS_TRY(ls_conv_bn_backward(block, nn, 0, scratch->dpre, &grads[0], NULL));
    LS_TRY(ls_conv_bn_input(block, nn, 0, &grads[0], d));
    if (has_side(block)) {
        LS_TRY(ls_conv_bn_backward(block, nn, 2, scratch->shortcut, &grads[2], NULL));
        LS_TRY(ls_conv_bn_input(block, nn, 2, &grads[2], scratch->side));
        past = scratch->side;
    }
    return nn->ops->add(nn->device, &(ls_add_call){d, d, past, LS_F32, nn->rows.B * block->in});
}

/* Turns d into the gradient of x and computes the weight gradients, or one of the two (`phase`). */
static ls_status backward(ls_block *block, ls_nn *nn, const float *x, float *d, ls_block_pass phase) {
    const ls_conv_bns_saved *saved = block->saved;
    const ls_conv_bn_grads *grads = ls_conv_bn_grads_of(block, phase);
    if (phase != LS_BACKWARD_WEIGHTS) LS_TRY(inputs(block, nn, grads, d));
    if (phase == LS_BACKWARD_INPUT) return LS_OK;
    LS_TRY(ls_conv_bn_weights(block, nn, 0, x, &grads[0]));
    LS_TRY(ls_conv_bn_weights(block, nn, 1, saved->unit[0].y, &grads[1]));
    return has_side(block) ? ls_conv_bn_weights(block, nn, 2, x, &grads[2]) : LS_OK;
}

const ls_block_kind ls_block_residual = {
    .name = "residual",
    .saved_bytes = sizeof(ls_conv_bns_saved),
    .kept_bytes = sizeof(ls_conv_bns_kept),
    .scratch_bytes = sizeof(ls_conv_bns_scratch),
    .declare = declare,
    .settle = ls_conv_bn_settle,
    .carve_saved = ls_conv_bn_carve_saved,
    .carve_kept = ls_conv_bn_carve_kept,
    .carve_scratch = carve_scratch,
    .forward = forward,
    .recompute = recompute,
    .backward = backward,
    .traffic = ls_conv_bn_traffic,
};
