/* text_cost.c: writes sentences about memory, traffic, utilisation, precision and the step. */
#include <string.h>

#include "plan/cost/cost_case.h"
#include "report/memo/facts.h"

/* ---- memory ------------------------------------------------------------------------------------------------------ */

double ls_memo_states(const double *memory) {
    return memory[LS_MEMORY_WEIGHTS] + memory[LS_MEMORY_GRADIENTS] + memory[LS_MEMORY_OPTIMIZER];
}

double ls_memo_activations(const double *memory) { return memory[LS_MEMORY_ACTIVATIONS] + memory[LS_MEMORY_WORK]; }

/* Adds the table of memory as each technique is added. */
static void put_rungs(ls_page *doc, const ls_memo_facts *f) {
    ls_page_add_table(doc, "lrrrr", "technique\tstates\tactivations\tother\tsum");
    for (int i = 0; i < f->rungs; i++) {
        const double *m = f->rung[i].memory;
        double states = ls_memo_states(m), held = ls_memo_activations(m), rest = f->rung[i].bytes - states - held;
        ls_page_put(doc, "\n%s\t%s\t%s\t%s\t%s", f->rung[i].what, LS_GIB(states), LS_GIB(held),
                    LS_GIB(rest > 0 ? rest : 0), LS_GIB(f->rung[i].bytes));
    }
}

/* Adds the table of the most loaded chip's memory by kind. */
static void put_kinds(ls_page *doc, const ls_memo_facts *f) {
    static const char *const what[LS_MEMORY_KINDS] = {
        "weights as read by matmuls",
        "gradients, kept until the update",
        "fp32 master weights and optimizer moments",
        "kept from the forward pass for the backward pass",
        "temporary tensors of one layer, or the logits and the loss",
        "communication buffers",
        "allocator fragmentation",
        "context and libraries",
    };
    const ls_prediction *p = &f->choice.prediction;
    if (f->choice.layout.pp > 1)
        LS_TEXT(doc, "Memory of the most loaded %s, on stage %d, at its peak:", f->chip, p->heaviest_stage);
    else
        LS_TEXT(doc, "Memory of a %s at its peak:", f->chip);
    ls_page_add_table(doc, "lrl", "kind\tbytes\tcontents");
    for (int k = 0; k < LS_MEMORY_KINDS; k++)
        if (p->memory[k] > 0)
            ls_page_put(doc, "\n%s\t%s\t%s", ls_memory_kind_label((ls_memory_kind)k), LS_GIB(p->memory[k]), what[k]);
    ls_page_put(doc, "\n\1sum\2\t\1%s\2\tof %s", LS_GIB(p->memory_bytes), LS_GIB(p->capacity_bytes));
}

/* Returns the rung (technique) that saves most memory; 0: none does. */
static int best_rung(const ls_memo_facts *f) {
    double most = 0;
    int best = 0;
    for (int i = 1; i < f->rungs; i++) {
        double saved = f->rung[i - 1].bytes - f->rung[i].bytes;
        if (saved > most) most = saved, best = i;
    }
    return best;
}

/* Returns the whole memory of the chip in bytes, from the question's cluster: f->site has only the usable part. If the
 * question does not name the chip, returns that part. */
static double whole_memory(const ls_memo_facts *f) {
    const ls_cluster *asked = &f->answer->question->task.cluster;
    for (int i = 0; i < asked->sites; i++)
        if (strcmp(asked->site[i].chip.name, f->site->chip.name) == 0) return asked->site[i].chip.memory_bytes;
    return f->site->chip.memory_bytes;
}

