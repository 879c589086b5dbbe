/* reduce.c: gradients on their way from micro-batches to own sums.
 *
 * All members of a dp column start the same reductions in the same order: with zero < 2 in the order of the list, each
 * bucket once it and all before it are complete; with zero ≥ 2 in the order of actions, which is the same in all rows
 * because their lists have the same length. */
#include "base/events.h"
#include "parallel/partition/state.h"

/* ---- reductions -------------------------------------------------------------------------------------------------- */

/* Ends the reduction under way; what it brought joins the stack of own sums. */
static ls_status end_reduction(ls_stage *stage, ls_bucket *bucket) {
    ls_request *request = bucket->request;
    if (!request) return LS_OK;
    bucket->request = NULL;
    LS_TRY(ls_request_wait(request));
    if (!ls_stage_rounds(stage)) return LS_OK;
    for (int i = 0; i < bucket->own_joins; i++) {
        float *left = bucket->own_slot[bucket->own_at - i - 1], *right = bucket->own_slot[bucket->own_at - i];
        LS_TRY(stage->nn.ops->add(stage->device, left, left, right, LS_F32, ls_bucket_own_elems(bucket)));
    }
    return LS_OK;
}

static ls_status start_reduction(ls_stage *stage, ls_bucket *bucket, const ls_runs *runs, const void *const *parts,
                                 float *out) {
    ls_dtype wire = ls_stage_wire(stage);
    if (bucket->sharded)
        return ls_comm_reduce_scatter_start(stage->dp, runs, wire, parts, out, bucket->shard, bucket->grad_elems,
                                            &bucket->request);
    return ls_comm_all_reduce_start(stage->dp, runs, wire, parts, out, bucket->grad_elems, &bucket->request);
}

/* What of slot s goes to the others: a leaf, which is rounded already, in the type of the wire. */
static ls_status part_of(ls_stage *stage, ls_bucket *bucket, int s, const void **part) {
    *part = bucket->slot[s];
    if (!bucket->wire[s]) return LS_OK;
    *part = bucket->wire[s];
    return stage->nn.ops->convert(stage->device, bucket->wire[s], ls_stage_wire(stage), bucket->slot[s], LS_F32,
                                  bucket->grad_elems);
}

static ls_status reduce_once(ls_stage *stage, ls_bucket *bucket) {
    const void *parts[LS_GRAD_SLOTS_MAX];
    ls_runs runs = {stage->setup.G, stage->group_bounds};
    for (int i = 0; i < stage->slots.parts; i++) LS_TRY(part_of(stage, bucket, i, &parts[i]));
    return start_reduction(stage, bucket, &runs, parts, bucket->slot[0] + bucket->own_begin);
}

static ls_status reduce_round(ls_stage *stage, ls_bucket *bucket, int round) {
    const void *part;
    if (stage->rounds.first[round] < stage->rounds.first[round + 1]) LS_TRY(end_reduction(stage, bucket));
    LS_TRY(part_of(stage, bucket, 0, &part));
    for (int n = stage->rounds.first[round]; n < stage->rounds.first[round + 1]; n++) {
        const ls_round_node *node = &stage->rounds.nodes[n];
        ls_runs runs = {node->node.count, node->bounds};
        LS_TRY(end_reduction(stage, bucket));
        bucket->own_at = node->at;
        bucket->own_joins = node->joins;
        LS_TRY(start_reduction(stage, bucket, &runs, &part, bucket->own_slot[node->at]));
    }
    return LS_OK;
}

/* ---- leaves ------------------------------------------------------------------------------------------------------ */

static ls_rooms *leaf_rooms(ls_stage *stage, const ls_bucket *bucket) {
    bool table = bucket->kind == LS_BUCKET_TABLE || bucket->kind == LS_BUCKET_LOOKUP;
    return table ? &stage->table_leaves : &stage->block_leaves;
}

static bool passes(const ls_stage *stage, const ls_bucket *bucket) {
    return stage->leaves_pass && bucket->kind != LS_BUCKET_VECTORS && bucket->kind != LS_BUCKET_POSITIONS;
}

ls_status ls_stage_begin_grads(ls_stage *stage, int block) {
    for (int i = 0; i < stage->nbuckets; i++) {
        ls_bucket *bucket = &stage->buckets[i];
        if (bucket->block != block) continue;
        if (ls_stage_rounds(stage)) LS_TRY(end_reduction(stage, bucket)); /* it may still read the leaf */
        if (!passes(stage, bucket)) continue;
        ls_rooms *rooms = leaf_rooms(stage, bucket);
        int room = rooms->next;
        if (rooms->user[room]) LS_TRY(end_reduction(stage, rooms->user[room]));
        rooms->user[room] = bucket;
        rooms->next = (room + 1) % rooms->count;
        bucket->slot[0] = rooms->memory[room];
        bucket->wire[0] = rooms->wire[room];
        ls_bucket_point_grads(bucket, stage->model->S);
    }
    return LS_OK;
}

