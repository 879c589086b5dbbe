/* living.h: lists the active runs on this machine.
 *
 * A process that writes to a run folder holds its lock open (run/folder/run_lock.h), which /proc shows, so there is no
 * list that could become stale. Runs of other users are listed if the system allows reading their processes. */
#ifndef LS_OBSERVE_LIVING_H
#define LS_OBSERVE_LIVING_H

#include <stdbool.h>
#include <stddef.h>

#include "base/files.h"
#include "base/status.h"
#include "observe/run_read.h"

typedef struct ls_living {
    long pid;        /* of the command, which signals should be sent to */
    bool is_stopped; /* suspended by SIGSTOP or Ctrl-Z */
    ls_path folder;  /* the run */
    ls_run_log log;  /* its configuration and last lines (ls_series_read_end()) */
    double step_s;   /* recent time per step; NaN: unknown */
    long long steps; /* planned; LS_RUN_NONE: unknown */
} ls_living;

/* By folder. The caller frees the list with ls_living_free(). */
ls_status ls_living_list(ls_living **out, size_t *count);
void ls_living_free(ls_living *list, size_t count);
/* Seconds to go; negative: not known, or stopped. */
double ls_living_eta(const ls_living *run);

#endif
