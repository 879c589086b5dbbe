/* dp.c: a step's traffic on the dp column: gradients are reduced bucket by bucket, new weights are gathered.
 *
 * Of each bucket a step has N reductions, in which this worker hands over P parts together:
 *
 *   zero < 2   N = 1                                            P = subtrees that the row's run of groups is made of
 *   zero ≥ 2   N = Σ over rounds: subtrees the round is made of   P = groups of the row
 *
 * Weights of sharded buckets are gathered once, after the update; with zero 3 those of matrices and tables are gathered
 * whenever an action needs them and they are in no room (gathers_of_blocks). */
#include <stdlib.h>

#include "parallel/partition/bucket.h"
#include "parallel/traffic/parts.h"

/* ---- zero 3: rooms ----------------------------------------------------------------------------------------------- */

/* Places of gathered weights: matrices of two blocks, or one table. */
typedef struct room_set {
    int count, oldest;
    int held[2]; /* a block; −1: empty */
} room_set;

/* Block `b` is wanted while `in_use` must stay. Gathers it where it is in no room, in the place of what was gathered
 * earliest. */
static void want(room_set *rooms, int b, int in_use, int *gathers) {
    for (int i = 0; i < rooms->count; i++)
        if (rooms->held[i] == b) return;
    int room = rooms->oldest;
    if (in_use >= 0 && rooms->held[room] == in_use) room = (room + 1) % rooms->count;
    rooms->held[room] = b;
    rooms->oldest = (room + 1) % rooms->count;
    gathers[b]++;
}

/* Language models have tables in their first and last block. */
static bool has_table(const ls_traffic_job *job, int b) {
    const ls_model *model = job->task->model;
    return ls_block_looks_up(&model->blocks[0]) && (b == 0 || b == model->nblocks - 1);
}

static bool table_is_shared(const ls_traffic_job *job) { return job->task->model->shape.tied && job->layout.pp == 1; }

/* gathers[b]: how often the weights of block b are gathered in a step; those of a shared table stand at block 0. */
static void gathers_of_blocks(const ls_traffic_job *job, int *gathers) {
    const ls_schedule *schedule = &job->schedule;
    int stage = job->place.pp, last = job->task->model->nblocks - 1;
    room_set matrices = {.count = 2, .held = {-1, -1}}, tables = {.count = 1, .held = {-1, -1}};
    for (int i = 0; i < schedule->count[stage]; i++) {
        const ls_action *action = &schedule->actions[stage][i];
        int number = ls_traffic_chunk(job, action->chunk), in_use = -1;
        int first = job->layout.chunk_first[number], blocks = job->layout.chunk_first[number + 1] - first;
        for (int k = 0; k < blocks; k++) {
            bool forward = action->kind == LS_ACTION_FORWARD;
            int b = forward ? first + k : first + blocks - 1 - k;
            /* The head has one action: backward, or that of the input. */
            if (b == last && (forward || action->kind == LS_ACTION_BACKWARD_WEIGHTS)) continue;
            want(has_table(job, b) ? &tables : &matrices, b == last && table_is_shared(job) ? 0 : b, in_use, gathers);
            in_use = b;
        }
    }
}

/* ---- buckets ----------------------------------------------------------------------------------------------------- */

typedef struct reductions {
    uint64_t calls;
    uint64_t part_bytes; /* of an element, over all parts: those that are one group may be 16-bit */
} reductions;

static reductions reductions_of(const ls_traffic_job *job) {
    const ls_layout *layout = &job->layout;
    ls_tree_node cover[LS_TREE_COVER_MAX];
    int G = job->task->G, d = job->place.dp;
    uint64_t leaf = ls_dtype_bytes(job->task->policy.reduce);
    if (layout->zero < 2) {
        int parts = ls_tree_cover(G, ls_layout_first_group(layout, d), ls_layout_first_group(layout, d + 1), cover);
        reductions once = {.calls = 1};
        for (int i = 0; i < parts; i++) once.part_bytes += cover[i].count == 1 ? leaf : sizeof(float);
        return once;
    }
    reductions sum = {0, (uint64_t)layout->share[d] * leaf};
    for (int round = 0, first = 0; first < G; round++) {
        int end = first;
        for (int row = 0; row < layout->dp; row++) end += layout->share[row] > round;
        sum.calls += (uint64_t)ls_tree_cover(G, first, end, cover);
        first = end;
    }
    return sum;
}