static ls_status start_ready(ls_stage *stage) {
    for (int i = 0; i < stage->nbuckets && stage->buckets[i].ready; i++) {
        ls_bucket *bucket = &stage->buckets[i];
        if (bucket->started) continue;
        bucket->started = true;
        LS_TRY(reduce_once(stage, bucket));
    }
    return LS_OK;
}

ls_status ls_stage_end_grads(ls_stage *stage, int block, const ls_micro *micro, bool last) {
    if (!stage->dp || stage->audits) return LS_OK;
    for (int i = 0; i < stage->nbuckets; i++) {
        ls_bucket *bucket = &stage->buckets[i];
        if (bucket->block != block) continue;
        if (ls_stage_rounds(stage) && micro->ends_round) LS_TRY(reduce_round(stage, bucket, micro->round));
        bucket->ready = last;
    }
    return ls_stage_rounds(stage) ? LS_OK : start_ready(stage);
}

/* ---- the end of a step ------------------------------------------------------------------------------------------- */

static float *whole_grad(const ls_stage *stage, const ls_bucket *bucket) {
    return ls_stage_rounds(stage) ? bucket->own_slot[0] : bucket->slot[0];
}

/* Token slices that the workers of a tp row have apart come together. */
static ls_status gather_slices(ls_stage *stage, float *rows, size_t n) {
    size_t bytes[LS_SLICES_MAX];
    const ls_nn *nn = &stage->nn;
    if (!stage->tp) return LS_OK;
    for (int t = 0; t < nn->tp_size; t++) bytes[t] = (size_t)nn->slices * n * sizeof(float);
    return ls_comm_all_gather(stage->tp, rows + (size_t)nn->slice0 * n, rows, bytes);
}

static ls_status join_slices(ls_stage *stage, const ls_param *param) {
    const void *rows[LS_SLICES_MAX];
    int S = stage->model->S;
    size_t n = param->local_rows;
    if (stage->setup.layout.sequence_parallel && !param->split) LS_TRY(gather_slices(stage, param->own_grad, n));
    if (S == 1) return LS_OK;
    for (int i = 0; i < S; i++) rows[i] = param->own_grad + (size_t)i * n;
    return stage->nn.ops->tree_sum(stage->device, param->own_grad, rows, LS_F32, S, n);
}

/* The uses of a tied table are added in model order: the embedding's, then the head's (rule 9). */
static ls_status add_lookup(ls_stage *stage, const ls_bucket *lookup) {
    const ls_param *table = lookup->param[0];
    const float *rows = whole_grad(stage, lookup);
    if (!ls_stage_rounds(stage)) rows += lookup->own_begin;
    return stage->nn.ops->add(stage->device, table->own_grad, rows, table->own_grad, LS_F32,
                              ls_param_range_elems(table->own));
}

static ls_status send_tied_grad(ls_stage *stage) {
    const ls_param *table = &stage->model->blocks[0].param[0], *copy = stage->copy;
    if (!stage->pp) return LS_OK;
    if (copy)
        return ls_comm_send(stage->pp, 0, LS_TAG_TIED_GRAD, copy->own_grad,
                            ls_param_range_elems(copy->own) * sizeof(float));
    if (!stage->has_tied) return LS_OK;
    size_t elems = ls_param_range_elems(table->own);
    LS_TRY(ls_comm_recv(stage->pp, stage->setup.layout.pp - 1, LS_TAG_TIED_GRAD, stage->tied, elems * sizeof(float)));
    return stage->nn.ops->add(stage->device, table->own_grad, table->own_grad, stage->tied, LS_F32, elems);
}

ls_status ls_stage_finish_grads(ls_stage *stage) {
    ls_span span = ls_span_begin("stage", "finish reductions");
    for (int i = 0; i < stage->nbuckets; i++) {
        ls_bucket *bucket = &stage->buckets[i];
        LS_TRY(end_reduction(stage, bucket));
        bucket->ready = bucket->started = false;
    }
    ls_span_end(span, 0);
    for (int i = 0; i < stage->nbuckets; i++) {
        ls_bucket *bucket = &stage->buckets[i];
        if (bucket->kind == LS_BUCKET_LOOKUP) LS_TRY(add_lookup(stage, bucket));
        for (int p = 0; bucket->kind == LS_BUCKET_VECTORS && p < bucket->nparams; p++)
            LS_TRY(join_slices(stage, bucket->param[p]));
    }
    return send_tied_grad(stage);
}
