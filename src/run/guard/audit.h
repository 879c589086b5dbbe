/* audit.h: recomputes gradient groups on another row of workers (replica) before the update, to find faulty hardware.
 *
 *     1. Row d owns group g and hashes its gradient.
 *     2. Row d−1 recomputes g in the same step. All rows do so, each for its neighbour; with uneven shares, rows whose
 *        neighbour has no more groups wait.
 *     3. If the hashes differ, a third computation finds the faulty row: by another row or, with two rows, by both with
 *        another instruction set. The faulty row then computes g again, which shows whether the fault is persistent.
 *     4. The faulty worker of that row is the one whose intermediate results differ first
 * (parallel/partition/results.h).
 *
 * A wrong gradient never reaches the weights: the step is repeated, or the run ends. */
#ifndef LS_RUN_GUARD_AUDIT_H
#define LS_RUN_GUARD_AUDIT_H

#include "base/pool.h"
#include "parallel/partition/audit.h"
#include "parallel/partition/results.h"
#include "run/guard/event.h"
#include "run/settings.h"

typedef struct ls_audit {
    int every;                  /* interval in steps; 0: never */
    int by_row[LS_WORKERS_MAX]; /* audited groups of each row in such a step */
    int groups;                 /* maximum of by_row: audits of a step, one after the other */
    int total;                  /* sum of by_row */
    int64_t counted;            /* audits so far, which determines the next groups */
    int64_t clean_step;         /* the last step whose audits passed, or the first one of the run */
    size_t hashes, sites;       /* hashes per group: of gradients, and of intermediate results */
    ls_hash128 *owned, *made;   /* hashes by audit of the step: [groups][hashes] */
    ls_hash128 *owned_sites;    /* intermediate results, by audit of the step, of owned groups … */
    ls_hash128 *made_sites;     /* … and of groups recomputed for a neighbour: [groups][sites] */
    ls_hash128 *first_owned;    /* of an earlier pass over the same batch: owned, … */
    ls_hash128 *first_sites;    /* … and owned_sites */
    ls_hash128 *again;          /* [hashes] of a group that is computed a third time */
    int *group;                 /* owned groups, by audit of the step */
    ls_result_sums results;     /* of the current pass */
    bool is_due;                /* the current step has audits */
} ls_audit;

/* Outcome of an audit, the same on all workers. */
typedef enum ls_audit_result {
    LS_AUDIT_PASSED,
    LS_AUDIT_REPEAT, /* a group was wrong once: repeat the step */
    LS_AUDIT_STOP    /* a worker is wrong repeatedly, or no row can be cleared */
} ls_audit_result;

/* Audits at least the share settings->options.audit of each row's groups, averaged over many steps; all of them if it
 * is 1. A single row recomputes its own groups, which only finds transient faults. */
ls_status ls_audit_open(ls_audit *audit, const ls_settings *settings, const ls_layout *layout, const ls_model *model);
void ls_audit_close(ls_audit *audit);

/* Audit number i of this step, of groups of row `row`; −1: this row has no more. */
int ls_audit_group(const ls_audit *audit, const ls_layout *layout, int row, int i);
/* Call before a pass over the batch. */
void ls_audit_begin(ls_audit *audit, ls_partition *partition);
/* Hashes the leaf if its group is audited in this step; else does nothing. Neither compares nor keeps it. Call for each
 * group gradient that this worker computes. */
ls_status ls_audit_leaf(ls_audit *audit, ls_partition *partition, const ls_param *param, bool is_lookup, int group,
                        const float *leaf);

/* Finds the worker whose results differ first between two passes over the same batch; −1: no audited one does. Call
 * keep after the first pass and find after the second. */
void ls_audit_keep(ls_audit *audit);
ls_status ls_audit_find_changed(const ls_audit *audit, ls_partition *partition, int *worker);

typedef struct ls_audit_step {
    uint64_t step;
    float start;
    ls_partition_feed feed;
} ls_audit_step;

/* Runs audits after the pass over the batch, from number *next on, until all are done or one finds a fault, which fills
 * in `event`. If the auditor was wrong once, the result is LS_AUDIT_PASSED and *next is the audit to repeat;
 * *next == audit->groups: all are done. */
ls_status ls_audit_run(ls_audit *audit, ls_partition *partition, const ls_audit_step *step, int *next,
                       ls_audit_result *result, ls_train_event *event);

#endif
