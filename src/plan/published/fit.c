/* fit.c: Gauss-Newton steps over a handful of constants, in which every group of rows has the same weight. */
#include "plan/published/fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/cost/cost_case.h"

enum { N = LS_FITTED_COUNT, STEPS = 8, STEPS_LEFT_OUT = 4, HALVINGS = 4 };

/* All relative: spread of a constant around its usual value; error of a row; step of a derivative; gain to go on. */
static const double SPREAD = .25, ROW_ERROR = .1, NUDGE = .01, ENOUGH = 1e-4;

ls_row ls_fit_row(const ls_row *row, const double *values) {
    ls_row out = *row;
    ls_site *site = &out.task.cluster.site[0];
    ls_fitted_chip(values, &site->chip);
    ls_fitted_link(values, &site->between);
    ls_fitted_stack(values, &out.task.stack);
    if (out.layout.type_slowdown > 0)
        out.layout.type_slowdown = ls_plan_rate(&site->chip, LS_PLAN_FP8) / ls_plan_rate(&site->chip, LS_PLAN_BF16);
    return out;
}

/* Returns whether the row can be predicted and has a measured time. */
static bool is_used(const ls_row *row) { return !row->reason[0] && row->value > 0 && row->metric != LS_ROW_MEMORY; }

/* ---- what is least ----------------------------------------------------------------------------------------------- */

typedef struct fitting {
    const ls_rows *rows;
    const int *group; /* of a row; −1: it is not used */
    size_t *count;    /* rows of a group */
    int without;      /* this group; −1: none */
    unsigned fixed;
    double *error;    /* relative errors of the rows at the values predicted last */
    ls_knobs *layout; /* their layouts then, with the knobs chosen that rows leave open */
} fitting;

/* Returns whether the row takes part in the fit: it is used, and not of the group that is left out. */
static bool counts(const fitting *f, size_t i) { return f->group[i] >= 0 && f->group[i] != f->without; }

/* Returns the distance of a constant from its usual value, in units of that value. */
static double relative(const double *values, int j) { return values[j] / ls_fitted_row_get((ls_fitted)j)->usual - 1; }

/* Returns the Huber weight of a relative error: 1 up to ROW_ERROR, then ROW_ERROR / |error|, so outliers count less. */
static double weight_of(double error) {
    double size = fabs(error);
    return size > ROW_ERROR ? ROW_ERROR / size : 1;
}

