/* run_lock.h: the file `lock` of a run directory.
 *
 * The lock is flock(2)'s, so the kernel releases it however the process ends; the file says "process N on HOST" for
 * people. The folder may belong to another user: the file is opened without following links, nothing is written before
 * the lock is held, and a file of that name that lockstep did not write is refused. */
#ifndef LS_RUN_FOLDER_RUN_LOCK_H
#define LS_RUN_FOLDER_RUN_LOCK_H

#include <limits.h>
#include <stdbool.h>

#include "base/status.h"

typedef struct ls_run_lock {
    int fd;    /* −1: not held */
    bool made; /* by this process; else the file was there */
    char path[PATH_MAX];
} ls_run_lock;

#define LS_RUN_LOCK_NONE ((ls_run_lock){.fd = -1})

/* Whether `folder` has a lock file that lockstep wrote, or was about to write. */
bool ls_run_lock_is_ours(const char *folder);
/* `any_content`: the folder holds a run, so a lock file is its own whatever became of its content. LS_ERR_INPUT where
 * another process holds it, and where the file is not a lock file. Links are never followed. */
ls_status ls_run_lock_take(const char *folder, bool any_content, ls_run_lock *out);
/* Whether the file in the folder is still the one that is held here. */
bool ls_run_lock_is_held(const ls_run_lock *lock);
/* Ends the lock; the file stays. */
void ls_run_lock_release(ls_run_lock *lock);
/* Removes the file where this process made it; to be called while the lock is held. */
void ls_run_lock_remove(const ls_run_lock *lock);

#endif
