/* space.c: nested loops over the knobs, outermost those that the others depend on. */
#include "plan/space.h"

/* Larger micro-batches are not worth their memory, and there may be very many. */
enum { MICROS_TRIED = 24, MICRO_MAX = 4096 };

typedef struct walk {
    const ls_plan_task *task;
    const ls_plan_request *request;
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

static int node_of(const ls_cluster *cluster) {
    int node = cluster->site[0].node;
    if (cluster->sites > 1 && cluster->site[1].node < node) node = cluster->site[1].node;
    return node;
}

/* ---- inner knobs ------------------------------------------------------------------------------------------------- */

static ls_status offer(walk *w, const ls_plan_layout *layout) {
    if (ls_plan_check(w->task, layout) != LS_OK) return LS_OK;
    w->count++;
    return w->visit(w->state, layout);
}

static ls_status over_sites(walk *w, ls_plan_layout *l) {
    if (w->task->cluster.sites < 2) return offer(w, l);
    for (int across = 0; across < 2; across++) {
        l->stages_across = across == 1;
        if (across ? l->pp < 2 : l->dp < 2) continue;
        LS_TRY(offer(w, l));
    }
    return LS_OK;
}

static ls_status over_recompute(walk *w, ls_plan_layout *l) {
    const ls_stack *stack = &w->task->stack;
    for (int kind = 0; kind < LS_RECOMPUTE_KINDS; kind++) {
        if (w->request->recompute >= 0 && kind != w->request->recompute) continue;
        /* With attention that keeps no scores, recomputing attention alone is the same as none. */
        bool same = kind == LS_RECOMPUTE_SELECTIVE && stack->flash && stack->selective_share < 0;
        if (same && w->request->recompute < 0) continue;
        l->recompute = (ls_recompute)kind;
        LS_TRY(over_sites(w, l));
    }
    return LS_OK;
}

static ls_status over_zero(walk *w, ls_plan_layout *l) {
    for (int zero = 0; zero <= 3; zero++) {
        bool usual = zero == 0 || (l->dp > 1 && (zero == 1 || l->pp == 1 || w->task->stack.sharded_stages));
        if (w->request->zero >= 0 ? zero != w->request->zero : !usual) continue;
        l->zero = zero;
        LS_TRY(over_recompute(w, l));
    }
    return LS_OK;
}

static ls_status with_schedule(walk *w, ls_plan_layout *l, ls_schedule_kind kind, int v) {
    if (w->request->schedule >= 0 && kind != (ls_schedule_kind)w->request->schedule) return LS_OK;
    if (w->request->virtual_stages > 0 && v != w->request->virtual_stages) return LS_OK;
    l->schedule = kind;
    l->virtual_stages = v;
    return over_zero(w, l);
}

static ls_status over_schedules(walk *w, ls_plan_layout *l) {
    int L = (int)w->task->shape.L, given = w->request->virtual_stages;
    bool asked = w->request->schedule >= 0;
    LS_TRY(with_schedule(w, l, LS_SCHEDULE_1F1B, 1));
    if (l->pp == 1) return LS_OK;
    if (asked) {
        LS_TRY(with_schedule(w, l, LS_SCHEDULE_NAIVE, 1));
        LS_TRY(with_schedule(w, l, LS_SCHEDULE_GPIPE, 1));
    }
    if (asked || w->task->stack.zero_bubble) LS_TRY(with_schedule(w, l, LS_SCHEDULE_ZERO_BUBBLE, 1));
    size_t share = (w->task->global_batch + (size_t)l->dp - 1) / (size_t)l->dp,
           micros = (share + l->micro - 1) / l->micro;
    for (int v = 2; v <= L / l->pp; v++) {
        /* The ends of the model may take the place of a layer each. */
        bool even = L % (l->pp * v) == 0 || (L + 2) % (l->pp * v) == 0;
        if (given != v && (!even || micros % (size_t)l->pp != 0)) continue;
        LS_TRY(with_schedule(w, l, LS_SCHEDULE_INTERLEAVED, v));
    }
    return LS_OK;
}

static ls_status over_micros(walk *w, ls_plan_layout *l) {
    size_t share = (w->task->global_batch + (size_t)l->dp - 1) / (size_t)l->dp;
    if (w->request->micro > 0) {
        l->micro = w->request->micro;
        return over_schedules(w, l);
    }
    int tried = 0;
    for (size_t micro = 1; micro <= share && micro <= MICRO_MAX && tried < MICROS_TRIED; micro++) {
        bool power = (micro & (micro - 1)) == 0;
        if (share % micro != 0 && !(w->uneven && power)) continue;
        l->micro = micro;
        tried++;
        LS_TRY(over_schedules(w, l));
    }
    return LS_OK;
}

/* ---- the mesh ---------------------------------------------------------------------------------------------------- */

static ls_status with_mesh(walk *w, ls_plan_layout *l) {
    if (w->request->dp > 0 && l->dp != w->request->dp) return LS_OK;
    if ((size_t)l->dp > w->task->global_batch) return LS_OK;
    if (!w->uneven && w->task->global_batch % (size_t)l->dp != 0) return LS_OK;
    int parallel = w->request->sequence_parallel;
    l->sequence_parallel = l->tp > 1 && parallel != 0;
    return over_micros(w, l);
}

static bool tp_is_fine(const walk *w, int tp) {
    size_t H = w->task->shape.H, kv = w->task->shape.kv_heads, n = (size_t)tp;
    if (w->request->tp > 0) return tp == w->request->tp;
    return H % n == 0 && (kv % n == 0 || n % kv == 0) && tp <= node_of(&w->task->cluster);
}

static ls_status walk_all(walk *w) {
    int chips = ls_cluster_chips(&w->task->cluster), L = (int)w->task->shape.L;
    int widest = w->task->shape.H < (size_t)chips ? (int)w->task->shape.H : chips;
    ls_plan_type type = w->request->type >= 0 ? (ls_plan_type)w->request->type : ls_plan_usual_type(&w->task->cluster);
    for (int tp = 1; tp <= widest; tp++) {
        if (chips % tp != 0 || !tp_is_fine(w, tp)) continue;
        for (int pp = 1; pp <= L && pp <= chips / tp; pp++) {
            if (chips / tp % pp != 0 || (w->request->pp > 0 && pp != w->request->pp)) continue;
            ls_plan_layout l = {.dp = chips / tp / pp, .tp = tp, .pp = pp, .context = 1, .type = type};
            LS_TRY(with_mesh(w, &l));
        }
    }
    return LS_OK;
}

/* ---- why there is none ------------------------------------------------------------------------------------------- */

static ls_status fail_empty(const ls_plan_task *task, const ls_plan_request *request) {
    int chips = ls_cluster_chips(&task->cluster);
    ls_plan_layout l = {.dp = request->dp > 0 ? request->dp : 1,
                        .tp = request->tp > 0 ? request->tp : 1,
                        .pp = request->pp > 0 ? request->pp : 1,
                        .context = 1,
                        .virtual_stages = request->virtual_stages > 0 ? request->virtual_stages : 1,
                        .micro = request->micro > 0 ? request->micro : 1,
                        .zero = request->zero > 0 ? request->zero : 0};
    l.schedule = l.virtual_stages > 1 ? LS_SCHEDULE_INTERLEAVED : LS_SCHEDULE_1F1B;
    if (request->schedule >= 0) l.schedule = (ls_schedule_kind)request->schedule;
    long long product = (long long)l.dp * l.tp * l.pp;
    if (chips % product != 0)
        return ls_fail(LS_ERR_INPUT, "dp %d × tp %d × pp %d is %lld, which does not divide the %d chips of the cluster",
                       l.dp, l.tp, l.pp, product, chips);
    /* The knob that was left open takes the rest. */
    if (request->dp == 0)
        l.dp = chips / l.tp / l.pp;
    else if (request->pp == 0)
        l.pp = chips / l.tp / l.dp;
    else if (request->tp == 0)
        l.tp = chips / l.dp / l.pp;
    LS_TRY(ls_plan_check(task, &l));
    return ls_fail(LS_ERR_INPUT, "no layout of %s on %d chips satisfies all given options; omit one", task->shape.name,
                   chips);
}

ls_status ls_plan_space(const ls_plan_task *task, const ls_plan_request *request, ls_plan_visit *visit, void *state) {
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
