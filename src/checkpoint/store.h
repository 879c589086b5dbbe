/* store.h: the checkpoints of one run: lists, verifies, saves and removes them. Rank 0 of a run has its store open.
 *
 *     DIR/checkpoints/step-000000100/           complete: weights.safetensors, …, complete.json
 *     DIR/checkpoints/step-000000200.partial/   being saved, or left by a crash
 *     DIR/checkpoints/step-000000300.aside/     newer than the checkpoint from which the run was resumed
 *     DIR/checkpoints/latest                    the name of the newest complete one
 *     DIR/checkpoints/best                      the name of the best one, if the caller has set it
 *
 * 1. A folder gets its final name only when all its files and its marker are on disk. So at any moment, also after
 *    kill -9 or loss of power, every checkpoint that was complete still is. If a step was being replaced at that
 *    moment, opening the store for writing gives the old or the new checkpoint the name.
 * 2. An old checkpoint is removed only after a newer one is complete, and never the one saved last, the best one, or
 *    the newest that ls_store_set_clean() covers.
 * 3. `latest` and `best` name complete checkpoints. After a crash they may be one behind: `latest` until the store is
 *    opened for writing, `best` until the next save.
 *
 * One process at a time has a store open for writing, which the lock of the run directory ensures. Any number may read.
 * One thread at a time uses a store. */
#ifndef LS_CHECKPOINT_STORE_H
#define LS_CHECKPOINT_STORE_H

#include "base/files.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors_writer.h"

typedef struct ls_store ls_store;
typedef struct ls_store_save ls_store_save;

typedef enum ls_store_mode { LS_STORE_READ, LS_STORE_WRITE } ls_store_mode;

typedef struct ls_store_entry {
    int64_t step;
    bool is_complete; /* has a marker; only ls_store_verify() checks that it is sound */
} ls_store_entry;

/* Opens the store of run directory `dir`. For writing, creates the folder, removes what a crash left and repairs
 * `latest`. For reading, changes nothing; a missing folder is an empty store. The caller closes *out; NULL on
 * failure. */
ls_status ls_store_open(const char *dir, ls_store_mode mode, ls_store **out);
void ls_store_close(ls_store *store);
/* Sets how many complete checkpoints to keep: each save removes older ones than the newest `keep`, except those that
 * the next functions keep. 0, the default, and negative numbers keep all. */
void ls_store_set_keep(ls_store *store, int keep);
/* Keeps, besides the newest ones, the first checkpoint at or after each multiple of `steps`; 0, the default: none. No
 * effect while all are kept. */
void ls_store_set_keep_every(ls_store *store, int64_t steps);
/* Copies the file `name` of `folder` into memory, if it exists, and adds it to every checkpoint saved from now on that
 * has no file of this name. A missing file is no failure. */
ls_status ls_store_carry(ls_store *store, const char *folder, const char *name);
/* Sets the best step, as of the next save: `best` then names it if it is complete, and it is kept whatever its age. A
 * negative step: none. A store begins with the step that `best` names. */
void ls_store_set_best(ls_store *store, int64_t step);
/* Marks checkpoints up to this step as verified free of corruption: the newest of them is kept whatever its age, so
 * that a run whose newer state turns out wrong can return to it. A negative step, the default: steps are not
 * checked. */
void ls_store_set_clean(ls_store *store, int64_t step);

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Lists the checkpoints in ascending order of steps, complete or not; folders that are being saved, were replaced or
 * put aside do not count. The caller frees *entries, which is NULL if there are none. */
ls_status ls_store_list(const ls_store *store, ls_store_entry **entries, int *count);
/* Returns the folder of a step, whether it exists or not. */
ls_path ls_store_folder(const ls_store *store, int64_t step);
/* Returns whether `path` is a file such as `latest` or `best`, which holds the name of a checkpoint. Then *folder is
 * the folder of that name beside it, whether it exists or not; otherwise it is unchanged. */
bool ls_store_follow(const char *path, ls_path *folder);
/* Opens the checkpoint of a step and reads all its files to compare checksums. LS_ERR_INPUT says what is missing or
 * damaged. `progress` may be NULL. */
ls_status ls_store_verify(const ls_store *store, int64_t step, ls_checkpoint_progress progress, void *ctx);
/* Finds the newest checkpoint that verifies, from the newest back. *skipped gets a line for each damaged or incomplete
 * one ("" if none); the caller frees it, also after a failure (NULL: out of memory). LS_ERR_INPUT if no checkpoint is
 * sound; then *step is −1. If memory is short, or a file cannot be read (permission, I/O error), ends with that failure
 * instead of skipping, because this says nothing about damage. */
ls_status ls_store_newest_sound(const ls_store *store, ls_checkpoint_progress progress, void *ctx, int64_t *step,
                                char **skipped);

/* ---- saving ------------------------------------------------------------------------------------------------------ */

/* Begins a save of `step` in a new folder step-N.partial; removes the folders of earlier failed saves. The commit
 * replaces an existing checkpoint of this step. One save at a time; LS_ERR_INPUT for a second one, and in a store
 * opened for reading. If one of the functions below except the commit fails, the caller ends the save with
 * ls_store_abort(). */
ls_status ls_store_begin(ls_store *store, int64_t step, ls_store_save **out);
/* Begins a file of tensors in the folder of the save, which this process alone writes with *out. The caller passes the
 * writer to ls_store_end_tensors(), or aborts it. */
ls_status ls_store_begin_tensors(ls_store_save *save, const char *name, const ls_safetensors_plan *plan,
                                 ls_safetensors_writer **out);
/* Finishes the file that the writer has written and adds it, with its checksums, to the save. Ends the writer, also on
 * failure. */
ls_status ls_store_end_tensors(ls_store_save *save, const char *name, const ls_safetensors_plan *plan,
                               ls_safetensors_writer *writer);
/* Adds a file that several processes have written into the folder of the save (ls_safetensors_share()) and synced to
 * disk. `sums` has the totals of their sums: header, then each tensor of the plan. LS_ERR_FAILED if bytes of the file
 * are in no sum. */
ls_status ls_store_add_tensors(ls_store_save *save, const char *name, const ls_safetensors_plan *plan,
                               const ls_byte_sum *sums);
/* Writes a file with this content into the folder of the save, syncs it, and adds it with its hash. */
ls_status ls_store_put_bytes(ls_store_save *save, const char *name, const void *data, size_t bytes);
/* Returns the folder of the save, for files that are written by other means and then added by name. Borrowed until the
 * save ends. */
const char *ls_store_save_folder(const ls_store_save *save);
/* Adds a file that is already in the folder of the save, after syncing it to disk and hashing it. */
ls_status ls_store_add_file(ls_store_save *save, const char *name);
/* Adds the carried files, writes the marker, renames the folder to its final name, updates `latest` and `best`, and
 * removes old checkpoints. Ends the save, also on failure. A failure after the rename says that the checkpoint was
 * saved; one before it removes what was written. */
ls_status ls_store_commit(ls_store_save *save);
/* Removes what was written and ends the save; keeps the message of the last failure. NULL does nothing. */
void ls_store_abort(ls_store_save *save);

/* Renames every checkpoint above `step` to step-N.aside and corrects `latest`, for a run that is resumed from `step`
 * because the newer ones are damaged or hold wrong numbers. They no longer count as checkpoints; `best` is corrected by
 * the next save. The folders stay for inspection; if old checkpoints are removed at all, they are removed when the run
 * has saved their step or a later one. */
ls_status ls_store_rewind(ls_store *store, int64_t step);

#endif
