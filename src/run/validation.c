/* validation.c: tracks the best evaluation of a run. Losses are compared and saved as exact numbers (hexadecimal
 * floats). */
#include "run/validation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"

enum { LOSS_TEXT_MAX = 64 };

ls_validation ls_validation_start(void) {
    const double none = (double)NAN;
    return (ls_validation){
        .best_loss = none, .best_step = -1, .saved_loss = none, .saved_step = -1, .last_loss = none, .last_step = -1};
}

/* Returns whether `loss` is lower than `than`, or is the first one. */
static bool is_lower(double loss, double than) { return !isnan(loss) && !(loss >= than); }

void ls_validation_add(ls_validation *v, int64_t step, double loss) {
    v->is_due = false;
    v->last_loss = loss;
    v->last_step = step;
    v->stale++;
    if (!is_lower(loss, v->best_loss)) return;
    v->best_loss = loss;
    v->best_step = step;
    v->stale = 0;
}

bool ls_validation_is_best_at(const ls_validation *v, int64_t step) {
    return v->last_step == step && is_lower(v->last_loss, v->saved_loss);
}

void ls_validation_saving(ls_validation *v, int64_t step) {
    if (!ls_validation_is_best_at(v, step)) return;
    v->saved_loss = v->last_loss;
    v->saved_step = step;
}

bool ls_validation_is_over(const ls_validation *v, int64_t evaluations) {
    return evaluations > 0 && v->stale >= evaluations;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

bool ls_validation_to_json(const ls_validation *v, json_t *state) {
    char best[LOSS_TEXT_MAX], saved[LOSS_TEXT_MAX];
    if (v->best_step < 0 && v->stale == 0 && !v->is_due) return true;
    snprintf(best, sizeof best, "%a", v->best_loss);
    snprintf(saved, sizeof saved, "%a", v->saved_loss);
    json_t *member = json_pack("{s:I, s:I, s:I}", "best_step", (json_int_t)v->best_step, "stale", (json_int_t)v->stale,
                               "saved_step", (json_int_t)v->saved_step);
    bool whole = member && (v->best_step < 0 || json_object_set_new(member, "best_loss_hex", json_string(best)) == 0) &&
                 (v->saved_step < 0 || json_object_set_new(member, "saved_loss_hex", json_string(saved)) == 0) &&
                 (!v->is_due || json_object_set_new(member, "due", json_true()) == 0);
    return json_object_set_new(state, "validation", member) == 0 && whole;
}

/* Reads a loss, a hexadecimal float, into *out; leaves it unchanged if `step` is −1, because then there is none. */
static ls_status get_loss(const json_t *member, const char *name, int64_t step, double *out) {
    const char *text;
    char *end;
    if (step < 0) return LS_OK;
    LS_TRY(ls_json_get_text(member, name, &text));
    *out = strtod(text, &end);
    if (end != text && *end == '\0' && !isnan(*out)) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "field \"%s\" is '%.40s', not a number", name, text);
}

ls_status ls_validation_from_json(ls_validation *v, const json_t *state) {
    json_t *member = NULL;
    *v = ls_validation_start();
    if (!json_object_get(state, "validation")) return LS_OK;
    LS_TRY(ls_json_get_object(state, "validation", &member));
    LS_TRY(ls_json_get_i64(member, "best_step", &v->best_step));
    LS_TRY(ls_json_get_i64(member, "stale", &v->stale));
    LS_TRY(ls_json_get_i64(member, "saved_step", &v->saved_step));
    v->is_due = json_is_true(json_object_get(member, "due"));
    LS_TRY(get_loss(member, "best_loss_hex", v->best_step, &v->best_loss));
    LS_TRY(get_loss(member, "saved_loss_hex", v->saved_step, &v->saved_loss));
    if (v->stale >= 0) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "field \"stale\" is %lld, below zero", (long long)v->stale);
}
