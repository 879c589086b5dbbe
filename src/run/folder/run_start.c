/* run_start.c: the four ways to begin a run: seed, weights, resume, fork. */
#include "run/folder/run_start.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "run/agree.h"

static const char *const start_fields[] = {"start", "start-step", "start-samples", "lr-start-step"};

/* Copies a path; LS_ERR_INPUT if it is too long. */
static ls_status copy_path(const char *path, char out[PATH_MAX]) {
    if (snprintf(out, PATH_MAX, "%s", path) < PATH_MAX) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "the path %.100s… is too long", path);
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

/* The model that rank 0 has found, as it is broadcast. */
typedef struct found {
    ls_shape shape;
    char path[PATH_MAX]; /* of the weights; "": a shape alone */
} found;

/* Resolves --model on rank 0. */
static ls_status resolve(const char *model, ls_weights **weights, found *f) {
    LS_TRY(ls_weights_resolve(model, &f->shape, weights));
    return *weights ? copy_path(ls_weights_path(*weights), f->path) : LS_OK;
}

ls_status ls_run_start_model(ls_world *world, const char *model, ls_shape *shape, ls_weights **weights) {
    found f = {.path = ""};
    bool is_first = !world || ls_world_rank(world) == 0;
    ls_status status = LS_OK;
    *weights = NULL;
    if (is_first) status = resolve(model, weights, &f);
    LS_TRY_OUT(ls_agree(world, status));
    LS_TRY_OUT(ls_agree_tell(world, &f, sizeof f));
    if (!is_first && f.path[0]) status = ls_weights_open_again(f.path, weights);
    LS_TRY_OUT(ls_agree(world, status));
    *shape = f.shape;
    return LS_OK;
out:
    ls_weights_close(*weights);
    *weights = NULL;
    return status;
}

/* ---- one experiment ---------------------------------------------------------------------------------------------- */

/* Fails with LS_ERR_INPUT if this worker's identity differs from rank 0's, which `text` has; names the first field. */
static ls_status compare_worker_identity(int rank, const ls_identity *mine, const char *text, size_t bytes) {
    ls_identity *first = NULL;
    ls_identity_change change;
    char unit[64] = "";
    LS_TRY(ls_identity_from_text("worker 0", text, bytes, &first));
    size_t count = ls_identity_diff(mine, first, &change, 1);
    const char *needed = ls_identity_unit_of(mine, first);
    if (needed) snprintf(unit, sizeof unit, ": use --matrix-unit %.20s", needed);
    ls_identity_destroy(first);
    if (count == 0) return LS_OK;
    return ls_fail(
        LS_ERR_INPUT,
        "workers were started for different experiments: %s is %.100s for worker %d and %.100s for worker 0; "
        "start all of them with the same options and data, on machines with the same --matrix-unit%s",
        change.name, change.here, rank, change.there, unit);
}

ls_status ls_run_start_agree(ls_world *world, const ls_identity *identity) {
    enum { TEXT_MAX = 64 * 1024 };
    ls_status status = LS_OK;
    char *own = NULL, *told = calloc(1, TEXT_MAX);
    size_t bytes = 0;
    if (!told) status = ls_fail(LS_ERR_RESOURCE, "out of memory for an identity");
    if (status == LS_OK) status = ls_identity_to_text(identity, &own, &bytes);
    if (status == LS_OK && bytes >= TEXT_MAX)
        status = ls_fail(LS_ERR_INPUT, "an identity of %zu bytes is too long", bytes);
    if (status == LS_OK) memcpy(told, own, bytes);
    LS_TRY_OUT(ls_agree(world, status));
    LS_TRY_OUT(ls_agree_tell(world, told, TEXT_MAX));
    status = ls_agree(world, compare_worker_identity(ls_world_rank(world), identity, told, strlen(told)));
out:
    free(own);
    free(told);
    return status;
}

/* ---- seed and weights -------------------------------------------------------------------------------------------- */

ls_status ls_run_start_seed(ls_trainer *trainer) {
    return ls_partition_init_weights(trainer->partition, trainer->settings.options.seed);
}

