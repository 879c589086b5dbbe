/* report.c: the answer for people: the best layout, what it costs by kind, what others trade, what does not fit.
 */
#include <stdio.h>
#include <string.h>

#include "cli/plan/report.h"
#include "report/numbers.h"

#define MIB (1024.0 * 1024.0)
#define GIB (1024.0 * MIB)

enum { BAR_MAX = 40, RUNNERS = 5, MISFITS = 3, CHANGES = 3, LOSSES = 4, TEXT_MAX = 256 };

/* A part of a whole: a line with its share as a bar, where there is any. */
static void print_part(const char *label, double value, double share) {
    int full = (int)(share * BAR_MAX + .5);
    if (value <= 0) return;
    printf("  %-20s %10.4g %6.1f %%  ", label, value, 100 * share);
    for (int i = 0; i < full && i < BAR_MAX; i++) fputs("█", stdout);
    putchar('\n');
}

static const char *brief(const ls_plan_choice *c, char text[TEXT_MAX]) {
    ls_knobs_text(&c->layout, LS_WORDS_BRIEF, NULL, NULL, text, TEXT_MAX);
    return text;
}

/* ---- what was asked ---------------------------------------------------------------------------------------------- */

static void print_site(const ls_site *site) {
    printf("%d × %s", site->chips, site->chip.name);
    if (site->chips > site->node)
        printf(" in nodes of %d (%s inside, %s between)", site->node, site->inside.name, site->between.name);
    else if (site->chips > 1)
        printf(" in one node (%s)", site->inside.name);
}

static void print_question(const ls_plan_answer *a) {
    const ls_plan_task *task = &a->question->task;
    const ls_cluster *cluster = &task->cluster;
    printf("model    %s: %.4g B parameters, %zu layers\n", task->shape.name, ls_plan_params(&task->shape) / 1e9,
           task->shape.L);
    printf("cluster  ");
    print_site(&cluster->site[0]);
    if (cluster->sites > 1) {
        printf(",\n         %s to ", cluster->across.name);
        print_site(&cluster->site[1]);
    }
    double tokens = (double)task->global_batch * (double)task->seq;
    printf("\nstep     %zu sequences of %zu tokens = %s tokens; program %s\n", task->global_batch, task->seq,
           ls_number_whole(tokens).text, task->stack.name);
    printf("layouts  %s tried, %s fit", ls_number_whole((double)a->found.tried).text,
           ls_number_whole((double)a->found.fit).text);
    double used = a->question->request.memory_bytes, all = cluster->site[0].chip.memory_bytes;
    if (cluster->sites > 1 && cluster->site[1].chip.memory_bytes < all) all = cluster->site[1].chip.memory_bytes;
    if (used > 0)
        printf(" in %.1f GiB (%.1f GiB minus %.0f %% headroom)", used / GIB, all / GIB, 100 * (1 - used / all));
    printf("\n");
}

/* ---- the best ---------------------------------------------------------------------------------------------------- */

static void print_cost(const ls_plan_answer *a, double rate, int chips) {
    const ls_plan_question *q = a->question;
    if (!(q->tokens > 0)) return;
    double days = q->tokens / rate / 86400, hours = days * 24 * chips;
    printf("         %.4g B tokens: %.1f days, %s GPU-hours", q->tokens / 1e9, days, ls_number_whole(hours).text);
    if (q->price > 0) printf(", %s at %.4g per hour", ls_number_whole(hours * q->price).text, q->price);
    printf("\n");
}

static void print_times(const ls_prediction *p) {
    printf("\n%-22s %10s %8s\n", "time of a step", "s", "");
    for (int k = 0; k < LS_TIME_KINDS; k++)
        print_part(ls_time_kind_label((ls_time_kind)k), p->time[k], p->time[k] / p->seconds);
    printf("  %-20s %10.4g\n", "sum", p->seconds);
    if (p->link_dp > 0)
        printf("  of %.4g s of gradient and weight traffic between replicas, %.4g s overlap with compute\n", p->link_dp,
               p->hidden_dp);
}

