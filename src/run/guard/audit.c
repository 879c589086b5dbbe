/* audit.c: chooses the gradient groups that are recomputed, and finds the worker to blame for a mismatch. */
#include "run/guard/audit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "comm/world/world.h"
#include "parallel/partition/audit.h"
#include "parallel/layout/micro_batches.h"

/* ---- life -------------------------------------------------------------------------------------------------------- */

/* Fails with LS_ERR_RESOURCE: out of memory. */
static ls_status fail_audit_memory(void) {
    return ls_fail(LS_ERR_RESOURCE, "out of memory for the hashes of an audit");
}

/* Sets `every`, by_row, groups and total: audits as rarely as the replica with the most groups allows, and then as many
 * groups of each replica as its share requires, rounded up. */
static void spread_audits(ls_audit *audit, double share, const ls_layout *layout) {
    const double rounding = 1e-9; /* 3 · (1/3) is one group, not two */
    int most = 1;
    for (int d = 0; d < layout->dp; d++)
        if (layout->share[d] > most) most = layout->share[d];
    double each = share * most;
    audit->every = each < 1 ? (int)floor(1 / each + rounding) : 1;
    for (int d = 0; d < layout->dp; d++) {
        int groups = (int)ceil(audit->every * share * layout->share[d] - rounding);
        audit->by_row[d] = groups < 1 ? 1 : groups > layout->share[d] ? layout->share[d] : groups;
        audit->total += audit->by_row[d];
        if (audit->by_row[d] > audit->groups) audit->groups = audit->by_row[d];
    }
}

ls_status ls_audit_open(ls_audit *audit, const ls_settings *s, const ls_layout *layout, const ls_model *model) {
    *audit = (ls_audit){0};
    if (!(s->options.audit > 0)) return LS_OK;
    spread_audits(audit, s->options.audit, layout);
    audit->hashes = ls_audit_hashes(model);
    audit->sites = ls_result_sites(model);
    size_t groups = (size_t)audit->groups, all_hashes = groups * audit->hashes, all_sites = groups * audit->sites;
    audit->group = calloc(groups, sizeof *audit->group);
    audit->owned = calloc(3 * (all_hashes + all_sites) + audit->hashes, sizeof *audit->owned);
    if (!audit->group || !audit->owned) return fail_audit_memory();
    audit->made = audit->owned + all_hashes;
    audit->first_owned = audit->made + all_hashes;
    audit->owned_sites = audit->first_owned + all_hashes;
    audit->made_sites = audit->owned_sites + all_sites;
    audit->first_sites = audit->made_sites + all_sites;
    audit->again = audit->first_sites + all_sites;
    return LS_OK;
}

void ls_audit_close(ls_audit *audit) {
    free(audit->owned);
    free(audit->group);
    *audit = (ls_audit){0};
}

int ls_audit_group(const ls_audit *audit, const ls_layout *layout, int row, int i) {
    if (i >= audit->by_row[row]) return -1;
    int at = (int)((audit->counted * audit->by_row[row] + i) % layout->share[row]);
    return layout->zero < 2 ? ls_layout_first_group(layout, row) + at : ls_layout_group(layout, row, at);
}

void ls_audit_begin(ls_audit *audit, ls_partition *partition) {
    const ls_partition_setup *setup = ls_partition_setup_of(partition);
    if (!audit->is_due) return;
    for (int i = 0; i < audit->groups; i++) audit->group[i] = ls_audit_group(audit, &setup->layout, setup->place.dp, i);
    size_t groups = (size_t)audit->groups;
    memset(audit->owned_sites, 0, groups * audit->sites * sizeof *audit->owned_sites);
    memset(audit->owned, 0, groups * audit->hashes * sizeof *audit->owned); /* of audits without a group of this row */
    audit->results = (ls_result_sums){audit->groups, audit->group, audit->owned_sites};
    ls_partition_sum_results(partition, &audit->results);
}

ls_status ls_audit_leaf(ls_audit *audit, ls_partition *partition, const ls_param *param, bool is_lookup, int group,
                        const float *leaf) {
    const ls_partition_setup *setup = ls_partition_setup_of(partition);
    for (int i = 0; audit->is_due && i < audit->groups; i++) {
        if (ls_audit_group(audit, &setup->layout, setup->place.dp, i) != group) continue;
        ls_hash128 *out = &audit->owned[(size_t)i * audit->hashes + 2 * param->number + (is_lookup ? 1 : 0)];
        LS_TRY(ls_partition_leaf_hash(partition, param, leaf, out));
    }
    return LS_OK;
}

