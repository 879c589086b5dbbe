/* sites.c: balances the load of two sites with different chips. The faster site gets more layers if the pipeline stages
 * are divided between the sites, and more micro-batches if the replicas are. */
#include "plan/cost/cost_case.h"

bool ls_plan_sites_differ(const ls_cluster *cluster) {
    if (cluster->sites < 2) return false;
    const ls_site *a = &cluster->site[0], *b = &cluster->site[1];
    bool differ =
        a->node != b->node || a->chip.memory_bytes != b->chip.memory_bytes ||
        a->chip.memory_bandwidth * a->chip.bandwidth_share != b->chip.memory_bandwidth * b->chip.bandwidth_share;
    for (int type = 0; type < LS_PLAN_TYPES; type++)
        differ =
            differ || a->chip.peak_flops[type] * a->chip.share[type] != b->chip.peak_flops[type] * b->chip.share[type];
    return differ || ls_plan_link_rate(&a->inside) != ls_plan_link_rate(&b->inside) ||
           ls_plan_link_rate(&a->between) != ls_plan_link_rate(&b->between);
}

ls_plan_case ls_plan_case_at_site(const ls_plan_case *c, const ls_site *site, int micros) {
    ls_plan_case out = *c;
    out.site = site;
    out.far = NULL;
    out.micros = micros;
    ls_plan_place(&out);
    return out;
}

ls_plan_case ls_plan_case_at_stage(const ls_plan_case *c, int stage) {
    if (!c->far) return *c;
    return ls_plan_case_at_site(c, ls_plan_site_of_stage(c, stage), c->micros);
}

int ls_plan_site_replicas(const ls_plan_case *c, int site) {
    const ls_knobs *l = c->layout;
    return c->task->cluster.site[site].chips / (l->tp * l->pp * l->context);
}

void ls_plan_site_micros(const ls_plan_case *c, const double *each, const double *once, int *micros) {
    const ls_knobs *l = c->layout;
    double D[2] = {ls_plan_site_replicas(c, 0), ls_plan_site_replicas(c, 1)}, best = -1;
    long long first_of = (long long)D[0], rest_of = (long long)D[1];
    long long all = ((long long)c->task->global_batch + (long long)l->micro - 1) / (long long)l->micro;
    long long most = (all - rest_of) / first_of; /* then each replica of the other site has one */
    /* D0·m0 + D1·m1 = all, and each0·m0 + once0 = each1·m1 + once1 */
    double even = (D[1] * (once[1] - once[0]) + each[1] * (double)all) / (each[1] * D[0] + each[0] * D[1]);
    long long near = (long long)(even > 0 ? even : 0);
    for (long long m = near - 1; m <= near + 3; m++) { /* the best integer is next to the exact solution */
        long long one = m == near + 3 ? c->micros : m; /* or the same number for all replicas */
        if (one > most) one = most;
        if (one < 1) one = 1;
        long long rest = all - first_of * one, other = rest < rest_of ? 1 : (rest + rest_of - 1) / rest_of;
        double a = each[0] * (double)one + once[0], b = each[1] * (double)other + once[1], longer = a > b ? a : b;
        if (best >= 0 && longer >= best) continue;
        best = longer;
        micros[0] = (int)one;
        micros[1] = (int)other;
    }
}

void ls_plan_divide_unlike(const ls_plan_case *c, double cost[2][3], const int *most, int *first) {
    int pp = c->layout->pp, v = c->layout->virtual_stages, chunks = pp * v, L = (int)c->task->shape.L;
    int layers[LS_CHUNKS_MAX]; /* of a stage */
    double load[LS_CHUNKS_MAX];
    for (int s = 0; s < pp; s++) {
        const double *own = cost[s >= c->near_stages];
        layers[s] = v; /* one for each chunk */
        load[s] = v * own[1] + (s == 0 ? own[0] : 0) + (s == pp - 1 ? own[2] : 0);
    }
    for (int left = L - chunks; left > 0; left--) {
        int best = -1;
        bool best_full = true;
        for (int s = pp - 1; s >= 0; s--) { /* the stage with the lowest time that has room */
            int far = s >= c->near_stages;
            bool full = layers[s] >= most[far];
            double then = load[s] + cost[far][1];
            if (best >= 0 && (full != best_full ? full : then >= load[best] + cost[best >= c->near_stages][1]))
                continue;
            best = s;
            best_full = full;
        }
        layers[best]++;
        load[best] += cost[best >= c->near_stages][1];
    }
    first[0] = 0;
    for (int g = 0; g < chunks;
         g++) { /* divides a stage's layers among its chunks as evenly as possible, the longer chunks first */
        int s = g % pp, k = g / pp, own = layers[s] / v + (k < layers[s] % v);
        first[g + 1] = first[g] + own + (g == 0) + (g == chunks - 1);
    }
}
