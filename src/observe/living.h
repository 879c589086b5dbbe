/* living.h: lists the training runs that are in progress on this machine, for `lockstep ps`.
 *
 * A training process holds the lock file of its run folder open (run/folder/run_lock.h), and /proc shows open files,
 * so there is no list of runs that could become stale. Runs of other users are listed if the system allows reading
 * their processes. */
#ifndef LS_OBSERVE_LIVING_H
#define LS_OBSERVE_LIVING_H

#include <stdbool.h>
#include <stddef.h>

#include "base/files.h"
#include "base/status.h"
#include "observe/run_read.h"

typedef struct ls_living {
    long pid;        /* of the command that started the workers: send signals to it */
    bool is_stopped; /* suspended by SIGSTOP or Ctrl-Z */
    ls_path folder;  /* the run */
    ls_run_log log;  /* its configuration and last lines (ls_series_read_end()) */
    double step_s;   /* mean seconds of the last 20 steps at most; NaN: unknown */
    long long steps; /* planned; LS_RUN_NONE: unknown */
} ls_living;

/* Lists the runs, each folder once, sorted by folder; *out is NULL if there are none. The caller frees the list with
 * ls_living_free(). Leaves out the calling process, and processes and folders that it cannot read. Fails with
 * LS_ERR_FAILED if /proc cannot be opened, or with LS_ERR_RESOURCE. */
ls_status ls_living_list(ls_living **out, size_t *count);
/* Frees the list and the logs in it; NULL is fine with a count of 0. */
void ls_living_free(ls_living *list, size_t count);
/* Estimates the seconds until the last planned step, from the time of recent steps. Returns -1 if that is unknown,
 * the run is suspended, or it is past its last step. */
double ls_living_eta(const ls_living *run);

#endif
