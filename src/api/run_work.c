/* run_work.c: the part of a training run that each worker executes: set-up, beginning or recovery, the caller's
 * function, clean-up; and the calls of lockstep.h that the caller makes in each worker. Rank 0 owns the folder, and
 * reports. `first` means rank 0. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/run.h"
#include "api/options.h"
#include "base/alive.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/files.h"
#include "base/fpenv.h"
#include "base/log.h"
#include "comm/transports/grace.h"
#include "comm/world/status_page.h"
#include "comm/movers/tensors.h"
#include "comm/world/world.h"
#include "interop/copies.h"
#include "observe/trace.h"
#include "run/agree.h"
#include "run/recover/copies.h"
#include "run/speed.h"
#include "run/stop.h"

/* ---- set-up ------------------------------------------------------------------------------------------------------ */

/* Opens the data unless it was inherited: rank 0 before the others, because it tokenizes texts that are not yet in the
 * cache. Collective. */
static ls_status open_data(ls_run *r, ls_world *world) {
    if (r->data.corpus || r->data.images) return LS_OK;
    if (ls_world_rank(world) == 0) LS_TRY(ls_run_open_data(r));
    LS_TRY(ls_comm_barrier(ls_world_comm(world)));
    return r->data.corpus || r->data.images ? LS_OK : ls_run_open_data(r);
}

/* Measures the replicas and makes the layout again with shares (gradient groups per replica) by speed, for --shares
 * auto; until then shares are equal. Does nothing otherwise. Collective. */
static ls_status share_by_speed(ls_run *r, ls_world *world) {
    bool is_auto = r->request.shares && strcmp(r->request.shares, "auto") == 0;
    if (!is_auto || r->layout.dp == 1 || r->has_shares) return LS_OK;
    LS_TRY(ls_speed_of_rows(world, r->device, &r->settings.shape, &r->layout, r->speeds));
    r->request.speeds = r->speeds;
    return ls_run_make_layout(r);
}

/* Frees shared memory of the previous attempt's workers that is not needed to recover, before the free memory is read.
 * All workers do it in parallel, because freeing pages takes the kernel time. Collective. */
static ls_status trim_previous_memory(ls_world *world) {
    const ls_attempt *attempt = ls_world_attempt(world);
    if (!attempt || !attempt->before.base) return LS_OK;
    ls_left_trim(&attempt->before, ls_world_rank(world), ls_world_size(world));
    return ls_comm_barrier(ls_world_comm(world));
}

/* Opens the device and creates the trainer of this worker. Collective. */
static ls_status create_trainer(ls_run *r, ls_world *world) {
    LS_TRY(trim_previous_memory(world));
    if (r->launched && strcmp(r->options.device, "auto") == 0) LS_TRY(ls_agree_device(world, &r->chosen));
    LS_TRY(ls_world_open_device(world, r->chosen.name, NULL, &r->device));
    LS_TRY(ls_device_use_graphs(r->device, r->options.cuda_graphs));
    LS_TRY(share_by_speed(r, world));
    ls_trainer_place place = {.device = r->device, .world = world, .layout = r->layout};
    LS_TRY(ls_trainer_create(&r->settings, &place, &r->data, &r->trainer));
    LS_TRY(ls_copies_open(&r->trainer->recover, world));
    return ls_left_open(&r->trainer->recover, world);
}

/* ---- where the run begins ---------------------------------------------------------------------------------------- */

/* Loads the initial state of the run into the trainer: resumed, forked, from weights, or from the seed. Collective. */
static ls_status begin_run(ls_run *r) {
    if (r->options.resume) {
        bool anew;
        return ls_run_start_resume(r->trainer, r->store, r->dir, r->start.weights, r->identity, &anew);
    }
    if (r->options.fork) return ls_run_start_fork(r->trainer, r->start.weights, r->identity, &r->parent_identity);
    if (r->start.weights) return ls_run_start_weights(r->trainer, r->start.weights, r->identity);
    return ls_run_start_seed(r->trainer);
}

