/* layout.c: lays out the device memory of a partition, which is one arena: parameters, gradients and optimizer state
 * here, the rest by the files that own it. Every lay function runs twice: while the arena measures, when all pointers
 * are NULL, and while it assigns memory. */
#include <string.h>

#include "parallel/partition/state.h"

float *ls_partition_take_f32(ls_arena *arena, const char *kind, size_t rows, size_t columns) {
    return ls_arena_take_array(arena, kind, rows, columns * sizeof(float));
}

/* Takes 16-bit elements from the arena; NULL while measuring. */
static uint16_t *take16(ls_arena *arena, const char *kind, size_t elems) {
    return ls_arena_take_array(arena, kind, elems, sizeof(uint16_t));
}

/* ---- parameters -------------------------------------------------------------------------------------------------- */

/* Makes a pool have this many buffers, each large enough for `elems` too. */
static void want_buffers(ls_buffer_pool *pool, int count, size_t elems) {
    pool->count = count;
    if (elems > pool->elems) pool->elems = elems;
}

/* Assigns memory to the buffers of a pool; an element has `bytes` bytes. */
static void lay_pool(ls_arena *arena, ls_buffer_pool *pool, const char *kind, size_t bytes) {
    for (int i = 0; i < pool->count; i++) pool->memory[i] = ls_arena_take_array(arena, kind, pool->elems, bytes);
}

/* Reserves gather buffers. With ZeRO 3 a worker stores only its own elements and gathers the rest when it needs
 * them. */
static void lay_gathered(ls_partition *partition, ls_bucket *bucket) {
    bool table = bucket->kind == LS_BUCKET_TABLE;
    want_buffers(table ? &partition->weights.table : &partition->weights.block, table ? 1 : LS_PARTITION_BUFFERS,
                 bucket->elems);
}

/* Assigns memory to the fp32 weights of a bucket: all elements, or with ZeRO 3 the own ones. */
static void lay_plain(ls_partition *partition, ls_bucket *bucket, ls_arena *arena) {
    if (partition->setup.layout.zero < 3 || !ls_bucket_is_matrix(bucket)) {
        bucket->w = ls_partition_take_f32(arena, "parameters", bucket->elems, 1);
        return;
    }
    bucket->shard_w = ls_partition_take_f32(arena, "parameters", ls_bucket_own_elems(bucket), 1);
    lay_gathered(partition, bucket);
}

/* Assigns memory to the weights of a bucket that matmuls read in 16 bits, and to its fp32 weights. Only the worker that
 * updates an element has it in fp32; copies and inference have none. */
static void lay_rounded(ls_partition *partition, ls_bucket *bucket, ls_arena *arena) {
    size_t own = ls_bucket_own_elems(bucket);
    bool updates = partition->setup.train && bucket->param[0] != partition->tied.copy;
    if (updates && partition->setup.layout.zero == 0)
        bucket->w = ls_partition_take_f32(arena, "parameters", bucket->elems, 1);
    else if (updates)
        bucket->shard_w = ls_partition_take_f32(arena, "parameters", own, 1);
    if (partition->setup.layout.zero < 3) {
        bucket->w16 = take16(arena, "16-bit parameters", bucket->elems);
        return;
    }
    bucket->shard_w16 = take16(arena, "16-bit parameters", own);
    lay_gathered(partition, bucket);
}

