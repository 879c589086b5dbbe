/* audit.c: one group of another replica, for comparison. */
#include "parallel/partition/audit.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "parallel/partition/state.h"

/* ---- hashes ------------------------------------------------------------------------------------------------------ */

ls_status ls_partition_leaf_hash(ls_partition *partition, const ls_param *param, const float *leaf, ls_hash128 *out) {
    ls_grad_rows rows = ls_nn_grad_rows(&partition->nn, param);
    const float *own = leaf + rows.first * rows.elems;
    LS_TRY(ls_partition_begin_hashes(partition, 1));
    LS_TRY(ls_partition_make_hash(partition, 0, own, rows.count * rows.elems * sizeof *own));
    return ls_partition_read_hashes(partition, out, 1);
}

ls_status ls_partition_share_hashes(ls_partition *partition, const ls_hash128 *hashes, ls_hash128 *by_row) {
    size_t bytes[LS_WORKERS_MAX];
    ls_hash128 own = ls_hash_combine(hashes, ls_audit_hashes(partition->model));
    by_row[0] = own;
    for (int r = 0; r < partition->setup.layout.dp; r++) bytes[r] = sizeof own;
    return partition->dp ? ls_comm_all_gather(partition->dp, &own, by_row, bytes) : LS_OK;
}

ls_status ls_partition_share_lists(ls_partition *partition, const ls_hash128 *own, ls_hash128 *all,
                                   const size_t *bytes) {
    if (partition->dp) return ls_comm_all_gather(partition->dp, own, all, bytes);
    memcpy(all, own, bytes[0]);
    return LS_OK;
}

typedef struct collector {
    ls_partition *partition;
    ls_hash128 *hashes;
} collector;

static ls_status collect(void *ctx, const ls_param *param, bool is_lookup, int group, float *leaf, size_t elems) {
    collector *c = ctx;
    (void)group;
    (void)elems;
    return ls_partition_leaf_hash(c->partition, param, leaf, &c->hashes[2 * param->number + (is_lookup ? 1 : 0)]);
}

/* ---- a plan for one group ---------------------------------------------------------------------------------------- */

typedef struct plan {
    ls_micro_list micros;
    ls_schedule schedule;
    ls_grad_step *steps;
    ls_micro_steps *micro_steps;
} plan;

static size_t group_begin(const ls_partition *partition, int g) {
    return ls_slice_begin(partition->setup.B, partition->setup.G, g);
}

static size_t pieces_of(const ls_partition *partition, int g) {
    size_t sequences = g < 0 ? 0 : group_begin(partition, g + 1) - group_begin(partition, g);
    return (sequences + partition->micro - 1) / partition->micro;
}

/* Plans the pieces of the audited groups. All replicas get the same number of micro-batches, some of them empty,
 * because with ZeRO 3 they gather weights together. */
static ls_status make_plan(const ls_partition *partition, const int *groups, plan *p) {
    const ls_layout *layout = &partition->setup.layout;
    int own = groups[partition->setup.place.dp];
    size_t count = 1, begin = own < 0 ? 0 : group_begin(partition, own),
           end = own < 0 ? 0 : group_begin(partition, own + 1);
    for (int d = 0; d < layout->dp; d++)
        if (pieces_of(partition, groups[d]) > count) count = pieces_of(partition, groups[d]);
    p->micros.micro = calloc(count, sizeof *p->micros.micro);
    p->steps = calloc(count * (partition->micro + 1), sizeof *p->steps);
    p->micro_steps = calloc(count, sizeof *p->micro_steps);
    if (!p->micros.micro || !p->steps || !p->micro_steps)
        return ls_fail(LS_ERR_RESOURCE, "out of memory for an audit of %zu micro-batches", count);
    p->micros.count = (int)count;
    p->micros.most = partition->micro;
    int steps = 0, slot = ls_partition_rounds(partition) ? 0 : partition->audit_slot;
    for (size_t m = 0, at = begin; m < count; m++) {
        size_t next = end - at < partition->micro ? end : at + partition->micro;
        p->micros.micro[m] = (ls_micro){.begin = at, .end = next};
        int more = ls_partition_plan_group(partition, own, &p->micros.micro[m], slot, p->steps + steps);
        p->micro_steps[m] = (ls_micro_steps){.first = steps, .count = more};
        steps += more;
        at = next;
    }
    return ls_schedule_make(LS_SCHEDULE_NAIVE, layout->pp, layout->virtual_stages, (int)count, &p->schedule);
}

static void exchange_plans(ls_partition *partition, plan *p) {
    plan was = {partition->micros, partition->schedule, partition->steps, partition->micro_steps};
    partition->micros = p->micros;
    partition->schedule = p->schedule;
    partition->steps = p->steps;
    partition->micro_steps = p->micro_steps;
    *p = was;
}

ls_status ls_partition_audit(ls_partition *partition, uint64_t step, float start, const ls_partition_feed *feed,
                             const int *groups, ls_hash128 *hashes) {
    plan p = {.steps = NULL};
    collector c = {partition, hashes};
    ls_leaf_watch watch = partition->nn.watch;
    memset(hashes, 0, ls_audit_hashes(partition->model) * sizeof *hashes);
    ls_status status = make_plan(partition, groups, &p);
    if (status == LS_OK) {
        exchange_plans(partition, &p);
        partition->nn.watch = (ls_leaf_watch){.leaf = collect, .ctx = &c};
        partition->audits = true;
        status = ls_partition_run_lists(partition, step, start, feed);
        partition->audits = false;
        partition->nn.watch = watch;
        exchange_plans(partition, &p);
    }
    ls_schedule_free(&p.schedule);
    ls_micro_list_free(&p.micros);
    free(p.steps);
    free(p.micro_steps);
    return status;
}

