/* embed.c: the first block: token rows, plus position rows where the shape has them. */
#include "nn/block.h"
#include "nn/transformer.h"

static void declare(ls_block *block, const ls_shape *shape) {
    ls_param tokens = ls_param_matrix("tokens.weight", shape->V, shape->C, shape->init_std);
    tokens.kind = LS_PARAM_TOKENS;
    tokens.split = true;
    ls_block_add(block, tokens);
    if (ls_shape_is_llama(shape)) return;
    ls_param positions = ls_param_matrix("positions.weight", shape->T, shape->C, shape->init_std);
    positions.kind = LS_PARAM_POSITIONS;
    ls_block_add(block, positions);
}

static void carve_saved(ls_saved *saved, const ls_nn *nn, ls_arena *arena) {
    (void)saved;
    (void)nn;
    (void)arena;
}

static void carve_scratch(ls_scratch *scratch, const ls_nn *nn, bool for_backward, ls_arena *arena) {
    (void)for_backward;
    scratch->branch = ls_arena_take_array(arena, "scratch", ls_nn_rows(nn), nn->shape->C * sizeof(float));
}

static ls_embed_tokens tokens_of(const ls_nn *nn, size_t row, size_t rows) {
    return (ls_embed_tokens){.ids = nn->ids + row, .id_end = (int32_t)nn->shape->V, .rows = rows, .C = nn->shape->C};
}

static ls_status forward(ls_block *block, ls_nn *nn, const float *x, float *y) {
    (void)x;
    const float *positions = block->nparams > 1 ? block->param[1].w : NULL;
    ls_embed_tokens tokens = tokens_of(nn, 0, ls_nn_rows(nn));
    size_t period = nn->first > 0 ? nn->shape->T : nn->T;
    LS_TRY(
        nn->ops->embed_forward(nn->device, y, nn->shape->C, block->param[0].w, positions, nn->first, period, &tokens));
    return ls_nn_residual(nn, y, NULL, y, 0);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* The sums of a step are added to the rows that its tokens name; other rows are absent, which −0 stands for (rule 9).
 */
static ls_status token_step(const ls_nn *nn, const ls_grad *grad, const ls_grad_step *step, const float *d,
                            const ls_param *table) {
    size_t row = step->first * nn->T, elems = ls_param_elems(table), C = nn->shape->C;
    ls_embed_tokens tokens = tokens_of(nn, row, (step->end - step->first) * nn->T);
    ls_token_groups groups = ls_nn_groups(nn, step);
    int at = step->at, joins = step->joins;
    if (!step->accumulate && joins > 0) {
        at--; /* its rows go straight into the subtree they join */
        joins--;
    } else if (!step->accumulate) {
        LS_TRY(nn->ops->set(nn->device, grad->slot[at], -0.0F, elems));
    }
    LS_TRY(nn->ops->embed_token_grad(nn->device, grad->slot[at], d + row * C, C, &tokens, &groups));
    return ls_nn_grad_join(nn, grad, at, joins, elems);
}

static ls_status position_step(const ls_nn *nn, const ls_grad *grad, const ls_grad_step *step, const float *d,
                               const ls_param *table) {
    size_t C = nn->shape->C, elems = ls_param_elems(table), used = nn->T * C;
    ls_token_groups groups = ls_nn_groups(nn, step);
    float *slot = grad->slot[step->at];
    LS_TRY(nn->ops->embed_position_grad(nn->device, slot, d + step->first * used, C, C, &groups));
    if (!step->accumulate && used < elems) LS_TRY(nn->ops->set(nn->device, slot + used, -0.0F, elems - used));
    return ls_nn_grad_join(nn, grad, step->at, step->joins, elems);
}

/* A table that the head uses too, when the whole batch is one step: the head's gradient is there already, and nothing
 * but the rows of this batch has to be added to it. */
static ls_status token_rows_alone(const ls_nn *nn, const ls_param *table, const float *d) {
    ls_embed_tokens tokens = tokens_of(nn, 0, ls_nn_rows(nn));
    ls_token_groups groups = ls_nn_groups(nn, &nn->steps[0]);
    return nn->ops->embed_token_grad(nn->device, table->grad.slot[0], d, nn->shape->C, &tokens, &groups);
}

static ls_status backward(ls_block *block, ls_nn *nn, const float *x, float *d) {
    (void)x;
    ls_param *table = &block->param[0];
    const float *dy;
    LS_TRY(ls_nn_residual_backward(nn, d, 0, &dy));
    if (nn->shape->tied && table->lookup.slot[0] == NULL) {
        LS_TRY(token_rows_alone(nn, table, dy));
    } else {
        const ls_grad *grad = nn->shape->tied ? &table->lookup : &table->grad;
        for (int i = 0; i < nn->nsteps; i++) LS_TRY(token_step(nn, grad, &nn->steps[i], dy, table));
    }
    if (block->nparams < 2) return LS_OK;
    for (int i = 0; i < nn->nsteps; i++)
        LS_TRY(position_step(nn, &block->param[1].grad, &nn->steps[i], dy, &block->param[1]));
    return LS_OK;
}

static ls_block_cost cost(const ls_block *block, const ls_shape *shape, size_t B, size_t T) {
    (void)block;
    (void)shape;
    (void)B;
    (void)T;
    return (ls_block_cost){0};
}

const ls_block_kind ls_block_embed = {
    .name = "embedding",
    .declare = declare,
    .carve_saved = carve_saved,
    .carve_scratch = carve_scratch,
    .forward = forward,
    .backward = backward,
    .cost = cost,
};
