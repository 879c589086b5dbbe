/* cmd_verify_order.c: `lockstep verify --order`: trains the same model with gradients added in several orders (a "way"
 * each), and prints how the results differ, as a table or JSON, with a drawing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/run.h"
#include "base/files.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "parallel/layout/layout.h"
#include "report/order_chart.h"

enum { STEPS = 40, TEXT_MAX = 48 };

typedef struct session {
    const ls_options *opts;
    int count;
    ls_order_case cases[LS_ORDER_CASES_MAX];
    json_t *json, *sums; /* the sums of the last case are borrowed */
} session;

/* Fails for options that --order does not use. Layout options in a config file are ignored, because the file may have
 * been written for training. */
static ls_status check_options(const ls_options *o) {
    static const ls_option_id others[] = {LS_OPT_all, LS_OPT_quick,  LS_OPT_part,
                                          LS_OPT_out, LS_OPT_resume, LS_OPT_trace};
    for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) {
        bool other = ls_layout_is_option(id) || id == LS_OPT_layout;
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) other |= id == others[i];
        if (other && ls_options_is_asked_for(o, id))
            return ls_options_fail(o, id,
                                   "--order compares summation orders, not layouts, and chooses the workers: omit this "
                                   "option, or --order");
    }
    if (ls_launcher_place().size > 0)
        return ls_fail(LS_ERR_INPUT, "verify --order starts its own workers: run it without mpirun or srun");
    return o->svg ? ls_file_can_write(o->svg) : LS_OK;
}

