/* native.c: predicts a step of this program from priced actions, counted traffic and the simulation of its schedule. */
#include "plan/native/native.h"

#include <stdlib.h>
#include <string.h>

#include "device/choose.h"
#include "model/model.h"
#include "parallel/layout/micro_batches.h"
#include "parallel/traffic/traffic.h"
#include "plan/native/overlap.h"
#include "plan/native/price.h"
#include "run/dry_run.h"

/* Micro-batches beyond these repeat the prices of earlier ones. */
enum { PRICED_MICROS = 6 };

/* Seconds of a worker's communication in a step, by purpose; publish: gathering new weights, all: of the whole world.
 */
typedef struct moving {
    double tp, gather, reduce, publish, all;
} moving;

/* Seconds of a worker of one stage in a step. */
typedef struct stage_price {
    double *work; /* by action */
    double kind[LS_PRICE_KINDS];
    double recompute;
    double update; /* norm, optimizer, check of the replicas */
    moving moving;
    double moved;    /* communication of all actions together, as far as they wait for it */
    double received; /* among it: from other stages */
    double gathered; /* among it: the exposed gathering of weights */
    ls_native_grads grads;
    double reduced; /* exposed part of moving.reduce */
} stage_price;

typedef struct step {
    const ls_native_machine *machine;
    const ls_native_task *task;
    const ls_layout *layout;
    ls_schedule schedule;
    int row; /* the replica (dp index) with most micro-batches, which is priced for all */
    stage_price stage[LS_WORKERS_MAX];
    double *work[LS_WORKERS_MAX], *wait[LS_WORKERS_MAX]; /* by stage and action */
    double *action_begin[LS_WORKERS_MAX], *action_end[LS_WORKERS_MAX];
    double end[LS_WORKERS_MAX], busy[LS_WORKERS_MAX];
} step;

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* The planner's kind for each of ls_dry_kind_names. */
static const ls_memory_kind kind_of[LS_DRY_KINDS] = {LS_MEMORY_WEIGHTS,   LS_MEMORY_WEIGHTS,   LS_MEMORY_BUFFERS,
                                                     LS_MEMORY_GRADIENTS, LS_MEMORY_OPTIMIZER, LS_MEMORY_ACTIVATIONS,
                                                     LS_MEMORY_BUFFERS,   LS_MEMORY_WORK,      LS_MEMORY_WORK,
                                                     LS_MEMORY_WORK,      LS_MEMORY_WORK,      LS_MEMORY_WORK};

/* Adds the dry run's kinds of memory up to the planner's; the rest of the arena counts as waste. */
static void sum_memory_kinds(const ls_dry_worker *worker, double *memory) {
    double rest = (double)worker->arena;
    memset(memory, 0, LS_MEMORY_KINDS * sizeof *memory);
    for (int k = 0; k < LS_DRY_KINDS; k++) {
        memory[kind_of[k]] += (double)worker->kind[k];
        rest -= (double)worker->kind[k];
    }
    memory[LS_MEMORY_OPTIMIZER] += (double)worker->copies;
    memory[LS_MEMORY_WASTE] = rest > 0 ? rest : 0;
    memory[LS_MEMORY_RESERVED] = (double)worker->outside;
}

/* Returns the memory for a worker. Workers are assigned to GPUs round robin. Those on one GPU share its memory in
 * proportion to their needs; on CPUs all workers share the machine's. */
static double room_of(const step *st, int rank, const double *bytes) {
    const ls_native_machine *machine = st->machine;
    int workers = ls_layout_workers(st->layout), count = 0, every = machine->is_gpus ? machine->cores : 1;
    double given = st->task->memory_bytes, room = given > 0 ? given : machine->memory_bytes, all = 0;
    for (int r = rank % every; r < workers; r += every, count++) all += bytes[r];
    if (machine->is_gpus && !(given > 0)) room = ls_native_gpu_room(&machine->gpu, count);
    return all > 0 ? room * bytes[rank] / all : room;
}

/* Takes the memory of the heaviest worker: on GPUs that with the least free memory, else that with the largest use. A
 * GPU holds only arenas. */
