/* audit.c: who computes what again, and who is to blame. */
#include "run/guard/audit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "comm/world.h"
#include "device/cpu/kernels.h"
#include "parallel/partition/audit.h"
#include "parallel/layout/micro_batches.h"

/* ---- life -------------------------------------------------------------------------------------------------------- */

static ls_status no_memory(void) { return ls_fail(LS_ERR_RESOURCE, "out of memory for the hashes of an audit"); }

/* As seldom as the row with the most groups allows, and then as many groups of each row as its share makes up in the
 * meantime: rounded up, so that no row is audited less than was asked for. */
static void divide(ls_audit *audit, double share, const ls_layout *layout) {
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
    if (!(s->audit > 0)) return LS_OK;
    divide(audit, s->audit, layout);
    size_t hashes = (size_t)audit->groups * ls_audit_hashes(model);
    audit->owned = calloc(hashes, sizeof *audit->owned);
    audit->made = calloc(hashes, sizeof *audit->made);
    size_t sites = (size_t)audit->groups * ls_result_sites(model);
    audit->owned_sites = calloc(sites, sizeof *audit->owned_sites);
    audit->made_sites = calloc(sites, sizeof *audit->made_sites);
    audit->first_owned = calloc(hashes, sizeof *audit->first_owned);
    audit->first_sites = calloc(sites, sizeof *audit->first_sites);
    audit->group = calloc((size_t)audit->groups, sizeof *audit->group);
    bool there = audit->owned && audit->made && audit->owned_sites && audit->made_sites && audit->first_owned;
    return there && audit->first_sites && audit->group ? LS_OK : no_memory();
}

void ls_audit_close(ls_audit *audit) {
    free(audit->owned);
    free(audit->made);
    free(audit->owned_sites);
    free(audit->made_sites);
    free(audit->first_owned);
    free(audit->first_sites);
    free(audit->group);
    ls_device_destroy(audit->other);
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
    size_t sites = (size_t)audit->groups * ls_result_sites(ls_partition_model(partition));
    memset(audit->owned_sites, 0, sites * sizeof *audit->owned_sites);
    size_t hashes = (size_t)audit->groups * ls_audit_hashes(ls_partition_model(partition));
    memset(audit->owned, 0, hashes * sizeof *audit->owned); /* of audits that this row has no group for */
    audit->results = (ls_result_sums){audit->groups, audit->group, audit->owned_sites};
    ls_partition_sum_results(partition, &audit->results);
}

void ls_audit_end(ls_audit *audit, ls_partition *partition) {
    if (audit->is_due) ls_partition_sum_results(partition, NULL);
}

ls_status ls_audit_leaf(ls_audit *audit, ls_partition *partition, const ls_param *param, bool is_lookup, int group,
                        const float *leaf, size_t elems) {
    const ls_partition_setup *setup = ls_partition_setup_of(partition);
    size_t hashes = ls_audit_hashes(ls_partition_model(partition));
    for (int i = 0; audit->is_due && i < audit->groups; i++) {
        if (ls_audit_group(audit, &setup->layout, setup->place.dp, i) != group) continue;
        ls_hash128 *out = &audit->owned[(size_t)i * hashes + 2 * param->number + (is_lookup ? 1 : 0)];
        LS_TRY(ls_partition_leaf_hash(partition, param, leaf, elems, out));
    }
    return LS_OK;
}

/* ---- who was wrong ----------------------------------------------------------------------------------------------- */

/* One audit that did not pass. Everybody has the same. */
typedef struct dispute {
    int index; /* among the groups of the step */
    int owner, auditor, group;
    int param;       /* where they differ first, on some worker */
    int64_t differs; /* this worker's first parameter that differs, plus 1; 0: none */
} dispute;

/* A flag of any worker, for all. */
static ls_status any(ls_partition *partition, int64_t mine, int64_t *out) {
    *out = mine;
    return ls_partition_sum(partition, out, 1);
}

