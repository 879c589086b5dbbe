/* reduce.c: reduces the gradients of micro-batches over replicas to the sums of own elements, those that this worker
 * updates. A bucket is a set of parameters that are reduced together; a leaf is the gradient of one group; a slot is
 * memory for the gradient of a group or a subtree of groups; with zero ≥ 2 replicas reduce after each of their groups,
 * in rounds.
 *
 * All members of a DP group start the same reductions in the same order: with zero < 2 in the order of the list, each
 * bucket once it and all before it are complete; with zero ≥ 2 in the order of actions, which is the same in all rows
 * because their lists have the same length. */
#include "base/events.h"
#include "base/fault.h"
#include "parallel/partition/state.h"

/* ---- reductions -------------------------------------------------------------------------------------------------- */

/* Waits for the reduction in progress, if any, and joins its result to the stack of own sums. */
static ls_status end_reduction(ls_partition *partition, ls_bucket *bucket) {
    ls_request *request = bucket->request;
    if (!request) return LS_OK;
    bucket->request = NULL;
    LS_TRY(ls_request_wait(request));
    if (!ls_partition_rounds(partition)) return LS_OK;
    for (int i = 0; i < bucket->own_joins; i++) {
        float *left = bucket->own_slot[bucket->own_at - i - 1], *right = bucket->own_slot[bucket->own_at - i];
        LS_TRY(partition->nn.ops->add(partition->device,
                                      &(ls_add_call){left, left, right, LS_F32, ls_bucket_own_elems(bucket)}));
    }
    return LS_OK;
}

/* Starts the reduce-scatter or, for buckets that every member updates whole, the all-reduce of a bucket's gradients. */
static ls_status start_reduction(ls_partition *partition, ls_bucket *bucket, const ls_runs *runs,
                                 const void *const *parts, float *out) {
    ls_dtype wire = ls_partition_wire(partition);
    if (bucket->sharded)
        return ls_tensor_reduce_scatter_start(partition->device, partition->comms.dp, runs, wire, parts, out,
                                              bucket->shard, bucket->grad_elems, &bucket->request);
    return ls_tensor_all_reduce_start(partition->device, partition->comms.dp, runs, wire, parts, out,
                                      bucket->grad_elems, &bucket->request);
}

/* Adds what this worker contributes to the watched squares; first plants a fault if a drill asks for one. */
static ls_status add_contribution(ls_partition *partition, const ls_bucket *bucket, float *grad) {
    ls_fault_at(partition->device, LS_FAULT_SHARE, bucket->param[0]->name, bucket->block, grad, bucket->grad_elems,
                sizeof *grad);
    return ls_partition_add_contribution(partition, bucket, grad);
}

/* Returns in *part what to send of slot s: a subtree as it is, or a leaf, already rounded, converted to the type of the
 * wire. Adds the slot to the watched contributions; not if `has_none`: the member has no group in this round, so its
 * slot is stale and the reduction does not read what is sent. */
static ls_status part_of(ls_partition *partition, ls_bucket *bucket, int s, bool has_none, const void **part) {
    *part = bucket->slot[s];
    if (!has_none) LS_TRY(add_contribution(partition, bucket, bucket->slot[s]));
    if (!bucket->wire[s]) return LS_OK;
    *part = bucket->wire[s];
    return partition->nn.ops->convert(
        partition->device,
        &(ls_convert_call){bucket->wire[s], ls_partition_wire(partition), bucket->slot[s], LS_F32, bucket->grad_elems});
}

/* Starts the one reduction of a bucket with zero < 2. */
static ls_status reduce_once(ls_partition *partition, ls_bucket *bucket) {
    const void *parts[LS_GRAD_SLOTS_MAX];
    ls_runs runs = {partition->setup.G, partition->grads.group_bounds};
    for (int i = 0; i < partition->grads.slots.parts; i++) LS_TRY(part_of(partition, bucket, i, false, &parts[i]));
    return start_reduction(partition, bucket, &runs, parts, bucket->slot[0] + bucket->own_begin);
}

/* Starts the reductions of a bucket after a round, each after the end of the one before, and joins their sums. */
static ls_status reduce_round(ls_partition *partition, ls_bucket *bucket, int round) {
    const void *part;
    bool has_none = ls_layout_group(&partition->setup.layout, partition->setup.place.dp, round) < 0;
    if (partition->grads.rounds.first[round] < partition->grads.rounds.first[round + 1])
        LS_TRY(end_reduction(partition, bucket));
    LS_TRY(part_of(partition, bucket, 0, has_none, &part));
    for (int n = partition->grads.rounds.first[round]; n < partition->grads.rounds.first[round + 1]; n++) {
        const ls_round_node *node = &partition->grads.rounds.nodes[n];
        ls_runs runs = {node->node.count, node->bounds};
        LS_TRY(end_reduction(partition, bucket));
        bucket->own_at = node->at;
        bucket->own_joins = node->joins;
        LS_TRY(start_reduction(partition, bucket, &runs, &part, bucket->own_slot[node->at]));
    }
    return LS_OK;
}

/* ---- leaves ------------------------------------------------------------------------------------------------------ */

/* Returns the pool of buffers for the bucket's leaves. */
static ls_buffer_pool *leaf_pool(ls_partition *partition, const ls_bucket *bucket) {
    bool table = bucket->kind == LS_BUCKET_TABLE || bucket->kind == LS_BUCKET_LOOKUP;
    return table ? &partition->leaves.table : &partition->leaves.block;
}

/* Returns whether the bucket's leaves use a shared buffer, because each group is one micro-batch. */
static bool passes(const ls_partition *partition, const ls_bucket *bucket) {
    return partition->grads.leaves_pass && bucket->kind != LS_BUCKET_VECTORS && bucket->kind != LS_BUCKET_POSITIONS;
}

