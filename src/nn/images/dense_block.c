/* dense_block.c: a linear layer with bias, its activation, and in training dropout: x ─ W·x + b ─ act ─ drop ─ y.
 * Backward draws the dropout mask again, because the mask is not kept. */
#include "nn/images/image_layer.h"

enum { PURPOSE_DROPOUT = 0x44454e53 }; /* and the place in the model behind it */

/* Returns the outputs of the layer. */
static size_t outputs(const ls_block *block) { return ls_extent_elems(block->image.out); }

/* Adds weight and bias. */
static void declare(ls_block *block, const ls_shape *shape) {
    (void)shape;
    ls_image_declare(block, ls_extent_elems(block->image.out), ls_extent_elems(block->image.in));
}

/* Computes the output of the activation into saved->act. */
static ls_status activate(ls_block *block, ls_nn *nn, const float *x) {
    const ls_image_saved *saved = block->saved;
    LS_TRY(ls_nn_project(nn, saved->act, ls_image_input(nn, x), ls_image_weight(block), ls_image_bias(block)));
    return ls_image_act_forward(nn, block->image.act, saved->act, nn->rows.B * outputs(block));
}

/* Computes y = dropout(x), for the output of the activation or for its gradient. */
static ls_status drop(const ls_block *block, const ls_nn *nn, float *y, const float *x) {
    const ls_dropout *dropout = &nn->dropout;
    size_t n = outputs(block);
    ls_dropout_call call = {.rows = nn->rows.B, .columns = n, .x = x, .x_dtype = LS_F32, .y = y, .y_dtype = LS_F32};
    call.x_stride = call.y_stride = n;
    call.drop.key = ls_rng_key_make(dropout->seed, PURPOSE_DROPOUT + block->image.place, dropout->step);
    call.drop.first = dropout->first_sequence;
    ls_drop_set_rate(&call.drop, dropout->p);
    return nn->ops->dropout_add(nn->device, &call);
}

/* Computes the block's output y from x, with dropout in training, and saves the activation for backward. */
static ls_status forward(ls_block *block, ls_nn *nn, const float *x, float *y) {
    const ls_image_saved *saved = block->saved;
    LS_TRY(activate(block, nn, x));
    if (nn->dropout.p > 0) return drop(block, nn, y, saved->act);
    return ls_device_copy(nn->device, y, saved->act, nn->rows.B * outputs(block) * sizeof *y);
}

/* Recomputes the output of the activation from x. */
static ls_status recompute(ls_block *block, ls_nn *nn, const float *x, unsigned parts) {
    return parts & LS_SAVE_WIDE ? activate(block, nn, x) : LS_OK;
}

/* Turns d into the gradient of x and computes the weight gradients, or one of the two (`phase`). x is NULL for the
 * first block, which needs no gradient of its input. */
static ls_status backward(ls_block *block, ls_nn *nn, const float *x, float *d, ls_block_pass phase) {
    size_t n = outputs(block);
    ls_param *w = ls_image_weight(block);
    const ls_image_saved *saved = block->saved;
    const ls_image_grads *grads = phase == LS_BACKWARD_BOTH ? block->scratch : block->kept;
    float *dpre = grads->dpre;
    if (phase != LS_BACKWARD_WEIGHTS) {
        bool drops = nn->dropout.p > 0;
        if (drops) LS_TRY(drop(block, nn, dpre, d));
        LS_TRY(ls_image_act_backward(nn, block->image.act, dpre, drops ? dpre : d, saved->act, nn->rows.B * n));
    }
    if (phase != LS_BACKWARD_INPUT) {
        LS_TRY(ls_nn_grad_matrix(nn, w, dpre, n, n, ls_image_input(nn, x), w->columns));
        LS_TRY(ls_nn_grad_bias(nn, ls_image_bias(block), dpre));
    }
    return phase == LS_BACKWARD_WEIGHTS || x == NULL ? LS_OK : ls_nn_project_back(nn, d, dpre, w);
}

const ls_block_kind ls_block_dense = {
    .name = "dense",
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