static void take_heaviest(const step *st, const ls_dry_worker *worker, const double *bytes, ls_prediction *out) {
    double left = 0;
    for (int rank = 0; rank < ls_layout_workers(st->layout); rank++) {
        double room = room_of(st, rank, bytes);
        bool is_heavier = st->machine->is_gpus ? room - bytes[rank] < left : bytes[rank] > out->memory_bytes;
        if (rank > 0 && !is_heavier) continue;
        left = room - bytes[rank];
        out->memory_bytes = bytes[rank];
        out->capacity_bytes = room;
        out->heaviest_stage = worker[rank].place.pp;
        sum_memory_kinds(&worker[rank], out->memory);
    }
}

/* Measures every worker's memory by a dry run, and takes that of the heaviest one. On GPUs only arenas count. */
static ls_status fill_memory(const step *st, ls_prediction *out) {
    int workers = ls_layout_workers(st->layout);
    double bytes[LS_WORKERS_MAX];
    ls_dry_worker *worker = calloc((size_t)workers, sizeof *worker);
    ls_status status = worker ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for %d workers", workers);
    for (int rank = 0; status == LS_OK && rank < workers; rank++) {
        status = ls_dry_measure(st->task->settings, st->layout, rank, &worker[rank]);
        if (st->machine->is_gpus) worker[rank].outside = 0;
        bytes[rank] = (double)worker[rank].arena + (double)worker[rank].outside + (double)worker[rank].copies;
    }
    if (status == LS_OK) take_heaviest(st, worker, bytes, out);
    free(worker);
    return status;
}

/* Returns the seconds of a member's collectives of one kind; 0 if it has none. The member's bytes are converted to the
 * size of the whole vector (lockstep.h, "traffic"). */
static double axis_seconds(const step *st, const ls_traffic *of, ls_native_op op, int group) {
    if (of->calls == 0 || group < 2) return 0;
    double each = (double)of->bytes / (double)of->calls, members = group;
    double vector = each * members / (members - 1) / (op == LS_NATIVE_ALL_REDUCE ? 2 : 1);
    return (double)of->calls * ls_native_link_seconds(st->machine, op, ls_layout_workers(st->layout), group, vector);
}

/* Prices the traffic of a worker's step by axis and purpose. */
static ls_status price_traffic(const step *st, const ls_layout_task *of, ls_place_in_layout place, moving *out) {
    const ls_layout *layout = st->layout;
    ls_step_traffic t;
    LS_TRY(ls_traffic_of_step(of, layout, place, &t));
    const ls_traffic *tp = t.of[LS_AXIS_TP], *dp = t.of[LS_AXIS_DP], *all = t.of[LS_TRAFFIC_WORLD];
    double gather = axis_seconds(st, &dp[LS_TRAFFIC_ALL_GATHER], LS_NATIVE_ALL_GATHER, layout->dp);
    int workers = ls_layout_workers(layout);
    *out = (moving){0};
    out->tp = axis_seconds(st, &tp[LS_TRAFFIC_ALL_REDUCE], LS_NATIVE_ALL_REDUCE, layout->tp) +
              axis_seconds(st, &tp[LS_TRAFFIC_REDUCE_SCATTER], LS_NATIVE_REDUCE_SCATTER, layout->tp) +
              axis_seconds(st, &tp[LS_TRAFFIC_ALL_GATHER], LS_NATIVE_ALL_GATHER, layout->tp);
    out->reduce = axis_seconds(st, &dp[LS_TRAFFIC_ALL_REDUCE], LS_NATIVE_ALL_REDUCE, layout->dp) +
                  axis_seconds(st, &dp[LS_TRAFFIC_REDUCE_SCATTER], LS_NATIVE_REDUCE_SCATTER, layout->dp);
    *(layout->zero == 3 ? &out->gather : &out->publish) = gather;
    out->all = axis_seconds(st, &all[LS_TRAFFIC_ALL_REDUCE], LS_NATIVE_ALL_REDUCE, workers) +
               axis_seconds(st, &all[LS_TRAFFIC_ALL_GATHER], LS_NATIVE_ALL_GATHER, workers);
    return LS_OK;
}

/* ---- prices ------------------------------------------------------------------------------------------------------ */

/* Returns an earlier action of the same kind for a micro-batch in a similar position, whose price is reused; i if there
 * is none. */