void ls_memo_memory(ls_page *doc, const ls_memo_facts *f) {
    const ls_prediction *p = &f->choice.prediction;
    LS_HEADING(doc, f->fits ? "How it fits in memory" : "Why it does not fit in memory");
    if (f->rungs > 0) {
        double first = f->rung[0].bytes, capacity = p->capacity_bytes, all = whole_memory(f);
        LS_TEXT(doc, "%s", "");
        if (capacity < .999 * all)
            ls_page_put(doc, "A %s has %s, of which %s are kept free. ", f->chip, LS_GIB(all), LS_GIB(all - capacity));
        if (first > capacity)
            ls_page_put(doc, "On a single %s everything together would need \1%s\2, %.1f times the usable %s.", f->chip,
                        LS_GIB(first), first / capacity, LS_GIB(capacity));
        else
            ls_page_put(doc, "The model fits on one %s: %s of %s. More of them only make it faster.", f->chip,
                        LS_GIB(first), LS_GIB(capacity));
        int best = best_rung(f);
        if (best > 0)
            ls_page_put(doc, " The largest saving is “%s”: from %s to %s.", f->rung[best].what,
                        LS_GIB(f->rung[best - 1].bytes), LS_GIB(f->rung[best].bytes));
        if (ls_prediction_fits(p))
            ls_page_put(doc, " In the end the most loaded %s needs \1%s\2 and has %s to spare.", f->chip,
                        LS_GIB(p->memory_bytes), LS_GIB(capacity - p->memory_bytes));
        else
            ls_page_put(doc, " In the end the most loaded %s still needs \1%s\2, %s more than it has.", f->chip,
                        LS_GIB(p->memory_bytes), LS_GIB(p->memory_bytes - capacity));
        ls_memo_ladder_chart(doc, f);
        put_rungs(doc, f);
    }
    put_kinds(doc, f);
}

/* ---- traffic ----------------------------------------------------------------------------------------------------- */

/* Adds the table of bytes that a chip sends in a step, by purpose. */
static void put_flows(ls_page *doc, const ls_memo_facts *f) {
    ls_page_add_table(doc, "llllrrrr",
                      "traffic\twhen\tlink\talgorithm assumed\tsent per %s\tbetween nodes\tlink busy\texposed",
                      f->chip);
    for (int i = 0; i < LS_MEMO_FLOWS; i++) {
        const ls_memo_flow *flow = &f->flow[i];
        if (flow->bytes <= 0) continue;
        ls_page_put(doc, "\n%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", flow->what, flow->when, flow->link->name, flow->how,
                    LS_GB(flow->bytes), flow->outside_bytes > 0 ? LS_GB(flow->outside_bytes) : "–",
                    LS_SECONDS(flow->link_seconds),
                    flow->seen < 0 ? "included in the rows above" : LS_SECONDS(flow->seen));
    }
}

/* Adds a paragraph about the reduction of gradients, and what more replicas change. */
static void put_gradients(ls_page *doc, const ls_memo_facts *f) {
    const ls_knobs *l = &f->choice.layout;
    const ls_memo_flow *flow = &f->flow[LS_MEMO_DP];
    if (l->dp * l->context < 2) {
        LS_TEXT(doc,
                "\1Gradients\2 are not sent at all: with one replica each %s has the complete gradient of its part "
                "after its last micro-batch. Adding replicas would add this cost.",
                f->chip);
        return;
    }
    if (f->gathers) {
        LS_TEXT(doc,
                "\1Gradients\2 are reduced layer by layer during the backward pass, each %s keeping its 1/%d of them. "
                "Weights are all-gathered the same way, twice per micro-batch: that is the price of ZeRO 3, paid again "
                "for each of the %d micro-batches.",
                f->chip, l->dp * l->context, f->micros);
        return;
    }
    LS_TEXT(doc, "\1Gradients\2 are reduced %s, %s: each %s sends %s",
            f->reduces_often ? "after every micro-batch, because ZeRO 2 keeps only its shard of the gradient"
                             : "once per step",
            flow->where, f->chip, LS_GB(f->reduce_bytes));
    if (f->spread_bytes > 0) ls_page_put(doc, ", and %s of updated weights afterwards", LS_GB(f->spread_bytes));
    ls_page_put(doc, ". That keeps %s busy for %s; %s of it overlap with compute, and %s are exposed. ",
                flow->link->name, LS_SECONDS(flow->link_seconds), LS_SECONDS(f->choice.prediction.hidden_dp),
                LS_SECONDS(flow->seen));
    if (f->reduces_often)
        ls_page_put(doc, "More replicas with the same batch have fewer micro-batches each, so these bytes shrink "
                         "together with the compute that they overlap with.");
    else
        ls_page_put(doc, "More replicas do not change these bytes. But with the same batch each replica has less to "
                         "compute, so less of the traffic overlaps.");
}

