/* audit.c: recomputes one gradient group of another replica and hashes its gradients, for comparison with the owner's;
 * and judges such hashes. */
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
    return partition->comms.dp ? ls_comm_all_gather(partition->comms.dp, &own, by_row, bytes) : LS_OK;
}

ls_status ls_partition_share_lists(ls_partition *partition, const ls_hash128 *own, ls_hash128 *all,
                                   const size_t *bytes) {
    if (partition->comms.dp) return ls_comm_all_gather(partition->comms.dp, own, all, bytes);
    memcpy(all, own, bytes[0]);
    return LS_OK;
}

typedef struct collector {
    ls_partition *partition;
    ls_hash128 *hashes;
} collector;

/* Observer of leaves during an audit: hashes each. */
static ls_status collect(void *ctx, const ls_param *param, bool is_lookup, int group, float *leaf, size_t elems) {
    collector *c = ctx;
    (void)group;
    (void)elems;
    return ls_partition_leaf_hash(c->partition, param, leaf, &c->hashes[2 * param->number + (is_lookup ? 1 : 0)]);
}

/* ---- a plan for one group ---------------------------------------------------------------------------------------- */

/* Returns the first sequence of group g. */
static size_t group_begin(const ls_partition *partition, int g) {
    return ls_slice_begin(partition->setup.B, partition->setup.G, g);
}

/* Returns how many micro-batches group g needs; 0 for −1. */
static size_t pieces_of(const ls_partition *partition, int g) {
    size_t sequences = g < 0 ? 0 : group_begin(partition, g + 1) - group_begin(partition, g);
    return (sequences + partition->micro - 1) / partition->micro;
}

/* Plans the pieces of the audited groups. All replicas get the same number of micro-batches, some of them empty,
 * because with ZeRO 3 they gather weights together. */
static ls_status make_plan(const ls_partition *partition, const int *groups, ls_pass_plan *p) {
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
    int steps = 0, slot = ls_partition_rounds(partition) ? 0 : partition->grads.audit_slot;
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

ls_status ls_partition_audit(ls_partition *partition, uint64_t step, float start, const ls_partition_feed *feed,
                             const int *groups, ls_hash128 *hashes) {
    ls_pass_plan p = {.audits = true}, own = partition->pass;
    collector c = {partition, hashes};
    ls_leaf_watch watch = partition->nn.grads.watch;
    memset(hashes, 0, ls_audit_hashes(partition->model) * sizeof *hashes);
    ls_status status = make_plan(partition, groups, &p);
    if (status == LS_OK) {
        partition->pass = p;
        partition->nn.grads.watch = (ls_leaf_watch){.leaf = collect, .ctx = &c};
        status = ls_partition_run_lists(partition, step, start, feed);
        partition->nn.grads.watch = watch;
        partition->pass = own;
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
