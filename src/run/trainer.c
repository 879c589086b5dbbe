/* trainer.c: creates a trainer from settings (samplers, micro-batch, memory, partition, guards), evaluates, and passes
 * its state to recovery. step/ has the training step. */
#include "run/trainer.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "comm/world/world.h"
#include "device/choose.h"
#include "device/unit_check.h"
#include "model/model.h"
#include "parallel/layout/micro_batches.h"
#include "parallel/partition/state_sum.h"
#include "run/agree.h"
#include "run/dry_run.h"
#include "run/guard/state_check.h"
#include "run/recover/copies.h"
#include "run/state_hash.h"

/* ---- making ------------------------------------------------------------------------------------------------------ */

ls_layout_task ls_trainer_task(const ls_settings *s, const ls_model *model) {
    return (ls_layout_task){.model = model,
                            .B = s->B,
                            .T = s->T,
                            .G = s->groups,
                            .policy = s->policy,
                            .checks_replicas = s->options.check >= LS_CHECK_REPLICAS,
                            .ghost = s->ghost,
                            .bn_sync = s->bn_sync};
}

ls_partition_setup ls_trainer_setup(const ls_settings *s, const ls_layout *layout, int rank) {
    return (ls_partition_setup){.train = true,
                                .leaves = ls_settings_watch_groups(s),
                                .watches = ls_watch_choose(s, layout) == LS_WATCH_ON,
                                .numerics = s->options.numerics > 0,
                                .checks_state = ls_check_choose(s, layout) == LS_CHECK_STATE,
                                .checks_shards = s->options.check == LS_CHECK_STATE,
                                .sums_state = s->options.check >= LS_CHECK_REPLICAS,
                                .audits = s->options.audit > 0,
                                .apart = ls_device_is_apart(s->options.device),
                                .policy = s->policy,
                                .B = s->B,
                                .T = s->T,
                                .G = s->groups,
                                .moments = ls_optimizer_moments(&s->optimizer),
                                .ghost = s->ghost,
                                .bn_sync = s->bn_sync,
                                .dropout = s->options.dropout,
                                .seed = s->options.seed,
                                .layout = *layout,
                                .place = ls_layout_place(layout, rank)};
}

/* Sets *out to whether all workers of the layout fit into memory: on their GPUs, if `room` knows these, else all
 * together into that of this machine, with a margin of a sixteenth. */
static ls_status fits(const ls_room *room, const ls_settings *settings, const ls_layout *layout, bool *out) {
    size_t bytes = 0, each[LS_WORKERS_MAX];
    bool on_devices = room && room->known;
    for (int rank = 0; rank < ls_layout_workers(layout); rank++) {
        ls_dry_worker worker;
        LS_TRY(ls_dry_measure(settings, layout, rank, &worker));
        bytes += worker.arena + worker.arena / 16 + worker.copies + worker.journal;
        if (on_devices) each[rank] = worker.arena + worker.copies;
    }
    *out = (on_devices ? ls_room_check(room, each) : ls_memory_check(bytes)) == LS_OK;
    return LS_OK;
}

/* Returns the largest useful micro-batch, in sequences: the largest share of the batch that a replica has. In a
 * pipeline, unless its schedule is naive or --bn sync needs the whole share at once, a fraction of it, because several
 * micro-batches per stage keep the bubble small. */
static size_t largest_micro(const ls_settings *s, const ls_layout *layout) {
    enum { MICROS_PER_STAGE = 4 };
    size_t most = ls_layout_largest_share(layout, s->B, s->groups);
    if (s->bn_sync || layout->pp == 1 || layout->schedule == LS_SCHEDULE_NAIVE) return most;
    size_t micros = (size_t)(MICROS_PER_STAGE * layout->pp);
    return most > micros ? most / micros : 1;
}

/* Rounds a micro-batch down to whole ghost groups (the images over which batch norm takes its statistics), at least
 * one. */
static size_t whole_ghosts(const ls_settings *s, size_t micro) {
    return s->ghost == 0 ? micro : micro < s->ghost ? s->ghost : micro / s->ghost * s->ghost;
}

ls_status ls_trainer_choose_micro(const ls_room *room, const ls_settings *settings, ls_layout *layout) {
    size_t most = largest_micro(settings, layout);
    size_t least = settings->bn_sync ? most : settings->ghost > 0 ? settings->ghost : 1;
    for (size_t micro = most;; micro = (micro + 1) / 2) {
        bool fit = true;
        layout->micro = whole_ghosts(settings, micro);
        if (layout->micro > least) LS_TRY(fits(room, settings, layout, &fit));
        if (fit) return LS_OK;
    }
}

/* Lets rank 0 choose the micro-batch for all workers, if the layout has none, because the available memory differs from
 * one reading to the next. Collective. */
static ls_status agree_on_micro(ls_trainer *t) {
    uint64_t micro = t->layout.micro;
    if (micro == 0 && t->rank == 0) LS_TRY(ls_trainer_choose_micro(&t->room, &t->settings, &t->layout));
    micro = t->layout.micro;
    if (t->world) LS_TRY(ls_comm_broadcast(ls_world_comm(t->world), 0, &micro, sizeof micro));
    t->layout.micro = (size_t)micro;
    return LS_OK;
}

