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
        ls_page_put(doc, " %s shrink by %s, from %s to %s.", what, ls_number_gib(before - now).text,
                    ls_number_gib(before).text, ls_number_gib(now).text);
    else if (now > before)
        ls_page_put(doc, " %s grow by %s, from %s to %s.", what, ls_number_gib(now - before).text,
                    ls_number_gib(before).text, ls_number_gib(now).text);
}

static void put_savings(ls_page *doc, const ls_memo_facts *f) {
    const ls_prediction *now = &f->choice.prediction, *before = &f->fp32.prediction;
    ls_page_begin(doc, LS_PAGE_TEXT, NULL);
    ls_page_put(doc,
                "The same layout entirely in fp32 would take %s per step instead of %s, \1%.1f times\2 as long, and %s "
                "instead of %s of memory%s.",
                ls_number_seconds(before->seconds).text, ls_number_seconds(now->seconds).text,
                before->seconds / now->seconds, ls_number_gib(before->memory_bytes).text,
                ls_number_gib(now->memory_bytes).text,
                f->fits && !ls_prediction_fits(before) ? ", which does not fit" : "");
    put_difference(doc, "Activations", activations_of(now), activations_of(before));
    double states = states_of(now), were = states_of(before);
    put_difference(doc, "Weights, gradients and optimizer state together", states, were);
    if (states > were)
        ls_page_put(doc, " That is the additional 16-bit copy of the weights: mixed precision saves time, traffic and "
                         "activation memory, not model state.");
    ls_page_end(doc);
}

static void put_table(ls_page *doc, const ls_memo_facts *f) {
    const ls_prediction *p = &f->choice.prediction;
    const char *half = ls_plan_type_name(f->choice.layout.type == LS_PLAN_FP16 ? LS_PLAN_FP16 : LS_PLAN_BF16);
    bool wide = f->task->stack.grad_bytes >= 4, sharded = f->gathers;
    double state = p->memory[LS_MEMORY_OPTIMIZER];
    ls_page_begin(doc, LS_PAGE_TABLE, "llrl");
    ls_page_put(doc, "data\ttype\ton the most loaded %s\treason", f->chip);
    ls_page_put(doc, "\nmatmuls\t%s\t\t%s of the step; 16-bit or fp8 operands are enough, the sums need fp32",
                ls_plan_type_name(f->choice.layout.type), ls_number_percent(p->time[LS_TIME_MATMUL] / p->seconds).text);
    ls_page_put(doc, "\nmatmul accumulators, norms, softmax, loss\tfp32\ton the chip\tlong sums lose small terms in 16 "
                     "bits, and exponentials exceed the range of fp16");
    ls_page_put(doc, "\nweights as read by matmuls\t%s\t%s\thalf the bytes to read and to send", half,
                sharded ? "layer by layer" : ls_number_gib(p->memory[LS_MEMORY_WEIGHTS]).text);
    ls_page_put(doc, "\nactivations\t%s\t%s\tthe part of memory that grows with the micro-batch", half,
                ls_number_gib(p->memory[LS_MEMORY_ACTIVATIONS]).text);
    ls_page_put(doc, "\ngradients\t%s\t%s\t%s", wide ? "fp32" : half,
                ls_number_gib(p->memory[LS_MEMORY_GRADIENTS]).text,
                wide ? "summed over micro-batches and replicas; in 16 bits late terms are rounded away"
                     : "as this training program keeps them; sums over many micro-batches lose precision");
    ls_page_put(
        doc,
        "\nmaster weights\tfp32\t%s\tan update is often below 1/256 of its weight and would be rounded away in bf16",
        ls_number_gib(state / 3).text);
    ls_page_put(doc,
                "\nboth optimizer moments\tfp32\t%s\trunning means that change by a thousandth per step, and squares "
                "of small numbers",
                ls_number_gib(2 * state / 3).text);
    ls_page_end(doc);
}

void ls_memo_precision(ls_page *doc, const ls_memo_facts *f) {
    const ls_knobs *l = &f->choice.layout;
    ls_page_add(doc, LS_PAGE_HEADING, "Precision: what it saves, what stays in fp32");
    if (l->type == LS_PLAN_FP32) {
        ls_page_add(doc, LS_PAGE_TEXT,
                    "Everything is in fp32: weights, activations, gradients and the optimizer's state.");
        return;
    }
    put_savings(doc, f);
    if (l->pure_16bit) {
        ls_page_add(doc, LS_PAGE_TEXT,
                    "Weights, gradients and moments are all kept in 16 bits here: only sums inside operations are in "
                    "fp32, and small updates are lost to rounding.");
        return;
    }
    put_table(doc, f);
    if (l->type == LS_PLAN_FP16)
        ls_page_add(doc, LS_PAGE_TEXT,
                    "fp16 overflows at 65,504 and underflows below 6e-8: the loss must be scaled, and steps that "
                    "overflow must be skipped. bf16 has the range of fp32 and needs neither.");
}
