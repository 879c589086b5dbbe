/* stage.c: making a stage, and its life. */
#include "parallel/stage.h"

#include <assert.h>
#include <stdlib.h>

#include "kernels/optim.h"
#include "nn/init.h"
#include "parallel/stage_state.h"

enum { PIECE_ELEMS = 1 << 20 };

/* Blocks of 1024 elements of the parameter that has most, with a short one at the end of each slice. */
static size_t most_square_blocks(const ls_model *model) {
    size_t most = 0;
    int count = ls_model_params(model);
    for (int i = 0; i < count; i++) {
        size_t blocks = ls_param_elems(ls_model_param(model, i)) / LS_SQUARE_BLOCK + (size_t)model->S;
        if (blocks > most) most = blocks;
    }
    return most;
}

static void fill_plain(ls_stage *stage, ls_model *model, const ls_stage_setup *setup) {
    stage->model = model;
    stage->setup = *setup;
    if (stage->setup.micro > setup->B) stage->setup.micro = setup->B;
    stage->squares_elems = most_square_blocks(model);
    stage->nn = (ls_nn){.shape = &model->shape, .S = model->S};
}

ls_status ls_stage_measure(ls_model *model, const ls_stage_setup *setup, ls_arena *arena) {
    ls_stage stage = {0};
    fill_plain(&stage, model, setup);
    stage.stream = calloc((size_t)model->nblocks, sizeof *stage.stream);
    if (!stage.stream) return ls_fail(LS_ERR_RESOURCE, "out of memory for a stage");
    ls_arena_measure(arena);
    ls_status status = ls_stage_layout(arena, &stage);
    if (status == LS_OK) status = ls_arena_finish(arena);
    free(stage.stream);
    return status;
}

static ls_status alloc_host(ls_stage *stage) {
    const ls_stage_setup *setup = &stage->setup;
    size_t rows = setup->micro * setup->T, steps = setup->micro + 2;
    size_t elems = rows > PIECE_ELEMS ? rows : PIECE_ELEMS;
    stage->host_elems = stage->model->shape.V > elems ? stage->model->shape.V : elems;
    stage->stream = calloc((size_t)stage->model->nblocks, sizeof *stage->stream);
    stage->steps = calloc(steps, sizeof *stage->steps);
    stage->host = malloc(stage->host_elems * sizeof *stage->host);
    stage->host_squares = malloc(stage->squares_elems * sizeof *stage->host_squares);
    if (stage->stream && stage->steps && stage->host && stage->host_squares) return LS_OK;
    return ls_fail(LS_ERR_RESOURCE, "out of memory for the stage of a worker");
}

static ls_status device_alloc(void *ctx, size_t bytes, void **memory) { return ls_device_alloc(ctx, bytes, memory); }
static void device_release(void *ctx, void *memory) { ls_device_free(ctx, memory); }

static ls_status fill_rope(ls_stage *stage) {
    const ls_shape *shape = &stage->model->shape;
    size_t elems = stage->setup.T * (shape->head_size / 2);
    if (!ls_shape_is_llama(shape)) return LS_OK;
    float *tables = malloc(2 * elems * sizeof *tables);
    if (!tables) return ls_fail(LS_ERR_RESOURCE, "out of memory for the rotary table of %zu positions", stage->setup.T);
    ls_init_rope(shape, stage->setup.T, tables, tables + elems);
    ls_status status = ls_device_copy_in(stage->device, stage->rope_cos, tables, elems * sizeof *tables);
    if (status == LS_OK)
        status = ls_device_copy_in(stage->device, stage->rope_sin, tables + elems, elems * sizeof *tables);
    stage->nn.rope_cos = stage->rope_cos;
    stage->nn.rope_sin = stage->rope_sin;
    free(tables);
    return status;
}

ls_status ls_stage_create(ls_model *model, ls_device *device, const ls_stage_setup *setup, ls_stage **out) {
    *out = NULL;
    assert(setup->T >= 1 && setup->T <= model->shape.T && setup->micro >= 1 && setup->B >= 1);
    ls_status status = LS_OK;
    ls_stage *stage = calloc(1, sizeof *stage);
    if (!stage) return ls_fail(LS_ERR_RESOURCE, "out of memory for a stage");
    fill_plain(stage, model, setup);
    stage->device = stage->nn.device = device;
    stage->nn.ops = device->ops;
    LS_TRY_OUT(alloc_host(stage));
    ls_arena_source source = {.alloc = device_alloc, .release = device_release, .ctx = device};
    LS_TRY_OUT(ls_arena_build(ls_stage_layout, stage, &source, &stage->arena));
    LS_TRY_OUT(fill_rope(stage));
    *out = stage;
    return LS_OK;
out:
    ls_stage_destroy(stage);
    return status;
}

void ls_stage_destroy(ls_stage *stage) {
    if (!stage) return;
    ls_device_free(stage->device, stage->arena.memory);
    free(stage->stream);
    free(stage->steps);
    free(stage->host);
    free(stage->host_squares);
    free(stage);
}

const ls_arena *ls_stage_arena(const ls_stage *stage) { return &stage->arena; }
ls_model *ls_stage_model(const ls_stage *stage) { return stage->model; }
ls_device *ls_stage_device(const ls_stage *stage) { return stage->device; }