/* Adds a paragraph about activations that tensor parallelism and stages exchange. */
static void put_activations(ls_page *doc, const ls_memo_facts *f) {
    const ls_knobs *l = &f->choice.layout;
    const ls_memo_flow *tensor = &f->flow[LS_MEMO_TP], *stage = &f->flow[LS_MEMO_PP];
    if (l->tp < 2 && l->pp < 2) {
        LS_TEXT(doc, "\1Activations\2 are not sent: neither layers nor the pipeline are split.");
        return;
    }
    LS_TEXT(doc, "\1Activations\2 ");
    if (l->tp > 1)
        ls_page_put(doc,
                    "and their gradients are exchanged %d times per layer and micro-batch by tensor parallelism, %s in "
                    "total over %s, and %s of the %s that this takes are exposed",
                    l->sequence_parallel ? 10 : 4, LS_GB(tensor->bytes), tensor->link->name, LS_SECONDS(tensor->seen),
                    LS_SECONDS(tensor->link_seconds));
    if (l->tp > 1 && l->pp > 1) ls_page_put(doc, ". Between stages they ");
    if (l->tp < 2) ls_page_put(doc, "and their gradients ");
    if (l->pp > 1)
        ls_page_put(doc, "cross %s: %s over %s, %s of link time, %s",
                    stage->link == &f->site->between ? "to the next node" : "to the next stage", LS_GB(stage->bytes),
                    stage->link->name, LS_SECONDS(stage->link_seconds),
                    f->task->stack.sends_block ? "while the stages wait"
                                               : "mostly while the stages work on other micro-batches");
    ls_page_put(doc, ". This traffic is proportional to the tokens per replica: it takes the same share of a step with "
                     "any number of replicas.");
}

void ls_memo_traffic(ls_page *doc, const ls_memo_facts *f) {
    double ratio = ls_plan_link_rate(&f->site->inside) / ls_plan_link_rate(&f->site->between);
    LS_HEADING(doc, "Communication");
    if (f->nodes > 1)
        LS_TEXT(doc,
                "Inside a node a %s reaches %s/s over %s, between nodes %s/s over %s: %.*f times less. So the heaviest "
                "traffic is kept inside nodes.",
                f->chip, LS_GB(ls_plan_link_rate(&f->site->inside)), f->site->inside.name,
                LS_GB(ls_plan_link_rate(&f->site->between)), f->site->between.name, ratio < 10 ? 1 : 0, ratio);
    if (f->choice.layout.dp * f->choice.layout.tp * f->choice.layout.pp > 1) put_flows(doc, f);
    put_gradients(doc, f);
    put_activations(doc, f);
}