static void print_memory(const ls_prediction *p, int stages) {
    printf("\n%-22s %10s %8s\n", "memory per chip", "GiB", "");
    for (int k = 0; k < LS_MEMORY_KINDS; k++)
        print_part(ls_memory_kind_label((ls_memory_kind)k), p->memory[k] / GIB, p->memory[k] / p->capacity_bytes);
    printf("  %-20s %10.4g of %.4g GiB", "sum", p->memory_bytes / GIB, p->capacity_bytes / GIB);
    if (stages > 1) printf(", on stage %d, the most loaded", p->heaviest_stage);
    printf("\n");
}

static void print_best(const ls_plan_answer *a) {
    const ls_plan_task *task = &a->question->task;
    const ls_prediction *p = &a->best->prediction;
    char text[TEXT_MAX];
    int chips = ls_cluster_chips(&task->cluster);
    double rate = ls_plan_tokens_per_second(task, p);
    ls_knobs_text(&a->best->layout, LS_WORDS_PLAN, NULL, NULL, text, sizeof text);
    printf("\nbest     %s\n", text);
    printf("         %d micro-batch%s; a step takes %.4g s: %s tokens/s, %s per chip, MFU %.1f %%\n", p->micros,
           p->micros > 1 ? "es" : "", p->seconds, ls_number_whole(rate).text, ls_number_whole(rate / chips).text,
           100 * ls_plan_mfu(task, a->best));
    print_cost(a, rate, chips);
    if (task->cluster.sites > 1) {
        const char *how = a->best->layout.stages_across ? "the pipeline stages are divided between the sites"
                                                        : "the replicas are divided between the sites";
        printf("cut      %s: %.4g GB cross the link each way and cost %.4g s of the step\n", how, a->across_bytes / 1e9,
               a->across_seconds);
        if (a->not_cut.prediction.seconds > 0)
            printf("         with the other cut (%s), this layout takes %.4g s\n",
                   a->best->layout.stages_across ? "replicas" : "stages", a->not_cut.prediction.seconds);
    }
    print_times(p);
    print_memory(p, a->best->layout.pp);
}

/* ---- others ------------------------------------------------------------------------------------------------------ */

static void print_row(const ls_plan_choice *c) {
    char text[TEXT_MAX];
    int wide = 0;
    brief(c, text);
    for (const char *at = text; *at; at++) wide += (*at & 0xc0) != 0x80;
    printf("  %s%*s %10.4g %8.1f  ", text, wide < 40 ? 40 - wide : 0, "", c->prediction.seconds,
           c->prediction.memory_bytes / GIB);
}

static void print_runners(const ls_plan_answer *a) {
    const ls_prediction *best = &a->best->prediction;
    if (a->found.fitting < 2) return;
    printf("\n%-42s %10s %8s  %s\n", "runners-up", "s", "GiB", "compared with the best");
    for (int i = 1; i < a->found.fitting && i <= RUNNERS; i++) {
        const ls_plan_choice *c = &a->found.fits[i];
        double memory = (c->prediction.memory_bytes - best->memory_bytes) / GIB;
        print_row(c);
        printf("+%.1f %% time, %s%.1f GiB\n", 100 * (c->prediction.seconds / best->seconds - 1), memory < 0 ? "−" : "+",
               memory < 0 ? -memory : memory);
    }
}

/* Beside a layout that fits, those alone that would be faster. */
static void print_misfits(const ls_plan_answer *a) {
    double limit = a->best ? a->best->prediction.seconds : 0;
    int shown = 0;
    for (int i = 0; i < a->found.missing && shown < MISFITS; i++) {
        const ls_plan_choice *c = &a->found.lacks[i];
        if (a->best && c->prediction.seconds >= limit) continue;
        if (shown++ == 0) printf("\n%-42s %10s %8s\n", a->best ? "faster, but do not fit" : "nearest", "s", "GiB");
        print_row(c);
        printf("lacks %.1f GiB", (c->prediction.memory_bytes - c->prediction.capacity_bytes) / GIB);
        if (a->best) printf("; −%.1f %% time", 100 * (1 - c->prediction.seconds / limit));
        printf("\n");
    }
    if (a->found.missing > 0 && shown == 0) printf("\nno layout that does not fit would be faster\n");
}

