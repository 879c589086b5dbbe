/* text.c: writes sentences about the recommendation: what to run, and why each knob of the layout has its value. */
#include "plan/cost/cost_case.h"
#include "report/memo/facts.h"

/* ---- words ------------------------------------------------------------------------------------------------------- */

ls_memo_line ls_memo_layout_text(const ls_knobs *l) {
    ls_memo_line out;
    char stages[48] = "", zero[24] = "", again[40] = "";
    if (l->virtual_stages > 1) snprintf(stages, sizeof stages, " with %d chunks per stage", l->virtual_stages);
    if (l->zero > 0) snprintf(zero, sizeof zero, ", ZeRO %d", l->zero);
    if (l->recompute != LS_RECOMPUTE_NONE)
        snprintf(again, sizeof again, ", %s recomputation", ls_recompute_name(l->recompute));
    snprintf(out.text, sizeof out.text, "dp %d × tp %d × pp %d%s%s%s, micro-batch %zu%s%s", l->dp, l->tp, l->pp,
             l->pp > 1 ? ", " : "", l->pp > 1 ? ls_schedule_kind_name(l->schedule) : "", stages, l->micro, zero, again);
    return out;
}

/* Formats the bandwidth that a link reaches, "42.1 GB/s". */
static ls_memo_line rate_of(const ls_link *link) {
    ls_memo_line out;
    snprintf(out.text, sizeof out.text, "%s/s", LS_GB(ls_plan_link_rate(link)));
    return out;
}

/* Returns the fastest layout among those kept by the search in which this knob (tp or pp) is above 1; NULL: none. */
static const ls_plan_choice *fastest_with(const ls_memo_facts *f, ls_knob knob) {
    for (int i = 0; i < f->found->fitting; i++)
        if (ls_knob_get(&f->found->fits[i].layout, knob) > 1) return &f->found->fits[i];
    return NULL;
}

/* Adds how much longer another layout takes; nothing for NULL. */
static void put_cost_of_other(ls_page *doc, const ls_memo_facts *f, const ls_plan_choice *other, const char *what) {
    if (!other) return;
    ls_page_put(doc, " The fastest layout with %s, %s, takes %s: %s more.", what, LS_LAYOUT(&other->layout),
                LS_SECONDS(other->prediction.seconds),
                LS_PERCENT(other->prediction.seconds / f->choice.prediction.seconds - 1));
}

/* ---- why each knob is where it is -------------------------------------------------------------------------------- */

/* Adds an item about the degree of tensor parallelism. */
static void put_why_tensor(ls_page *doc, const ls_memo_facts *f) {
    const ls_knobs *l = &f->choice.layout;
    const ls_memo_flow *flow = &f->flow[LS_MEMO_TP];
    if (l->tp < 2) {
        LS_ITEM(doc, "\1No tensor parallelism.\2 Layers are not split, so no activations are exchanged inside them.");
        put_cost_of_other(doc, f, fastest_with(f, LS_KNOB_tp), "it");
        return;
    }
    LS_ITEM(doc,
            "\1Tensor parallelism over %d %s, %s.\2 Its collectives are on the critical path of every layer and "
            "micro-batch: each %s sends %s per step. At the %s that %s reaches this takes %s, of which %s are exposed.",
            l->tp, f->chips, flow->where, f->chip, LS_GB(flow->bytes), rate_of(flow->link).text, flow->link->name,
            LS_SECONDS(flow->link_seconds), LS_SECONDS(flow->seen));
    double wide = f->wide.prediction.seconds;
    if (wide > f->choice.prediction.seconds)
        ls_page_put(doc,
                    " It should stay inside the node: over two nodes (%s) the collectives would go over %s at %s per "
                    "%s, and a step would take %s instead of %s.",
                    LS_LAYOUT(&f->wide.layout), f->site->between.name, rate_of(&f->site->between).text, f->chip,
                    LS_SECONDS(wide), LS_SECONDS(f->choice.prediction.seconds));
}

