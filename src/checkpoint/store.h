/* store.h: the checkpoints of one run.
 *
 *     DIR/checkpoints/step-000000100/           complete: weights.safetensors, …, complete.json
 *     DIR/checkpoints/step-000000200.partial/   being saved, or left by a crash
 *     DIR/checkpoints/step-000000300.aside/     newer than the checkpoint from which the run was resumed
 *     DIR/checkpoints/latest                    the name of the newest complete one
 *     DIR/checkpoints/best                      the name of the best one, if the caller has set it
 *
 * 1. A folder gets its final name only when all its files and its marker are on disk. So at any moment, also after
 *    kill -9 or loss of power, every checkpoint that was complete still is. If a step was being replaced at that
 * moment, opening the store for writing gives the old or the new checkpoint the name.
 * 2. An old checkpoint is removed only after a newer one is complete, and never the one saved last nor the best one.
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
 * `latest`. For reading, changes nothing; a missing folder is an empty store. */
ls_status ls_store_open(const char *dir, ls_store_mode mode, ls_store **out);
void ls_store_close(ls_store *store);
/* Sets how many of the newest complete checkpoints to keep after each save; 0, the default: all. */
void ls_store_set_keep(ls_store *store, int keep);
/* Keeps, besides those, the first checkpoint at or after each multiple of `steps`; 0, the default: none. */
void ls_store_set_keep_every(ls_store *store, int64_t steps);
/* Reads the file `name` of `folder`, if it exists, and adds it to every checkpoint saved from now on that has no file
 * of this name. */
ls_status ls_store_carry(ls_store *store, const char *folder, const char *name);
/* Sets the best step from the next save on: `best` names it, and it is kept whatever its age. −1: none. */
void ls_store_set_best(ls_store *store, int64_t step);
/* Marks steps up to this one as verified free of corruption: the newest checkpoint of these is kept whatever its age.
 * −1, the default: steps are not checked. */
void ls_store_set_clean(ls_store *store, int64_t step);

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Lists the steps in ascending order. The caller frees *entries, which is NULL if there are none. */
ls_status ls_store_list(const ls_store *store, ls_store_entry **entries, int *count);
/* Returns the folder of a step, whether it exists or not. */
ls_path ls_store_folder(const ls_store *store, int64_t step);
/* Returns whether `path` is a file such as `latest` and `best`. Then *folder is that of the checkpoint that it names,
 * whether it exists or not. */
bool ls_store_follow(const char *path, ls_path *folder);
/* Verifies a checkpoint. LS_ERR_INPUT says what is damaged. `progress` may be NULL. */
ls_status ls_store_verify(const ls_store *store, int64_t step, ls_checkpoint_progress progress, void *ctx);
/* Finds the newest sound checkpoint, verifying from the newest back. *skipped has a line for each damaged one; the
 * caller frees it, also after a failure. LS_ERR_INPUT if no checkpoint is sound; then *step is −1. Ends with the
 * failure if one could not be read or memory is short, which is no damage. */
ls_status ls_store_newest_sound(const ls_store *store, ls_checkpoint_progress progress, void *ctx, int64_t *step,
                                char **skipped);

/* ---- saving ------------------------------------------------------------------------------------------------------ */

/* Begins a save; the commit replaces an existing checkpoint of this step. One save at a time. If one of the functions
 * below except the commit fails, the caller ends the save with ls_store_abort(). */
ls_status ls_store_begin(ls_store *store, int64_t step, ls_store_save **out);
/* Begins a file of tensors that this process writes with *out. */
ls_status ls_store_begin_tensors(ls_store_save *save, const char *name, const ls_safetensors_plan *plan,
                                 ls_safetensors_writer **out);
/* Adds the file that the writer has completed. Releases the writer, also on failure. */
ls_status ls_store_end_tensors(ls_store_save *save, const char *name, const ls_safetensors_plan *plan,
                               ls_safetensors_writer *writer);
/* Adds a file that several processes have written into the folder of the save (ls_safetensors_share) and synced to
 * disk; `sums` are the total of their sums. */
ls_status ls_store_add_tensors(ls_store_save *save, const char *name, const ls_safetensors_plan *plan,
                               const ls_byte_sum *sums);
/* Writes a file with this content and adds it. */
ls_status ls_store_put_bytes(ls_store_save *save, const char *name, const void *data, size_t bytes);
/* Returns the folder of the save, for files that are written by other means and then added by name. */
const char *ls_store_save_folder(const ls_store_save *save);
/* Adds a file that is in the folder of the save, after syncing and hashing it. */
ls_status ls_store_add_file(ls_store_save *save, const char *name);
/* Writes the marker, renames the folder to its final name, updates `latest` and `best` and removes old checkpoints.
 * Ends the save, also on failure. The message of a failure says whether the checkpoint was saved nevertheless. */
ls_status ls_store_commit(ls_store_save *save);
/* Removes what was written and ends the save; keeps the message of the last failure. NULL does nothing. */
void ls_store_abort(ls_store_save *save);

/* Puts every checkpoint above `step` aside, for a run that is resumed from `step` because the newer ones are damaged.
 * They no longer count as checkpoints. The folders stay for inspection; if old checkpoints are removed at all, they are
 * removed when the run has saved their step or a later one. */
ls_status ls_store_rewind(ls_store *store, int64_t step);

#endif
