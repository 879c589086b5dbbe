/* report.c: prints the answer of `lockstep plan` as text: the best layout, its time and memory by kind, other layouts,
 * and what does not fit. */
#include <stdio.h>
#include <string.h>

#include "cli/plan/report.h"
#include "model/model.h"
#include "plan/cost/cost_case.h"
#include "report/numbers.h"

#define MIB (1024.0 * 1024.0)
#define GIB (1024.0 * MIB)

enum { BAR_MAX = 40, RUNNERS = 5, MISFITS = 3, CHANGES = 3, LOSSES = 4, TEXT_MAX = 256 };

/* Prints a part of a whole with its share as a bar; nothing for a value ≤ 0. */
static void print_part(const char *label, double value, double share) {
    int full = (int)(share * BAR_MAX + .5);
    if (value <= 0) return;
    printf("  %-20s %10s %6.1f %%  ", label, ls_number_plain(value).text, 100 * share);
    for (int i = 0; i < full && i < BAR_MAX; i++) fputs("█", stdout);
    putchar('\n');
}

/* Bytes per second up to which a link between nodes counts as slow Ethernet. */
static const double LS_SLOW_LINK = 25e9 / 8;

/* Return sign and absolute value, to print "+1.6" and "−0.3" with a minus sign of full width. */
static const char *sign(double value) { return value < 0 ? "−" : "+"; }
static double size(double value) { return value < 0 ? -value : value; }

/* Writes a layout in its brief form; returns `text`. */
static const char *format_layout(const ls_plan_choice *c, char text[TEXT_MAX]) {
    ls_knobs_text(&c->layout, LS_WORDS_BRIEF, NULL, NULL, text, TEXT_MAX);
    return text;
}

/* ---- what was asked ---------------------------------------------------------------------------------------------- */

/* Prints the chips of a site and their links. */
static void print_site(const ls_site *site) {
    printf("%d × %s", site->chips, site->chip.name);
    if (site->chips > site->node)
        printf(" in nodes of %d (%s inside, %s between)", site->node, site->inside.name, site->between.name);
    else if (site->chips > 1)
        printf(" in one node (%s)", site->inside.name);
}

/* If a slow Ethernet link is assumed for each chip, prints how to write one that the chips of a node share, because the
 * answer depends on it. */
static void print_adapters(const ls_site *site) {
    const ls_link *link = &site->between;
    if (site->chips <= site->node || site->node == 1 || link->shared_by > 0 || link->bandwidth > LS_SLOW_LINK) return;
    printf("\n         %s is taken as one link per chip; if the %d chips of a node share one, write %s/node",
           link->name, site->node, link->name);
}

