/* image_layer.c: activations of images, and the parameters of a layer. */
#include "nn/images/image_layer.h"

#include <math.h>

void ls_image_declare(ls_block *block, size_t outputs, size_t inputs) {
    double gain = block->image.act == LS_IMAGE_RELU ? 2 : 1;
    ls_block_add(block, LS_ROLE_WEIGHT, ls_param_matrix("weight", outputs, inputs, sqrt(gain / (double)inputs)));
    ls_block_add(block, LS_ROLE_BIAS, ls_param_vector("bias", outputs, LS_INIT_ZEROS));
}

/* Returns the device's function for an activation; not for LS_IMAGE_NONE. */
static ls_act_fn fn_of(ls_image_act act) { return act == LS_IMAGE_RELU ? LS_ACT_RELU : LS_ACT_SIGMOID; }

ls_status ls_image_act_forward(const ls_nn *nn, ls_image_act act, float *y, size_t n) {
    return act == LS_IMAGE_NONE ? LS_OK
                                : nn->ops->act_forward(nn->device, &(ls_act_call){fn_of(act), y, NULL, y, LS_F32, n});
}

ls_status ls_image_act_backward(const ls_nn *nn, ls_image_act act, float *dx, const float *dy, const float *y,
                                size_t n) {
    if (act != LS_IMAGE_NONE)
        return nn->ops->act_backward(nn->device, &(ls_act_call){fn_of(act), dx, dy, y, LS_F32, n});
    return dx == dy ? LS_OK : ls_device_copy(nn->device, dx, dy, n * sizeof *dx);
}

ls_conv_call ls_image_conv(ls_extent in, size_t channels, const ls_window *window, size_t images) {
    return (ls_conv_call){.images = images,
                          .height = in.height,
                          .width = in.width,
                          .c_in = in.channels,
                          .c_out = channels,
                          .window = *window};
}

ls_pooling_call ls_image_pooling(const ls_block *block, const ls_nn *nn, ls_extent in, uint32_t *taps) {
    return (ls_pooling_call){.images = nn->rows.B,
                             .height = in.height,
                             .width = in.width,
                             .channels = in.channels,
                             .window = block->image.window,
                             .taps = taps};
}

ls_status ls_image_conv_grad(const ls_nn *nn, const ls_param *w, const ls_grad_step *step, size_t positions,
                             ls_conv_call call) {
    const ls_grad *grad = &w->grad;
    size_t bounds[LS_GRAD_GROUPS_MAX + 1];
    for (int i = 0; i <= step->groups; i++) bounds[i] = step->bounds[i] * positions;
    call.slices = step->groups;
    call.bounds = bounds;
    if (nn->grads.leaves || step->accumulate) {
        call.accumulate = step->accumulate;
        call.dw = grad->slot[step->at];
        LS_TRY(nn->ops->conv_weight_grad(nn->device, &call));
        return ls_nn_grad_end(nn, w, grad, step, ls_param_local_elems(w));
    }
    call.dw = grad->slot[step->at - step->joins];
    call.siblings = step->joins;
    for (int i = 0; i < step->joins; i++) call.sibling[i] = grad->slot[step->at - i - 1];
    return nn->ops->conv_weight_grad(nn->device, &call);
}

float *ls_image_take(const ls_nn *nn, ls_arena *arena, const char *kind, size_t elems) {
    return ls_arena_take_array(arena, kind, nn->rows.B, elems * sizeof(float));
}

void ls_image_carve_saved(const ls_block *block, void *state, const ls_nn *nn, unsigned parts, ls_arena *arena) {
    ls_image_saved *saved = state;
    if (!(parts & LS_SAVE_WIDE)) return;
    saved->act = ls_image_take(nn, arena, "activations", ls_extent_elems(block->image.mid));
    if (block->image.pool == LS_POOL_MAX)
        saved->taps =
            ls_arena_take_array(arena, "activations", nn->rows.B, ls_extent_elems(block->image.out) * sizeof(uint32_t));
}

void ls_image_carve_kept(const ls_block *block, void *state, const ls_nn *nn, ls_arena *arena) {
    ls_image_grads *kept = state;
    kept->dpre = ls_image_take(nn, arena, "activations", ls_extent_elems(block->image.mid));
}

void ls_image_carve_scratch(const ls_block *block, void *state, ls_scratch *shared, const ls_nn *nn, bool for_backward,
                            ls_arena *arena) {
    (void)shared;
    ls_image_grads *scratch = state;
    if (for_backward) scratch->dpre = ls_image_take(nn, arena, "scratch", ls_extent_elems(block->image.mid));
}