static int like(const ls_schedule *schedule, int s, int i) {
    const ls_action *a = &schedule->actions[s][i];
    int micro = a->micro < PRICED_MICROS ? a->micro : 2 + (a->micro - 2) % (PRICED_MICROS - 2);
    if (micro == a->micro) return i;
    for (int k = 0; k < i; k++) {
        const ls_action *b = &schedule->actions[s][k];
        if (b->kind == a->kind && b->chunk == a->chunk && b->micro == micro) return k;
    }
    return i;
}

/* The price of the running action at the moment when it comes to each of its blocks. */
typedef struct block_times {
    const ls_price *price;
    int count;
    double *at;
} block_times;

/* Callback of the partition before each block of an action: notes the price so far. Returns false: the action
 * goes on. */
static bool note_block(void *ctx) {
    block_times *times = ctx;
    times->at[times->count++] = ls_price_sum(times->price);
    return false;
}

/* Notes when, as a share of the action's time, the gradients of each block are ready: when the action comes to the
 * next block. */
static void take_made(const ls_layout *layout, const ls_action *action, int s, const block_times *times, double all,
                      ls_native_grads *grads) {
    const ls_native_run run = ls_native_run_of(layout, action, s);
    for (int i = 0; i < times->count && all > 0; i++)
        if (ls_native_makes(action->kind, &run, run.last - i))
            grads->made[run.last - i] = i + 1 < times->count ? times->at[i + 1] / all : 1;
}

/* Prices the actions of the stage by running them on the price device; later micro-batches take the prices of earlier
 * ones. `slower` scales computing. Allocates in *out, also if it fails. */
static ls_status price_actions(ls_partition *partition, ls_price *price, int s, double slower, stage_price *out) {
    const ls_schedule *schedule = ls_partition_schedule(partition);
    const ls_partition_feed feed = ls_dry_feed();
    const ls_model *model = ls_partition_model(partition);
    block_times times = {.price = price, .at = calloc((size_t)model->nblocks, sizeof *times.at)};
    out->grads.made = calloc((size_t)model->nblocks, sizeof *out->grads.made);
    out->grads.elems = calloc((size_t)model->nblocks, sizeof *out->grads.elems);
    double(*kinds)[LS_PRICE_KINDS] = calloc((size_t)schedule->count[s], sizeof *kinds);
    out->work = calloc((size_t)schedule->count[s], sizeof *out->work);
    bool has_room = kinds && out->work && times.at && out->grads.made && out->grads.elems;
    ls_status status = has_room ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for prices");
    for (int b = 0; status == LS_OK && b < model->nblocks; b++) out->grads.elems[b] = ls_native_grad_elems(model, b);
    ls_partition_ask(partition, note_block, &times);
    for (int i = 0; status == LS_OK && i < schedule->count[s]; i++) {
        int from = like(schedule, s, i);
        if (from == i) {
            ls_price_clear(price);
            times.count = 0;
            status = ls_partition_run_action(partition, &schedule->actions[s][i], &feed);
            memcpy(kinds[i], price->seconds, sizeof kinds[i]);
            take_made(&ls_partition_setup_of(partition)->layout, &schedule->actions[s][i], s, &times,
                      ls_price_sum(price), &out->grads);
        } else {
            memcpy(kinds[i], kinds[from], sizeof kinds[i]);
        }
        for (int k = 0; k < LS_PRICE_KINDS; k++) {
            out->work[i] += kinds[i][k] * slower;
            out->kind[k] += kinds[i][k] * slower;
        }
    }
    ls_partition_ask(partition, NULL, NULL);
    free(times.at);
    free(kinds);
    return status;
}

/* Adds the price of the replica check: weights that other workers have too are hashed after every step. */
static ls_status price_check(const ls_layout *layout, const ls_model *model, ls_device *device) {
    if (layout->dp * layout->tp == 1) return LS_OK;
    for (int i = 0; i < ls_model_params(model); i++) {
        const ls_param *p = ls_model_param(model, i);
        bool gathered = layout->zero == 3 && (p->kind == LS_PARAM_MATRIX || p->kind == LS_PARAM_TOKENS);
        if (p->held && !gathered)
            LS_TRY(device->ops->hash(device, &(ls_hash_call){NULL, p->w, ls_param_local_elems(p) * sizeof(float)}));
    }
    return LS_OK;
}

