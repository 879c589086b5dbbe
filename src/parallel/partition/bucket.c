/* bucket.c: makes the buckets of a partition (parameters whose gradients are reduced together), in the order in which
 * backward completes them, divides them among owners, and plans the rounds in which groups are reduced. */
#include "parallel/partition/bucket.h"

#include <assert.h>
#include <stdlib.h>

#include "device/calls.h"
#include "numerics/tree.h"
#include "parallel/partition/state.h"

enum { ALIGN_ELEMS = 16 };

/* ---- division ---------------------------------------------------------------------------------------------------- */

/* Rounds up to whole cache lines of 16 fp32 elements. */
static size_t align_up(size_t elems) { return (elems + ALIGN_ELEMS - 1) / ALIGN_ELEMS * ALIGN_ELEMS; }

/* Returns the elements of a parameter in a gradient slot. */
static size_t slot_elems(const ls_param *param, int slices) {
    return align_up(ls_grad_rows_elems(ls_param_grad_rows(param, slices, 0, slices, false)));
}

/* Returns the smallest end of a block of 1024 elements that is not before element `at` of the parameter's local
 * rows. */
static size_t block_end(const ls_param *param, int slices, size_t at) {
    size_t all = ls_param_local_elems(param), first = param->first_row * param->columns;
    int count = ls_param_slices(param, slices);
    for (int i = 0; i < count; i++) {
        size_t begin = ls_param_slice_row(param, slices, i) * param->columns;
        size_t end = ls_param_slice_row(param, slices, i + 1) * param->columns;
        if (end <= first || begin >= first + all || end - first < at) continue;
        begin -= first;
        end -= first;
        if (at <= begin) return begin;
        size_t rounded = begin + (at - begin + LS_SQUARE_BLOCK - 1) / LS_SQUARE_BLOCK * LS_SQUARE_BLOCK;
        return rounded < end ? rounded : end;
    }
    return all;
}

/* Returns the smallest legal end of a shard that is not before element `at` of the bucket. */
static size_t shard_end(const ls_bucket *bucket, int slices, size_t at) {
    for (int i = 0; i < bucket->nparams; i++) {
        size_t begin = bucket->offset[i], end = begin + ls_param_local_elems(bucket->param[i]);
        if (at <= begin) return begin;
        if (at <= end) return begin + block_end(bucket->param[i], slices, at - begin);
    }
    return bucket->elems;
}

/* Returns the part of parameter i that lies in elements begin … end − 1 of the bucket; may be empty. */
static ls_param_range part_of(const ls_bucket *bucket, int i, size_t begin, size_t end) {
    size_t first = bucket->offset[i], elems = ls_param_local_elems(bucket->param[i]);
    size_t from = begin > first ? begin - first : 0, to = end > first ? end - first : 0;
    if (from > elems) from = elems;
    if (to > elems) to = elems;
    return (ls_param_range){from, to > from ? to : from};
}

ls_status ls_bucket_divide(ls_bucket *bucket, int slices, int dp, int dp_index, bool sharded) {
    size_t grad = 0;
    bucket->elems = 0;
    for (int i = 0; i < bucket->nparams; i++) {
        bucket->offset[i] = bucket->elems;
        bucket->elems += align_up(ls_param_local_elems(bucket->param[i]));
        grad += slot_elems(bucket->param[i], slices);
    }
    bucket->grad_elems = grad;
    bucket->sharded = sharded;
    bucket->shard = malloc(((size_t)dp + 1) * sizeof *bucket->shard);
    if (!bucket->shard) return ls_fail(LS_ERR_RESOURCE, "out of memory for the shards of %d workers", dp);
    for (int r = 0; r <= dp; r++)
        bucket->shard[r] = r == dp ? bucket->elems : shard_end(bucket, slices, bucket->elems / (size_t)dp * (size_t)r);
    size_t share_begin = bucket->shard[dp_index], share_end = bucket->shard[dp_index + 1];
    bucket->own_begin = sharded ? share_begin : 0;
    bucket->own_end = sharded ? share_end : grad;
    for (int i = 0; i < bucket->nparams; i++) {
        ls_param *param = bucket->param[i];
        if (bucket->kind == LS_BUCKET_LOOKUP) continue;
        param->own =
            sharded ? part_of(bucket, i, share_begin, share_end) : (ls_param_range){0, ls_param_local_elems(param)};
        param->once = part_of(bucket, i, share_begin, share_end);
    }
    return LS_OK;
}

/* ---- pointers ---------------------------------------------------------------------------------------------------- */

void ls_bucket_point_weights(ls_bucket *bucket) {
    for (int i = 0; i < bucket->nparams; i++) {
        bucket->param[i]->w = bucket->w ? bucket->w + bucket->offset[i] : NULL;
        bucket->param[i]->w16 = bucket->w16 ? bucket->w16 + bucket->offset[i] : NULL;
    }
}

