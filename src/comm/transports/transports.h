/* transports.h: the transports that ls_workers_run() chooses from. */
#ifndef LS_COMM_TRANSPORTS_TRANSPORTS_H
#define LS_COMM_TRANSPORTS_TRANSPORTS_H

#include "comm/world/transport.h"

extern const ls_transport ls_transport_self, ls_transport_shm;
#ifdef LS_HAVE_MPI
extern const ls_transport ls_transport_mpi;
#endif

#endif
