/* saver.c: writes checkpoints, in the background or while training waits.
 *
 *     training    copy │ step ──────── step ──────── step …
 *     worker 0         └─ header, part ── wait for parts ── state, commit
 *     the others       └─ part ─┘
 *
 * Each worker sums the bytes that it writes, as they are in memory; the sums of all workers are the checksums of the
 * files and of their tensors. Nothing is read back: what is damaged on its way to the disk shows when it is loaded. */
#include "run/folder/saver.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/files.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/pool.h"
#include "checkpoint/parts.h"
#include "checkpoint/snapshot.h"
#include "comm/world/world.h"
#include "run/agree.h"
#include "run/folder/save_files.h"
#include "run/state_hash.h"

/* Intervals between looks at the folder; and how often a worker must seem to have failed before that counts, because a
 * shared file system may show its files elsewhere a moment later. */
enum { LOOK_US_MIN = 1000, LOOK_US_MAX = 50000, LOOKS_FAILED = 4 };
static const double patience_s = 10;

struct ls_saver {
    ls_trainer *trainer;
    ls_store *store;
    const ls_identity *identity;
    const ls_tokenizer *tokenizer;
    int workers;
    ls_save_files files;
    ls_byte_sum *sums; /* of this worker's bytes; of all, once the first one has collected them */
    size_t sum_count;
    ls_snapshot snapshot;
    bool has_snapshot;
    ls_background *touching; /* the pages of the snapshot, for the first time */
    /* of the save under way */
    ls_background *thread;
    ls_store_save *save; /* of the first worker */
    char folder[PATH_MAX];
    char *state;
    int sync_fd;
    double since_s; /* training waits */
    double begin_s;
    atomic_bool hurries; /* the run has failed: bytes that are not there yet may never come */
    /* of the last one */
    ls_save_outcome last;
    bool is_told; /* its end */
};

/* Returns whether this worker is rank 0, which has the store and publishes the checkpoint. */
static bool is_first(const ls_saver *s) { return s->trainer->rank == 0; }

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Writes file f of this worker, from the snapshot or, if `live`, from the tensors. */
static ls_status write_file(ls_saver *s, int f, bool live) {
    ls_safetensors_writer *writer = NULL;
    const ls_safetensors_plan *plan = &s->files.plan[f];
    LS_TRY(ls_safetensors_share(ls_path_in(s->folder, s->files.name[f]).text, plan, is_first(s), &writer));
    ls_status status = live ? ls_partition_tensors_write(&s->files.tensors[f], s->trainer->partition, writer)
                            : ls_snapshot_write(&s->snapshot, f, writer);
    if (status != LS_OK) {
        ls_safetensors_abort(writer);
        return status;
    }
    memcpy(s->sums + s->files.first_sum[f], ls_safetensors_byte_sums(writer),
           ((size_t)plan->count + 1) * sizeof *s->sums);
    return ls_safetensors_finish(writer, NULL);
}

/* Writes this worker's part of all files, and reports in the folder that it is done, or that it failed. `live`: from
 * the tensors, not from the snapshot. */
static ls_status write_part(ls_saver *s, bool live) {
    ls_status status = LS_OK;
    for (int f = 0; f < s->files.count && status == LS_OK; f++) status = write_file(s, f, live);
    ls_fault_point(LS_POINT_PART);
    if (status == LS_OK) status = ls_parts_put(s->folder, s->trainer->rank, s->sums, s->sum_count);
    if (status != LS_OK) ls_parts_give_up(s->folder, s->trainer->rank);
    return status;
}

/* ---- what the first worker adds ---------------------------------------------------------------------------------- */

/* Waits until all workers have written their parts; LS_ERR_PEER if one has failed, or some seconds after the run has
 * failed. Rank 0. */
static ls_status wait_for_parts(ls_saver *s) {
    unsigned pause_us = LOOK_US_MIN;
    double hurry_s = 0;
    for (int failures = 0;;) {
        ls_parts_state state = ls_parts_look(s->folder, s->workers);
        failures = state.failed >= 0 ? failures + 1 : 0;
        if (failures == LOOKS_FAILED) return ls_fail(LS_ERR_PEER, "worker %d could not write its part", state.failed);
        if (state.failed < 0 && state.waiting == 0) return LS_OK;
        if (hurry_s == 0 && atomic_load(&s->hurries)) hurry_s = ls_clock_seconds();
        if (hurry_s > 0 && ls_clock_seconds() > hurry_s + patience_s)
            return ls_fail(LS_ERR_PEER, "the run has ended, and %d workers have not written their parts",
                           state.waiting);
        ls_clock_sleep_us(pause_us);
        if (pause_us < LOOK_US_MAX) pause_us *= 2;
    }
}

