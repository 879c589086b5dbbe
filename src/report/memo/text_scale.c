/* text_scale.c: writes sentences about scaling: how far it goes, what limits it, what to try first. */
#include "report/memo/facts.h"

/* ---- the curve --------------------------------------------------------------------------------------------------- */

/* Adds a table of throughput by number of chips. */
static void put_points(ls_page *doc, const ls_memo_facts *f, const ls_plan_point *points, int count) {
    ls_page_add_table(doc, "rlrrrr", "%s\tbest layout\ttokens/s\tof ideal\tsame layout\tof ideal", f->chips);
    for (int i = 0; i < count; i++) {
        const ls_plan_point *p = &points[i];
        ls_page_put(doc, "\n%s\t", LS_WHOLE(p->chips));
        if (p->tokens_per_second > 0)
            ls_page_put(doc, "%s\t%s\t%s", LS_LAYOUT(&p->best.layout), LS_WHOLE(p->tokens_per_second),
                        p->ideal_tokens_per_second > 0 ? LS_PERCENT(p->tokens_per_second / p->ideal_tokens_per_second)
                                                       : "");
        else
            ls_page_put(doc, "nothing fits\t\t");
        if (p->held_tokens_per_second > 0 && p->ideal_tokens_per_second > 0)
            ls_page_put(doc, "\t%s\t%s", LS_WHOLE(p->held_tokens_per_second),
                        LS_PERCENT(p->held_tokens_per_second / p->ideal_tokens_per_second));
        else
            ls_page_put(doc, "\t–\t–");
    }
}

/* Finds the first and last size on which something fits; returns false if there are no two. */
static bool ends_of(const ls_plan_point *points, int count, const ls_plan_point **first, const ls_plan_point **last) {
    *first = *last = NULL;
    for (int i = 0; i < count; i++) {
        if (points[i].tokens_per_second <= 0) continue;
        if (!*first) *first = &points[i];
        *last = &points[i];
    }
    return *first && *first != *last;
}

/* Adds an item about the throughput from the smallest to the largest size that fits; nothing without two. how: the
 * begin of the sentence; says_why: explains growth that is more than proportional. */
static void put_growth(ls_page *doc, const ls_plan_point *points, int count, const char *chips, const char *how,
                       bool says_why) {
    const ls_plan_point *a, *b;
    if (!ends_of(points, count, &a, &b)) return;
    double size = (double)b->chips / a->chips, speed = b->tokens_per_second / a->tokens_per_second;
    LS_ITEM(doc,
            "%s: from %s to %s %s, %g times as many, throughput grows \1%.2f times\2; at %s it is \1%s\2 of ideal.",
            how, LS_WHOLE(a->chips), LS_WHOLE(b->chips), chips, size, speed, LS_WHOLE(b->chips),
            LS_PERCENT(b->tokens_per_second / b->ideal_tokens_per_second));
    if (says_why && speed > 1.02 * size)
        ls_page_put(doc, " It grows more than proportionally because %s %s have to save memory: they run %s.",
                    LS_WHOLE(a->chips), chips, LS_LAYOUT(&a->best.layout));
}

void ls_memo_scaling(ls_page *doc, const ls_memo_facts *f) {
    LS_HEADING(doc, "Scaling");
    const ls_plan_point *first, *last;
    if (!ends_of(f->weak, f->weaks, &first, &last)) {
        LS_TEXT(doc,
                first ? "It fits at only one of the sizes up to %d %s, so there is no scaling curve."
                      : "It fits at none of the sizes up to %d %s, so there is no scaling curve.",
                4 * ls_cluster_chips(&f->task->cluster), f->chips);
        return;
    }
    LS_TEXT(doc, "%s", "");
    if (first->chips > f->site->node)
        ls_page_put(doc, "Of the sizes tried, %s %s is the smallest that holds the model. ", LS_WHOLE(first->chips),
                    f->chips);
    ls_page_put(doc, "Ideal is the highest throughput per %s at any size, times the number of %s.", f->chip, f->chips);
    put_growth(doc, f->strong, f->strongs, f->chips, "With the same batch", true);
    put_growth(doc, f->weak, f->weaks, f->chips, "With a batch that grows", f->strongs < 2);
    ls_memo_scaling_chart(doc, f);
    if (f->strongs > 0) {
        LS_TEXT(doc, "Constant batch of %zu sequences:", f->task->global_batch);
        put_points(doc, f, f->strong, f->strongs);
    }
    LS_TEXT(doc, "Batch proportional to the cluster size:");
    put_points(doc, f, f->weak, f->weaks);
}

/* ---- what stops it ----------------------------------------------------------------------------------------------- */

