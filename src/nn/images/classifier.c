/* classifier.c: the last block of an image model: a linear layer to the classes, loss, and the gradient of its
 * input.
 *
 *     x ─ mean over the image, where it has more than one position ─ logits ─ loss
 *     dx ─────────────────────────────────────────────────────────── dz (in the place of the logits) */
#include "nn/images/image_layer.h"

/* Returns whether the mean over the image comes first. */
static bool pools(const ls_block *block) { return block->image.pool == LS_POOL_MEAN; }

/* Returns the number of classes, the width of the logits. */
static size_t classes(const ls_block *block) { return ls_extent_elems(block->image.mid); }

/* Adds weight and bias of the linear layer. */
static void declare(ls_block *block, const ls_shape *shape) { ls_image_declare(block, shape->V, shape->C); }

typedef struct classifier_scratch {
    float *pooled, *dpooled; /* means over the image, and their gradient */
} classifier_scratch;

/* Takes memory from the arena for logits, losses and, with pooling, the means. */
static void carve_scratch(const ls_block *block, void *state, ls_scratch *shared, const ls_nn *nn, bool for_backward,
                          ls_arena *arena) {
    classifier_scratch *scratch = state;
    shared->logits = ls_image_take(nn, arena, "logits", classes(block));
    shared->loss = ls_image_take(nn, arena, "scratch", 1);
    if (!pools(block)) return;
    scratch->pooled = ls_image_take(nn, arena, "scratch", block->image.in.channels);
    if (for_backward) scratch->dpooled = ls_image_take(nn, arena, "scratch", block->image.in.channels);
}

/* Computes the loss of each image and, with steps, replaces the logits by their gradient. */
static ls_status loss(const ls_block *block, const ls_nn *nn) {
    size_t V = classes(block), bounds[2] = {0, V};
    ls_loss_call call = {.rows = nn->rows.B, .z = nn->scratch.logits, .z_stride = V, .bounds = bounds, .slices = 1};
    call.targets = nn->input.targets;
    call.loss = nn->scratch.loss;
    if (nn->grads.nsteps > 0) {
        call.dz = nn->scratch.logits;
        call.dz_stride = V;
        call.g = nn->grads.loss_scale;
    }
    return nn->ops->loss_rows(nn->device, &call);
}

/* Computes logits or losses and, in training, the weight gradients and that of the input (in y): the block has no
 * backward. */
static ls_status forward(ls_block *block, ls_nn *nn, const float *x, float *y) {
    const classifier_scratch *scratch = block->scratch;
    void *logits = nn->scratch.logits;
    ls_param *w = ls_image_weight(block);
    const float *features = ls_image_input(nn, x);
    ls_pooling_call pooling = ls_image_pooling(block, nn, block->image.in, NULL);
    if (pools(block)) {
        pooling.x = features;
        features = pooling.y = scratch->pooled;
        LS_TRY(nn->ops->mean_pool_forward(nn->device, &pooling));
    }
    LS_TRY(ls_nn_project(nn, logits, features, w, ls_image_bias(block)));
    if (nn->input.targets == NULL) return LS_OK;
    LS_TRY(loss(block, nn));
    if (nn->grads.nsteps == 0) return LS_OK;
    LS_TRY(ls_nn_grad_matrix(nn, w, logits, w->rows, w->rows, features, w->columns));
    LS_TRY(ls_nn_grad_bias(nn, ls_image_bias(block), logits));
    LS_TRY(ls_nn_project_back(nn, pools(block) ? scratch->dpooled : y, logits, w));
    if (!pools(block)) return LS_OK;
    pooling.dy = scratch->dpooled;
    pooling.dx = y;
    return nn->ops->mean_pool_backward(nn->device, &pooling);
}

const ls_block_kind ls_block_classifier = {
    .name = "classifier",
    .scratch_bytes = sizeof(classifier_scratch),
    .declare = declare,
    .carve_scratch = carve_scratch,
    .forward = forward,
};
