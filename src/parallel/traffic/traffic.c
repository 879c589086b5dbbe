/* traffic.c: a step's traffic on the tp row, on the pipeline and among all workers. That of the dp column is in
 * traffic_dp.c. Formulas are sums over the actions of the stage's list; the letters are those of docs/parallelism.md.
 */
#include "parallel/traffic/traffic.h"

#include "numerics/exact_sum.h"
#include "parallel/partition/check.h"
#include "parallel/traffic/parts.h"

/* Numbers that all workers add up once a step: of the loss, requests to stop by two signals, the sum of squares;
 * and one of each worker, how long it computed. */
enum { LOSS_NUMBERS = 3, STOP_NUMBERS = 2, STEP_NUMBERS = LOSS_NUMBERS + STOP_NUMBERS + LS_EXACT_WORDS };

enum { EMBEDDING, TRANSFORMER, HEAD, BLOCK_KINDS };

/* Crossings of the tp row: sums over it, and gathers of all rows, which only sequence parallelism needs. Those of the
 * embedding are of the residual stream itself, so fp32 whatever the policy. */
typedef struct crossings {
    int joins, gathers;
} crossings;

static const crossings of_action[LS_ACTION_KINDS][BLOCK_KINDS] = {
    [LS_ACTION_FORWARD] = {[EMBEDDING] = {1, 0}, [TRANSFORMER] = {2, 2}},
    [LS_ACTION_BACKWARD] = {[EMBEDDING] = {0, 1}, [TRANSFORMER] = {2, 4}, [HEAD] = {1, 1}},
    [LS_ACTION_BACKWARD_INPUT] = {[TRANSFORMER] = {2, 2}, [HEAD] = {1, 1}},
    [LS_ACTION_BACKWARD_WEIGHTS] = {[EMBEDDING] = {0, 1}, [TRANSFORMER] = {0, 4}},
};
/* In front of each backward action of a transformer block. */
static const crossings of_recompute[LS_RECOMPUTE_KINDS] = {
    [LS_RECOMPUTE_SELECTIVE] = {0, 1},
    [LS_RECOMPUTE_FULL] = {1, 2},
};

static int kind_of(const ls_model *model, int b) {
    return b == 0 ? EMBEDDING : b == model->nblocks - 1 ? HEAD : TRANSFORMER;
}

static crossings chunk_crossings(const ls_traffic_job *job, const ls_action *action, bool of_embedding) {
    const ls_layout *layout = &job->layout;
    int number = ls_traffic_chunk(job, action->chunk);
    crossings sum = {0, 0};
    for (int b = layout->chunk_first[number]; b < layout->chunk_first[number + 1]; b++) {
        int kind = kind_of(job->task->model, b);
        if (of_embedding != (kind == EMBEDDING)) continue;
        bool again = kind == TRANSFORMER && action->kind != LS_ACTION_FORWARD;
        sum.joins += of_action[action->kind][kind].joins + (again ? of_recompute[layout->recompute].joins : 0);
        sum.gathers += of_action[action->kind][kind].gathers + (again ? of_recompute[layout->recompute].gathers : 0);
    }
    return sum;
}

/* ---- tp ---------------------------------------------------------------------------------------------------------- */

/* A sum whose result is rounded: each worker adds some of the rows up, and gives them to the others. */
static void count_rounded_joins(const ls_traffic_job *job, uint64_t joins, size_t rows, size_t width) {
    int tp = job->layout.tp, t = job->place.tp;
    uint64_t C = job->task->model->shape.C;
    uint64_t own = (ls_slice_begin(rows, tp, t + 1) - ls_slice_begin(rows, tp, t)) * C;
    ls_traffic_count(job, LS_AXIS_TP, LS_TRAFFIC_REDUCE_SCATTER, joins, joins * (rows * C - own) * sizeof(float));
    ls_traffic_count(job, LS_AXIS_TP, LS_TRAFFIC_ALL_GATHER, joins, joins * (uint64_t)(tp - 1) * own * width);
}