/* Why each kind of time grows with the number of chips. */
static const char *const reasons[LS_TIME_KINDS] = {
    [LS_TIME_MATMUL] = "matmuls of these shapes do not fill the chip; larger micro-batches or less tensor parallelism "
                       "make them larger",
    [LS_TIME_ATTENTION] =
        "attention reaches a lower share of the peak than matmuls; its cost grows with the sequence length",
    [LS_TIME_SMALL] = "norms, activations and copies are bound by memory bandwidth in any layout",
    [LS_TIME_ENDS] = "the embedding and the head with its loss are on the first and last stage only",
    [LS_TIME_RECOMPUTE] = "activations are recomputed because they do not fit in memory; more chips hold more",
    [LS_TIME_TP] = "tensor parallelism exchanges activations in every layer; larger groups have smaller matmuls to "
                   "overlap it with",
    [LS_TIME_GATHER] = "sharded weights are all-gathered for every micro-batch with any number of replicas, while each "
                       "replica has less to compute",
    [LS_TIME_P2P] = "a stage has to wait for the activations of the previous one",
    [LS_TIME_BUBBLE] = "filling and draining the pipeline takes equally long with few and with many micro-batches; "
                       "more replicas with the same batch leave fewer micro-batches for each",
    [LS_TIME_DP] = "the bytes of gradients per replica are constant, while each replica has less to compute",
    [LS_TIME_OPTIMIZER] = "the update touches every weight once per step, however small the batch",
    [LS_TIME_OTHER] = "launching a step costs the same however short it is",
};

/* Adds a table of the chip-seconds of a step by kind on few and on many chips; their growth is what scaling lost. */
static void put_growth_kinds(ls_page *doc, const ls_plan_bottleneck *b, const char *chip) {
    const ls_prediction *from = &b->from.best.prediction, *to = &b->to.best.prediction;
    LS_TEXT(doc, "%s-seconds of a step, by kind:", chip);
    ls_page_add_table(doc, "lrrr", "kind\ton %d\ton %d\tgrowth", b->from.chips, b->to.chips);
    for (int k = 0; k < LS_TIME_KINDS; k++) {
        double x = b->from.chips * from->time[k], y = b->to.chips * to->time[k], more = b->more[k];
        if (x < 1e-3 * b->from.chips * from->seconds && y < 1e-3 * b->to.chips * to->seconds) continue;
        ls_page_put(doc, "\n%s\t%s\t%s\t%s%s", ls_time_kind_label((ls_time_kind)k), LS_SECONDS(x), LS_SECONDS(y),
                    more < 0 ? "−" : "+", LS_SECONDS(more < 0 ? -more : more));
    }
}

/* Adds a paragraph about the kind of time that limits scaling, or that none does. */
static void put_limit(ls_page *doc, const ls_memo_facts *f) {
    const ls_plan_bottleneck *b = &f->answer->bottleneck;
    int own = ls_cluster_chips(&f->task->cluster);
    if (!b->is_there) {
        LS_TEXT(
            doc,
            "\1Nothing limits it at the sizes above\2: a step of the same batch costs no more %s-seconds on more of "
            "them. What follows slows every %s equally, at any size.",
            f->chip, f->chip);
        return;
    }
    double from = b->from.chips * b->from.best.prediction.seconds;
    LS_TEXT(doc,
            "A step of the same batch costs least on %d %s. On %d, %s, it costs \1%s more %s-seconds\2. Most of that, "
            "%s, is \1%s\2: %s.",
            b->from.chips, f->chips, b->to.chips, b->to.chips > own ? "beyond this cluster" : "this cluster",
            LS_PERCENT(b->growth), f->chip, LS_PERCENT(b->more[b->kind] / from), ls_time_kind_phrase(b->kind),
            reasons[b->kind]);
    put_growth_kinds(doc, b, f->chip);
}

void ls_memo_bottleneck(ls_page *doc, const ls_memo_facts *f) {
    const ls_prediction *p = &f->choice.prediction;
    ls_time_kind worst = f->losses.worst;
    int chips = ls_cluster_chips(&f->task->cluster);
    LS_HEADING(doc, "What limits scaling");
    put_limit(doc, f);
    LS_TEXT(doc,
            "At any size: if all %d %s ran the model's FLOPs at the rate of large matmuls and did nothing else, a step "
            "would take %s. It takes %s: they do the work of \1%.1f\2 at peak. The largest loss apart from the matmuls "
            "themselves is %s, %s or %s of the step.",
            chips, f->chips, LS_SECONDS(f->losses.useful), LS_SECONDS(p->seconds),
            chips * f->losses.useful / p->seconds, ls_time_kind_phrase(worst), LS_SECONDS(f->losses.lost[worst]),
            LS_PERCENT(f->losses.lost[worst] / p->seconds));
    ls_memo_loss_chart(doc, f);
}

/* ---- what to try ------------------------------------------------------------------------------------------------- */

