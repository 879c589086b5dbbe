/* layout.c: where everything of a partition lies in its one block of memory. */
#include <string.h>

#include "parallel/partition/state.h"

static float *take(ls_arena *arena, const char *kind, size_t rows, size_t columns) {
    return ls_arena_take_array(arena, kind, rows, columns * sizeof(float));
}

static uint16_t *take16(ls_arena *arena, const char *kind, size_t elems) {
    return ls_arena_take_array(arena, kind, elems, sizeof(uint16_t));
}

/* ---- parameters -------------------------------------------------------------------------------------------------- */

static void want_buffers(ls_buffer_pool *pool, int count, size_t elems) {
    pool->count = count;
    if (elems > pool->elems) pool->elems = elems;
}

static void lay_pool(ls_arena *arena, ls_buffer_pool *pool, const char *kind, size_t bytes) {
    for (int i = 0; i < pool->count; i++) pool->memory[i] = ls_arena_take_array(arena, kind, pool->elems, bytes);
}

/* Reserves gather buffers. With ZeRO 3 a worker stores only its own elements and gathers the rest when it needs
 * them. */
static void lay_gathered(ls_partition *partition, ls_bucket *bucket) {
    bool table = bucket->kind == LS_BUCKET_TABLE;
    want_buffers(table ? &partition->table_weights : &partition->block_weights, table ? 1 : LS_PARTITION_BUFFERS,
                 bucket->elems);
}

static void lay_plain(ls_partition *partition, ls_bucket *bucket, ls_arena *arena) {
    if (partition->setup.layout.zero < 3 || !ls_bucket_is_matrix(bucket)) {
        bucket->w = take(arena, "parameters", bucket->elems, 1);
        return;
    }
    bucket->shard_w = take(arena, "parameters", ls_bucket_own_elems(bucket), 1);
    lay_gathered(partition, bucket);
}

/* Lays out the fp32 weights of a 16-bit bucket. Only the worker that updates an element has it in fp32; copies and
 * inference have none. */
static void lay_rounded(ls_partition *partition, ls_bucket *bucket, ls_arena *arena) {
    size_t own = ls_bucket_own_elems(bucket);
    bool updates = partition->setup.train && bucket->param[0] != partition->copy;
    if (updates && partition->setup.layout.zero == 0)
        bucket->w = take(arena, "parameters", bucket->elems, 1);
    else if (updates)
        bucket->shard_w = take(arena, "parameters", own, 1);
    if (partition->setup.layout.zero < 3) {
        bucket->w16 = take16(arena, "16-bit parameters", bucket->elems);
        return;
    }
    bucket->shard_w16 = take16(arena, "16-bit parameters", own);
    lay_gathered(partition, bucket);
}