/* Waits some seconds until no worker writes into the folder any more, so that it can be removed. Rank 0. */
static void wait_for_the_others(const ls_saver *s) {
    double until_s = ls_clock_seconds() + patience_s;
    while (ls_parts_look(s->folder, s->workers).waiting > 0 && ls_clock_seconds() < until_s)
        ls_clock_sleep_us(LOOK_US_MAX);
}

/* Syncs the file of the caller (metrics), so that they are not older than the checkpoint; a failure is only a
 * warning. */
static ls_status sync_other(ls_saver *s) {
    if (s->sync_fd >= 0 && ls_fd_sync(s->sync_fd) != 0)
        ls_log_warn("the metrics could not be forced to disk before the checkpoint");
    return LS_OK;
}

/* Adds all files to the save: sums of the workers, tokenizer, state.json. Rank 0. */
static ls_status add_files(ls_saver *s) {
    LS_TRY(ls_parts_take(s->folder, s->workers, s->sums, s->sum_count));
    for (int f = 0; f < s->files.count; f++)
        LS_TRY(ls_store_add_tensors(s->save, s->files.name[f], &s->files.plan[f], s->sums + s->files.first_sum[f]));
    LS_TRY(ls_save_tokenizer(s->save, s->tokenizer));
    LS_TRY(ls_store_put_bytes(s->save, LS_CHECKPOINT_STATE, s->state, strlen(s->state)));
    return sync_other(s);
}

/* Adds the files and commits the checkpoint, which gives it its name. Rank 0. */
static ls_status publish(ls_saver *s) {
    ls_status status = add_files(s);
    if (status != LS_OK) return status;
    ls_store_save *save = s->save;
    s->save = NULL;
    ls_fault_point(LS_POINT_NAME);
    return ls_store_commit(save);
}

/* ---- beginning and ending ---------------------------------------------------------------------------------------- */

/* Makes state.json and the folder of the save, and announces the workers in it. Rank 0. */
static ls_status begin_first(ls_saver *s, const char *hash) {
    LS_TRY(ls_save_state_text(s->trainer, hash, s->identity, s->tokenizer, &s->state));
    LS_TRY(ls_store_begin(s->store, s->trainer->step, &s->save));
    const char *folder = ls_store_save_folder(s->save);
    if (snprintf(s->folder, sizeof s->folder, "%s", folder) >= (int)sizeof s->folder)
        return ls_fail(LS_ERR_INPUT, "the path %.100s… is too long", folder);
    return ls_parts_announce(s->folder, s->workers);
}

/* Frees what belongs to one save; removes the folder of one that was not published. */
static void end_saving(ls_saver *s) {
    ls_store_abort(s->save); /* of one that has not been published */
    s->save = NULL;
    free(s->state);
    s->state = NULL;
    if (s->sync_fd >= 0) (void)close(s->sync_fd);
    s->sync_fd = -1;
}

/* Lets tests corrupt memory (LS_FAULT_*); ls_fault_spoil is NULL outside tests. */
static void spoil_weights(const ls_trainer *t) {
    for (int i = 0; ls_fault_spoil && i < ls_model_params(t->model); i++) {
        const ls_param *p = ls_model_param(t->model, i);
        ls_fault_at(t->device, LS_FAULT_SAVING, p->name, -1, p->own_w, ls_param_range_elems(p->own), sizeof(float));
    }
}

/* Hashes the weights, creates the folder on rank 0, and tells every worker its name. Collective. */
static ls_status begin_saving(ls_saver *s, double since_s, int sync_fd) {
    char hash[33];
    s->sync_fd = sync_fd;
    s->since_s = since_s;
    s->begin_s = ls_clock_seconds();
    s->last = (ls_save_outcome){.step = s->trainer->step};
    s->is_told = false;
    spoil_weights(s->trainer);
    LS_TRY(ls_partition_hash(s->trainer->partition, hash));
    LS_TRY(ls_agree(s->trainer->world, is_first(s) ? begin_first(s, hash) : LS_OK));
    return ls_agree_tell(s->trainer->world, s->folder, sizeof s->folder);
}

/* Fills in the outcome of this worker. */
static void note(ls_saver *s, ls_status status) {
    s->last.status = status;
    s->last.seconds = ls_clock_seconds() - s->begin_s;
    if (status != LS_OK) snprintf(s->last.text, sizeof s->last.text, "%s", ls_status_message());
}

/* Writes this worker's part, and on rank 0 publishes the checkpoint; the thread of a background save. `ctx` is the
 * saver. */
