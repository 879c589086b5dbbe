/* state_sum.h: sums (checksums) over a worker's weights and optimizer state, which add up over the
 * workers to the same number under every layout (numerics/state_sum.h). Used to notice damaged memory, and to compare
 * runs.
 *
 *     part    the sum of the elements that this worker reports; the sum of the state is the sum of all parts
 *
 * An update sums what it writes while the values are in registers or cache, so the sums say what memory must hold until
 * the next update. They stay on the device, and cost the host nothing until it reads them. No call is collective. */
#ifndef LS_PARALLEL_PARTITION_STATE_SUM_H
#define LS_PARALLEL_PARTITION_STATE_SUM_H

#include "optim/optimizer.h"
#include "parallel/partition/partition.h"

/* Returns whether the setup has `sums_state`, without which there are no sums. */
bool ls_partition_sums_state(const ls_partition *partition);
/* Prepares an update: clears the sums and lets `update` add to them. The update also compares each block of elements
 * with the sum of the block before it overwrites it. It leaves a block that differs unchanged, and the next check of
 * the state reports it (check.h). Does nothing if there are no sums. */
ls_status ls_partition_begin_sums(ls_partition *partition, ls_optimizer_update *update);
/* Sums weights and moments as they are in memory, after they were initialised or loaded. */
ls_status ls_partition_sum_state(ls_partition *partition);
/* Lets later updates also sum what this worker updates and others report; needed by ls_partition_param_sum(). */
void ls_partition_sum_rest(ls_partition *partition);
/* Reads the sums of the last update, LS_PARAM_SUMS for each parameter, from a device whose queues may be blocked by a
 * lost worker (device.h: the last update is marked). */
ls_status ls_partition_rescue_state(ls_partition *partition, ls_hash128 *out);
/* Reads this worker's part as the last update made it, and by_tensor[], LS_STATE_TENSORS for each parameter of the
 * model, unless NULL. Fails with LS_ERR_INPUT if there are no sums. */
ls_status ls_partition_state_part(ls_partition *partition, ls_hash128 *part, ls_hash128 *by_tensor);
/* Returns, after ls_partition_state_part(), the sum of what this worker updates of one parameter. */
ls_hash128 ls_partition_param_sum(const ls_partition *partition, int param);
/* Computes this worker's part, and by_tensor[] unless NULL, from what is in memory now. Keeps the sums of the last
 * update. LS_ERR_INPUT: there are no sums. */
ls_status ls_partition_state_now(ls_partition *partition, ls_hash128 *part, ls_hash128 *by_tensor);

#endif
