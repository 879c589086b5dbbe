/* audit.h: groups of other replicas, computed once more, hashes of what comes out, and which worker is to blame
 * where they differ.
 *
 * Every worker computes the same bits for the gradient of a group. The workers of one replica run one group of another
 * alone, one micro-batch after the other, and what they get is compared with what the owner got; nothing is reduced or
 * kept. */
#ifndef LS_PARALLEL_PARTITION_AUDIT_H
#define LS_PARALLEL_PARTITION_AUDIT_H

#include "base/hash.h"
#include "parallel/partition/partition.h"

/* Hashes of a group's gradients as this worker holds them: of parameter i at 2·i, of its use as embedding at 2·i + 1.
 */
static inline size_t ls_audit_hashes(const ls_model *model) { return 2 * (size_t)model->nparams; }

/* Hashes the rows of a leaf that this worker computed. */
ls_status ls_partition_leaf_hash(ls_partition *partition, const ls_param *param, const float *leaf, ls_hash128 *out);

/* Replica d computes group groups[d] of step `step`; −1: none. All workers together; after ls_partition_step() and
 * before the update, whose gradients stay. `hashes` are zeros where this worker's replica computes nothing. The setup
 * has `audits`. */
ls_status ls_partition_audit(ls_partition *partition, uint64_t step, float start, const ls_partition_feed *feed,
                             const int *groups, ls_hash128 *hashes);

/* Of the members of this worker's DP group: the hash of each one's list. */
ls_status ls_partition_share_hashes(ls_partition *partition, const ls_hash128 *hashes, ls_hash128 *by_row);
/* The whole lists, `bytes` of each replica. */
ls_status ls_partition_share_lists(ls_partition *partition, const ls_hash128 *own, ls_hash128 *all,
                                   const size_t *bytes);
/* The device computes another way from now on (ls_device_compute_otherwise). */
ls_status ls_partition_compute_otherwise(ls_partition *partition, bool otherwise);

/* ---- blame ------------------------------------------------------------------------------------------------------- */

/* Finds the workers that differ, from hashes of what should be equal.
 *
 * Workers that hold the same parameters, or that computed the same group, must have the same bits. Where they do not,
 * more than half of them agreeing are taken to be right; without such a majority no worker can be cleared. */

typedef enum ls_blame {
    LS_BLAME_NOBODY, /* all are equal */
    LS_BLAME_SOME,   /* a majority agrees; the others are named */
    LS_BLAME_ALL,    /* no majority: two that differ, or a tie; all are named */
} ls_blame;

/* `named`, of `holders` entries, tells for each holder whether it is one of those to name. */
ls_blame ls_blame_holders(const ls_hash128 *hashes, size_t holders, bool *named);

typedef enum ls_blame_audit_verdict {
    LS_AUDIT_CLEAN,     /* owner and auditor agree */
    LS_AUDIT_UNDECIDED, /* they differ, and there is no third computation yet: make it */
    LS_AUDIT_OWNER,     /* the owner was wrong; the auditor's gradient is right */
    LS_AUDIT_AUDITOR,   /* the auditor was wrong; the owner's gradient is right */
    LS_AUDIT_UNKNOWN,   /* all three differ: no one of them is to be used */
} ls_blame_audit_verdict;

/* Of one group's leaf, or of a block of it, computed by its owner, by another replica, and once more; `third` is NULL
 * before that. A third that agrees with neither is never taken for right. */
ls_blame_audit_verdict ls_blame_audit(ls_hash128 owner, ls_hash128 auditor, const ls_hash128 *third);

#endif