/* Checks that all workers have enough device memory; LS_ERR_RESOURCE on all. Collective; must precede the first
 * allocation of any worker. */
static ls_status check_room(ls_trainer *t, const ls_partition_setup *setup) {
    size_t all[LS_WORKERS_MAX], each[LS_WORKERS_MAX];
    ls_arena arena;
    if (!t->room.known) return LS_OK;
    LS_TRY(ls_partition_measure(t->model, setup, &arena));
    for (int r = 0; r < t->room.workers; r++) each[r] = sizeof *all;
    all[0] = arena.peak;
    if (t->world) LS_TRY(ls_comm_all_gather(ls_world_comm(t->world), &arena.peak, all, each));
    return ls_room_check(&t->room, all);
}

/* Creates model, mesh and partition, after micro-batch and memory were agreed on. Collective. */
static ls_status make_partition(ls_trainer *t) {
    LS_TRY(ls_model_create(&t->settings.shape, t->settings.slices, &t->model));
    LS_TRY(ls_room_gather(t->world, t->device, &t->room));
    LS_TRY(agree_on_micro(t));
    if (t->world) LS_TRY(ls_mesh_create(t->world, t->layout.dp, t->layout.tp, t->layout.pp, &t->mesh));
    ls_partition_setup setup = ls_trainer_setup(&t->settings, &t->layout, t->rank);
    LS_TRY(ls_dry_reserve(&t->settings, &setup));
    LS_TRY(check_room(t, &setup));
    setup.world = t->world;
    setup.mesh = t->mesh;
    return ls_partition_create(t->model, t->device, &setup, &t->partition);
}

/* Allocates the words of the collective after backward, the checksums of each tensor of the state if the partition
 * makes them, and the input buffers. */
static ls_status alloc_buffers(ls_trainer *t) {
    int params = t->model->nparams;
    t->sums = calloc(ls_trainer_sums(t), sizeof *t->sums);
    if (!t->sums) return ls_fail(LS_ERR_RESOURCE, "out of memory for the sums of a step");
    if (ls_partition_sums_state(t->partition)) {
        t->state.parts = calloc((size_t)params * LS_STATE_TENSORS, sizeof *t->state.parts);
        if (!t->state.parts) return ls_fail(LS_ERR_RESOURCE, "out of memory for the sums of %d parameters", params);
    }
    return ls_trainer_open_input(t);
}

ls_status ls_trainer_create(const ls_settings *settings, const ls_trainer_place *place, const ls_trainer_data *data,
                            ls_trainer **out) {
    *out = NULL;
    ls_status status = LS_OK;
    ls_trainer *t = calloc(1, sizeof *t);
    if (!t) return ls_fail(LS_ERR_RESOURCE, "out of memory for a trainer");
    t->settings = *settings;
    t->layout = place->layout;
    t->device = place->device;
    t->settings.options.device = t->device->name;
    if (place->world && ls_world_size(place->world) > 1) t->world = place->world;
    t->rank = t->world ? ls_world_rank(t->world) : 0;
    t->threads = place->world ? ls_world_threads(place->world) : 1;
    t->input.data = *data;
    t->last_loss = (double)NAN;
    t->state.step = -1;
    t->validation = ls_validation_start();
    t->scale = ls_loss_scale_start(&settings->loss_scale);
    LS_TRY_OUT(ls_trainer_open_samplers(t));
    if (settings->options.early_stop > 0 && !t->input.has_val) {
        status = ls_fail(
            LS_ERR_INPUT,
            "--early-stop %lld needs validation data, and there is none: add --val-data, or --val-fraction with "
            "enough data to hold back",
            (long long)settings->options.early_stop);
        goto out;
    }
    LS_TRY_OUT(ls_device_check_unit(t->device, settings->policy.unit, settings->policy.act));
    LS_TRY_OUT(make_partition(t));
    ls_step_checks_open(t);
    LS_TRY_OUT(
        ls_guard_open(&t->guard, settings, ls_watch_choose(settings, &t->layout) == LS_WATCH_ON, t->model->nblocks));
    LS_TRY_OUT(ls_contribution_open(&t->guard.contribution, settings, &t->layout));
    if (t->guard.contribution.workers > 0) ls_partition_watch_contribution(t->partition, t->guard.contribution.share);
    LS_TRY_OUT(ls_audit_open(&t->guard.audit, settings, &t->layout, t->model));
    LS_TRY_OUT(ls_worker_time_open(&t->time, t->world));
    LS_TRY_OUT(alloc_buffers(t));
    t->recover = (ls_recover){.settings = &t->settings,
                              .layout = &t->layout,
                              .room = &t->room,
                              .device = t->device,
                              .world = t->world,
                              .mesh = t->mesh,
                              .model = t->model,
                              .partition = t->partition,
                              .rank = t->rank,
                              .threads = t->threads,
                              .marked = -1};
    *out = t;
    return LS_OK;
out:
    if (t->world)
        ls_world_fail(t->world,
                      status); /* otherwise the communicators would wait for the other workers when they end */
    ls_trainer_destroy(t);
    return status;
}

