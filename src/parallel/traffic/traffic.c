/* traffic.c: predicts a step's traffic (calls and bytes of one worker) in the TP group, in the DP group, along
 * the pipeline and among all workers. Formulas are sums over the actions of the stage's list; the letters are those of
 * docs/reference/memory-and-traffic.md. */
#include "parallel/traffic/traffic.h"

#include <stdlib.h>

#include "numerics/exact_sum.h"
#include "parallel/layout/micro_batches.h"
#include "parallel/partition/bucket.h"
#include "parallel/partition/check.h"

/* Numbers that all workers add up once a step: of the loss, requests to stop by two signals, the sum of squares;
 * and those of each worker: how it spent its time. */
enum { LOSS_NUMBERS = 3, STOP_NUMBERS = 2, STATE_NUMBERS = 2 };
enum { STEP_NUMBERS = LOSS_NUMBERS + STOP_NUMBERS + STATE_NUMBERS + LS_EXACT_WORDS };

typedef struct traffic_job {
    const ls_layout_task *task;
    ls_layout layout; /* as it is run: zero 0 where dp is 1, no sequence parallelism where tp is 1 */
    ls_place_in_layout place;
    ls_micro_list micros;
    ls_schedule schedule;
    ls_step_traffic *out;
} traffic_job;

/* Adds calls and bytes to the result, for one communicator and kind. */
static void count(const traffic_job *job, int axis, ls_traffic_kind kind, uint64_t calls, uint64_t bytes) {
    job->out->of[axis][kind].calls += calls;
    job->out->of[axis][kind].bytes += bytes;
}

/* Returns the bytes of `calls` all-reduces of `elems` elements on member r of W. In all of them together it sends parts
 * of `part_bytes` for an element, and the sums have `width`. */
static uint64_t all_reduce_bytes(uint64_t calls, uint64_t part_bytes, size_t elems, int W, int r, size_t width) {
    uint64_t own = ls_slice_begin(elems, W, r + 1) - ls_slice_begin(elems, W, r);
    return part_bytes * (elems - own) + calls * (uint64_t)(W - 1) * own * width;
}

/* Returns the number among all chunks of chunk c of this stage. */
static int chunk_of(const traffic_job *job, int c) { return c * job->layout.pp + job->place.pp; }

/* Returns what blocks do in an action of this kind. */
static ls_block_pass pass_of(ls_action_kind kind) {
    switch (kind) {
    case LS_ACTION_FORWARD: return LS_FORWARD;
    case LS_ACTION_BACKWARD: return LS_BACKWARD_BOTH;
    case LS_ACTION_BACKWARD_INPUT: return LS_BACKWARD_INPUT;
    default: return LS_BACKWARD_WEIGHTS;
    }
}

/* Returns the classes of saved tensors (LS_SAVE_…) that are recomputed before a backward pass; 0 for forward. */
static unsigned recomputed(const traffic_job *job, ls_action_kind kind) {
    if (kind == LS_ACTION_FORWARD) return 0;
    return LS_SAVE_ALL & ~ls_layout_kept_parts(&job->layout);
}

/* Returns what block b sends over the TP group, and along dp for batch norm, in this action. */
static ls_block_traffic traffic_of(const traffic_job *job, const ls_action *action, int b) {
    const ls_block *block = &job->task->model->blocks[b];
    if (!block->kind->traffic) return (ls_block_traffic){0};
    return block->kind->traffic(block, pass_of(action->kind), recomputed(job, action->kind));
}

/* How often the blocks of an action's chunk sum over the TP group (joins), gather over it, and compute a loss over
 * it. */
typedef struct crossings {
    int joins, gathers, losses;
} crossings;

