/* stage_buckets.c: the buckets of a stage, and their way from gradients of micro-batches to own sums.
 *
 * All members of a dp column start the same reductions in the same order: with zero < 2 in the order of the list, each
 * bucket once it and all before it are complete; with zero ≥ 2 in the order of actions, which is the same in all rows
 * because their lists have the same length. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/events.h"
#include "parallel/stage_state.h"

/* ---- making ------------------------------------------------------------------------------------------------------ */

static ls_bucket *add_bucket(ls_stage *stage, ls_bucket_kind kind, int block) {
    ls_bucket *bucket = &stage->buckets[stage->nbuckets++];
    *bucket = (ls_bucket){.kind = kind, .block = block, .w_room = -1, .leaf_room = -1};
    return bucket;
}

static void let_go(ls_param *param) {
    param->held = false;
    param->own = param->once = (ls_param_range){0, 0};
    param->w = param->own_w = param->own_grad = NULL;
    param->moment[0] = param->moment[1] = NULL;
    param->grad = param->lookup = (ls_grad){{NULL}};
}

static void add_param(ls_bucket *bucket, ls_param *param) {
    param->held = true;
    assert(bucket->nparams < LS_BUCKET_PARAMS_MAX);
    bucket->param[bucket->nparams++] = param;
}

static void add_list(ls_stage *stage, ls_bucket_kind kind, int b, ls_param_kind which) {
    ls_block *block = &stage->model->blocks[b];
    ls_bucket *bucket = NULL;
    for (int i = 0; i < block->nparams; i++) {
        if (block->param[i].kind != which) continue;
        if (!bucket) bucket = add_bucket(stage, kind, b);
        add_param(bucket, &block->param[i]);
    }
}

/* The whole batch as one product on one worker: the rows that were looked up are added to the head's gradient at once.
 */
static bool lookup_is_added_at_once(const ls_stage *stage) {
    const ls_stage_setup *setup = &stage->setup;
    return setup->layout.dp == 1 && stage->micros.count == 1 && setup->G <= LS_GRAD_GROUPS_MAX;
}

static void add_head(ls_stage *stage, int b, bool shares) {
    ls_block *block = &stage->model->blocks[b];
    if (shares)
        add_param(add_bucket(stage, LS_BUCKET_TABLE, b), &stage->model->blocks[0].param[0]);
    else
        add_param(add_bucket(stage, LS_BUCKET_TABLE, b), block->table);
    add_list(stage, LS_BUCKET_VECTORS, b, LS_PARAM_VECTOR);
}

static void add_embedding(ls_stage *stage, bool shares) {
    ls_param *table = &stage->model->blocks[0].param[0];
    if (!shares)
        add_param(add_bucket(stage, LS_BUCKET_TABLE, 0), table);
    else if (!lookup_is_added_at_once(stage))
        add_param(add_bucket(stage, LS_BUCKET_LOOKUP, 0), table);
    add_list(stage, LS_BUCKET_POSITIONS, 0, LS_PARAM_POSITIONS);
}

static void add_block(ls_stage *stage, int b) {
    bool shares = stage->model->blocks[0].shares_table;
    switch (ls_stage_kind_of(stage, b)) {
    case 0: add_embedding(stage, shares); break;
    case 2: add_head(stage, b, shares); break;
    default:
        add_list(stage, LS_BUCKET_MATRICES, b, LS_PARAM_MATRIX);
        add_list(stage, LS_BUCKET_VECTORS, b, LS_PARAM_VECTOR);
    }
}

/* Elements that several workers of a tp row hold are the first one's to stand for, and a copy is nobody's. */
static void settle_once(ls_stage *stage, ls_bucket *bucket) {
    for (int i = 0; i < bucket->nparams; i++) {
        ls_param *param = bucket->param[i];
        bool another = (!param->split && stage->setup.place.tp > 0) || param == stage->copy;
        if (another) param->once = (ls_param_range){0, 0};
    }
}

