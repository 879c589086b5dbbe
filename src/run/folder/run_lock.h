/* run_lock.h: the file `lock` of a run directory, which makes sure that one process at a time writes there; for
 * run_dir.c and `lockstep resize`.
 *
 * The lock is flock(2)'s, so the kernel releases it however the process ends; the file says "process N on HOST" for
 * people. Forked workers share it. The folder may belong to another user: the file is opened without following links,
 * nothing is written before the lock is held, and a file of that name that lockstep did not write is refused. */
#ifndef LS_RUN_FOLDER_RUN_LOCK_H
#define LS_RUN_FOLDER_RUN_LOCK_H

#include <limits.h>
#include <stdbool.h>

#include "base/status.h"

typedef struct ls_run_lock {
    int fd;    /* −1: not held */
    bool made; /* this process created the file */
    char path[PATH_MAX];
} ls_run_lock;

#define LS_RUN_LOCK_NONE ((ls_run_lock){.fd = -1})

/* Returns whether `folder` has a lock file that lockstep wrote, or was about to write (an empty one). Takes no lock. */
bool ls_run_lock_is_ours(const char *folder);
/* Opens or creates the lock file and locks it, without waiting, except up to 3 s for the workers of a process that has
 * just ended. `any_content`: the folder holds a run, so a lock file is its own whatever its content. LS_ERR_INPUT if
 * another process holds it, or the file is not a lock file. On a file system without locks succeeds with a warning. */
ls_status ls_run_lock_take(const char *folder, bool any_content, ls_run_lock *out);
/* Returns whether the file in the folder is still the one that is locked here, and has not been removed or replaced. */
bool ls_run_lock_is_held(const ls_run_lock *lock);
/* Closes the file, which ends the lock unless forked processes hold it, too; the file stays. */
void ls_run_lock_release(ls_run_lock *lock);
/* Removes the file if this process created it; to be called while the lock is held. */
void ls_run_lock_remove(const ls_run_lock *lock);

#endif
