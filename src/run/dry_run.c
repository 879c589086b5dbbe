/* dry_run.c: measures every worker of a layout, and lists the types of a run; docs/reference/precision.md has those at
 * length. */
#include "run/dry_run.h"

#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "device/choose.h"
#include "device/cpu/kernels.h"
#include "device/ops.h"
#include "model/model.h"
#include "optim/optimizer.h"
#include "parallel/layout/micro_batches.h"
#include "run/recover/copies.h"

const char *const ls_dry_kind_names[LS_DRY_KINDS] = {"parameters",
                                                     "16-bit parameters",
                                                     "gathered parameters",
                                                     "gradients",
                                                     "optimizer state",
                                                     "activations",
                                                     "communication",
                                                     "scratch",
                                                     "logits",
                                                     "tokens",
                                                     "images",
                                                     "tables"};

/* ---- scratch of a device ----------------------------------------------------------------------------------------- */

/* A read callback that delivers nothing: the device computes nothing. */
static ls_status no_tokens(void *ctx, size_t begin, size_t end, int32_t *ids, int32_t *targets) {
    (void)ctx, (void)begin, (void)end, (void)ids, (void)targets;
    return LS_OK;
}

/* An images callback that delivers nothing. */
static ls_status no_images(void *ctx, size_t begin, size_t end, float *pixels, int32_t *classes) {
    (void)ctx, (void)begin, (void)end, (void)pixels, (void)classes;
    return LS_OK;
}

ls_partition_feed ls_dry_feed(void) { return (ls_partition_feed){.read = no_tokens, .images = no_images}; }

/* Runs the actions of a pipeline stage, except for micro-batches in the middle, which need the same memory and
 * operations as their neighbours. */
static ls_status run_actions(ls_partition *partition, int stage) {
    enum { FIRST = 6, LAST = 2 };
    const ls_schedule *schedule = ls_partition_schedule(partition);
    const ls_partition_feed feed = ls_dry_feed();
    for (int i = 0; i < schedule->count[stage]; i++) {
        const ls_action *action = &schedule->actions[stage][i];
        if (action->micro >= FIRST && action->micro < schedule->micros - LAST) continue;
        LS_TRY(ls_partition_run_action(partition, action, &feed));
    }
    return LS_OK;
}

ls_status ls_dry_update(const ls_settings *settings, ls_partition *partition, ls_device *device) {
    ls_exact_sum squares;
    ls_update_step by = {.rule = settings->optimizer.kind};
    ls_optimizer_update update = {.step = {by, by}};
    memset(&squares, 0, sizeof squares);
    LS_TRY(ls_partition_finish_grads(partition));
    LS_TRY(ls_partition_square_norm(partition, NULL, &squares, NULL));
    return ls_optimizer_step(&update, device, &settings->policy, ls_partition_model(partition));
}

/* Hashes all weights once, because this operation needs scratch, too. */
static ls_status hash_weights(const ls_model *model, ls_device *device) {
    for (int i = 0; i < ls_model_params(model); i++) {
        const ls_param *p = ls_model_param(model, i);
        if (p->held) LS_TRY(device->ops->hash(device, &(ls_hash_call){NULL, p->w, ls_param_elems(p) * sizeof(float)}));
    }
    return LS_OK;
}

/* What a partition does on a device that computes nothing. */
typedef struct dry_work {
    const ls_settings *settings; /* of a step; NULL: it evaluates, or generates */
    bool generates;
} dry_work;

/* Runs all operations of a training step. */
static ls_status run_step(const dry_work *work, ls_partition *partition, ls_device *device) {
    LS_TRY(run_actions(partition, ls_partition_setup_of(partition)->place.pp));
    LS_TRY(ls_dry_update(work->settings, partition, device));
    return hash_weights(ls_partition_model(partition), device);
}