ls_status ls_partition_compute_otherwise(ls_partition *partition, bool otherwise) {
    ls_fault_path = otherwise;
    return ls_device_compute_otherwise(partition->device, otherwise);
}

/* ---- results on the way: sums of hashes, by site ----------------------------------------------------------------- */

static size_t site_of(const ls_partition *partition, int made) {
    const ls_partition_at *at = &partition->at;
    int n = partition->model->nblocks, place = at->is_back ? 2 * n - 1 - at->block : at->block;
    return (size_t)place * LS_RESULTS_MAX + (size_t)made;
}

/* Adds the hash of a sequence to a sum. The sequence number is hashed too, so that exchanged sequences change the
 * sum. */
static void add_sequence(ls_hash128 *sum, size_t number, ls_hash128 hash, size_t bytes) {
    ls_hash128 both[2] = {hash, {number, bytes}}, one = ls_hash_combine(both, 2);
    sum->lo += one.lo;
    sum->hi += one.hi;
}

/* Adds the sequences that a micro-batch shares with a group. */
static ls_status add_group(ls_partition *partition, int group, ls_hash128 *sum, const ls_micro *made, const char *x,
                           size_t bytes) {
    size_t begin = ls_slice_begin(partition->setup.B, partition->setup.G, group);
    size_t end = ls_slice_begin(partition->setup.B, partition->setup.G, group + 1);
    size_t each = bytes / (made->end - made->begin);
    if (begin < made->begin) begin = made->begin;
    if (end > made->end) end = made->end;
    if (begin >= end) return LS_OK;
    for (size_t s = begin; s < end; s++)
        LS_TRY(ls_partition_make_hash(partition, s - begin, x + (s - made->begin) * each, each));
    LS_TRY(ls_partition_read_hashes(partition, partition->host_hashes, end - begin));
    for (size_t s = begin; s < end; s++) add_sequence(sum, s, partition->host_hashes[s - begin], each);
    return LS_OK;
}

/* Adds the sequences of a result to the sums of all requested groups. */
static ls_status add_result(ls_partition *partition, int made, const ls_micro *of, const void *x, size_t bytes) {
    const ls_result_sums *results = partition->results;
    size_t sites = ls_result_sites(partition->model), site = site_of(partition, made);
    for (int i = 0; results && i < results->count; i++)
        if (results->group[i] >= 0)
            LS_TRY(add_group(partition, results->group[i], &results->sites[(size_t)i * sites + site], of, x, bytes));
    return LS_OK;
}

ls_status ls_partition_add_result(ls_partition *partition, int made, const void *x, size_t bytes) {
    return add_result(partition, made, partition->at.micro, x, bytes);
}

/* Results of some sequences have the numbers that those of all have, so how many came at once makes no difference. */
static ls_status take(void *ctx, ls_made_part *part, const void *y, ls_dtype dtype, size_t elems) {
    ls_partition *partition = ctx;
    if (!partition->at.micro) return LS_OK;
    int *count = part ? &part->made : &partition->at.made, made = *count;
    ls_micro of = *partition->at.micro;
    if (part) of.begin += part->first;
    if (part) of.end = of.begin + part->count;
    if (made < LS_RESULTS_MAX - 2) ++*count;
    LS_TRY(add_result(partition, made, &of, y, elems * ls_dtype_bytes(dtype)));
    return ls_partition_look_at_result(partition, made, y, dtype, elems);
}

void ls_partition_watch_results(ls_partition *partition) {
    partition->nn.made = partition->results || partition->hunt ? (ls_made_watch){take, partition, NULL}
                                                               : (ls_made_watch){NULL, NULL, NULL};
}

void ls_partition_sum_results(ls_partition *partition, const ls_result_sums *results) {
    partition->results = results;
    ls_partition_watch_results(partition);
}

size_t ls_result_first(const ls_hash128 *a, const ls_hash128 *b, size_t sites) {
    size_t i = 0;
    while (i < sites && ls_hash_equal(a[i], b[i])) i++;
    return i;
}

/* ---- blame: majorities of hashes --------------------------------------------------------------------------------- */

/* Returns the only hash that can be the majority, by the algorithm of Boyer and Moore: one pass without memory. */
static ls_hash128 candidate_of(const ls_hash128 *hashes, size_t holders) {
    ls_hash128 candidate = {0, 0};
    size_t lead = 0;
    for (size_t i = 0; i < holders; i++) {
        if (lead == 0) candidate = hashes[i];
        if (ls_hash_equal(hashes[i], candidate))
            lead++;
        else
            lead--;
    }
    return candidate;
}

ls_blame ls_blame_holders(const ls_hash128 *hashes, size_t holders, bool *named) {
    ls_hash128 candidate = candidate_of(hashes, holders);
    size_t agree = 0;
    for (size_t i = 0; i < holders; i++) {
        named[i] = !ls_hash_equal(hashes[i], candidate);
        agree += !named[i];
    }
    if (agree == holders) return LS_BLAME_NOBODY;
    if (agree > holders - agree) return LS_BLAME_SOME;
    for (size_t i = 0; i < holders; i++) named[i] = true;
    return LS_BLAME_ALL;
}

ls_blame_audit_verdict ls_blame_audit(ls_hash128 owner, ls_hash128 auditor, const ls_hash128 *third) {
    if (ls_hash_equal(owner, auditor)) return LS_AUDIT_CLEAN;
    if (!third) return LS_AUDIT_UNDECIDED;
    if (ls_hash_equal(*third, auditor)) return LS_AUDIT_OWNER;
    if (ls_hash_equal(*third, owner)) return LS_AUDIT_AUDITOR;
    return LS_AUDIT_UNKNOWN;
}