/* Assigns memory to all weights, and to the buffers that gathered weights share. */
static void lay_weights(ls_partition *partition, ls_arena *arena) {
    size_t bytes = ls_dtype_bytes(partition->setup.policy.act);
    partition->weights.block.elems = partition->weights.table.elems = 0;
    for (int i = 0; i < partition->nbuckets; i++) {
        ls_bucket *bucket = &partition->buckets[i];
        if (bucket->kind == LS_BUCKET_LOOKUP) continue;
        if (ls_partition_is_16(partition, bucket))
            lay_rounded(partition, bucket, arena);
        else
            lay_plain(partition, bucket, arena);
        ls_bucket_point_weights(bucket);
    }
    lay_pool(arena, &partition->weights.block, "gathered parameters", bytes);
    lay_pool(arena, &partition->weights.table, "gathered parameters", bytes);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* Assigns memory to the gradient slots of a bucket with zero < 2, and to what travels of 16-bit leaves. */
static void lay_stack(ls_partition *partition, ls_bucket *bucket, ls_arena *arena) {
    bool summed =
        bucket->kind == LS_BUCKET_VECTORS || bucket->kind == LS_BUCKET_POSITIONS || partition->nn.grads.leaves;
    bool travels = ls_partition_wire(partition) != LS_F32 && partition->setup.layout.dp > 1;
    bool heads = bucket->kind == LS_BUCKET_TABLE && bucket->block == partition->model->nblocks - 1;
    bucket->slots = summed ? partition->grads.slots.sum : partition->grads.slots.product;
    if (heads && partition->grads.table_slots > bucket->slots) bucket->slots = partition->grads.table_slots;
    if (partition->setup.audits) bucket->slots = partition->grads.audit_slot + 1;
    for (int s = 0; s < bucket->slots; s++)
        bucket->slot[s] = ls_partition_take_f32(arena, "gradients", bucket->grad_elems, 1);
    for (int s = 0; travels && s < partition->grads.slots.parts; s++)
        if (partition->grads.part_is_leaf[s]) bucket->wire[s] = take16(arena, "communication", bucket->grad_elems);
}

/* Assigns memory to the gradients of a bucket with zero ≥ 2: one leaf, maybe in a shared buffer, and own sums. */
static void lay_rounds(ls_partition *partition, ls_bucket *bucket, ls_arena *arena) {
    bool table = bucket->kind == LS_BUCKET_TABLE || bucket->kind == LS_BUCKET_LOOKUP;
    bucket->slots = 1;
    if (!partition->grads.leaves_pass || (!table && !ls_bucket_is_matrix(bucket))) {
        bucket->slot[0] = ls_partition_take_f32(arena, "gradients", bucket->grad_elems, 1);
        if (ls_partition_wire(partition) != LS_F32)
            bucket->wire[0] = take16(arena, "communication", bucket->grad_elems);
    } else {
        want_buffers(table ? &partition->leaves.table : &partition->leaves.block, table ? 1 : LS_PARTITION_BUFFERS,
                     bucket->grad_elems);
    }
    bucket->own_slots = partition->grads.rounds.own_slots;
    for (int s = 0; s < bucket->own_slots; s++)
        bucket->own_slot[s] = ls_partition_take_f32(arena, "gradients", ls_bucket_own_elems(bucket), 1);
}

/* Assigns memory to the buffers that leaves of gradients share. */
static void lay_leaf_pool(ls_partition *partition, ls_buffer_pool *pool, ls_arena *arena) {
    lay_pool(arena, pool, "gradients", sizeof(float));
    for (int i = 0; ls_partition_wire(partition) != LS_F32 && i < pool->count; i++)
        pool->wire[i] = take16(arena, "communication", pool->elems);
}

/* Assigns memory to all gradients. */
static void lay_grads(ls_partition *partition, ls_arena *arena) {
    bool rounds = ls_partition_rounds(partition);
    partition->leaves.block.elems = partition->leaves.table.elems = 0;
    for (int i = 0; i < partition->nbuckets; i++) {
        ls_bucket *bucket = &partition->buckets[i];
        if (rounds)
            lay_rounds(partition, bucket, arena);
        else
            lay_stack(partition, bucket, arena);
        ls_bucket_point_grads(bucket, partition->model->S);
    }
    lay_leaf_pool(partition, &partition->leaves.block, arena);
    lay_leaf_pool(partition, &partition->leaves.table, arena);
}

/* Assigns memory to the optimizer state of own elements. */
static void lay_moments(ls_partition *partition, ls_arena *arena) {
    for (int i = 0; i < partition->nbuckets; i++) {
        ls_bucket *bucket = &partition->buckets[i];
        for (int p = 0; p < bucket->nparams && bucket->kind != LS_BUCKET_LOOKUP; p++) {
            ls_param *param = bucket->param[p];
            int moments = param == partition->tied.copy ? 0 : partition->setup.moments;
            for (int m = 0; m < 2; m++)
                param->moment[m] =
                    m < moments ? ls_partition_take_f32(arena, "optimizer state", ls_param_range_elems(param->own), 1)
                                : NULL;
        }
    }
}

/* Raises *most to the device scratch that a reduction of these runs needs. */
static ls_status more_for(const ls_partition *partition, const ls_runs *runs, size_t *most) {
    size_t bytes;
    LS_TRY(ls_tensor_sum_bytes(partition->setup.layout.dp, runs, ls_partition_wire(partition), &bytes));
    if (bytes > *most) *most = bytes;
    return LS_OK;
}

/* Lays out the scratch with which a device adds gradients of several workers, if the device lends scratch at all. */
static ls_status lay_reduction(ls_partition *partition, ls_arena *arena) {
    const ls_partition_setup *setup = &partition->setup;
    const ls_rounds *rounds = &partition->grads.rounds;
    size_t bytes = 0;
    if (!setup->scratch_bytes || !setup->train || setup->layout.dp < 2) return LS_OK;
    if (!ls_partition_rounds(partition))
        LS_TRY(more_for(partition, &(ls_runs){setup->G, partition->grads.group_bounds}, &bytes));
    for (int i = 0; ls_partition_rounds(partition) && i < rounds->first[rounds->rounds]; i++)
        LS_TRY(more_for(partition, &(ls_runs){rounds->nodes[i].node.count, rounds->nodes[i].bounds}, &bytes));
    partition->memory.lent_sums_bytes = bytes;
    partition->memory.lent_sums = bytes ? ls_arena_take(arena, "communication", bytes) : NULL;
    return LS_OK;
}

ls_status ls_partition_layout(ls_arena *arena, void *ctx) {
    ls_partition *partition = ctx;
    const ls_partition_setup *setup = &partition->setup;
    lay_weights(partition, arena);
    if (setup->train) lay_grads(partition, arena);
    for (int i = 0; i < partition->nbuckets; i++)
        ls_bucket_point_own(&partition->buckets[i], partition->model->S, ls_partition_rounds(partition));
    lay_moments(partition, arena);
    ls_partition_lay_tied(partition, arena);
    ls_nn_set_rows(&partition->nn, partition->micro, setup->T);
    ls_partition_lay_activations(partition, arena);
    ls_partition_lay_rings(partition, arena);
    ls_partition_lay_input(partition, arena);
    ls_partition_lay_numerics(partition, arena);
    ls_partition_lay_sums(partition, arena);
    ls_partition_lay_state(partition, arena);
    ls_partition_lay_check(partition, arena);
    if (setup->scratch_bytes) partition->memory.lent = ls_arena_take(arena, "scratch", setup->scratch_bytes);
    LS_TRY(lay_reduction(partition, arena));
    ls_partition_lay_scratch(partition, arena); /* last: the memory of its phases overlaps */
    return LS_OK;
}
