/* collective.c: the time of collectives on a cluster of nodes, and which chips of a group share a node.
 *
 * A ring over n chips moves (n − 1)/n of the bytes through each of them once (gather, scatter) or twice (all-reduce). A
 * group that spans nodes uses as many network adapters in each node as it has chips there. Its bandwidth is that of
 * these adapters together, but at most that of the link inside the node; its latency is at least that of one node.
 *
 * Ranks count the tp index fastest, then context, dp and pp; nodes are filled in the order of ranks. With 8 chips in a
 * node, tp 2, dp 2 and pp 4:
 *
 *     node 0: stage 0 (0 1 | 2 3)  stage 1 (4 5 | 6 7)      0 → 1 inside, 1 → 2 between nodes, 2 → 3 inside,
 *     node 1: stage 2 (0 1 | 2 3)  stage 3 (4 5 | 6 7)      3 → 0, with virtual stages, between nodes */
#include <stdio.h>
#include <string.h>

#include "plan/cost/cost_case.h"

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* Returns the greatest common divisor. */
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
    /* Groups and nodes both begin at multiples of the common divisor of span and node. */
    int inner = common(span, node) / stride;
    return inner < 1 ? 1 : inner < size ? inner : size;
}

void ls_plan_place(ls_plan_case *c) {
    const ls_knobs *l = c->layout;
    int node = c->site->node;
    c->tp_inner = ls_plan_inner(node, 1, l->tp);
    c->context_inner = ls_plan_inner(node, l->tp, l->context);
    c->dp_inner = ls_plan_inner(node, l->tp, l->context * l->dp);
    c->shard_inner = ls_plan_inner(node, l->tp, ls_plan_shards(c));
}

bool ls_plan_border_leaves(const ls_plan_case *c, int stage) {
    const ls_knobs *l = c->layout;
    long long chips = (long long)l->tp * l->context * l->dp, node = c->site->node;
    if (stage == l->pp - 1) return chips * l->pp > node;
    return chips * stage / node != (chips * (stage + 2) - 1) / node;
}

/* ---- times ------------------------------------------------------------------------------------------------------- */

/* Trees are faster than rings from this number of nodes on, or of chips in a node: latency grows no further. */
enum { RING_NODES_MAX = 40 };

/* Returns the seconds of a collective without bytes: its start, and `hops` latencies for each of `places`, counted up
 * to RING_NODES_MAX. */
static double start_and_latency(const ls_link *link, int places, int hops) {
    return link->start_seconds + link->latency_seconds * hops * (places < RING_NODES_MAX ? places : RING_NODES_MAX);
}

double ls_plan_link_rate(const ls_link *link) { return link->bandwidth * link->share; }

/* Rings of few chips do not saturate their links: 193, 218 and 227 GB/s were measured with 2, 4 and 8 A100. */
static const double SMALL_RING_LOSS = .65;

/* Returns how often the bytes pass through each chip: an all-reduce is a reduce-scatter and an all-gather. */
static double ways(ls_collective kind) { return kind == LS_ALL_REDUCE ? 2 : 1; }

double ls_plan_across_seconds(const ls_plan_case *c, double bytes, double chips) {
    const ls_link *across = &c->task->cluster.across;
    return across->start_seconds + across->latency_seconds + bytes * chips / ls_plan_link_rate(across);
}

double ls_plan_collective_seconds(const ls_plan_case *c, ls_collective kind, int size, int inner, double bytes) {
    if (size < 2) return 0;
    const ls_link *inside = &c->site->inside, *between = &c->site->between;
    int nodes = (size + inner - 1) / inner;
    double rate = ls_plan_link_rate(inside), reached = 1 - SMALL_RING_LOSS / ((double)size * size);
    double wait = start_and_latency(inside, size, 1);
    if (nodes > 1) {
        double out = inner * ls_plan_link_rate(between), apart = start_and_latency(between, nodes, 2);
        if (out < rate || inner == 1) rate = out;
        if (apart > wait || inner == 1) wait = apart;
    }
    return wait + bytes * ways(kind) * (size - 1) / size / (rate * reached);
}

double ls_plan_ring_seconds(const ls_plan_case *c, ls_collective kind, int size, double bytes) {
    const ls_link *between = &c->site->between;
    if (size <= c->site->node) return ls_plan_collective_seconds(c, kind, size, size, bytes);
    return between->start_seconds + 1.6 * between->latency_seconds * size +
           bytes * ways(kind) * (size - 1) / size / ls_plan_link_rate(between);
}

double ls_plan_send_seconds(const ls_plan_case *c, int stage, double bytes) {
    bool leaves = ls_plan_border_leaves(c, stage);
    const ls_link *link = leaves ? &c->site->between : &c->site->inside;
    return link->start_seconds + bytes / ls_plan_link_rate(link) * (leaves ? 1 : 2);
}

ls_algorithm ls_plan_collective_algorithm(const ls_plan_case *c, int size, int inner) {
    ls_algorithm out;
    const ls_link *inside = &c->site->inside;
    int nodes = (size + inner - 1) / inner;
    const char *many = nodes >= RING_NODES_MAX ? "trees" : nodes == 1 && size >= RING_NODES_MAX ? "tree" : NULL;
    if (nodes == 1 && inside->source && strstr(inside->source, "in the switch"))
        snprintf(out.text, sizeof out.text, "reduced in the switch of the node, %d chips", size);
    else if (nodes == 1)
        snprintf(out.text, sizeof out.text, "%s over %d chips of a node", many ? many : "ring", size);
    else if (inner == 1)
        snprintf(out.text, sizeof out.text, "%s over %d nodes, one chip in each", many ? many : "ring", nodes);
    else
        snprintf(out.text, sizeof out.text, "hierarchical: %d %s over %d nodes, each through its own adapter", inner,
                 many ? many : "rings", nodes);
    return out;
}

ls_algorithm ls_plan_ring_algorithm(const ls_plan_case *c, int size) {
    ls_algorithm out;
    if (size <= c->site->node) return ls_plan_collective_algorithm(c, size, size);
    snprintf(out.text, sizeof out.text, "one ring over all %d chips, through one adapter of each node", size);
    return out;
}
