/* audit.h: recomputes groups of other replicas, hashes their gradients, and finds the worker to blame if they differ.
 *
 * Every worker computes the same bits for the gradient of a group. The workers of one replica run a group of another
 * replica alone, one micro-batch after the other, and compare the result with the owner's. Nothing is reduced or kept.
 */
#ifndef LS_PARALLEL_PARTITION_AUDIT_H
#define LS_PARALLEL_PARTITION_AUDIT_H

#include "base/hash.h"
#include "parallel/partition/partition.h"

/* Returns the number of hashes of a group's gradients on a worker: 2·i of parameter i, 2·i + 1 of its use as embedding.
 */
static inline size_t ls_audit_hashes(const ls_model *model) { return 2 * (size_t)model->nparams; }

/* Hashes the rows of a leaf (the gradient of one group, on the device) that this worker computed. The host waits. */
ls_status ls_partition_leaf_hash(ls_partition *partition, const ls_param *param, const float *leaf, ls_hash128 *out);

/* Lets replica d compute group groups[d] of step `step`; −1: none. Call between ls_partition_step() and the update,
 * whose gradients it keeps. hashes[], ls_audit_hashes() of them, are 0 if this worker's replica computes nothing, and
 * for parameters that this worker does not hold. The setup has `audits`. Collective. */
ls_status ls_partition_audit(ls_partition *partition, uint64_t step, float start, const ls_partition_feed *feed,
                             const int *groups, ls_hash128 *hashes);

/* Combines this worker's list of hashes to one, and gathers those of its DP group, by replica. */
ls_status ls_partition_share_hashes(ls_partition *partition, const ls_hash128 *hashes, ls_hash128 *by_row);
/* Gathers whole lists of hashes over this worker's DP group, bytes[d] of replica d. */
ls_status ls_partition_share_lists(ls_partition *partition, const ls_hash128 *own, ls_hash128 *all,
                                   const size_t *bytes);
/* Lets the device compute by another path with the same bits from now on (ls_device_compute_otherwise), to find out
 * which of two results is right; false ends it. Not collective. */
ls_status ls_partition_compute_otherwise(ls_partition *partition, bool otherwise);

/* ---- blame ------------------------------------------------------------------------------------------------------- */

/* Finds the workers that differ, from hashes of what should be equal.
 *
 * Workers that hold the same parameters, or that computed the same group, must have the same bits. Where they do not,
 * more than half of them agreeing are taken to be right; without such a majority no worker can be cleared. */

/* Which holders of the same numbers must be wrong. */
typedef enum ls_blame {
    LS_BLAME_NOBODY, /* all are equal */
    LS_BLAME_SOME,   /* a majority agrees; the others are named */
    LS_BLAME_ALL,    /* no majority: two that differ, or a tie; all are named */
} ls_blame;

/* Finds a majority among `holders` hashes of what should be equal; sets named[i] for each holder that is to be
 * named. */
ls_blame ls_blame_holders(const ls_hash128 *hashes, size_t holders, bool *named);

typedef enum ls_blame_audit_verdict {
    LS_AUDIT_CLEAN,     /* owner and auditor agree */
    LS_AUDIT_UNDECIDED, /* they differ, and there is no third computation yet: make it */
    LS_AUDIT_OWNER,     /* the owner was wrong; the auditor's gradient is right */
    LS_AUDIT_AUDITOR,   /* the auditor was wrong; the owner's gradient is right */
    LS_AUDIT_UNKNOWN,   /* all three differ: no one of them is to be used */
} ls_blame_audit_verdict;

/* Judges the hashes of one group's leaf (its gradient), or of a block of it, computed by its owner, by another replica,
 * and once more; `third` is NULL before that. A third that agrees with neither is never taken for right. */
ls_blame_audit_verdict ls_blame_audit(ls_hash128 owner, ls_hash128 auditor, const ls_hash128 *third);

#endif
