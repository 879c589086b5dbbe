/* placement.h: which cores the workers of this machine run on.
 *
 * Workers get neighbouring cores, whole ones before hyperthreads, inside what this process may use; hwloc tells which
 * are which, and without it the affinity mask is taken in order. Cores that another run of this machine is pinned to
 * are left to it (claim.h). Where there are fewer free cores than threads nothing is pinned; that is told in the log,
 * once: as a warning where somebody else than this user's runs has claimed cores. */
#ifndef LS_COMM_PLACEMENT_H
#define LS_COMM_PLACEMENT_H

#include <stdbool.h>

#include "base/status.h"

typedef struct ls_placement {
    int workers, threads; /* threads of each worker */
    int cores;            /* that this process may use */
    bool crowded;         /* more threads than cores */
    int *cpus;            /* workers × threads, or NULL: not pinned */
    int *claims;          /* a socket for each of them, or NULL */
} ls_placement;

/* threads 0: the cores shared out, at least one each. */
ls_status ls_placement_make(int workers, int threads, bool pin, ls_placement *out);
void ls_placement_free(ls_placement *placement);
/* The cores of this worker compute wrongly: no placement that this process makes from now on has them. */
void ls_placement_leave_out(const ls_placement *placement, int worker);
/* The cores of one worker, or NULL. */
const int *ls_placement_cpus(const ls_placement *placement, int worker);

#endif
