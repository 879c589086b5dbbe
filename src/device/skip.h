/* skip.h: operations that do nothing, for a worker that abandons the pass in progress (parallel/partition/run.c).
 *
 * The worker must not leave the pass, because other workers wait for the tensors it sends. So it runs the pass to its
 * end with these operations, sends and receives as usual, and computes nothing. All workers discard the result. */
#ifndef LS_DEVICE_SKIP_H
#define LS_DEVICE_SKIP_H

#include "device/ops.h"

/* All operations return LS_OK and leave their outputs as they are. The caller sets device->ops to it for the rest of
 * the pass, and back afterwards; copies, fills and waits of the device still work. */
extern const ls_ops ls_ops_skip;

#endif
