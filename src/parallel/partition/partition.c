/* partition.c: creates and destroys a partition, all that one worker holds, and measures its memory. */
#include "parallel/partition/partition.h"

#include <assert.h>
#include <stdlib.h>

#include "device/calls.h"
#include "parallel/partition/check.h"
#include "parallel/partition/state.h"

ls_status ls_partition_no_memory(void) {
    return ls_fail(LS_ERR_RESOURCE, "out of memory for the partition of a worker");
}

/* ---- what it is -------------------------------------------------------------------------------------------------- */

/* Returns the maximum number of sequences of a micro-batch: that of the layout, or in training those of the largest run
 * of groups that a replica runs at once, if these are fewer. It is the same on all workers. */
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

/* Fills in all that follows from the setup alone, and sets the model's slices to those of this worker. */
static void fill_plain(ls_partition *partition, ls_model *model, const ls_partition_setup *setup) {
    int slices = model->S / setup->layout.tp;
    partition->model = model;
    partition->setup = *setup;
    if (setup->layout.dp == 1) partition->setup.layout.zero = 0; /* there is no other replica */
    if (setup->layout.tp == 1) partition->setup.layout.sequence_parallel = false;
    partition->micro = micro_of(&partition->setup);
    partition->stage.kept_parts = setup->train ? ls_layout_kept_parts(&setup->layout) : LS_SAVE_KEYS;
    partition->nn =
        (ls_nn){.policy = setup->policy,
                .shape = &model->shape,
                .tp = {.sequence_parallel = partition->setup.layout.sequence_parallel, .crosses_at_once = setup->apart},
                .keeps_act = setup->train && setup->layout.keep_activations,
                .loss_chunk = setup->layout.loss_chunk,
                .grads.leaves = setup->leaves || setup->watches || ls_policy_wants_leaves(&setup->policy)};
    partition->nn.batch_norm.ghost = setup->ghost;
    if (setup->bn_sync) partition->nn.batch_norm.sync = (ls_norm_sync){.groups = setup->G, .batch = setup->B};
    for (int b = 0; b < model->nblocks; b++)
        if (model->blocks[b].kind->settle) model->blocks[b].kind->settle(&model->blocks[b], &partition->nn);
    ls_nn_take_slices(&partition->nn, model->S, slices * setup->place.tp, slices);
    ls_model_take_slices(model, slices * setup->place.tp, slices);
}

/* Gets the communicators of the axes with more than one member from the mesh. */
static void find_comms(ls_partition *partition) {
    const ls_layout *layout = &partition->setup.layout;
    ls_mesh *mesh = partition->setup.mesh;
    if (!mesh) return;
    if (layout->dp > 1) partition->comms.dp = ls_mesh_comm(mesh, LS_AXIS_DP);
    if (layout->tp > 1) partition->comms.tp = ls_mesh_comm(mesh, LS_AXIS_TP);
    if (layout->pp > 1) partition->comms.pp = ls_mesh_comm(mesh, LS_AXIS_PP);
    if (ls_layout_workers(layout) > 1) partition->comms.all = ls_world_comm(partition->setup.world);
    partition->nn.tp.comm = partition->comms.tp;
    if (partition->setup.bn_sync) partition->nn.batch_norm.sync.dp = partition->comms.dp;
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

void *ls_partition_take(ls_partition *partition, size_t count, size_t bytes) {
    return ls_region_take(&partition->memory.region, count, bytes);
}

/* Makes the host's lists: micro-batches, gradient steps, stage, buckets. After an error the caller calls
 * free_lists(). */
static ls_status make_lists(ls_partition *partition) {
    const ls_partition_setup *setup = &partition->setup;
    ls_partition_tie_head(partition);
    if (setup->train) {
        LS_TRY(ls_micro_list_make(&setup->layout, setup->B, setup->G, setup->place.dp, &partition->pass.micros));
        LS_TRY(ls_partition_plan_steps(partition));
    }
    LS_TRY(ls_partition_make_stage(partition));
    LS_TRY(ls_partition_make_buckets(partition));
    partition->sums.hash_room = ls_partition_hash_room(partition);
    return LS_OK;
}

static void free_lists(ls_partition *partition) {
    ls_partition_free_buckets(partition);
    ls_rounds_free(&partition->grads.rounds);
    ls_schedule_free(&partition->pass.schedule);
    ls_micro_list_free(&partition->pass.micros);
    ls_region_free(&partition->memory.region);
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

/* Takes all host buffers from the region, which records that it is short and then returns NULL. */
static ls_status alloc_host(ls_partition *partition) {
    ls_partition_alloc_staging(partition);
    ls_partition_alloc_input(partition);
    ls_partition_alloc_sums(partition);
    ls_partition_alloc_check(partition);
    return partition->memory.region.is_short ? ls_partition_no_memory() : LS_OK;
}

/* Allocates and frees device memory, for the arena. */
static ls_status alloc(void *device, size_t bytes, void **memory) { return ls_device_alloc(device, bytes, memory); }
static void release(void *device, void *memory) { ls_device_free(device, memory); }

ls_status ls_partition_create(ls_model *model, ls_device *device, const ls_partition_setup *setup, ls_partition **out) {
    *out = NULL;
    assert(setup->T >= 1 && setup->T <= model->shape.T && setup->layout.micro >= 1 && setup->B >= 1);
    ls_status status = LS_OK;
    ls_partition *partition = calloc(1, sizeof *partition);
    if (!partition) return ls_partition_no_memory();
    ls_partition_setup own = *setup;
    own.apart = !device->is_host;
    fill_plain(partition, model, &own);
    partition->device = partition->nn.device = device;
    partition->nn.ops = device->ops;
    find_comms(partition);
    LS_TRY_OUT(make_lists(partition));
    LS_TRY_OUT(alloc_host(partition));
    ls_memory_source source = {.alloc = alloc, .release = release, .ctx = device, .align = device->align};
    LS_TRY_OUT(ls_arena_build(ls_partition_layout, partition, &source, &partition->memory.arena));
    if (partition->memory.lent) ls_device_lend(device, partition->memory.lent, setup->scratch_bytes);
    if (partition->comms.dp && partition->memory.lent_sums)
        ls_tensor_lend(device, partition->comms.dp, partition->memory.lent_sums, partition->memory.lent_sums_bytes);
    LS_TRY_OUT(ls_partition_fill_rope(partition));
    *out = partition;
    return LS_OK;
out:
    ls_partition_destroy(partition);
    return status;
}

void ls_partition_destroy(ls_partition *partition) {
    if (!partition) return;
    if (partition->memory.lent) ls_device_take_back(partition->device, partition->memory.lent);
    if (partition->comms.dp && partition->memory.lent_sums)
        ls_tensor_take_back(partition->device, partition->comms.dp, partition->memory.lent_sums);
    if (partition->memory.arena.memory) release(partition->device, partition->memory.arena.memory);
    free_lists(partition);
    free(partition);
}

void ls_partition_leave_out(ls_partition *partition, const bool *absent) {
    assert(!absent || partition->nn.grads.leaves);
    partition->nn.grads.absent = absent;
}

void ls_partition_watch(ls_partition *partition, ls_leaf_watch watch) {
    assert(partition->nn.grads.leaves);
    partition->nn.grads.watch = watch;
}

const ls_arena *ls_partition_arena(const ls_partition *partition) { return &partition->memory.arena; }
ls_model *ls_partition_model(const ls_partition *partition) { return partition->model; }
const ls_partition_setup *ls_partition_setup_of(const ls_partition *partition) { return &partition->setup; }