/* Returns the crossings of the blocks that carry the residual stream, or of the others, which may have 16-bit types. */
static crossings chunk_crossings(const traffic_job *job, const ls_action *action, bool carries_stream) {
    int number = chunk_of(job, action->chunk);
    crossings sum = {0, 0, 0};
    for (int b = job->layout.chunk_first[number]; b < job->layout.chunk_first[number + 1]; b++) {
        ls_block_traffic block = traffic_of(job, action, b);
        if (block.carries_stream != carries_stream) continue;
        sum.joins += block.joins;
        sum.gathers += block.gathers;
        sum.losses += block.has_loss;
    }
    return sum;
}

/* ---- tp ---------------------------------------------------------------------------------------------------------- */

/* Counts sums whose result is rounded: each worker adds up some of the rows, and sends them to the others. */
static void count_rounded_joins(const traffic_job *job, uint64_t joins, size_t rows, size_t width) {
    int tp = job->layout.tp, t = job->place.tp;
    uint64_t C = job->task->model->shape.C;
    uint64_t own = (ls_slice_begin(rows, tp, t + 1) - ls_slice_begin(rows, tp, t)) * C;
    count(job, LS_AXIS_TP, LS_TRAFFIC_REDUCE_SCATTER, joins, joins * (rows * C - own) * sizeof(float));
    count(job, LS_AXIS_TP, LS_TRAFFIC_ALL_GATHER, joins, joins * (uint64_t)(tp - 1) * own * width);
}

/* Counts the sums and gathers of activations. Sequences of all stream crossings go one by one with sequence
 * parallelism, and together without. */
static void count_crossings(const traffic_job *job, crossings cross, size_t sequences, ls_dtype dtype) {
    const ls_layout *layout = &job->layout;
    int tp = layout->tp, t = job->place.tp;
    size_t T = job->task->T, C = job->task->model->shape.C;
    uint64_t joins = (uint64_t)cross.joins, gathers = (uint64_t)cross.gathers;
    if (!layout->sequence_parallel && dtype != LS_F32) {
        count_rounded_joins(job, joins, sequences * T, ls_dtype_bytes(dtype));
        return;
    }
    if (!layout->sequence_parallel) {
        uint64_t bytes = all_reduce_bytes(joins, joins * sizeof(float), sequences * T * C, tp, t, sizeof(float));
        count(job, LS_AXIS_TP, LS_TRAFFIC_ALL_REDUCE, joins, bytes);
        return;
    }
    uint64_t own = (ls_slice_begin(T, tp, t + 1) - ls_slice_begin(T, tp, t)) * C, all = T * C;
    count(job, LS_AXIS_TP, LS_TRAFFIC_REDUCE_SCATTER, joins * sequences,
          joins * sequences * (all - own) * sizeof(float));
    count(job, LS_AXIS_TP, LS_TRAFFIC_ALL_GATHER, gathers * sequences,
          gathers * sequences * (uint64_t)(tp - 1) * own * ls_dtype_bytes(dtype));
}

/* Counts the gathers of a loss: maximum and target's logit of every row, then the sums of this worker's slices of the
 * vocabulary. */
static void count_loss(const traffic_job *job, size_t sequences) {
    uint64_t rows = sequences * job->task->T, slices = (uint64_t)(job->task->model->S / job->layout.tp);
    count(job, LS_AXIS_TP, LS_TRAFFIC_ALL_GATHER, 2,
          (uint64_t)(job->layout.tp - 1) * (2 + slices) * rows * sizeof(float));
}

/* Counts, once a step, the gathers of gradients that the TP group computes by rows: this worker's rows go to the
 * others. */
static void count_rows(const traffic_job *job, int chunk) {
    const ls_model *model = job->task->model;
    uint64_t others = (uint64_t)(job->layout.tp - 1);
    int number = chunk_of(job, chunk), slices = model->S / job->layout.tp;
    for (int b = job->layout.chunk_first[number]; b < job->layout.chunk_first[number + 1]; b++)
        for (int i = 0; i < model->blocks[b].nparams; i++) {
            const ls_param *param = &model->blocks[b].param[i];
            ls_grad_rows rows =
                ls_param_grad_rows(param, model->S, slices * job->place.tp, slices, job->layout.sequence_parallel);
            if (rows.count < rows.all)
                count(job, LS_AXIS_TP, LS_TRAFFIC_ALL_GATHER, 1, others * rows.count * rows.elems * sizeof(float));
        }
}