ls_status ls_stage_make_buckets(ls_stage *stage) {
    const ls_layout *layout = &stage->setup.layout;
    size_t blocks = 0;
    for (int c = 0; c < stage->nchunks; c++) blocks += (size_t)(stage->chunks[c].end - stage->chunks[c].first);
    stage->buckets = calloc(3 * blocks, sizeof *stage->buckets);
    if (!stage->buckets) return ls_fail(LS_ERR_RESOURCE, "out of memory for the buckets of %zu blocks", blocks);
    for (int i = 0; i < ls_model_params(stage->model); i++) let_go(ls_model_param(stage->model, i));
    for (int c = stage->nchunks - 1; c >= 0; c--)
        for (int b = stage->chunks[c].end - 1; b >= stage->chunks[c].first; b--) add_block(stage, b);
    for (int i = 0; i < stage->nbuckets; i++) {
        ls_bucket *bucket = &stage->buckets[i];
        bool sharded = layout->zero >= 1 && bucket->kind != LS_BUCKET_VECTORS;
        LS_TRY(ls_bucket_divide(bucket, stage->model->S, layout->dp, stage->setup.place.dp, sharded));
        if (bucket->kind != LS_BUCKET_LOOKUP) settle_once(stage, bucket);
    }
    return LS_OK;
}

void ls_stage_free_buckets(ls_stage *stage) {
    for (int i = 0; i < stage->nbuckets; i++) free(stage->buckets[i].shard);
    free(stage->buckets);
}

/* ---- gathered weights -------------------------------------------------------------------------------------------- */

static bool is_gathered(const ls_bucket *bucket) { return bucket->shard_w != NULL; }

static ls_rooms *weight_rooms(ls_stage *stage, const ls_bucket *bucket) {
    return bucket->kind == LS_BUCKET_TABLE ? &stage->table_weights : &stage->block_weights;
}

/* The bucket whose weights the block computes with, where they have to be gathered; NULL: none. */
static ls_bucket *gathered_for(ls_stage *stage, int block) {
    const ls_block *b = &stage->model->blocks[block];
    int kind = ls_stage_kind_of(stage, block);
    const ls_param *table = kind == 0 ? &b->param[0] : kind == 2 ? b->table : NULL;
    for (int i = 0; i < stage->nbuckets; i++) {
        ls_bucket *bucket = &stage->buckets[i];
        if (!is_gathered(bucket)) continue;
        if (table ? bucket->param[0] == table : bucket->block == block && bucket->kind == LS_BUCKET_MATRICES)
            return bucket;
    }
    return NULL;
}

static ls_status wait_gathered(ls_bucket *bucket) {
    ls_request *request = bucket->gathering;
    bucket->gathering = NULL;
    return ls_request_wait(request);
}

/* Into a room that is not that of `in_use`, which may be NULL. */
static ls_status start_gather(ls_stage *stage, ls_bucket *bucket, const ls_bucket *in_use) {
    size_t bytes[LS_WORKERS_MAX];
    ls_rooms *rooms = weight_rooms(stage, bucket);
    int room = rooms->next;
    if (in_use && rooms->user[room] == in_use) room = (room + 1) % rooms->count;
    ls_bucket *before = rooms->user[room];
    if (before) {
        LS_TRY(wait_gathered(before));
        before->w = NULL;
        before->w_room = -1;
    }
    rooms->next = (room + 1) % rooms->count;
    rooms->user[room] = bucket;
    bucket->w_room = room;
    bucket->w = rooms->memory[room];
    ls_bucket_point_weights(bucket);
    for (int r = 0; r < stage->setup.layout.dp; r++)
        bytes[r] = (bucket->shard[r + 1] - bucket->shard[r]) * sizeof(float);
    return ls_comm_all_gather_start(stage->dp, bucket->shard_w, bucket->w, bytes, &bucket->gathering);
}

ls_status ls_stage_acquire(ls_stage *stage, int block, int next) {
    if (stage->setup.layout.zero < 3) return LS_OK;
    ls_bucket *bucket = gathered_for(stage, block), *ahead = next >= 0 ? gathered_for(stage, next) : NULL;
    if (bucket && bucket->w_room < 0) LS_TRY(start_gather(stage, bucket, NULL));
    if (bucket) LS_TRY(wait_gathered(bucket));
    bool room =
        ahead && ahead != bucket &&
        (!bucket || weight_rooms(stage, ahead) != weight_rooms(stage, bucket) || weight_rooms(stage, ahead)->count > 1);
    return room && ahead->w_room < 0 ? start_gather(stage, ahead, bucket) : LS_OK;
}

static ls_status drop_gathered(ls_rooms *rooms) {
    for (int i = 0; i < rooms->count; i++) {
        ls_bucket *bucket = rooms->user[i];
        if (!bucket) continue;
        LS_TRY(wait_gathered(bucket));
        bucket->w = NULL;
        bucket->w_room = -1;
        rooms->user[i] = NULL;
    }
    rooms->next = 0;
    return LS_OK;
}

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
        LS_TRY(stage->nn.ops->add(stage->device, left, left, right, ls_bucket_own_elems(bucket)));
    }
    return LS_OK;
}