/* Adds an item about the number of stages. */
static void put_why_pipeline(ls_page *doc, const ls_memo_facts *f) {
    const ls_knobs *l = &f->choice.layout;
    const ls_memo_flow *flow = &f->flow[LS_MEMO_PP], *tensor = &f->flow[LS_MEMO_TP];
    if (l->pp < 2) {
        LS_ITEM(doc, "\1No pipeline parallelism.\2 Every %s runs all layers, so there is no pipeline bubble.", f->chip);
        put_cost_of_other(doc, f, fastest_with(f, LS_KNOB_pp), "stages");
        return;
    }
    LS_ITEM(doc,
            "\1A pipeline of %d stages, %s.\2 Stages exchange activations only at their boundaries: %s per %s and step",
            l->pp, flow->where, LS_GB(flow->bytes), f->chip);
    if (tensor->bytes > flow->bytes)
        ls_page_put(doc, ", %s times less than tensor parallelism", LS_WHOLE(tensor->bytes / flow->bytes));
    ls_page_put(doc, ".");
    if (flow->link == &f->site->between)
        ls_page_put(doc, " So it is the best use of the slow link (%s, %s).", flow->link->name,
                    rate_of(flow->link).text);
    ls_page_put(doc, " With %d micro-batches of %zu per step the stages are busy %s of the time.", f->micros, l->micro,
                LS_PERCENT(f->pipe.busy[1]));
}

/* Adds an item about the number of replicas, and ZeRO. */
static void put_why_replicas(ls_page *doc, const ls_memo_facts *f) {
    const ls_knobs *l = &f->choice.layout;
    const ls_memo_flow *flow = &f->flow[f->gathers ? LS_MEMO_GATHER : LS_MEMO_DP];
    if (ls_plan_chips(l) == 1)
        LS_ITEM(doc, "\1A single %s.\2 It has the whole model, so there is no communication.", f->chip);
    else if (l->dp < 2)
        LS_ITEM(doc,
                "\1One replica.\2 All %d %s hold one copy of the model, so no gradients are exchanged between replicas "
                "and ZeRO has nothing to shard.",
                ls_plan_chips(l), f->chips);
    else if (f->gathers)
        LS_ITEM(doc,
                "\1%d replicas with sharded weights (ZeRO 3).\2 Each %s sends %s per step to all-gather layers and "
                "reduce gradients, %s over %s; %s of this are exposed.",
                l->dp, f->chip, LS_GB(flow->bytes), flow->where, flow->link->name, LS_SECONDS(flow->seen));
    else
        LS_ITEM(doc,
                "\1%d replicas.\2 They reduce gradients %s, %s over %s. That takes %s on the link, of which %s overlap "
                "with compute.",
                l->dp, f->reduces_often ? "after every micro-batch" : "once per step", flow->where, flow->link->name,
                LS_SECONDS(flow->link_seconds), LS_SECONDS(f->choice.prediction.hidden_dp));
    const ls_prediction *plain = &f->unsharded.prediction;
    if (l->zero > 0 && plain->seconds > 0)
        ls_page_put(doc, " Without ZeRO %d the most loaded %s would need %s instead of %s%s.", l->zero, f->chip,
                    LS_GIB(plain->memory_bytes), LS_GIB(f->choice.prediction.memory_bytes),
                    ls_prediction_fits(plain) ? "" : ", which does not fit");
}

/* Adds an item about recomputation. */
static void put_why_recompute(ls_page *doc, const ls_memo_facts *f) {
    const ls_prediction *now = &f->choice.prediction, *other = &f->recompute.prediction;
    if (f->choice.layout.recompute == LS_RECOMPUTE_NONE) {
        LS_ITEM(doc, "\1No recomputation.\2 Activations fit.");
        if (other->seconds > now->seconds)
            ls_page_put(doc, " Recomputing them would free %s and cost %s of time.",
                        LS_GIB(now->memory_bytes - other->memory_bytes), LS_PERCENT(other->seconds / now->seconds - 1));
        return;
    }
    LS_ITEM(doc, "\1%s recomputation.\2 It costs %s per step.",
            f->choice.layout.recompute == LS_RECOMPUTE_FULL ? "Full" : "Selective",
            LS_SECONDS(now->time[LS_TIME_RECOMPUTE]));
    if (other->seconds > 0)
        ls_page_put(doc, " Without it the most loaded %s would need %s of its %s%s.", f->chip,
                    LS_GIB(other->memory_bytes), LS_GIB(other->capacity_bytes),
                    ls_prediction_fits(other) ? "" : ", which does not fit");
}

/* ---- the section ------------------------------------------------------------------------------------------------- */

