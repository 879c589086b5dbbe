/* partition.c: creates and destroys a partition, and computes its memory. */
#include "parallel/partition/partition.h"

#include <assert.h>
#include <stdlib.h>

#include "device/calls.h"
#include "parallel/partition/check.h"
#include "parallel/partition/state.h"

enum { PIECE_ELEMS = 1 << 20 };

static ls_status no_memory(void) { return ls_fail(LS_ERR_RESOURCE, "out of memory for the partition of a worker"); }

/* ---- what it is -------------------------------------------------------------------------------------------------- */

/* Returns the maximum number of sequences of a micro-batch. It is the same on all workers. */
static size_t micro_of(const ls_partition_setup *setup) {
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

static void fill_plain(ls_partition *partition, ls_model *model, const ls_partition_setup *setup) {
    int slices = model->S / setup->layout.tp;
    partition->model = model;
    partition->setup = *setup;
    if (setup->layout.dp == 1) partition->setup.layout.zero = 0; /* there is no other replica */
    if (setup->layout.tp == 1) partition->setup.layout.sequence_parallel = false;
    partition->micro = micro_of(&partition->setup);
    partition->kept_parts = setup->train ? ls_layout_kept_parts(&setup->layout) : LS_SAVE_KEYS;
    partition->nn = (ls_nn){.policy = setup->policy,
                            .shape = &model->shape,
                            .sequence_parallel = partition->setup.layout.sequence_parallel,
                            .crosses_at_once = setup->apart,
                            .keeps_act = setup->train && setup->layout.keep_activations,
                            .loss_chunk = setup->layout.loss_chunk,
                            .leaves = setup->leaves || setup->watches || ls_policy_wants_leaves(&setup->policy)};
    partition->nn.ghost = setup->ghost;
    if (setup->bn_sync) partition->nn.sync = (ls_norm_sync){.groups = setup->G, .batch = setup->B};
    for (int b = 0; b < model->nblocks; b++)
        if (model->blocks[b].kind->settle) model->blocks[b].kind->settle(&model->blocks[b], &partition->nn);
    ls_nn_take_slices(&partition->nn, model->S, slices * setup->place.tp, slices);
    ls_model_take_slices(model, slices * setup->place.tp, slices);
}

static void find_comms(ls_partition *partition) {
    const ls_layout *layout = &partition->setup.layout;
    ls_mesh *mesh = partition->setup.mesh;
    if (!mesh) return;
    if (layout->dp > 1) partition->dp = ls_mesh_comm(mesh, LS_AXIS_DP);
    if (layout->tp > 1) partition->tp = ls_mesh_comm(mesh, LS_AXIS_TP);
    if (layout->pp > 1) partition->pp = ls_mesh_comm(mesh, LS_AXIS_PP);
    if (ls_layout_workers(layout) > 1) partition->all = ls_world_comm(partition->setup.world);
    partition->nn.tp = partition->tp;
    if (partition->setup.bn_sync) partition->nn.sync.dp = partition->dp;
}

/* Ties the head to the embedding's table: to the table itself, or to a copy of it if the head is on another stage. */
static void tie_head(ls_partition *partition) {
    ls_model *model = partition->model;
    ls_block *embedding = &model->blocks[0], *head = &model->blocks[model->nblocks - 1];
    const ls_partition_setup *setup = &partition->setup;
    embedding->shares_table = model->shape.tied && setup->layout.pp == 1;
    if (!model->shape.tied) return;
    head->table = ls_model_tokens(model);
    if (setup->layout.pp == 1 || setup->place.pp != setup->layout.pp - 1) return;
    head->copy = *head->table;
    head->table = partition->copy = &head->copy;
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

static void *take(ls_partition *partition, size_t count, size_t bytes) {
    return ls_region_take(&partition->region, count, bytes);
}

typedef enum state_of { SAVED, KEPT, SCRATCH } state_of;

static size_t state_bytes(const ls_block_kind *kind, state_of which) {
    return which == SAVED ? kind->saved_bytes : which == KEPT ? kind->kept_bytes : kind->scratch_bytes;
}

/* Returns the structs of blocks first … first + count − 1; NULL for a kind of block without such a struct. */
static void **take_states(ls_partition *partition, int first, int count, state_of which) {
    void **states = take(partition, (size_t)count, sizeof *states);
    for (int i = 0; states && i < count; i++) {
        size_t bytes = state_bytes(partition->model->blocks[first + i].kind, which);
        if (bytes > 0) states[i] = take(partition, 1, bytes);
    }
    return states;
}

static ls_chunk_slot *make_slots(ls_partition *partition, int count, const ls_chunk *chunk) {
    int blocks = chunk->end - chunk->first;
    ls_chunk_slot *slots = take(partition, (size_t)count + 1, sizeof *slots);
    for (int s = 0; slots && s < count; s++) {
        slots[s].x = take(partition, (size_t)blocks, sizeof *slots[s].x);
        slots[s].saved = take_states(partition, chunk->first, blocks, SAVED);
        slots[s].kept = take_states(partition, chunk->first, blocks, KEPT);
    }
    return slots;
}

static void make_chunk(ls_partition *partition, int c) {
    const ls_layout *layout = &partition->setup.layout;
    int stage_number = partition->setup.place.pp;
    ls_chunk *chunk = &partition->chunks[c];
    chunk->number = c * layout->pp + stage_number;
    chunk->first = layout->chunk_first[chunk->number];
    chunk->end = layout->chunk_first[chunk->number + 1];
    chunk->has_embedding = chunk->first == 0;
    chunk->has_head = chunk->end == partition->model->nblocks;
    chunk->slots = partition->setup.train ? ls_schedule_slots(&partition->schedule, stage_number, c) : 1;
    chunk->kept_slots = partition->setup.train ? ls_schedule_kept(&partition->schedule, stage_number, c) : 0;
    chunk->slot = make_slots(partition, chunk->slots, chunk);
    chunk->kept = make_slots(partition, chunk->kept_slots, chunk);
}

static void make_ring(ls_partition *partition, ls_send_ring *ring, int count) {
    ring->count = count;
    ring->buffer = take(partition, (size_t)count + 1, sizeof *ring->buffer);
    ring->request = take(partition, (size_t)count + 1, sizeof *ring->request);
}

static ls_status make_chunks(ls_partition *partition) {
    const ls_layout *layout = &partition->setup.layout;
    bool train = partition->setup.train;
    int buffers = 1;
    partition->nchunks = layout->virtual_stages;
    partition->chunks = take(partition, (size_t)partition->nchunks, sizeof *partition->chunks);
    if (!partition->chunks) return no_memory();
    if (train)
        LS_TRY(ls_schedule_make(layout->schedule, layout->pp, layout->virtual_stages, partition->micros.count,
                                &partition->schedule));
    if (train) LS_TRY(ls_schedule_check(&partition->schedule));
    if (train && layout->pp > 1) LS_TRY(ls_schedule_buffers(&partition->schedule, &buffers));
    for (int c = 0; c < partition->nchunks; c++) make_chunk(partition, c);
    make_ring(partition, &partition->forward, layout->pp > 1 ? buffers : 0);
    make_ring(partition, &partition->backward, train ? buffers : 0);
    return partition->region.is_short ? no_memory() : LS_OK;
}

int ls_partition_plan_group(const ls_partition *partition, int group, const ls_micro *micro, int slot,
                            ls_grad_step *steps) {
    const ls_partition_setup *setup = &partition->setup;
    bool single = setup->policy.accumulate != LS_F32;
    int count = 0;
    for (size_t at = micro->begin; at < micro->end;) {
        size_t next = single ? at + 1 : micro->end;
        steps[count++] = (ls_grad_step){.first = at - micro->begin,
                                        .end = next - micro->begin,
                                        .groups = 1,
                                        .group = group,
                                        .bounds = {0, next - at},
                                        .accumulate = at > ls_slice_begin(setup->B, setup->G, group),
                                        .ends = next == ls_slice_begin(setup->B, setup->G, group + 1),
                                        .at = slot};
        at = next;
    }
    return count;
}

/* Plans the gradient steps of micro-batch m. With rounds each group is a leaf; otherwise micro-batches go to the stack
 * of partial sums. */
static void plan_micro(ls_partition *partition, ls_grad_plan *plan, int m, int *count) {
    const ls_micro *micro = &partition->micros.micro[m];
    partition->micro_steps[m].first = *count;
    if (ls_partition_rounds(partition)) {
        int group = ls_layout_group(&partition->setup.layout, partition->setup.place.dp, micro->round);
        *count += ls_partition_plan_group(partition, group, micro, 0, partition->steps + *count);
    } else {
        for (size_t at = micro->begin; at < micro->end;)
            at = ls_grad_plan_next(plan, micro->begin, micro->end, at, &partition->steps[(*count)++]);
    }
    partition->micro_steps[m].count = *count - partition->micro_steps[m].first;
}

/* Marks which slots hold a leaf after backward: the subtrees of this replica's groups are in the order of the slots. */
static void find_leaves(ls_partition *partition) {
    ls_tree_node cover[LS_TREE_COVER_MAX];
    const int *bounds = partition->group_bounds + partition->setup.place.dp;
    int count = ls_tree_cover(partition->setup.G, bounds[0], bounds[1], cover);
    for (int i = 0; i < count && i < LS_GRAD_SLOTS_MAX; i++) partition->part_is_leaf[i] = cover[i].count == 1;
}

/* Returns the gradient slots that the head's table needs. Its gradient is computed one chunk of the loss at a time. */
static int table_slots(const ls_partition *partition) {
    size_t chunk = partition->nn.loss_chunk;
    int most = 1;
    for (int m = 0; m < partition->micros.count; m++) {
        const ls_micro *micro = &partition->micros.micro[m];
        size_t sequences = micro->end - micro->begin;
        if (sequences == 0) continue;
        int slots = ls_grad_parts_slots(partition->steps + partition->micro_steps[m].first, sequences,
                                        chunk > 0 ? chunk : sequences, partition->nn.leaves);
        if (slots > most) most = slots;
    }
    return most;
}

static ls_status make_steps(ls_partition *partition) {
    const ls_partition_setup *setup = &partition->setup;
    const ls_layout *layout = &setup->layout;
    int row = setup->place.dp, count = 0;
    bool single = setup->policy.accumulate != LS_F32;
    ls_grad_cut cut = single ? LS_GRAD_SEQUENCES : partition->nn.leaves ? LS_GRAD_LEAVES : LS_GRAD_WHOLE;
    size_t steps = (size_t)partition->micros.count * 2 + (size_t)setup->G + (single ? setup->B : 0);
    partition->steps = take(partition, steps, sizeof *partition->steps);
    partition->micro_steps = take(partition, (size_t)partition->micros.count, sizeof *partition->micro_steps);
    partition->group_bounds = take(partition, (size_t)layout->dp + 1, sizeof *partition->group_bounds);
    if (partition->region.is_short) return no_memory();
    for (int d = 0; d <= layout->dp; d++) partition->group_bounds[d] = ls_layout_first_group(layout, d);
    partition->nn.sync.bounds = partition->group_bounds;
    ls_grad_plan plan;
    ls_grad_plan_begin(&plan, setup->B, setup->G, cut);
    for (int m = 0; m < partition->micros.count; m++) plan_micro(partition, &plan, m, &count);
    assert((size_t)count <= steps);
    find_leaves(partition);
    partition->slots =
        ls_grad_slots_count(setup->B, setup->G, cut, ls_slice_begin(setup->B, setup->G, partition->group_bounds[row]),
                            ls_slice_begin(setup->B, setup->G, partition->group_bounds[row + 1]), layout->micro);
    partition->table_slots = table_slots(partition);
    if (!ls_partition_rounds(partition)) return LS_OK;
    partition->leaves_pass = partition->micros.count == partition->micros.rounds;
    return ls_rounds_make(layout, setup->G, &partition->rounds);
}

static ls_status make_lists(ls_partition *partition) {
    const ls_partition_setup *setup = &partition->setup;
    partition->scratch = take(partition, (size_t)partition->model->nblocks, sizeof *partition->scratch);
    partition->own_scratch = take_states(partition, 0, partition->model->nblocks, SCRATCH);
    partition->shared = take_states(partition, 0, partition->model->nblocks, SAVED);
    if (partition->region.is_short) return no_memory();
    tie_head(partition);
    if (setup->train) {
        LS_TRY(ls_micro_list_make(&setup->layout, setup->B, setup->G, setup->place.dp, &partition->micros));
        LS_TRY(make_steps(partition));
    }
    LS_TRY(make_chunks(partition));
    LS_TRY(ls_partition_make_buckets(partition));
    partition->hash_room = ls_partition_hash_room(partition);
    return LS_OK;
}

static void free_lists(ls_partition *partition) {
    ls_partition_free_buckets(partition);
    ls_rounds_free(&partition->rounds);
    ls_schedule_free(&partition->schedule);
    ls_micro_list_free(&partition->micros);
    ls_region_free(&partition->region);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

ls_status ls_partition_measure(ls_model *model, const ls_partition_setup *setup, ls_arena *arena) {
    ls_partition partition = {0};
    fill_plain(&partition, model, setup);
    ls_status status = make_lists(&partition);
    ls_arena_measure(arena, setup->align);
    if (status == LS_OK) status = ls_partition_layout(arena, &partition);
    if (status == LS_OK) status = ls_arena_finish(arena);
    free_lists(&partition);
    return status;
}

static void alloc_checks(ls_partition *partition) {
    const ls_partition_setup *setup = &partition->setup;
    size_t dp = (size_t)setup->layout.dp;
    partition->bad_shard_param = -1;
    if (!setup->checks_state) return;
    partition->host_copies = take(partition, ls_partition_copy_room(partition), sizeof *partition->host_copies);
    if (setup->layout.zero < 3 || !setup->checks_shards) return;
    partition->shard_hashes = take(partition, (size_t)partition->nbuckets * dp, sizeof *partition->shard_hashes);
}

/* Takes the host buffers from the region: staging for copies, token ids, hashes and sums. Fails only at the end,
 * because the region records that it is short and then returns NULL. */
static ls_status alloc_host(ls_partition *partition) {
    size_t rows = partition->micro * partition->setup.T;
    size_t elems = rows > PIECE_ELEMS ? rows : PIECE_ELEMS;
    partition->host_elems = partition->model->shape.V > elems ? partition->model->shape.V : elems;
    partition->host = take(partition, partition->host_elems, sizeof *partition->host);
    partition->host_ids = take(partition, rows, sizeof *partition->host_ids);
    partition->host_targets = take(partition, rows, sizeof *partition->host_targets);
    size_t state = ls_partition_state_room(partition) * (sizeof(ls_hash128) / sizeof(int64_t));
    partition->host_sums = take(partition, state + ls_partition_sum_words(partition), sizeof *partition->host_sums);
    if (state > 0 && partition->host_sums) {
        partition->host_state = (ls_hash128 *)(void *)partition->host_sums;
        partition->host_sums += state;
        partition->host_found = take(partition, ls_partition_state_room(partition), sizeof *partition->host_found);
    }
    if (ls_partition_host_parts(partition) > 0)
        partition->host_parts = take(partition, ls_partition_host_parts(partition), sizeof *partition->host_parts);
    partition->host_hashes = take(partition, partition->hash_room, sizeof *partition->host_hashes);
    if (ls_policy_is_16(&partition->setup.policy))
        partition->host16 = take(partition, LS_PARTITION_HOST16, sizeof *partition->host16);
    if (ls_shape_sees_images(&partition->model->shape)) {
        size_t image = ls_extent_elems(partition->model->blocks[0].image.in);
        partition->host_pixels = take(partition, partition->micro * image, sizeof *partition->host_pixels);
    }
    alloc_checks(partition);
    return partition->region.is_short ? no_memory() : LS_OK;
}

static ls_status alloc(void *device, size_t bytes, void **memory) { return ls_device_alloc(device, bytes, memory); }
static void release(void *device, void *memory) { ls_device_free(device, memory); }

static ls_status fill_rope(ls_partition *partition) {
    const ls_shape *shape = &partition->model->shape;
    size_t count = ls_shape_rope_tables(shape), elems = partition->setup.T * (shape->head_size / 2);
    ls_status status = LS_OK;
    if (count == 0) return LS_OK;
    float *tables = malloc(2 * elems * sizeof *tables);
    if (!tables)
        return ls_fail(LS_ERR_RESOURCE, "out of memory for the rotary table of %zu positions", partition->setup.T);
    for (size_t i = 0; i < count && status == LS_OK; i++) {
        float *cos = partition->rope_cos + i * elems, *sin = partition->rope_sin + i * elems;
        if (!ls_layer(shape, i).rotates) continue;
        ls_init_rope(shape, i, partition->setup.T, tables, tables + elems);
        status = ls_device_copy_in(partition->device, cos, tables, elems * sizeof *tables);
        if (status == LS_OK) status = ls_device_copy_in(partition->device, sin, tables + elems, elems * sizeof *tables);
    }
    partition->nn.rope_cos = partition->rope_cos;
    partition->nn.rope_sin = partition->rope_sin;
    partition->nn.rope_elems = elems;
    free(tables);
    return status;
}

ls_status ls_partition_create(ls_model *model, ls_device *device, const ls_partition_setup *setup, ls_partition **out) {
    *out = NULL;
    assert(setup->T >= 1 && setup->T <= model->shape.T && setup->layout.micro >= 1 && setup->B >= 1);
    ls_status status = LS_OK;
    ls_partition *partition = calloc(1, sizeof *partition);
    if (!partition) return no_memory();
    ls_partition_setup own = *setup;
    own.apart = !device->is_host;
    fill_plain(partition, model, &own);
    partition->device = partition->nn.device = device;
    partition->nn.ops = device->ops;
    find_comms(partition);
    LS_TRY_OUT(make_lists(partition));
    LS_TRY_OUT(alloc_host(partition));
    ls_memory_source source = {.alloc = alloc, .release = release, .ctx = device, .align = device->align};
    LS_TRY_OUT(ls_arena_build(ls_partition_layout, partition, &source, &partition->arena));
    if (partition->lent) ls_device_lend(device, partition->lent, setup->scratch_bytes);
    if (partition->dp && partition->lent_sums)
        ls_tensor_lend(device, partition->dp, partition->lent_sums, partition->lent_sums_bytes);
    LS_TRY_OUT(fill_rope(partition));
    *out = partition;
    return LS_OK;
out:
    ls_partition_destroy(partition);
    return status;
}

void ls_partition_destroy(ls_partition *partition) {
    if (!partition) return;
    if (partition->lent) ls_device_take_back(partition->device, partition->lent);
    if (partition->dp && partition->lent_sums)
        ls_tensor_take_back(partition->device, partition->dp, partition->lent_sums);
    if (partition->arena.memory) release(partition->device, partition->arena.memory);
    free_lists(partition);
    free(partition);
}

void ls_partition_leave_out(ls_partition *partition, const bool *absent) {
    assert(!absent || partition->nn.leaves);
    partition->nn.absent = absent;
}

void ls_partition_watch(ls_partition *partition, ls_leaf_watch watch) {
    assert(partition->nn.leaves);
    partition->nn.watch = watch;
}

void ls_partition_watch_groups(ls_partition *partition, ls_loss_sum *losses, ls_exact_sum *squares) {
    assert(!squares || (losses && partition->nn.leaves));
    partition->group_losses = losses;
    partition->group_squares = squares;
}

const ls_arena *ls_partition_arena(const ls_partition *partition) { return &partition->arena; }
ls_model *ls_partition_model(const ls_partition *partition) { return partition->model; }
const ls_partition_setup *ls_partition_setup_of(const ls_partition *partition) { return &partition->setup; }