/* Predicts all rows with these constants, setting f->error and f->layout; *sum: the value to minimise. */
static ls_status predict_errors(const fitting *f, const double *values, double *sum) {
    *sum = 0;
    for (size_t i = 0; i < f->rows->count; i++) {
        if (!counts(f, i)) continue;
        ls_row row = ls_fit_row(&f->rows->row[i], values);
        ls_prediction p;
        LS_TRY(ls_row_predict(&row, &f->layout[i], &p));
        double error = f->error[i] = p.seconds / ls_row_measured(&row) - 1, size = fabs(error) / ROW_ERROR;
        *sum += (size > 1 ? 2 * size - 1 : size * size) / (double)f->count[f->group[i]];
    }
    for (int j = 0; j < N; j++) {
        double off = relative(values, j) / SPREAD;
        *sum += off * off;
    }
    return LS_OK;
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

typedef struct equations {
    double a[N][N], b[N];
} equations;

/* Computes d(error of row)/d(relative change of each constant) with the chosen layout, predicting again only what a
 * constant changes in the row's task. */
static ls_status slopes(const fitting *f, size_t i, const double *values, double *out) {
    const ls_row *row = &f->rows->row[i];
    ls_row now = ls_fit_row(row, values);
    ls_prediction p;
    for (int j = 0; j < N; j++) {
        double moved[LS_FITTED_ALL];
        out[j] = 0;
        if (f->fixed >> j & 1) continue;
        memcpy(moved, values, sizeof moved);
        moved[j] *= 1 + NUDGE;
        ls_row then = ls_fit_row(row, moved);
        if (memcmp(&then.task, &now.task, sizeof now.task) == 0) continue;
        ls_knobs layout = f->layout[i];
        layout.type_slowdown = then.layout.type_slowdown;
        LS_TRY(ls_plan_predict(&then.task, &layout, &p));
        /* In units of the usual value. */
        out[j] = (p.seconds / ls_row_measured(&then) - 1 - f->error[i]) / NUDGE *
                 ls_fitted_row_get((ls_fitted)j)->usual / values[j];
    }
    return LS_OK;
}

/* Adds up the normal equations of a Gauss–Newton step. */
static ls_status sum_equations(const fitting *f, const double *values, equations *e) {
    memset(e, 0, sizeof *e);
    for (size_t i = 0; i < f->rows->count; i++) {
        double s[N], w;
        if (!counts(f, i)) continue;
        LS_TRY(slopes(f, i, values, s));
        w = weight_of(f->error[i]) / (ROW_ERROR * ROW_ERROR * (double)f->count[f->group[i]]);
        for (int j = 0; j < N; j++) {
            e->b[j] -= w * s[j] * f->error[i];
            for (int k = 0; k < N; k++) e->a[j][k] += w * s[j] * s[k];
        }
    }
    for (int j = 0; j < N; j++) {
        e->a[j][j] += 1 / (SPREAD * SPREAD);
        e->b[j] -= relative(values, j) / (SPREAD * SPREAD);
    }
    return LS_OK;
}

/* Solves a symmetric positive definite system, which needs no pivots. */
static void solve(equations *e, double *x) {
    for (int k = 0; k < N; k++)
        for (int i = k + 1; i < N; i++) {
            double times = e->a[i][k] / e->a[k][k];
            for (int j = k; j < N; j++) e->a[i][j] -= times * e->a[k][j];
            e->b[i] -= times * e->b[k];
        }
    for (int i = N - 1; i >= 0; i--) {
        x[i] = e->b[i];
        for (int j = i + 1; j < N; j++) x[i] -= e->a[i][j] * x[j];
        x[i] /= e->a[i][i];
    }
}

/* Moves the fitted constants by a share of the step, within their ranges; the others get their usual values. */
static void step_constants(const fitting *f, const double *from, const double *step, double share, double *to) {
    for (int j = N; j < LS_FITTED_ALL; j++) to[j] = ls_fitted_row_get((ls_fitted)j)->usual;
    for (int j = 0; j < N; j++) {
        const ls_fitted_row *row = ls_fitted_row_get((ls_fitted)j);
        to[j] = f->fixed >> j & 1 ? row->usual : from[j] + share * step[j] * row->usual;
        if (to[j] < row->min) to[j] = row->min;
        if (to[j] > row->max) to[j] = row->max;
    }
}

/* Takes at most `steps` steps from `values`, in place; each is halved until it helps. Leaves f->error at the
 * final values. */
static ls_status fit(fitting *f, int steps, double *values) {
    double now, then, step[N], to[LS_FITTED_ALL], none[N] = {0};
    step_constants(f, values, none, 0, values);
    LS_TRY(predict_errors(f, values, &now));
    for (int i = 0; i < steps; i++) {
        equations e;
        double share = 1, was = now;
        LS_TRY(sum_equations(f, values, &e));
        solve(&e, step);
        for (int h = 0; h < HALVINGS; h++, share /= 2) {
            step_constants(f, values, step, share, to);
            LS_TRY(predict_errors(f, to, &then));
            if (then >= now) continue;
            memcpy(values, to, sizeof to);
            now = then;
            break;
        }
        if (was - now < ENOUGH * was) break;
    }
    return predict_errors(f, values, &now);
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

/* Returns the number of the group, adding it if it is new. */
static int group_of(ls_fit *out, const char *name) {
    for (int g = 0; g < out->groups; g++)
        if (strcmp(out->group[g].name, name) == 0) return g;
    snprintf(out->group[out->groups].name, LS_FIT_NAME_MAX, "%s", name);
    return out->groups++;
}

/* Returns the name of the row's group: its source_group or, without one, its source. */
static const char *name_of(const ls_row *row, char name[LS_FIT_NAME_MAX]) {
    snprintf(name, LS_FIT_NAME_MAX, "%s", *row->group ? row->group : row->source);
    return name;
}

/* Computes the mean of |error| and of error over the rows of a group, and writes errors[row]. */
static ls_status measure_group_error(const fitting *f, int g, const double *values, double *errors, double *mean,
                                     double *bias) {
    *mean = *bias = 0;
    for (size_t i = 0; i < f->rows->count; i++) {
        if (f->group[i] != g) continue;
        ls_row row = ls_fit_row(&f->rows->row[i], values);
        ls_prediction p;
        LS_TRY(ls_row_predict(&row, NULL, &p));
        double error = errors[i] = p.seconds / ls_row_measured(&row) - 1;
        *mean += fabs(error) / (double)f->count[g];
        *bias += error / (double)f->count[g];
    }
    return LS_OK;
}

/* Sets the errors of each group with the fitted constants and, if leave_out, with those fitted without it. */
static ls_status judge_groups(fitting *f, bool leave_out, ls_fit *out) {
    double bias;
    for (int g = 0; g < out->groups; g++) {
        ls_fit_group *group = &out->group[g];
        double share = (double)group->rows / (double)out->rows;
        LS_TRY(measure_group_error(f, g, out->values, out->error, &group->within, &bias));
        out->within += share * group->within;
        out->groups_within += group->within / out->groups;
        if (!leave_out) continue;
        memcpy(group->values, out->values, sizeof out->values);
        f->without = g;
        LS_TRY(fit(f, STEPS_LEFT_OUT, group->values));
        f->without = -1;
        LS_TRY(measure_group_error(f, g, group->values, out->error, &group->out, &group->out_bias));
        out->out += share * group->out;
        out->groups_out += group->out / out->groups;
    }
    return LS_OK;
}

ls_status ls_fit_find(const ls_rows *rows, unsigned fixed, bool leave_out, ls_fit *out) {
    ls_status status;
    char name[LS_FIT_NAME_MAX];
    *out = (ls_fit){0};
    int *group = calloc(rows->count + 1, sizeof *group);
    fitting f = {.rows = rows, .group = group, .without = -1, .fixed = fixed};
    f.count = calloc(rows->count + 1, sizeof *f.count);
    f.error = calloc(rows->count + 1, sizeof *f.error);
    f.layout = calloc(rows->count + 1, sizeof *f.layout);
    out->group = calloc(rows->count + 1, sizeof *out->group);
    out->error = calloc(rows->count + 1, sizeof *out->error);
    if (!group || !out->error || !f.count || !f.error || !f.layout || !out->group)
        LS_TRY_OUT(ls_fail(LS_ERR_RESOURCE, "out of memory for the fit of %zu rows", rows->count));
    for (size_t i = 0; i < rows->count; i++) {
        group[i] = is_used(&rows->row[i]) ? group_of(out, name_of(&rows->row[i], name)) : -1;
        if (group[i] < 0) continue;
        f.count[group[i]]++;
        out->group[group[i]].rows++;
        out->rows++;
    }
    if (out->rows == 0) LS_TRY_OUT(ls_fail(LS_ERR_INPUT, "no row has a time that could be fitted"));
    memcpy(out->values, ls_fitted_values(), sizeof out->values);
    LS_TRY_OUT(fit(&f, STEPS, out->values));
    LS_TRY_OUT(judge_groups(&f, leave_out, out));
out:
    free(group);
    free(f.count);
    free(f.error);
    free(f.layout);
    if (status != LS_OK) ls_fit_free(out);
    return status;
}

void ls_fit_free(ls_fit *fit) {
    free(fit->group);
    free(fit->error);
    *fit = (ls_fit){0};
}
