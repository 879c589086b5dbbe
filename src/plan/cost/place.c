/* place.c: which chips share a node.
 *
 * Chips are counted with the tensor-parallel ways fastest, then those that share a sequence, the replicas, the stages;
 * nodes are filled in that order. With 8 in a node, tp 2, dp 2 and pp 4:
 *
 *     node 0: stage 0 (0 1 | 2 3)  stage 1 (4 5 | 6 7)      0 → 1 inside, 1 → 2 between nodes, 2 → 3 inside,
 *     node 1: stage 2 (0 1 | 2 3)  stage 3 (4 5 | 6 7)      3 → 0, with virtual stages, between nodes */
#include "plan/cost/cost_case.h"

static int common(int a, int b) {
    while (b != 0) {
        int rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

int ls_plan_inner(int node, int stride, int size) {
    int span = stride * size;
    if (node % span == 0) return size;
    /* Groups begin at multiples of what span and node have in common, and so do nodes. */
    int inner = common(span, node) / stride;
    return inner < 1 ? 1 : inner < size ? inner : size;
}

bool ls_plan_border_leaves(const ls_plan_case *c, int stage) {
    const ls_knobs *l = c->layout;
    long long chips = (long long)l->tp * l->context * l->dp, node = c->site->node;
    if (stage == l->pp - 1) return chips * l->pp > node;
    return chips * stage / node != (chips * (stage + 2) - 1) / node;
}