/* Returns the best change of the layout, or of the hardware, that gains more than 0.2 %; NULL: none. */
static const ls_plan_change *first_change(const ls_memo_facts *f, bool hardware) {
    for (int i = 0; i < f->changes; i++)
        if (f->change[i].hardware == hardware && f->change[i].gain > .002) return &f->change[i];
    return NULL;
}

/* Returns the factor by which to multiply the time of a changed step to get the time for as many tokens as now, because
 * a change may change the batch. */
static double same_tokens(const ls_memo_facts *f, const ls_prediction *to) {
    return to->model_flops > 0 ? f->choice.prediction.model_flops / to->model_flops : 1;
}

/* Adds a paragraph about a change: what it gains, and in which kind of time. lead: the begin of the sentence. */
static void put_change(ls_page *doc, const ls_memo_facts *f, const ls_plan_change *change, const char *lead) {
    const ls_prediction *to = &change->to.prediction, *from = &f->choice.prediction;
    ls_time_kind most = 0;
    double per = same_tokens(f, to);
    for (int k = 1; k < LS_TIME_KINDS; k++)
        if (from->time[k] - per * to->time[k] > from->time[most] - per * to->time[most]) most = (ls_time_kind)k;
    LS_TEXT(
        doc,
        "%s\1%s\2. A step then takes %s instead of %s, \1%s less\2. The largest reduction is in %s: %s instead of %s.",
        lead, change->what, LS_SECONDS(per * to->seconds), LS_SECONDS(from->seconds), LS_PERCENT(change->gain),
        ls_time_kind_phrase(most), LS_SECONDS(per * to->time[most]), LS_SECONDS(from->time[most]));
}

/* Adds a paragraph about the change that reduces the time which limits scaling, at the number of chips where it does;
 * nothing without a limit. */
static void put_treatment(ls_page *doc, const ls_memo_facts *f) {
    const ls_plan_bottleneck *b = &f->answer->bottleneck;
    const ls_plan_change *c = &b->treatment;
    if (!b->is_there) return;
    if (!b->is_treated) {
        LS_TEXT(doc,
                "Against %s, which limits scaling, no single change helps: neither a neighbouring layout nor faster "
                "links.",
                ls_time_kind_phrase(b->kind));
        return;
    }
    const ls_prediction *now = &b->to.best.prediction, *to = &c->to.prediction;
    double per = to->model_flops > 0 ? now->model_flops / to->model_flops : 1;
    LS_TEXT(doc,
            "Against %s, which limits scaling: \1%s\2. On %d %s a step then takes %s instead of %s, \1%s less\2; %s of "
            "the saving is in exactly that: %s instead of %s.",
            ls_time_kind_phrase(b->kind), c->what, b->to.chips, f->chips, LS_SECONDS(per * to->seconds),
            LS_SECONDS(now->seconds), LS_PERCENT(c->gain),
            LS_PERCENT(b->treated_seconds > c->gain * now->seconds ? 1 : b->treated_seconds / (c->gain * now->seconds)),
            LS_SECONDS(per * to->time[b->kind]), LS_SECONDS(now->time[b->kind]));
}

void ls_memo_mitigation(ls_page *doc, const ls_memo_facts *f) {
    const ls_plan_change *knob = first_change(f, false), *hardware = first_change(f, true);
    LS_HEADING(doc, "What to try first");
    put_treatment(doc, f);
    if (f->answer->bottleneck.is_there) LS_TEXT(doc, "To make a step of this cluster faster, whatever its size:");
    if (knob) put_change(doc, f, knob, "First, on the same hardware: ");
    if (!knob)
        LS_TEXT(doc,
                "No single change of the layout makes a step faster: the search tried all neighbouring layouts, and "
                "each is slower or does not fit in memory.");
    if (hardware) put_change(doc, f, hardware, knob ? "Then, the hardware: " : "So the first change is hardware: ");
    if (!hardware && !knob)
        LS_TEXT(doc, "A faster link or more memory does not make a step faster either: the limit is the compute rate "
                     "of the chip.");
    if (f->changes == 0) return;
    LS_TEXT(doc, "All single changes that were evaluated, best first:");
    ls_page_add_table(doc, "lrrr", "change\tstep for the same tokens\tsaved\tmemory");
    for (int i = 0; i < f->changes && i < 8; i++) {
        const ls_plan_change *c = &f->change[i];
        ls_page_put(doc, "\n%s\t%s\t%s%s\t%s", c->what,
                    LS_SECONDS(same_tokens(f, &c->to.prediction) * c->to.prediction.seconds),
                    c->gain < -5e-4 ? "−" : "", LS_PERCENT(c->gain < 0 ? -c->gain : c->gain),
                    LS_GIB(c->to.prediction.memory_bytes));
    }
}
