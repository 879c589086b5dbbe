/* text_types.c: sentences about precision: what 16 bits save, what stays in fp32 and why. */
#include "report/memo/facts.h"

static double states_of(const ls_prediction *p) {
    return p->memory[LS_MEMORY_WEIGHTS] + p->memory[LS_MEMORY_GRADIENTS] + p->memory[LS_MEMORY_OPTIMIZER];
}

static double activations_of(const ls_prediction *p) {
    return p->memory[LS_MEMORY_ACTIVATIONS] + p->memory[LS_MEMORY_WORK];
}

static void put_difference(ls_memo_doc *doc, const char *what, double now, double before) {
    if (now < before)
        ls_memo_put(doc, " %s shrink by %s, from %s to %s.", what, ls_memo_gib(before - now).text,
                    ls_memo_gib(before).text, ls_memo_gib(now).text);
    else if (now > before)
        ls_memo_put(doc, " %s grow by %s, from %s to %s.", what, ls_memo_gib(now - before).text,
                    ls_memo_gib(before).text, ls_memo_gib(now).text);
}

static void put_savings(ls_memo_doc *doc, const ls_memo_facts *f) {
    const ls_prediction *now = &f->choice.prediction, *before = &f->fp32.prediction;
    ls_memo_begin(doc, LS_MEMO_TEXT, NULL);
    ls_memo_put(doc,
                "The same layout entirely in fp32 would take %s per step instead of %s, \1%.1f times\2 as long, and %s "
                "instead of %s of memory%s.",
                ls_memo_seconds(before->seconds).text, ls_memo_seconds(now->seconds).text,
                before->seconds / now->seconds, ls_memo_gib(before->memory_bytes).text,
                ls_memo_gib(now->memory_bytes).text,
                f->fits && !ls_prediction_fits(before) ? ", which does not fit" : "");
    put_difference(doc, "Activations", activations_of(now), activations_of(before));
    double states = states_of(now), were = states_of(before);
    put_difference(doc, "Weights, gradients and optimizer state together", states, were);
    if (states > were)
        ls_memo_put(doc, " That is the additional 16-bit copy of the weights: mixed precision saves time, traffic and "
                         "activation memory, not model state.");
    ls_memo_end(doc);
}

static void put_table(ls_memo_doc *doc, const ls_memo_facts *f) {
    const ls_prediction *p = &f->choice.prediction;
    const char *half = ls_plan_type_name(f->choice.layout.type == LS_PLAN_FP16 ? LS_PLAN_FP16 : LS_PLAN_BF16);
    bool wide = f->task->stack.grad_bytes >= 4, sharded = f->gathers;
    double state = p->memory[LS_MEMORY_OPTIMIZER];
    ls_memo_begin(doc, LS_MEMO_TABLE, "llrl");
    ls_memo_put(doc, "data\ttype\ton the most loaded %s\treason", f->chip);
    ls_memo_put(doc, "\nmatmuls\t%s\t\t%s of the step; 16-bit or fp8 operands are enough, the sums need fp32",
                ls_plan_type_name(f->choice.layout.type), ls_memo_percent(p->time[LS_TIME_MATMUL] / p->seconds).text);
    ls_memo_put(doc, "\nmatmul accumulators, norms, softmax, loss\tfp32\ton the chip\tlong sums lose small terms in 16 "
                     "bits, and exponentials exceed the range of fp16");
    ls_memo_put(doc, "\nweights as read by matmuls\t%s\t%s\thalf the bytes to read and to send", half,
                sharded ? "layer by layer" : ls_memo_gib(p->memory[LS_MEMORY_WEIGHTS]).text);
    ls_memo_put(doc, "\nactivations\t%s\t%s\tthe part of memory that grows with the micro-batch", half,
                ls_memo_gib(p->memory[LS_MEMORY_ACTIVATIONS]).text);
    ls_memo_put(doc, "\ngradients\t%s\t%s\t%s", wide ? "fp32" : half, ls_memo_gib(p->memory[LS_MEMORY_GRADIENTS]).text,
                wide ? "summed over micro-batches and replicas; in 16 bits late terms are rounded away"
                     : "as this training program keeps them; sums over many micro-batches lose precision");
    ls_memo_put(
        doc,
        "\nmaster weights\tfp32\t%s\tan update is often below 1/256 of its weight and would be rounded away in bf16",
        ls_memo_gib(state / 3).text);
    ls_memo_put(doc,
                "\nboth optimizer moments\tfp32\t%s\trunning means that change by a thousandth per step, and squares "
                "of small numbers",
                ls_memo_gib(2 * state / 3).text);
    ls_memo_end(doc);
}

void ls_memo_precision(ls_memo_doc *doc, const ls_memo_facts *f) {
    const ls_plan_layout *l = &f->choice.layout;
    ls_memo_add(doc, LS_MEMO_HEADING, "Precision: what it saves, what stays in fp32");
    if (l->type == LS_PLAN_FP32) {
        ls_memo_add(doc, LS_MEMO_TEXT,
                    "Everything is in fp32: weights, activations, gradients and the optimizer's state.");
        return;
    }
    put_savings(doc, f);
    if (l->pure_16bit) {
        ls_memo_add(doc, LS_MEMO_TEXT,
                    "Weights, gradients and moments are all kept in 16 bits here: only sums inside operations are in "
                    "fp32, and small updates are lost to rounding.");
        return;
    }
    put_table(doc, f);
    if (l->type == LS_PLAN_FP16)
        ls_memo_add(doc, LS_MEMO_TEXT,
                    "fp16 overflows at 65,504 and underflows below 6e-8: the loss must be scaled, and steps that "
                    "overflow must be skipped. bf16 has the range of fp32 and needs neither.");
}