/* Row `row` computes the group again; the hash of what it got is to be found by its column in by_row[row]. */
static ls_status compute(ls_partition *partition, const ls_audit_step *step, int row, int other_row, int group,
                         ls_hash128 *room, ls_hash128 *by_row) {
    int groups[LS_WORKERS_MAX], dp = ls_partition_setup_of(partition)->layout.dp;
    for (int d = 0; d < dp; d++) groups[d] = d == row || d == other_row ? group : -1;
    LS_TRY(ls_partition_audit(partition, step->step, step->start, &step->feed, groups, room));
    return ls_partition_share_hashes(partition, room, by_row);
}

/* With two rows, both use other instructions: the portable ones, or, where those are the usual ones, nothing better. */
static ls_status compute_otherwise(ls_audit *audit, ls_partition *partition, const ls_audit_step *step, int group,
                                   ls_hash128 *room, ls_hash128 *by_row) {
    static ls_kernels portable;
    if (!audit->other) {
        ls_kernels_fill(&portable, 0);
        LS_TRY(step->pool ? ls_device_open_cpu_pool(step->pool, &portable, NULL, &audit->other)
                          : ls_device_open_cpu(1, NULL, &portable, &audit->other));
    }
    ls_partition_use_device(partition, audit->other);
    ls_status status = compute(partition, step, 0, 1, group, room, by_row);
    ls_partition_use_device(partition, NULL);
    return status;
}

/* LS_AUDIT_OWNER, _AUDITOR or _UNKNOWN, and the hash that this worker's column should have. */
static ls_status find_wrong(ls_audit *audit, ls_partition *partition, const ls_audit_step *step, const dispute *d,
                            ls_blame_audit_verdict *verdict, ls_hash128 *right) {
    const ls_model *model = ls_partition_model(partition);
    size_t hashes = ls_audit_hashes(model);
    int dp = ls_partition_setup_of(partition)->layout.dp, third = (d->auditor + dp - 1) % dp;
    ls_hash128 owned[LS_WORKERS_MAX], made[LS_WORKERS_MAX], again[LS_WORKERS_MAX];
    ls_hash128 *room = calloc(hashes, sizeof *room);
    ls_status status = LS_OK;
    if (!room) return no_memory();
    LS_TRY_OUT(ls_partition_share_hashes(partition, audit->owned + (size_t)d->index * hashes, owned));
    LS_TRY_OUT(ls_partition_share_hashes(partition, audit->made + (size_t)d->index * hashes, made));
    if (dp > 2)
        LS_TRY_OUT(compute(partition, step, third, -1, d->group, room, again));
    else
        LS_TRY_OUT(compute_otherwise(audit, partition, step, d->group, room, again));
    bool agree = dp != 2 || ls_hash_equal(again[0], again[1]);
    ls_blame_audit_verdict mine = ls_blame_audit(owned[d->owner], made[d->auditor], dp > 2 ? &again[third] : &again[0]);
    int64_t owner, auditor, unknown;
    LS_TRY_OUT(any(partition, mine == LS_AUDIT_OWNER, &owner));
    LS_TRY_OUT(any(partition, mine == LS_AUDIT_AUDITOR, &auditor));
    LS_TRY_OUT(any(partition, mine == LS_AUDIT_UNKNOWN || !agree, &unknown));
    *verdict = unknown || (owner && auditor) ? LS_AUDIT_UNKNOWN : owner ? LS_AUDIT_OWNER : LS_AUDIT_AUDITOR;
    *right = dp > 2 ? again[third] : again[0];
out:
    free(room);
    return status;
}

/* The wrong row is asked again. */
static ls_status is_persistent(ls_partition *partition, const ls_audit_step *step, int row, int group, ls_hash128 right,
                               bool *out) {
    ls_hash128 again[LS_WORKERS_MAX], *room = calloc(ls_audit_hashes(ls_partition_model(partition)), sizeof *room);
    int64_t wrong = 0;
    if (!room) return no_memory();
    ls_status status = compute(partition, step, row, -1, group, room, again);
    if (status == LS_OK) status = any(partition, !ls_hash_equal(again[row], right), &wrong);
    *out = wrong > 0;
    free(room);
    return status;
}