/* Returns where parameter i begins in a gradient slot. */
static size_t grad_offset(const ls_bucket *bucket, int slices, int i) {
    size_t offset = 0;
    for (int k = 0; k < i; k++) offset += slot_elems(bucket->param[k], slices);
    return offset;
}

void ls_bucket_point_grads(ls_bucket *bucket, int slices) {
    for (int i = 0; i < bucket->nparams; i++) {
        ls_param *param = bucket->param[i];
        ls_grad *grad = bucket->kind == LS_BUCKET_LOOKUP ? &param->lookup : &param->grad;
        size_t offset = grad_offset(bucket, slices, i);
        for (int s = 0; s < LS_GRAD_SLOTS_MAX; s++)
            grad->slot[s] = s < bucket->slots && bucket->slot[s] ? bucket->slot[s] + offset : NULL;
    }
}

void ls_bucket_point_own(ls_bucket *bucket, int slices, bool rounds) {
    if (bucket->kind == LS_BUCKET_LOOKUP) return;
    for (int i = 0; i < bucket->nparams; i++) {
        ls_param *param = bucket->param[i];
        size_t w = bucket->offset[i] + param->own.begin, g = grad_offset(bucket, slices, i) + param->own.begin;
        float *grad = rounds ? bucket->own_slot[0] : bucket->slot[0];
        if (bucket->shard_w)
            param->own_w = bucket->shard_w + (w - bucket->own_begin);
        else
            param->own_w = bucket->w ? bucket->w + w : NULL;
        if (bucket->shard_w16)
            param->own_w16 = bucket->shard_w16 + (w - bucket->own_begin);
        else
            param->own_w16 = bucket->w16 ? bucket->w16 + w : NULL;
        param->own_grad = grad ? grad + (rounds ? g - bucket->own_begin : g) : NULL;
    }
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

void ls_rounds_free(ls_rounds *rounds) {
    free(rounds->first);
    free(rounds->nodes);
    free(rounds->bounds);
    *rounds = (ls_rounds){0};
}

/* Returns the first group of a round, which is the number of groups in all rounds before it. */
static int round_first(const ls_layout *layout, int round) {
    int before = 0;
    for (int d = 0; d < layout->dp; d++) before += layout->share[d] < round ? layout->share[d] : round;
    return before;
}

/* Sets which of the node's groups each replica computes in this round; `first` is the round's first group. */
static void fill_bounds(const ls_layout *layout, int round, int first, ls_round_node *node) {
    int group = first;
    for (int d = 0; d <= layout->dp; d++) {
        int at = group - node->node.first;
        node->bounds[d] = at < 0 ? 0 : at > node->node.count ? node->node.count : at;
        if (d < layout->dp && layout->share[d] > round) group++;
    }
}

ls_status ls_rounds_make(const ls_layout *layout, int G, ls_rounds *out) {
    *out = (ls_rounds){0};
    for (int d = 0; d < layout->dp; d++)
        if (layout->share[d] > out->rounds) out->rounds = layout->share[d];
    size_t dp = (size_t)layout->dp, most = (size_t)out->rounds * LS_TREE_COVER_MAX;
    out->first = calloc((size_t)out->rounds + 1, sizeof *out->first);
    out->nodes = calloc(most, sizeof *out->nodes);
    out->bounds = calloc(most * (dp + 1), sizeof *out->bounds);
    if (!out->first || !out->nodes || !out->bounds) {
        ls_rounds_free(out);
        return ls_fail(LS_ERR_RESOURCE, "out of memory for %d rounds of groups", out->rounds);
    }
    ls_tree_stack stack = {.groups = G};
    int count = 0;
    for (int r = 0; r < out->rounds; r++) {
        ls_tree_node cover[LS_TREE_COVER_MAX];
        int first = round_first(layout, r), nodes = ls_tree_cover(G, first, round_first(layout, r + 1), cover);
        for (int i = 0; i < nodes; i++, count++) {
            ls_round_node *node = &out->nodes[count];
            node->node = cover[i];
            node->bounds = out->bounds + (size_t)count * (dp + 1);
            fill_bounds(layout, r, first, node);
            node->at = stack.depth;
            node->joins = ls_tree_stack_push(&stack, cover[i]);
            if (node->at + 1 > out->own_slots) out->own_slots = node->at + 1;
        }
        out->first[r + 1] = count;
    }
    assert(stack.depth == 1);
    return LS_OK;
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

/* Appends an empty bucket. */
static ls_bucket *add_bucket(ls_partition *partition, ls_bucket_kind kind, int block) {
    ls_bucket *bucket = &partition->buckets[partition->nbuckets++];
    *bucket = (ls_bucket){.kind = kind, .block = block, .w_buffer = -1, .contribution = -1};
    return bucket;
}

/* Resets a parameter to one that this worker does not hold. */
static void let_go(ls_param *param) {
    param->held = false;
    param->own = param->once = (ls_param_range){0, 0};
    param->w = param->own_w = param->own_grad = NULL;
    param->moment[0] = param->moment[1] = NULL;
    param->grad = param->lookup = (ls_grad){{NULL}};
}

/* Adds a parameter to the bucket, and marks it as held. */
static void add_param(ls_bucket *bucket, ls_param *param) {
    param->held = true;
    assert(bucket->nparams < LS_BUCKET_PARAMS_MAX);
    bucket->param[bucket->nparams++] = param;
}

/* Adds a bucket with the block's parameters of one kind, unless it has none. */
static void add_list(ls_partition *partition, ls_bucket_kind kind, int b, ls_param_kind which) {
    ls_block *block = &partition->model->blocks[b];
    ls_bucket *bucket = NULL;
    for (int i = 0; i < block->nparams; i++) {
        if (block->param[i].kind != which) continue;
        if (!bucket) bucket = add_bucket(partition, kind, b);
        add_param(bucket, &block->param[i]);
    }
}

/* Returns whether the gradient of the looked-up rows is added to the head's gradient directly. This requires one
 * replica, the whole batch in one micro-batch, at most LS_GRAD_GROUPS_MAX groups, and no leaves by themselves. */
static bool lookup_is_added_at_once(const ls_partition *partition) {
    const ls_partition_setup *setup = &partition->setup;
    return setup->layout.dp == 1 && partition->pass.micros.count == 1 && setup->G <= LS_GRAD_GROUPS_MAX &&
           !partition->nn.grads.leaves;
}

/* Adds the buckets of the head: its table (the embedding's if `shares`) and its vectors. */
static void add_head(ls_partition *partition, int b, bool shares) {
    ls_param *table = shares ? ls_model_tokens(partition->model) : partition->model->blocks[b].table;
    add_param(add_bucket(partition, LS_BUCKET_TABLE, b), table);
    add_list(partition, LS_BUCKET_VECTORS, b, LS_PARAM_VECTOR);
}

/* Adds the buckets of the embedding: its table, or the table's use as lookup if the head has the table; positions. */
static void add_embedding(ls_partition *partition, bool shares) {
    ls_param *table = ls_model_tokens(partition->model);
    if (!shares)
        add_param(add_bucket(partition, LS_BUCKET_TABLE, 0), table);
    else if (!lookup_is_added_at_once(partition))
        add_param(add_bucket(partition, LS_BUCKET_LOOKUP, 0), table);
    add_list(partition, LS_BUCKET_POSITIONS, 0, LS_PARAM_POSITIONS);
}

/* Adds the buckets of block b. */
static void add_block(ls_partition *partition, int b) {
    bool shares = partition->model->blocks[0].shares_table;
    ls_block *block = &partition->model->blocks[b];
    if (ls_block_param(block, LS_ROLE_TOKENS)) {
        add_embedding(partition, shares);
    } else if (block->table) {
        add_head(partition, b, shares);
    } else {
        add_list(partition, LS_BUCKET_MATRICES, b, LS_PARAM_MATRIX);
        add_list(partition, LS_BUCKET_VECTORS, b, LS_PARAM_VECTOR);
    }
}

/* Makes only the first worker of a TP group report elements that several of them hold; no worker reports a copy. */
static void settle_once(ls_partition *partition, ls_bucket *bucket) {
    for (int i = 0; i < bucket->nparams; i++) {
        ls_param *param = bucket->param[i];
        bool another = (!param->split && partition->setup.place.tp > 0) || param == partition->tied.copy;
        if (another) param->once = (ls_param_range){0, 0};
    }
}

ls_status ls_partition_make_buckets(ls_partition *partition) {
    const ls_layout *layout = &partition->setup.layout;
    size_t blocks = 0;
    for (int c = 0; c < partition->stage.nchunks; c++)
        blocks += (size_t)(partition->stage.chunks[c].end - partition->stage.chunks[c].first);
    partition->buckets = calloc(3 * blocks, sizeof *partition->buckets);
    if (!partition->buckets) return ls_fail(LS_ERR_RESOURCE, "out of memory for the buckets of %zu blocks", blocks);
    for (int i = 0; i < ls_model_params(partition->model); i++) let_go(ls_model_param(partition->model, i));
    for (int c = partition->stage.nchunks - 1; c >= 0; c--)
        for (int b = partition->stage.chunks[c].end - 1; b >= partition->stage.chunks[c].first; b--)
            add_block(partition, b);
    for (int i = 0; i < partition->nbuckets; i++) {
        ls_bucket *bucket = &partition->buckets[i];
        bool sharded = layout->zero >= 1 && bucket->kind != LS_BUCKET_VECTORS;
        LS_TRY(ls_bucket_divide(bucket, partition->model->S, layout->dp, partition->setup.place.dp, sharded));
        if (bucket->kind != LS_BUCKET_LOOKUP) settle_once(partition, bucket);
    }
    return LS_OK;
}

void ls_partition_free_buckets(ls_partition *partition) {
    for (int i = 0; i < partition->nbuckets; i++) free(partition->buckets[i].shard);
    free(partition->buckets);
}
