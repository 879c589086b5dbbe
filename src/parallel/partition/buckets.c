/* buckets.c: which buckets a stage has, in the order in which backward finishes them. */
#include <assert.h>
#include <stdlib.h>

#include "parallel/partition/state.h"

/* ---- making ------------------------------------------------------------------------------------------------------ */

static ls_bucket *add_bucket(ls_partition *partition, ls_bucket_kind kind, int block) {
    ls_bucket *bucket = &partition->buckets[partition->nbuckets++];
    *bucket = (ls_bucket){.kind = kind, .block = block, .w_room = -1};
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

static void add_list(ls_partition *partition, ls_bucket_kind kind, int b, ls_param_kind which) {
    ls_block *block = &partition->model->blocks[b];
    ls_bucket *bucket = NULL;
    for (int i = 0; i < block->nparams; i++) {
        if (block->param[i].kind != which) continue;
        if (!bucket) bucket = add_bucket(partition, kind, b);
        add_param(bucket, &block->param[i]);
    }
}

/* The whole batch as one product on one worker: the rows that were looked up are added to the head's gradient at once.
 */
static bool lookup_is_added_at_once(const ls_partition *partition) {
    const ls_partition_setup *setup = &partition->setup;
    return setup->layout.dp == 1 && partition->micros.count == 1 && setup->G <= LS_GRAD_GROUPS_MAX &&
           !partition->nn.leaves;
}

static void add_head(ls_partition *partition, int b, bool shares) {
    ls_block *block = &partition->model->blocks[b];
    if (shares)
        add_param(add_bucket(partition, LS_BUCKET_TABLE, b), &partition->model->blocks[0].param[0]);
    else
        add_param(add_bucket(partition, LS_BUCKET_TABLE, b), block->table);
    add_list(partition, LS_BUCKET_VECTORS, b, LS_PARAM_VECTOR);
}

static void add_embedding(ls_partition *partition, bool shares) {
    ls_param *table = &partition->model->blocks[0].param[0];
    if (!shares)
        add_param(add_bucket(partition, LS_BUCKET_TABLE, 0), table);
    else if (!lookup_is_added_at_once(partition))
        add_param(add_bucket(partition, LS_BUCKET_LOOKUP, 0), table);
    add_list(partition, LS_BUCKET_POSITIONS, 0, LS_PARAM_POSITIONS);
}

static void add_block(ls_partition *partition, int b) {
    bool shares = partition->model->blocks[0].shares_table;
    const ls_block *block = &partition->model->blocks[b];
    if (ls_block_looks_up(block)) {
        add_embedding(partition, shares);
    } else if (block->table) {
        add_head(partition, b, shares);
    } else {
        add_list(partition, LS_BUCKET_MATRICES, b, LS_PARAM_MATRIX);
        add_list(partition, LS_BUCKET_VECTORS, b, LS_PARAM_VECTOR);
    }
}

/* Elements that several workers of a tp row hold are the first one's to stand for, and a copy is nobody's. */
static void settle_once(ls_partition *partition, ls_bucket *bucket) {
    for (int i = 0; i < bucket->nparams; i++) {
        ls_param *param = bucket->param[i];
        bool another = (!param->split && partition->setup.place.tp > 0) || param == partition->copy;
        if (another) param->once = (ls_param_range){0, 0};
    }
}

ls_status ls_partition_make_buckets(ls_partition *partition) {
    const ls_layout *layout = &partition->setup.layout;
    size_t blocks = 0;
    for (int c = 0; c < partition->nchunks; c++)
        blocks += (size_t)(partition->chunks[c].end - partition->chunks[c].first);
    partition->buckets = calloc(3 * blocks, sizeof *partition->buckets);
    if (!partition->buckets) return ls_fail(LS_ERR_RESOURCE, "out of memory for the buckets of %zu blocks", blocks);
    for (int i = 0; i < ls_model_params(partition->model); i++) let_go(ls_model_param(partition->model, i));
    for (int c = partition->nchunks - 1; c >= 0; c--)
        for (int b = partition->chunks[c].end - 1; b >= partition->chunks[c].first; b--) add_block(partition, b);
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