/* Prints what was asked: model, cluster, step, and how many layouts were tried. */
static void print_question(const ls_plan_answer *a) {
    const ls_plan_task *task = &a->question->task;
    const ls_cluster *cluster = &task->cluster;
    printf("model    %s: %.4g B parameters, %zu layers\n", task->shape.name, ls_model_count_params(&task->shape) / 1e9,
           task->shape.L);
    printf("cluster  ");
    print_site(&cluster->site[0]);
    if (cluster->sites > 1) {
        printf(",\n         %s to ", cluster->across.name);
        print_site(&cluster->site[1]);
    }
    for (int i = 0; i < cluster->sites; i++) print_adapters(&cluster->site[i]);
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

/* Prints days, GPU-hours and price of the whole training (--tokens); nothing if its length was not given. rate: tokens
 * per second. */
static void print_cost(const ls_plan_answer *a, double rate, int chips) {
    const ls_plan_question *q = a->question;
    if (!(q->tokens > 0)) return;
    double days = q->tokens / rate / 86400, hours = days * 24 * chips;
    printf("         %s tokens: %.1f days, %s GPU-hours", LS_SHORT(q->tokens), days, ls_number_whole(hours).text);
    if (q->price > 0) printf(", %s at %.4g per hour", ls_number_whole(hours * q->price).text, q->price);
    printf("\n");
}

/* Prints the course of the whole training with failures (--mtbf): checkpoint interval, goodput, days; nothing without
 * --mtbf. */
static void print_course(const ls_plan_answer *a, int chips) {
    ls_course c = ls_plan_course_of(a->question, &a->task, a->best);
    double price = a->question->price, hours = c.seconds / 3600 * chips;
    if (!(c.mtbf_seconds > 0)) return;
    printf("failures one every %s; a checkpoint has %s and takes %s to write\n", LS_TIME(c.mtbf_seconds),
           LS_GB(c.checkpoint_bytes), LS_TIME(c.save_seconds));
    if (!(c.seconds > 0)) {
        printf("         the run never ends, because failures come faster than it recovers; save faster (%s)\n",
               "--checkpoint-bandwidth");
        return;
    }
    printf("         save every %s of training: goodput %.1f %%, %.3g failures, %.1f days instead of %.1f\n",
           LS_TIME(c.interval_seconds), 100 * c.goodput, c.failures, c.seconds / 86400, c.work_seconds / 86400);
    if (price > 0)
        printf("         %s GPU-hours, %s instead of %s at %.4g per hour\n", LS_WHOLE(hours), LS_WHOLE(hours * price),
               LS_WHOLE(c.work_seconds / 3600 * chips * price), price);
}

/* Prints the time of a step by kind. */
static void print_kinds(const ls_prediction *p) {
    ls_time_unit unit = ls_time_unit_for(p->seconds);
    printf("\n%-22s %10s %8s\n", "time of a step", unit.name, "");
    for (int k = 0; k < LS_TIME_KINDS; k++)
        print_part(ls_time_kind_label((ls_time_kind)k), p->time[k] / unit.seconds, p->time[k] / p->seconds);
    printf("  %-20s %10s\n", "sum", ls_number_plain(p->seconds / unit.seconds).text);
}

/* Prints the time of a step by kind, and how much of the traffic between replicas is overlapped. */
static void print_times(const ls_prediction *p) {
    print_kinds(p);
    if (p->link_dp > 0)
        printf("  of %s of gradient and weight traffic between replicas, %s overlap with compute\n",
               LS_TIME(p->link_dp), LS_TIME(p->hidden_dp));
}

/* Prints the host memory of offloaded optimizer state, per chip; nothing without --offload. */
static void print_host(const ls_plan_answer *a) {
    const ls_knobs *l = &a->best->layout;
    double shards = l->zero >= 1 ? l->zero == 3 && l->shard_group > 0 ? l->shard_group : l->dp * l->context : 1;
    double bytes = ls_model_count_params(&a->task.shape) / (l->tp * l->pp * shards) * (4 + 2 * ls_plan_state_bytes(l));
    if (l->offload) printf("  %-20s %10.4g GiB for each chip, on the host\n", "optimizer", bytes / GIB);
}

/* Prints the memory of the most loaded chip by kind. */
static void print_memory(const ls_prediction *p, int stages) {
    printf("\n%-22s %10s %8s\n", "memory per chip", "GiB", "");
    for (int k = 0; k < LS_MEMORY_KINDS; k++)
        print_part(ls_memory_kind_label((ls_memory_kind)k), p->memory[k] / GIB, p->memory[k] / p->capacity_bytes);
    printf("  %-20s %10.4g of %.4g GiB", "sum", p->memory_bytes / GIB, p->capacity_bytes / GIB);
    if (stages > 1) printf(", on stage %d, the most loaded", p->heaviest_stage);
    printf("\n");
}

/* Prints the devices of a size: "8 of your 16 A100-80GB-SXM", "the 32 H100-80GB-SXM of site 1 alone", "both sites". */
static void print_devices(const ls_plan_answer *a, const ls_plan_size *use) {
    const ls_cluster *cluster = &a->question->task.cluster;
    if (cluster->sites == 1) {
        printf("%d of your %d %s", use->chips[0], cluster->site[0].chips, cluster->site[0].chip.name);
        return;
    }
    int i = use->chips[0] == 0;
    const ls_site *site = &cluster->site[i];
    if (use->chips[0] > 0 && use->chips[1] > 0)
        printf("both sites");
    else if (use->chips[i] == site->chips)
        printf("the %d %s of site %d alone", site->chips, site->chip.name, i + 1);
    else
        printf("%d of the %d %s of site %d alone", use->chips[i], site->chips, site->chip.name, i + 1);
}

/* Prints whether fewer devices are faster, or nearly as fast; nothing if all should be used. */
static void print_use(const ls_plan_answer *a) {
    const ls_plan_use *use = &a->use;
    bool fewer = ls_plan_use_is_fewer(use), nearly = ls_plan_use_has_nearly(use);
    const char *all = a->question->task.cluster.sites > 1 ? "both sites" : "all";
    if (!fewer && !nearly) return;
    printf("\nuse      ");
    if (fewer) {
        print_devices(a, &use->fastest);
        printf(": %s tokens/s against %s with %s\n", LS_WHOLE(use->fastest.tokens_per_second),
               LS_WHOLE(use->all.tokens_per_second), all);
        if (nearly) printf("         ");
    }
    if (!nearly) return;
    print_devices(a, &use->nearly);
    double less = 1 - use->nearly.tokens_per_second / use->fastest.tokens_per_second;
    printf(" are nearly as fast: %s tokens/s against %s (−%.1f %%)\n", LS_WHOLE(use->nearly.tokens_per_second),
           LS_WHOLE(use->fastest.tokens_per_second), 100 * less);
}

/* Prints how the work is divided between two sites with different chips; nothing if they are alike. */
static void print_uneven(const ls_plan_answer *a) {
    const ls_cluster *cluster = &a->task.cluster;
    int replicas[2], micros[2], first[LS_CHUNKS_MAX + 1];
    const ls_knobs *l = &a->best->layout;
    if (!ls_plan_sites_differ(cluster)) return;
    if (ls_plan_shares(&a->task, l, replicas, micros)) {
        printf("         uneven: a replica on %s takes %d micro-batches of a step, one on %s %d\n",
               cluster->site[0].chip.name, micros[0], cluster->site[1].chip.name, micros[1]);
        return;
    }
    int near = cluster->site[0].chips / (l->tp * l->context * l->dp), layers = 0;
    ls_plan_blocks(&a->task, l, first);
    for (int g = 0; g < l->pp * l->virtual_stages; g++)
        if (g % l->pp < near) layers += first[g + 1] - first[g] - (g == 0);
    printf("         uneven: %d of the %zu layers are on %s, %zu on %s\n", layers, a->task.shape.L,
           cluster->site[0].chip.name, a->task.shape.L - (size_t)layers, cluster->site[1].chip.name);
}

/* Prints whether stages or replicas are divided between two sites, what crosses the link, and the time of the other
 * choice. */
static void print_cut(const ls_plan_answer *a) {
    const char *how = a->best->layout.stages_across ? "the pipeline stages are divided between the sites"
                                                    : "the replicas are divided between the sites";
    if (a->task.cluster.sites < 2) return;
    printf("cut      %s: %s cross the link each way and cost %s of the step\n", how, LS_GB(a->across_bytes),
           LS_TIME(a->across_seconds));
    if (a->not_cut.prediction.seconds > 0)
        printf("         with the other cut (%s), this layout takes %s\n",
               a->best->layout.stages_across ? "replicas" : "stages", LS_TIME(a->not_cut.prediction.seconds));
    print_uneven(a);
}

/* Warns if no published run on this chip has reached such an MFU, or none is known. */
static void print_doubt(const ls_plan_answer *a) {
    const ls_chip *chip = &a->task.cluster.site[0].chip;
    const char *type = ls_plan_type_name(a->best->layout.type);
    double mfu = ls_plan_mfu(&a->task, a->best), best = ls_plan_best_mfu(&a->task, a->best->layout.type);
    if (chip->is_cpu) return;
    if (!(best > 0))
        printf("         no measured run of %s in %s is known, so nothing confirms this rate\n", chip->name, type);
    else if (mfu > best)
        printf("         the best MFU ever measured on %s in %s is %.1f %%: expect less than predicted\n", chip->name,
               type, 100 * best);
}

/* Prints the best layout with its speed, cost, failures and division between sites. */
static void print_best(const ls_plan_answer *a) {
    const ls_plan_task *task = &a->task;
    const ls_prediction *p = &a->best->prediction;
    char text[TEXT_MAX];
    int chips = ls_cluster_chips(&task->cluster);
    double rate = ls_plan_tokens_per_second(task, p);
    ls_knobs_text(&a->best->layout, LS_WORDS_PLAN, NULL, NULL, text, sizeof text);
    printf("\nbest     %s\n", text);
    printf("         %d micro-batch%s; a step takes %s: %s tokens/s, %s per chip, MFU %.1f %%\n", p->micros,
           p->micros > 1 ? "es" : "", LS_TIME(p->seconds), ls_number_whole(rate).text,
           ls_number_whole(rate / chips).text, 100 * ls_plan_mfu(task, a->best));
    print_doubt(a);
    print_cost(a, rate, chips);
    print_course(a, chips);
    print_cut(a);
}

/* Prints how the choice fares if assumptions are wrong. */
static void print_sensitivity(const ls_plan_answer *a) {
    const ls_plan_sensitivity *s = &a->sensitivity;
    const ls_prediction *p = &a->best->prediction;
    char text[TEXT_MAX];
    if (ls_cluster_chips(&a->task.cluster) > 1) {
        printf("if       bandwidth %s is half (%s): %s", s->where, ls_link_rate_text(&s->link, LS_PLAN_LINK_SHARE).text,
               LS_TIME(s->slow.seconds));
        if (ls_knobs_equal(&s->link_best.layout, &a->best->layout))
            printf(", still the best\n");
        else
            printf("; best then: %s, %s\n", format_layout(&s->link_best, text),
                   LS_TIME(s->link_best.prediction.seconds));
    }
    printf("%s the prediction is off by %.0f %%: %s to %s",
           ls_cluster_chips(&a->task.cluster) > 1 ? "        " : "if      ", 100 * a->error,
           LS_TIME(p->seconds * (1 - a->error)), LS_TIME(p->seconds * (1 + a->error)));
    printf(s->near > 0 ? "; %d other layout%s within that range\n" : "; no other layout is within that range\n",
           s->near, s->near > 1 ? "s are" : " is");
    printf("         memory is 5 %% less (%.1f GiB): ", LS_PLAN_MEMORY_SHARE * p->capacity_bytes / GIB);
    if (s->fits_less)
        printf("it fits\n");
    else if (s->memory_best.prediction.seconds > 0)
        printf("does not fit; best then: %s, %s\n", format_layout(&s->memory_best, text),
               LS_TIME(s->memory_best.prediction.seconds));
    else
        printf("nothing fits\n");
}

/* Prints conventions of the training framework on which the memory depends, and the best layout if each were
 * different. */
static void print_habits(const ls_plan_answer *a) {
    char text[TEXT_MAX];
    double now = a->best ? a->best->prediction.seconds : 0;
    for (int i = 0; i < a->habits; i++) {
        const ls_plan_habit *h = &a->habit[i];
        double then = h->best.prediction.seconds;
        printf("%s%s: ", i == 0 ? "program  " : "         ", h->what);
        if (!(then > 0))
            printf("nothing fits\n");
        else if (now > 0)
            printf("%s, %s (%s%.1f %%)\n", format_layout(&h->best, text), LS_TIME(then), sign(then - now),
                   100 * size(then / now - 1));
        else
            printf("%s fits, %s per step\n", format_layout(&h->best, text), LS_TIME(then));
    }
    if (a->habits > 0) printf("         (--stack list says what %s keeps)\n", a->task.stack.name);
}

/* Prints the robust layout, which is slower but loses less if the bandwidth is half; if there is none, says so only if
 * the user asked. */
static void print_robust(const ls_plan_answer *a, bool is_asked) {
    const ls_plan_sensitivity *s = &a->sensitivity;
    const ls_prediction *p = &a->best->prediction;
    char text[TEXT_MAX];
    if (!(s->robust.prediction.seconds > 0)) {
        if (is_asked)
            printf("robust   the fastest layout: half the bandwidth costs it at most %.0f %%, or no layout within %.0f "
                   "%% of it does better\n",
                   100 * LS_PLAN_COLLAPSE, 100 * LS_PLAN_ROBUST_WITHIN);
        return;
    }
    int worst = 0;
    for (int k = 1; k < LS_TIME_KINDS; k++)
        if (s->slow.time[k] - p->time[k] > s->slow.time[worst] - p->time[worst]) worst = k;
    ls_knobs_text(&s->robust.layout, LS_WORDS_PLAN, NULL, NULL, text, sizeof text);
    printf("robust   %s\n", text);
    printf(
        "         %s (+%.1f %%), with half the bandwidth %s, where the fastest takes %s: its %s grows from %s to %s\n",
        LS_TIME(s->robust.prediction.seconds), 100 * (s->robust.prediction.seconds / p->seconds - 1),
        LS_TIME(s->robust_link_seconds), LS_TIME(s->slow.seconds), ls_time_kind_label((ls_time_kind)worst),
        LS_TIME(p->time[worst]), LS_TIME(s->slow.time[worst]));
}

/* ---- others ------------------------------------------------------------------------------------------------------ */

/* Prints a layout with its time and memory, without a newline. */
static void print_choice_row(const ls_plan_choice *c, ls_time_unit unit) {
    char text[TEXT_MAX];
    int wide = 0;
    format_layout(c, text);
    for (const char *at = text; *at; at++) wide += (*at & 0xc0) != 0x80;
    printf("  %s%*s %10s %8.1f  ", text, wide < 40 ? 40 - wide : 0, "",
           ls_number_plain(c->prediction.seconds / unit.seconds).text, c->prediction.memory_bytes / GIB);
}

/* Prints the next best layouts; nothing if only one fits. */
static void print_runners(const ls_plan_answer *a) {
    const ls_prediction *best = &a->best->prediction;
    if (a->found.fitting < 2) return;
    ls_time_unit unit = ls_time_unit_for(best->seconds);
    printf("\n%-42s %10s %8s  %s\n", "runners-up", unit.name, "GiB", "compared with the best");
    for (int i = 1; i < a->found.fitting && i <= RUNNERS; i++) {
        const ls_plan_choice *c = &a->found.fits[i];
        double memory = (c->prediction.memory_bytes - best->memory_bytes) / GIB;
        double time = 100 * (c->prediction.seconds / best->seconds - 1);
        print_choice_row(c, unit);
        printf("%s%.1f %% time, %s%.1f GiB\n", sign(time), size(time), sign(memory), size(memory));
    }
}

/* Prints the nearest layouts that do not fit; if another one fits, only those that would be faster. */
static void print_misfits(const ls_plan_answer *a) {
    double limit = a->best ? a->best->prediction.seconds : 0;
    int shown = 0;
    ls_time_unit unit = ls_time_unit_for(a->best ? limit : a->found.lacks[0].prediction.seconds);
    for (int i = 0; i < a->found.missing && shown < MISFITS; i++) {
        const ls_plan_choice *c = &a->found.lacks[i];
        if (a->best && c->prediction.seconds >= limit) continue;
        if (shown++ == 0)
            printf("\n%-42s %10s %8s\n", a->best ? "faster, but do not fit" : "nearest", unit.name, "GiB");
        print_choice_row(c, unit);
        printf("lacks %.1f GiB", (c->prediction.memory_bytes - c->prediction.capacity_bytes) / GIB);
        if (a->best) printf("; −%.1f %% time", 100 * (1 - c->prediction.seconds / limit));
        printf("\n");
    }
    if (a->found.missing > 0 && shown == 0) printf("\nno layout that needs more memory would be faster\n");
}

/* Prints what would fit, for a plan in which no layout does (the caller checks): other options, offloading, more chips,
 * other chips; or that nothing tried would. */
static void print_remedy(const ls_plan_answer *a) {
    const ls_plan_remedy *r = &a->remedy;
    char text[TEXT_MAX];
    printf("\nnothing fits. These would:\n");
    if (r->is_freed)
        printf("  other options: %s: %.1f GiB, %s per step\n", format_layout(&r->freed, text),
               r->freed.prediction.memory_bytes / GIB, LS_TIME(r->freed.prediction.seconds));
    if (r->is_offloaded)
        printf("  --offload (optimizer states on the host), with %s: %.1f GiB, %s per step\n",
               format_layout(&r->offloaded, text), r->offloaded.prediction.memory_bytes / GIB,
               LS_TIME(r->offloaded.prediction.seconds));
    if (r->chips > 0)
        printf("  %d chips of this kind%s, with %s: %.1f GiB, %s per step\n", r->chips,
               a->question->task.cluster.sites > 1 ? " at each site" : "", format_layout(&r->with, text),
               r->with.prediction.memory_bytes / GIB, LS_TIME(r->with.prediction.seconds));
    if (r->chip.name[0])
        printf("  as many %s, with %s: %.1f of %.1f GiB, %s per step\n", r->chip.name, format_layout(&r->other, text),
               r->other.prediction.memory_bytes / GIB, r->chip.memory_bytes / GIB,
               LS_TIME(r->other.prediction.seconds));
    if (!r->is_freed && !r->is_offloaded && r->chips == 0 && !r->chip.name[0])
        printf("  nothing that was tried; give fewer options\n");
    print_habits(a);
}

/* ---- why: how it comes to fit, what stops it, what to change, how it scales -------------------------------------- */

/* Prints the memory needed as each technique is added, until the layout fits. */
static void print_ladder(const ls_plan_answer *a) {
    printf("\nmemory needed, technique by technique (%.1f GiB available)\n", a->best->prediction.capacity_bytes / GIB);
    for (int i = 0; i < a->rungs; i++)
        printf("  %10.1f GiB  %s%s\n", a->rung[i].bytes / GIB, i > 0 ? "+ " : "", a->rung[i].what);
}

/* Prints where the time above the lower bound goes, the largest losses first. */
static void print_losses(const ls_plan_answer *a) {
    double step = a->best->prediction.seconds;
    bool shown[LS_TIME_KINDS] = {false};
    printf("\nwhy it is not faster\n");
    printf("  lower bound: if every operation ran at large-matmul speed, a step would take %.1f %% of this time\n",
           100 * a->losses.useful / step);
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

/* Prints which time grows with the number of devices, and the change that reduces it. */
static void print_bottleneck(const ls_plan_answer *a) {
    const ls_plan_bottleneck *b = &a->bottleneck;
    printf("\nwhat limits scaling (with this batch)\n");
    if (!b->is_there) {
        printf("  nothing: a step costs no more chip-seconds at any of the sizes below\n");
        return;
    }
    double from = b->from.chips * b->from.best.prediction.seconds;
    printf("  from %d to %d chips a step costs %.1f %% more chip-seconds; most of that is %s: %s%.1f %%\n",
           b->from.chips, b->to.chips, 100 * b->growth, ls_time_kind_label(b->kind), sign(b->more[b->kind]),
           100 * size(b->more[b->kind]) / from);
    if (b->is_treated)
        printf("  on %d chips the best remedy is %s: %.1f %% less time\n", b->to.chips, b->treatment.what,
               100 * b->treatment.gain);
    else
        printf("  no single change reduces it\n");
}

/* Prints the changes of layout, batch or hardware that would save most time. */
static void print_changes(const ls_plan_answer *a) {
    int shown = 0;
    for (int i = 0; i < a->changes && shown < CHANGES; i++) {
        if (a->change[i].gain < .0005) break;
        if (shown++ == 0) printf("\nchanges that would help most\n");
        printf("  %5.1f %% less time  %s\n", 100 * a->change[i].gain, a->change[i].what);
    }
    if (shown == 0) printf("\nno single change would help\n");
}

/* Returns the point with this number of chips, or NULL. */
static const ls_plan_point *point_of(const ls_plan_point *list, int count, int chips) {
    for (int i = 0; i < count; i++)
        if (list[i].chips == chips) return &list[i];
    return NULL;
}

/* Prints a rate relative to the ideal one; "-" if nothing fits (rate 0). */
static void print_share(double rate, double ideal) {
    if (rate > 0)
        printf(" %7.1f %%", 100 * rate / ideal);
    else
        printf(" %9s", "-");
}

/* Prints speed on more chips, with a batch that grows (weak scaling) and with the same batch (strong scaling). */
static void print_scaling(const ls_plan_answer *a) {
    char text[TEXT_MAX];
    if (a->weak_points < 2) return;
    printf("\n%-8s %14s %9s %9s %9s  %s\n", "scaling", "batch grows", "of ideal", "same", "batch", "layout chosen");
    printf("%8s %14s %9s %9s %9s\n", "chips", "tokens/s", "", "layout", "stays");
    for (int i = 0; i < a->weak_points; i++) {
        const ls_plan_point *w = &a->weak[i], *s = point_of(a->strong, a->strong_points, w->chips);
        printf("%8d %14s", w->chips, LS_WHOLE(w->tokens_per_second));
        print_share(w->tokens_per_second, w->ideal_tokens_per_second);
        print_share(w->held_tokens_per_second, w->ideal_tokens_per_second);
        print_share(s ? s->tokens_per_second : 0, s ? s->ideal_tokens_per_second : 1);
        printf("  %s\n", w->best.prediction.seconds > 0 ? format_layout(&w->best, text) : "nothing fits");
    }
}

void ls_plan_report(const ls_plan_answer *a, bool is_robust) {
    print_question(a);
    if (!a->best) {
        print_remedy(a);
        print_misfits(a);
        if (a->found.missing > 0) print_memory(&a->found.lacks[0].prediction, a->found.lacks[0].layout.pp);
        return;
    }
    print_use(a);
    print_best(a);
    print_sensitivity(a);
    print_habits(a);
    print_robust(a, is_robust);
    print_times(&a->best->prediction);
    print_memory(&a->best->prediction, a->best->layout.pp);
    print_host(a);
    print_runners(a);
    print_misfits(a);
    print_ladder(a);
    print_losses(a);
    print_bottleneck(a);
    print_changes(a);
    print_scaling(a);
}

/* ---- this program on a machine that lockstep probe measured: memory as train --dry-run has it -------------------- */

/* Prints time and memory of a native plan by kind. */
static void print_parts(const ls_prediction *p) {
    (p->hidden_dp > 0 ? print_times : print_kinds)(p);
    printf("\n%-22s %10s\n", "memory per worker", "MiB");
    for (int k = 0; k < LS_MEMORY_KINDS; k++)
        print_part(ls_memory_kind_label((ls_memory_kind)k), p->memory[k] / MIB, p->memory[k] / p->memory_bytes);
    printf("  %-20s %10s\n", "sum", ls_number_plain(p->memory_bytes / MIB).text);
}

/* Prints how many layouts do not fit, and the closest one; nothing if all fit. */
static void print_native_misfit(const ls_plan *plan) {
    const ls_native_choice *c = &plan->found.lacks;
    char text[TEXT_MAX];
    if (plan->found.missing == 0) return;
    ls_layout_text(&c->layout, text, sizeof text);
    printf("\n%d do not fit; the closest, %s, lacks %.1f MiB on its most loaded worker\n", plan->found.missing, text,
           (c->prediction.memory_bytes - c->prediction.capacity_bytes) / MIB);
}

/* Prints the next best layouts of a native plan. */
static void print_others(const ls_plan *plan) {
    const ls_prediction *best = &plan->found.fits[0].prediction;
    char text[TEXT_MAX];
    if (plan->found.fitting > 1) printf("\nothers\n");
    for (int i = 1; i < plan->found.fitting; i++) {
        const ls_prediction *p = &plan->found.fits[i].prediction;
        ls_layout_text(&plan->found.fits[i].layout, text, sizeof text);
        double time = 100 * (p->seconds / best->seconds - 1), memory = (p->memory_bytes - best->memory_bytes) / MIB;
        printf("  %10s  %s%.1f %% time, %s%.1f MiB  %s\n", LS_TIME(p->seconds), sign(time), size(time), sign(memory),
               size(memory), text);
    }
}

void ls_plan_report_native(const ls_plan *plan) {
    const ls_settings *s = &plan->settings;
    char text[TEXT_MAX];
    printf("model    %s: %.4g M parameters, %zu layers\n", s->shape.name, ls_model_count_params(&s->shape) / 1e6,
           s->shape.L);
    const ls_native_gpu *gpu = &plan->machine.gpu;
    if (plan->machine.is_gpus)
        printf("machine  %d × %s, %.1f GiB, as measured by lockstep probe; %s, matrix unit %s\n", gpu->count, gpu->name,
               gpu->memory_bytes / 0x1p30, ls_dtype_word(s->policy.act), ls_unit_name(s->policy.unit));
    else
        printf("machine  %s, %d cores, as measured by lockstep probe\n", plan->machine.cpu, plan->machine.cores);
    snprintf(text, sizeof text, ", dropout %g", s->options.dropout);
    printf("step     %zu sequences of %zu tokens, %d groups, %d slices%s; program lockstep\n", s->B, s->T, s->groups,
           s->slices, s->options.dropout > 0 ? text : "");
    printf("layouts  %d tried, %d fit\n", plan->found.tried, plan->found.tried - plan->found.missing);
    const ls_native_choice *first = ls_native_first(&plan->found);
    if (first && ls_native_warn_slices(&s->policy, s->slices, first->layout.tp, text, sizeof text))
        printf("warning  %s\n", text);
    if (plan->found.fitting > 0) {
        const ls_prediction *p = &plan->found.fits[0].prediction;
        ls_layout_text(&plan->found.fits[0].layout, text, sizeof text);
        double peak = ls_native_peak(&plan->machine, &s->policy);
        printf("\nbest     %s\n         a step takes %s: %s tokens/s", text, LS_TIME(p->seconds),
               LS_WHOLE((double)s->B * (double)s->T / p->seconds));
        if (peak > 0) printf(", MFU %.1f %% of the measured peak", 100 * p->model_flops / p->seconds / peak);
        printf("\n");
        print_parts(p);
        print_others(plan);
    }
    print_native_misfit(plan);
}
