/* find.c: what the measured sizes say: the fit, the next sizes, and where workers begin and cease to help. */
#include "lab/scale/scale.h"

const ls_scaling_point *ls_scale_point_of(const ls_scale_found *f, int workers, size_t batch) {
    for (int i = 0; i < f->points; i++)
        if (f->point[i].workers == workers && f->point[i].batch == batch) return &f->point[i];
    return NULL;
}

double ls_scale_speedup(const ls_scale_found *f, const ls_scaling_point *p) {
    const ls_scaling_point *one = ls_scale_point_of(f, 1, p->batch);
    return one && p->seconds > 0 ? one->seconds / p->seconds : 0;
}

double ls_scale_weak(const ls_scale_found *f, const ls_scaling_point *p) {
    const ls_scaling_point *one =
        p->batch % (size_t)p->workers ? NULL : ls_scale_point_of(f, 1, p->batch / (size_t)p->workers);
    return one && p->seconds > 0 ? one->seconds / p->seconds : 0;
}

double ls_scale_ratio(const ls_scaling_point *p) {
    double sync = ls_scaling_sync_of(p) + ls_scaling_hidden_of(p);
    return sync > 0 ? p->compute / sync : 0;
}

static void predict_next(ls_scale_found *f) {
    double band = ls_scaling_band(&f->fit);
    for (int i = 0; i < f->nexts; i++) {
        ls_scaling_point *p = &f->next[i];
        ls_scaling_parts parts = ls_scaling_predict(&f->fit, p, 1);
        p->seconds = parts.seconds;
        p->low = parts.seconds / (1 + band);
        p->high = parts.seconds * (1 + band);
        p->compute = parts.compute;
        p->idle = parts.idle;
        p->other = parts.other;
        p->sync[0] = parts.sync; /* of all kinds */
    }
}

static void find_crossover(const ls_scale_plan *plan, ls_scale_found *f, int workers) {
    ls_scale_crossover *x = &f->crossover[f->crossovers++];
    const ls_scaling_point *like = NULL;
    double spread = 2 * f->fit.sync_error < .9 ? 2 * f->fit.sync_error : .9;
    *x = (ls_scale_crossover){.workers = workers};
    for (int i = 0; i < f->points; i++) {
        const ls_scaling_point *p = &f->point[i];
        if (p->workers != workers) continue;
        if (!like || p->batch > like->batch) like = p;
        double speedup = ls_scale_speedup(f, p);
        if (speedup > 1 && (x->won == 0 || p->batch < x->won)) x->won = p->batch;
        if (speedup > 0 && speedup <= 1 && p->batch > x->lost) x->lost = p->batch;
    }
    if (!like) return;
    x->batch = ls_scaling_batch_crossover(&f->fit, like, 1);
    x->batch_low = ls_scaling_batch_crossover(&f->fit, like, 1 - spread);
    x->batch_high = ls_scaling_batch_crossover(&f->fit, like, 1 + spread);
    const ls_scaling_point *largest = ls_scale_point_of(f, workers, plan->batch[plan->batches - 1]);
    if (!(plan->link_bytes_per_s > 0) || !largest) return;
    x->rate = ls_scaling_rate_crossover(&f->fit, largest, plan->link_bytes_per_s, 1);
    x->rate_low = ls_scaling_rate_crossover(&f->fit, largest, plan->link_bytes_per_s, 1 - spread);
    x->rate_high = ls_scaling_rate_crossover(&f->fit, largest, plan->link_bytes_per_s, 1 + spread);
}

/* Among the sizes that were measured or predicted for the largest batch. */
static void find_best(const ls_scale_plan *plan, ls_scale_found *f) {
    size_t batch = plan->batch[plan->batches - 1];
    double least = 0;
    for (int i = 0; i < f->points + f->nexts; i++) {
        const ls_scaling_point *p = i < f->points ? &f->point[i] : &f->next[i - f->points];
        if (p->batch != batch || (least > 0 && p->seconds >= least)) continue;
        least = p->seconds;
        f->best_workers = p->workers;
    }
}

void ls_scale_find(const ls_scale_plan *plan, ls_scale_found *f) {
    f->fitted = ls_scaling_fit_make(f->point, f->points, &f->fit);
    if (!f->fitted) return;
    if (!f->fit.has_sync) f->nexts = 0; /* nothing is known of synchronising */
    predict_next(f);
    for (int c = 0; c < plan->counts; c++)
        if (plan->count[c] > 1) find_crossover(plan, f, plan->count[c]);
    find_best(plan, f);
}
