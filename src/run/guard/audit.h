/* audit.h: groups computed by another row of workers than the one that owns them, before the update.
 *
 *     row d owns groups …, g, …      its gradient of g is hashed as it is made
 *     row d−1 computes g once more   in the same step all rows do so, each groups of its neighbour; where shares are
 *                                    uneven, rows whose neighbour has no more groups wait for the others
 *     the hashes differ              a third computation finds the faulty row: by another row, or, with two rows, by
 * both with another instruction set; the faulty row then computes g once more, which shows whether the fault is
 * persistent which worker of that row       the one whose intermediate results differ first
 * (parallel/partition/audit.h)
 *
 * A wrong group never reaches the weights: the step is repeated, or the run ends. */
#ifndef LS_RUN_GUARD_AUDIT_H
#define LS_RUN_GUARD_AUDIT_H

#include "base/pool.h"
#include "parallel/partition/audit.h"
#include "run/guard/event.h"
#include "run/settings.h"

typedef struct ls_audit {
    int every;                  /* steps from audit to audit; 0: never */
    int by_row[LS_WORKERS_MAX]; /* groups of each row that are audited then */
    int groups;                 /* the largest of these: audits of a step, one after the other */
    int total;                  /* their sum: groups audited in a step */
    int64_t counted;            /* audits so far: which groups are next */
    int64_t clean_step;         /* the last step whose audits passed, or where the run began */
    size_t hashes, sites;       /* of a group: those of its gradients, and of results on the way */
    ls_hash128 *owned, *made;   /* hashes by audit of the step: [groups][hashes] */
    ls_hash128 *owned_sites;    /* results on the way, by audit of the step, of groups owned … */
    ls_hash128 *made_sites;     /* … and of those computed for a neighbour: [groups][sites] */
    ls_hash128 *first_owned;    /* of an earlier pass over the same batch: owned, … */
    ls_hash128 *first_sites;    /* … and owned_sites */
    ls_hash128 *again;          /* [hashes] of a group that is computed once more */
    int *group;                 /* those owned, by audit of the step */
    ls_result_sums results;     /* of the pass under way */
    bool is_due;                /* in the step under way */
} ls_audit;

/* What came of an audit, the same on all workers. */
typedef enum ls_audit_result {
    LS_AUDIT_PASSED,
    LS_AUDIT_REPEAT, /* a group was computed wrongly, once: make the step again */
    LS_AUDIT_STOP    /* a worker is wrong repeatedly, or no row can be cleared */
} ls_audit_result;

/* Audits at least the share settings->options.audit of each row's groups, averaged over many steps; all of them if it
 * is 1. A single row recomputes its own groups, which only finds transient faults. */
ls_status ls_audit_open(ls_audit *audit, const ls_settings *settings, const ls_layout *layout, const ls_model *model);
void ls_audit_close(ls_audit *audit);

/* Audit number i of this step, of groups of row `row`; −1: this row has no more. */
int ls_audit_group(const ls_audit *audit, const ls_layout *layout, int row, int i);
/* Before a pass over the batch. */
void ls_audit_begin(ls_audit *audit, ls_partition *partition);
/* To be called for each leaf of the step that this worker makes. */
ls_status ls_audit_leaf(ls_audit *audit, ls_partition *partition, const ls_param *param, bool is_lookup, int group,
                        const float *leaf);

/* Of two passes over the same batch that came out differently: which worker's results differ first; −1: none that is
 * audited. Keep after the first, find after the second. */
void ls_audit_keep(ls_audit *audit);
ls_status ls_audit_find_changed(const ls_audit *audit, ls_partition *partition, int *worker);

typedef struct ls_audit_step {
    uint64_t step;
    float start;
    ls_partition_feed feed;
} ls_audit_step;

/* After the pass over the batch: audits from number *next on, until all are made or one finds something, which fills in
 * `event`. Where that counts as passed (the auditor was wrong, once) *next is the same audit, to be made again with all
 * that follow; *next == audit->groups: there are no more. */
ls_status ls_audit_run(ls_audit *audit, ls_partition *partition, const ls_audit_step *step, int *next,
                       ls_audit_result *result, ls_train_event *event);

#endif
