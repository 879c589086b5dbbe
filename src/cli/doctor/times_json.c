/* times_json.c: what measured times say, for programs. */
#include <jansson.h>

#include "cli/doctor/times.h"
#include "cli/print_json.h"

static json_t *losses_json(const double *value) {
    json_t *out = json_object();
    for (int k = 0; out && k < LS_LOSSES; k++)
        if (json_object_set_new(out, ls_loss_name((ls_loss)k), json_real(value[k])) != 0) {
            json_decref(out);
            return NULL;
        }
    return out;
}

static json_t *row_json(const ls_times_case *c, int i) {
    const ls_times_row *row = &c->times.row[i];
    double part[LS_LOSSES];
    ls_times_losses(&c->basis, c->answer.explanation[0].coefficient, i, part);
    for (int k = 0; k < LS_LOSSES; k++) part[k] /= row->time;
    return json_pack("{s:i, s:f, s:f, s:b, s:o, s:o}", "gpus", row->chips, "measured", row->measured, "time", row->time,
                     "implied", row->implied, "label",
                     c->times.labels ? json_string(c->times.label[row->label]) : json_null(), "shares",
                     losses_json(part));
}

static json_t *explanation_json(const ls_times_case *c, int i) {
    const ls_times_explanation *e = &c->answer.explanation[i];
    json_t *terms = json_object();
    for (int t = 0; terms && t < LS_TERMS; t++)
        if ((e->terms >> t & 1) &&
            json_object_set_new(terms, ls_times_term_name((ls_times_term)t), json_real(e->coefficient[t])) != 0) {
            json_decref(terms);
            return NULL;
        }
    return json_pack("{s:o, s:f, s:f, s:o, s:o}", "terms", terms, "error", e->error, "score", e->score, "shares",
                     losses_json(e->share), "time_at_twice", e->twice > 0 ? json_real(e->twice) : json_null());
}

static json_t *move_json(const ls_times_case *c, int i) {
    const ls_times_move *m = &c->comparison.move[i];
    return json_pack("{s:o, s:f, s:f, s:f, s:f, s:f}", "term",
                     m->term < 0 ? json_null() : json_string(ls_times_term_name((ls_times_term)m->term)), "error",
                     m->error, "score", m->score, "change", m->change, "before", m->before, "after", m->after);
}

typedef json_t *item_fn(const ls_times_case *c, int i);

static json_t *list_json(const ls_times_case *c, int count, item_fn *item) {
    json_t *list = json_array();
    for (int i = 0; list && i < count; i++)
        if (json_array_append_new(list, item(c, i)) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *comparison_json(const ls_times_case *c) {
    const ls_times_comparison *m = &c->comparison;
    if (c->times.labels != 2) return json_null();
    return json_pack("{s:b, s:b, s:o, s:o}", "changed", m->changed, "decided", m->decided, "slowdown",
                     m->slowdown > 0 ? json_real(m->slowdown) : json_null(), "moves",
                     list_json(c, m->count, move_json));
}

ls_status ls_doctor_times_print_json(const char *path, const ls_times_case *c) {
    const ls_times_answer *a = &c->answer;
    char advice[512];
    ls_doctor_times_advice(c, advice, sizeof advice);
    json_t *file = json_string(path);
    if (!file) file = json_string("(not UTF-8)");
    return ls_cli_print_json(
        json_pack("{s:o, s:s, s:b, s:i, s:s, s:b, s:f, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:s}", "times", file,
                  "metric", c->times.column, "predicted", c->basis.predicted, "gpus", c->times.row[a->largest].chips,
                  "worst", ls_loss_name(a->worst), "decided", a->decided, "scatter", a->scatter, "scatter_assumed",
                  a->scatter_assumed, "shares", losses_json(a->explanation[0].share), "low", losses_json(a->low),
                  "high", losses_json(a->high), "rows", list_json(c, c->times.count, row_json), "explanations",
                  list_json(c, a->count, explanation_json), "comparison", comparison_json(c), "change_first", advice));
}
