/* grad_plan.c: the stack of subtrees. Nodes are those of numerics/tree.h over G groups. */
#include "nn/grad_plan.h"

#include <assert.h>

#include "nn/shape.h"

void ls_grad_plan_begin(ls_grad_plan *plan, size_t B, int G, ls_grad_cut cut) {
    assert(G >= 1 && G <= LS_GROUPS_MAX && (size_t)G <= B);
    plan->B = B;
    plan->G = G;
    plan->cut = cut;
    plan->stack = (ls_tree_stack){.groups = G};
}

/* Returns the first sequence of group g. */
static size_t group_begin(const ls_grad_plan *plan, int g) { return ls_slice_begin(plan->B, plan->G, g); }

/* Returns the group that the sequence of the batch belongs to. */
static int group_of(const ls_grad_plan *plan, size_t sequence) {
    int low = 0, high = plan->G - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (group_begin(plan, middle) <= sequence)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Returns the largest subtree of a tree over `groups` that begins with group g and has `most` groups or fewer. */
static ls_tree_node subtree_at(int groups, int g, int most) {
    ls_tree_node node = {0, groups};
    while (node.count > 1 && (node.first != g || node.count > most)) node = ls_tree_child(node, g);
    return node;
}

/* Returns the largest subtree that begins with group g, ends before sequence `end` and fits one matmul. */
static ls_tree_node plan_subtree(const ls_grad_plan *plan, int g, size_t end) {
    int most = 1;
    while (most < LS_GRAD_GROUPS_MAX && g + most < plan->G && group_begin(plan, g + most + 1) <= end) most++;
    return subtree_at(plan->G, g, most);
}

size_t ls_grad_plan_next(ls_grad_plan *plan, size_t begin, size_t end, size_t at, ls_grad_step *step) {
    assert(begin <= at && at < end && end <= plan->B);
    int g = group_of(plan, at);
    size_t group_first = group_begin(plan, g), group_end = group_begin(plan, g + 1);
    ls_tree_node node = {g, 1};
    *step = (ls_grad_step){.first = at - begin, .groups = 1, .group = g, .at = plan->stack.depth};
    if (plan->cut == LS_GRAD_WHOLE && at == group_first && group_end <= end) {
        node = plan_subtree(plan, g, end);
        step->groups = node.count;
        for (int i = 1; i <= node.count; i++) step->bounds[i] = group_begin(plan, g + i) - at;
    } else {
        step->accumulate = at > group_first;
        step->bounds[1] = plan->cut == LS_GRAD_SEQUENCES ? 1 : (group_end < end ? group_end : end) - at;
    }
    size_t next = at + step->bounds[step->groups];
    step->end = next - begin;
    step->ends = next == group_begin(plan, node.first + node.count);
    if (step->ends) step->joins = ls_tree_stack_push(&plan->stack, node);
    return next;
}

ls_grad_slots ls_grad_slots_count(size_t B, int G, ls_grad_cut cut, size_t begin, size_t end, size_t micro) {
    ls_grad_plan plan;
    ls_grad_slots slots = {1, 1, 1};
    assert(micro > 0);
    ls_grad_plan_begin(&plan, B, G, cut);
    for (; begin < end; begin += micro) {
        size_t micro_end = end - begin < micro ? end : begin + micro;
        for (size_t at = begin; at < micro_end;) {
            ls_grad_step step;
            at = ls_grad_plan_next(&plan, begin, micro_end, at, &step);
            bool whole = cut == LS_GRAD_WHOLE && !step.accumulate && step.joins > 0;
            int product = whole ? step.at - step.joins : step.at;
            if (product + 1 > slots.product) slots.product = product + 1;
            if (step.at + 1 > slots.sum) slots.sum = step.at + 1;
        }
    }
    slots.parts = plan.stack.depth;
    return slots;
}

/* ---- steps in parts ---------------------------------------------------------------------------------------------- */

ls_grad_parts ls_grad_parts_begin(const ls_grad_step *steps) {
    return (ls_grad_parts){.step = steps, .stack = {.groups = steps->groups}};
}

/* Returns the largest subtree of the step's groups that begins with its group g and ends by sequence `end` of the
 * step. */
static ls_tree_node whole_groups(const ls_grad_step *step, int g, size_t end) {
    int most = 1;
    while (g + most < step->groups && step->bounds[g + most + 1] <= end) most++;
    return subtree_at(step->groups, g, most);
}

size_t ls_grad_parts_next(ls_grad_parts *parts, size_t begin, size_t end, size_t at, ls_grad_step *part) {
    if (at == parts->step->end) *parts = ls_grad_parts_begin(parts->step + 1);
    const ls_grad_step *step = parts->step;
    assert(begin <= at && step->first <= at && at < step->end);
    size_t from = at - step->first, to = (end < step->end ? end : step->end) - step->first;
    int g = 0;
    while (step->bounds[g + 1] <= from) g++;
    ls_tree_node node = {g, 1};
    if (from == step->bounds[g] && step->bounds[g + 1] <= to) node = whole_groups(step, g, to);
    *part = (ls_grad_step){.first = at - begin,
                           .groups = node.count,
                           .accumulate = step->accumulate || from > step->bounds[g],
                           .group = step->group + g,
                           .at = step->at + parts->stack.depth};
    for (int i = 1; i <= node.count; i++) {
        size_t group_end = step->bounds[g + i];
        part->bounds[i] = (group_end < to ? group_end : to) - from;
    }
    size_t next = from + part->bounds[node.count];
    part->end = part->first + part->bounds[node.count];
    part->ends = step->ends && next == step->bounds[g + node.count];
    if (part->ends) part->joins = ls_tree_stack_push(&parts->stack, node);
    if (part->ends && next == step->bounds[step->groups]) part->joins += step->joins;
    return step->first + next;
}

int ls_grad_parts_slots(const ls_grad_step *steps, size_t sequences, size_t chunk, bool leaves) {
    ls_grad_parts parts = ls_grad_parts_begin(steps);
    int slots = 1;
    for (size_t begin = 0, at = 0; at < sequences; begin = at) {
        size_t end = sequences - begin < chunk ? sequences : begin + chunk;
        while (at < end) {
            ls_grad_step part;
            at = ls_grad_parts_next(&parts, begin, end, at, &part);
            int used = leaves || part.accumulate ? part.at : part.at - part.joins;
            if (used + 1 > slots) slots = used + 1;
        }
    }
    return slots;
}