/* Parameters of a bucket, as this worker's slices have them. */
typedef struct bucket_list {
    ls_bucket bucket;
    ls_param param[LS_BUCKET_PARAMS_MAX];
} bucket_list;

static void add_param(const ls_traffic_job *job, bucket_list *list, const ls_param *param) {
    int slices = job->task->model->S / job->layout.tp, i = list->bucket.nparams++;
    list->param[i] = *param;
    ls_param_take_slices(&list->param[i], job->task->model->S, slices * job->place.tp, slices);
}

/* The bucket of the block's parameters of one kind. */
static bucket_list list_of(const ls_traffic_job *job, int b, ls_bucket_kind kind, ls_param_kind which) {
    const ls_block *block = &job->task->model->blocks[b];
    bucket_list list = {.bucket = {.kind = kind, .block = b}};
    for (int i = 0; i < block->nparams; i++)
        if (block->param[i].kind == which) add_param(job, &list, &block->param[i]);
    return list;
}

static ls_status divide(const ls_traffic_job *job, bucket_list *list) {
    bool sharded = job->layout.zero >= 1 && list->bucket.kind != LS_BUCKET_VECTORS;
    for (int i = 0; i < list->bucket.nparams; i++) list->bucket.param[i] = &list->param[i];
    return ls_bucket_divide(&list->bucket, job->task->model->S, job->layout.dp, job->place.dp, sharded);
}

/* Adds the traffic of a bucket whose weights are gathered so many times. */
static ls_status count_bucket(const ls_traffic_job *job, bucket_list *list, reductions times, int gathers) {
    const ls_bucket *bucket = &list->bucket;
    int dp = job->layout.dp, d = job->place.dp;
    if (bucket->nparams == 0) return LS_OK;
    LS_TRY(divide(job, list));
    if (!bucket->sharded) {
        uint64_t bytes =
            ls_traffic_all_reduce_bytes(times.calls, times.part_bytes, bucket->grad_elems, dp, d, sizeof(float));
        ls_traffic_count(job, LS_AXIS_DP, LS_TRAFFIC_ALL_REDUCE, times.calls, bytes);
    } else {
        uint64_t own = ls_bucket_own_elems(bucket), calls = (uint64_t)gathers;
        bool matrix = bucket->kind == LS_BUCKET_MATRICES || bucket->kind == LS_BUCKET_TABLE;
        size_t width = matrix ? ls_dtype_bytes(job->task->policy.act) : sizeof(float);
        ls_traffic_count(job, LS_AXIS_DP, LS_TRAFFIC_REDUCE_SCATTER, times.calls,
                         times.part_bytes * (bucket->grad_elems - own));
        ls_traffic_count(job, LS_AXIS_DP, LS_TRAFFIC_ALL_GATHER, calls, calls * (uint64_t)(dp - 1) * own * width);
    }
    free(bucket->shard);
    return LS_OK;
}

static ls_status count_table(const ls_traffic_job *job, int b, reductions times, int gathers) {
    const ls_model *model = job->task->model;
    int last = model->nblocks - 1;
    bucket_list table = {.bucket = {.kind = LS_BUCKET_TABLE, .block = b}};
    const ls_param *param = &model->blocks[0].param[0];
    for (int i = 0; b == last && !model->shape.tied && i < model->blocks[b].nparams; i++)
        if (model->blocks[b].param[i].kind == LS_PARAM_MATRIX) param = &model->blocks[b].param[i];
    add_param(job, &table, param);
    return count_bucket(job, &table, times, gathers);
}

