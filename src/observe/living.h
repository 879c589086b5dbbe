/* living.h: lists the runs that are being trained on this machine now, for `lockstep ps`.
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
    long pid;        /* of the command that started the workers: send signals to it */
    bool is_stopped; /* suspended by SIGSTOP or Ctrl-Z */
    ls_path folder;  /* the run */
    ls_run_log log;  /* its configuration and last lines (ls_series_read_end()) */
    double step_s;   /* recent time per step; NaN: unknown */
    long long steps; /* planned; LS_RUN_NONE: unknown */
} ls_living;

/* Lists them, each folder once, sorted by folder; *out is NULL if there are none. The caller frees the list with
 * ls_living_free(). Processes and folders that cannot be read are left out; fails if /proc cannot be opened. */
ls_status ls_living_list(ls_living **out, size_t *count);
void ls_living_free(ls_living *list, size_t count);
/* Estimates the seconds to the last step from recent steps; negative if unknown or if the run is suspended. */
double ls_living_eta(const ls_living *run);

#endif