/* Prices the optimizer's step and, with --check replicas, the hashes of weights. */
static ls_status price_update(const ls_settings *settings, ls_partition *partition, ls_price *price, double slower,
                              stage_price *out) {
    ls_price_clear(price);
    LS_TRY(ls_dry_update(settings, partition, &price->device));
    if (settings->options.check >= LS_CHECK_REPLICAS)
        LS_TRY(price_check(&ls_partition_setup_of(partition)->layout, ls_partition_model(partition), &price->device));
    out->update = ls_price_sum(price) * slower;
    return LS_OK;
}

/* Opens a GPU device without hardware, which knows what its kernels can fuse; NULL for CPUs. */
static ls_status open_dry(const ls_native_machine *machine, ls_device **out) {
    size_t align;
    *out = NULL;
    return machine->is_gpus ? ls_device_open_dry("cuda", &align, out) : LS_OK;
}

/* Prices a stage under a layout: creates the model and its partition on the price device, and runs its actions
 * and update. */
static ls_status price_stage(const step *st, const ls_layout *layout, ls_place_in_layout place, stage_price *out) {
    const ls_settings *settings = st->task->settings;
    ls_model *model = NULL;
    ls_partition *partition = NULL;
    ls_price *price = malloc(sizeof *price);
    ls_device *dry = NULL;
    ls_status status;
    double slower;
    const ls_native_rates *rates = ls_native_rates_of(st->machine, ls_layout_workers(layout), &slower);
    if (!price) return ls_fail(LS_ERR_RESOURCE, "out of memory for prices");
    ls_partition_setup setup = ls_trainer_setup(settings, layout, ls_layout_rank(layout, place));
    LS_TRY_OUT(open_dry(st->machine, &dry));
    ls_price_open(price, rates, settings->shape.V / (size_t)layout->tp, dry);
    LS_TRY_OUT(ls_model_create(&settings->shape, settings->slices, &model));
    LS_TRY_OUT(ls_partition_create(model, &price->device, &setup, &partition));
    LS_TRY_OUT(price_actions(partition, price, place.pp, slower, out));
    LS_TRY_OUT(price_update(settings, partition, price, slower, out));
out:
    ls_partition_destroy(partition);
    ls_model_destroy(model);
    ls_device_destroy(dry);
    free(price);
    return status;
}

/* Frees what price_actions() allocated. */
static void free_price(stage_price *price) {
    free(price->work);
    free(price->grads.made);
    free(price->grads.elems);
}