ls_status ls_memo_utilisation(ls_page *doc, const ls_memo_facts *f) {
    const ls_memo_pipe *pipe = &f->pipe;
    LS_HEADING(doc, "The pipeline, without and with micro-batches");
    if (!pipe->there) {
        LS_TEXT(doc,
                "The layout has one stage, and this cluster and model allow no pipeline to compare it with. No %s "
                "waits for another stage.",
                f->chip);
        return LS_OK;
    }
    if (!pipe->chosen)
        LS_TEXT(doc,
                "The recommended layout has one stage, so there is no pipeline bubble. The effect of splitting layers "
                "is shown for %s.",
                LS_LAYOUT(&pipe->micro));
    int micros = pipe->step[1].micros, held = micros < pipe->micro.pp ? micros : pipe->micro.pp;
    LS_TEXT(doc,
            "With the layers split into %d stages and one micro-batch at a time, only one stage works at any time: "
            "each is busy \1%s\2 of the time, and a step takes %s. ",
            pipe->micro.pp, LS_PERCENT(pipe->busy[0]), LS_SECONDS(pipe->step[0].seconds));
    if (micros > 1)
        ls_page_put(doc,
                    "With %d micro-batches in flight under the %s schedule, stages are busy \1%s\2 and the step takes "
                    "%s: %.1f times as fast on the same %s. ",
                    micros, ls_schedule_kind_name(pipe->micro.schedule), LS_PERCENT(pipe->busy[1]),
                    LS_SECONDS(pipe->step[1].seconds), pipe->step[0].seconds / pipe->step[1].seconds, f->chips);
    else
        ls_page_put(doc, "The batch leaves one micro-batch per replica, so no schedule can fill the bubble. ");
    if (pipe->micro.schedule == LS_SCHEDULE_1F1B && micros > 1)
        ls_page_put(doc, "The first stage holds the activations of at most %d micro-batches. ", held);
    ls_page_put(doc, "The remaining idle time is filling and draining the pipeline, and stages with less work.");
    return ls_memo_timeline_chart(doc, f);
}

/* ---- precision: what 16 bits save, what stays in fp32 and why ---------------------------------------------------- */

/* Adds a sentence about memory that shrinks or grows from `before` to `now` bytes; nothing if it stays. */
static void put_difference(ls_page *doc, const char *what, double now, double before) {
    if (now < before)
        ls_page_put(doc, " %s shrink by %s, from %s to %s.", what, LS_GIB(before - now), LS_GIB(before), LS_GIB(now));
    else if (now > before)
        ls_page_put(doc, " %s grow by %s, from %s to %s.", what, LS_GIB(now - before), LS_GIB(before), LS_GIB(now));
}

/* Adds a paragraph that compares time and memory with fp32. */
static void put_savings(ls_page *doc, const ls_memo_facts *f) {
    const ls_prediction *now = &f->choice.prediction, *before = &f->fp32.prediction;
    LS_TEXT(doc,
            "The same layout entirely in fp32 would take %s per step instead of %s, \1%.1f times\2 as long, and %s "
            "instead of %s of memory%s.",
            LS_SECONDS(before->seconds), LS_SECONDS(now->seconds), before->seconds / now->seconds,
            LS_GIB(before->memory_bytes), LS_GIB(now->memory_bytes),
            f->fits && !ls_prediction_fits(before) ? ", which does not fit" : "");
    put_difference(doc, "Activations", ls_memo_activations(now->memory), ls_memo_activations(before->memory));
    double states = ls_memo_states(now->memory), were = ls_memo_states(before->memory);
    put_difference(doc, "Weights, gradients and optimizer state together", states, were);
    if (states > were)
        ls_page_put(doc, " That is the additional 16-bit copy of the weights: mixed precision saves time, traffic and "
                         "activation memory, not model state.");
}

