/* traffic.c: computes how many bytes a chip sends in a step, for what purpose, and over which link.
 *
 * Bytes are those of a chip of a middle stage of the pipeline that has as many layers as any; a gather or a scatter
 * among n chips sends (n − 1)/n of the buffer, an all-reduce twice that. Each fill function leaves its flow at 0 bytes
 * if the layout has no such traffic. */
#include "plan/cost/cost_case.h"
#include "report/memo/facts.h"

/* Sets the slowest link of a group of `size` chips, `inner` of which share a node, and the bytes that leave the node by
 * a chip's own adapter. */
static void set_link(const ls_memo_facts *f, ls_memo_flow *flow, int size, int inner) {
    bool leaves = size > inner;
    flow->link = leaves ? &f->site->between : &f->site->inside;
    flow->where = leaves ? "between nodes" : "inside a node";
    flow->outside_bytes = leaves ? flow->bytes / inner : 0; /* as many adapters of a node take part */
}

/* Sets the collective and the algorithm that is assumed. */
static void set_how(ls_memo_flow *flow, const char *collective, const char *algorithm) {
    snprintf(flow->how, sizeof flow->how, "%s: %.80s", collective, algorithm);
}

/* Fills the flow of tensor parallelism for a stage with `layers` layers. */
static void fill_tensor_flow(const ls_memo_facts *f, const ls_plan_case *c, double layers, ls_memo_flow *flow) {
    const ls_knobs *l = c->layout;
    if (l->tp < 2) return;
    double bytes = c->elem * c->tokens * c->C, part = (l->tp - 1.0) / l->tp;
    double forward = 2, backward = l->sequence_parallel ? 3 : 2, times = layers * c->micros;
    double again = l->recompute == LS_RECOMPUTE_FULL ? forward : 0, sums = forward + backward + again;
    /* Inputs of matmuls in 8 bits are gathered as such. */
    double gathered = ls_plan_is_8bit(l->type) && l->sequence_parallel ? bytes / 2 : bytes;
    double one = ls_plan_collective_seconds(c, LS_ALL_REDUCE, l->tp, c->tp_inner, bytes);
    if (l->sequence_parallel)
        one = ls_plan_collective_seconds(c, LS_ALL_GATHER, l->tp, c->tp_inner, gathered) +
              ls_plan_collective_seconds(c, LS_REDUCE_SCATTER, l->tp, c->tp_inner, bytes);
    flow->what = "tensor parallelism: activations and their gradients in layers";
    flow->when = "in every layer, for every micro-batch";
    flow->bytes = times * sums * part * (bytes + gathered);
    flow->link_seconds = times * sums * one;
    flow->seen = f->choice.prediction.time[LS_TIME_TP] * sums / (forward + backward);
    set_link(f, flow, l->tp, c->tp_inner);
    set_how(flow, l->sequence_parallel ? "all-gather and reduce-scatter" : "all-reduce",
            ls_plan_collective_algorithm(c, l->tp, c->tp_inner).text);
}

/* Returns the seconds of the slowest transfer between neighbouring stages. */
static double slowest_send(const ls_knobs *l, const ls_plan_chunks *chunks) {
    double most = 0;
    for (int s = 0; s < l->pp - 1; s++)
        if (chunks->send[s] > most) most = chunks->send[s];
    return most;
}

/* Fills the flow of activations between stages. */
static void fill_stage_flow(const ls_memo_facts *f, const ls_plan_case *c, const ls_plan_chunks *chunks,
                            ls_memo_flow *flow) {
    const ls_knobs *l = c->layout;
    if (l->pp < 2) return;
    double messages = (l->pp > 2 ? 2.0 * l->virtual_stages : 2.0 * l->virtual_stages - 1) * c->micros;
    flow->what = "pipeline: activations and their gradients between stages";
    flow->when = "between stages, for every micro-batch";
    flow->bytes = messages * c->elem * c->tokens * c->C / c->t;
    flow->link_seconds = messages * slowest_send(l, chunks);
    flow->seen = f->choice.prediction.time[LS_TIME_P2P];
    int leaving = 0;
    for (int s = 0; s < l->pp - 1; s++) leaving += ls_plan_border_leaves(c, s);
    set_link(f, flow, leaving > 0 ? 2 : 1, 1);
    if (leaving > 0 && leaving < l->pp - 1) flow->where = "inside nodes and between them";
    set_how(flow, "send and receive", "point to point");
}

/* Fills the flow for ZeRO 3 sharded among some replicas only (hybrid sharding): the other groups of replicas hold
 * copies of the shards, and the gradients of the copies are all-reduced. Sets reduce_bytes. params: those of a
 * stage. */
static void copies_flow(ls_memo_facts *f, const ls_plan_case *c, double params, ls_memo_flow *flow) {
    const ls_knobs *l = c->layout;
    int S = ls_plan_shards(c), copies = l->dp * l->context / S, inner = ls_plan_inner(f->site->node, l->tp * S, copies);
    double grad = l->type == LS_PLAN_FP32 ? 4 : ls_plan_reduce_bytes(&c->task->stack, l->type);
    if (copies < 2) return;
    f->reduce_bytes = 2 * params * grad / S * (copies - 1) / copies;
    flow->what = "hybrid sharding: gradients of shards and their copies";
    flow->when = "once per step";
    flow->bytes = f->reduce_bytes;
    flow->link_seconds = f->choice.prediction.link_dp;
    flow->seen = f->choice.prediction.link_dp - f->choice.prediction.hidden_dp;
    set_link(f, flow, copies, inner);
    set_how(flow, "all-reduce", ls_plan_collective_algorithm(c, copies, inner).text);
}