/* Moves the cost of recomputation to out->recompute, as the difference to a stage that keeps all activations. */
static ls_status price_recompute(const step *st, ls_place_in_layout place, stage_price *out) {
    ls_layout keeps = *st->layout;
    stage_price other = {0};
    keeps.recompute = LS_RECOMPUTE_NONE;
    if (st->layout->recompute == LS_RECOMPUTE_NONE) return LS_OK;
    ls_status status = price_stage(st, &keeps, place, &other);
    for (int k = 0; status == LS_OK && k < LS_PRICE_KINDS; k++) {
        out->recompute += out->kind[k] - other.kind[k];
        out->kind[k] = other.kind[k];
    }
    free_price(&other);
    return status;
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

/* Chooses the replica with most micro-batches and makes its schedule. */
static ls_status choose_busiest_replica(step *st, ls_prediction *out) {
    const ls_layout *l = st->layout;
    int micros[LS_WORKERS_MAX];
    LS_TRY(ls_micro_counts(l, st->task->settings->B, st->task->settings->groups, micros, &st->row));
    out->micros = micros[st->row];
    return ls_schedule_make(l->schedule, l->pp, l->virtual_stages, out->micros, &st->schedule);
}

/* Returns the exposed part of an action's gathering of weights: all of it on a CPU. */
static double gather_seen(const step *st, int s, int i, double gather) {
    const ls_native_run run = ls_native_run_of(st->layout, &st->schedule.actions[s][i], s);
    return st->machine->is_gpus ? ls_native_gather_seen(run.last - run.first + 1, gather, st->stage[s].work[i])
                                : gather;
}

/* Distributes the communication of a stage among its actions, in proportion to their work. A stage pays for what it
 * receives, because it copies the data itself. */
static ls_status spread_moving(step *st, int s) {
    stage_price *p = &st->stage[s];
    const ls_layout *l = st->layout;
    int count = st->schedule.count[s], last = ls_layout_chunks(l) - 1;
    size_t rows = l->micro * st->task->settings->T / (l->sequence_parallel ? (size_t)l->tp : 1);
    double bytes = (double)(rows * st->task->settings->shape.C * sizeof(float)), work = 0;
    double receive =
        l->pp > 1 ? ls_native_link_seconds(st->machine, LS_NATIVE_SEND, ls_layout_workers(l), 2, bytes) : 0;
    st->wait[s] = calloc((size_t)count, sizeof *st->wait[s]);
    if (!st->wait[s]) return ls_fail(LS_ERR_RESOURCE, "out of memory for %d actions", count);
    for (int i = 0; i < count; i++) work += p->work[i];
    for (int i = 0; i < count; i++) {
        const ls_action *a = &st->schedule.actions[s][i];
        int chunk = a->chunk * l->pp + s;
        bool receives =
            a->kind == LS_ACTION_FORWARD ? chunk > 0 : a->kind != LS_ACTION_BACKWARD_WEIGHTS && chunk < last;
        double share = work > 0 ? p->work[i] / work : 0, gather = gather_seen(st, s, i, p->moving.gather * share);
        st->wait[s][i] = p->moving.tp * share + gather;
        p->gathered += gather;
        if (receives) st->wait[s][i] += receive;
        if (receives) p->received += receive;
        p->moved += st->wait[s][i];
    }
    return LS_OK;
}

/* Prices computing and communication of every stage, for the busiest replica's first tensor-parallel worker. */
static ls_status price_all(step *st, const ls_layout_task *of) {
    for (int s = 0; s < st->layout->pp; s++) {
        ls_place_in_layout place = {st->row, 0, s};
        LS_TRY(price_stage(st, st->layout, place, &st->stage[s]));
        st->work[s] = st->stage[s].work;
        LS_TRY(price_recompute(st, place, &st->stage[s]));
        LS_TRY(price_traffic(st, of, place, &st->stage[s].moving));
        LS_TRY(spread_moving(st, s));
    }
    return LS_OK;
}

/* Returns the seconds in which both ends of a pipeline exchange a tied table once a step: its gradient, and the new
 * weights. */
static double tied_seconds(const step *st) {
    const ls_layout *l = st->layout;
    if (l->pp == 1 || !st->task->settings->shape.tied) return 0;
    double elems =
        (double)(st->task->settings->shape.V * st->task->settings->shape.C) / l->tp / (l->zero > 0 ? l->dp : 1);
    return 2 * ls_native_link_seconds(st->machine, LS_NATIVE_SEND, ls_layout_workers(l), 2, elems * sizeof(float));
}

/* Divides the step into kinds of time for the stage that ends last. */
static void sum_time_kinds(const step *st, ls_prediction *out) {
    int last = 0, workers = ls_layout_workers(st->layout);
    double turns = workers > st->machine->cores ? (double)workers / st->machine->cores : 1, work = 0, update = 0;
    for (int s = 0; s < st->layout->pp; s++) {
        if (st->end[s] + st->stage[s].reduced > st->end[last] + st->stage[last].reduced) last = s;
        if (st->stage[s].update > update) update = st->stage[s].update;
    }
    const stage_price *p = &st->stage[last];
    for (int i = 0; i < st->schedule.count[last]; i++) work += p->work[i];
    double slower = work > 0 ? (st->busy[last] - p->moved) / work : 1;
    out->time[LS_TIME_MATMUL] = p->kind[LS_PRICE_MATMULS] * slower;
    out->time[LS_TIME_ATTENTION] = p->kind[LS_PRICE_ATTENTION] * slower;
    out->time[LS_TIME_SMALL] = (p->kind[LS_PRICE_PASSES] + p->kind[LS_PRICE_OPTIMIZER]) * slower;
    out->time[LS_TIME_ENDS] = p->kind[LS_PRICE_ENDS] * slower;
    out->time[LS_TIME_RECOMPUTE] = p->recompute * slower;
    out->time[LS_TIME_TP] = p->moving.tp;
    out->time[LS_TIME_GATHER] = p->gathered;
    out->time[LS_TIME_P2P] = p->received + tied_seconds(st);
    out->time[LS_TIME_BUBBLE] = st->end[last] > st->busy[last] ? st->end[last] - st->busy[last] : 0;
    out->time[LS_TIME_DP] = p->reduced + p->moving.publish;
    out->time[LS_TIME_OPTIMIZER] = update * turns;
    out->time[LS_TIME_OTHER] = p->moving.all + (st->machine->is_gpus ? st->machine->gpu.read_seconds : 0);
    out->link_dp = p->moving.reduce + p->moving.publish;
    out->hidden_dp = p->moving.reduce - p->reduced;
    for (int k = 0; k < LS_TIME_KINDS; k++) out->seconds += out->time[k];
}

/* Simulates the schedule with the prices; fills st->end, st->busy and the times of actions. */
static ls_status run_course(step *st) {
    const ls_layout *l = st->layout;
    ls_native_course course = {.schedule = &st->schedule,
                               .work = st->work,
                               .wait = st->wait,
                               .workers = l->dp * l->tp,
                               .cores = st->machine->cores,
                               .end = st->end,
                               .busy = st->busy,
                               .action_begin = st->action_begin,
                               .action_end = st->action_end};
    for (int s = 0; s < l->pp; s++) {
        st->action_begin[s] = calloc((size_t)st->schedule.count[s], sizeof(double));
        st->action_end[s] = calloc((size_t)st->schedule.count[s], sizeof(double));
        if (!st->action_begin[s] || !st->action_end[s])
            return ls_fail(LS_ERR_RESOURCE, "out of memory for %d actions", st->schedule.count[s]);
    }
    return ls_native_course_run(&course);
}

/* Computes the exposed part of the reductions. On a CPU that is all of it, because a core either computes or moves
 * data. */
static ls_status see_reductions(step *st, const ls_layout_task *of) {
    const ls_layout *l = st->layout;
    ls_micro_list micros;
    LS_TRY(ls_micro_list_make(l, of->B, of->G, st->row, &micros));
    for (int s = 0; s < l->pp; s++) {
        stage_price *p = &st->stage[s];
        double ended = ls_native_reduce_end(l, &st->schedule, s, &micros, &p->grads, p->moving.reduce,
                                            st->action_begin[s], st->action_end[s]);
        double seen = ended > st->end[s] ? ended - st->end[s] : 0;
        p->reduced = st->machine->is_gpus ? seen : p->moving.reduce;
    }
    ls_micro_list_free(&micros);
    return LS_OK;
}

/* Prices and simulates the step; sets out->micros. */
static ls_status make_step(step *st, const ls_layout_task *of, ls_prediction *out) {
    LS_TRY(choose_busiest_replica(st, out));
    LS_TRY(price_all(st, of));
    LS_TRY(run_course(st));
    return see_reductions(st, of);
}

ls_status ls_native_predict(const ls_native_machine *machine, const ls_native_task *task, const ls_layout *layout,
                            ls_prediction *out) {
    const ls_settings *s = task->settings;
    step st = {.machine = machine, .task = task, .layout = layout};
    ls_model *model = NULL;
    LS_TRY(ls_model_create(&s->shape, s->slices, &model));
    ls_layout_task of = ls_trainer_task(s, model);
    *out = (ls_prediction){.model_flops = ls_model_step_flops(model, s->B, s->T)}; /* as training counts its MFU */
    ls_status status = fill_memory(&st, out);
    if (status == LS_OK) status = make_step(&st, &of, out);
    if (status == LS_OK) sum_time_kinds(&st, out);
    ls_model_destroy(model);
    for (int p = 0; p < layout->pp; p++) {
        free_price(&st.stage[p]);
        free(st.wait[p]);
        free(st.action_begin[p]);
        free(st.action_end[p]);
    }
    ls_schedule_free(&st.schedule);
    return status;
}

double ls_native_peak(const ls_native_machine *machine, const ls_policy *policy) {
    const ls_native_gpu *gpu = &machine->gpu;
    bool by_unit = ls_policy_is_16(policy) && ls_unit_is_tensor_core(policy->unit);
    if (!machine->is_gpus) return 0;
    return gpu->count * (by_unit ? gpu->unit_flops_per_second : gpu->peak_flops_per_second);
}
