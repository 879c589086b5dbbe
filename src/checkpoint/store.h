/* store.h: the checkpoints of one run.
 *
 *     DIR/checkpoints/step-000000100/           complete: weights.safetensors, …, complete.json
 *     DIR/checkpoints/step-000000200.partial/   being saved, or left by a crash
 *     DIR/checkpoints/step-000000300.aside/     newer than the one that the run went on from
 *     DIR/checkpoints/latest                    the name of the newest complete one
 *     DIR/checkpoints/best                      the name of the best one, where the caller has told which it is
 *
 * 1. A folder gets its final name only when all its files and its marker are on disk, so at any moment, also after
 *    kill -9 or loss of power, every checkpoint that was complete still is. A step that was being replaced then has its
 *    name again, old or new, when the store is next opened for writing.
 * 2. An old checkpoint goes only after a newer one is complete, and never the one saved last nor the best one.
 * 3. `latest` and `best` name complete checkpoints; after a crash they may be one behind until the store is opened for
 *    writing, and until the next save.
 *
 * One process at a time has a store open for writing: the lock of the run directory sees to that. Any number may read.
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
    bool is_complete; /* has a marker; only ls_store_verify() knows whether it is sound */
} ls_store_entry;

/* `dir` is the run directory. For writing the folder is made, what a crash left is removed and `latest` is put right.
 * For reading nothing is touched, and a folder that is not there is an empty store. */
ls_status ls_store_open(const char *dir, ls_store_mode mode, ls_store **out);
/* NULL does nothing. */
void ls_store_close(ls_store *store);
/* How many of the newest complete checkpoints to keep after each save; 0, as at the start: all. */
void ls_store_set_keep(ls_store *store, int keep);
/* Besides those, the first one at or after each multiple of `steps` stays; 0, as at the start: none does. */
void ls_store_set_keep_every(ls_store *store, int64_t steps);
/* The file `name` of `folder`, where it is there, goes into every checkpoint saved from now on, but for those that get
 * one of this name anyway. It is read now. */
ls_status ls_store_carry(ls_store *store, const char *folder, const char *name);
/* Which step is the best one, from the next save on: `best` names it, and it is kept whatever its age. −1: none. */
void ls_store_set_best(ls_store *store, int64_t step);
/* Steps up to this one were looked at and are beyond doubt: the newest checkpoint of these is kept whatever its age.
 * −1, as at the start: nobody looks. */
void ls_store_set_clean(ls_store *store, int64_t step);

/* ---- looking ----------------------------------------------------------------------------------------------------- */

/* Steps ascending. The caller frees *entries, which is NULL when there are none. */
ls_status ls_store_list(const ls_store *store, ls_store_entry **entries, int *count);
/* The folder of a step, whether it is there or not. */
ls_path ls_store_folder(const ls_store *store, int64_t step);
/* Whether `path` is a file such as `latest` and `best`: then *folder is that of the checkpoint that it names, whether
 * it is there or not. */
bool ls_store_follow(const char *path, ls_path *folder);
/* LS_OK when the checkpoint is sound; LS_ERR_INPUT tells what is damaged. `progress` may be NULL. */
ls_status ls_store_verify(const ls_store *store, int64_t step, ls_checkpoint_progress progress, void *ctx);
/* Verifies from the newest back. `skipped` gets a line for each damaged one that was passed over, and is "" when there
 * was none; the caller frees it, after a failure too. LS_ERR_INPUT when no checkpoint is sound; then *step is −1, and
 * the message tells. */
ls_status ls_store_newest_sound(const ls_store *store, ls_checkpoint_progress progress, void *ctx, int64_t *step,
                                char **skipped);

/* ---- saving ------------------------------------------------------------------------------------------------------ */

/* A checkpoint of this step that is there already is replaced at the commit. One save at a time. */
ls_status ls_store_begin(ls_store *store, int64_t step, ls_store_save **out);
/* After a failure of one of these the caller ends the save with ls_store_abort(). */
/* A file of tensors that this process writes, in two halves. The second ends the writer, on failure too. */
ls_status ls_store_begin_tensors(ls_store_save *save, const char *name, const ls_safetensors_plan *plan,
                                 ls_safetensors_writer **out);
ls_status ls_store_end_tensors(ls_store_save *save, const char *name, const ls_safetensors_plan *plan,
                               ls_safetensors_writer *writer);
/* One that several processes have written into the folder of the save (ls_safetensors_share), and forced to disk;
 * `sums` are those of all of them. */
ls_status ls_store_add_tensors(ls_store_save *save, const char *name, const ls_safetensors_plan *plan,
                               const ls_byte_sum *sums);
ls_status ls_store_put_bytes(ls_store_save *save, const char *name, const void *data, size_t bytes);
/* The folder to write into by other means; each file is then added by name. */
const char *ls_store_save_folder(const ls_store_save *save);
ls_status ls_store_add_file(ls_store_save *save, const char *name);
/* Writes the marker, gives the folder its name, writes `latest`, removes old checkpoints. Ends the save. When it fails
 * the message tells whether the checkpoint was saved nevertheless. */
ls_status ls_store_commit(ls_store_save *save);
/* Removes what was written. NULL does nothing. */
void ls_store_abort(ls_store_save *save);

/* Puts every checkpoint above `step` aside: for a run that goes on from `step` because the newer ones are damaged. They
 * no longer count. The folders stay for inspection; where old checkpoints are removed, they go when the run
 * has saved their step again or a later one. */
ls_status ls_store_rewind(ls_store *store, int64_t step);

#endif
