/* order_report.c: a table for people, or JSON. */
#include "cli/verify/order_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 48 };

const char *ls_order_explanation(void) {
    return "Every floating-point addition rounds, so (a + b) + c and a + (b + c) may differ in their last bits, and "
           "training carries the difference on and can amplify it; lockstep adds the gradients of the groups in one "
           "fixed tree, whichever worker holds them and whenever they arrive, so the result is always the same.";
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

static void base_text(const ls_order_case *done, int way, char text[TEXT_MAX]) {
    if (done->result[way].way.base == way)
        snprintf(text, TEXT_MAX, "-");
    else
        ls_order_way_text(&done->result[done->result[way].way.base].way, text, TEXT_MAX);
}

static void share_text(const ls_order_difference *d, char text[TEXT_MAX]) {
    double percent = 100 * (double)d->changed / (double)d->elems;
    snprintf(text, TEXT_MAX, d->changed == 0 ? "0" : percent < 0.005 ? "%.1g %%" : "%.2f %%", percent);
}

static void size_text(double value, char text[TEXT_MAX]) { snprintf(text, TEXT_MAX, value == 0 ? "0" : "%.1e", value); }

static void step_text(int64_t step, char text[TEXT_MAX]) {
    if (step == 0)
        snprintf(text, TEXT_MAX, "never");
    else
        snprintf(text, TEXT_MAX, "%lld", (long long)step);
}

/* ---- table ------------------------------------------------------------------------------------------------------- */

void ls_order_print_head(const ls_verify_case *c) {
    const ls_settings *s = &c->settings;
    char last[TEXT_MAX], weights[TEXT_MAX + 16], loss[TEXT_MAX + 16];
    snprintf(last, sizeof last, "step %lld", (long long)c->steps);
    snprintf(weights, sizeof weights, "%s: weights", last);
    snprintf(loss, sizeof loss, "%s: loss", last);
    printf("%s: %zu parameters; %lld step%s of %zu × %zu tokens, %d groups, %d slices\n\n", s->shape.name,
           ls_model_elems(c->model), (long long)c->steps, c->steps == 1 ? "" : "s", s->B, s->T, s->groups, s->slices);
    printf("%-44s  %-19s  %-19s  %-32s  %s\n", "", "step 1: gradients", weights, loss, "loss differs from step");
    printf("%-21s  %-21s  %9s  %8s  %9s  %8s  %-22s  %8s  %7s  %8s\n", "sum", "against", "changed", "relative",
           "changed", "by up to", "value", "by", "in bits", "in print");
    fflush(stdout);
}

void ls_order_print_row(const ls_order_case *done, int way) {
    const ls_order_result *r = &done->result[way], *base = &done->result[r->way.base];
    char name[TEXT_MAX], against[TEXT_MAX], grads[TEXT_MAX], relative[TEXT_MAX], weights[TEXT_MAX], absolute[TEXT_MAX];
    char apart[TEXT_MAX], bits[TEXT_MAX], seen[TEXT_MAX], loss[TEXT_MAX];
    ls_order_way_text(&r->way, name, sizeof name);
    base_text(done, way, against);
    snprintf(loss, sizeof loss, "%a", r->loss[done->steps - 1]);
    if (base == r) {
        printf("%-21s  %-21s  %9s  %8s  %9s  %8s  %s\n", name, against, "", "", "", "", loss);
    } else {
        share_text(&r->grad, grads);
        size_text(r->grad.relative, relative);
        share_text(&r->weight, weights);
        size_text(r->weight.absolute, absolute);
        size_text(fabs(r->loss[done->steps - 1] - base->loss[done->steps - 1]), apart);
        step_text(r->first_bits, bits);
        step_text(r->first_seen, seen);
        printf("%-21s  %-21s  %9s  %8s  %9s  %8s  %-22s  %8s  %7s  %8s\n", name, against, grads, relative, weights,
               absolute, loss, apart, bits, seen);
    }
    fflush(stdout);
}

void ls_order_print_hash(const ls_order_case *done) {
    const ls_verify_hash *first = NULL;
    int counts = 0, hashes = 0, most = 1;
    for (int i = 0; i < done->ways; i++) {
        const ls_order_result *r = &done->result[i];
        if (r->way.kind != LS_ORDER_LOCKSTEP) continue;
        if (!first) first = &r->weights;
        most = r->way.workers;
        hashes += counts++ == 0 || strcmp(first->text, r->weights.text) != 0;
    }
    if (hashes == 1)
        printf("\nlockstep on 1 to %d workers, each a process of its own: one hash of all weights, %s\n", most,
               first->text);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* JSON has no infinity. */
static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *losses(const ls_order_case *done, const ls_order_result *r) {
    json_t *list = json_array();
    for (int64_t s = 0; s < done->steps; s++) {
        if (json_array_append_new(list, json_sprintf("%a", r->loss[s])) == 0) continue;
        json_decref(list);
        return NULL;
    }
    return list;
}

json_t *ls_order_case_json(const ls_verify_case *c) {
    const ls_settings *s = &c->settings;
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:i, s:i, s:[]}", "model", s->shape.name, "parameters",
                     (json_int_t)ls_model_elems(c->model), "steps", (json_int_t)c->steps, "global_batch",
                     (json_int_t)s->B, "seq", (json_int_t)s->T, "groups", s->groups, "slices", s->slices, "sums");
}

json_t *ls_order_row_json(const ls_order_case *done, int way) {
    const ls_order_result *r = &done->result[way], *base = &done->result[r->way.base];
    char name[TEXT_MAX], against[TEXT_MAX];
    ls_order_way_text(&r->way, name, sizeof name);
    base_text(done, way, against);
    json_t *json =
        json_pack("{s:s, s:s, s:i, s:s, s:I, s:o, s:I, s:o, s:o, s:I, s:I, s:s, s:o}", "sum", name, "kind",
                  ls_order_kind_name(r->way.kind), "workers", r->way.workers, "against", against, "gradients_changed",
                  (json_int_t)r->grad.changed, "gradients_relative", number(r->grad.relative), "weights_changed",
                  (json_int_t)r->weight.changed, "weights_by", number(r->weight.absolute), "loss_by",
                  number(fabs(r->loss[done->steps - 1] - base->loss[done->steps - 1])), "first_step_in_bits",
                  (json_int_t)r->first_bits, "first_step_in_print", (json_int_t)r->first_seen, "weights_xxh128",
                  r->weights.text, "loss_hex", losses(done, r));
    if (json && base == r) json_object_set_new(json, "against", json_null());
    return json;
}
