/* begin.c: the four ways to begin. */
#include "train/begin.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

enum { CHANGES_MAX = 16 };

static const char *const start_fields[] = {"start", "start-step", "start-samples"};

ls_status ls_begin_seed(ls_trainer *trainer) { return ls_stage_init_weights(trainer->stage, trainer->settings.seed); }

/* ---- weights ----------------------------------------------------------------------------------------------------- */

static ls_status put(void *ctx, const ls_param *param, size_t first_row, size_t rows, const float *data) {
    return ls_stage_write(ctx, param, LS_TENSOR_WEIGHT, first_row * param->columns, rows * param->columns, data);
}

ls_status ls_begin_weights(ls_trainer *trainer, ls_weights *weights, ls_identity *identity) {
    char hash[33];
    LS_TRY(ls_weights_load(weights, trainer->model, put, trainer->stage));
    LS_TRY(ls_stage_hash(trainer->stage, hash));
    return ls_identity_add_text(identity, "start", hash, LS_IDENTITY_FIXED);
}

/* ---- resume ------------------------------------------------------------------------------------------------------ */

static ls_status copy_start(ls_identity *to, const ls_identity *from) {
    for (size_t i = 0; i < sizeof start_fields / sizeof *start_fields; i++)
        LS_TRY(ls_identity_copy(to, from, start_fields[i]));
    return LS_OK;
}

static void set_base(ls_trainer *trainer, const ls_identity *identity) {
    int64_t step = 0, samples = 0;
    ls_identity_get_i64(identity, "start-step", &step);
    ls_identity_get_i64(identity, "start-samples", &samples);
    trainer->base_step = step;
    trainer->base_samples = (uint64_t)samples;
}

static ls_status resume_at(ls_trainer *trainer, ls_store *store, int64_t step, ls_identity *identity) {
    char *folder = NULL;
    ls_checkpoint *checkpoint = NULL;
    ls_identity *saved = NULL;
    ls_status status = LS_OK;
    LS_TRY(ls_store_folder(store, step, &folder));
    LS_TRY_OUT(ls_checkpoint_open(folder, &checkpoint));
    LS_TRY_OUT(ls_saved_identity(checkpoint, &saved));
    LS_TRY_OUT(copy_start(identity, saved));
    LS_TRY_OUT(ls_identity_check(identity, saved, "the checkpoint", NULL));
    set_base(trainer, identity);
    LS_TRY_OUT(ls_load(trainer, checkpoint));
    LS_TRY_OUT(ls_store_rewind(store, step));
    if (trainer->step > trainer->settings.steps)
        status = ls_fail(LS_ERR_INPUT, "the run has %lld steps already, and --steps is %lld: ask for more",
                         (long long)trainer->step, (long long)trainer->settings.steps);
out:
    ls_identity_destroy(saved);
    ls_checkpoint_close(checkpoint);
    free(folder);
    return status;
}

/* Nothing was saved yet: the run begins again, at the seed or at the same weights. */
static ls_status resume_anew(ls_trainer *trainer, const ls_run_dir *dir, ls_weights *weights, ls_identity *identity) {
    ls_identity *there = NULL;
    LS_TRY(ls_run_dir_read_identity(dir, &there));
    ls_status status = weights ? ls_begin_weights(trainer, weights, identity) : ls_begin_seed(trainer);
    if (status == LS_OK) status = ls_identity_check(identity, there, "the run", NULL);
    ls_identity_destroy(there);
    if (status == LS_OK) ls_log_warn("%s has no checkpoint yet: it begins anew", ls_run_dir_path(dir));
    return status;
}

ls_status ls_begin_resume(ls_trainer *trainer, ls_store *store, const ls_run_dir *dir, ls_weights *weights,
                          ls_identity *identity, bool *anew) {
    ls_store_entry *entries = NULL;
    int count, complete = 0;
    LS_TRY(ls_store_list(store, &entries, &count));
    for (int i = 0; i < count; i++) complete += entries[i].is_complete;
    free(entries);
    *anew = complete == 0;
    if (*anew) return resume_anew(trainer, dir, weights, identity);
    int64_t step;
    char *skipped = NULL;
    ls_status status = ls_store_newest_sound(store, NULL, NULL, &step, &skipped);
    if (status == LS_OK && skipped && *skipped) ls_log_warn("%s; going on from step %lld", skipped, (long long)step);
    free(skipped);
    if (status != LS_OK) return status;
    return resume_at(trainer, store, step, identity);
}

/* ---- fork -------------------------------------------------------------------------------------------------------- */

/* The position in the data goes on where it is the same data, cut the same way. */
static ls_status fork_position(ls_trainer *trainer, ls_identity *identity, const ls_identity *parent, int64_t samples) {
    static const char *const data_fields[] = {"data", "val-fraction", "seq", "seed"};
    ls_identity_change changes[CHANGES_MAX];
    size_t count = ls_identity_diff(identity, parent, changes, CHANGES_MAX);
    bool same = true;
    for (size_t i = 0; i < count && i < CHANGES_MAX; i++)
        for (size_t k = 0; k < sizeof data_fields / sizeof *data_fields; k++)
            if (strcmp(changes[i].name, data_fields[k]) == 0) same = false;
    if (!same) samples = 0;
    trainer->base_step = trainer->step;
    trainer->base_samples = (uint64_t)samples;
    LS_TRY(ls_identity_add_i64(identity, "start-step", trainer->step, LS_IDENTITY_FIXED));
    return ls_identity_add_i64(identity, "start-samples", samples, LS_IDENTITY_FIXED);
}

ls_status ls_begin_fork(ls_trainer *trainer, ls_weights *weights, ls_identity *identity, ls_identity **parent) {
    ls_checkpoint *checkpoint = NULL;
    ls_status status = LS_OK;
    int64_t samples = 0;
    char hash[33];
    *parent = NULL;
    LS_TRY(ls_checkpoint_open(ls_weights_path(weights), &checkpoint));
    LS_TRY_OUT(ls_saved_identity(checkpoint, parent));
    LS_TRY_OUT(ls_load(trainer, checkpoint));
    if (trainer->step >= trainer->settings.steps) {
        status =
            ls_fail(LS_ERR_INPUT, "%s has %lld steps already, and --steps, which counts them, is %lld: ask for more",
                    ls_weights_path(weights), (long long)trainer->step, (long long)trainer->settings.steps);
        goto out;
    }
    LS_TRY_OUT(ls_saved_samples(checkpoint, &samples));
    LS_TRY_OUT(ls_stage_hash(trainer->stage, hash));
    LS_TRY_OUT(fork_position(trainer, identity, *parent, samples));
    LS_TRY_OUT(ls_identity_add_text(identity, "start", hash, LS_IDENTITY_FIXED));
out:
    ls_checkpoint_close(checkpoint);
    return status;
}