/* Counts all traffic in the TP group. */
static void count_tp(const traffic_job *job) {
    const ls_schedule *schedule = &job->schedule;
    int stage = job->place.pp;
    if (job->layout.tp == 1) return;
    for (int i = 0; i < schedule->count[stage]; i++) {
        const ls_action *action = &schedule->actions[stage][i];
        const ls_micro *micro = &job->micros.micro[action->micro];
        size_t sequences = micro->end - micro->begin;
        if (sequences == 0) continue;
        count_crossings(job, chunk_crossings(job, action, true), sequences, LS_F32);
        crossings inner = chunk_crossings(job, action, false);
        count_crossings(job, inner, sequences, job->task->policy.act);
        if (inner.losses > 0) count_loss(job, sequences);
    }
    for (int c = 0; c < job->layout.virtual_stages; c++) count_rows(job, c);
}

/* ---- dp: gradients are reduced bucket by bucket, new weights are gathered ---------------------------------------- */

/* Of each bucket a step has N reductions, in which this worker hands over P parts together:
 *
 *   zero < 2   N = 1                                            P = subtrees that the row's run of groups is made of
 *   zero ≥ 2   N = Σ over rounds: subtrees the round is made of   P = groups of the row
 *
 * Weights of sharded buckets are gathered once, after the update; with zero 3 those of matrices and tables are gathered
 * whenever an action needs them and they are in no buffer (gathers_of_blocks). */

/* Places of gathered weights: matrices of two blocks, or one table. */
typedef struct buffer_set {
    int count, oldest;
    int held[2]; /* a block; −1: empty */
} buffer_set;

/* Requests the weights of block `b`, while those of `in_use` must stay. Gathers them if they are in no buffer, in place
 * of those that were gathered earliest. */
static void want(buffer_set *buffers, int b, int in_use, int *gathers) {
    for (int i = 0; i < buffers->count; i++)
        if (buffers->held[i] == b) return;
    int at = buffers->oldest;
    if (in_use >= 0 && buffers->held[at] == in_use) at = (at + 1) % buffers->count;
    buffers->held[at] = b;
    buffers->oldest = (at + 1) % buffers->count;
    gathers[b]++;
}

/* Returns the table of the vocabulary that block b reads; NULL: it reads none. */
static const ls_param *table_of(const traffic_job *job, int b) { return ls_block_table(&job->task->model->blocks[b]); }

/* Returns whether embedding and head are on one stage and use the same table. */
static bool table_is_shared(const traffic_job *job) { return job->task->model->shape.tied && job->layout.pp == 1; }

/* Counts in gathers[b] how often the weights of block b are gathered in a step with zero 3; those of a shared table are
 * counted at block 0. */
static void gathers_of_blocks(const traffic_job *job, int *gathers) {
    const ls_schedule *schedule = &job->schedule;
    int stage = job->place.pp, last = job->task->model->nblocks - 1;
    buffer_set matrices = {.count = 2, .held = {-1, -1}}, tables = {.count = 1, .held = {-1, -1}};
    for (int i = 0; i < schedule->count[stage]; i++) {
        const ls_action *action = &schedule->actions[stage][i];
        int number = chunk_of(job, action->chunk), in_use = -1;
        int first = job->layout.chunk_first[number], blocks = job->layout.chunk_first[number + 1] - first;
        for (int k = 0; k < blocks; k++) {
            bool forward = action->kind == LS_ACTION_FORWARD;
            int b = forward ? first + k : first + blocks - 1 - k;
            /* The head has one action: backward, or that of the input. */
            if (b == last && (forward || action->kind == LS_ACTION_BACKWARD_WEIGHTS)) continue;
            want(table_of(job, b) ? &tables : &matrices, b == last && table_is_shared(job) ? 0 : b, in_use, gathers);
            in_use = b;
        }
    }
}

