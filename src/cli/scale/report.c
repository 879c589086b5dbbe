/* report.c: `lockstep scale` as tables and sentences. */
#include <stdio.h>

#include "cli/scale/scale.h"
#include "parallel/traffic/traffic.h"

static void print_factor(double value, int width) {
    if (value > 0)
        printf(" %*.2f", width, value);
    else
        printf(" %*s", width, "-");
}

static void print_points(const ls_scale_found *f) {
    printf("\n%7s %6s %9s %9s %9s %9s %9s %9s %9s %8s %8s %6s\n", "workers", "batch", "step", "compute", "sync",
           "hidden", "overhead", "idle", "compute", "speed-up", "effici-", "weak");
    printf("%7s %6s %9s %9s %9s %9s %9s %9s %9s %8s %8s %6s\n", "", "", "ms", "ms", "ms", "ms", "ms", "ms", "/ sync",
           "", "ency", "");
    for (int i = 0; i < f->points; i++) {
        const ls_scaling_point *p = &f->point[i];
        double speedup = ls_scale_speedup(f, p);
        printf("%7d %6zu %9.3f %9.3f %9.3f %9.3f %9.3f %9.3f", p->workers, p->batch, 1e3 * p->seconds, 1e3 * p->compute,
               1e3 * ls_scaling_sync_of(p), 1e3 * ls_scaling_hidden_of(p), 1e3 * p->other, 1e3 * p->idle);
        print_factor(ls_scale_ratio(p), 9);
        print_factor(speedup, 8);
        print_factor(speedup / p->workers, 8);
        print_factor(ls_scale_weak(f, p), 6);
        printf("%s\n", p->crowding > 1 ? "  *" : "");
    }
}

static void print_kinds(const ls_scale_found *f) {
    bool any = false;
    for (int i = 0; i < f->points; i++) {
        const ls_scaling_point *p = &f->point[i];
        for (int k = 0; k < LS_TRAFFIC_KINDS; k++) {
            if (!(p->messages[k] > 0)) continue;
            if (!any)
                printf("\n%7s %6s  %-14s %9s %9s %9s %9s\n", "workers", "batch", "kind", "messages", "MB", "sync ms",
                       "hidden ms");
            any = true;
            printf("%7d %6zu  %-14s %9.0f %9.3f %9.3f %9.3f\n", p->workers, p->batch,
                   ls_traffic_kind_name((ls_traffic_kind)k), p->messages[k], 1e-6 * p->bytes[k], 1e3 * p->sync[k],
                   1e3 * p->hidden[k]);
        }
    }
}

static void print_fit(const ls_scale_found *f) {
    const ls_scaling_fit *t = &f->fit;
    printf("\nfit: compute %.4g ms per %s", 1e3 * t->sequence_s, ls_scale_sample(f));
    if (t->contended_s > 0) printf(" (%.4g more with many workers)", 1e3 * t->contended_s);
    if (t->shared_s > 0) printf(" + %.4g ms / workers", 1e3 * t->shared_s);
    if (t->fixed_s > 0) printf(" + %.4g ms", 1e3 * t->fixed_s);
    if (t->has_sync) {
        printf("; latency %.4g us per message", 1e6 * t->latency_s);
        if (t->byte_s > 0) printf(", %.*f MB/s", t->byte_s < 1e-8 ? 0 : 2, 1e-6 / t->byte_s);
        if (t->hides > 0) printf("; reduce-scatters overlap with %.0f %% of compute", 100 * t->hides);
        printf("; idle %.1f %% of compute", 100 * t->idle);
    }
    printf("; error of a step %.1f %%\n", 100 * t->error);
}

static void print_next(const ls_scale_found *f) {
    for (int i = 0; i < f->nexts; i++) {
        const ls_scaling_point *p = &f->next[i];
        if (i == 0) printf("\npredicted, for workers with cores of their own:\n");
        printf("%7d workers, batch %6zu: %.4g ms per step (%.4g to %.4g)", p->workers, p->batch, 1e3 * p->seconds,
               1e3 * p->low, 1e3 * p->high);
        double speedup = ls_scale_speedup(f, p), weak = ls_scale_weak(f, p);
        if (speedup > 0) printf(", speed-up %.2f, efficiency %.2f", speedup, speedup / p->workers);
        if (weak > 0) printf(", weak efficiency %.2f", weak);
        printf("\n");
    }
}

static void print_crossovers(const ls_scale_plan *plan, const ls_scale_found *f) {
    for (int i = 0; i < f->crossovers; i++) {
        const ls_scale_crossover *x = &f->crossover[i];
        if (i == 0) printf("\n");
        printf("%d workers beat one ", x->workers);
        if (x->batch == 0)
            printf("with no batch");
        else if (x->batch <= (size_t)x->workers)
            printf("with any batch");
        else
            printf("from batch %zu on (%s)", x->batch,
                   ls_scale_range((double)x->batch_low, (double)x->batch_high).text);
        if (x->lost) printf("; measured: not yet at %zu", x->lost);
        if (x->won) printf("%s at %zu they do", x->lost ? "," : "; measured:", x->won);
        if (plan->link_bytes_per_s > 0 && x->rate > 0)
            printf("; with batch %zu from %.4g Mbit/s on (%s)", plan->batch[plan->batches - 1], 8e-6 * x->rate,
                   ls_scale_range(8e-6 * x->rate_low, 8e-6 * x->rate_high).text);
        if (plan->link_bytes_per_s > 0 && x->rate == 0)
            printf("; with batch %zu at no bandwidth, given this latency", plan->batch[plan->batches - 1]);
        printf("\n");
    }
    if (f->best_workers > 0)
        printf("batch %zu is fastest on %d worker%s, of all sizes measured or predicted\n",
               plan->batch[plan->batches - 1], f->best_workers, f->best_workers == 1 ? "" : "s");
}

void ls_scale_print(const ls_scale_plan *plan, const ls_scale_found *f) {
    bool crowded = false;
    for (int i = 0; i < f->points; i++) crowded = crowded || f->point[i].crowding > 1;
    char what[LS_SCALE_SENTENCE_MAX];
    ls_scale_describe(plan, f, what);
    printf("%s: %s\n", f->name, what);
    if (plan->opts->slow_link) printf("link between workers: %s\n", plan->opts->slow_link);
    print_points(f);
    if (crowded)
        printf("* more threads than cores: they take turns, so these rows describe this machine, not more workers with "
               "cores of their own\n");
    print_kinds(f);
    if (!f->fitted) return;
    print_fit(f);
    print_next(f);
    print_crossovers(plan, f);
    printf("\n%s\n%s\n", f->why, f->limit);
}
