/* head.c: the last block: final norm, logits over the vocabulary, loss, and the gradient of its input.
 *
 *     x ─ norm ─ logits ─ loss
 *     dx ─────── dz (in the place of the logits) */
#include "nn/block.h"

static void declare(ls_block *block, const ls_shape *shape) {
    ls_block_add(block, ls_param_vector("norm.weight", shape->C, LS_INIT_ONES));
    if (!ls_shape_is_llama(shape)) ls_block_add(block, ls_param_vector("norm.bias", shape->C, LS_INIT_ZEROS));
    if (shape->tied) return;
    ls_param head = ls_param_matrix("head.weight", shape->V, shape->C, shape->init_std);
    head.split = true;
    block->table = ls_block_add(block, head);
}

static void carve_saved(ls_saved *saved, const ls_nn *nn, ls_arena *arena) {
    saved->norm1 = ls_arena_take_array(arena, "activations", ls_nn_rows(nn), 2 * sizeof(float));
}

static void carve_scratch(ls_scratch *scratch, const ls_nn *nn, bool for_backward, ls_arena *arena) {
    size_t rows = ls_nn_rows(nn), row_bytes = nn->shape->C * sizeof(float);
    scratch->norm = ls_arena_take_array(arena, "scratch", rows, row_bytes);
    scratch->logits = ls_arena_take_array(arena, "logits", rows, nn->shape->V * sizeof(float));
    scratch->loss = ls_arena_take_array(arena, "scratch", rows, sizeof(float));
    if (for_backward) scratch->dnorm = ls_arena_take_array(arena, "scratch", rows, row_bytes);
}

static ls_param *norm_bias(ls_block *block, const ls_shape *shape) {
    return ls_shape_is_llama(shape) ? NULL : &block->param[1];
}

static ls_status loss(const ls_nn *nn, bool with_gradient) {
    size_t bounds[LS_SLICES_MAX + 1], V = nn->shape->V;
    ls_nn_bounds(nn, V, 1, bounds);
    ls_loss_call call = {.rows = ls_nn_rows(nn), .z = nn->scratch.logits, .z_stride = V};
    call.bounds = bounds;
    call.slices = (size_t)nn->S;
    call.targets = nn->targets;
    call.loss = nn->scratch.loss;
    if (with_gradient) {
        call.dz = nn->scratch.logits;
        call.dz_stride = V;
        call.g = nn->loss_scale;
    }
    return nn->ops->loss_rows(nn->device, &call);
}

static ls_status forward(ls_block *block, ls_nn *nn, const float *x, float *y) {
    const ls_scratch *scratch = &nn->scratch;
    ls_param *norm_b = norm_bias(block, nn->shape), *table = block->table;
    float *stats = block->saved.norm1;
    LS_TRY(ls_nn_norm(nn, scratch->norm, stats, x, &block->param[0], norm_b));
    LS_TRY(ls_nn_project(nn, scratch->logits, scratch->norm, table, NULL));
    if (nn->targets == NULL) return LS_OK;
    LS_TRY(loss(nn, nn->nsteps > 0));
    if (nn->nsteps == 0) return LS_OK;
    LS_TRY(ls_nn_grad_matrix(nn, &table->grad, scratch->logits, nn->shape->V, scratch->norm, nn->shape->C));
    LS_TRY(ls_nn_project_vocabulary(nn, scratch->dnorm, scratch->logits, table));
    return ls_nn_norm_backward(nn, y, scratch->dnorm, stats, x, &block->param[0], norm_b);
}

/* Forward has done it all. */
static ls_status backward(ls_block *block, ls_nn *nn, const float *x, float *d) {
    (void)block;
    (void)nn;
    (void)x;
    (void)d;
    return LS_OK;
}

static ls_block_cost cost(const ls_block *block, const ls_shape *shape, size_t B, size_t T) {
    (void)block;
    return (ls_block_cost){.product_flops = 2 * (double)B * (double)T * (double)shape->V * (double)shape->C};
}

const ls_block_kind ls_block_head = {
    .name = "head",
    .declare = declare,
    .carve_saved = carve_saved,
    .carve_scratch = carve_scratch,
    .forward = forward,
    .backward = backward,
    .cost = cost,
};
