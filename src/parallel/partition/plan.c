/* plan.c: plans which gradient steps (matmuls over the tokens of a group or a part of it, nn/grad_plan.h) backward
 * makes for each micro-batch, and in which slots the gradients of groups are collected. */
#include <assert.h>

#include "parallel/partition/state.h"

int ls_partition_plan_group(const ls_partition *partition, int group, const ls_micro *micro, int slot,
                            ls_grad_step *steps) {
    const ls_partition_setup *setup = &partition->setup;
    bool single = setup->policy.accumulate != LS_F32;
    int count = 0;
    for (size_t at = micro->begin; at < micro->end;) {
        size_t next = single ? at + 1 : micro->end;
        steps[count++] = (ls_grad_step){.first = at - micro->begin,
                                        .end = next - micro->begin,
                                        .groups = 1,
                                        .group = group,
                                        .bounds = {0, next - at},
                                        .accumulate = at > ls_slice_begin(setup->B, setup->G, group),
                                        .ends = next == ls_slice_begin(setup->B, setup->G, group + 1),
                                        .at = slot};
        at = next;
    }
    return count;
}

/* Plans the gradient steps of micro-batch m. With rounds each group is a leaf; otherwise micro-batches go to the stack
 * of partial sums. */
static void plan_micro(ls_partition *partition, ls_grad_plan *plan, int m, int *count) {
    const ls_micro *micro = &partition->pass.micros.micro[m];
    partition->pass.micro_steps[m].first = *count;
    if (ls_partition_rounds(partition)) {
        int group = ls_layout_group(&partition->setup.layout, partition->setup.place.dp, micro->round);
        *count += ls_partition_plan_group(partition, group, micro, 0, partition->pass.steps + *count);
    } else {
        for (size_t at = micro->begin; at < micro->end;)
            at = ls_grad_plan_next(plan, micro->begin, micro->end, at, &partition->pass.steps[(*count)++]);
    }
    partition->pass.micro_steps[m].count = *count - partition->pass.micro_steps[m].first;
}

/* Marks which slots hold a leaf after backward: the subtrees of this replica's groups are in the order of the slots. */
static void find_leaves(ls_partition *partition) {
    ls_tree_node cover[LS_TREE_COVER_MAX];
    const int *bounds = partition->grads.group_bounds + partition->setup.place.dp;
    int count = ls_tree_cover(partition->setup.G, bounds[0], bounds[1], cover);
    for (int i = 0; i < count && i < LS_GRAD_SLOTS_MAX; i++) partition->grads.part_is_leaf[i] = cover[i].count == 1;
}

/* Returns the gradient slots that the head's table needs. Its gradient is computed one chunk of the loss at a time. */
static int table_slots(const ls_partition *partition) {
    size_t chunk = partition->nn.loss_chunk;
    int most = 1;
    for (int m = 0; m < partition->pass.micros.count; m++) {
        const ls_micro *micro = &partition->pass.micros.micro[m];
        size_t sequences = micro->end - micro->begin;
        if (sequences == 0) continue;
        int slots = ls_grad_parts_slots(partition->pass.steps + partition->pass.micro_steps[m].first, sequences,
                                        chunk > 0 ? chunk : sequences, partition->nn.grads.leaves);
        if (slots > most) most = slots;
    }
    return most;
}

ls_status ls_partition_plan_steps(ls_partition *partition) {
    const ls_partition_setup *setup = &partition->setup;
    const ls_layout *layout = &setup->layout;
    int row = setup->place.dp, count = 0;
    bool single = setup->policy.accumulate != LS_F32;
    ls_grad_cut cut = single ? LS_GRAD_SEQUENCES : partition->nn.grads.leaves ? LS_GRAD_LEAVES : LS_GRAD_WHOLE;
    size_t steps = (size_t)partition->pass.micros.count * 2 + (size_t)setup->G + (single ? setup->B : 0);
    partition->pass.steps = ls_partition_take(partition, steps, sizeof *partition->pass.steps);
    partition->pass.micro_steps =
        ls_partition_take(partition, (size_t)partition->pass.micros.count, sizeof *partition->pass.micro_steps);
    partition->grads.group_bounds =
        ls_partition_take(partition, (size_t)layout->dp + 1, sizeof *partition->grads.group_bounds);
    if (partition->memory.region.is_short) return ls_partition_no_memory();
    for (int d = 0; d <= layout->dp; d++) partition->grads.group_bounds[d] = ls_layout_first_group(layout, d);
    partition->nn.batch_norm.sync.bounds = partition->grads.group_bounds;
    ls_grad_plan plan;
    ls_grad_plan_begin(&plan, setup->B, setup->G, cut);
    for (int m = 0; m < partition->pass.micros.count; m++) plan_micro(partition, &plan, m, &count);
    assert((size_t)count <= steps);
    find_leaves(partition);
    partition->grads.slots = ls_grad_slots_count(
        setup->B, setup->G, cut, ls_slice_begin(setup->B, setup->G, partition->grads.group_bounds[row]),
        ls_slice_begin(setup->B, setup->G, partition->grads.group_bounds[row + 1]), layout->micro);
    partition->grads.table_slots = table_slots(partition);
    partition->grads.audit_slot = partition->grads.table_slots;
    if (partition->grads.slots.sum > partition->grads.audit_slot)
        partition->grads.audit_slot = partition->grads.slots.sum;
    if (partition->grads.slots.product > partition->grads.audit_slot)
        partition->grads.audit_slot = partition->grads.slots.product;
    if (!ls_partition_rounds(partition)) return LS_OK;
    partition->grads.leaves_pass = partition->pass.micros.count == partition->pass.micros.rounds;
    return ls_rounds_make(layout, setup->G, &partition->grads.rounds);
}