static void lay_weights(ls_partition *partition, ls_arena *arena) {
    size_t bytes = ls_dtype_bytes(partition->setup.policy.act);
    partition->block_weights.elems = partition->table_weights.elems = 0;
    for (int i = 0; i < partition->nbuckets; i++) {
        ls_bucket *bucket = &partition->buckets[i];
        if (bucket->kind == LS_BUCKET_LOOKUP) continue;
        if (ls_partition_is_16(partition, bucket))
            lay_rounded(partition, bucket, arena);
        else
            lay_plain(partition, bucket, arena);
        ls_bucket_point_weights(bucket);
    }
    lay_pool(arena, &partition->block_weights, "gathered parameters", bytes);
    lay_pool(arena, &partition->table_weights, "gathered parameters", bytes);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

static void lay_stack(ls_partition *partition, ls_bucket *bucket, ls_arena *arena) {
    bool summed = bucket->kind == LS_BUCKET_VECTORS || bucket->kind == LS_BUCKET_POSITIONS || partition->nn.leaves;
    bool travels = ls_partition_wire(partition) != LS_F32 && partition->setup.layout.dp > 1;
    bool heads = bucket->kind == LS_BUCKET_TABLE && bucket->block == partition->model->nblocks - 1;
    bucket->slots = summed ? partition->slots.sum : partition->slots.product;
    partition->audit_slot =
        partition->slots.sum > partition->slots.product ? partition->slots.sum : partition->slots.product;
    if (heads && partition->table_slots > bucket->slots) bucket->slots = partition->table_slots;
    if (partition->table_slots > partition->audit_slot) partition->audit_slot = partition->table_slots;
    if (partition->setup.audits) bucket->slots = partition->audit_slot + 1;
    for (int s = 0; s < bucket->slots; s++) bucket->slot[s] = take(arena, "gradients", bucket->grad_elems, 1);
    for (int s = 0; travels && s < partition->slots.parts; s++)
        if (partition->part_is_leaf[s]) bucket->wire[s] = take16(arena, "communication", bucket->grad_elems);
}

static void lay_rounds(ls_partition *partition, ls_bucket *bucket, ls_arena *arena) {
    bool table = bucket->kind == LS_BUCKET_TABLE || bucket->kind == LS_BUCKET_LOOKUP;
    bucket->slots = 1;
    if (!partition->leaves_pass || (!table && !ls_bucket_is_matrix(bucket))) {
        bucket->slot[0] = take(arena, "gradients", bucket->grad_elems, 1);
        if (ls_partition_wire(partition) != LS_F32)
            bucket->wire[0] = take16(arena, "communication", bucket->grad_elems);
    } else {
        want_buffers(table ? &partition->table_leaves : &partition->block_leaves, table ? 1 : LS_PARTITION_BUFFERS,
                     bucket->grad_elems);
    }
    bucket->own_slots = partition->rounds.own_slots;
    for (int s = 0; s < bucket->own_slots; s++)
        bucket->own_slot[s] = take(arena, "gradients", ls_bucket_own_elems(bucket), 1);
}

static void lay_leaf_pool(ls_partition *partition, ls_buffer_pool *pool, ls_arena *arena) {
    lay_pool(arena, pool, "gradients", sizeof(float));
    for (int i = 0; ls_partition_wire(partition) != LS_F32 && i < pool->count; i++)
        pool->wire[i] = take16(arena, "communication", pool->elems);
}

static void lay_grads(ls_partition *partition, ls_arena *arena) {
    bool rounds = ls_partition_rounds(partition);
    partition->block_leaves.elems = partition->table_leaves.elems = 0;
    for (int i = 0; i < partition->nbuckets; i++) {
        ls_bucket *bucket = &partition->buckets[i];
        if (rounds)
            lay_rounds(partition, bucket, arena);
        else
            lay_stack(partition, bucket, arena);
        ls_bucket_point_grads(bucket, partition->model->S);
    }
    lay_leaf_pool(partition, &partition->block_leaves, arena);
    lay_leaf_pool(partition, &partition->table_leaves, arena);
}

static void lay_moments(ls_partition *partition, ls_arena *arena) {
    for (int i = 0; i < partition->nbuckets; i++) {
        ls_bucket *bucket = &partition->buckets[i];
        for (int p = 0; p < bucket->nparams && bucket->kind != LS_BUCKET_LOOKUP; p++) {
            ls_param *param = bucket->param[p];
            int moments = param == partition->copy ? 0 : partition->setup.moments;
            for (int m = 0; m < 2; m++)
                param->moment[m] =
                    m < moments ? take(arena, "optimizer state", ls_param_range_elems(param->own), 1) : NULL;
        }
    }
}

/* Lays out the buffer for the gradient of the tied table, whose other use is in the last stage. */
static void lay_tied(ls_partition *partition, ls_arena *arena) {
    const ls_partition_setup *setup = &partition->setup;
    bool first = setup->train && partition->model->shape.tied && setup->layout.pp > 1 && setup->place.pp == 0;
    const ls_param *table = ls_model_tokens(partition->model);
    partition->tied = first ? take(arena, "communication", ls_param_range_elems(table->own), 1) : NULL;
    partition->has_tied = first;
}

/* ---- activations ------------------------------------------------------------------------------------------------- */

/* Returns the columns of the widest stream before or after a block of a chunk. */
static size_t widest(const ls_partition *partition, const ls_chunk *chunk) {
    size_t most = 0;
    for (int b = chunk->first; b < chunk->end; b++) {
        const ls_block *block = &partition->model->blocks[b];
        if (block->in > most) most = block->in;
        if (block->out > most) most = block->out;
    }
    return most;
}

static void lay_slot(ls_partition *partition, const ls_chunk *chunk, ls_chunk_slot *slot, ls_arena *arena) {
    size_t stream = ls_nn_stream_rows(&partition->nn);
    bool train = partition->setup.train;
    for (int i = 0; i < chunk->end - chunk->first; i++) {
        ls_block *block = &partition->model->blocks[chunk->first + i];
        int before = chunk->has_embedding ? i - 1 : i; /* inputs that are there; forward alone two take turns */
        if (before < 0)
            slot->x[i] = NULL;
        else if (train || before < 2)
            slot->x[i] = take(arena, "activations", stream, train ? block->in : widest(partition, chunk));
        else
            slot->x[i] = slot->x[i - 2];
        if (!block->kind->carve_saved) continue;
        memcpy(slot->saved[i], partition->shared[chunk->first + i], block->kind->saved_bytes);
        block->kind->carve_saved(block, slot->saved[i], &partition->nn, partition->kept_parts, arena);
    }
}

/* Lays out the activations that are not kept: one buffer of the size of the largest need of any block. */
static void lay_shared(ls_partition *partition, ls_arena *arena) {
    unsigned parts = LS_SAVE_ALL & ~partition->kept_parts;
    size_t bytes = 0;
    for (int pass = 0; pass < 2; pass++) {
        void *place = pass && bytes ? ls_arena_take(arena, "activations", bytes) : NULL;
        for (int c = 0; c < partition->nchunks; c++)
            for (int b = partition->chunks[c].first; b < partition->chunks[c].end; b++) {
                ls_arena part;
                ls_arena_measure(&part, arena->align);
                if (place) ls_arena_carve(&part, arena->align, place, bytes);
                const ls_block *block = &partition->model->blocks[b];
                if (!block->kind->carve_saved) continue;
                memset(partition->shared[b], 0, block->kind->saved_bytes);
                block->kind->carve_saved(block, partition->shared[b], &partition->nn, parts, &part);
                if (part.peak > bytes) bytes = part.peak;
            }
    }
}

static void lay_activations(ls_partition *partition, ls_arena *arena) {
    lay_shared(partition, arena);
    for (int c = 0; c < partition->nchunks; c++) {
        ls_chunk *chunk = &partition->chunks[c];
        for (int s = 0; s < chunk->slots; s++) lay_slot(partition, chunk, &chunk->slot[s], arena);
        for (int s = 0; s < chunk->kept_slots; s++)
            for (int b = chunk->first; b < chunk->end; b++) {
                const ls_block *block = &partition->model->blocks[b];
                if (block->kind->carve_kept)
                    block->kind->carve_kept(block, chunk->kept[s].kept[b - chunk->first], &partition->nn, arena);
            }
    }
}

static void lay_rings(ls_partition *partition, ls_arena *arena) {
    size_t stream = ls_nn_stream_rows(&partition->nn), out = 0, any = 0;
    const char *kind = partition->setup.layout.pp > 1 ? "communication" : "activations";
    for (int c = 0; c < partition->nchunks; c++) {
        const ls_chunk *chunk = &partition->chunks[c];
        size_t last = partition->model->blocks[chunk->end - 1].out, wide = widest(partition, chunk);
        if (last > out) out = last;
        if (wide > any) any = wide;
    }
    for (int i = 0; i < partition->forward.count; i++) partition->forward.buffer[i] = take(arena, kind, stream, out);
    for (int i = 0; i < partition->backward.count; i++) partition->backward.buffer[i] = take(arena, kind, stream, any);
}

static void lay_scratch(ls_partition *partition, ls_arena *arena) {
    for (int c = 0; c < partition->nchunks; c++)
        for (int b = partition->chunks[c].first; b < partition->chunks[c].end; b++) {
            ls_arena_phase_begin(arena);
            const ls_block *block = &partition->model->blocks[b];
            block->kind->carve_scratch(block, partition->own_scratch[b], &partition->scratch[b], &partition->nn,
                                       partition->setup.train, arena);
            ls_arena_phase_end(arena);
        }
}

static void lay_block_sums(ls_partition *partition, ls_arena *arena) {
    for (int i = 0; i < partition->model->nparams; i++) {
        ls_param *param = partition->model->params[i];
        const size_t sums = ls_check_sums(ls_param_range_elems(param->own));
        param->block_sums = sums ? ls_arena_take_array(arena, "scratch", sums, sizeof *param->block_sums) : NULL;
    }
}

static ls_status more_for(const ls_partition *partition, const ls_runs *runs, size_t *most) {
    size_t bytes;
    LS_TRY(ls_tensor_sum_bytes(partition->setup.layout.dp, runs, ls_partition_wire(partition), &bytes));
    if (bytes > *most) *most = bytes;
    return LS_OK;
}

/* Lays out the scratch with which a device adds gradients of several workers, if the device lends scratch at all. */
static ls_status lay_sums(ls_partition *partition, ls_arena *arena) {
    const ls_partition_setup *setup = &partition->setup;
    const ls_rounds *rounds = &partition->rounds;
    size_t bytes = 0;
    if (!setup->scratch_bytes || !setup->train || setup->layout.dp < 2) return LS_OK;
    if (!ls_partition_rounds(partition))
        LS_TRY(more_for(partition, &(ls_runs){setup->G, partition->group_bounds}, &bytes));
    for (int i = 0; ls_partition_rounds(partition) && i < rounds->first[rounds->rounds]; i++)
        LS_TRY(more_for(partition, &(ls_runs){rounds->nodes[i].node.count, rounds->nodes[i].bounds}, &bytes));
    partition->lent_sums_bytes = bytes;
    partition->lent_sums = bytes ? ls_arena_take(arena, "communication", bytes) : NULL;
    return LS_OK;
}

ls_status ls_partition_layout(ls_arena *arena, void *ctx) {
    ls_partition *partition = ctx;
    const ls_partition_setup *setup = &partition->setup;
    const ls_shape *shape = &partition->model->shape;
    size_t half = shape->head_size / 2;
    lay_weights(partition, arena);
    if (setup->train) lay_grads(partition, arena);
    for (int i = 0; i < partition->nbuckets; i++)
        ls_bucket_point_own(&partition->buckets[i], partition->model->S, ls_partition_rounds(partition));
    lay_moments(partition, arena);
    lay_tied(partition, arena);
    ls_nn_set_rows(&partition->nn, partition->micro, setup->T);
    lay_activations(partition, arena);
    lay_rings(partition, arena);
    partition->ids = ls_arena_take_array(arena, "tokens", ls_nn_rows(&partition->nn), sizeof(int32_t));
    partition->targets = ls_arena_take_array(arena, "tokens", ls_nn_rows(&partition->nn), sizeof(int32_t));
    if (ls_shape_sees_images(shape))
        partition->pixels =
            take(arena, "images", partition->micro, ls_extent_elems(partition->model->blocks[0].image.in));
    if (ls_shape_rope_tables(shape) > 0) {
        partition->rope_cos = take(arena, "tables", ls_shape_rope_tables(shape) * setup->T, half);
        partition->rope_sin = take(arena, "tables", ls_shape_rope_tables(shape) * setup->T, half);
    }
    partition->aside = setup->numerics ? take(arena, "scratch", ls_partition_aside_elems(partition), 1) : NULL;
    if (setup->numerics)
        partition->counts = ls_arena_take_array(arena, "scratch", ls_partition_count_words(partition), sizeof(int64_t));
    /* Sums of state lie in front of those of a step, so that one read brings both. */
    size_t words = ls_partition_state_room(partition) * (sizeof(ls_hash128) / sizeof(int64_t));
    partition->sums = ls_arena_take_array(arena, "scratch", words + ls_partition_sum_words(partition), sizeof(int64_t));
    partition->hashes = ls_arena_take_array(arena, "scratch", partition->hash_room, sizeof *partition->hashes);
    if (setup->sums_state) {
        partition->state_sums = (ls_hash128 *)(void *)partition->sums;
        partition->sums = partition->sums ? partition->sums + words : NULL;
        partition->found_sums =
            ls_arena_take_array(arena, "scratch", ls_partition_state_room(partition), sizeof *partition->found_sums);
    }
    if (setup->sums_state) lay_block_sums(partition, arena);
    if (setup->checks_state)
        partition->copy_sums =
            ls_arena_take_array(arena, "scratch", ls_partition_copy_room(partition), sizeof *partition->copy_sums);
    if (setup->scratch_bytes) partition->lent = ls_arena_take(arena, "scratch", setup->scratch_bytes);
    LS_TRY(lay_sums(partition, arena));
    lay_scratch(partition, arena); /* last: its phases give their place up */
    return LS_OK;
}