/* Where this worker, of the auditor's row, and its column of the owner's row differ first: results on the way, then
 * gradients; 0: nowhere. */
static ls_status first_difference(const ls_audit *audit, ls_partition *partition, const dispute *d, int64_t *out) {
    const ls_partition_setup *setup = ls_partition_setup_of(partition);
    size_t sites = ls_result_sites(ls_partition_model(partition)), bytes[LS_WORKERS_MAX];
    int dp = setup->layout.dp;
    ls_hash128 *all = malloc((size_t)dp * sites * sizeof *all);
    if (!all) return no_memory();
    for (int r = 0; r < dp; r++) bytes[r] = sites * sizeof *all;
    size_t at = (size_t)d->index * sites;
    ls_status status = ls_partition_share_lists(partition, audit->owned_sites + at, all, bytes);
    size_t first = sites;
    if (status == LS_OK) first = ls_result_first(all + (size_t)d->owner * sites, audit->made_sites + at, sites);
    *out = first < sites ? (int64_t)first + 1 : d->differs > 0 ? (int64_t)sites + d->differs : 0;
    if (setup->place.dp != d->auditor) *out = 0;
    free(all);
    return status;
}

/* The worker with the smallest number above 0; −1: none has one. */
static ls_status find_first(ls_partition *partition, int64_t mine, int *out) {
    const ls_partition_setup *setup = ls_partition_setup_of(partition);
    int workers = ls_layout_workers(&setup->layout), rank = setup->world ? ls_world_rank(setup->world) : 0;
    int64_t *all = calloc((size_t)workers, sizeof *all);
    if (!all) return no_memory();
    all[rank] = mine;
    ls_status status = ls_partition_sum(partition, all, (size_t)workers);
    *out = -1;
    for (int i = 0; i < workers && status == LS_OK; i++)
        if (all[i] > 0 && (*out < 0 || all[i] < all[*out])) *out = i;
    free(all);
    return status;
}

/* The column of the mesh that erred, by its rank in row 0. An error of one worker is seen on others only after it. */
static ls_status find_column(const ls_audit *audit, ls_partition *partition, const dispute *d, int *out) {
    int64_t mine = 0;
    int found;
    LS_TRY(first_difference(audit, partition, d, &mine));
    LS_TRY(find_first(partition, mine, &found));
    *out = found < 0 ? 0 : found - d->auditor * ls_partition_setup_of(partition)->layout.tp;
    return LS_OK;
}

void ls_audit_keep(ls_audit *audit, const ls_partition *partition) {
    const ls_model *model = ls_partition_model(partition);
    size_t groups = (size_t)audit->groups;
    memcpy(audit->first_owned, audit->owned, groups * ls_audit_hashes(model) * sizeof *audit->owned);
    memcpy(audit->first_sites, audit->owned_sites, groups * ls_result_sites(model) * sizeof *audit->owned_sites);
}

ls_status ls_audit_find_changed(const ls_audit *audit, ls_partition *partition, int *worker) {
    const ls_model *model = ls_partition_model(partition);
    size_t sites = ls_result_sites(model), hashes = ls_audit_hashes(model);
    int64_t mine = 0;
    for (size_t i = 0; i < (size_t)audit->groups; i++) {
        size_t first = ls_result_first(audit->first_sites + i * sites, audit->owned_sites + i * sites, sites);
        if (first == sites)
            first += ls_result_first(audit->first_owned + i * hashes, audit->owned + i * hashes, hashes);
        if (first < sites + hashes && (mine == 0 || (int64_t)first + 1 < mine)) mine = (int64_t)first + 1;
    }
    return find_first(partition, mine, worker);
}

