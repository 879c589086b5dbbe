/* times.c: `lockstep doctor --times FILE`: reads measured times, explains them, and prints the explanation. */
#include "cli/doctor/times.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "api/plan.h"
#include "cli/print.h"
#include "run/inputs/inputs.h"

/* Reads --cluster, the name of a chip or a file, as a cluster of one site. Fails for two clusters. */
static ls_status read_cluster(const ls_options *options, ls_cluster *out) {
    json_t *measured;
    bool is_file;
    if (strchr(options->cluster, ','))
        return ls_options_fail(options, LS_OPT_cluster,
                               "--times works with one cluster; times across two clusters are not modelled");
    *out = (ls_cluster){.sites = 1};
    LS_TRY(ls_cluster_option_site(options, options->cluster, &out->site[0], &is_file, &measured));
    json_decref(measured);
    snprintf(out->name, sizeof out->name, "%s", out->site[0].chip.name);
    return LS_OK;
}

/* Reads the model, cluster and stack (training program) for which the times are predicted, and describes them in
 * `name`. Without --stack GPUs are assumed to run Megatron with bf16 and ZeRO 1. */
static ls_status read_model(const ls_options *options, ls_times_model *model, char *name, size_t capacity) {
    ls_start start;
    LS_TRY(ls_start_look(options->model, &start));
    model->task.shape = start.shape;
    ls_start_close(&start);
    size_t T = model->task.shape.T;
    model->task.seq = options->seq > 0 ? (size_t)options->seq : T < 1024 ? T : 1024;
    model->global_batch = options->global_batch > 0 ? (size_t)options->global_batch : 0;
    LS_TRY(read_cluster(options, &model->task.cluster));
    bool cpu = model->task.cluster.site[0].chip.is_cpu;
    LS_TRY(ls_stack_find(options->stack ? options->stack : cpu ? "native" : "megatron", &model->task.stack));
    model->layout = (ls_knobs){.zero = 1, .sequence_parallel = true, .type = cpu ? LS_PLAN_FP32 : LS_PLAN_BF16};
    snprintf(name, capacity, "%s, sequences of %zu, on %s", options->model, model->task.seq, model->task.cluster.name);
    return LS_OK;
}

/* Computes the terms that may explain the times, from the table alone or, with --model and --cluster, from predictions,
 * which then also give the deviations of the measured times. */
static ls_status make_basis(const ls_options *options, ls_times_case *c) {
    if (!options->model && !options->cluster) {
        c->node_assumed = options->gpus_per_node <= 0;
        ls_times_basis_make(&c->times, (int)options->gpus_per_node, &c->basis);
        return LS_OK;
    }
    if (!options->model || !options->cluster)
        return ls_fail(LS_ERR_INPUT, "--model and --cluster must be given together: predictions need both");
    static ls_times_model model;
    LS_TRY(read_model(options, &model, c->model, sizeof c->model));
    LS_TRY(ls_times_basis_predict(&c->times, &model, &c->basis));
    return ls_times_deviate(&c->times, &model, &c->deviations);
}

/* Returns a new object with the value of each loss: null if the loss was not tested or, unless `is_range`, has no value
 * of its own. */
