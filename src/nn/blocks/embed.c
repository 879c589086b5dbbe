/* embed.c: the first block: token rows, plus position rows where the shape has them. */
#include "nn/block.h"
#include "nn/blocks/transformer.h"

/* Adds the token table, cut into slices of the vocabulary, and the table of positions if the family has no rotary
 * ones. */
static void declare(ls_block *block, const ls_shape *shape) {
    ls_param tokens = ls_param_matrix("tokens.weight", shape->V, shape->C, shape->init_std);
    tokens.kind = LS_PARAM_TOKENS;
    tokens.split = true;
    tokens.grain = shape->vocabulary_grain;
    ls_block_add(block, LS_ROLE_TOKENS, tokens);
    if (ls_shape_family(shape)->rotary) return;
    ls_param positions = ls_param_matrix("positions.weight", shape->T, shape->C, shape->init_std);
    positions.kind = LS_PARAM_POSITIONS;
    ls_block_add(block, LS_ROLE_POSITIONS, positions);
}

/* [stream][C] the gradient of the rows: as the second phase of backward reads it, and as dropout leaves it. */
typedef struct embed_state {
    float *branch;
} embed_state;

/* Takes memory from the arena for the gradient of the rows, which the first phase of backward leaves for the second. */
static void carve_kept(const ls_block *block, void *state, const ls_nn *nn, ls_arena *arena) {
    (void)block;
    embed_state *kept = state;
    kept->branch = ls_nn_take_f32(arena, "activations", ls_nn_stream_rows(nn), nn->shape->C);
}

/* Takes memory from the arena for the gradient after dropout and, with sequence parallelism, for gathered rows. */
static void carve_scratch(const ls_block *block, void *state, ls_scratch *shared, const ls_nn *nn, bool for_backward,
                          ls_arena *arena) {
    (void)block;
    embed_state *scratch = state;
    scratch->branch = ls_nn_take_f32(arena, "scratch", ls_nn_stream_rows(nn), nn->shape->C);
    shared->cross = ls_nn_take_cross(nn, arena);
    if (!nn->tp.sequence_parallel) return;
    shared->rows = ls_nn_take_f32(arena, "scratch", ls_nn_rows(nn), nn->shape->C);
    if (for_backward) shared->rows2 = ls_nn_take_f32(arena, "scratch", ls_nn_rows(nn), nn->shape->C);
}

/* Returns the ids of these rows, and which ids this worker's slices have. */
static ls_embed_tokens tokens_of(const ls_nn *nn, size_t row, size_t rows) {
    int32_t first = (int32_t)nn->own.first_id, end = first + (int32_t)nn->own.vocabulary;
    return (ls_embed_tokens){
        .ids = nn->input.ids + row, .id_begin = first, .id_end = end, .rows = rows, .C = nn->shape->C};
}

/* Looks tokens up in a table that a TP group shares: each worker has the rows of its ids; rows of other ids are −0,
 * which leaves a sum unchanged. Then sums over the group and adds positions. */
static ls_status forward_shared(ls_block *block, ls_nn *nn, float *y) {
    size_t C = nn->shape->C;
    float *rows = ls_nn_partial(nn, y, LS_F32);
    const ls_param *table = ls_block_param(block, LS_ROLE_TOKENS), *position = ls_block_param(block, LS_ROLE_POSITIONS);
    ls_embed_tokens tokens = tokens_of(nn, 0, ls_nn_rows(nn));
    LS_TRY(nn->ops->set(nn->device, &(ls_set_call){rows, -0.0F, ls_nn_rows(nn) * C}));
    LS_TRY(nn->ops->embed_forward(
        nn->device, &(ls_embed_call){rows, C, ls_nn_weight(nn, table), nn->policy.act, NULL, 0, 1, &tokens}));
    LS_TRY(ls_nn_made(nn, rows, LS_F32, ls_nn_rows(nn) * C));
    LS_TRY(ls_nn_join(nn, y, LS_F32, NULL));
    if (!position) return LS_OK;
    const float *positions = position->w + (nn->rows.first + nn->rows.token0) * C;
    for (size_t b = 0; b < nn->rows.B; b++) {
        float *sequence = y + b * nn->rows.stream_T * C;
        LS_TRY(nn->ops->add(nn->device, &(ls_add_call){sequence, sequence, positions, LS_F32, nn->rows.stream_T * C}));
    }
    return LS_OK;
}

/* Looks tokens up and adds positions in one operation, on a worker that has the whole table. */
static ls_status forward_alone(ls_block *block, ls_nn *nn, float *y) {
    const ls_param *table = ls_block_param(block, LS_ROLE_TOKENS), *position = ls_block_param(block, LS_ROLE_POSITIONS);
    const float *positions = position ? position->w : NULL;
    ls_embed_tokens tokens = tokens_of(nn, 0, ls_nn_rows(nn));
    size_t period = nn->rows.first > 0 ? nn->shape->T : nn->rows.T;
    return nn->ops->embed_forward(nn->device, &(ls_embed_call){y, nn->shape->C, ls_nn_weight(nn, table), nn->policy.act,
                                                               positions, nn->rows.first, period, &tokens});
}