/* Sequences of all stream crossings go one by one with sequence parallelism, and together without. */
static void count_crossings(const ls_traffic_job *job, crossings cross, size_t sequences, ls_dtype dtype) {
    const ls_layout *layout = &job->layout;
    int tp = layout->tp, t = job->place.tp;
    size_t T = job->task->T, C = job->task->model->shape.C;
    uint64_t joins = (uint64_t)cross.joins, gathers = (uint64_t)cross.gathers;
    if (!layout->sequence_parallel && dtype != LS_F32) {
        count_rounded_joins(job, joins, sequences * T, ls_dtype_bytes(dtype));
        return;
    }
    if (!layout->sequence_parallel) {
        uint64_t bytes =
            ls_traffic_all_reduce_bytes(joins, joins * sizeof(float), sequences * T * C, tp, t, sizeof(float));
        ls_traffic_count(job, LS_AXIS_TP, LS_TRAFFIC_ALL_REDUCE, joins, bytes);
        return;
    }
    uint64_t own = (ls_slice_begin(T, tp, t + 1) - ls_slice_begin(T, tp, t)) * C, all = T * C;
    ls_traffic_count(job, LS_AXIS_TP, LS_TRAFFIC_REDUCE_SCATTER, joins * sequences,
                     joins * sequences * (all - own) * sizeof(float));
    ls_traffic_count(job, LS_AXIS_TP, LS_TRAFFIC_ALL_GATHER, gathers * sequences,
                     gathers * sequences * (uint64_t)(tp - 1) * own * ls_dtype_bytes(dtype));
}

/* Maximum and target's logit of every row, then the sums of this worker's slices of the vocabulary. */
static void count_loss(const ls_traffic_job *job, size_t sequences) {
    uint64_t rows = sequences * job->task->T, slices = (uint64_t)(job->task->model->S / job->layout.tp);
    ls_traffic_count(job, LS_AXIS_TP, LS_TRAFFIC_ALL_GATHER, 2,
                     (uint64_t)(job->layout.tp - 1) * (2 + slices) * rows * sizeof(float));
}

/* Once a step, for each vector that no slice cuts: the sums of this worker's token slices. */
static void count_vectors(const ls_traffic_job *job, int chunk) {
    const ls_model *model = job->task->model;
    uint64_t slices = (uint64_t)(model->S / job->layout.tp), others = (uint64_t)(job->layout.tp - 1);
    int number = ls_traffic_chunk(job, chunk);
    for (int b = job->layout.chunk_first[number]; b < job->layout.chunk_first[number + 1]; b++)
        for (int i = 0; i < model->blocks[b].nparams; i++) {
            const ls_param *param = &model->blocks[b].param[i];
            if (param->kind == LS_PARAM_VECTOR && !param->split)
                ls_traffic_count(job, LS_AXIS_TP, LS_TRAFFIC_ALL_GATHER, 1,
                                 others * slices * param->rows * sizeof(float));
        }
}

static void count_tp(const ls_traffic_job *job) {
    const ls_schedule *schedule = &job->schedule;
    int stage = job->place.pp, last = ls_layout_chunks(&job->layout) - 1;
    if (job->layout.tp == 1) return;
    for (int i = 0; i < schedule->count[stage]; i++) {
        const ls_action *action = &schedule->actions[stage][i];
        const ls_micro *micro = &job->micros.micro[action->micro];
        bool head = ls_traffic_chunk(job, action->chunk) == last;
        size_t sequences = micro->end - micro->begin;
        if (sequences == 0) continue;
        count_crossings(job, chunk_crossings(job, action, true), sequences, LS_F32);
        count_crossings(job, chunk_crossings(job, action, false), sequences, job->task->policy.act);
        if (head && (action->kind == LS_ACTION_BACKWARD || action->kind == LS_ACTION_BACKWARD_INPUT))
            count_loss(job, sequences);
    }
    for (int c = 0; job->layout.sequence_parallel && c < job->layout.virtual_stages; c++) count_vectors(job, c);
}

/* ---- pp ---------------------------------------------------------------------------------------------------------- */

static ls_status count_tied(const ls_traffic_job *job) {
    size_t elems;
    int stage = job->place.pp;
    if (!job->task->model->shape.tied || (stage != 0 && stage != job->layout.pp - 1)) return LS_OK;
    LS_TRY(ls_traffic_tied_elems(job, &elems));
    /* The gradient of the last stage's use one way, the new weights the other. */
    uint64_t weights = elems * ls_dtype_bytes(job->task->policy.act), grads = elems * sizeof(float);
    ls_traffic_count(job, LS_AXIS_PP, LS_TRAFFIC_SEND, 1, stage == 0 ? weights : grads);
    ls_traffic_count(job, LS_AXIS_PP, LS_TRAFFIC_RECEIVE, 1, stage == 0 ? grads : weights);
    return LS_OK;
}

static size_t seam_columns(const ls_traffic_job *job, size_t chunk) {
    return job->task->model->blocks[job->layout.chunk_first[chunk]].in;
}