void ls_trainer_destroy(ls_trainer *t) {
    if (!t) return;
    ls_guard_close(&t->guard);
    ls_copies_close(&t->recover);
    ls_partition_destroy(t->partition);
    ls_mesh_destroy(t->mesh);
    ls_model_destroy(t->model);
    ls_worker_time_close(&t->time);
    free(t->sums);
    free(t->state.parts);
    ls_trainer_close_input(t);
    free(t);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

ls_status ls_trainer_is_finite(ls_trainer *t, bool *out) {
    int param;
    LS_TRY(ls_partition_bad_state(t->partition, &param));
    *out = param < 0;
    return LS_OK;
}

void ls_trainer_set_asked(ls_trainer *t, ls_trainer_asked asked) {
    t->asked = asked;
    ls_partition_ask(t->partition, asked.gives_up, asked.ctx);
}

ls_status ls_trainer_has_given_up(ls_trainer *t, bool *out) {
    int64_t workers = ls_partition_end_skip(t->partition);
    *out = false;
    if (t->asked.gives_up) LS_TRY(ls_partition_sum(t->partition, &workers, 1));
    *out = workers > 0;
    return LS_OK;
}

ls_status ls_trainer_evaluate(ls_trainer *t, int64_t batches, double *loss, double *right) {
    const ls_settings *s = &t->settings;
    uint64_t samples = (uint64_t)batches * s->B;
    ls_partition_feed feed = ls_trainer_validation_feed(t);
    ls_loss_sum sum = {0};
    int64_t hits = 0;
    assert(t->input.has_val);
    if (samples > t->input.val_sampler.windows) samples = t->input.val_sampler.windows;
    ls_status status =
        ls_partition_evaluate(t->partition, (size_t)samples, s->T, &feed, &sum, t->input.data.images ? &hits : NULL);
    if (status != LS_OK) (void)ls_partition_end_skip(t->partition);
    LS_TRY(status);
    bool gave_up;
    LS_TRY(ls_trainer_has_given_up(t, &gave_up));
    if (gave_up) return LS_TRAINER_GAVE_UP;
    LS_TRY(ls_partition_sum(t->partition, (int64_t *)&sum, sizeof sum / sizeof(int64_t)));
    if (t->input.data.images) LS_TRY(ls_partition_sum(t->partition, &hits, 1));
    *right = t->input.data.images ? (double)hits / (double)samples : -1;
    *loss = sum.bad ? (double)NAN : ls_loss_sum_mean(&sum);
    return LS_OK;
}

/* ---- recovery ---------------------------------------------------------------------------------------------------- */

ls_left_numbers ls_trainer_numbers(const ls_trainer *t) {
    ls_left_numbers n = {.step = t->step,
                         .base_step = t->origin.step,
                         .lr_start = t->origin.lr_start,
                         .updates = t->updates,
                         .base_samples = t->origin.samples,
                         .last_loss = t->last_loss,
                         .validation = t->validation,
                         .scale = t->scale,
                         .audits = t->guard.audit.counted,
                         .audited_step = t->guard.audit.clean_step,
                         .saved_step = -1};
    ls_noise_save(&t->guard.noise, n.noise);
    if (t->guard.outlier) ls_outlier_save(t->guard.outlier, n.outlier);
    return n;
}

/* Restores what ls_trainer_numbers() returned; LS_ERR_INPUT if the guards' history in it is damaged. */
static ls_status set_numbers(ls_trainer *t, const ls_left_numbers *n) {
    t->step = n->step;
    t->origin.step = n->base_step;
    t->origin.lr_start = n->lr_start;
    t->updates = n->updates;
    t->origin.samples = n->base_samples;
    t->last_loss = n->last_loss;
    t->validation = n->validation;
    t->scale = n->scale;
    t->guard.audit.counted = n->audits;
    t->guard.audit.clean_step = n->audited_step;
    LS_TRY(ls_noise_restore(&t->guard.noise, n->noise));
    return t->guard.outlier ? ls_outlier_restore(t->guard.outlier, n->outlier) : LS_OK;
}

ls_status ls_trainer_take_over(ls_trainer *t, ls_world *world, ls_left_numbers *out) {
    LS_TRY(ls_left_take(&t->recover, world, out));
    ls_status status = ls_agree(t->world, set_numbers(t, out));
    if (status != LS_OK) ls_left_forget(&t->recover);
    return status;
}

ls_status ls_trainer_begin_recovery(ls_trainer *t, const ls_left_numbers *taken) {
    if (!t->recover.kept) return LS_OK;
    if (!t->device->is_host) LS_TRY(ls_trainer_state_written(t)); /* the sums before the first update */
    return ls_left_begin(&t->recover, ls_trainer_numbers(t), taken);
}