/* Opens the store of checkpoints for writing and sets which of them are kept. Rank 0. */
static ls_status open_store(ls_run *r) {
    LS_TRY(ls_store_open(r->out, LS_STORE_WRITE, &r->store));
    ls_store_set_keep(r->store, (int)r->settings.options.keep);
    ls_store_set_keep_every(r->store, r->settings.options.keep_every);
    return LS_OK;
}

/* Writes identity, options and layout into the folder. Creates checkpoints/ of a new run after its identity, so that a
 * run killed in between does not look like one. Rank 0. */
static ls_status write_beginning(ls_run *r) {
    const ls_options *o = &r->options;
    ls_run_parent parent = {.path = o->fork, .step = r->trainer->step, .identity = r->parent_identity};
    LS_TRY(ls_run_dir_begin(r->dir, r->identity, o, LS_COMMAND_TRAIN, o->fork ? &parent : NULL));
    LS_TRY(ls_run_dir_write_layout(r->dir, ls_layout_to_json(&r->trainer->layout)));
    return o->resume ? LS_OK : open_store(r);
}

/* Has the store add files of `folder` that came with the model, and that the tokenizer code does not handle, to every
 * checkpoint, so that export writes them again. With --tokenizer only the generation config is carried, not the files
 * of the model's own tokenizer. */
static ls_status carry_from(ls_run *r, const char *folder) {
    static const char *const names[] = {LS_GENERATION_CONFIG, "chat_template.jinja", "added_tokens.json",
                                        "tokenizer.model"};
    size_t count = r->options.tokenizer ? 1 : sizeof names / sizeof *names;
    for (size_t i = 0; i < count; i++) LS_TRY(ls_store_carry(r->store, folder, names[i]));
    return LS_OK;
}

/* Carries such files from the checkpoint that is resumed, else from the source of the weights, else none. Rank 0. */
static ls_status carry_files(ls_run *r) {
    ls_path own = ls_store_folder(r->store, r->trainer->step);
    if (r->options.resume && ls_file_exists(own.text)) return carry_from(r, own.text);
    return r->start.weights ? carry_from(r, ls_weights_path(r->start.weights)) : LS_OK;
}

/* Restarts from the newest sound checkpoint, or from the beginning, because the state that the previous workers left is
 * incomplete; logs the last failure's message as the reason. */
static ls_status recover_saved(ls_run *r) {
    bool first = r->trainer->rank == 0, anew;
    if (first) ls_log_warn("%s; the run goes back to its newest whole checkpoint", ls_status_message());
    LS_TRY(ls_run_start_resume(r->trainer, r->store, r->dir, r->start.weights, r->identity, &anew));
    r->taken = (ls_left_numbers){.saved_step = r->trainer->step > 0 ? r->trainer->step : -1, .settled = true};
    if (first && r->trainer->step > 0)
        ls_log_warn("the run goes on from step %lld, which was saved", (long long)r->trainer->step);
    return LS_OK;
}

/* Restarts the run because the previous workers found wrong numbers: renames the checkpoints after blame->sound_step,
 * the last verified step, to step-N.aside (rank 0, which has the store), and restores the newest of the others; without
 * one, the run starts from the beginning. Collective. */
static ls_status recover_sound(ls_run *r, const ls_wrong *blame) {
    LS_TRY(ls_agree(r->trainer->world, r->store ? ls_store_rewind(r->store, blame->sound_step) : LS_OK));
    (void)ls_fail(LS_ERR_INPUT, "what the workers have may be wrong from step %lld on",
                  (long long)blame->sound_step + 1);
    return recover_saved(r);
}

/* Records the event for which the previous workers ended, at the step from which the run continues; their own line was
 * cut off with their last step. Rank 0. */
static ls_status record_blame(const ls_run *r, ls_wrong blame) {
    blame.event.found_step = blame.event.step;
    blame.event.step = r->trainer->step;
    return ls_event_record(&blame.event, r->metrics);
}

/* Opens metrics.jsonl and cuts off lines after `step`. Rank 0. */
static ls_status open_metrics(ls_run *r, int64_t step) {
    LS_TRY(ls_run_dir_open_metrics(r->dir, step, &r->metrics));
    ls_metrics_set_keep(r->metrics, r->options.keep_metrics);
    return LS_OK;
}

/* Continues a run whose worker was lost: from the state that the previous workers left in memory if that is complete
 * and not blamed, else from a checkpoint. Files are cut to the last reported step. Collective. */
