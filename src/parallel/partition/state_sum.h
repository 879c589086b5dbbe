/* state_sum.h: what a worker's weights and moments are, as sums that add up over workers to the same number under
 * every layout (numerics/state_sum.h).
 *
 *     part    of the elements that this worker alone reports; the parts of all workers added are the sum of the state
 *
 * An update makes the sums of what it writes while that is at hand, so they tell what memory ought to hold from then
 * on. They stay until the next update, on the device, and cost the host nothing until it reads them. */
#ifndef LS_PARALLEL_PARTITION_STATE_SUM_H
#define LS_PARALLEL_PARTITION_STATE_SUM_H

#include "optim/optimizer.h"
#include "parallel/partition/partition.h"

/* The setup has `sums_state`. */
bool ls_partition_sums_state(const ls_partition *partition);
/* Before an update: the sums become those of nothing, and `update` adds to them. It compares each block of elements
 * with the sum of the block before it overwrites the block; what differs stays as it is, and the next look at the state
 * (check.h) tells it. Does nothing where there are no sums. */
ls_status ls_partition_begin_sums(ls_partition *partition, ls_optimizer_update *update);
/* The sums become those of weights and moments as they are in memory now: after they were made or loaded. */
ls_status ls_partition_sum_state(ls_partition *partition);
/* From now on sums are made also of what this worker updates and others report. */
void ls_partition_sum_rest(ls_partition *partition);
/* The sums as last made, LS_PARAM_SUMS for each parameter, of a device whose queues may stand still (device.h: the last
 * update is marked). */
ls_status ls_partition_rescue_state(ls_partition *partition, ls_hash128 *out);
/* This worker's part, as last made; by tensor, LS_STATE_TENSORS for each parameter of the model, unless NULL. */
ls_status ls_partition_state_part(ls_partition *partition, ls_hash128 *part, ls_hash128 *by_tensor);
/* After it, of one parameter: all that this worker updates of it, as far as sums are made of that. */
ls_hash128 ls_partition_param_sum(const ls_partition *partition, int param);
/* The same of what is in memory now, whatever was made; the sums stay as they are. */
ls_status ls_partition_state_now(ls_partition *partition, ls_hash128 *part, ls_hash128 *by_tensor);

#endif