typedef struct reductions {
    uint64_t calls;
    uint64_t part_bytes; /* of an element, over all parts: those that are one group may be 16-bit */
} reductions;

/* Returns how many reductions each bucket has in a step, and what this worker sends in them. */
static reductions reductions_of(const traffic_job *job) {
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

/* Adds a copy of the parameter, reduced to this worker's slices. */
static void add_param(const traffic_job *job, bucket_list *list, const ls_param *param) {
    int slices = job->task->model->S / job->layout.tp, i = list->bucket.nparams++;
    list->param[i] = *param;
    ls_param_take_slices(&list->param[i], job->task->model->S, slices * job->place.tp, slices);
}

/* Returns the bucket of the block's parameters of one kind, not yet divided. */
static bucket_list list_of(const traffic_job *job, int b, ls_bucket_kind kind, ls_param_kind which) {
    const ls_block *block = &job->task->model->blocks[b];
    bucket_list list = {.bucket = {.kind = kind, .block = b}};
    for (int i = 0; i < block->nparams; i++)
        if (block->param[i].kind == which) add_param(job, &list, &block->param[i]);
    return list;
}

/* Divides the bucket into shards; the caller frees bucket.shard. */
static ls_status divide(const traffic_job *job, bucket_list *list) {
    bool sharded = job->layout.zero >= 1 && list->bucket.kind != LS_BUCKET_VECTORS;
    for (int i = 0; i < list->bucket.nparams; i++) list->bucket.param[i] = &list->param[i];
    return ls_bucket_divide(&list->bucket, job->task->model->S, job->layout.dp, job->place.dp, sharded);
}

/* Counts the reductions of a bucket, and `gathers` gathers of its weights if it is sharded; nothing for an empty
 * one. */
static ls_status count_bucket(const traffic_job *job, bucket_list *list, reductions times, int gathers) {
    const ls_bucket *bucket = &list->bucket;
    int dp = job->layout.dp, d = job->place.dp;
    if (bucket->nparams == 0) return LS_OK;
    LS_TRY(divide(job, list));
    if (!bucket->sharded) {
        uint64_t bytes = all_reduce_bytes(times.calls, times.part_bytes, bucket->grad_elems, dp, d, sizeof(float));
        count(job, LS_AXIS_DP, LS_TRAFFIC_ALL_REDUCE, times.calls, bytes);
    } else {
        uint64_t own = ls_bucket_own_elems(bucket), calls = (uint64_t)gathers;
        bool matrix = bucket->kind == LS_BUCKET_MATRICES || bucket->kind == LS_BUCKET_TABLE;
        size_t width = matrix ? ls_dtype_bytes(job->task->policy.act) : sizeof(float);
        count(job, LS_AXIS_DP, LS_TRAFFIC_REDUCE_SCATTER, times.calls, times.part_bytes * (bucket->grad_elems - own));
        count(job, LS_AXIS_DP, LS_TRAFFIC_ALL_GATHER, calls, calls * (uint64_t)(dp - 1) * own * width);
    }
    free(bucket->shard);
    return LS_OK;
}

/* Counts the bucket of the table that block b reads. */
static ls_status count_table(const traffic_job *job, int b, reductions times, int gathers) {
    bucket_list table = {.bucket = {.kind = LS_BUCKET_TABLE, .block = b}};
    add_param(job, &table, table_of(job, b));
    return count_bucket(job, &table, times, gathers);
}

/* Counts all buckets of a block. A shared table has two uses with gradients of their own, and one weight. */
static ls_status count_block(const traffic_job *job, int b, reductions times, const int *gathers) {
    int last = job->task->model->nblocks - 1;
    bool zero3 = job->layout.zero == 3;
    if (table_of(job, b)) {
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

/* Counts the gathers of batch norm over the whole batch: statistics of this replica's groups go to the other
 * replicas. */
static void count_norms(const traffic_job *job) {
    const ls_schedule *schedule = &job->schedule;
    const ls_layout *layout = &job->layout;
    int stage = job->place.pp, row = job->place.dp;
    uint64_t groups = (uint64_t)(ls_layout_first_group(layout, row + 1) - ls_layout_first_group(layout, row));
    for (int i = 0; i < schedule->count[stage]; i++) {
        const ls_action *action = &schedule->actions[stage][i];
        int number = chunk_of(job, action->chunk);
        for (int b = layout->chunk_first[number]; b < layout->chunk_first[number + 1]; b++) {
            ls_block_traffic block = traffic_of(job, action, b);
            count(job, LS_AXIS_DP, LS_TRAFFIC_ALL_GATHER, (uint64_t)block.stat_gathers,
                  (uint64_t)(layout->dp - 1) * groups * block.stat_channels * sizeof(float));
        }
    }
}

/* Counts all traffic in the DP group. */
static ls_status count_dp(const traffic_job *job) {
    const ls_layout *layout = &job->layout;
    ls_status status = LS_OK;
    reductions times = reductions_of(job);
    if (layout->dp == 1) return LS_OK;
    int *gathers = calloc((size_t)job->task->model->nblocks, sizeof *gathers);
    if (!gathers) return ls_fail(LS_ERR_RESOURCE, "out of memory for a list of %d blocks", job->task->model->nblocks);
    if (layout->zero == 3) gathers_of_blocks(job, gathers);
    if (job->task->bn_sync) count_norms(job);
    for (int c = 0; c < layout->virtual_stages; c++) {
        int number = chunk_of(job, c);
        for (int b = layout->chunk_first[number]; b < layout->chunk_first[number + 1]; b++)
            LS_TRY_OUT(count_block(job, b, times, gathers));
    }
out:
    free(gathers);
    return status;
}

/* Returns in *elems the elements of the tied table that this worker updates. */
static ls_status tied_elems(const traffic_job *job, size_t *elems) {
    bucket_list table = {.bucket = {.kind = LS_BUCKET_TABLE}};
    add_param(job, &table, ls_model_tokens(job->task->model));
    LS_TRY(divide(job, &table));
    *elems = ls_param_range_elems(table.param[0].own);
    free(table.bucket.shard);
    return LS_OK;
}

/* ---- pp ---------------------------------------------------------------------------------------------------------- */

/* Counts the messages about a table that embedding and head share while they are on different stages. */
static ls_status count_tied(const traffic_job *job) {
    size_t elems;
    int stage = job->place.pp;
    if (!job->task->model->shape.tied || (stage != 0 && stage != job->layout.pp - 1)) return LS_OK;
    LS_TRY(tied_elems(job, &elems));
    /* The gradient of the last stage's use one way, the new weights the other. */
    uint64_t weights = elems * ls_dtype_bytes(job->task->policy.act), grads = elems * sizeof(float);
    count(job, LS_AXIS_PP, LS_TRAFFIC_SEND, 1, stage == 0 ? weights : grads);
    count(job, LS_AXIS_PP, LS_TRAFFIC_RECEIVE, 1, stage == 0 ? grads : weights);
    return LS_OK;
}

/* Returns the width of the stream before a chunk. */
static size_t seam_columns(const traffic_job *job, size_t chunk) {
    return job->task->model->blocks[job->layout.chunk_first[chunk]].in;
}

/* Counts the messages between stages: the stream goes through every boundary between chunks forward and its gradient
 * backward, for each micro-batch. */
static ls_status count_pp(const traffic_job *job) {
    const ls_layout *layout = &job->layout;
    size_t T = job->task->T, chunks = (size_t)ls_layout_chunks(layout);
    if (layout->pp == 1) return LS_OK;
    if (layout->sequence_parallel)
        T = ls_slice_begin(T, layout->tp, job->place.tp + 1) - ls_slice_begin(T, layout->tp, job->place.tp);
    for (int m = 0; m < job->micros.count; m++) {
        uint64_t sequences = job->micros.micro[m].end - job->micros.micro[m].begin;
        for (int c = 0; sequences > 0 && c < layout->virtual_stages; c++) {
            size_t number = (size_t)chunk_of(job, c);
            bool before = number > 0, after = number + 1 < chunks;
            uint64_t columns = (before ? seam_columns(job, number) : 0) + (after ? seam_columns(job, number + 1) : 0);
            uint64_t seams = (uint64_t)before + after, bytes = sequences * T * columns * sizeof(float);
            count(job, LS_AXIS_PP, LS_TRAFFIC_SEND, seams, bytes);
            count(job, LS_AXIS_PP, LS_TRAFFIC_RECEIVE, seams, bytes);
        }
    }
    return count_tied(job);
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

/* Counts one all-gather of a hash for each member. */
static void count_hash(const traffic_job *job, int axis, int members) {
    count(job, axis, LS_TRAFFIC_ALL_GATHER, 1, (uint64_t)(members - 1) * sizeof(ls_hash128));
}

/* Counts the all-reduces of all workers that end a step, and those of a replica check. */
static void count_world(const traffic_job *job) {
    const ls_layout *layout = &job->layout;
    int W = ls_layout_workers(layout);
    int rank = job->place.tp + layout->tp * (job->place.dp + layout->dp * job->place.pp);
    if (W == 1) return;
    size_t numbers = STEP_NUMBERS + (size_t)W * LS_TRAFFIC_TIME_NUMBERS;
    count(job, LS_TRAFFIC_WORLD, LS_TRAFFIC_ALL_REDUCE, 1,
          all_reduce_bytes(1, sizeof(int64_t), numbers, W, rank, sizeof(int64_t)));
    if (!job->task->checks_replicas || layout->dp * layout->tp == 1) return;
    /* One hash of all parameters goes to the other holders, and all agree on what was found. */
    if (layout->dp > 1) count_hash(job, LS_AXIS_DP, layout->dp);
    if (layout->tp > 1) count_hash(job, LS_AXIS_TP, layout->tp);
    size_t words = (size_t)W * LS_CHECK_WORDS;
    count(job, LS_TRAFFIC_WORLD, LS_TRAFFIC_ALL_REDUCE, 1,
          all_reduce_bytes(1, sizeof(int64_t), words, W, rank, sizeof(int64_t)));
}

ls_status ls_traffic_of_step(const ls_layout_task *task, const ls_layout *layout, ls_place_in_layout place,
                             ls_step_traffic *out) {
    *out = (ls_step_traffic){0};
    ls_status status = LS_OK;
    traffic_job job = {.task = task, .layout = *layout, .place = place, .out = out};
    if (layout->dp == 1) job.layout.zero = 0;
    if (layout->tp == 1) job.layout.sequence_parallel = false;
    LS_TRY_OUT(ls_micro_list_make(&job.layout, task->B, task->G, place.dp, &job.micros));
    LS_TRY_OUT(ls_schedule_make(layout->schedule, layout->pp, layout->virtual_stages, job.micros.count, &job.schedule));
    LS_TRY_OUT(count_dp(&job));
    count_tp(&job);
    LS_TRY_OUT(count_pp(&job));
    count_world(&job);
out:
    ls_schedule_free(&job.schedule);
    ls_micro_list_free(&job.micros);
    return status;
}

void ls_traffic_add(ls_step_traffic *sum, const ls_step_traffic *more) {
    for (int a = 0; a < LS_TRAFFIC_AXES; a++)
        for (int k = 0; k < LS_TRAFFIC_KINDS; k++) {
            sum->of[a][k].calls += more->of[a][k].calls;
            sum->of[a][k].bytes += more->of[a][k].bytes;
        }
}

const char *ls_traffic_axis_name(int axis) {
    return axis == LS_TRAFFIC_WORLD ? "world" : ls_mesh_axis_name((ls_axis)axis);
}