/* Fails unless there are 2 to LS_ORDER_GROUPS_MAX gradient groups, the parts of the batch whose gradients are added. */
static ls_status check_groups(const ls_options *o, int groups) {
    if (groups < 2)
        return ls_options_fail(o, LS_OPT_groups,
                               "a single gradient group has no order: use at least --groups 2 and a batch of 2");
    if (groups <= LS_ORDER_GROUPS_MAX) return LS_OK;
    return ls_options_fail(o, LS_OPT_groups, "--order keeps one model per group: use at most --groups %d",
                           LS_ORDER_GROUPS_MAX);
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

static const char explanation[] =
    "Every floating-point addition rounds, so (a + b) + c and a + (b + c) may differ in their last bits, and "
    "training carries the difference on and can amplify it; lockstep adds the gradients of the groups in one "
    "fixed tree, whichever worker holds them and whenever they arrive, so the result is always the same.";

/* Writes the name of the way that result `way` is compared with; "-" if it is compared with none. */
static void base_text(const ls_order_case *done, int way, char text[TEXT_MAX]) {
    if (done->result[way].way.base == way)
        snprintf(text, TEXT_MAX, "-");
    else
        ls_order_way_text(&done->result[done->result[way].way.base].way, text, TEXT_MAX);
}

/* Writes the share of elements that changed, such as "12.34 %"; "0" only if none changed. */
static void share_text(const ls_order_difference *d, char text[TEXT_MAX]) {
    double percent = 100 * (double)d->changed / (double)d->elems;
    snprintf(text, TEXT_MAX, d->changed == 0 ? "0" : percent < 0.005 ? "%.1g %%" : "%.2f %%", percent);
}

/* Writes a difference such as "1.2e-07", or "0". */
static void size_text(double value, char text[TEXT_MAX]) { snprintf(text, TEXT_MAX, value == 0 ? "0" : "%.1e", value); }

/* Writes the number of a step; 0 becomes "never". */
static void step_text(int64_t step, char text[TEXT_MAX]) {
    if (step == 0)
        snprintf(text, TEXT_MAX, "never");
    else
        snprintf(text, TEXT_MAX, "%lld", (long long)step);
}

/* ---- table ------------------------------------------------------------------------------------------------------- */

/* Prints the model and the head of the table. */
static void print_head(const ls_lab_model *c) {
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

/* Prints the row of result number `way`; one that is compared with none shows its loss alone. */
static void print_order_row(const ls_order_case *done, int way) {
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

/* Prints the one hash of all weights that lockstep's own sums have on every number of workers; nothing if the hashes
 * differ. */
static void print_hash(const ls_order_case *done) {
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

/* Returns a loss of the result as a new hexadecimal text. A callback of ls_cli_json_list(). */
static json_t *loss_json(const void *result, int step) {
    return json_sprintf("%a", ((const ls_order_result *)result)->loss[step]);
}

/* Returns a new object for a model with an empty list "sums"; NULL: out of memory. */
static json_t *case_json(const ls_lab_model *c) {
    const ls_settings *s = &c->settings;
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:i, s:i, s:[]}", "model", s->shape.name, "parameters",
                     (json_int_t)ls_model_elems(c->model), "steps", (json_int_t)c->steps, "global_batch",
                     (json_int_t)s->B, "seq", (json_int_t)s->T, "groups", s->groups, "slices", s->slices, "sums");
}

/* Returns a new object for result number `way`; NULL: out of memory. */
static json_t *make_order_json(const ls_order_case *done, int way) {
    const ls_order_result *r = &done->result[way], *base = &done->result[r->way.base];
    char name[TEXT_MAX], against[TEXT_MAX];
    ls_order_way_text(&r->way, name, sizeof name);
    base_text(done, way, against);
    json_t *json = json_pack(
        "{s:s, s:s, s:i, s:s, s:I, s:o, s:I, s:o, s:o, s:I, s:I, s:s, s:o}", "sum", name, "kind",
        ls_order_kind_name(r->way.kind), "workers", r->way.workers, "against", against, "gradients_changed",
        (json_int_t)r->grad.changed, "gradients_relative", ls_cli_json_number(r->grad.relative), "weights_changed",
        (json_int_t)r->weight.changed, "weights_by", ls_cli_json_number(r->weight.absolute), "loss_by",
        ls_cli_json_number(fabs(r->loss[done->steps - 1] - base->loss[done->steps - 1])), "first_step_in_bits",
        (json_int_t)r->first_bits, "first_step_in_print", (json_int_t)r->first_seen, "weights_xxh128", r->weights.text,
        "loss_hex", ls_cli_json_list((int)done->steps, loss_json, r));
    if (json && base == r) json_object_set_new(json, "against", json_null());
    return json;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* Shows which way is trained now. A callback of ls_order_run(). */
static void on_start(void *ctx, const ls_order_case *done, int way) {
    char text[64];
    (void)ctx;
    ls_order_way_text(&done->result[way].way, text, sizeof text);
    ls_cli_progress("%s, layout %d of %d: %.80s", done->model, way + 1, done->ways, text);
}

/* Prints and records a result when it is finished. A callback of ls_order_run(); ctx is the session. */
static ls_status on_row(void *ctx, const ls_order_case *done, int way) {
    const session *s = ctx;
    ls_cli_progress_end();
    if (!s->opts->json) print_order_row(done, way);
    if (json_array_append_new(s->sums, make_order_json(done, way)) == 0) return LS_OK;
    return ls_fail(LS_ERR_RESOURCE, "out of memory for a row");
}

/* Trains one model in all ways and prints the results; counts the case in s->count, so that the caller frees it. */
static ls_status run_case(session *s, const ls_order_request *request, const char *name) {
    ls_order_case *done = &s->cases[s->count];
    ls_lab_model one;
    ls_status status = LS_OK;
    LS_TRY(ls_lab_model_open(s->opts, name, STEPS, &one));
    LS_TRY_OUT(check_groups(s->opts, one.settings.groups));
    json_t *json = case_json(&one);
    s->sums = json_object_get(json, "sums");
    if (!json || json_array_append_new(json_object_get(s->json, "models"), json) != 0) {
        status = ls_fail(LS_ERR_RESOURCE, "out of memory for JSON");
        goto out;
    }
    if (!s->opts->json) print_head(&one);
    s->count++;
    LS_TRY_OUT(ls_order_run(request, &one, done));
    if (!s->opts->json) print_hash(done);
out:
    ls_lab_model_close(&one);
    return status;
}

/* Returns the first case in which lockstep's own sums depend on the number of workers, or NULL. */
static const ls_order_case *find_different(const session *s) {
    for (int i = 0; i < s->count; i++)
        if (s->cases[i].different) return &s->cases[i];
    return NULL;
}

/* Writes the drawing of --svg, then the explanation, or all results as JSON. */
static ls_status print_order_result(const session *s) {
    if (s->opts->svg) LS_TRY(ls_order_draw(s->cases, s->count, s->opts->svg));
    if (!s->opts->json) {
        printf("\n%s\n", explanation);
        if (s->opts->svg) printf("drawn: %s\n", s->opts->svg);
        return LS_OK;
    }
    json_object_set_new(s->json, "lockstep_equal", json_boolean(!find_different(s)));
    json_object_set_new(s->json, "explanation", json_string(explanation));
    return ls_cli_print_json_lines(json_incref(s->json));
}

/* Runs all models and prints. LS_ERR_FAILED if lockstep's own sums depend on the number of workers. */
static ls_status run_verify_order(session *s) {
    ls_verify_fault fault;
    ls_order_request request = {.options = s->opts, .on_start = on_start, .on_row = on_row, .ctx = s};
    const char *name;
    LS_TRY(check_options(s->opts));
    LS_TRY(ls_verify_read_fault(&fault, &request.fault));
    s->json = json_pack("{s:[]}", "models");
    if (!s->json) return ls_fail(LS_ERR_RESOURCE, "out of memory for JSON");
    for (int i = 0; i < LS_ORDER_CASES_MAX && ls_lab_model_name(s->opts, i, &name); i++) {
        if (i > 0 && !s->opts->json) putchar('\n');
        LS_TRY(run_case(s, &request, name));
    }
    LS_TRY(print_order_result(s));
    const ls_order_case *found = find_different(s);
    if (!found) return LS_OK;
    const ls_order_result *r = found->different;
    return ls_fail(LS_ERR_FAILED,
                   "%.60s: lockstep on %d workers differs from one worker: %zu gradients after step 1, %zu weights "
                   "after step %lld; find the tensor with lockstep verify --dp %d",
                   found->model, r->way.workers, r->grad.changed, r->weight.changed, (long long)found->steps,
                   r->way.workers);
}

ls_status ls_cmd_verify_order(const ls_options *opts) {
    static session s;
    s.opts = opts;
    ls_status status = run_verify_order(&s);
    ls_cli_progress_end();
    for (int i = 0; i < s.count; i++) ls_order_case_free(&s.cases[i]);
    json_decref(s.json);
    return status;
}