static json_t *losses_json(const ls_times_case *c, const double *value, bool is_range) {
    json_t *out = json_object();
    for (int k = 0; out && k < LS_LOSSES; k++) {
        ls_times_standing standing = ls_doctor_times_standing(c, (ls_loss)k);
        bool known = standing == LS_TIMES_KNOWN || (is_range && standing != LS_TIMES_NOT_TESTED);
        if (json_object_set_new(out, ls_loss_name((ls_loss)k), known ? json_real(value[k]) : json_null()) != 0) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

/* Returns row i of the table, with the shares of its time by loss, as a new object. A callback of
 * ls_cli_json_list(). */
static json_t *make_times_row_json(const void *ctx, int i) {
    const ls_times_case *c = ctx;
    const ls_times_row *row = &c->times.row[i];
    double part[LS_LOSSES];
    ls_times_losses(&c->basis, c->answer.explanation[0].coefficient, i, part);
    for (int k = 0; k < LS_LOSSES; k++) part[k] /= row->time;
    return json_pack("{s:i, s:f, s:f, s:b, s:o, s:o}", "gpus", row->chips, "measured", row->measured, "time", row->time,
                     "implied", row->implied, "label",
                     c->times.labels ? json_string(c->times.label[row->label]) : json_null(), "shares",
                     losses_json(c, part, false));
}

/* Returns explanation i as a new object. A callback of ls_cli_json_list(). */
static json_t *explanation_json(const void *ctx, int i) {
    const ls_times_case *c = ctx;
    const ls_times_explanation *e = &c->answer.explanation[i];
    json_t *terms = json_object();
    for (int t = 0; terms && t < LS_TERMS; t++)
        if ((e->terms >> t & 1) &&
            json_object_set_new(terms, ls_times_term_name((ls_times_term)t), json_real(e->coefficient[t])) != 0) {
            json_decref(terms);
            return NULL;
        }
    return json_pack("{s:o, s:f, s:f, s:o, s:o}", "terms", terms, "error", e->error, "score", e->score, "shares",
                     losses_json(c, e->share, true), "time_at_twice", e->twice > 0 ? json_real(e->twice) : json_null());
}

/* Returns candidate i for what changed between the two labels as a new object. A callback of ls_cli_json_list(). */
static json_t *move_json(const void *ctx, int i) {
    const ls_times_case *c = ctx;
    const ls_times_move *m = &c->comparison.move[i];
    return json_pack("{s:o, s:f, s:f, s:f, s:f, s:f}", "term",
                     m->term < 0 ? json_null() : json_string(ls_times_term_name((ls_times_term)m->term)), "error",
                     m->error, "score", m->score, "change", m->change, "before", m->before, "after", m->after);
}

/* Returns the comparison of two labels as a new object; null if the table has not two. */
static json_t *comparison_json(const ls_times_case *c) {
    const ls_times_comparison *m = &c->comparison;
    if (c->times.labels != 2) return json_null();
    return json_pack("{s:b, s:b, s:o, s:o}", "changed", m->changed, "decided", m->decided, "slowdown",
                     m->slowdown > 0 ? json_real(m->slowdown) : json_null(), "moves",
                     ls_cli_json_list(m->count, move_json, c));
}

/* Returns deviation i from the prediction as a new object. A callback of ls_cli_json_list(). */
static json_t *deviation_json(const void *ctx, int i) {
    const ls_times_deviation *d = &((const ls_times_case *)ctx)->deviations.thing[i];
    if (!d->tested) return json_pack("{s:s, s:s}", "thing", ls_times_thing_name(d->thing), "not_tested", d->why_not);
    return json_pack("{s:s, s:f, s:f, s:f}", "thing", ls_times_thing_name(d->thing), "factor", d->factor, "error",
                     d->error, "share", d->share);
}

/* Prints all results as JSON. */
static ls_status print_times_json(const char *path, const ls_times_case *c) {
    const ls_times_answer *a = &c->answer;
    char advice[512];
    ls_doctor_times_advice(c, advice, sizeof advice);
    return ls_cli_print_json(json_pack(
        "{s:o, s:s, s:b, s:i, s:s, s:b, s:f, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o}", "times",
        ls_cli_json_path(path), "metric", c->times.column, "predicted", c->basis.predicted, "gpus",
        c->times.row[a->largest].chips, "worst", ls_loss_name(a->worst), "decided", a->decided, "scatter", a->scatter,
        "scatter_assumed", a->scatter_assumed, "shares", losses_json(c, a->explanation[0].share, false), "low",
        losses_json(c, a->low, true), "high", losses_json(c, a->high, true), "rows",
        ls_cli_json_list(c->times.count, make_times_row_json, c), "explanations",
        ls_cli_json_list(a->count, explanation_json, c), "comparison", comparison_json(c), "change_first", advice,
        "against_prediction", c->model[0] ? ls_cli_json_list(LS_THINGS, deviation_json, c) : json_null()));
}

/* Replaces the explanation by predictions by one from the table alone if the error of the former is clearly larger: at
 * least twice, and over 1 %. */
static ls_status prefer_plain(ls_times_case *c) {
    static const double CLEARLY = 2, ERROR_LEAST = .01;
    static ls_times_basis basis;
    static ls_times_answer answer;
    const ls_times_explanation *with = &c->answer.explanation[0];
    ls_times_basis_make(&c->times, c->basis.node, &basis);
    memcpy(basis.fit.weight, c->basis.fit.weight, sizeof basis.fit.weight);
    if (ls_times_explain(&c->times, &basis, &answer) != LS_OK) return LS_OK;
    if (with->error < ERROR_LEAST || with->error < CLEARLY * answer.explanation[0].error) return LS_OK;
    c->without_error = answer.explanation[0].error;
    basis.predicted = false;
    c->basis = basis;
    c->answer = answer;
    return LS_OK;
}

ls_status ls_doctor_times(const ls_options *options) {
    static ls_times_case the_case;
    ls_times_case *c = &the_case;
    LS_TRY(ls_times_read(options->times, &c->times));
    LS_TRY(make_basis(options, c));
    if (c->times.labels == 2) {
        LS_TRY(ls_times_compare(&c->times, &c->basis, &c->comparison));
        /* The explanation uses only the newer times, if there are at least two. */
        int after = 0;
        for (int i = 0; i < c->times.count; i++) after += c->times.row[i].label == 1;
        for (int i = 0; after > 1 && i < c->times.count; i++)
            if (c->times.row[i].label == 0) c->basis.fit.weight[i] = 0;
    }
    LS_TRY(ls_times_explain(&c->times, &c->basis, &c->answer));
    c->with_error = c->answer.explanation[0].error;
    if (c->basis.predicted) LS_TRY(prefer_plain(c));
    if (options->json) return print_times_json(options->times, c);
    ls_doctor_times_print(options->times, c);
    return LS_OK;
}