/* Runs generation as its first and its later calls do: with all T tokens, then with one more. */
static ls_status run_extend(ls_partition *partition) {
    size_t T = ls_partition_setup_of(partition)->T, V = ls_partition_model(partition)->shape.V;
    int32_t *ids = calloc(T, sizeof *ids);
    float *logits = calloc(V, sizeof *logits);
    ls_status status = ids && logits ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for %zu tokens", T);
    if (status == LS_OK) status = ls_partition_extend(partition, 0, T, ids, logits);
    if (status == LS_OK && T > 1 && ls_partition_keeps_keys(partition))
        status = ls_partition_extend(partition, T - 1, 1, ids, logits);
    free(ids);
    free(logits);
    return status;
}

/* Runs forward on a batch, as an evaluation does. */
static ls_status run_evaluate(ls_partition *partition) {
    const ls_partition_setup *setup = ls_partition_setup_of(partition);
    const ls_partition_feed feed = ls_dry_feed();
    bool images = ls_shape_sees_images(&ls_partition_model(partition)->shape);
    ls_loss_sum loss = {0};
    int64_t right = 0;
    return ls_partition_evaluate(partition, setup->B, images ? 1 : setup->T, &feed, &loss, images ? &right : NULL);
}

/* Runs `work` on a device without hardware of the kind `name`, and sets align, scratch_bytes and apart of the setup by
 * what that used. Does nothing for a CPU. */
static ls_status reserve(const ls_shape *shape, int slices, const char *name, const dry_work *work,
                         ls_partition_setup *setup) {
    enum { LEAST_BYTES = 1 << 10 }; /* for operations outside a step, on a few numbers */
    ls_model *model = NULL;
    ls_partition *partition = NULL;
    ls_device *device;
    ls_device_usage usage = {0};
    ls_status status = LS_OK;
    LS_TRY(ls_device_open_dry(name, &setup->align, &device));
    if (!device) return LS_OK;
    setup->apart = true;
    ls_partition_setup alone = *setup;
    alone.world = NULL;
    alone.mesh = NULL;
    LS_TRY_OUT(ls_model_create(shape, slices, &model));
    LS_TRY_OUT(ls_partition_create(model, device, &alone, &partition));
    LS_TRY_OUT(work->settings    ? run_step(work, partition, device)
               : work->generates ? run_extend(partition)
                                 : run_evaluate(partition));
    LS_TRY_OUT(ls_device_get_usage(device, &usage));
    setup->scratch_bytes = usage.scratch > LEAST_BYTES ? usage.scratch : LEAST_BYTES;
out:
    ls_partition_destroy(partition);
    ls_model_destroy(model);
    ls_device_destroy(device);
    return status;
}

ls_status ls_dry_reserve(const ls_settings *settings, ls_partition_setup *setup) {
    return reserve(&settings->shape, settings->slices, settings->options.device, &(dry_work){.settings = settings},
                   setup);
}

