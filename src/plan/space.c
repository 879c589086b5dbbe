/* space.c: enumerates layouts in nested loops over the knobs, outermost those on which other knobs depend. */
#include "plan/search.h"

/* Bounds of the search: larger micro-batches gain less time than their memory costs, and there may be very many. */
enum { MICROS_TRIED = 24, MICRO_MAX = 4096 };

typedef struct walk {
    const ls_plan_task *task;
    const ls_layout_request *request;
    ls_plan_visit *visit;
    void *state;
    bool uneven; /* replicas may have unequal shares of the batch */
    long long count;
} walk;

ls_plan_type ls_plan_usual_type(const ls_cluster *cluster) {
    for (int i = 0; i < cluster->sites; i++) {
        const ls_chip *chip = &cluster->site[i].chip;
        if (chip->is_cpu) return LS_PLAN_FP32;
        if (chip->peak_flops[LS_PLAN_BF16] <= 0)
            return chip->peak_flops[LS_PLAN_FP16] > 0 ? LS_PLAN_FP16 : LS_PLAN_FP32;
    }
    return LS_PLAN_BF16;
}

/* Returns the chips of a node, of the site with the smaller nodes. */
static int smallest_node(const ls_cluster *cluster) {
    int node = cluster->site[0].node;
    if (cluster->sites > 1 && cluster->site[1].node < node) node = cluster->site[1].node;
    return node;
}

/* Returns whether the request leaves the knob open, or gives this value. */
static bool allows(const walk *w, ls_knob knob, int value) {
    return !ls_knob_is_given(w->request, knob) || (int)ls_knob_get(&w->request->knobs, knob) == value;
}

/* ---- inner knobs ------------------------------------------------------------------------------------------------- */

/* Visits the layout if ls_plan_check() accepts it. */
static ls_status visit_if_possible(walk *w, const ls_knobs *layout) {
    if (ls_plan_check(w->task, layout) != LS_OK) return LS_OK;
    w->count++;
    return w->visit(w->state, layout);
}

/* Each walk_…() tries the values of a knob that the request leaves open, and calls the next one for each of them. This
 * one, the last: how two sites divide the layout, stages or replicas. */
static ls_status walk_sites(walk *w, ls_knobs *l) {
    if (w->task->cluster.sites < 2) return visit_if_possible(w, l);
    for (int across = 0; across < 2; across++) {
        l->stages_across = across == 1;
        if (across ? l->pp < 2 : l->dp < 2) continue;
        LS_TRY(visit_if_possible(w, l));
    }
    return LS_OK;
}

/* Kinds of recomputation, without those that change nothing. */
static ls_status walk_recompute(walk *w, ls_knobs *l) {
    const ls_stack *stack = &w->task->stack;
    for (int kind = 0; kind <= LS_KNOB_LAST_recompute; kind++) {
        if (!allows(w, LS_KNOB_recompute, kind)) continue;
        /* With attention that keeps no scores, recomputing attention alone is the same as none. */
        bool same = kind == LS_RECOMPUTE_SELECTIVE && stack->flash && stack->selective_share < 0;
        if (same && !ls_knob_is_given(w->request, LS_KNOB_recompute)) continue;
        l->recompute = (ls_recompute)kind;
        LS_TRY(walk_sites(w, l));
    }
    return LS_OK;
}

/* ZeRO stages, and for stage 3 also sharding inside a node with copies between nodes where the framework has that. */
static ls_status walk_zero(walk *w, ls_knobs *l) {
    for (int zero = 0; zero <= LS_KNOB_LAST_zero; zero++) {
        bool usual = zero == 0 || (l->dp > 1 && (zero == 1 || l->pp == 1 || w->task->stack.sharded_stages));
        if (!(ls_knob_is_given(w->request, LS_KNOB_zero) ? allows(w, LS_KNOB_zero, zero) : usual)) continue;
        l->zero = zero;
        LS_TRY(walk_recompute(w, l));
        int group = smallest_node(&w->task->cluster) / l->tp, D = l->dp * l->context;
        bool asked = ls_knob_is_given(w->request, LS_KNOB_shard_group);
        if (zero < 3 || asked || !w->task->stack.hybrid || group < 2 || group >= D || D % group != 0) continue;
        l->shard_group = group; /* inside a node, with copies between nodes */
        LS_TRY(walk_recompute(w, l));
        l->shard_group = 0;
    }
    return LS_OK;
}