/* ---- disputes ---------------------------------------------------------------------------------------------------- */

/* A failed audit; the same on all workers. */
typedef struct dispute {
    int index; /* among the groups of the step */
    int owner, auditor, group;
    int param;       /* where they differ first, on some worker */
    int64_t differs; /* this worker's first parameter that differs, plus 1; 0: none */
} dispute;

/* Finds the worker that passes the smallest positive number in `mine`, and that number; −1 and 0 if none is positive.
 * Collective. */
static ls_status find_first(ls_partition *partition, int64_t mine, int *worker, int64_t *least) {
    const ls_partition_setup *setup = ls_partition_setup_of(partition);
    int workers = ls_layout_workers(&setup->layout);
    int64_t all[LS_WORKERS_MAX] = {0};
    all[setup->world ? ls_world_rank(setup->world) : 0] = mine;
    LS_TRY(ls_partition_sum(partition, all, (size_t)workers));
    *worker = -1;
    *least = 0;
    for (int i = 0; i < workers; i++) {
        if (all[i] <= 0 || (*worker >= 0 && all[i] >= *least)) continue;
        *worker = i;
        *least = all[i];
    }
    return LS_OK;
}

/* Sets *out to the first entry in which this worker's list `made` differs from the list `owned` of the worker of its
 * column in replica `owner`; `count` if there is none. Collective. */
static ls_status first_unlike(ls_partition *partition, int owner, const ls_hash128 *owned, const ls_hash128 *made,
                              size_t count, size_t *out) {
    int dp = ls_partition_setup_of(partition)->layout.dp;
    size_t bytes[LS_WORKERS_MAX];
    ls_hash128 *all = malloc((size_t)dp * count * sizeof *all);
    if (!all) return fail_audit_memory();
    for (int r = 0; r < dp; r++) bytes[r] = count * sizeof *all;
    ls_status status = ls_partition_share_lists(partition, owned, all, bytes);
    *out = status == LS_OK ? ls_result_first(all + (size_t)owner * count, made, count) : count;
    free(all);
    return status;
}

/* Lets replicas `row` and `other_row` (−1: none) recompute a group. by_row[d] gets the hash of this worker's column in
 * replica d. Collective. */
static ls_status compute(ls_audit *audit, ls_partition *partition, const ls_audit_step *step, int row, int other_row,
                         int group, ls_hash128 *by_row) {
    int groups[LS_WORKERS_MAX], dp = ls_partition_setup_of(partition)->layout.dp;
    for (int d = 0; d < dp; d++) groups[d] = d == row || d == other_row ? group : -1;
    LS_TRY(ls_partition_audit(partition, step->step, step->start, &step->feed, groups, audit->again));
    return ls_partition_share_hashes(partition, audit->again, by_row);
}

/* Lets both replicas recompute a group with other tiles and instructions, which give the same bits, for a dispute
 * between only two replicas. Collective. */
static ls_status compute_otherwise(ls_audit *audit, ls_partition *partition, const ls_audit_step *step, int group,
                                   ls_hash128 *by_row) {
    LS_TRY(ls_partition_compute_otherwise(partition, true));
    LS_TRY(compute(audit, partition, step, 0, 1, group, by_row));
    return ls_partition_compute_otherwise(partition, false);
}

/* Decides by a third computation which side of a dispute was wrong: *verdict is LS_AUDIT_OWNER, _AUDITOR or _UNKNOWN
 * (some column agrees with neither side, columns blame different sides, or both of two replicas recomputed and
 * disagree), *right the hash of this worker's column in the third computation. Collective. */
