/* conv_block.c: convolution, bias, activation and pooling.
 *
 *     x ─ conv + bias ─ act ─ pool ─ y
 *     dx ─── dpre ─────────── dact ─ d
 *
 * Forward saves the output of the activation and the position of each window's maximum; both can be recomputed from x.
 */
#include "base/fault.h"
#include "nn/images/image_layer.h"

/* Returns the elements of an image in front of the pooling. */
static size_t mid_elems(const ls_block *block) { return ls_extent_elems(block->image.mid); }
/* Returns the positions, height × width, of an image in front of the pooling. */
static size_t positions(const ls_block *block) { return block->image.mid.height * block->image.mid.width; }

/* Adds weight and bias of the convolution. */
static void declare(ls_block *block, const ls_shape *shape) {
    const ls_image_layer *layer = &block->image;
    (void)shape;
    ls_image_declare(block, layer->mid.channels, layer->conv.kernel_y * layer->conv.kernel_x * layer->in.channels);
    ls_image_weight(block)->positions = positions(block);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* Returns the convolution's call for so many images, without tensors. */
static ls_conv_call conv_of(const ls_block *block, size_t images) {
    const ls_image_layer *layer = &block->image;
    return ls_image_conv(layer->in, layer->mid.channels, &layer->conv, images);
}

/* Computes convolution, bias and activation into saved->act. */
static ls_status activate(ls_block *block, ls_nn *nn, const float *x) {
    const ls_image_saved *saved = block->saved;
    size_t elems = nn->rows.B * mid_elems(block);
    ls_conv_call call = conv_of(block, nn->rows.B);
    call.x = ls_image_input(nn, x);
    call.w = ls_image_weight(block)->w;
    call.bias = ls_image_bias(block)->w;
    call.y = saved->act;
    LS_TRY(nn->ops->conv_forward(nn->device, &call));
    ls_fault_at(nn->device, LS_FAULT_PRODUCT, ls_image_weight(block)->name, -1, call.y, elems, sizeof *call.y);
    LS_TRY(ls_nn_made(nn, call.y, LS_F32, elems));
    return ls_image_act_forward(nn, block->image.act, call.y, elems);
}

/* Computes y from saved->act by pooling (a copy without it); max pooling also saves the positions of maxima. */
static ls_status pool(const ls_block *block, const ls_nn *nn, float *y) {
    const ls_image_saved *saved = block->saved;
    ls_pooling_call call = ls_image_pooling(block, nn, block->image.mid, saved->taps);
    call.x = saved->act;
    call.y = y;
    switch (block->image.pool) {
    case LS_POOL_MAX: return nn->ops->max_pool_forward(nn->device, &call);
    case LS_POOL_MEAN: return nn->ops->mean_pool_forward(nn->device, &call);
    default: return ls_device_copy(nn->device, y, saved->act, nn->rows.B * mid_elems(block) * sizeof *y);
    }
}

/* Computes the block's output y from x, and saves the activations for backward. */
static ls_status forward(ls_block *block, ls_nn *nn, const float *x, float *y) {
    LS_TRY(activate(block, nn, x));
    return pool(block, nn, y);
}

/* Recomputes the saved activations. Pooling is repeated for the positions of its maxima; its output goes to scratch
 * that backward overwrites. */
static ls_status recompute(ls_block *block, ls_nn *nn, const float *x, unsigned parts) {
    const ls_image_grads *scratch = block->scratch;
    if (!(parts & LS_SAVE_WIDE)) return LS_OK;
    LS_TRY(activate(block, nn, x));
    return block->image.pool == LS_POOL_MAX ? pool(block, nn, scratch->dpre) : LS_OK;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* Computes dact, the gradient in front of the pooling, from d. */
static ls_status gradient_of_pool(const ls_block *block, const ls_nn *nn, float *dact, const float *d) {
    const ls_image_saved *saved = block->saved;
    ls_pooling_call call = ls_image_pooling(block, nn, block->image.mid, saved->taps);
    call.dy = d;
    call.dx = dact;
    return block->image.pool == LS_POOL_MAX ? nn->ops->max_pool_backward(nn->device, &call)
                                            : nn->ops->mean_pool_backward(nn->device, &call);
}

/* Computes dpre, the gradient before the activation, from d, the gradient of the block's output: backward of pooling,
 * then of the activation. */
static ls_status compute_dpre(const ls_block *block, const ls_nn *nn, float *dpre, const float *d) {
    const ls_image_saved *saved = block->saved;
    size_t elems = nn->rows.B * mid_elems(block);
    const float *dact = d;
    if (block->image.pool != LS_POOL_NONE) {
        LS_TRY(gradient_of_pool(block, nn, dpre, d));
        dact = dpre;
    }
    return ls_image_act_backward(nn, block->image.act, dpre, dact, saved->act, elems);
}

/* Computes a step of the weight's gradient. */
static ls_status weight_step(ls_block *block, const ls_nn *nn, const float *x, const float *dpre,
                             const ls_grad_step *step) {
    ls_conv_call call = conv_of(block, step->end - step->first);
    call.x = ls_image_input(nn, x) + step->first * ls_extent_elems(block->image.in);
    call.dy = dpre + step->first * mid_elems(block);
    return ls_image_conv_grad(nn, ls_image_weight(block), step, positions(block), call);
}

/* Computes a step of the bias's gradient: sums over all positions of the step's images. */
static ls_status bias_step(ls_block *block, const ls_nn *nn, const float *dpre, const ls_grad_step *step) {
    ls_param *bias = ls_image_bias(block);
    size_t n = bias->rows;
    ls_token_groups groups = ls_nn_groups(nn, step);
    groups.T = positions(block);
    LS_TRY(nn->ops->bias_grad(
        nn->device,
        &(ls_bias_grad_call){bias->grad.slot[step->at], dpre + step->first * mid_elems(block), LS_F32, n, n, &groups}));
    return ls_nn_grad_end(nn, bias, &bias->grad, step, ls_grad_rows_elems(ls_nn_grad_rows(nn, bias)));
}

/* Computes the gradients of weight and bias, in the steps of this micro-batch. */
static ls_status compute_weight_grads(ls_block *block, const ls_nn *nn, const float *x, const float *dpre) {
    for (int i = 0; i < nn->grads.nsteps; i++) {
        LS_TRY(weight_step(block, nn, x, dpre, &nn->grads.steps[i]));
        LS_TRY(bias_step(block, nn, dpre, &nn->grads.steps[i]));
    }
    return LS_OK;
}

/* Computes the gradient of the block's input in d. */
static ls_status compute_input_grad(ls_block *block, const ls_nn *nn, const float *dpre, float *d) {
    ls_conv_call call = conv_of(block, nn->rows.B);
    call.w = ls_image_weight(block)->w;
    call.dy = dpre;
    call.dx = d;
    LS_TRY(nn->ops->conv_input_grad(nn->device, &call));
    return ls_nn_made(nn, d, LS_F32, nn->rows.B * ls_extent_elems(block->image.in));
}

/* Turns d into the gradient of x and computes the weight gradients, or one of the two (`phase`). x is NULL for the
 * first block, which needs no gradient of its input. */
static ls_status backward(ls_block *block, ls_nn *nn, const float *x, float *d, ls_block_pass phase) {
    const ls_image_grads *grads = phase == LS_BACKWARD_BOTH ? block->scratch : block->kept;
    float *dpre = grads->dpre;
    if (phase != LS_BACKWARD_WEIGHTS) LS_TRY(compute_dpre(block, nn, dpre, d));
    if (phase != LS_BACKWARD_INPUT) LS_TRY(compute_weight_grads(block, nn, x, dpre));
    return phase == LS_BACKWARD_WEIGHTS || x == NULL ? LS_OK : compute_input_grad(block, nn, dpre, d);
}

const ls_block_kind ls_block_conv = {
    .name = "convolution",
    .saved_bytes = sizeof(ls_image_saved),
    .kept_bytes = sizeof(ls_image_grads),
    .scratch_bytes = sizeof(ls_image_grads),
    .declare = declare,
    .carve_saved = ls_image_carve_saved,
    .carve_kept = ls_image_carve_kept,
    .carve_scratch = ls_image_carve_scratch,
    .forward = forward,
    .recompute = recompute,
    .backward = backward,
};