ls_status ls_run_start_weights(ls_trainer *trainer, ls_weights *weights, ls_identity *identity) {
    char hash[33];
    LS_TRY(ls_agree(trainer->world, ls_weights_load_partition(weights, trainer->partition)));
    LS_TRY(ls_partition_settle(trainer->partition));
    LS_TRY(ls_partition_hash(trainer->partition, hash));
    return ls_identity_add_text(identity, "start", hash, LS_IDENTITY_FIXED);
}

/* Fails because `what` has already made all --steps. */
static ls_status steps_are_done(const ls_trainer *trainer, const char *what) {
    enum { SOME_STEPS = 1000 };
    long long at = trainer->step;
    return ls_fail(LS_ERR_INPUT,
                   "%s is at step %lld already, and --steps %lld is the total, not the number of steps to add: use "
                   "e.g. --steps %lld",
                   what, at, (long long)trainer->settings.options.steps, at > 0 ? 2 * at : SOME_STEPS);
}

/* ---- weights as they were saved ---------------------------------------------------------------------------------- */

/* Compares the hash of the loaded weights with the one recorded when they were saved; "": not recorded. Checksums of
 * files tell that they are what was written; this, that what was written is what the workers had. Call it before
 * weights are rounded to another precision. LS_ERR_INPUT on all workers alike. Collective. */
static ls_status check_weights(ls_trainer *trainer, const char *folder, const char *saved) {
    char hash[LS_SAVED_HASH_MAX];
    if (!saved[0]) return LS_OK;
    LS_TRY(ls_partition_hash(trainer->partition, hash));
    if (strcmp(hash, saved) == 0) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "%s is damaged: the hash of its weights is %s, not %s as recorded in %s", folder, hash,
                   saved, LS_CHECKPOINT_STATE);
}

/* ---- resume ------------------------------------------------------------------------------------------------------ */

/* Copies the start fields from a saved identity. Fields that exist already came from another checkpoint of the same
 * run. */
static ls_status copy_start(ls_identity *to, const ls_identity *from) {
    for (size_t i = 0; i < sizeof start_fields / sizeof *start_fields; i++)
        LS_TRY(ls_identity_copy(to, from, start_fields[i]));
    return LS_OK;
}

/* Sets the trainer's origin, where a fork began, from the start fields. */
static void set_base(ls_trainer *trainer, const ls_identity *identity) {
    int64_t samples = 0;
    trainer->origin.lr_start = trainer->origin.step = 0;
    ls_identity_get_i64(identity, "lr-start-step", &trainer->origin.lr_start);
    ls_identity_get_i64(identity, "start-step", &trainer->origin.step);
    ls_identity_get_i64(identity, "start-samples", &samples);
    trainer->origin.samples = (uint64_t)samples;
}

/* Loads a checkpoint of this run into the trainer, after comparing identities. `weights` gets the recorded hash of the
 * weights, "" if there is none. LS_ERR_INPUT if the run has already made more than --steps. */
static ls_status load_own(ls_trainer *trainer, const char *folder, ls_identity *identity,
                          char weights[LS_SAVED_HASH_MAX]) {
    ls_checkpoint *checkpoint = NULL;
    ls_identity *saved = NULL;
    ls_status status = LS_OK;
    LS_TRY(ls_checkpoint_open(folder, &checkpoint));
    LS_TRY_OUT(ls_saved_identity(checkpoint, &saved));
    LS_TRY_OUT(copy_start(identity, saved));
    LS_TRY_OUT(ls_identity_check(identity, saved, "the checkpoint"));
    set_base(trainer, identity);
    LS_TRY_OUT(ls_saved_weights(checkpoint, weights));
    LS_TRY_OUT(ls_load(trainer, checkpoint));
    if (trainer->step > trainer->settings.options.steps) status = steps_are_done(trainer, "the run");
out:
    ls_identity_destroy(saved);
    ls_checkpoint_close(checkpoint);
    return status;
}

/* The checkpoint from which rank 0 decides to resume, as it is broadcast. */
typedef struct decision {
    int64_t step; /* −1: nothing was saved yet */
    char folder[PATH_MAX];
} decision;