ls_status ls_dry_reserve_forward(const ls_shape *shape, int slices, const char *device, bool generates,
                                 ls_partition_setup *setup) {
    return reserve(shape, slices, device, &(dry_work){.generates = generates}, setup);
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

/* Returns the bytes of weights and optimizer state that a worker writes into a checkpoint; `model` was measured for
 * this worker. */
static size_t snapshot_bytes(const ls_settings *settings, const ls_model *model) {
    size_t elems = 0;
    for (int i = 0; i < model->nparams; i++)
        if (model->params[i]->held) elems += ls_param_range_elems(model->params[i]->once);
    return elems * (1 + (size_t)ls_optimizer_moments(&settings->optimizer)) * sizeof(float);
}

/* Adds to *out the memory that makes updates of one worker's tensors recoverable after a loss: the journal of a CPU
 * worker, and, if `own` is false, copies of another worker's state. `model` has the parts of the worker that owns
 * them. */
static void add_kept(const ls_settings *s, const ls_layout *layout, const ls_model *model, bool own,
                     ls_dry_worker *out) {
    size_t elems = 0, cells = 0;
    for (int i = 0; i < model->nparams; i++) {
        const ls_param *p = model->params[i];
        if (!p->held || !(own || ls_copies_are_of(layout, p))) continue;
        elems += ls_param_range_elems(p->own);
        cells += ls_journal_cells(ls_param_range_elems(p->own));
    }
    int threads = s->options.threads > 0 ? (int)s->options.threads : ls_cpu_count() / ls_layout_workers(layout);
    if (!ls_device_is_gpu(s->options.device) && elems > 0)
        out->journal += cells * sizeof(ls_journal_cell) + (size_t)(threads > 1 ? threads : 1) * sizeof(ls_journal_slot);
    if (!own) out->copies = ls_copies_bytes(s, layout, model);
}

/* Adds the copies that this worker keeps of another worker's state (--state-copies), if any. */
static ls_status measure_copies(const ls_settings *s, const ls_layout *layout, int rank, ls_dry_worker *out) {
    int of = s->options.state_copies > 0 ? ls_copies_keeps(layout, rank, 1) : -1;
    ls_model *model = NULL;
    ls_arena arena;
    if (of < 0) return LS_OK;
    LS_TRY(ls_model_create(&s->shape, s->slices, &model));
    ls_partition_setup setup = ls_trainer_setup(s, layout, of);
    ls_status status = ls_partition_measure(model, &setup, &arena);
    if (status == LS_OK) add_kept(s, layout, model, false, out);
    ls_model_destroy(model);
    return status;
}

ls_status ls_dry_measure(const ls_settings *settings, const ls_layout *layout, int rank, ls_dry_worker *out) {
    ls_model *model = NULL;
    ls_arena arena;
    LS_TRY(ls_model_create(&settings->shape, settings->slices, &model));
    ls_partition_setup setup = ls_trainer_setup(settings, layout, rank);
    ls_layout_task task = ls_trainer_task(settings, model);
    ls_status status = ls_dry_reserve(settings, &setup);
    if (status == LS_OK) status = ls_partition_measure(model, &setup, &arena);
    *out = (ls_dry_worker){.place = setup.place};
    if (status == LS_OK) {
        out->arena = arena.peak;
        out->snapshot = snapshot_bytes(settings, model);
        for (int k = 0; k < LS_DRY_KINDS; k++) out->kind[k] = ls_arena_kind_bytes(&arena, ls_dry_kind_names[k]);
        add_kept(settings, layout, model, true, out);
        out->outside = ls_predict_outside_bytes(&task, layout, setup.place, &ls_kernels_get()->gemm);
        status = measure_copies(settings, layout, rank, out);
    }
    ls_model_destroy(model);
    return status;
}

/* Measures worker `rank` with its traffic, and adds it to the totals. */
static ls_status add_worker(ls_dry_run *dry, const ls_layout_task *task, int rank) {
    ls_dry_worker *worker = &dry->worker[rank];
    LS_TRY(ls_dry_measure(dry->settings, &dry->layout, rank, worker));
    LS_TRY(ls_traffic_of_step(task, &dry->layout, worker->place, &worker->traffic));
    dry->arena += worker->arena;
    dry->outside += worker->outside;
    dry->snapshot += worker->snapshot;
    dry->copies += worker->copies;
    dry->journal += worker->journal;
    ls_traffic_add(&dry->traffic, &worker->traffic);
    return LS_OK;
}

ls_status ls_dry_run_make(const ls_settings *s, const ls_layout *layout, ls_dry_run *out) {
    ls_status status = LS_OK;
    ls_model *model = NULL;
    *out = (ls_dry_run){.settings = s, .layout = *layout};
    if (layout->micro == 0) LS_TRY(ls_trainer_choose_micro(NULL, s, &out->layout));
    out->workers = ls_layout_workers(layout);
    out->worker = calloc((size_t)out->workers, sizeof *out->worker);
    out->micros = calloc((size_t)layout->dp, sizeof *out->micros);
    if (!out->worker || !out->micros) return ls_fail(LS_ERR_RESOURCE, "out of memory for %d workers", out->workers);
    LS_TRY(ls_model_create(&s->shape, s->slices, &model));
    ls_layout_task task = ls_trainer_task(s, model);
    for (int r = 0; r < out->workers; r++) LS_TRY_OUT(add_worker(out, &task, r));
    LS_TRY_OUT(ls_micro_counts(&out->layout, s->B, s->groups, out->micros, &out->row));
    LS_TRY_OUT(ls_predict_schedule(&task, &out->layout, out->row, &out->schedule, &out->simulation));
out:
    ls_model_destroy(model);
    return status;
}

void ls_dry_free(ls_dry_run *dry) {
    ls_simulation_free(&dry->simulation);
    ls_schedule_free(&dry->schedule);
    free(dry->worker);
    free(dry->micros);
}

double ls_dry_bubble(const ls_dry_run *dry) {
    double busy = 0, all = dry->simulation.seconds * dry->simulation.stages;
    for (int s = 0; s < dry->simulation.stages; s++) busy += dry->simulation.busy[s];
    return all > 0 ? 1 - busy / all : 0;
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

/* Returns whether every type is fp32. */
static bool is_plain(const ls_policy *p) { return p->act == LS_F32 && p->reduce == LS_F32 && p->accumulate == LS_F32; }

/* Appends a row; the texts must be constants. */
static void add_type_row(ls_dry_types *types, const char *what, const char *type, const char *why) {
    types->row[types->count++] = (ls_dry_type){what, type, why};
}

/* Appends the rows of weights, master weights and vectors. */
static void add_weights(const ls_policy *p, ls_dry_types *types) {
    add_type_row(types, "weights in products", ls_dtype_word(p->act),
                 ls_policy_is_16(p) ? "half the bytes to read and to all-gather; rounded again after every update"
                                    : "there is no other copy");
    if (!ls_policy_is_16(p)) return;
    if (p->no_master)
        add_type_row(types, "master weights", "none",
                     "--no-master-weights: an update below half a step of the weight is lost");
    else
        add_type_row(types, "master weights", "fp32",
                     "most updates are smaller than a 16-bit step of the weight, and would be lost");
    add_type_row(types, "vectors and positions", "fp32",
                 "norms, biases, position embeddings: few numbers, and not operands of matmuls");
}

/* Appends the rows of weight gradients and of gradients as workers exchange them. */
static void add_gradients(const ls_policy *p, ls_dry_types *types) {
    if (p->accumulate == LS_F32)
        add_type_row(types, "weight gradients", "fp32", "sums over all tokens of a group, and over groups");
    else
        add_type_row(types, "weight gradients", ls_dtype_word(p->accumulate),
                     "--accumulate-dtype: rounded after every sequence; small ones are lost");
    add_type_row(types, "leaves on the wire", ls_dtype_word(p->reduce),
                 p->reduce == LS_F32
                     ? "the complete gradient of a group; --reduce-dtype bf16 would send half the bytes"
                     : "the complete gradient of a group, rounded once in every layout; sums of groups are fp32");
}

ls_dry_types ls_dry_types_of(const ls_policy *p) {
    ls_dry_types types = {.precision = ls_dtype_word(p->act), .unit = ls_unit_name(p->unit)};
    if (is_plain(p)) {
        add_type_row(&types, "everything", "fp32", "--precision fp32");
        return types;
    }
    add_weights(p, &types);
    add_type_row(&types, "activations", ls_dtype_word(p->act),
                 ls_policy_is_16(p)
                     ? "operands and results of matmuls, and their gradients; rounded once, after sum and bias"
                     : "operands and results of matmuls, and their gradients");
    add_type_row(&types, "residual stream", "fp32",
                 "every block adds to it and to its gradient, so rounding errors would add up over the layers");
    bool half_logits = ls_policy_is_16(p) && ls_unit_is_tensor_core(p->unit);
    add_type_row(&types, "softmax, norms, loss", "fp32",
                 half_logits ? "sums and exponentials of a whole row; attention scores too"
                             : "sums and exponentials of a whole row; logits and attention scores too");
    if (half_logits)
        add_type_row(&types, "logits", ls_dtype_word(p->act),
                     "as tensor cores write them: the loss reads half the bytes");
    add_gradients(p, &types);
    add_type_row(&types, "sums between workers", "fp32",
                 "partial sums are never rounded, because the bits would then depend on the layout");
    add_type_row(&types, "optimizer state", "fp32",
                 "running averages over many steps, of numbers that differ widely in magnitude");
    return types;
}