static void print_remedy(const ls_plan_answer *a) {
    const ls_plan_remedy *r = &a->remedy;
    char text[TEXT_MAX];
    printf("\nnothing fits. These would:\n");
    if (r->is_freed)
        printf("  other options: %s: %.1f GiB, %.4g s per step\n", brief(&r->freed, text),
               r->freed.prediction.memory_bytes / GIB, r->freed.prediction.seconds);
    if (r->chips > 0)
        printf("  %d chips of this kind%s, with %s: %.1f GiB, %.4g s per step\n", r->chips,
               a->question->task.cluster.sites > 1 ? " at each site" : "", brief(&r->with, text),
               r->with.prediction.memory_bytes / GIB, r->with.prediction.seconds);
    if (r->chip.name[0])
        printf("  as many %s, with %s: %.1f of %.1f GiB, %.4g s per step\n", r->chip.name, brief(&r->other, text),
               r->other.prediction.memory_bytes / GIB, r->chip.memory_bytes / GIB, r->other.prediction.seconds);
    if (!r->is_freed && r->chips == 0 && !r->chip.name[0])
        printf("  nothing that was tried: omit some of the given options\n");
}

/* ---- why: how it comes to fit, what stops it, what to change, how it scales -------------------------------------- */

static void print_ladder(const ls_plan_answer *a) {
    printf("\nmemory needed, technique by technique (%.1f GiB available)\n", a->best->prediction.capacity_bytes / GIB);
    for (int i = 0; i < a->rungs; i++)
        printf("  %10.1f GiB  %s%s\n", a->rung[i].bytes / GIB, i > 0 ? "+ " : "", a->rung[i].what);
}

/* The largest losses first; there are few enough to look through them each time. */
static void print_losses(const ls_plan_answer *a) {
    double step = a->best->prediction.seconds;
    bool shown[LS_TIME_KINDS] = {false};
    printf("\nwhy it is not faster\n");
    printf("  %5.1f %% of the step would remain at the rate of large matmuls\n", 100 * a->losses.useful / step);
    for (int n = 0; n < LOSSES; n++) {
        int at = -1;
        for (int k = 0; k < LS_TIME_KINDS; k++)
            if (!shown[k] && (at < 0 || a->losses.lost[k] > a->losses.lost[at])) at = k;
        if (a->losses.lost[at] < .001 * step) break;
        shown[at] = true;
        const char *what = at == LS_TIME_MATMUL      ? ": shapes that do not fill the chip, uneven stages"
                           : at == LS_TIME_ATTENTION ? ": slower than matmuls"
                                                     : "";
        printf("  %5.1f %% lost to %s%s\n", 100 * a->losses.lost[at] / step, ls_time_kind_label((ls_time_kind)at),
               what);
    }
    printf("  largest loss apart from matmuls and attention: %s\n", ls_time_kind_label(a->losses.worst));
}

static void print_changes(const ls_plan_answer *a) {
    int shown = 0;
    for (int i = 0; i < a->changes && shown < CHANGES; i++) {
        if (a->change[i].gain < .0005) break;
        if (shown++ == 0) printf("\nchanges that would help most\n");
        printf("  %5.1f %% less time  %s\n", 100 * a->change[i].gain, a->change[i].what);
    }
    if (shown == 0) printf("\nno single change would help\n");
}

static const ls_plan_point *point_of(const ls_plan_point *list, int count, int chips) {
    for (int i = 0; i < count; i++)
        if (list[i].chips == chips) return &list[i];
    return NULL;
}

static void print_share(double rate, double ideal) {
    if (rate > 0)
        printf(" %7.1f %%", 100 * rate / ideal);
    else
        printf(" %9s", "-");
}