/* The stream goes through every seam between chunks forward and its gradient backward, for each micro-batch. */
static ls_status count_pp(const ls_traffic_job *job) {
    const ls_layout *layout = &job->layout;
    size_t T = job->task->T, chunks = (size_t)ls_layout_chunks(layout);
    if (layout->pp == 1) return LS_OK;
    if (layout->sequence_parallel)
        T = ls_slice_begin(T, layout->tp, job->place.tp + 1) - ls_slice_begin(T, layout->tp, job->place.tp);
    for (int m = 0; m < job->micros.count; m++) {
        uint64_t sequences = job->micros.micro[m].end - job->micros.micro[m].begin;
        for (int c = 0; sequences > 0 && c < layout->virtual_stages; c++) {
            size_t number = (size_t)ls_traffic_chunk(job, c);
            bool before = number > 0, after = number + 1 < chunks;
            uint64_t columns = (before ? seam_columns(job, number) : 0) + (after ? seam_columns(job, number + 1) : 0);
            uint64_t seams = (uint64_t)before + after, bytes = sequences * T * columns * sizeof(float);
            ls_traffic_count(job, LS_AXIS_PP, LS_TRAFFIC_SEND, seams, bytes);
            ls_traffic_count(job, LS_AXIS_PP, LS_TRAFFIC_RECEIVE, seams, bytes);
        }
    }
    return count_tied(job);
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static void count_hash(const ls_traffic_job *job, int axis, int members) {
    ls_traffic_count(job, axis, LS_TRAFFIC_ALL_GATHER, 1, (uint64_t)(members - 1) * sizeof(ls_hash128));
}

static void count_world(const ls_traffic_job *job) {
    const ls_layout *layout = &job->layout;
    int W = ls_layout_workers(layout);
    int rank = job->place.tp + layout->tp * (job->place.dp + layout->dp * job->place.pp);
    if (W == 1) return;
    ls_traffic_count(
        job, LS_TRAFFIC_WORLD, LS_TRAFFIC_ALL_REDUCE, 1,
        ls_traffic_all_reduce_bytes(1, sizeof(int64_t), STEP_NUMBERS + (size_t)W, W, rank, sizeof(int64_t)));
    if (!job->task->checks_replicas || layout->dp * layout->tp == 1) return;
    /* One hash of all parameters goes to the other holders, and all agree on what was found. */
    if (layout->dp > 1) count_hash(job, LS_AXIS_DP, layout->dp);
    if (layout->tp > 1) count_hash(job, LS_AXIS_TP, layout->tp);
    size_t words = (size_t)W * LS_CHECK_WORDS;
    ls_traffic_count(job, LS_TRAFFIC_WORLD, LS_TRAFFIC_ALL_REDUCE, 1,
                     ls_traffic_all_reduce_bytes(1, sizeof(int64_t), words, W, rank, sizeof(int64_t)));
}

ls_status ls_traffic_of_step(const ls_layout_task *task, const ls_layout *layout, ls_place_in_layout place,
                             ls_step_traffic *out) {
    *out = (ls_step_traffic){0};
    ls_status status = LS_OK;
    ls_traffic_job job = {.task = task, .layout = *layout, .place = place, .out = out};
    if (layout->dp == 1) job.layout.zero = 0;
    if (layout->tp == 1) job.layout.sequence_parallel = false;
    LS_TRY_OUT(ls_micro_list_make(&job.layout, task->B, task->G, place.dp, &job.micros));
    LS_TRY_OUT(ls_schedule_make(layout->schedule, layout->pp, layout->virtual_stages, job.micros.count, &job.schedule));
    LS_TRY_OUT(ls_traffic_of_dp(&job));
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
    static const char *const names[LS_TRAFFIC_AXES] = {
        [LS_AXIS_DP] = "dp", [LS_AXIS_TP] = "tp", [LS_AXIS_PP] = "pp", [LS_TRAFFIC_WORLD] = "world"};
    return names[axis];
}

const char *ls_traffic_kind_name(ls_traffic_kind kind) {
    static const char *const names[LS_TRAFFIC_KINDS] = {[LS_TRAFFIC_REDUCE_SCATTER] = "reduce-scatter",
                                                        [LS_TRAFFIC_ALL_REDUCE] = "all-reduce",
                                                        [LS_TRAFFIC_ALL_GATHER] = "all-gather",
                                                        [LS_TRAFFIC_ALL_TO_ALL] = "all-to-all",
                                                        [LS_TRAFFIC_BROADCAST] = "broadcast",
                                                        [LS_TRAFFIC_SEND] = "send",
                                                        [LS_TRAFFIC_RECEIVE] = "receive",
                                                        [LS_TRAFFIC_BARRIER] = "barrier"};
    return names[kind];
}