/* Fills the flow of gradients and updated weights between replicas, and sets reduce_bytes and spread_bytes. params:
 * those of a stage. */
static void fill_replica_flow(ls_memo_facts *f, const ls_plan_case *c, double params, ls_memo_flow *flow) {
    const ls_knobs *l = c->layout;
    const ls_stack *stack = &c->task->stack;
    int D = l->dp * l->context;
    if (f->gathers) copies_flow(f, c, params, flow);
    if (D < 2 || f->gathers) return;
    double part = (D - 1.0) / D, grad = l->type == LS_PLAN_FP32 ? 4 : ls_plan_reduce_bytes(stack, l->type);
    f->reduce_bytes = params * grad * part * (l->zero == 0 || stack->reduce_whole ? 2 : 1);
    if (f->reduces_often)
        f->reduce_bytes *= c->micros; /* no worker keeps a whole gradient from one micro-batch to the next */
    f->spread_bytes = l->zero > 0 ? params * c->elem * part : 0;
    flow->what = l->zero > 0 ? "data parallelism: gradients and updated weights" : "data parallelism: gradients";
    flow->when = f->reduces_often ? "gradients after every micro-batch, weights once per step" : "once per step";
    flow->bytes = f->reduce_bytes + f->spread_bytes;
    flow->link_seconds = f->choice.prediction.link_dp;
    flow->seen = f->choice.prediction.link_dp - f->choice.prediction.hidden_dp;
    set_link(f, flow, D, c->dp_inner);
    bool whole = l->zero == 0 || stack->reduce_whole;
    set_how(flow, whole ? l->zero > 0 ? "all-reduce and all-gather" : "all-reduce" : "reduce-scatter and all-gather",
            ls_plan_collective_algorithm(c, D, c->dp_inner).text);
}

/* Fills the flow of ZeRO 3: weights that are all-gathered for each layer and micro-batch, and their gradients. */
static void fill_gather_flow(const ls_memo_facts *f, const ls_plan_case *c, double layers, ls_memo_flow *flow) {
    const ls_knobs *l = c->layout;
    int D = ls_plan_shards(c);
    if (D < 2 || !f->gathers) return;
    double params = ls_plan_layer_params(c), part = (D - 1.0) / D, times = layers * c->micros;
    double elem = l->type == LS_PLAN_FP32 ? 4 : l->gather_8bit ? 1 : 2;
    double grad = l->pure_16bit || ls_plan_reduce_bytes(&c->task->stack, l->type) < 4 ? 2 : 4;
    flow->what = "ZeRO 3: weights, all-gathered layer by layer, and their gradients";
    flow->when = "in every layer, for every micro-batch";
    flow->bytes = times * part * params * (2 * elem + grad);
    flow->link_seconds = times * (2 * ls_plan_gather_seconds(c, LS_ALL_GATHER, params * elem) +
                                  ls_plan_gather_seconds(c, LS_REDUCE_SCATTER, params * grad));
    flow->seen = f->choice.prediction.time[LS_TIME_GATHER];
    set_link(f, flow, D, c->task->stack.flat_gather && D > f->site->node ? 1 : c->shard_inner);
    set_how(flow, "all-gather and reduce-scatter",
            c->task->stack.flat_gather ? ls_plan_ring_algorithm(c, D).text
                                       : ls_plan_collective_algorithm(c, D, c->dp_inner).text);
}

/* Fills the flow over the link between two sites, which all chips share: their bytes of a step together; nothing with
 * one site. */
static void site_flow(const ls_memo_facts *f, const ls_plan_case *c, double params, ls_memo_flow *flow) {
    const ls_knobs *l = c->layout;
    if (f->task->cluster.sites < 2) return;
    double D = l->dp * l->context, chips = ls_cluster_chips(&f->task->cluster);
    flow->link = &f->task->cluster.across;
    flow->where = "between the sites";
    flow->seen = -1;
    if (l->stages_across) {
        double bytes = c->elem * c->tokens * c->C * l->dp;
        flow->what = "activations and their gradients, all replicas together";
        flow->when = "at one stage boundary, for every micro-batch";
        double ways = 2 * l->virtual_stages - 1; /* each way, with several chunks to and fro */
        flow->bytes = 2 * ways * bytes * c->micros;
        flow->link_seconds = ways * c->micros * ls_plan_across_seconds(c, bytes, 1);
        set_how(flow, "send and receive", "point to point, all over the one link");
        return;
    }
    double grad = l->type == LS_PLAN_FP32 ? 4 : ls_plan_reduce_bytes(&c->task->stack, l->type);
    flow->what = "reduced gradients of each site, all chips together";
    flow->when = "once per step";
    flow->bytes = params * grad * chips / D;
    flow->link_seconds = ls_plan_across_seconds(c, params * grad, chips / D);
    set_how(flow, "all-reduce", "each site on its own, then one exchange of the sums");
}

void ls_memo_flows_find(ls_memo_facts *f) {
    ls_plan_case c = ls_plan_case_of(f->task, &f->choice.layout);
    ls_plan_chunks chunks;
    ls_plan_chunks_of(&c, &chunks);
    fill_tensor_flow(f, &c, chunks.most_layers, &f->flow[LS_MEMO_TP]);
    fill_stage_flow(f, &c, &chunks, &f->flow[LS_MEMO_PP]);
    fill_replica_flow(f, &c, chunks.params, &f->flow[LS_MEMO_DP]);
    fill_gather_flow(f, &c, chunks.most_layers, &f->flow[LS_MEMO_GATHER]);
    site_flow(f, &c, chunks.params, &f->flow[LS_MEMO_ACROSS]);
}