/* Continues with one schedule and number of virtual stages, if the request allows both. */
static ls_status walk_with_schedule(walk *w, ls_knobs *l, ls_schedule_kind kind, int v) {
    if (!allows(w, LS_KNOB_schedule, kind) || !allows(w, LS_KNOB_virtual_stages, v)) return LS_OK;
    l->schedule = kind;
    l->virtual_stages = v;
    return walk_zero(w, l);
}

/* Schedules and virtual stages; interleaved only if chunks and micro-batches divide evenly, unless that number is
 * given. */
static ls_status walk_schedules(walk *w, ls_knobs *l) {
    int L = (int)w->task->shape.L, given = w->request->knobs.virtual_stages;
    bool asked = ls_knob_is_given(w->request, LS_KNOB_schedule);
    LS_TRY(walk_with_schedule(w, l, LS_SCHEDULE_1F1B, 1));
    if (l->pp == 1) return LS_OK;
    if (asked) {
        LS_TRY(walk_with_schedule(w, l, LS_SCHEDULE_NAIVE, 1));
        LS_TRY(walk_with_schedule(w, l, LS_SCHEDULE_GPIPE, 1));
    }
    if (asked || w->task->stack.zero_bubble) LS_TRY(walk_with_schedule(w, l, LS_SCHEDULE_ZERO_BUBBLE, 1));
    size_t share = (w->task->global_batch + (size_t)l->dp - 1) / (size_t)l->dp,
           micros = (share + l->micro - 1) / l->micro;
    for (int v = 2; v <= L / l->pp; v++) {
        /* Embedding and head may each count as one layer. */
        bool even = L % (l->pp * v) == 0 || (L + 2) % (l->pp * v) == 0;
        if (given != v && (!even || micros % (size_t)l->pp != 0)) continue;
        LS_TRY(walk_with_schedule(w, l, LS_SCHEDULE_INTERLEAVED, v));
    }
    return LS_OK;
}

/* Micro-batch sizes: those that divide a replica's share, and powers of two where shares are unequal; at most
 * MICROS_TRIED. */
static ls_status walk_micros(walk *w, ls_knobs *l) {
    size_t share = (w->task->global_batch + (size_t)l->dp - 1) / (size_t)l->dp;
    if (ls_knob_is_given(w->request, LS_KNOB_micro)) {
        l->micro = w->request->knobs.micro;
        return walk_schedules(w, l);
    }
    int tried = 0;
    for (size_t micro = 1; micro <= share && micro <= MICRO_MAX && tried < MICROS_TRIED; micro++) {
        bool power = (micro & (micro - 1)) == 0;
        if (share % micro != 0 && !(w->uneven && power)) continue;
        l->micro = micro;
        tried++;
        LS_TRY(walk_schedules(w, l));
    }
    return LS_OK;
}

/* ---- the mesh ---------------------------------------------------------------------------------------------------- */

/* Continues with one mesh, if dp is allowed and divides the batch (or unequal shares are allowed). */
static ls_status walk_with_mesh(walk *w, ls_knobs *l) {
    if (!allows(w, LS_KNOB_dp, l->dp)) return LS_OK;
    if ((size_t)l->dp > w->task->global_batch) return LS_OK;
    if (!w->uneven && w->task->global_batch % (size_t)l->dp != 0) return LS_OK;
    l->sequence_parallel = l->tp > 1 && allows(w, LS_KNOB_sequence_parallel, true);
    return walk_micros(w, l);
}

/* Returns whether to try this tp: the given one or, if open, one that agrees with the heads and stays inside a node. */
static bool tp_is_fine(const walk *w, int tp) {
    size_t H = w->task->shape.H, kv = w->task->shape.kv_heads, n = (size_t)tp;
    if (ls_knob_is_given(w->request, LS_KNOB_tp)) return tp == w->request->knobs.tp;
    return H % n == 0 && (kv % n == 0 || n % kv == 0) && tp <= smallest_node(&w->task->cluster);
}

