/* audit.h: groups of other rows, computed once more, and hashes of what comes out.
 *
 * The gradient of a group is the same bits whoever computes it. A row of workers runs one group of another row alone,
 * one micro-batch after the other, and what it gets is compared with what the owner got; nothing is reduced or kept. */
#ifndef LS_PARALLEL_PARTITION_AUDIT_H
#define LS_PARALLEL_PARTITION_AUDIT_H

#include "base/hash.h"
#include "parallel/partition/partition.h"

/* Hashes of a group's gradients as this worker holds them: of parameter i at 2·i, of its use as embedding at 2·i + 1.
 */
static inline size_t ls_audit_hashes(const ls_model *model) { return 2 * (size_t)model->nparams; }

/* The hash of a leaf, as far as it is this worker's. */
ls_status ls_partition_leaf_hash(ls_partition *partition, const ls_param *param, const float *leaf, size_t elems,
                                 ls_hash128 *out);

/* Row d computes group groups[d] of step `step`; −1: none. All workers together; after ls_partition_step() and before
 * the update, whose gradients stay. `hashes` are zeros where this worker's row computes nothing. The setup has
 * `audits`. */
ls_status ls_partition_audit(ls_partition *partition, uint64_t step, float start, const ls_partition_feed *feed,
                             const int *groups, ls_hash128 *hashes);

/* Of the members of this worker's dp column: the hash of each one's list. */
ls_status ls_partition_share_hashes(ls_partition *partition, const ls_hash128 *hashes, ls_hash128 *by_row);
/* The whole lists, `bytes` of each row. */
ls_status ls_partition_share_lists(ls_partition *partition, const ls_hash128 *own, ls_hash128 *all,
                                   const size_t *bytes);
/* Another device computes from now on: the same bits by other instructions. NULL: the stage's own again. */
void ls_partition_use_device(ls_partition *partition, ls_device *device);

#endif