/* Computes the first rows of the residual stream, with dropout. */
static ls_status forward(ls_block *block, ls_nn *nn, const float *x, float *y) {
    (void)x;
    LS_TRY(nn->tp.size > 1 ? forward_shared(block, nn, y) : forward_alone(block, nn, y));
    return ls_nn_residual(nn, y, NULL, y, LS_F32, 0);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* Computes a step of the table's gradient: adds its sums to the rows that its tokens name. Other rows are absent,
 * which is what −0 means (rule 9 of docs/reference/arithmetic.md). */
static ls_status token_step(const ls_nn *nn, const ls_grad *grad, const ls_grad_step *step, const float *d,
                            const ls_param *table) {
    size_t row = step->first * nn->rows.T, elems = ls_param_local_elems(table), C = nn->shape->C;
    ls_embed_tokens tokens = tokens_of(nn, row, (step->end - step->first) * nn->rows.T);
    ls_token_groups groups = ls_nn_groups(nn, step);
    int at = step->at, joins = step->joins;
    if (!nn->grads.leaves && !step->accumulate && joins > 0) {
        at--; /* its rows go straight into the subtree they join */
        joins--;
    } else if (!step->accumulate) {
        LS_TRY(nn->ops->set(nn->device, &(ls_set_call){grad->slot[at], -0.0F, elems}));
    }
    LS_TRY(
        nn->ops->embed_token_grad(nn->device, &(ls_token_grad_call){grad->slot[at], d + row * C, C, &tokens, &groups}));
    if (at == step->at) return ls_nn_grad_end(nn, table, grad, step, elems);
    return ls_nn_grad_join(nn, grad, at, joins, elems);
}

/* Computes a step of the gradient of positions; rows of positions that no sequence reaches are absent (−0). */
static ls_status position_step(const ls_nn *nn, const ls_grad *grad, const ls_grad_step *step, const float *d,
                               const ls_param *table) {
    size_t C = nn->shape->C, elems = ls_param_elems(table), used = nn->rows.T * C;
    ls_token_groups groups = ls_nn_groups(nn, step);
    float *slot = grad->slot[step->at];
    LS_TRY(nn->ops->embed_position_grad(nn->device,
                                        &(ls_position_grad_call){slot, d + step->first * used, C, C, &groups}));
    if (!step->accumulate && used < elems)
        LS_TRY(nn->ops->set(nn->device, &(ls_set_call){slot + used, -0.0F, elems - used}));
    return ls_nn_grad_end(nn, table, grad, step, elems);
}

/* Adds the rows of this batch to the head's gradient, which the slot already holds: for a table that the head uses too,
 * if the whole batch is one step. */
static ls_status token_rows_alone(const ls_nn *nn, const ls_param *table, const float *d) {
    ls_embed_tokens tokens = tokens_of(nn, 0, ls_nn_rows(nn));
    ls_token_groups groups = ls_nn_groups(nn, &nn->grads.steps[0]);
    return nn->ops->embed_token_grad(nn->device,
                                     &(ls_token_grad_call){table->grad.slot[0], d, nn->shape->C, &tokens, &groups});
}

/* Computes the gradients of both tables from `branch`, the gradient of the rows, after gathering it. */
static ls_status weights(ls_block *block, ls_nn *nn, const float *branch) {
    const ls_param *table = ls_block_param(block, LS_ROLE_TOKENS), *position = ls_block_param(block, LS_ROLE_POSITIONS);
    const void *all;
    LS_TRY(ls_nn_gather(nn, branch, LS_F32, nn->scratch.rows2, &all));
    const float *dy = all;
    if (block->shares_table && table->lookup.slot[0] == NULL) {
        LS_TRY(token_rows_alone(nn, table, dy));
    } else {
        const ls_grad *grad = block->shares_table ? &table->lookup : &table->grad;
        for (int i = 0; i < nn->grads.nsteps; i++) LS_TRY(token_step(nn, grad, &nn->grads.steps[i], dy, table));
    }
    for (int i = 0; position && i < nn->grads.nsteps; i++)
        LS_TRY(position_step(nn, &position->grad, &nn->grads.steps[i], dy, position));
    return LS_OK;
}

/* Turns d into the gradient before dropout, and computes the gradients of the tables. There is no gradient of an
 * input. */
static ls_status backward(ls_block *block, ls_nn *nn, const float *x, float *d, ls_block_pass phase) {
    (void)x;
    const embed_state *kept = block->kept, *scratch = block->scratch;
    float *keep = phase == LS_BACKWARD_BOTH ? NULL : kept->branch;
    const void *branch = keep;
    if (phase != LS_BACKWARD_WEIGHTS)
        LS_TRY(ls_nn_residual_backward(nn, d, LS_F32, 0, false, keep, scratch->branch, &branch));
    return phase == LS_BACKWARD_INPUT ? LS_OK : weights(block, nn, branch);
}

/* Counts collectives: forward sums the rows of a shared table, and the weight gradients gather all rows. */
static ls_block_traffic traffic(const ls_block *block, ls_block_pass pass, unsigned again) {
    (void)block;
    (void)again;
    ls_block_traffic sum = {.carries_stream = true};
    if (pass == LS_FORWARD) sum.joins = 1;
    if (pass == LS_BACKWARD_BOTH || pass == LS_BACKWARD_WEIGHTS) sum.gathers = 1;
    return sum;
}

const ls_block_kind ls_block_embed = {
    .name = "embedding",
    .kept_bytes = sizeof(embed_state),
    .scratch_bytes = sizeof(embed_state),
    .declare = declare,
    .carve_kept = carve_kept,
    .carve_scratch = carve_scratch,
    .forward = forward,
    .backward = backward,
    .traffic = traffic,
};