static ls_status recover_run(ls_run *r, ls_world *world) {
    bool first = r->trainer->rank == 0;
    if (first) LS_TRY(open_store(r));
    ls_wrong blame = ls_left_blamed(&ls_world_attempt(world)->before);
    bool goes_back = blame.is_found && !blame.in_memory;
    ls_status status = goes_back ? recover_sound(r, &blame) : ls_trainer_take_over(r->trainer, world, &r->taken);
    bool is_missing = !goes_back && (status == LS_ERR_INPUT || status == LS_ERR_PEER);
    if (is_missing && !ls_world_is_abandoned(world)) status = recover_saved(r);
    LS_TRY(status);
    if (!first) return LS_OK;
    LS_TRY(carry_files(r));
    ls_identity_destroy(r->identity);
    r->identity = NULL;
    LS_TRY(ls_run_dir_read_identity(r->dir, &r->identity));
    LS_TRY(ls_run_dir_write_layout(r->dir, ls_layout_to_json(&r->trainer->layout)));
    LS_TRY(open_metrics(r, r->trainer->step - !r->taken.settled));
    return blame.is_found ? record_blame(r, blame) : LS_OK;
}

/* Begins the run in its folder: opens, loads the initial state, writes the beginning. A fork saves its initial state at
 * once, which cannot be reproduced from the options. Collective. */
static ls_status open_run(ls_run *r, ls_world *world) {
    bool first = r->trainer->rank == 0;
    if (first && !r->dir) LS_TRY(ls_run_open_folder(r));
    if (first && r->options.resume) LS_TRY(ls_run_dir_check_checkpoints(r->dir));
    if (first && r->options.resume) LS_TRY(open_store(r));
    if (r->launched) LS_TRY(ls_save_check_shared(world, r->out));
    LS_TRY(begin_run(r));
    if (first) LS_TRY(write_beginning(r));
    if (first) LS_TRY(carry_files(r));
    if (r->launched && !r->is_trial) LS_TRY(ls_ends_begin(&r->ends, world, r->out));
    if (r->options.fork) LS_TRY(ls_save(r->store, r->trainer, r->identity, r->tokenizer));
    return first ? open_metrics(r, r->trainer->step) : LS_OK;
}

/* ---- joining and leaving ----------------------------------------------------------------------------------------- */

/* Returns whether the run ended by plan or because a signal asked for it; then its trace is written, and the worker has
 * not failed. */
static bool is_orderly(ls_status status) { return status == LS_OK || ls_status_is_stop(status); }

/* Sets *flops_s to the peak FLOP/s of all workers' devices together, with the matrix unit in use; all measure at the
 * same time. Collective. */
static ls_status sum_peaks(ls_run *r, double *flops_s) {
    int64_t peak = (int64_t)r->device->ops->peak_flops_s(r->device, r->trainer->settings.policy.unit);
    LS_TRY(ls_partition_sum(r->trainer->partition, &peak, 1));
    *flops_s = (double)peak;
    return LS_OK;
}

/* Extracts "NVIDIA H200" from the description "GPU 0, NVIDIA H200,"; "" if there is none. */
static void find_gpu_name(const ls_device *device, char *out, size_t room) {
    const char *name = device->about ? strstr(device->about, ", ") : NULL;
    name = name ? name + 2 : "";
    (void)snprintf(out, room, "%.*s", (int)strcspn(name, ","), name);
}

/* Writes device.json for `lockstep doctor`, in rank 0: kind, name and number of GPUs, and their peak. A run that
 * continues on a CPU replaces the file; one that never had a GPU has none. */
