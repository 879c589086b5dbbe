/* agree.h: how the workers of a run decide together.
 *
 * A worker that simply returned with a failure would leave the others waiting in their next collective, and would
 * itself wait for them where it takes its mesh down. So what can fail on one worker alone ends with ls_agree(): all
 * go on, or all fail and leave in the same place. A world that is NULL is one worker alone. */
#ifndef LS_RUN_AGREE_H
#define LS_RUN_AGREE_H

#include <stddef.h>

#include "base/status.h"
#include "device/choose.h"

/* LS_OK where every worker brings LS_OK. Else the failing worker with the lowest rank gets its own failure back, with
 * its message, and all others LS_ERR_PEER, naming it: so the run has one message. */
ls_status ls_agree(ls_world *world, ls_status mine);
/* What --device auto took: GPUs where every worker has them, else CPUs everywhere. Workers of one process have chosen
 * together; those of a launcher each for itself. */
ls_status ls_agree_device(ls_world *world, ls_device_choice *chosen);
/* Gives bytes of worker 0 to all. */
ls_status ls_agree_tell(ls_world *world, void *data, size_t bytes);
/* Barrier after a failure that all workers know of, so that no worker exits while another cleans up. Returns `failure`;
 * its message stays. */
ls_status ls_agree_fail(ls_world *world, ls_status failure);

#endif
