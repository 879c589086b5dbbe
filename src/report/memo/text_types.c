/* text_types.c: sentences about precision: what 16 bits save, what stays in fp32 and why. */
#include "report/memo/facts.h"

static double states_of(const ls_prediction *p) {
    return p->memory[LS_MEMORY_WEIGHTS] + p->memory[LS_MEMORY_GRADIENTS] + p->memory[LS_MEMORY_OPTIMIZER];
}

static double activations_of(const ls_prediction *p) {
    return p->memory[LS_MEMORY_ACTIVATIONS] + p->memory[LS_MEMORY_WORK];
}

static void put_difference(ls_page *doc, const char *what, double now, double before) {
    if (now < before)
        ls_page_put(doc, " %s shrink by %s, from %s to %s.", what, LS_GIB(before - now), LS_GIB(before), LS_GIB(now));
    else if (now > before)
        ls_page_put(doc, " %s grow by %s, from %s to %s.", what, LS_GIB(now - before), LS_GIB(before), LS_GIB(now));
}

static void put_savings(ls_page *doc, const ls_memo_facts *f) {
    const ls_prediction *now = &f->choice.prediction, *before = &f->fp32.prediction;
    LS_TEXT(doc,
            "The same layout entirely in fp32 would take %s per step instead of %s, \1%.1f times\2 as long, and %s "
            "instead of %s of memory%s.",
            LS_SECONDS(before->seconds), LS_SECONDS(now->seconds), before->seconds / now->seconds,
            LS_GIB(before->memory_bytes), LS_GIB(now->memory_bytes),
            f->fits && !ls_prediction_fits(before) ? ", which does not fit" : "");
    put_difference(doc, "Activations", activations_of(now), activations_of(before));
    double states = states_of(now), were = states_of(before);
    put_difference(doc, "Weights, gradients and optimizer state together", states, were);
    if (states > were)
        ls_page_put(doc, " That is the additional 16-bit copy of the weights: mixed precision saves time, traffic and "
                         "activation memory, not model state.");
}

static void put_table(ls_page *doc, const ls_memo_facts *f) {
    const ls_prediction *p = &f->choice.prediction;
    const char *half = ls_plan_type_name(f->choice.layout.type == LS_PLAN_FP16 ? LS_PLAN_FP16 : LS_PLAN_BF16);
    bool wide = f->task->stack.grad_bytes >= 4, sharded = f->gathers;
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