static ls_status find_wrong(ls_audit *audit, ls_partition *partition, const ls_audit_step *step, const dispute *d,
                            ls_blame_audit_verdict *verdict, ls_hash128 *right) {
    int dp = ls_partition_setup_of(partition)->layout.dp, third = (d->auditor + dp - 1) % dp;
    size_t at = (size_t)d->index * audit->hashes;
    ls_hash128 owned[LS_WORKERS_MAX], made[LS_WORKERS_MAX], again[LS_WORKERS_MAX];
    LS_TRY(ls_partition_share_hashes(partition, audit->owned + at, owned));
    LS_TRY(ls_partition_share_hashes(partition, audit->made + at, made));
    LS_TRY(dp > 2 ? compute(audit, partition, step, third, -1, d->group, again)
                  : compute_otherwise(audit, partition, step, d->group, again));
    *right = dp > 2 ? again[third] : again[0];
    bool agree = dp != 2 || ls_hash_equal(again[0], again[1]);
    ls_blame_audit_verdict mine = ls_blame_audit(owned[d->owner], made[d->auditor], right);
    int64_t votes[] = {mine == LS_AUDIT_OWNER, mine == LS_AUDIT_AUDITOR, mine == LS_AUDIT_UNKNOWN || !agree};
    LS_TRY(ls_partition_sum(partition, votes, 3));
    *verdict = votes[2] || (votes[0] && votes[1]) ? LS_AUDIT_UNKNOWN : votes[0] ? LS_AUDIT_OWNER : LS_AUDIT_AUDITOR;
    return LS_OK;
}

/* Recomputes the group on the wrong replica `row`; *out is whether it is wrong again. Collective. */
static ls_status is_persistent(ls_audit *audit, ls_partition *partition, const ls_audit_step *step, int row, int group,
                               ls_hash128 right, bool *out) {
    ls_hash128 again[LS_WORKERS_MAX];
    LS_TRY(compute(audit, partition, step, row, -1, group, again));
    int64_t wrong = !ls_hash_equal(again[row], right);
    LS_TRY(ls_partition_sum(partition, &wrong, 1));
    *out = wrong > 0;
    return LS_OK;
}

/* Sets *out to the column of the mesh (stage and tp index) in which the error occurred first, as its rank in replica 0:
 * other workers see the error only later. 0 if no worker of the auditor's row differs. Collective. */
static ls_status find_column(const ls_audit *audit, ls_partition *partition, const dispute *d, int *out) {
    const ls_partition_setup *setup = ls_partition_setup_of(partition);
    size_t sites = audit->sites, at = (size_t)d->index * sites, first;
    int64_t least;
    LS_TRY(first_unlike(partition, d->owner, audit->owned_sites + at, audit->made_sites + at, sites, &first));
    int64_t mine = first < sites ? (int64_t)first + 1 : d->differs > 0 ? (int64_t)sites + d->differs : 0;
    LS_TRY(find_first(partition, setup->place.dp == d->auditor ? mine : 0, out, &least));
    *out = *out < 0 ? 0 : *out - d->auditor * setup->layout.tp;
    return LS_OK;
}

void ls_audit_keep(ls_audit *audit) {
    size_t groups = (size_t)audit->groups;
    memcpy(audit->first_owned, audit->owned, groups * audit->hashes * sizeof *audit->owned);
    memcpy(audit->first_sites, audit->owned_sites, groups * audit->sites * sizeof *audit->owned_sites);
}

ls_status ls_audit_find_changed(const ls_audit *audit, ls_partition *partition, int *worker) {
    size_t sites = audit->sites, hashes = audit->hashes;
    int64_t mine = 0, least;
    for (size_t i = 0; i < (size_t)audit->groups; i++) {
        size_t first = ls_result_first(audit->first_sites + i * sites, audit->owned_sites + i * sites, sites);
        if (first == sites)
            first += ls_result_first(audit->first_owned + i * hashes, audit->owned + i * hashes, hashes);
        if (first < sites + hashes && (mine == 0 || (int64_t)first + 1 < mine)) mine = (int64_t)first + 1;
    }
    return find_first(partition, mine, worker, &least);
}

/* Finds out which worker was wrong and whether its error is persistent, as an unknown one counts; fills in *event and
 * *result, see ls_audit_run(). Collective. */