/* Every tp and pp for a number of context-parallel chips; dp takes the remaining chips. */
static ls_status walk_meshes(walk *w, int context) {
    ls_knobs l = w->request->knobs; /* those that are not searched stay as they were given */
    int all = ls_cluster_chips(&w->task->cluster), chips = all / context, L = (int)w->task->shape.L;
    int widest = w->task->shape.H < (size_t)chips ? (int)w->task->shape.H : chips;
    if (!ls_knob_is_given(w->request, LS_KNOB_type)) l.type = ls_plan_usual_type(&w->task->cluster);
    if (all % context != 0) return LS_OK;
    l.context = context;
    for (int tp = 1; tp <= widest; tp++) {
        if (chips % tp != 0 || !tp_is_fine(w, tp)) continue;
        for (int pp = 1; pp <= L && pp <= chips / tp; pp++) {
            if (chips / tp % pp != 0 || !allows(w, LS_KNOB_pp, pp)) continue;
            l.dp = chips / tp / pp;
            l.tp = tp;
            l.pp = pp;
            LS_TRY(walk_with_mesh(w, &l));
        }
    }
    return LS_OK;
}

/* Context parallelism is searched for sequences of at least this many tokens per chip. */
enum { CONTEXT_TOKENS_LEAST = 4096 };

/* Numbers of context-parallel chips (powers of two), if the framework balances them and the request leaves them open;
 * else one. */
static ls_status walk_all(walk *w) {
    const ls_plan_task *task = w->task;
    if (ls_knob_is_given(w->request, LS_KNOB_context) || w->request->knobs.context > 1 || !task->stack.context_balanced)
        return walk_meshes(w, w->request->knobs.context);
    LS_TRY(walk_meshes(w, 1));
    for (int ways = 2; (size_t)ways * CONTEXT_TOKENS_LEAST <= task->seq && ways <= ls_cluster_chips(&task->cluster);
         ways *= 2)
        LS_TRY(walk_meshes(w, ways));
    return LS_OK;
}

/* Returns LS_ERR_INPUT with the reason why no layout is possible: completes the given knobs to one layout, and reports
 * why that is refused. */
static ls_status fail_empty(const ls_plan_task *task, const ls_layout_request *request) {
    int chips = ls_cluster_chips(&task->cluster);
    ls_knobs l = request->knobs;
    l.sequence_parallel = false;
    if (!ls_knob_is_given(request, LS_KNOB_micro)) l.micro = 1;
    if (!ls_knob_is_given(request, LS_KNOB_schedule) && l.virtual_stages > 1) l.schedule = LS_SCHEDULE_INTERLEAVED;
    long long product = (long long)l.dp * l.tp * l.pp * l.context;
    if (chips % product != 0)
        return ls_fail(LS_ERR_INPUT, "dp %d × tp %d × pp %d is %lld, which does not divide the %d chips of the cluster",
                       l.dp, l.tp, l.pp, product, chips);
    /* The first knob that was not given takes the remaining chips. */
    int left = (int)(chips / product);
    if (!ls_knob_is_given(request, LS_KNOB_dp))
        l.dp = left;
    else if (!ls_knob_is_given(request, LS_KNOB_pp))
        l.pp = left;
    else if (!ls_knob_is_given(request, LS_KNOB_tp))
        l.tp = left;
    LS_TRY(ls_plan_check(task, &l));
    return ls_fail(LS_ERR_INPUT, "no layout of %s on %d chips satisfies all given options; omit one", task->shape.name,
                   chips);
}

ls_status ls_plan_space(const ls_plan_task *task, const ls_layout_request *request, ls_plan_visit *visit, void *state) {
    walk w = {.task = task, .request = request, .visit = visit, .state = state};
    LS_TRY(ls_cluster_check(&task->cluster));
    if (task->global_batch < 1 || task->seq < 1)
        return ls_fail(LS_ERR_INPUT, "a batch of %zu sequences of %zu tokens is empty", task->global_batch, task->seq);
    LS_TRY(walk_all(&w));
    if (w.count > 0) return LS_OK;
    w.uneven = true;
    LS_TRY(walk_all(&w));
    return w.count > 0 ? LS_OK : fail_empty(task, request);
}
