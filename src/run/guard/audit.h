/* audit.h: recomputes gradient groups (fixed parts of the batch) on another row of workers, a replica, before the
 * update, to find faulty hardware (--audit). step/step.c calls it; all calls are collective unless they say otherwise.
 *
 *     1. Row d owns group g and hashes its gradient.
 *     2. Row d−1 recomputes g in the same step. All rows do so, each for its neighbour; with uneven shares, rows whose
 *        neighbour has no more groups wait.
 *     3. If the hashes differ, a third computation finds the faulty row: by another row or, with one or two rows, by
 *        all of them with other tiles and instructions. The faulty row then computes g again, which shows whether the
 *        fault is persistent.
 *     4. The faulty worker of that row is the one whose intermediate results differ first
 *        (parallel/partition/results.h).
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
    int64_t counted;            /* steps with audits that passed so far, which determines the next groups */
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

/* Outcome of ls_audit_run(), the same on all workers. */
typedef enum ls_audit_result {
    LS_AUDIT_PASSED,
    LS_AUDIT_REPEAT, /* the owner computed a group wrongly once: repeat the step */
    LS_AUDIT_STOP    /* a worker is wrong repeatedly, or no row can be cleared */
} ls_audit_result;

/* Plans audits of at least the share settings->options.audit of each row's groups, averaged over many steps; all of
 * them if it is 1; none if it is 0. A single row recomputes its own groups, which only finds transient faults. Not
 * collective. Call ls_audit_close() also after a failure. */
ls_status ls_audit_open(ls_audit *audit, const ls_settings *settings, const ls_layout *layout, const ls_model *model);
void ls_audit_close(ls_audit *audit);

/* Returns the number of the group of row `row` that audit number i of this step recomputes; −1: this row has no more.
 * Not collective. */
int ls_audit_group(const ls_audit *audit, const ls_layout *layout, int row, int i);
/* Attaches the hashing of intermediate results to the next pass over the batch, if the step has audits. Not
 * collective. */
void ls_audit_begin(ls_audit *audit, ls_partition *partition);
/* Hashes the finished gradient of one group and parameter ("leaf") if its group is audited in this step; else does
 * nothing. Neither compares nor keeps it. `is_lookup`: of the two uses of a tied table, the embedding. Call for each
 * group gradient that this worker computes. Not collective. */
ls_status ls_audit_leaf(ls_audit *audit, ls_partition *partition, const ls_param *param, bool is_lookup, int group,
                        const float *leaf);

/* Keeps the hashes of this pass over the batch, for ls_audit_find_changed() after another pass over it. Not
 * collective. */
void ls_audit_keep(ls_audit *audit);
/* Sets *worker to the worker whose audited results differ first from those that ls_audit_keep() kept; −1: none does. */
ls_status ls_audit_find_changed(const ls_audit *audit, ls_partition *partition, int *worker);

/* The step that is audited, as ls_partition_step() takes it. */
typedef struct ls_audit_step {
    uint64_t step; /* number of the step, counted from 0 */
    float start;   /* ls_trainer_backward_start() */
    ls_partition_feed feed;
} ls_audit_step;

/* Runs the audits of the step after the pass over the batch, from number *next on, until all are done or one finds a
 * fault, which fills in `event` (its group is −1 before). *next == audit->groups and LS_AUDIT_PASSED: all are done. If
 * the auditor was wrong once, the result is LS_AUDIT_PASSED, too, and *next is the audit to repeat. */
ls_status ls_audit_run(ls_audit *audit, ls_partition *partition, const ls_audit_step *step, int *next,
                       ls_audit_result *result, ls_train_event *event);

#endif