/* Finds the newest sound checkpoint; *step −1: there is none at all. LS_ERR_INPUT if none of several is sound. */
static ls_status choose_step(const ls_store *store, int64_t *step) {
    ls_store_entry *entries = NULL;
    int count;
    char *skipped = NULL;
    *step = -1;
    LS_TRY(ls_store_list(store, &entries, &count));
    free(entries);
    if (count == 0) return LS_OK;
    ls_status status = ls_store_newest_sound(store, NULL, NULL, step, &skipped);
    if (status == LS_OK && skipped && *skipped) ls_log_warn("%s; continuing from step %lld", skipped, (long long)*step);
    free(skipped);
    return status;
}

/* Fills in the decision of rank 0. */
static ls_status decide(const ls_store *store, decision *d) {
    LS_TRY(choose_step(store, &d->step));
    return d->step < 0 ? LS_OK : copy_path(ls_store_folder(store, d->step).text, d->folder);
}

/* Checks that a run without a checkpoint may start again: it must have the identity that its folder records, and not be
 * a fork, whose start is not known. Logs that it does. */
static ls_status check_anew(const ls_run_dir *dir, const ls_identity *identity) {
    ls_identity *there = NULL;
    LS_TRY(ls_run_dir_read_identity(dir, &there));
    int64_t forked_at;
    ls_status status;
    if (ls_identity_get_i64(there, "start-step", &forked_at))
        status = ls_fail(LS_ERR_INPUT,
                         "%.200s is a fork that was stopped before its first checkpoint: start it again with --fork, "
                         "without --resume",
                         ls_run_dir_path(dir));
    else
        status = ls_identity_check(identity, there, "the run");
    ls_identity_destroy(there);
    if (status == LS_OK) ls_log_warn("%s has no checkpoint yet: it starts again at step 0", ls_run_dir_path(dir));
    return status;
}

/* Restarts a run that has no checkpoint yet, from its seed or its initial weights. */
static ls_status resume_anew(ls_trainer *trainer, const ls_run_dir *dir, ls_weights *weights, ls_identity *identity) {
    LS_TRY(weights ? ls_run_start_weights(trainer, weights, identity) : ls_run_start_seed(trainer));
    return ls_agree(trainer->world, trainer->rank == 0 ? check_anew(dir, identity) : LS_OK);
}

/* Sets the checkpoint of `step`, whose weights are not what was saved, aside, with all newer ones, so that the next
 * older one is the newest. If there is no older one, returns the last failure again. */
static ls_status pass_over(ls_store *store, int64_t step) {
    char message[LS_MESSAGE_MAX];
    ls_store_entry *entries = NULL;
    int count;
    snprintf(message, sizeof message, "%s", ls_status_message());
    LS_TRY(ls_store_list(store, &entries, &count));
    bool has_older = count > 0 && entries[0].step < step;
    free(entries);
    if (!has_older) return ls_fail(LS_ERR_INPUT, "%s", message);
    ls_log_warn("step %lld was skipped: %s", (long long)step, message);
    return ls_store_rewind(store, step - 1);
}

ls_status ls_run_start_resume(ls_trainer *trainer, ls_store *store, const ls_run_dir *dir, ls_weights *weights,
                              ls_identity *identity, bool *anew) {
    ls_world *world = trainer->world;
    decision d;
    for (bool is_sound = false; !is_sound;) {
        char hash[LS_SAVED_HASH_MAX];
        d = (decision){.step = -1};
        LS_TRY(ls_agree(world, trainer->rank == 0 ? decide(store, &d) : LS_OK));
        LS_TRY(ls_agree_tell(world, &d, sizeof d));
        *anew = d.step < 0;
        if (*anew) return resume_anew(trainer, dir, weights, identity);
        /* All workers find the same things wrong. Newer checkpoints go aside when none has found any. */
        LS_TRY(ls_agree(world, load_own(trainer, d.folder, identity, hash)));
        ls_status status = check_weights(trainer, d.folder, hash);
        is_sound = status == LS_OK;
        if (!is_sound && status != LS_ERR_INPUT) return status;
        if (!is_sound) LS_TRY(ls_agree(world, trainer->rank == 0 ? pass_over(store, d.step) : LS_OK));
    }
    LS_TRY(ls_partition_settle(trainer->partition));
    return ls_agree(world, trainer->rank == 0 ? ls_store_rewind(store, d.step) : LS_OK);
}