static ls_status write_device(const ls_run *r) {
    const ls_trainer *t = r->trainer;
    const ls_policy *policy = &t->settings.policy;
    char name[96];
    int gpus = 0;
    if (!r->dir || t->rank > 0) return LS_OK;
    if (!ls_device_is_gpu(r->chosen.name)) {
        if (!ls_run_dir_has_device(r->dir)) return LS_OK;
        return ls_run_dir_write_device(r->dir, json_pack("{s:s}", "device", r->chosen.name));
    }
    find_gpu_name(r->device, name, sizeof name);
    for (int a = 0; a < t->room.workers; a++) {
        int first = 0;
        while (memcmp(t->room.of[first].id, t->room.of[a].id, sizeof t->room.of[a].id) != 0) first++;
        gpus += first == a;
    }
    return ls_run_dir_write_device(
        r->dir, json_pack("{s:s, s:s, s:i, s:i, s:s, s:s, s:f}", "device", r->chosen.name, "gpu", name, "gpus", gpus,
                          "workers", t->room.workers, "precision", ls_dtype_word(policy->act), "matrix_unit",
                          ls_unit_name(policy->unit), "peak_flops_per_second", r->loop.peak_flops_s));
}

/* Fills r->hint and r->agree_hint, which the banner shows, with what another matrix unit would give. A resumed run
 * keeps its unit, whatever the machine has, so it gets no hint for CPUs. Collective. */
static ls_status find_hint(ls_run *r) {
    int64_t having[LS_UNITS];
    const ls_options *o = &r->options;
    bool is_named = o->source[LS_OPT_matrix_unit].origin != LS_ORIGIN_FILE && o->matrix_unit != LS_UNIT_AUTO;
    ls_unit_hint_agree(&r->settings.policy, o->resume || is_named, r->agree_hint);
    ls_unit_hint_device(&r->settings.policy, ls_device_is_gpu(r->device->name), r->hint);
    if (r->options.resume || *r->hint || !ls_unit_hint_is_of_use(&r->settings.policy)) return LS_OK;
    ls_unit_hint_count(having);
    LS_TRY(ls_partition_sum(r->trainer->partition, having, LS_UNITS));
    ls_unit_hint_text(having, ls_layout_workers(&r->trainer->layout), r->hint);
    return LS_OK;
}

/* Fills in r->loop and begins it; measures the peak of the devices, or takes over the previous workers' figure.
 * Collective. */
static ls_status begin_loop(ls_run *r) {
    const ls_options *o = &r->options;
    ls_hash128 hash;
    if (r->tokenizer) LS_TRY(ls_run_encode(r, o->prompt, &r->prompt));
    bool is_supervised = ls_world_attempt(r->world) != NULL;
    r->loop = (ls_loop){.trainer = r->trainer,
                        .record = {.metrics = r->metrics, .folder = r->is_trial ? NULL : r->out},
                        .saves = {.enabled = true, .store = r->store, .identity = r->identity},
                        .sample = {.tokenizer = r->tokenizer,
                                   .options = ls_generate_options_from(o),
                                   .prompt = r->prompt.ids,
                                   .prompt_tokens = r->prompt.count},
                        .shares = {.is_allowed = r->may_share && is_supervised,
                                   .times = r->shared_times,
                                   .last_s = r->shared_s,
                                   .cost_s = ls_clock_seconds() - r->began_s},
                        .world = is_supervised ? r->world : NULL,
                        .taken = r->recovers ? &r->taken : NULL,
                        .recovery = r->recovery,
                        .event = r->setup.event,
                        .event_ctx = r->setup.event_ctx};
    if (r->recovers) r->loop.peak_flops_s = r->taken.peak_flops_s; /* a new set of workers is waited for */
    if (!(r->loop.peak_flops_s > 0)) LS_TRY(sum_peaks(r, &r->loop.peak_flops_s));
    ls_left_note_peak(&r->trainer->recover, r->loop.peak_flops_s);
    LS_TRY(write_device(r));
    LS_TRY(find_hint(r));
    LS_TRY(ls_identity_hash(r->identity, &hash));
    ls_hash_text(hash, r->identity_hash);
    return ls_loop_begin(&r->loop);
}

/* Records in the folder why a launched worker ends with a failure, and which worker is to blame. Once; nothing for
 * forked workers, which a parent watches, and before the first step of a new run. */
static void write_end(ls_run *r, ls_status status) {
    bool has_begun = r->options.resume || (r->trainer && r->trainer->step > 0);
    const ls_trainer *t = r->trainer;
    if (r->launched && has_begun && !is_orderly(status))
        ls_ends_write(&r->ends, r->world, t ? &t->failure.blame : NULL, t ? t->step + 1 : 0, status);
}