/* Adds the block of key figures: time, speed, MFU, memory and, if the length of training is given, days and cost. */
static void put_facts(ls_page *doc, const ls_memo_facts *f) {
    const ls_prediction *p = &f->choice.prediction;
    ls_page_add(doc, LS_PAGE_FACTS, "%s ± %.0f %%\ttime per step\n", LS_SECONDS(p->seconds), 100 * f->answer->error);
    ls_page_put(doc, "%s\ttokens per second\n", LS_WHOLE(f->tokens_per_second));
    ls_page_put(doc, "%s\tmodel FLOPs utilization (MFU)\n", LS_PERCENT(f->mfu));
    ls_page_put(doc, "%s\tof %s used on the most loaded %s\n", LS_GIB(p->memory_bytes), LS_GIB(p->capacity_bytes),
                f->chip);
    if (f->tokens > 0) {
        double hours = f->tokens / f->tokens_per_second / 3600, all = hours * ls_cluster_chips(&f->task->cluster);
        ls_page_put(doc, "%.*f days\tfor %s tokens\n", hours < 2400 ? 1 : 0, hours / 24, LS_SHORT(f->tokens));
        ls_page_put(doc, "%s\t%s-hours\n", LS_WHOLE(all), f->chip);
        if (f->price > 0) ls_page_put(doc, "%s\tcost at %g per %s-hour\n", LS_WHOLE(all * f->price), f->price, f->chip);
    }
}

/* Adds the layout as command-line options. */
static void put_flags(ls_page *doc, const ls_knobs *l) {
    ls_page_add(doc, LS_PAGE_CODE, "--dp %d --tp %d --pp %d", l->dp, l->tp, l->pp);
    if (l->pp > 1) ls_page_put(doc, " --schedule %s", ls_schedule_kind_name(l->schedule));
    if (l->virtual_stages > 1) ls_page_put(doc, " --virtual-stages %d", l->virtual_stages);
    ls_page_put(doc, "%s--micro-batch %zu --zero %d --recompute %s%s --precision %s", l->pp > 1 ? " \\\n" : " ",
                l->micro, l->zero, ls_recompute_name(l->recompute), l->sequence_parallel ? " --sequence-parallel" : "",
                ls_plan_type_name(l->type));
}

/* Adds tables of the next best layouts and of those that nearly fit; nothing where there are none. */
static void put_others(ls_page *doc, const ls_memo_facts *f) {
    const ls_plan_found *found = f->found;
    if (found->fitting > 1) {
        LS_TEXT(doc, "Runners-up and their trade-offs:");
        ls_page_add_table(doc, "lrrr", "layout\tstep\ttime\tmemory");
        for (int i = 1; i < found->fitting && i < 5; i++) {
            const ls_prediction *p = &found->fits[i].prediction, *best = &f->choice.prediction;
            double bytes = p->memory_bytes - best->memory_bytes;
            ls_page_put(doc, "\n%s\t%s\t+%s\t%s%s", LS_LAYOUT(&found->fits[i].layout), LS_SECONDS(p->seconds),
                        LS_PERCENT(p->seconds / best->seconds - 1), bytes < 0 ? "−" : "+",
                        LS_GIB(bytes < 0 ? -bytes : bytes));
        }
    }
    if (found->missing == 0) return;
    LS_TEXT(doc, "The closest layouts that do not fit:");
    ls_page_add_table(doc, "lrrr", "layout\tneeds\tlacks\tstep, if it fit");
    for (int i = 0; i < found->missing && i < 3; i++) {
        const ls_prediction *p = &found->lacks[i].prediction;
        ls_page_put(doc, "\n%s\t%s\t%s\t%s", LS_LAYOUT(&found->lacks[i].layout), LS_GIB(p->memory_bytes),
                    LS_GIB(p->memory_bytes - p->capacity_bytes), LS_SECONDS(p->seconds));
    }
}

void ls_memo_recommend(ls_page *doc, const ls_memo_facts *f) {
    LS_HEADING(doc, "Recommendation");
    if (!f->fits) {
        ls_memo_remedy(doc, f);
        put_others(doc, f);
        return;
    }
    ls_memo_use(doc, f);
    LS_TEXT(doc, "Use \1%s\2. Of %s layouts tried %s fit, and this is the fastest: %s per step of %s tokens.",
            LS_LAYOUT(&f->choice.layout), LS_WHOLE((double)f->found->tried), LS_WHOLE((double)f->found->fit),
            LS_SECONDS(f->choice.prediction.seconds), LS_SHORT(f->step_tokens));
    put_facts(doc, f);
    ls_memo_sensitivity(doc, f);
    put_why_tensor(doc, f);
    put_why_pipeline(doc, f);
    put_why_replicas(doc, f);
    put_why_recompute(doc, f);
    LS_TEXT(doc, "As command-line options:");
    put_flags(doc, &f->choice.layout);
    put_others(doc, f);
}