/* ---- fork -------------------------------------------------------------------------------------------------------- */

/* Sets the trainer's origin and the start fields: continues the parent's position in the data if the data and its
 * division into windows are the same, otherwise starts at 0. */
static ls_status fork_position(ls_trainer *trainer, ls_identity *identity, const ls_identity *parent, int64_t samples) {
    static const char *const data_fields[] = {"data", "val-fraction", "seq", "seed"};
    for (size_t i = 0; i < sizeof data_fields / sizeof *data_fields; i++)
        if (!ls_identity_agree_on(identity, parent, data_fields[i])) samples = 0;
    trainer->origin.step = trainer->step;
    trainer->origin.samples = (uint64_t)samples;
    LS_TRY(ls_identity_add_i64(identity, "start-step", trainer->step, LS_IDENTITY_FIXED));
    return ls_identity_add_i64(identity, "start-samples", samples, LS_IDENTITY_FIXED);
}

/* Chooses the learning-rate schedule of a fork. A schedule that depends on the total restarts, because the rest of the
 * parent's would be a rate of almost 0. A constant rate continues, unless the warm-up differs; --lr-steps counts steps
 * of the run. */
static ls_status fork_schedule(ls_trainer *trainer, ls_identity *identity, const ls_identity *parent) {
    const ls_lr_schedule *lr = &trainer->settings.lr;
    int64_t warmup = 0, left = trainer->settings.options.steps - trainer->step;
    bool warms_up = ls_identity_get_i64(parent, "warmup", &warmup) && warmup != lr->warmup_steps;
    if (!ls_lr_depends_on_total(lr->kind) && !(lr->kind == LS_LR_CONSTANT && warms_up)) return LS_OK;
    if (trainer->rank == 0 && lr->warmup_steps >= left)
        ls_log_warn(
            "the warm-up of %lld steps is as long as the %lld steps from the fork to --steps %lld, or longer: the "
            "learning rate only rises; give a shorter --warmup",
            (long long)lr->warmup_steps, (long long)left, (long long)trainer->settings.options.steps);
    trainer->origin.lr_start = trainer->step;
    return ls_identity_add_i64(identity, "lr-start-step", trainer->step, LS_IDENTITY_FIXED);
}

/* Loads the parent's checkpoint and sets what a fork continues from. `weights` gets the recorded hash of the weights;
 * "" if it cannot be compared, because there is none or the slices (fixed parts of layers) differ. */
static ls_status load_parent(ls_trainer *trainer, const char *folder, ls_identity *identity, ls_identity **parent,
                             char weights[LS_SAVED_HASH_MAX]) {
    ls_checkpoint *checkpoint = NULL;
    ls_status status = LS_OK;
    int64_t samples = 0;
    LS_TRY(ls_checkpoint_open(folder, &checkpoint));
    LS_TRY_OUT(ls_saved_identity(checkpoint, parent));
    LS_TRY_OUT(ls_load_fork(trainer, checkpoint));
    if (trainer->step >= trainer->settings.options.steps) {
        status = steps_are_done(trainer, folder);
        goto out;
    }
    LS_TRY_OUT(ls_saved_weights(checkpoint, weights));
    if (!ls_identity_agree_on(identity, *parent, "slices")) weights[0] = '\0';
    LS_TRY_OUT(ls_saved_samples(checkpoint, &samples));
    LS_TRY_OUT(fork_position(trainer, identity, *parent, samples));
    LS_TRY_OUT(fork_schedule(trainer, identity, *parent));
out:
    ls_checkpoint_close(checkpoint);
    return status;
}

ls_status ls_run_start_fork(ls_trainer *trainer, ls_weights *weights, ls_identity *identity, ls_identity **parent) {
    char hash[33], saved[LS_SAVED_HASH_MAX] = "";
    *parent = NULL;
    const char *folder = ls_weights_path(weights);
    LS_TRY(ls_agree(trainer->world, load_parent(trainer, folder, identity, parent, saved)));
    LS_TRY(check_weights(trainer, folder, saved));
    LS_TRY(ls_partition_settle(trainer->partition));
    LS_TRY(ls_partition_hash(trainer->partition, hash));
    return ls_identity_add_text(identity, "start", hash, LS_IDENTITY_FIXED);
}
