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

static size_t group_begin(const ls_grad_plan *plan, int g) { return ls_slice_begin(plan->B, plan->G, g); }

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

/* The largest subtree that begins with group g, ends before sequence `end` and fits one matmul. */
static ls_tree_node subtree_at(const ls_grad_plan *plan, int g, size_t end) {
    ls_tree_node node = {0, plan->G};
    while (node.count > 1) {
        bool inside = group_begin(plan, node.first + node.count) <= end;
        if (node.first == g && inside && node.count <= LS_GRAD_GROUPS_MAX) break;
        node = ls_tree_child(node, g);
    }
    return node;
}

size_t ls_grad_plan_next(ls_grad_plan *plan, size_t begin, size_t end, size_t at, ls_grad_step *step) {
    assert(begin <= at && at < end && end <= plan->B);
    int g = group_of(plan, at);
    size_t group_first = group_begin(plan, g), group_end = group_begin(plan, g + 1);
    ls_tree_node node = {g, 1};
    *step = (ls_grad_step){.first = at - begin, .groups = 1, .group = g, .at = plan->stack.depth};
    if (plan->cut == LS_GRAD_WHOLE && at == group_first && group_end <= end) {
        node = subtree_at(plan, g, end);
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
