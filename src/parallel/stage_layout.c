/* stage_layout.c: where everything of a stage lies in its one block of memory. */
#include "parallel/stage_state.h"

static float *take(ls_arena *arena, const char *kind, size_t rows, size_t columns) {
    return ls_arena_take_array(arena, kind, rows, columns * sizeof(float));
}

static void lay_grad(ls_arena *arena, ls_grad *grad, int slots, size_t rows, size_t columns) {
    for (int i = 0; i < LS_GRAD_SLOTS_MAX; i++)
        grad->slot[i] = i < slots ? take(arena, "gradients", rows, columns) : NULL;
}

/* Vectors have a row for each token slice. */
static void lay_param_grads(ls_stage *stage, ls_arena *arena, ls_param *param) {
    const ls_stage_setup *setup = &stage->setup;
    ls_grad_slots slots = ls_grad_slots_count(setup->B, setup->G, setup->micro);
    bool one_step = setup->micro >= setup->B && setup->G <= LS_GRAD_GROUPS_MAX;
    bool summed = param->kind == LS_PARAM_VECTOR || param->kind == LS_PARAM_POSITIONS;
    size_t copies = param->kind == LS_PARAM_VECTOR ? (size_t)stage->model->S : 1;
    lay_grad(arena, &param->grad, summed ? slots.sum : slots.product, copies * param->rows, param->columns);
    bool tied = param->kind == LS_PARAM_TOKENS && stage->model->shape.tied;
    lay_grad(arena, &param->lookup, tied && !one_step ? slots.product : 0, param->rows, param->columns);
}

static void lay_params(ls_stage *stage, ls_arena *arena) {
    int count = ls_model_params(stage->model);
    for (int i = 0; i < count; i++) {
        ls_param *param = ls_model_param(stage->model, i);
        param->w = take(arena, "parameters", param->rows, param->columns);
    }
    for (int i = 0; stage->setup.train && i < count; i++)
        lay_param_grads(stage, arena, ls_model_param(stage->model, i));
    for (int i = 0; i < count; i++) {
        ls_param *param = ls_model_param(stage->model, i);
        for (int m = 0; m < 2; m++)
            param->moment[m] =
                m < stage->setup.moments ? take(arena, "optimizer state", param->rows, param->columns) : NULL;
    }
}

/* Without training only the keys and values of each block have to stay. */
static void lay_activations(ls_stage *stage, ls_arena *arena) {
    ls_model *model = stage->model;
    size_t rows = ls_nn_rows(&stage->nn), C = model->shape.C;
    bool train = stage->setup.train;
    ls_saved shared = {0};
    for (int b = 0; b < model->nblocks; b++) {
        ls_block *block = &model->blocks[b];
        bool own = train || b < 2 || block->kind != &ls_block_transformer;
        if (own)
            block->kind->carve_saved(&block->saved, &stage->nn, arena);
        else {
            block->saved = shared;
            block->saved.qkv = take(arena, "activations", rows, ls_shape_qkv_width(&model->shape));
        }
        if (b == 1) shared = block->saved;
    }
    for (int b = 0; b + 1 < model->nblocks; b++)
        stage->stream[b] = train || b < 2 ? take(arena, "activations", rows, C) : stage->stream[b - 2];
    stage->d = train ? take(arena, "activations", rows, C) : NULL;
}

static void lay_scratch(ls_stage *stage, ls_arena *arena) {
    const ls_block_kind *kinds[LS_STAGE_KINDS] = {&ls_block_embed, &ls_block_transformer, &ls_block_head};
    for (int k = 0; k < LS_STAGE_KINDS; k++) {
        ls_arena_phase_begin(arena);
        kinds[k]->carve_scratch(&stage->scratch[k], &stage->nn, stage->setup.train, arena);
        ls_arena_phase_end(arena);
    }
}

ls_status ls_stage_layout(ls_arena *arena, void *ctx) {
    ls_stage *stage = ctx;
    const ls_shape *shape = &stage->model->shape;
    size_t half = shape->head_size / 2;
    lay_params(stage, arena);
    stage->nn.B = stage->setup.micro;
    stage->nn.T = stage->setup.T;
    lay_activations(stage, arena);
    stage->ids = ls_arena_take_array(arena, "tokens", ls_nn_rows(&stage->nn), sizeof(int32_t));
    stage->targets = ls_arena_take_array(arena, "tokens", ls_nn_rows(&stage->nn), sizeof(int32_t));
    if (ls_shape_is_llama(shape)) {
        stage->rope_cos = take(arena, "tables", stage->setup.T, half);
        stage->rope_sin = take(arena, "tables", stage->setup.T, half);
    }
    if (stage->setup.train)
        stage->squares = ls_arena_take_array(arena, "scratch", stage->squares_elems, sizeof(double));
    lay_scratch(stage, arena);
    return LS_OK;
}
