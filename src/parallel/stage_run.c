/* stage_run.c: micro-batches through the blocks of a stage: training, evaluation, generation. */
#include <assert.h>

#include "parallel/stage_state.h"

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static int kind_of(const ls_stage *stage, int b) { return b == 0 ? 0 : b == stage->model->nblocks - 1 ? 2 : 1; }

static ls_status block_forward(ls_stage *stage, int b, float *y) {
    ls_block *block = &stage->model->blocks[b];
    stage->nn.scratch = stage->scratch[kind_of(stage, b)];
    return block->kind->forward(block, &stage->nn, b > 0 ? stage->stream[b - 1] : NULL, y);
}

static ls_status forward_all(ls_stage *stage) {
    int last = stage->model->nblocks - 1;
    for (int b = 0; b < last; b++) LS_TRY(block_forward(stage, b, stage->stream[b]));
    return block_forward(stage, last, stage->d);
}

static ls_status backward_all(ls_stage *stage) {
    for (int b = stage->model->nblocks - 1; b >= 0; b--) {
        ls_block *block = &stage->model->blocks[b];
        stage->nn.scratch = stage->scratch[kind_of(stage, b)];
        LS_TRY(block->kind->backward(block, &stage->nn, b > 0 ? stage->stream[b - 1] : NULL, stage->d));
    }
    return LS_OK;
}

static ls_status set_rows(ls_stage *stage, size_t B, size_t T, size_t first, const int32_t *ids,
                          const int32_t *targets) {
    ls_nn *nn = &stage->nn;
    size_t bytes = B * T * sizeof *ids;
    nn->B = B;
    nn->T = T;
    nn->first = first;
    nn->ids = stage->ids;
    nn->targets = targets ? stage->targets : NULL;
    nn->nsteps = 0;
    nn->dropout.p = 0;
    LS_TRY(ls_device_copy_in(stage->device, stage->ids, ids, bytes));
    return targets ? ls_device_copy_in(stage->device, stage->targets, targets, bytes) : LS_OK;
}

static ls_status add_losses(ls_stage *stage, ls_loss_sum *loss) {
    size_t rows = ls_nn_rows(&stage->nn);
    LS_TRY(ls_device_copy_out(stage->device, stage->host, stage->nn.scratch.loss, rows * sizeof(float)));
    for (size_t i = 0; i < rows; i++) ls_loss_sum_add(loss, stage->host[i]);
    return LS_OK;
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

ls_status ls_stage_step_begin(ls_stage *stage, uint64_t step, float start) {
    assert(stage->setup.train);
    ls_grad_plan_begin(&stage->plan, stage->setup.B, stage->setup.G);
    stage->done = 0;
    stage->nn.loss_scale = start;
    stage->nn.dropout.seed = stage->setup.seed;
    stage->nn.dropout.step = step;
    return LS_OK;
}

static void plan_steps(ls_stage *stage, size_t begin, size_t end) {
    int count = 0;
    for (size_t at = begin; at < end; count++)
        at = ls_grad_plan_next(&stage->plan, begin, end, at, &stage->steps[count]);
    stage->nn.steps = stage->steps;
    stage->nn.nsteps = count;
}

ls_status ls_stage_micro_batch(ls_stage *stage, size_t begin, size_t end, const int32_t *ids, const int32_t *targets,
                               ls_loss_sum *loss) {
    assert(begin == stage->done && begin < end && end - begin <= stage->setup.micro && end <= stage->setup.B);
    LS_TRY(set_rows(stage, end - begin, stage->setup.T, 0, ids, targets));
    plan_steps(stage, begin, end);
    stage->nn.dropout.p = stage->setup.dropout;
    stage->nn.dropout.first_sequence = begin;
    LS_TRY(forward_all(stage));
    LS_TRY(add_losses(stage, loss));
    LS_TRY(backward_all(stage));
    stage->done = end;
    return LS_OK;
}

static ls_status join_slices(ls_stage *stage, const ls_param *param) {
    const void *rows[LS_SLICES_MAX];
    int S = stage->model->S;
    if (S == 1) return LS_OK;
    for (int i = 0; i < S; i++) rows[i] = param->grad.slot[0] + (size_t)i * param->rows;
    return stage->nn.ops->tree_sum(stage->device, param->grad.slot[0], rows, LS_F32, S, param->rows);
}

ls_status ls_stage_step_end(ls_stage *stage) {
    int count = ls_model_params(stage->model);
    assert(stage->done == stage->setup.B && stage->plan.depth == 1);
    for (int i = 0; i < count; i++) {
        ls_param *param = ls_model_param(stage->model, i);
        if (param->kind == LS_PARAM_VECTOR) LS_TRY(join_slices(stage, param));
        if (param->lookup.slot[0])
            LS_TRY(stage->nn.ops->add(stage->device, param->grad.slot[0], param->lookup.slot[0], param->grad.slot[0],
                                      ls_param_elems(param)));
    }
    return LS_OK;
}

/* ---- evaluation and generation ----------------------------------------------------------------------------------- */

ls_status ls_stage_evaluate(ls_stage *stage, size_t B, size_t T, const int32_t *ids, const int32_t *targets,
                            ls_loss_sum *loss) {
    assert(B >= 1 && B <= stage->setup.micro && T >= 1 && T <= stage->setup.T);
    LS_TRY(set_rows(stage, B, T, 0, ids, targets));
    LS_TRY(forward_all(stage));
    return add_losses(stage, loss);
}

/* The head sees the last row alone. */
ls_status ls_stage_extend(ls_stage *stage, size_t first, size_t rows, const int32_t *ids, float *logits) {
    int last = stage->model->nblocks - 1;
    size_t C = stage->model->shape.C;
    assert(rows >= 1 && first + rows <= stage->setup.T);
    LS_TRY(set_rows(stage, 1, rows, first, ids, NULL));
    for (int b = 0; b < last; b++) LS_TRY(block_forward(stage, b, stage->stream[b]));
    ls_block *head = &stage->model->blocks[last];
    stage->nn.T = 1;
    stage->nn.scratch = stage->scratch[kind_of(stage, last)];
    LS_TRY(head->kind->forward(head, &stage->nn, stage->stream[last - 1] + (rows - 1) * C, NULL));
    return ls_device_copy_out(stage->device, logits, stage->nn.scratch.logits, stage->model->shape.V * sizeof(float));
}
