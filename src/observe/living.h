/* living.h: the runs that are at work on this machine.
 *
 * A process that works in a run folder has its lock open (run/folder/run_lock.h), which /proc shows: there is no list
 * that could be out of date. Runs of other users are seen where the system lets their processes be looked at. */
#ifndef LS_OBSERVE_LIVING_H
#define LS_OBSERVE_LIVING_H

#include <stdbool.h>
#include <stddef.h>

#include "base/files.h"
#include "base/status.h"
#include "observe/run_read.h"

typedef struct ls_living {
    long pid;        /* of the command: what a signal is to be sent to */
    bool is_stopped; /* by SIGSTOP or a terminal's Ctrl-Z: no process that holds the lock can run */
    ls_path folder;  /* the run */
    ls_run_log log;  /* its configuration and last lines (ls_series_read_end()) */
    double step_s;   /* time of a step, as of late; NaN: not known yet */
    long long steps; /* that it is to have; LS_RUN_NONE: not known */
} ls_living;

/* By folder. The caller frees the list with ls_living_free(). */
ls_status ls_living_list(ls_living **out, size_t *count);
void ls_living_free(ls_living *list, size_t count);
/* Seconds to go; negative: not known, or stopped. */
double ls_living_eta(const ls_living *run);

#endif