static void print_scaling(const ls_plan_answer *a) {
    char text[TEXT_MAX];
    if (a->weak_points < 2) return;
    printf("\n%-8s %14s %9s %9s %9s  %s\n", "scaling", "batch grows", "of ideal", "same", "batch", "layout chosen");
    printf("%8s %14s %9s %9s %9s\n", "chips", "tokens/s", "", "layout", "stays");
    for (int i = 0; i < a->weak_points; i++) {
        const ls_plan_point *w = &a->weak[i], *s = point_of(a->strong, a->strong_points, w->chips);
        printf("%8d %14.0f", w->chips, w->tokens_per_second);
        print_share(w->tokens_per_second, w->ideal_tokens_per_second);
        print_share(w->held_tokens_per_second, w->ideal_tokens_per_second);
        print_share(s ? s->tokens_per_second : 0, s ? s->ideal_tokens_per_second : 1);
        printf("  %s\n", w->best.prediction.seconds > 0 ? brief(&w->best, text) : "nothing fits");
    }
}

void ls_plan_report(const ls_plan_answer *a) {
    print_question(a);
    if (!a->best) {
        print_remedy(a);
        print_misfits(a);
        if (a->found.missing > 0) print_memory(&a->found.lacks[0].prediction, a->found.lacks[0].layout.pp);
        return;
    }
    print_best(a);
    print_runners(a);
    print_misfits(a);
    print_ladder(a);
    print_losses(a);
    print_changes(a);
    print_scaling(a);
}

/* ---- this program on a machine that lockstep probe measured: memory as train --dry-run has it -------------------- */

static void print_parts(const ls_prediction *p) {
    printf("\n%-22s %10s\n", "time of a step", "s");
    for (int k = 0; k < LS_TIME_KINDS; k++)
        print_part(ls_time_kind_label((ls_time_kind)k), p->time[k], p->time[k] / p->seconds);
    printf("  %-20s %10.4g\n\n%-22s %10s\n", "sum", p->seconds, "memory per worker", "MiB");
    for (int k = 0; k < LS_MEMORY_KINDS; k++)
        print_part(ls_memory_kind_label((ls_memory_kind)k), p->memory[k] / MIB, p->memory[k] / p->memory_bytes);
    printf("  %-20s %10.4g\n", "sum", p->memory_bytes / MIB);
}

static void print_native_misfit(const ls_plan *plan) {
    const ls_native_choice *c = &plan->found.lacks;
    char text[TEXT_MAX];
    if (plan->found.missing == 0) return;
    ls_layout_text(&c->layout, text, sizeof text);
    printf("\n%d do not fit; the closest, %s, lacks %.1f MiB on its most loaded worker\n", plan->found.missing, text,
           (c->prediction.memory_bytes - c->prediction.capacity_bytes) / MIB);
}

static void print_others(const ls_plan *plan) {
    const ls_prediction *best = &plan->found.fits[0].prediction;
    char text[TEXT_MAX];
    if (plan->found.fitting > 1) printf("\nothers\n");
    for (int i = 1; i < plan->found.fitting; i++) {
        const ls_prediction *p = &plan->found.fits[i].prediction;
        ls_layout_text(&plan->found.fits[i].layout, text, sizeof text);
        printf("  %10.4g s  %+6.1f %%  %+9.1f MiB  %s\n", p->seconds, 100 * (p->seconds / best->seconds - 1),
               (p->memory_bytes - best->memory_bytes) / MIB, text);
    }
}

void ls_plan_report_native(const ls_plan *plan) {
    const ls_settings *s = &plan->settings;
    char text[TEXT_MAX];
    printf("model    %s: %.4g M parameters, %zu layers\n", s->shape.name, ls_plan_params(&s->shape) / 1e6, s->shape.L);
    printf("machine  %s, %d cores, as measured by lockstep probe\n", plan->machine.cpu, plan->machine.cores);
    printf("step     %zu sequences of %zu tokens, %d groups, %d slices; program lockstep\n", s->B, s->T, s->groups,
           s->slices);
    printf("layouts  %d tried, %d fit\n", plan->found.tried, plan->found.tried - plan->found.missing);
    if (plan->found.fitting > 0) {
        const ls_prediction *p = &plan->found.fits[0].prediction;
        ls_layout_text(&plan->found.fits[0].layout, text, sizeof text);
        printf("\nbest     %s\n         a step takes %.4g s: %.0f tokens/s\n", text, p->seconds,
               (double)s->B * (double)s->T / p->seconds);
        print_parts(p);
        print_others(plan);
    }
    print_native_misfit(plan);
}