/* A shared table has two uses with gradients of their own, and one weight. */
static ls_status count_block(const ls_traffic_job *job, int b, reductions times, const int *gathers) {
    int last = job->task->model->nblocks - 1;
    bool zero3 = job->layout.zero == 3;
    if (has_table(job, b)) {
        bool lookup = b == 0 && table_is_shared(job);
        int table = b == last && table_is_shared(job) ? 0 : b;
        LS_TRY(count_table(job, b, times, lookup ? 0 : zero3 ? gathers[table] : 1));
    } else {
        bucket_list matrices = list_of(job, b, LS_BUCKET_MATRICES, LS_PARAM_MATRIX);
        LS_TRY(count_bucket(job, &matrices, times, zero3 ? gathers[b] : 1));
    }
    bucket_list positions = list_of(job, b, LS_BUCKET_POSITIONS, LS_PARAM_POSITIONS);
    LS_TRY(count_bucket(job, &positions, times, 1));
    bucket_list vectors = list_of(job, b, LS_BUCKET_VECTORS, LS_PARAM_VECTOR);
    return count_bucket(job, &vectors, times, 0);
}

/* Batch norm over the whole batch: each unit gathers the rows of all groups twice on the way forward, for the mean and
 * for the variance, and twice on the way back; what is computed again is gathered again. */
static void count_norms(const ls_traffic_job *job) {
    const ls_schedule *schedule = &job->schedule;
    const ls_layout *layout = &job->layout;
    int stage = job->place.pp, row = job->place.dp;
    uint64_t groups = (uint64_t)(ls_layout_first_group(layout, row + 1) - ls_layout_first_group(layout, row));
    for (int i = 0; i < schedule->count[stage]; i++) {
        const ls_action *action = &schedule->actions[stage][i];
        int number = ls_traffic_chunk(job, action->chunk);
        uint64_t gathers = (uint64_t)(action->kind == LS_ACTION_BACKWARD_WEIGHTS ? 0 : 2);
        if (action->kind != LS_ACTION_FORWARD && layout->recompute != LS_RECOMPUTE_NONE) gathers += 2;
        for (int b = layout->chunk_first[number]; b < layout->chunk_first[number + 1]; b++) {
            const ls_block *block = &job->task->model->blocks[b];
            for (int u = 0; u < block->conv_bns; u++)
                ls_traffic_count(job, LS_AXIS_DP, LS_TRAFFIC_ALL_GATHER, gathers,
                                 gathers * (uint64_t)(layout->dp - 1) * groups * block->conv_bn[u].out.channels *
                                     sizeof(float));
        }
    }
}

ls_status ls_traffic_of_dp(const ls_traffic_job *job) {
    const ls_layout *layout = &job->layout;
    ls_status status = LS_OK;
    reductions times = reductions_of(job);
    if (layout->dp == 1) return LS_OK;
    int *gathers = calloc((size_t)job->task->model->nblocks, sizeof *gathers);
    if (!gathers) return ls_fail(LS_ERR_RESOURCE, "out of memory for a list of %d blocks", job->task->model->nblocks);
    if (layout->zero == 3) gathers_of_blocks(job, gathers);
    if (job->task->bn_sync) count_norms(job);
    for (int c = 0; c < layout->virtual_stages; c++) {
        int number = ls_traffic_chunk(job, c);
        for (int b = layout->chunk_first[number]; b < layout->chunk_first[number + 1]; b++)
            LS_TRY_OUT(count_block(job, b, times, gathers));
    }
out:
    free(gathers);
    return status;
}

ls_status ls_traffic_tied_elems(const ls_traffic_job *job, size_t *elems) {
    bucket_list table = {.bucket = {.kind = LS_BUCKET_TABLE}};
    add_param(job, &table, &job->task->model->blocks[0].param[0]);
    LS_TRY(divide(job, &table));
    *elems = ls_param_range_elems(table.param[0].own);
    free(table.bucket.shard);
    return LS_OK;
}