/* The function that each worker calls for the caller. */
typedef struct job {
    ls_run *run;
    ls_run_fn fn;
    void *arg;
} job;

/* Sets *path to the file of --trace ("run": trace.json in the folder, formatted into `room`), which rank 0 writes;
 * NULL: no trace. */
static ls_status find_trace(const ls_run *r, char room[PATH_MAX], const char **path) {
    *path = r->options.trace;
    if (!*path || strcmp(*path, "run") != 0) return LS_OK;
    if (snprintf(room, PATH_MAX, "%s/trace.json", r->out) >= PATH_MAX)
        return ls_options_fail(&r->options, LS_OPT_trace, "the path of the run folder is too long");
    *path = room;
    return LS_OK;
}

/* Sets up the worker, calls the caller's function with the run, and ends metrics, status page and trace. Returns the
 * function's status, or the first failure before it. */
static ls_status prepare_and_call(const job *j) {
    ls_run *r = j->run;
    ls_world *world = r->world;
    char room[PATH_MAX];
    const char *trace;
    bool is_supervised = ls_world_attempt(world) != NULL;
    LS_TRY(ls_fault_read(ls_world_rank(world), is_supervised ? world->place : ls_world_rank(world),
                         is_supervised ? ls_world_attempt(world)->number : 0));
    if (r->launched) LS_TRY(ls_start_open_together(world, ls_run_model_name(&r->options), &r->start));
    (void)ls_phase_enter(LS_PHASE_READ);
    LS_TRY(open_data(r, world));
    (void)ls_phase_enter(LS_PHASE_START);
    if (r->launched) LS_TRY(ls_run_start_agree(world, r->identity));
    LS_TRY(create_trainer(r, world));
    r->recovery.made_ns = ls_clock_ns();
    (void)ls_phase_enter(LS_PHASE_LOAD);
    const ls_attempt *attempt = ls_world_attempt(world);
    r->recovers = attempt && attempt->before.base;
    ls_fault_point(LS_POINT_START);
    LS_TRY((r->recovers ? recover_run : open_run)(r, world));
    LS_TRY(ls_copies_fill(&r->trainer->recover));
    r->recovery.taken_ns = ls_clock_ns();
    ls_fault_point(LS_POINT_READY);
    LS_TRY(ls_trainer_begin_recovery(r->trainer, r->recovers ? &r->taken : NULL));
    ls_world_ready(world);
    (void)ls_phase_enter(LS_PHASE_START);
    LS_TRY(find_trace(r, room, &trace));
    LS_TRY(ls_trace_begin(trace));
    LS_TRY(begin_loop(r));
    if (r->dir) ls_status_page_begin(world);
    ls_status_page_set_resizes(is_supervised ? LS_RESIZES_TAKEN
                               : r->launched ? LS_RESIZES_LAUNCHED
                                             : LS_RESIZES_UNSUPERVISED);
    ls_status status = j->fn(r, j->arg);
    if (r->dir) ls_status_page_end(world);
    write_end(r, status); /* now: others wait for less long than a checkpoint that is under way may take */
    ls_loop_end(&r->loop);
    if (!is_orderly(status)) return status;
    char message[LS_MESSAGE_MAX];
    snprintf(message, sizeof message, "%s", ls_status_message());
    LS_TRY(ls_trace_end(world, trace));
    return status == LS_OK ? LS_OK : ls_fail(status, "%s", message);
}

/* Copies the state of this worker's device to shared memory, because another worker is lost, and waits to be killed by
 * the supervisor. Does not return. If the copy fails, less state can be recovered, but no worker is blamed for it. */
static _Noreturn void rescue_and_wait(ls_run *r, ls_world *world) {
    if (r->trainer) (void)ls_left_rescue(&r->trainer->recover, world);
    ls_world_rescued(world);
    for (;;) (void)pause(); /* the supervisor ends it: files and folders are the next worker's now */
}

