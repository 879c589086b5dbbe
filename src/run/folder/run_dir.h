/* run_dir.h: the run directory, which --out names.
 *
 *     DIR/lock            locked while a process runs in DIR; holds its process id and machine
 *     DIR/parent.json     of a fork: which run, at which step, what was changed, and the identity of that run
 *     DIR/identity.json   the identity of the run (identity.h)
 *     DIR/config.json     the options as resolved, with a checksum; can be given back with --config. config.json.copy
 *                         has the same bytes (config/saved_config.h)
 *     DIR/layout.json     the layout of the workers that ran last (parallel/layout/layout.h)
 *     DIR/device.json     of a run on GPUs: which they are, and the rate that the matrix unit reached on them
 *     DIR/trace.json      train --trace run: what the workers did when (observe/trace.h)
 *     DIR/resize          lockstep resize: a note to the supervisor, which takes it away and leaves its answer in
 *                         resize.answer (run/recover/resize.h)
 *     DIR/metrics.jsonl   observe/metrics.h; earlier steps of a long run are in metrics-LASTSTEP.jsonl
 *     DIR/checkpoints/    checkpoint/store.h
 *
 * 1. One process at a time writes in DIR. The lock is flock(2)'s, so the kernel releases it however the process ends; a
 *    leftover lock file does no harm. Forked processes share the lock, which ends with the last of them.
 * 2. A run is never overwritten: it is resumed, or another folder is used. A folder whose start was killed before there
 *    was anything to resume is started again.
 * 3. All files except lock and metrics.jsonl are replaced atomically.
 *
 * Rank 0 of a run, or its supervisor, has it open. Errors name the folder and what to do; a full disk is
 * LS_ERR_RESOURCE. */
#ifndef LS_RUN_FOLDER_RUN_DIR_H
#define LS_RUN_FOLDER_RUN_DIR_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "config/options.h"
#include "observe/metrics.h"
#include "run/folder/identity.h"

/* START: creates DIR if needed and refuses one that holds a run. RESUME: refuses one that holds none. */
typedef enum ls_run_mode { LS_RUN_START, LS_RUN_RESUME } ls_run_mode;

typedef struct ls_run_dir ls_run_dir;

/* Opens the folder for one run: checks it, creates it for a start, and takes its lock. LS_ERR_INPUT if the mode does
 * not fit the folder or another process has the lock. On failure *out is NULL, and the folder is as it was. */
ls_status ls_run_dir_open(const char *path, ls_run_mode mode, ls_run_dir **out);
/* Starts a run in STEM-N with the first N of which there is no folder; one that this call creates, so that of several
 * processes each gets its own. */
ls_status ls_run_dir_open_next(const char *stem, ls_run_dir **out);
/* Removes temporary files of killed writers. The caller holds the lock, so no process is writing. ls_run_dir_open()
 * calls it. */
ls_status ls_run_dir_clean_up(const ls_run_dir *dir);
/* Releases the lock; the metrics must be closed before. NULL does nothing. */
void ls_run_dir_close(ls_run_dir *dir);
/* Closes the folder after a failure. If a start recorded no step and saved nothing, removes its files and the folders
 * created for it; any other run stays as it is. Keeps the failure's message. NULL does nothing. */
void ls_run_dir_abandon(ls_run_dir *dir);

/* Returns whether `path` holds a run: an identity, metrics or checkpoints. Takes no lock. */
bool ls_run_dir_holds_run(const char *path);
/* Fails with LS_ERR_INPUT if `path` holds no run, so that there is nothing to resume. */
ls_status ls_run_dir_check_resume(const char *path);

/* Finds the run directory that the checkpoint in the folder `checkpoint` (or the file `latest` or `best`) belongs to:
 * RUN of RUN/checkpoints/step-…. Returns false if it lies elsewhere. */
bool ls_run_dir_of_checkpoint(const char *checkpoint, char run[PATH_MAX]);

/* Reads from config.json the working directory of the process that wrote it, to which its relative paths refer. Returns
 * false if it is not known, as of runs of version 0.1. */
bool ls_run_dir_started_in(const char *run, char folder[PATH_MAX]);

/* Returns the path of the folder as given; borrowed until close. */
const char *ls_run_dir_path(const ls_run_dir *dir);

/* Where a fork began: step `step` of the run or checkpoint at `path`, whose identity was `identity`. */
typedef struct ls_run_parent {
    const char *path;
    int64_t step;
    const ls_identity *identity;
} ls_run_parent;

/* Makes DIR a run: writes parent.json for a fork (`parent` NULL: none), config.json and its copy, identity.json. In a
 * resumed run config.json, its copy and identity.json are replaced; a damaged config.json is set aside. */
ls_status ls_run_dir_begin(ls_run_dir *dir, const ls_identity *identity, const ls_options *options, ls_command command,
                           const ls_run_parent *parent);
/* Writes layout.json, how the workers of this run are arranged, for --layout and for people; replaces that of an
 * earlier process. Takes ownership of `json`; NULL means that memory ran out, and fails. */
ls_status ls_run_dir_write_layout(const ls_run_dir *dir, json_t *json);
/* Writes device.json, what the run computes on, for the doctor; replaces that of an earlier process. Takes ownership of
 * `json`; NULL means that memory ran out, and fails. */
ls_status ls_run_dir_write_device(const ls_run_dir *dir, json_t *json);
/* Returns whether device.json exists. */
bool ls_run_dir_has_device(const ls_run_dir *dir);
/* Reads identity.json; the caller destroys *out. LS_ERR_INPUT if it is damaged or missing. */
ls_status ls_run_dir_read_identity(const ls_run_dir *dir, ls_identity **out);

/* Fails with LS_ERR_INPUT if the run had checkpoints, by its records, that are missing now. Call it before resuming,
 * because a run without checkpoints starts again at step 0, and before opening the store for writing, which creates the
 * folder. */
ls_status ls_run_dir_check_checkpoints(const ls_run_dir *dir);

/* Opens metrics.jsonl to append to, after removing lines of steps above `step` (0: a new run, or one that starts
 * again); lines that cannot be read are set aside, and the log says where. The caller closes *out. */
ls_status ls_run_dir_open_metrics(ls_run_dir *dir, int64_t step, ls_metrics **out);

#endif