static ls_status settle_dispute(ls_audit *audit, ls_partition *partition, const ls_audit_step *step, const dispute *d,
                                ls_audit_result *result, ls_train_event *event) {
    const ls_layout *layout = &ls_partition_setup_of(partition)->layout;
    ls_blame_audit_verdict verdict;
    ls_hash128 right;
    int column;
    LS_TRY(find_wrong(audit, partition, step, d, &verdict, &right));
    int wrong = verdict == LS_AUDIT_AUDITOR ? d->auditor : d->owner;
    bool persistent = true;
    if (verdict != LS_AUDIT_UNKNOWN) LS_TRY(is_persistent(audit, partition, step, wrong, d->group, right, &persistent));
    *event = (ls_train_event){.kind = LS_EVENT_AUDIT, .group = d->group, .persistent = persistent};
    LS_TRY(find_column(audit, partition, d, &column));
    event->owner = column + d->owner * layout->tp;
    event->auditor = column + d->auditor * layout->tp;
    event->worker = verdict == LS_AUDIT_UNKNOWN ? -1 : column + wrong * layout->tp;
    snprintf(event->tensor, sizeof event->tensor, "%s", ls_model_param(ls_partition_model(partition), d->param)->name);
    ls_event_block_of(event->tensor, event->block);
    *result = persistent ? LS_AUDIT_STOP : verdict == LS_AUDIT_OWNER ? LS_AUDIT_REPEAT : LS_AUDIT_PASSED;
    return LS_OK;
}

/* ---- an audit ---------------------------------------------------------------------------------------------------- */

/* Sets *found to whether an auditor's result of audit `index` differs from the owner's, and *d to the dispute of the
 * lowest such row. Collective. */
static ls_status find_dispute(ls_audit *audit, ls_partition *partition, int index, dispute *d, bool *found) {
    const ls_partition_setup *setup = ls_partition_setup_of(partition);
    size_t at = (size_t)index * audit->hashes, first;
    int dp = setup->layout.dp, row = setup->place.dp, worker;
    int64_t seen[LS_WORKERS_MAX] = {0}, least;
    LS_TRY(first_unlike(partition, (row + 1) % dp, audit->owned + at, audit->made + at, audit->hashes, &first));
    int64_t mine = first < audit->hashes ? (int64_t)first / 2 + 1 : 0; /* its parameter */
    /* Workers of a row may differ in several places: the sum only says that they do. */
    seen[row] = mine > 0;
    LS_TRY(ls_partition_sum(partition, seen, (size_t)dp));
    int auditor = 0;
    while (auditor < dp && seen[auditor] == 0) auditor++;
    *found = auditor < dp;
    if (!*found) return LS_OK;
    *d = (dispute){.index = index, .auditor = auditor, .owner = (auditor + 1) % dp, .differs = mine};
    d->group = ls_audit_group(audit, &setup->layout, d->owner, index);
    LS_TRY(find_first(partition, row == auditor ? mine : 0, &worker, &least));
    d->param = (int)least - 1;
    return LS_OK;
}

/* Lets replica r recompute groups[r], as audit number `index` of the step, with hashes of intermediate results.
 * Collective. */
static ls_status compute_summed(ls_audit *audit, ls_partition *partition, const ls_audit_step *step, const int *groups,
                                int index) {
    ls_result_sums results = {1, &groups[ls_partition_setup_of(partition)->place.dp],
                              audit->made_sites + (size_t)index * audit->sites};
    ls_hash128 *made = audit->made + (size_t)index * audit->hashes;
    memset(results.sites, 0, audit->sites * sizeof *results.sites);
    ls_partition_sum_results(partition, &results);
    ls_status status = ls_partition_audit(partition, step->step, step->start, &step->feed, groups, made);
    ls_partition_sum_results(partition, NULL);
    return status;
}

ls_status ls_audit_run(ls_audit *audit, ls_partition *partition, const ls_audit_step *step, int *next,
                       ls_audit_result *result, ls_train_event *event) {
    const ls_layout *layout = &ls_partition_setup_of(partition)->layout;
    *result = LS_AUDIT_PASSED;
    for (; *next < audit->groups; ++*next) {
        int groups[LS_WORKERS_MAX];
        dispute d;
        bool found;
        for (int r = 0; r < layout->dp; r++) groups[r] = ls_audit_group(audit, layout, (r + 1) % layout->dp, *next);
        LS_TRY(compute_summed(audit, partition, step, groups, *next));
        LS_TRY(find_dispute(audit, partition, *next, &d, &found));
        if (found) return settle_dispute(audit, partition, step, &d, result, event);
    }
    return LS_OK;
}
