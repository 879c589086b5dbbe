/* partition.c: making a stage, and its life. */
#include "parallel/partition/partition.h"

#include <assert.h>
#include <stdlib.h>

#include "device/cpu/optim.h"
#include "nn/conv_bn.h"
#include "nn/norm_sync.h"
#include "nn/init.h"
#include "parallel/partition/check.h"
#include "parallel/partition/state.h"

enum { PIECE_ELEMS = 1 << 20 };

static ls_status no_memory(void) { return ls_fail(LS_ERR_RESOURCE, "out of memory for the stage of a worker"); }

/* ---- what it is -------------------------------------------------------------------------------------------------- */

/* Sequences of a micro-batch at most, the same number on all workers. */
static size_t micro_of(const ls_stage_setup *setup) {
    const ls_layout *layout = &setup->layout;
    size_t most = 0;
    for (int d = 0; d < layout->dp; d++) {
        int first = ls_layout_first_group(layout, d), end = ls_layout_first_group(layout, d + 1);
        for (int g = first; g < end; g++) {
            size_t begin = ls_slice_begin(setup->B, setup->G, layout->zero < 2 ? first : g);
            size_t sequences = ls_slice_begin(setup->B, setup->G, layout->zero < 2 ? end : g + 1) - begin;
            if (sequences > most) most = sequences;
        }
    }
    return setup->train && most < layout->micro ? most : layout->micro;
}

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

static unsigned kept_parts(const ls_stage_setup *setup) {
    if (!setup->train) return LS_SAVE_KEYS;
    switch (setup->layout.recompute) {
    case LS_RECOMPUTE_FULL: return 0;
    case LS_RECOMPUTE_SELECTIVE: return LS_SAVE_ALL & ~LS_SAVE_WIDE;
    default: return LS_SAVE_ALL;
    }
}

static void fill_plain(ls_stage *stage, ls_model *model, const ls_stage_setup *setup) {
    int slices = model->S / setup->layout.tp;
    stage->model = model;
    stage->setup = *setup;
    if (setup->layout.dp == 1) stage->setup.layout.zero = 0; /* nobody to share with */
    if (setup->layout.tp == 1) stage->setup.layout.sequence_parallel = false;
    stage->micro = micro_of(&stage->setup);
    stage->squares_elems = most_square_blocks(model);
    stage->kept_parts = kept_parts(setup);
    stage->nn = (ls_nn){.policy = setup->policy,
                        .shape = &model->shape,
                        .sequence_parallel = stage->setup.layout.sequence_parallel,
                        .leaves = setup->leaves || ls_policy_wants_leaves(&setup->policy)};
    stage->nn.ghost = setup->ghost;
    if (setup->bn_sync) stage->nn.sync = (ls_norm_sync){.groups = setup->G, .batch = setup->B};
    for (int b = 0; b < model->nblocks && setup->ghost > 0; b++)
        ls_unit_settle(&model->blocks[b], ls_norm_images(&stage->nn));
    ls_nn_take_slices(&stage->nn, model->S, slices * setup->place.tp, slices);
    ls_model_take_slices(model, slices * setup->place.tp, slices);
}

static void find_comms(ls_stage *stage) {
    const ls_layout *layout = &stage->setup.layout;
    ls_mesh *mesh = stage->setup.mesh;
    if (!mesh) return;
    if (layout->dp > 1) stage->dp = ls_mesh_comm(mesh, LS_AXIS_DP);
    if (layout->tp > 1) stage->tp = ls_mesh_comm(mesh, LS_AXIS_TP);
    if (layout->pp > 1) stage->pp = ls_mesh_comm(mesh, LS_AXIS_PP);
    if (ls_layout_workers(layout) > 1) stage->all = ls_world_comm(stage->setup.world);
    stage->nn.tp = stage->tp;
    if (stage->setup.bn_sync) stage->nn.sync.dp = stage->dp;
}