/* Adds the table of types: what is kept in which type, its memory, and why. */
static void put_table(ls_page *doc, const ls_memo_facts *f) {
    const ls_prediction *p = &f->choice.prediction;
    const char *half = ls_plan_type_name(f->choice.layout.type == LS_PLAN_FP16 ? LS_PLAN_FP16 : LS_PLAN_BF16);
    bool wide = ls_plan_grad_bytes(&f->task->stack, f->choice.layout.type) >= 4, sharded = f->gathers;
    double state = p->memory[LS_MEMORY_OPTIMIZER];
    ls_page_add_table(doc, "llrl", "data\ttype\ton the most loaded %s\treason", f->chip);
    ls_page_put(doc, "\nmatmuls\t%s\t\t%s of the step; 16-bit or fp8 operands are enough, the sums need fp32",
                ls_plan_type_name(f->choice.layout.type), LS_PERCENT(p->time[LS_TIME_MATMUL] / p->seconds));
    ls_page_put(doc, "\nmatmul accumulators, norms, softmax, loss\tfp32\ton the chip\tlong sums lose small terms in 16 "
                     "bits, and exponentials exceed the range of fp16");
    ls_page_put(doc, "\nweights as read by matmuls\t%s\t%s\thalf the bytes to read and to send", half,
                sharded ? "layer by layer" : LS_GIB(p->memory[LS_MEMORY_WEIGHTS]));
    ls_page_put(doc, "\nactivations\t%s\t%s\tthe part of memory that grows with the micro-batch", half,
                LS_GIB(p->memory[LS_MEMORY_ACTIVATIONS]));
    ls_page_put(doc, "\ngradients\t%s\t%s\t%s", wide ? "fp32" : half, LS_GIB(p->memory[LS_MEMORY_GRADIENTS]),
                wide ? "summed over micro-batches and replicas; in 16 bits late terms are rounded away"
                     : "as this training program keeps them; sums over many micro-batches lose precision");
    ls_page_put(
        doc,
        "\nmaster weights\tfp32\t%s\tan update is often below 1/256 of its weight and would be rounded away in bf16",
        LS_GIB(state / 3));
    ls_page_put(doc,
                "\nboth optimizer moments\tfp32\t%s\trunning means that change by a thousandth per step, and squares "
                "of small numbers",
                LS_GIB(2 * state / 3));
}

void ls_memo_precision(ls_page *doc, const ls_memo_facts *f) {
    const ls_knobs *l = &f->choice.layout;
    LS_HEADING(doc, "Precision: what it saves, what stays in fp32");
    if (l->type == LS_PLAN_FP32) {
        LS_TEXT(doc, "Everything is in fp32: weights, activations, gradients and the optimizer's state.");
        return;
    }
    put_savings(doc, f);
    if (l->pure_16bit) {
        LS_TEXT(doc, "Weights, gradients and moments are all kept in 16 bits here: only sums inside operations are in "
                     "fp32, and small updates are lost to rounding.");
        return;
    }
    put_table(doc, f);
    if (l->type == LS_PLAN_FP16)
        LS_TEXT(doc, "fp16 overflows at 65,504 and underflows below 6e-8: the loss must be scaled, and steps that "
                     "overflow must be skipped. bf16 has the range of fp32 and needs neither.");
}

void ls_memo_step(ls_page *doc, const ls_memo_facts *f) {
    const ls_prediction *p = &f->choice.prediction;
    const double *t = p->time;
    double compute = t[LS_TIME_MATMUL] + t[LS_TIME_ATTENTION] + t[LS_TIME_SMALL] + t[LS_TIME_ENDS],
           sent = t[LS_TIME_TP] + t[LS_TIME_GATHER] + t[LS_TIME_P2P] + t[LS_TIME_DP];
    LS_HEADING(doc, "Where the time of a step goes");
    LS_TEXT(doc, "Of %s, %s is compute.", LS_SECONDS(p->seconds), LS_PERCENT(compute / p->seconds));
    if (sent > 5e-4 * p->seconds) ls_page_put(doc, " Exposed communication takes %s.", LS_PERCENT(sent / p->seconds));
    if (t[LS_TIME_BUBBLE] > 5e-4 * p->seconds)
        ls_page_put(doc, " The pipeline bubble takes %s.", LS_PERCENT(t[LS_TIME_BUBBLE] / p->seconds));
    if (t[LS_TIME_RECOMPUTE] > 0)
        ls_page_put(doc, " Another %s goes into recomputing activations.",
                    LS_PERCENT(t[LS_TIME_RECOMPUTE] / p->seconds));
    ls_memo_step_chart(doc, f);
}
