/* stem_block.c: the first block of ResNet: a convolution with batch norm and ReLU, and pooling where images are large.
 */
#include "nn/images/conv_bn.h"
#include "nn/images/image_layer.h"

/* Returns whether a max pooling follows. */
static bool pools(const ls_block *block) { return block->image.pool != LS_POOL_NONE; }

/* Adds the parameters of its conv_bn. */
static void declare(ls_block *block, const ls_shape *shape) {
    (void)shape;
    ls_conv_bn_declare(block, 0, "");
}

/* Takes memory from the arena for the saved tensors and, with pooling, for the positions of its maxima. */
static void carve_saved(const ls_block *block, void *state, const ls_nn *nn, unsigned parts, ls_arena *arena) {
    ls_conv_bns_saved *saved = state;
    ls_conv_bn_carve_saved(block, saved, nn, parts, arena);
    if (pools(block) && (parts & LS_SAVE_WIDE))
        saved->taps = ls_arena_take_array(arena, "activations", nn->rows.B, block->out * sizeof(uint32_t));
}

/* Takes scratch memory from the arena and, with pooling, memory for the gradient in front of it. */
static void carve_scratch(const ls_block *block, void *state, ls_scratch *shared, const ls_nn *nn, bool for_backward,
                          ls_arena *arena) {
    ls_conv_bns_scratch *scratch = state;
    ls_conv_bn_carve_scratch(block, scratch, shared, nn, for_backward, arena);
    if (pools(block) && for_backward)
        scratch->dpre = ls_image_take(nn, arena, "scratch", ls_extent_elems(block->image.mid));
}

/* Computes the conv_bn into its saved tensors and, with pooling, y; without pooling y is not written. */
static ls_status run(ls_block *block, ls_nn *nn, const float *x, float *y) {
    const ls_conv_bns_saved *saved = block->saved;
    LS_TRY(ls_conv_bn_forward(block, nn, 0, ls_image_input(nn, x), NULL));
    if (!pools(block)) return LS_OK;
    ls_pooling_call call = ls_image_pooling(block, nn, block->conv_bn[0].out, saved->taps);
    call.x = saved->unit[0].y;
    call.y = y;
    return nn->ops->max_pool_forward(nn->device, &call);
}

/* Computes the block's output y from the images, and saves what backward needs. */
static ls_status forward(ls_block *block, ls_nn *nn, const float *x, float *y) {
    const ls_conv_bns_saved *saved = block->saved;
    LS_TRY(run(block, nn, x, y));
    return pools(block) ? LS_OK : ls_device_copy(nn->device, y, saved->unit[0].y, nn->rows.B * block->out * sizeof *y);
}

/* Runs pooling again for its taps; its output goes to scratch that backward overwrites. */
static ls_status recompute(ls_block *block, ls_nn *nn, const float *x, unsigned parts) {
    const ls_conv_bns_scratch *scratch = block->scratch;
    return parts & LS_SAVE_WIDE ? run(block, nn, x, scratch->dpre) : LS_OK;
}

/* Computes the gradient of the convolution's result from d, and the weight gradients, or one of the two (`phase`).
 * There is no gradient of the input, which is an image. */
static ls_status backward(ls_block *block, ls_nn *nn, const float *x, float *d, ls_block_pass phase) {
    const ls_conv_bns_saved *saved = block->saved;
    const ls_conv_bns_scratch *scratch = block->scratch;
    const ls_conv_bn_grads *grads = ls_conv_bn_grads_of(block, phase);
    const float *dy = d;
    if (phase != LS_BACKWARD_WEIGHTS && pools(block)) {
        ls_pooling_call call = ls_image_pooling(block, nn, block->conv_bn[0].out, saved->taps);
        call.dy = d;
        call.dx = scratch->dpre;
        LS_TRY(nn->ops->max_pool_backward(nn->device, &call));
        dy = call.dx;
    }
    if (phase != LS_BACKWARD_WEIGHTS) LS_TRY(ls_conv_bn_backward(block, nn, 0, dy, &grads[0], NULL));
    return phase == LS_BACKWARD_INPUT ? LS_OK : ls_conv_bn_weights(block, nn, 0, ls_image_input(nn, x), &grads[0]);
}

const ls_block_kind ls_block_stem = {
    .name = "stem",
    .saved_bytes = sizeof(ls_conv_bns_saved),
    .kept_bytes = sizeof(ls_conv_bns_kept),
    .scratch_bytes = sizeof(ls_conv_bns_scratch),
    .declare = declare,
    .settle = ls_conv_bn_settle,
    .carve_saved = carve_saved,
    .carve_kept = ls_conv_bn_carve_kept,
    .carve_scratch = carve_scratch,
    .forward = forward,
    .recompute = recompute,
    .backward = backward,
    .traffic = ls_conv_bn_traffic,
};
