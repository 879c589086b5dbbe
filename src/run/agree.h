/* agree.h: collective decisions of the workers of a run.
 *
 * Called where checkpoints, data and recovery touch files or memory. A worker that simply returned with a failure would
 * leave its peers waiting in their next collective, and would itself hang when it closes its mesh. So code that can
 * fail on a single worker ends with ls_agree(): all workers continue, or all fail at the same place. A NULL world means
 * a single worker. */
#ifndef LS_RUN_AGREE_H
#define LS_RUN_AGREE_H

#include <stddef.h>

#include "base/status.h"
#include "device/choose.h"

/* Returns LS_OK if every worker passes LS_OK in `mine`, its own status. Otherwise the failing worker with the lowest
 * rank gets its own failure back, with its message, and all others get LS_ERR_PEER, which names it, so that the run has
 * one message. If a worker is lost meanwhile, a worker with a failure of its own returns that one, and the others
 * return the failure of the collective. Collective. */
ls_status ls_agree(ls_world *world, ls_status mine);
/* Settles --device auto: changes *chosen to the CPU if any worker has no GPU. Forked workers chose together; workers of
 * a launcher chose separately. Collective. */
ls_status ls_agree_device(ls_world *world, ls_device_choice *chosen);
/* Broadcasts `bytes` bytes of rank 0: `data` is read there and overwritten on all others. Does nothing for a NULL
 * world. */
ls_status ls_agree_tell(ls_world *world, void *data, size_t bytes);
/* Barrier after a failure that all workers know of, so that no worker exits while another cleans up. Returns `failure`;
 * its message stays. A failing barrier is ignored. */
ls_status ls_agree_fail(ls_world *world, ls_status failure);

#endif
