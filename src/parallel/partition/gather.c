/* gather.c: sends weights to the workers that compute with them: with ZeRO 3 gathered block by block, in buffers that
 * blocks share in turn; otherwise published after an update, from the workers that own each part to all replicas. */
#include "base/events.h"
#include "parallel/partition/state.h"

/* ---- gathered weights -------------------------------------------------------------------------------------------- */

/* Returns whether the bucket's weights are gathered when they are used: ZeRO 3, matrices and tables. */
static bool is_gathered(const ls_partition *partition, const ls_bucket *bucket) {
    return partition->setup.layout.zero == 3 && ls_bucket_is_matrix(bucket);
}

/* Computes the bytes of each DP-group member's shard of a bucket, in the type that matmuls read. */
static void shard_bytes(const ls_partition *partition, const ls_bucket *bucket, size_t bytes[LS_WORKERS_MAX]) {
    size_t each = ls_partition_is_16(partition, bucket) ? sizeof(uint16_t) : sizeof(float);
    for (int r = 0; r < partition->setup.layout.dp; r++) bytes[r] = (bucket->shard[r + 1] - bucket->shard[r]) * each;
}

/* Marks the bucket's weights as not gathered. */
static void let_go(ls_bucket *bucket) {
    bucket->w = NULL;
    bucket->w16 = NULL;
    bucket->w_buffer = -1;
}

/* Returns the pool that the bucket's weights are gathered in. */
static ls_buffer_pool *weight_pool(ls_partition *partition, const ls_bucket *bucket) {
    return bucket->kind == LS_BUCKET_TABLE ? &partition->weights.table : &partition->weights.block;
}

/* Returns the bucket with the weights of a block, or NULL if they need no gathering. */
static ls_bucket *gathered_for(ls_partition *partition, int block) {
    const ls_param *table = ls_block_table(&partition->model->blocks[block]);
    for (int i = 0; i < partition->nbuckets; i++) {
        ls_bucket *bucket = &partition->buckets[i];
        if (!is_gathered(partition, bucket)) continue;
        if (table ? bucket->param[0] == table : bucket->block == block && bucket->kind == LS_BUCKET_MATRICES)
            return bucket;
    }
    return NULL;
}

/* Waits for the gather in progress, if any. */
static ls_status wait_gathered(ls_bucket *bucket) {
    ls_request *request = bucket->gathering;
    bucket->gathering = NULL;
    return ls_request_wait(request);
}

/* Starts gathering a bucket into a buffer other than that of `in_use`, which may be NULL. */
static ls_status start_gather(ls_partition *partition, ls_bucket *bucket, const ls_bucket *in_use) {
    size_t bytes[LS_WORKERS_MAX];
    ls_buffer_pool *pool = weight_pool(partition, bucket);
    int buffer = pool->next;
    if (in_use && pool->user[buffer] == in_use) buffer = (buffer + 1) % pool->count;
    ls_bucket *before = pool->user[buffer];
    if (before) {
        LS_TRY(wait_gathered(before));
        LS_TRY(ls_partition_check_gathered(partition, before));
        let_go(before);
    }
    pool->next = (buffer + 1) % pool->count;
    pool->user[buffer] = bucket;
    bucket->w_buffer = buffer;
    bool is_16 = ls_partition_is_16(partition, bucket);
    bucket->w = is_16 ? NULL : pool->memory[buffer];
    bucket->w16 = is_16 ? pool->memory[buffer] : NULL;
    ls_bucket_point_weights(bucket);
    shard_bytes(partition, bucket, bytes);
    const void *own = is_16 ? (const void *)bucket->shard_w16 : bucket->shard_w;
    if (!partition->comms.dp) return LS_OK;
    return ls_tensor_all_gather_start(partition->device, partition->comms.dp, own, pool->memory[buffer], bytes,
                                      &bucket->gathering);
}

ls_status ls_partition_acquire(ls_partition *partition, int block, int next) {
    if (partition->setup.layout.zero < 3) return LS_OK;
    ls_bucket *bucket = gathered_for(partition, block), *ahead = next >= 0 ? gathered_for(partition, next) : NULL;
    if (bucket && bucket->w_buffer < 0) LS_TRY(start_gather(partition, bucket, NULL));
    if (bucket) LS_TRY(wait_gathered(bucket));
    bool has_buffer = ahead && ahead != bucket &&
                      (!bucket || weight_pool(partition, ahead) != weight_pool(partition, bucket) ||
                       weight_pool(partition, ahead)->count > 1);
    return has_buffer && ahead->w_buffer < 0 ? start_gather(partition, ahead, bucket) : LS_OK;
}

/* Empties a pool, whose weights an update has made stale. */
static ls_status drop_gathered(ls_buffer_pool *pool) {
    for (int i = 0; i < pool->count; i++) {
        ls_bucket *bucket = pool->user[i];
        if (!bucket) continue;
        LS_TRY(wait_gathered(bucket));
        let_go(bucket);
        pool->user[i] = NULL;
    }
    pool->next = 0;
    return LS_OK;
}

/* ---- new weights ------------------------------------------------------------------------------------------------- */

/* Starts the all-gather of a sharded bucket's updated weights, in place. */
static ls_status start_publish(ls_partition *partition, ls_bucket *bucket) {
    size_t bytes[LS_WORKERS_MAX];
    bool is_16 = ls_partition_is_16(partition, bucket);
    const void *own = is_16 ? (const void *)(bucket->w16 + bucket->own_begin) : bucket->w + bucket->own_begin;
    shard_bytes(partition, bucket, bytes);
    return ls_tensor_all_gather_start(partition->device, partition->comms.dp, own,
                                      is_16 ? (void *)bucket->w16 : bucket->w, bytes, &bucket->gathering);
}

/* Returns whether other workers need the elements of this bucket that a worker updates. */
static bool is_published(const ls_partition *partition, const ls_bucket *bucket) {
    return partition->comms.dp && bucket->sharded && bucket->kind != LS_BUCKET_LOOKUP &&
           !is_gathered(partition, bucket);
}

ls_status ls_partition_publish(ls_partition *partition) {
    ls_span span = ls_span_begin("stage", "publish");
    LS_TRY(ls_partition_send_tied_weight(partition));
    LS_TRY(drop_gathered(&partition->weights.block));
    LS_TRY(drop_gathered(&partition->weights.table));
    for (int i = 0; i < partition->nbuckets; i++)
        if (is_published(partition, &partition->buckets[i])) LS_TRY(start_publish(partition, &partition->buckets[i]));
    for (int i = 0; i < partition->nbuckets; i++)
        if (is_published(partition, &partition->buckets[i])) LS_TRY(wait_gathered(&partition->buckets[i]));
    ls_span_end(span, 0);
    return LS_OK;
}