ls_status ls_partition_begin_grads(ls_partition *partition, int block) {
    ls_fault_point(LS_POINT_REDUCE);
    for (int i = 0; i < partition->nbuckets; i++) {
        ls_bucket *bucket = &partition->buckets[i];
        if (bucket->block != block) continue;
        if (ls_partition_rounds(partition)) LS_TRY(end_reduction(partition, bucket)); /* it may still read the leaf */
        if (!passes(partition, bucket)) continue;
        ls_buffer_pool *pool = leaf_pool(partition, bucket);
        int buffer = pool->next;
        if (pool->user[buffer]) LS_TRY(end_reduction(partition, pool->user[buffer]));
        pool->user[buffer] = bucket;
        pool->next = (buffer + 1) % pool->count;
        bucket->slot[0] = pool->memory[buffer];
        bucket->wire[0] = pool->wire[buffer];
        ls_bucket_point_grads(bucket, partition->model->S);
    }
    return LS_OK;
}

/* Starts the reductions of complete buckets in the order of the list, up to the first that is not complete. */
static ls_status start_ready(ls_partition *partition) {
    for (int i = 0; i < partition->nbuckets && partition->buckets[i].ready; i++) {
        ls_bucket *bucket = &partition->buckets[i];
        if (bucket->started) continue;
        bucket->started = true;
        LS_TRY(reduce_once(partition, bucket));
    }
    return LS_OK;
}

ls_status ls_partition_end_grads(ls_partition *partition, int block, const ls_micro *micro, bool last) {
    if (!partition->comms.dp || partition->pass.audits) return LS_OK;
    for (int i = 0; i < partition->nbuckets; i++) {
        ls_bucket *bucket = &partition->buckets[i];
        if (bucket->block != block) continue;
        if (ls_partition_rounds(partition) && micro->ends_round) LS_TRY(reduce_round(partition, bucket, micro->round));
        bucket->ready = last;
    }
    return ls_partition_rounds(partition) ? LS_OK : start_ready(partition);
}

/* ---- the end of a step ------------------------------------------------------------------------------------------- */

/* Returns the bucket's gradient after all reductions. */
static float *whole_grad(const ls_partition *partition, const ls_bucket *bucket) {
    return ls_partition_rounds(partition) ? bucket->own_slot[0] : bucket->slot[0];
}

/* Gathers the rows of a vector's gradient that other workers of the TP group computed. */
static ls_status gather_rows(ls_partition *partition, float *grad, ls_grad_rows rows) {
    size_t bytes[LS_SLICES_MAX];
    if (!partition->comms.tp || rows.count == rows.all) return LS_OK;
    for (int t = 0; t < partition->nn.tp.size; t++) bytes[t] = rows.count * rows.elems * sizeof(float);
    return ls_tensor_all_gather(partition->device, partition->comms.tp, grad + rows.first * rows.elems, grad, bytes);
}

/* Vectors whose token slices are joined together: a launch costs more than the sums of one. */
typedef struct slice_joins {
    int count;
    ls_tree_rows_piece pieces[192];
} slice_joins;

/* Adds up the token slices of all listed vectors in one launch. */
static ls_status join_all(ls_partition *partition, slice_joins *joins) {
    ls_tree_rows_call call = {joins->pieces, joins->count, partition->model->S};
    joins->count = 0;
    return call.count ? partition->nn.ops->tree_rows(partition->device, &call) : LS_OK;
}

/* Lists a vector whose gradient has a row for each token slice, after gathering rows that other TP workers computed. */
static ls_status join_slices(ls_partition *partition, slice_joins *joins, const ls_param *param) {
    ls_grad_rows rows = ls_nn_grad_rows(&partition->nn, param);
    LS_TRY(gather_rows(partition, param->own_grad, rows));
    if (rows.all == 1) return LS_OK;
    if (joins->count == sizeof joins->pieces / sizeof *joins->pieces) LS_TRY(join_all(partition, joins));
    joins->pieces[joins->count++] = (ls_tree_rows_piece){param->own_grad, rows.elems};
    return LS_OK;
}

/* Adds the gradients of both uses of a tied table in model order: the embedding's, then the head's (rule 9). */
static ls_status add_lookup(ls_partition *partition, const ls_bucket *lookup) {
    const ls_param *table = lookup->param[0];
    const float *rows = whole_grad(partition, lookup);
    if (!ls_partition_rounds(partition)) rows += lookup->own_begin;
    return partition->nn.ops->add(partition->device, &(ls_add_call){table->own_grad, rows, table->own_grad, LS_F32,
                                                                    ls_param_range_elems(table->own)});
}

ls_status ls_partition_finish_grads(ls_partition *partition) {
    ls_span span = ls_span_begin("stage", "finish reductions");
    for (int i = 0; i < partition->nbuckets; i++) {
        ls_bucket *bucket = &partition->buckets[i];
        LS_TRY(end_reduction(partition, bucket));
        bucket->ready = bucket->started = false;
        if (!partition->comms.dp) LS_TRY(add_contribution(partition, bucket, whole_grad(partition, bucket)));
    }
    ls_span_end(span, 0);
    slice_joins joins = {.count = 0};
    for (int i = 0; i < partition->nbuckets; i++) {
        ls_bucket *bucket = &partition->buckets[i];
        if (bucket->kind == LS_BUCKET_LOOKUP) LS_TRY(add_lookup(partition, bucket));
        for (int p = 0; bucket->kind == LS_BUCKET_VECTORS && p < bucket->nparams; p++)
            LS_TRY(join_slices(partition, &joins, bucket->param[p]));
    }
    LS_TRY(join_all(partition, &joins));
    return ls_partition_send_tied_grad(partition);
}