/* Runs a worker from set-up to clean-up; `arg` is a job. Called in each process that ls_run_workers() starts. */
static ls_status run_worker(ls_world *world, void *arg) {
    const job *j = arg;
    ls_run *r = j->run;
    r->world = world;
    r->began_s = ls_clock_seconds();
    ls_fpenv_set();
    ls_status status = prepare_and_call(j);
    if (ls_world_is_abandoned(world)) rescue_and_wait(r, world);
    write_end(r, status);
    ls_status closed = ls_metrics_close(r->metrics);
    if (status == LS_OK) status = closed;
    if (!is_orderly(status))
        ls_world_fail(world, status); /* or the others would be waited for while communicators end */
    ls_tokens_fini(&r->prompt);
    ls_trainer_destroy(r->trainer);
    ls_store_close(r->store);
    /* Here too: of forked workers the first one has made the folder, and the parent does not know. A supervisor made
     * it, and may have other workers go on there. */
    if (status != LS_OK && ls_world_rank(world) == 0 && !ls_world_attempt(world)) ls_run_abandon(r);
    ls_device_destroy(r->device);
    ls_identity_destroy(r->parent_identity);
    r->trainer = NULL;
    r->world = NULL;
    return status;
}

ls_status ls_run_workers(ls_run *r, ls_run_fn fn, void *arg) {
    job j = {.run = r, .fn = fn, .arg = arg};
    if (ls_run_is_loaded(r)) return ls_fail(LS_ERR_INPUT, "a run of eval or generate has no workers");
    if (r->worked) return ls_fail(LS_ERR_INPUT, "the workers of a run start once: open it again, with resume");
    r->worked = true;
    r->workers.workers = r->launched ? 0 : ls_layout_workers(&r->layout);
    r->workers.pass_signals = 1;
    ls_workers_grace_s = r->options.grace;
    r->workers.forks_one = ls_device_is_gpu(r->chosen.name);
    bool supervises = !r->launched && !r->is_trial && ls_run_is_supervised(r);
    LS_TRY(ls_stop_hold());
    ls_status status = supervises ? ls_run_supervise(r, run_worker, &j) : ls_workers_run(&r->workers, run_worker, &j);
    ls_stop_restore();
    ls_stop_release();
    if (status != LS_OK) ls_run_abandon(r);
    return status;
}

/* ---- what the caller does in each worker ------------------------------------------------------------------------- */

ls_status ls_run_check_works(const ls_run *r) {
    return r->trainer ? LS_OK : ls_fail(LS_ERR_INPUT, "a run trains in the function that ls_run_workers() calls");
}

/* Refuses `lockstep resize` in a run whose caller makes the steps, with one warning: only in ls_run_train() can workers
 * leave. */
static void refuse_resize(ls_run *r) {
    ls_status_page_set_resizes(LS_RESIZES_OWN_STEPS);
    if (!ls_world_should_leave(r->world) || r->refused_resize) return;
    r->refused_resize = true;
    if (r->dir)
        ls_log_warn("%s stays as it is: its program makes the steps by itself, and takes no other number of workers",
                    r->out);
}

ls_status ls_run_step(ls_run *r, ls_step *out) {
    ls_step step;
    LS_TRY(ls_run_check_works(r));
    if (ls_world_attempt(r->world)) refuse_resize(r);
    LS_TRY(ls_loop_step(&r->loop, out ? out : &step));
    return ls_stop_status_of(r->loop.stop);
}

ls_status ls_run_train(ls_run *r) {
    LS_TRY(ls_run_check_works(r));
    return ls_loop_run(&r->loop);
}

ls_status ls_run_evaluate(ls_run *r, ls_evaluation *out) {
    if (ls_run_is_loaded(r)) return ls_run_score(r, out);
    LS_TRY(ls_run_check_works(r));
    if (!r->trainer->input.has_val)
        return ls_fail(LS_ERR_INPUT, "there is no validation data: give some, or a val-fraction of enough data");
    return ls_loop_evaluate(&r->loop, out);
}

ls_status ls_run_save(ls_run *r) {
    LS_TRY(ls_run_check_works(r));
    return ls_loop_save(&r->loop);
}

ls_status ls_run_hash(ls_run *r, char hash[LS_HASH_CHARS]) {
    if (!ls_run_is_loaded(r)) LS_TRY(ls_run_check_works(r));
    return ls_partition_hash(ls_run_is_loaded(r) ? r->loaded.partition : r->trainer->partition, hash);
}
