/* placement.h: chooses the cores that the workers of this machine are pinned to, for the transports self and shm.
 *
 * Workers get neighbouring cores of this process's affinity mask, whole cores before hyperthreads. hwloc tells them
 * apart; without hwloc the mask is used in order. Cores that another run has claimed are skipped (claim.h). If fewer
 * cores are free than threads needed, no worker is pinned. If claims are the reason, the log says so once: as a warning
 * unless all of them belong to other runs of this user. */
#ifndef LS_COMM_PLACEMENT_H
#define LS_COMM_PLACEMENT_H

#include <stdbool.h>

#include "base/status.h"

typedef struct ls_placement {
    int workers, threads; /* threads of each worker */
    int cores;    /* number of cores that this process may use, hyperthreads not counted if hwloc tells them apart */
    bool crowded; /* more threads than hardware threads that it may use (ls_cpu_count()) */
    int *cpus;    /* workers × threads; NULL: not pinned */
    int *claims;  /* a socket for each of `cpus`; NULL: not pinned */
} ls_placement;

/* Makes a placement and claims its cores; `threads` 0 divides the cores evenly, at least one each; `pin` false leaves
 * the workers unpinned. Too few free cores are no error: out->cpus is then NULL. LS_ERR_RESOURCE: out of memory. The
 * caller frees it. */
ls_status ls_placement_make(int workers, int threads, bool pin, ls_placement *out);
/* Releases the claims and the memory; the placement can be made again. */
void ls_placement_free(ls_placement *placement);
/* Excludes the cores of this worker (its number in the placement), which compute wrong results, from all later
 * placements of this process. Does nothing if the workers are not pinned. */
void ls_placement_leave_out(const ls_placement *placement, int worker);
/* Returns the cores of one worker, one for each of its threads; borrowed; NULL: not pinned. */
const int *ls_placement_cpus(const ls_placement *placement, int worker);

#endif
