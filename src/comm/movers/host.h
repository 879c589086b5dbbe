/* host.h: the two movers (ways to perform a collective on device memory, collectives/move.h) over host memory, for
 * movers/tensors.c. */
#ifndef LS_COMM_MOVERS_HOST_H
#define LS_COMM_MOVERS_HOST_H

#include "comm/collectives/move.h"

/* Reaches devices whose tensors lie in host memory: the collectives of lockstep.h, without additional copies. */
extern const ls_mover ls_mover_host;
/* Reaches every device: copies the tensors to host memory, runs the collective of lockstep.h there, and copies the
 * result back when the request is waited for. The copies out are done when the start returns. */
extern const ls_mover ls_mover_staged;

#endif
