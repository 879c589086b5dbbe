/* open.h: opens and closes a worker's world (world/world.h: heap, threads, heartbeat, communicator of all workers), for
 * the transports: self.c, shm.c, mpi.c. */
#ifndef LS_COMM_TRANSPORTS_OPEN_H
#define LS_COMM_TRANSPORTS_OPEN_H

#include "comm/world/world.h"

/* Opens a world whose first members (world.h) the transport has set; threads 0 means 1. `cpus`: the cores to pin the
 * pool's threads to, or NULL. `crowded`: workers share cores, so waits do not spin. Starts threads, and sets the
 * floating-point environment of this one. After an error the transport may close the world, or leave that to the end of
 * the process. */
ls_status ls_world_open(ls_world *world, const ls_workers_options *options, const int *cpus, bool crowded);
/* Frees all that the world owns, including requests that a failure left unfinished. */
void ls_world_close(ls_world *world);

#endif