/* The head uses the embedding's table: there, or a copy of it where that is on another stage. */
static void tie(ls_stage *stage) {
    ls_model *model = stage->model;
    ls_block *embedding = &model->blocks[0], *head = &model->blocks[model->nblocks - 1];
    const ls_stage_setup *setup = &stage->setup;
    embedding->shares_table = model->shape.tied && setup->layout.pp == 1;
    if (!model->shape.tied) return;
    head->table = &embedding->param[0];
    if (setup->layout.pp == 1 || setup->place.pp != setup->layout.pp - 1) return;
    head->copy = embedding->param[0];
    head->table = stage->copy = &head->copy;
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

static ls_status make_slot(ls_chunk_slot *slot, size_t blocks) {
    slot->x = calloc(blocks, sizeof *slot->x);
    slot->saved = calloc(blocks, sizeof *slot->saved);
    slot->kept = calloc(blocks, sizeof *slot->kept);
    return slot->x && slot->saved && slot->kept ? LS_OK : no_memory();
}

static ls_status make_chunk(ls_stage *stage, int c) {
    const ls_layout *layout = &stage->setup.layout;
    int stage_number = stage->setup.place.pp;
    ls_chunk *chunk = &stage->chunks[c];
    chunk->number = c * layout->pp + stage_number;
    chunk->first = layout->chunk_first[chunk->number];
    chunk->end = layout->chunk_first[chunk->number + 1];
    chunk->has_embedding = chunk->first == 0;
    chunk->has_head = chunk->end == stage->model->nblocks;
    chunk->slots = stage->setup.train ? ls_schedule_slots(&stage->schedule, stage_number, c) : 1;
    chunk->kept_slots = stage->setup.train ? ls_schedule_kept(&stage->schedule, stage_number, c) : 0;
    chunk->slot = calloc((size_t)chunk->slots, sizeof *chunk->slot);
    chunk->kept = calloc((size_t)chunk->kept_slots + 1, sizeof *chunk->kept);
    if (!chunk->slot || !chunk->kept) return no_memory();
    for (int s = 0; s < chunk->slots; s++) LS_TRY(make_slot(&chunk->slot[s], (size_t)(chunk->end - chunk->first)));
    for (int s = 0; s < chunk->kept_slots; s++) LS_TRY(make_slot(&chunk->kept[s], (size_t)(chunk->end - chunk->first)));
    return LS_OK;
}

static ls_status make_ring(ls_send_ring *ring, int count) {
    ring->count = count;
    ring->buffer = calloc((size_t)count + 1, sizeof *ring->buffer);
    ring->request = calloc((size_t)count + 1, sizeof *ring->request);
    return ring->buffer && ring->request ? LS_OK : no_memory();
}

static ls_status make_chunks(ls_stage *stage) {
    const ls_layout *layout = &stage->setup.layout;
    bool train = stage->setup.train;
    int buffers = 1;
    stage->nchunks = layout->virtual_stages;
    stage->chunks = calloc((size_t)stage->nchunks, sizeof *stage->chunks);
    if (!stage->chunks) return no_memory();
    if (train)
        LS_TRY(ls_schedule_make(layout->schedule, layout->pp, layout->virtual_stages, stage->micros.count,
                                &stage->schedule));
    if (train) LS_TRY(ls_schedule_check(&stage->schedule));
    if (train && layout->pp > 1) LS_TRY(ls_schedule_buffers(&stage->schedule, &buffers));
    for (int c = 0; c < stage->nchunks; c++) LS_TRY(make_chunk(stage, c));
    LS_TRY(make_ring(&stage->forward, layout->pp > 1 ? buffers : 0));
    return make_ring(&stage->backward, train ? buffers : 0);
}

/* With rounds a group is a leaf of its own; else micro-batches go to the stack. */
static void plan_round(ls_stage *stage, const ls_micro *micro, int *count) {
    const ls_stage_setup *setup = &stage->setup;
    int group = ls_layout_group(&setup->layout, setup->place.dp, micro->round);
    bool single = setup->policy.accumulate != LS_F32;
    for (size_t at = micro->begin; at < micro->end;) {
        size_t next = single ? at + 1 : micro->end;
        stage->steps[(*count)++] = (ls_grad_step){.first = at - micro->begin,
                                                  .end = next - micro->begin,
                                                  .groups = 1,
                                                  .group = group,
                                                  .bounds = {0, next - at},
                                                  .accumulate = at > ls_slice_begin(setup->B, setup->G, group),
                                                  .ends = next == ls_slice_begin(setup->B, setup->G, group + 1)};
        at = next;
    }
}

static void plan_micro(ls_stage *stage, ls_grad_plan *plan, int m, int *count) {
    const ls_micro *micro = &stage->micros.micro[m];
    stage->micro_steps[m].first = *count;
    if (ls_stage_rounds(stage)) {
        plan_round(stage, micro, count);
    } else {
        for (size_t at = micro->begin; at < micro->end;)
            at = ls_grad_plan_next(plan, micro->begin, micro->end, at, &stage->steps[(*count)++]);
    }
    stage->micro_steps[m].count = *count - stage->micro_steps[m].first;
}

/* The subtrees of this row's groups, in the order of the slots that hold them in the end. */
static void find_leaves(ls_stage *stage) {
    ls_tree_node cover[LS_TREE_COVER_MAX];
    const int *bounds = stage->group_bounds + stage->setup.place.dp;
    int count = ls_tree_cover(stage->setup.G, bounds[0], bounds[1], cover);
    for (int i = 0; i < count && i < LS_GRAD_SLOTS_MAX; i++) stage->part_is_leaf[i] = cover[i].count == 1;
}

static ls_status make_steps(ls_stage *stage) {
    const ls_stage_setup *setup = &stage->setup;
    const ls_layout *layout = &setup->layout;
    int row = setup->place.dp, count = 0;
    bool single = setup->policy.accumulate != LS_F32;
    ls_grad_cut cut = single ? LS_GRAD_SEQUENCES : stage->nn.leaves ? LS_GRAD_LEAVES : LS_GRAD_WHOLE;
    size_t steps = (size_t)stage->micros.count * 2 + (size_t)setup->G + (single ? setup->B : 0);
    stage->steps = calloc(steps, sizeof *stage->steps);
    stage->micro_steps = calloc((size_t)stage->micros.count, sizeof *stage->micro_steps);
    stage->group_bounds = calloc((size_t)layout->dp + 1, sizeof *stage->group_bounds);
    if (!stage->steps || !stage->micro_steps || !stage->group_bounds) return no_memory();
    for (int d = 0; d <= layout->dp; d++) stage->group_bounds[d] = ls_layout_first_group(layout, d);
    stage->nn.sync.bounds = stage->group_bounds;
    ls_grad_plan plan;
    ls_grad_plan_begin(&plan, setup->B, setup->G, cut);
    for (int m = 0; m < stage->micros.count; m++) plan_micro(stage, &plan, m, &count);
    assert((size_t)count <= steps);
    find_leaves(stage);
    stage->slots =
        ls_grad_slots_count(setup->B, setup->G, cut, ls_slice_begin(setup->B, setup->G, stage->group_bounds[row]),
                            ls_slice_begin(setup->B, setup->G, stage->group_bounds[row + 1]), layout->micro);
    if (!ls_stage_rounds(stage)) return LS_OK;
    stage->leaves_pass = stage->micros.count == stage->micros.rounds;
    return ls_rounds_make(layout, setup->G, &stage->rounds);
}

static ls_status make_lists(ls_stage *stage) {
    const ls_stage_setup *setup = &stage->setup;
    stage->scratch = calloc((size_t)stage->model->nblocks, sizeof *stage->scratch);
    stage->shared = calloc((size_t)stage->model->nblocks, sizeof *stage->shared);
    if (!stage->scratch || !stage->shared) return no_memory();
    tie(stage);
    if (setup->train) {
        LS_TRY(ls_micro_list_make(&setup->layout, setup->B, setup->G, setup->place.dp, &stage->micros));
        LS_TRY(make_steps(stage));
    }
    LS_TRY(make_chunks(stage));
    return ls_stage_make_buckets(stage);
}

static void free_slots(ls_chunk_slot *slot, int count) {
    for (int s = 0; slot && s < count; s++) {
        free(slot[s].x);
        free(slot[s].saved);
        free(slot[s].kept);
    }
    free(slot);
}

static void free_lists(ls_stage *stage) {
    for (int c = 0; stage->chunks && c < stage->nchunks; c++) {
        free_slots(stage->chunks[c].slot, stage->chunks[c].slots);
        free_slots(stage->chunks[c].kept, stage->chunks[c].kept_slots);
    }
    free(stage->chunks);
    free(stage->scratch);
    free(stage->shared);
    free(stage->forward.buffer);
    free(stage->forward.request);
    free(stage->backward.buffer);
    free(stage->backward.request);
    free(stage->steps);
    free(stage->micro_steps);
    free(stage->group_bounds);
    ls_stage_free_buckets(stage);
    ls_rounds_free(&stage->rounds);
    ls_schedule_free(&stage->schedule);
    ls_micro_list_free(&stage->micros);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

ls_status ls_stage_measure(ls_model *model, const ls_stage_setup *setup, ls_arena *arena) {
    ls_stage stage = {0};
    fill_plain(&stage, model, setup);
    ls_status status = make_lists(&stage);
    ls_arena_measure(arena);
    if (status == LS_OK) status = ls_stage_layout(arena, &stage);
    if (status == LS_OK) status = ls_arena_finish(arena);
    free_lists(&stage);
    return status;
}

static ls_status alloc_checks(ls_stage *stage) {
    const ls_stage_setup *setup = &stage->setup;
    size_t params = (size_t)ls_model_params(stage->model), dp = (size_t)setup->layout.dp;
    stage->bad_shard_param = -1;
    if (!setup->checks_state) return LS_OK;
    stage->state_hashes = calloc(params * LS_CHECK_TENSORS, sizeof *stage->state_hashes);
    if (!stage->state_hashes) return no_memory();
    if (setup->layout.zero < 3) return LS_OK;
    stage->shard_hashes = calloc((size_t)stage->nbuckets * dp, sizeof *stage->shard_hashes);
    return stage->shard_hashes ? LS_OK : no_memory();
}

static ls_status alloc_host(ls_stage *stage) {
    size_t rows = stage->micro * stage->setup.T;
    size_t elems = rows > PIECE_ELEMS ? rows : PIECE_ELEMS;
    stage->host_elems = stage->model->shape.V > elems ? stage->model->shape.V : elems;
    stage->host = malloc(stage->host_elems * sizeof *stage->host);
    stage->host_ids = malloc(rows * sizeof *stage->host_ids);
    stage->host_targets = malloc(rows * sizeof *stage->host_targets);
    stage->host_squares = malloc(stage->squares_elems * sizeof *stage->host_squares);
    if (ls_shape_sees_images(&stage->model->shape)) {
        size_t image = ls_extent_elems(stage->model->blocks[0].image.in);
        stage->host_pixels = malloc(stage->micro * image * sizeof *stage->host_pixels);
        if (!stage->host_pixels) return no_memory();
    }
    return stage->host && stage->host_ids && stage->host_targets && stage->host_squares ? LS_OK : no_memory();
}

/* Memory that the other workers of the machine read and write directly, where there are any. */
static ls_status alloc(void *ctx, size_t bytes, void **memory) {
    ls_stage *stage = ctx;
    if (stage->all) return ls_world_alloc(stage->setup.world, bytes, memory);
    return ls_device_alloc(stage->device, bytes, memory);
}

static void release(void *ctx, void *memory) {
    ls_stage *stage = ctx;
    if (stage->all)
        ls_world_free(stage->setup.world, memory);
    else
        ls_device_free(stage->device, memory);
}

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
    assert(setup->T >= 1 && setup->T <= model->shape.T && setup->layout.micro >= 1 && setup->B >= 1);
    ls_status status = LS_OK;
    ls_stage *stage = calloc(1, sizeof *stage);
    if (!stage) return no_memory();
    fill_plain(stage, model, setup);
    stage->device = stage->nn.device = device;
    stage->nn.ops = device->ops;
    find_comms(stage);
    LS_TRY_OUT(make_lists(stage));
    LS_TRY_OUT(alloc_host(stage));
    LS_TRY_OUT(alloc_checks(stage));
    ls_arena_source source = {.alloc = alloc, .release = release, .ctx = stage};
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
    if (stage->arena.memory) release(stage, stage->arena.memory);
    free_lists(stage);
    free(stage->host);
    free(stage->host_ids);
    free(stage->host_targets);
    free(stage->host_pixels);
    free(stage->host_squares);
    free(stage->state_hashes);
    free(stage->shard_hashes);
    free(stage);
}

void ls_stage_leave_out(ls_stage *stage, const bool *absent) {
    assert(!absent || stage->nn.leaves);
    stage->nn.absent = absent;
}

void ls_stage_watch(ls_stage *stage, ls_leaf_watch watch) {
    assert(stage->nn.leaves);
    stage->nn.watch = watch;
}

void ls_stage_watch_losses(ls_stage *stage, ls_loss_sum *by_group) { stage->group_losses = by_group; }

const ls_arena *ls_stage_arena(const ls_stage *stage) { return &stage->arena; }
ls_model *ls_stage_model(const ls_stage *stage) { return stage->model; }
ls_device *ls_stage_device(const ls_stage *stage) { return stage->device; }
const ls_stage_setup *ls_stage_setup_of(const ls_stage *stage) { return &stage->setup; }