static ls_status settle(ls_audit *audit, ls_partition *partition, const ls_audit_step *step, const dispute *d,
                        ls_audit_result *result, ls_train_event *event) {
    const ls_layout *layout = &ls_partition_setup_of(partition)->layout;
    ls_blame_audit_verdict verdict;
    ls_hash128 right;
    int column;
    LS_TRY(find_wrong(audit, partition, step, d, &verdict, &right));
    int wrong = verdict == LS_AUDIT_AUDITOR ? d->auditor : d->owner;
    bool persistent = true;
    if (verdict != LS_AUDIT_UNKNOWN) LS_TRY(is_persistent(partition, step, wrong, d->group, right, &persistent));
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

/* What this worker made of its neighbour's group, beside what the neighbour made: the first parameter that differs,
 * plus 1; 0: none. */
static ls_status compare(ls_partition *partition, const ls_hash128 *owned, const ls_hash128 *made, int64_t *out) {
    const ls_partition_setup *setup = ls_partition_setup_of(partition);
    size_t hashes = ls_audit_hashes(ls_partition_model(partition)), bytes[LS_WORKERS_MAX];
    int dp = setup->layout.dp, owner = (setup->place.dp + 1) % dp;
    ls_hash128 *all = malloc((size_t)dp * hashes * sizeof *all);
    if (!all) return no_memory();
    for (int r = 0; r < dp; r++) bytes[r] = hashes * sizeof *all;
    ls_status status = ls_partition_share_lists(partition, owned, all, bytes);
    *out = 0;
    for (size_t i = 0; i < hashes && status == LS_OK && *out == 0; i++)
        if (!ls_hash_equal(all[(size_t)owner * hashes + i], made[i])) *out = (int64_t)(i / 2) + 1;
    free(all);
    return status;
}

/* The first auditor, by rank, whose group differs. */
static ls_status find_dispute(ls_audit *audit, ls_partition *partition, int index, dispute *d, bool *found) {
    const ls_partition_setup *setup = ls_partition_setup_of(partition);
    size_t hashes = ls_audit_hashes(ls_partition_model(partition)), at = (size_t)index * hashes;
    int dp = setup->layout.dp;
    int64_t *seen = calloc((size_t)dp, sizeof *seen), mine = 0;
    if (!seen) return ls_fail(LS_ERR_RESOURCE, "out of memory for the results of an audit");
    ls_status status = compare(partition, audit->owned + at, audit->made + at, &mine);
    /* Workers of a row may differ in several places: the sum only says that they do. */
    seen[setup->place.dp] = mine > 0;
    if (status == LS_OK) status = ls_partition_sum(partition, seen, (size_t)dp);
    for (int r = 0; r < dp && status == LS_OK && !*found; r++) {
        if (seen[r] == 0) continue;
        *d = (dispute){.index = index, .auditor = r, .owner = (r + 1) % dp, .differs = mine};
        d->group = ls_audit_group(audit, &setup->layout, d->owner, index);
        *found = true;
    }
    if (status == LS_OK && *found) {
        int params = ls_partition_model(partition)->nparams;
        int64_t *first = calloc((size_t)params, sizeof *first);
        if (!first) status = ls_fail(LS_ERR_RESOURCE, "out of memory for the results of an audit");
        if (first && setup->place.dp == d->auditor && mine > 0) first[mine - 1] = 1;
        if (first) status = ls_partition_sum(partition, first, (size_t)params);
        for (int i = params - 1; first && i >= 0; i--)
            if (first[i]) d->param = i;
        free(first);
    }
    free(seen);
    return status;
}

/* Row r computes groups[r]: audit number `index` of the step. */
static ls_status compute_summed(ls_audit *audit, ls_partition *partition, const ls_audit_step *step, const int *groups,
                                int index) {
    const ls_model *model = ls_partition_model(partition);
    size_t sites = ls_result_sites(model);
    ls_result_sums results = {1, &groups[ls_partition_setup_of(partition)->place.dp],
                              audit->made_sites + (size_t)index * sites};
    ls_hash128 *made = audit->made + (size_t)index * ls_audit_hashes(model);
    memset(results.sites, 0, sites * sizeof *results.sites);
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
        bool found = false;
        for (int r = 0; r < layout->dp; r++) groups[r] = ls_audit_group(audit, layout, (r + 1) % layout->dp, *next);
        LS_TRY(compute_summed(audit, partition, step, groups, *next));
        LS_TRY(find_dispute(audit, partition, *next, &d, &found));
        if (found) return settle(audit, partition, step, &d, result, event);
    }
    return LS_OK;
}