static ls_status save_in_background(void *ctx) {
    ls_saver *s = ctx;
    ls_status status = write_part(s, false);
    if (is_first(s) && status == LS_OK) status = wait_for_parts(s);
    if (is_first(s) && status == LS_OK)
        status = publish(s);
    else if (is_first(s))
        wait_for_the_others(s);
    note(s, status);
    return status;
}

/* Takes the snapshot; a failure is reported in the folder. */
static ls_status copy_state(ls_saver *s) {
    if (s->touching) (void)ls_background_end(s->touching);
    s->touching = NULL;
    ls_status status = ls_snapshot_take(&s->snapshot, s->files.list, s->trainer->partition);
    if (status != LS_OK) ls_parts_give_up(s->folder, s->trainer->rank);
    return status;
}

/* Starts the thread of the save; a failure is reported in the folder. */
static ls_status start_thread(ls_saver *s) {
    ls_status status = ls_background_start(save_in_background, s, &s->thread);
    if (status != LS_OK) ls_parts_give_up(s->folder, s->trainer->rank);
    return status;
}

/* Cleans up after all workers have agreed on a failure: ends the thread, if there is one, and removes the folder when
 * no worker uses it. Returns the failure with its message. Collective. */
static ls_status undo(ls_saver *s, ls_status status) {
    char message[LS_MESSAGE_MAX];
    snprintf(message, sizeof message, "%s", ls_status_message());
    (void)ls_background_end(s->thread);
    s->thread = NULL;
    status = ls_agree_fail(s->trainer->world, ls_fail(status, "%s", message));
    end_saving(s);
    s->last = (ls_save_outcome){.step = -1};
    s->is_told = true;
    return ls_fail(status, "%s", message);
}

ls_status ls_saver_begin(ls_saver *s, double since_s, int sync_fd) {
    ls_status status = begin_saving(s, since_s, sync_fd);
    s->last.along = true;
    if (status == LS_OK) status = ls_agree(s->trainer->world, copy_state(s));
    if (status == LS_OK) status = ls_trainer_prove_state(s->trainer);
    if (status == LS_OK) status = ls_agree(s->trainer->world, start_thread(s));
    if (status != LS_OK) return undo(s, status);
    s->last.stall_s = ls_clock_seconds() - s->since_s;
    return LS_OK;
}

/* Joins the background thread and frees its save. Ranks other than 0 log their own failures, because rank 0 knows only
 * that they failed. */
static void end_thread(ls_saver *s) {
    ls_status status = ls_background_end(s->thread);
    s->thread = NULL;
    if (status != LS_OK && !is_first(s))
        ls_log_warn("the checkpoint of step %" PRId64 ": %s", s->last.step, s->last.text);
    end_saving(s);
}

bool ls_saver_is_busy(const ls_saver *s) { return s->thread != NULL; }

bool ls_saver_look(ls_saver *s, ls_save_outcome *out) {
    if (!s->thread || !ls_background_is_done(s->thread)) return false;
    end_thread(s);
    s->is_told = true;
    *out = s->last;
    return true;
}

ls_status ls_saver_settle(ls_saver *s, ls_save_outcome *out, bool *news) {
    if (s->thread) end_thread(s);
    *news = s->last.step >= 0 && !s->is_told;
    s->is_told = true;
    *out = s->last;
    return ls_agree_tell(s->trainer->world, out, sizeof *out);
}