static ls_status start_reduction(ls_stage *stage, ls_bucket *bucket, const ls_runs *runs, const void *const *parts,
                                 float *out) {
    if (bucket->sharded)
        return ls_comm_reduce_scatter_start(stage->dp, runs, LS_F32, parts, out, bucket->shard, bucket->grad_elems,
                                            &bucket->request);
    return ls_comm_all_reduce_start(stage->dp, runs, LS_F32, parts, out, bucket->grad_elems, &bucket->request);
}

static ls_status reduce_once(ls_stage *stage, ls_bucket *bucket) {
    const void *parts[LS_GRAD_SLOTS_MAX];
    ls_runs runs = {stage->setup.G, stage->group_bounds};
    for (int i = 0; i < stage->slots.parts; i++) parts[i] = bucket->slot[i];
    return start_reduction(stage, bucket, &runs, parts, bucket->slot[0] + bucket->own_begin);
}

static ls_status reduce_round(ls_stage *stage, ls_bucket *bucket, int round) {
    for (int n = stage->rounds.first[round]; n < stage->rounds.first[round + 1]; n++) {
        const ls_round_node *node = &stage->rounds.nodes[n];
        const void *part = bucket->slot[0];
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
    if (!stage->dp) return LS_OK;
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
    return stage->nn.ops->add(stage->device, table->own_grad, rows, table->own_grad, ls_param_range_elems(table->own));
}

enum { TAG_TIED_GRAD = 32000, TAG_TIED_WEIGHT = 32001 };

static ls_status send_tied_grad(ls_stage *stage) {
    const ls_param *table = &stage->model->blocks[0].param[0], *copy = stage->copy;
    if (copy)
        return ls_comm_send(stage->pp, 0, TAG_TIED_GRAD, copy->own_grad,
                            ls_param_range_elems(copy->own) * sizeof(float));
    if (!stage->has_tied) return LS_OK;
    size_t elems = ls_param_range_elems(table->own);
    LS_TRY(ls_comm_recv(stage->pp, stage->setup.layout.pp - 1, TAG_TIED_GRAD, stage->tied, elems * sizeof(float)));
    return stage->nn.ops->add(stage->device, table->own_grad, table->own_grad, stage->tied, elems);
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

/* ---- new weights ------------------------------------------------------------------------------------------------- */

static ls_status send_tied_weight(ls_stage *stage) {
    const ls_param *table = &stage->model->blocks[0].param[0], *copy = stage->copy;
    if (copy)
        return ls_comm_recv(stage->pp, 0, TAG_TIED_WEIGHT, copy->own_w,
                            ls_param_range_elems(copy->own) * sizeof(float));
    if (!stage->has_tied) return LS_OK;
    return ls_comm_send(stage->pp, stage->setup.layout.pp - 1, TAG_TIED_WEIGHT, table->own_w,
                        ls_param_range_elems(table->own) * sizeof(float));
}

static ls_status start_publish(ls_stage *stage, ls_bucket *bucket) {
    size_t bytes[LS_WORKERS_MAX];
    for (int r = 0; r < stage->setup.layout.dp; r++)
        bytes[r] = (bucket->shard[r + 1] - bucket->shard[r]) * sizeof(float);
    return ls_comm_all_gather_start(stage->dp, bucket->w + bucket->own_begin, bucket->w, bytes, &bucket->gathering);
}

static bool is_published(const ls_stage *stage, const ls_bucket *bucket) {
    return stage->dp && bucket->sharded && bucket->kind != LS_BUCKET_LOOKUP && !is_gathered(bucket);
}

ls_status ls_stage_publish(ls_stage *stage) {
    ls_span span = ls_span_begin("stage", "publish");
    LS_TRY(send_tied_weight(stage));
    LS_TRY(drop_gathered(&stage->block_weights));
    LS_TRY(drop_gathered(&stage->table_weights));
    for (int i = 0; i < stage->nbuckets; i++)
        if (is_published(stage, &stage->buckets[i])) LS_TRY(start_publish(stage, &stage->buckets[i]));
    for (int i = 0; i < stage->nbuckets; i++)
        if (is_published(stage, &stage->buckets[i])) LS_TRY(wait_gathered(&stage->buckets[i]));
    ls_span_end(span, 0);
    return LS_OK;
}
