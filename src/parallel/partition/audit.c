/* audit.c: one group of another row, for comparison. */
#include "parallel/partition/audit.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "parallel/partition/state.h"

/* ---- hashes ------------------------------------------------------------------------------------------------------ */

ls_status ls_stage_leaf_hash(ls_stage *stage, const ls_param *param, const float *leaf, size_t elems, ls_hash128 *out) {
    const ls_nn *nn = &stage->nn;
    if (param->kind == LS_PARAM_VECTOR && !param->split && nn->sequence_parallel) {
        /* The other token slices are other workers'. */
        leaf += (size_t)nn->slice0 * param->local_rows;
        elems = (size_t)nn->slices * param->local_rows;
    }
    return stage->nn.ops->hash(stage->device, out, leaf, elems * sizeof *leaf);
}

ls_status ls_stage_share_hashes(ls_stage *stage, const ls_hash128 *hashes, ls_hash128 *by_row) {
    size_t bytes[LS_WORKERS_MAX];
    ls_hash128 own = ls_hash_combine(hashes, ls_audit_hashes(stage->model));
    by_row[0] = own;
    for (int r = 0; r < stage->setup.layout.dp; r++) bytes[r] = sizeof own;
    return stage->dp ? ls_comm_all_gather(stage->dp, &own, by_row, bytes) : LS_OK;
}

ls_status ls_stage_share_lists(ls_stage *stage, const ls_hash128 *own, ls_hash128 *all, const size_t *bytes) {
    if (stage->dp) return ls_comm_all_gather(stage->dp, own, all, bytes);
    memcpy(all, own, bytes[0]);
    return LS_OK;
}

typedef struct collector {
    ls_stage *stage;
    ls_hash128 *hashes;
} collector;

static ls_status collect(void *ctx, const ls_param *param, bool is_lookup, int group, float *leaf, size_t elems) {
    collector *c = ctx;
    (void)group;
    return ls_stage_leaf_hash(c->stage, param, leaf, elems, &c->hashes[2 * param->number + (is_lookup ? 1 : 0)]);
}

/* ---- a plan for one group ---------------------------------------------------------------------------------------- */

typedef struct plan {
    ls_micro_list micros;
    ls_schedule schedule;
    ls_grad_step *steps;
    ls_micro_steps *micro_steps;
} plan;

static size_t group_begin(const ls_stage *stage, int g) { return ls_slice_begin(stage->setup.B, stage->setup.G, g); }

static size_t pieces_of(const ls_stage *stage, int g) {
    size_t sequences = g < 0 ? 0 : group_begin(stage, g + 1) - group_begin(stage, g);
    return (sequences + stage->micro - 1) / stage->micro;
}

/* All rows have as many micro-batches, some of them empty: with zero 3 they gather weights together. */
static ls_status make_plan(const ls_stage *stage, const int *groups, plan *p) {
    const ls_layout *layout = &stage->setup.layout;
    int own = groups[stage->setup.place.dp];
    size_t count = 1, begin = own < 0 ? 0 : group_begin(stage, own), end = own < 0 ? 0 : group_begin(stage, own + 1);
    for (int d = 0; d < layout->dp; d++)
        if (pieces_of(stage, groups[d]) > count) count = pieces_of(stage, groups[d]);
    p->micros.micro = calloc(count, sizeof *p->micros.micro);
    p->steps = calloc(count * (stage->micro + 1), sizeof *p->steps);
    p->micro_steps = calloc(count, sizeof *p->micro_steps);
    if (!p->micros.micro || !p->steps || !p->micro_steps)
        return ls_fail(LS_ERR_RESOURCE, "out of memory for an audit of %zu micro-batches", count);
    p->micros.count = (int)count;
    p->micros.most = stage->micro;
    int steps = 0;
    bool single = stage->setup.policy.accumulate != LS_F32;
    for (size_t m = 0, at = begin; m < count; m++) {
        size_t next = end - at < stage->micro ? end : at + stage->micro;
        p->micros.micro[m] = (ls_micro){.begin = at, .end = next};
        p->micro_steps[m].first = steps;
        for (size_t s = at; s < next;) {
            size_t to = single ? s + 1 : next;
            p->steps[steps++] = (ls_grad_step){.first = s - at,
                                               .end = to - at,
                                               .groups = 1,
                                               .group = own,
                                               .bounds = {0, to - s},
                                               .accumulate = s > begin,
                                               .ends = to == end,
                                               .at = ls_stage_rounds(stage) ? 0 : stage->audit_slot};
            s = to;
        }
        p->micro_steps[m].count = steps - p->micro_steps[m].first;
        at = next;
    }
    return ls_schedule_make(LS_SCHEDULE_NAIVE, layout->pp, layout->virtual_stages, (int)count, &p->schedule);
}

static void exchange_plans(ls_stage *stage, plan *p) {
    plan was = {stage->micros, stage->schedule, stage->steps, stage->micro_steps};
    stage->micros = p->micros;
    stage->schedule = p->schedule;
    stage->steps = p->steps;
    stage->micro_steps = p->micro_steps;
    *p = was;
}

ls_status ls_stage_audit(ls_stage *stage, uint64_t step, float start, const ls_stage_feed *feed, const int *groups,
                         ls_hash128 *hashes) {
    plan p = {.steps = NULL};
    collector c = {stage, hashes};
    ls_leaf_watch watch = stage->nn.watch;
    ls_loss_sum loss = {0};
    memset(hashes, 0, ls_audit_hashes(stage->model) * sizeof *hashes);
    ls_status status = make_plan(stage, groups, &p);
    if (status == LS_OK) {
        exchange_plans(stage, &p);
        stage->nn.watch = (ls_leaf_watch){.leaf = collect, .ctx = &c};
        stage->audits = true;
        status = ls_stage_run_lists(stage, step, start, feed, &loss);
        stage->audits = false;
        stage->nn.watch = watch;
        exchange_plans(stage, &p);
    }
    ls_schedule_free(&p.schedule);
    ls_micro_list_free(&p.micros);
    free(p.steps);
    free(p.micro_steps);
    return status;
}

void ls_stage_use_device(ls_stage *stage, ls_device *device) {
    stage->nn.device = device ? device : stage->device;
    stage->nn.ops = stage->nn.device->ops;
    ls_fault_path = device != NULL;
}
