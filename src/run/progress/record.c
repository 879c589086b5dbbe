/* record.c: a step in numbers, as lines. */
#include "run/progress/record.h"

#include <math.h>
#include <stdio.h>

#include "optim/clip.h"

ls_status ls_record_step(ls_metrics *m, const ls_trainer *t, const ls_step_result *result, const ls_step_cost *cost) {
    ls_metrics_begin(m);
    ls_metrics_add_i64(m, "step", t->step);
    ls_metrics_add_hex(m, "loss", result->loss);
    ls_metrics_add_f64(m, "norm", result->norm);
    ls_metrics_add_f64(m, "lr", result->lr);
    ls_metrics_add_f64(m, "ms", cost->seconds * 1e3);
    ls_metrics_add_f64(m, "tokens_per_s", cost->tokens / cost->seconds);
    if (cost->mfu > 0) ls_metrics_add_f64(m, "mfu", cost->mfu);
    if (t->time.due) {
        ls_metrics_add_ms_list(m, "busy_ms", t->time.busy_ms, t->time.workers);
        ls_metrics_add_ms_list(m, "wait_ms", t->time.wait_ms, t->time.workers);
    }
    if (t->settings.policy.act == LS_F16) ls_metrics_add_i64(m, "scale", result->scale);
    if (result->skipped) ls_metrics_add_bool(m, "skipped", true);
    if (result->audited > 0) ls_metrics_add_i64(m, "audited", result->audited);
    if (result->dropped > 0) ls_metrics_add_flags(m, "dropped", t->guard.absent, t->guard.groups);
    return ls_metrics_end(m);
}

bool ls_record_has_numerics(const ls_trainer *t, const ls_step_result *result) {
    return t->settings.numerics > 0 && t->step % t->settings.numerics == 0 && result->finite;
}

static double share(int64_t part, int64_t whole) { return whole > 0 ? (double)part / (double)whole : 0; }

static double length(ls_exact_sum sum) { return sqrt(ls_exact_sum_value(&sum)); }

static void block_name(const ls_model *model, int b, char name[32]) {
    if (b == 0 || b == model->nblocks - 1)
        snprintf(name, 32, "%s", b == 0 ? "embedding" : "head");
    else
        snprintf(name, 32, "blocks.%d", b - 1);
}

static ls_status record_block(ls_metrics *m, const ls_trainer *t, int b) {
    const ls_block_numerics *n = &t->guard.numerics[b];
    char name[32];
    block_name(t->model, b, name);
    ls_metrics_begin(m);
    ls_metrics_add_i64(m, "step", t->step);
    ls_metrics_add_text(m, "numerics", name);
    /* Gradients as the step used them: unscaled, and clipped. */
    ls_metrics_add_f64(m, "grad_norm", length(n->grad_squares) * (double)t->clip.factor);
    ls_metrics_add_f64(m, "weight_norm", length(n->weight_squares));
    ls_metrics_add_f64(m, "update_norm", length(n->update_squares));
    ls_metrics_add_f64(m, "grad_flushed", share(n->grads[LS_COUNT_FLUSHED], n->grads[LS_COUNT_NONZERO]));
    ls_metrics_add_f64(m, "grad_high", share(n->grads[LS_COUNT_HIGH], n->grads[LS_COUNT_NONZERO]));
    if (n->acts_elems > 0) {
        ls_metrics_add_f64(m, "act_flushed", share(n->acts[LS_COUNT_FLUSHED], n->acts[LS_COUNT_NONZERO]));
        ls_metrics_add_f64(m, "act_high", share(n->acts[LS_COUNT_HIGH], n->acts[LS_COUNT_NONZERO]));
    }
    ls_metrics_add_f64(m, "lost", share(n->lost, n->elems));
    return ls_metrics_end(m);
}

static ls_status record_noise(ls_metrics *m, const ls_trainer *t) {
    const ls_settings *s = &t->settings;
    ls_noise_value v = ls_noise_get(&t->guard.noise, (int64_t)(s->B * s->T), (int64_t)s->B);
    if (!v.valid) return LS_OK;
    ls_metrics_begin(m);
    ls_metrics_add_i64(m, "step", t->step);
    ls_metrics_add_bool(m, "noise", true);
    ls_metrics_add_i64(m, "groups", s->groups);
    ls_metrics_add_f64(m, "grad_sq", v.grad_sq);
    ls_metrics_add_f64(m, "trace", v.trace);
    ls_metrics_add_f64(m, "scale_tokens", v.scale_tokens);
    ls_metrics_add_f64(m, "scale_sequences", v.scale_sequences);
    return ls_metrics_end(m);
}

ls_status ls_record_numerics(ls_metrics *m, const ls_trainer *t) {
    for (int b = 0; b < t->model->nblocks; b++) LS_TRY(record_block(m, t, b));
    return record_noise(m, t);
}
