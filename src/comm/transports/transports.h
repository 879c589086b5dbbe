/* transports.h: the transports, ways to start workers and to carry bytes between them, from which ls_workers_run()
 * chooses: self (one worker, in this process), shm (forked processes of one machine), mpi (started by mpirun or srun).
 */
#ifndef LS_COMM_TRANSPORTS_TRANSPORTS_H
#define LS_COMM_TRANSPORTS_TRANSPORTS_H

#include "comm/world/transport.h"

extern const ls_transport ls_transport_self, ls_transport_shm;
#ifdef LS_HAVE_MPI
extern const ls_transport ls_transport_mpi;
#endif

#endif