ls_status ls_saver_save(ls_saver *s, double since_s, int sync_fd, ls_save_outcome *out) {
    ls_status status = begin_saving(s, since_s, sync_fd);
    if (status == LS_OK) status = ls_agree(s->trainer->world, write_part(s, true));
    if (status == LS_OK) status = ls_trainer_prove_state(s->trainer);
    if (status == LS_OK && is_first(s)) status = wait_for_parts(s);
    if (status == LS_OK && is_first(s)) status = publish(s);
    if (status == LS_OK) status = ls_agree(s->trainer->world, status);
    if (status != LS_OK) return undo(s, status);
    note(s, LS_OK);
    s->last.stall_s = ls_clock_seconds() - s->since_s;
    s->is_told = true;
    end_saving(s);
    *out = s->last;
    return LS_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Touches the pages of the snapshot, in a thread; `ctx` is the snapshot. */
static ls_status touch(void *ctx) {
    ls_snapshot_touch(ctx);
    return LS_OK;
}

/* Sets *fits to whether snapshots fit into memory on all machines, and `why` on rank 0 if not. All workers know all
 * needs, so they decide alike. Collective. */
static ls_status decide(ls_saver *s, bool *fits, char why[LS_MESSAGE_MAX]) {
    ls_world *world = s->trainer->world;
    size_t available = ls_fault_snapshot >= 0 ? (size_t)ls_fault_snapshot : ls_memory_available();
    size_t each[LS_WORKERS_MAX];
    ls_snapshot_need needs[LS_WORKERS_MAX];
    ls_snapshot_need own = {.host = world ? world->machines.of[world->rank] : 0,
                            .bytes = (int64_t)s->snapshot.bytes,
                            .available = available < INT64_MAX ? (int64_t)available : INT64_MAX};
    int at;
    for (int r = 0; r < s->workers; r++) each[r] = sizeof own;
    needs[0] = own;
    if (world) LS_TRY(ls_comm_all_gather(ls_world_comm(world), &own, needs, each));
    *fits = ls_snapshot_fits(needs, s->workers, &at);
    if (!*fits && is_first(s))
        snprintf(why, LS_MESSAGE_MAX,
                 "a copy of what is saved does not fit into memory (%" PRId64 " MiB of worker %d, with %" PRId64
                 " MiB available on its machine)",
                 needs[at].bytes >> 20, at, needs[at].available >> 20);
    return LS_OK;
}

ls_status ls_saver_prepare(ls_saver *s, ls_save_mode mode, char why[LS_MESSAGE_MAX]) {
    bool fits = false;
    why[0] = '\0';
    if (mode == LS_SAVE_STREAM || s->has_snapshot) return LS_OK;
    LS_TRY(decide(s, &fits, why));
    if (fits) {
        int64_t failures = ls_fault_snapshot == LS_FAULT_SNAPSHOT_NONE
                               ? ls_fail(LS_ERR_RESOURCE, "out of memory for a copy of what is saved") != LS_OK
                               : ls_snapshot_alloc(&s->snapshot, s->trainer->device) != LS_OK;
        if (failures) snprintf(why, LS_MESSAGE_MAX, "%s", ls_status_message());
        LS_TRY(ls_partition_sum(s->trainer->partition, &failures, 1));
        fits = failures == 0;
        if (!fits && is_first(s) && !why[0])
            snprintf(why, LS_MESSAGE_MAX, "another worker has no memory for a copy of what is saved");
    }
    if (!fits && mode == LS_SAVE_SNAPSHOT)
        return ls_fail(LS_ERR_RESOURCE, "--save-mode snapshot: %s; use --save-mode auto",
                       is_first(s) ? why : "no memory for a copy of what is saved");
    s->has_snapshot = fits;
    if (fits && ls_background_start(touch, &s->snapshot, &s->touching) != LS_OK) s->touching = NULL; /* a slow copy */
    return LS_OK;
}

bool ls_saver_has_snapshot(const ls_saver *s) { return s->has_snapshot; }

/* ---- life -------------------------------------------------------------------------------------------------------- */

ls_status ls_saver_open(ls_trainer *trainer, ls_store *store, const ls_identity *identity,
                        const ls_tokenizer *tokenizer, ls_saver **out) {
    *out = NULL;
    ls_saver *s = calloc(1, sizeof *s);
    if (!s) return ls_fail(LS_ERR_RESOURCE, "out of memory to save");
    s->trainer = trainer;
    s->store = store;
    s->identity = identity;
    s->tokenizer = tokenizer;
    s->workers = trainer->world ? ls_world_size(trainer->world) : 1;
    s->sync_fd = -1;
    s->last.step = -1;
    ls_status status = ls_save_files_open(trainer, &s->files);
    s->sum_count = s->files.first_sum[s->files.count];
    s->sums = calloc(s->sum_count + 1, sizeof *s->sums);
    if (status == LS_OK && !s->sums) status = ls_fail(LS_ERR_RESOURCE, "out of memory to save");
    if (status == LS_OK) status = ls_snapshot_plan(trainer->partition, s->files.list, s->files.count, &s->snapshot);
    if (status == LS_OK)
        *out = s;
    else
        ls_saver_close(s, true);
    return status;
}

void ls_saver_close(ls_saver *s, bool failed) {
    if (!s) return;
    char message[LS_MESSAGE_MAX];
    snprintf(message, sizeof message, "%s", ls_status_message());
    atomic_store(&s->hurries, failed);
    if (s->thread) end_thread(s);
    if (s->touching) (void)ls_background_end(s->touching);
    end_saving(s);
    ls_snapshot_fini(&s->snapshot);
    ls_save_files_close(&s->files);
    free(s->sums);
    free(s);
    (void)ls_fail(LS_OK, "%s", message); /* the caller's failure stays the one told */
}
