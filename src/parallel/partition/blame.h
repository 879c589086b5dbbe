/* blame.h: who is alone, from hashes of what should be equal.
 *
 * Workers that hold the same parameters, or that computed the same group, must have the same bits. Where they do not,
 * more than half of them agreeing are taken to be right; without such a majority nobody can be cleared. */
#ifndef LS_PARALLEL_PARTITION_BLAME_H
#define LS_PARALLEL_PARTITION_BLAME_H

#include <stdbool.h>
#include <stddef.h>

#include "base/hash.h"

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
