/* view.c: reduces the curves of a run to few points, step by step, and caches its diagnosis. */
#include "report/run/view.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "numerics/elementary.h"

const char *const ls_view_x_names[LS_VIEW_X_KINDS] = {"step", "tokens", "time"};
const int ls_view_halves[LS_VIEW_SMOOTHS] = {0, 10, 100, 1000};

/* ---- points ------------------------------------------------------------------------------------------------------ */

/* A value of a step. */
typedef struct place {
    double step, seconds, y;
} place;

/* The least and the greatest value of `per` consecutive steps. */
typedef struct bucket {
    place low, high; /* y of both is NaN: a gap */
} bucket;

typedef struct curve {
    bucket *buckets;            /* [LS_VIEW_BUCKETS]; NULL: nothing was recorded yet */
    size_t count, per, in_last; /* buckets used; steps in each; steps in the last one */
    double sum, weight;         /* of exponential smoothing */
} curve;

struct ls_view_points {
    curve curve[LS_VIEW_COLUMNS][LS_VIEW_SMOOTHS];
    size_t steps, validations;    /* taken from the log */
    double trained_s;             /* in these steps */
    double keep[LS_VIEW_SMOOTHS]; /* factor by which older values weigh less with each step */
};

/* Adds the values of `other` to a bucket; a gap takes them over. */
static void merge_buckets(bucket *into, const bucket *other) {
    if (isnan(into->low.y) || other->low.y < into->low.y) into->low = other->low;
    if (isnan(into->high.y) || other->high.y > into->high.y) into->high = other->high;
}

/* Merges neighbouring buckets of a full curve in pairs, so that half of them are free. */
static void halve_buckets(curve *c) {
    for (size_t i = 0; i < LS_VIEW_BUCKETS / 2; i++) {
        c->buckets[i] = c->buckets[2 * i];
        if (!isnan(c->buckets[2 * i + 1].low.y)) merge_buckets(&c->buckets[i], &c->buckets[2 * i + 1]);
    }
    c->count = LS_VIEW_BUCKETS / 2;
    c->per *= 2;
}

/* Adds the value of the next step to the curve; NaN is a gap unless the bucket has other values. */
static ls_status add_place(curve *c, place at) {
    if (!c->buckets) {
        if (isnan(at.y)) return LS_OK; /* a column that was never recorded takes no memory */
        c->buckets = malloc(LS_VIEW_BUCKETS * sizeof *c->buckets);
        if (!c->buckets) return ls_fail(LS_ERR_RESOURCE, "out of memory for the curves of a run");
        c->per = c->in_last = 1;
        c->count = 0;
    }
    if (c->count == 0 || c->in_last == c->per) {
        if (c->count == LS_VIEW_BUCKETS) halve_buckets(c);
        c->buckets[c->count++] = (bucket){at, at};
        c->in_last = 1;
        return LS_OK;
    }
    bucket one = {at, at};
    if (!isnan(at.y)) merge_buckets(&c->buckets[c->count - 1], &one);
    c->in_last++;
    return LS_OK;
}

/* Returns whether the column can be smoothed: values that rarely change, or are recorded rarely, are not. */
static bool smooths(ls_view_column column) {
    return column == LS_VIEW_LOSS || column == LS_VIEW_NORM || column == LS_VIEW_SPEED || column == LS_VIEW_MFU ||
           column == LS_VIEW_STEP_TIME;
}

/* Adds a value to the curves of a column, raw and with each smoothing. Values that are not finite before the first
 * finite one are left out. */
static ls_status add_view_point(ls_view_points *p, ls_view_column column, double step, double seconds, double y) {
    if (!isfinite(y) && !p->curve[column][0].buckets) return LS_OK; /* before the first value there is no gap */
    for (int s = 0; s < (smooths(column) ? LS_VIEW_SMOOTHS : 1); s++) {
        curve *c = &p->curve[column][s];
        double smooth = y;
        if (s > 0 && isfinite(y)) {
            c->sum = p->keep[s] * c->sum + y;
            c->weight = p->keep[s] * c->weight + 1;
            smooth = c->sum / c->weight;
        }
        LS_TRY(add_place(c, (place){step, seconds, isfinite(smooth) ? smooth : (double)NAN}));
    }
    return LS_OK;
}

/* Frees all curves, so that the log can be read again from its start. */
static void clear_points(ls_view_points *p) {
    for (int k = 0; k < LS_VIEW_COLUMNS; k++)
        for (int s = 0; s < LS_VIEW_SMOOTHS; s++) {
            free(p->curve[k][s].buckets);
            p->curve[k][s] = (curve){0};
        }
    p->steps = p->validations = 0;
    p->trained_s = 0;
}

/* ---- from the log ------------------------------------------------------------------------------------------------ */

/* Returns when the run first started, in milliseconds since 1970; LS_RUN_NONE if it is not recorded. */
static long long first_ms(const ls_run_log *log) {
    if (log->start_count > 0 && log->starts[0].unix_ms > 0) return log->starts[0].unix_ms;
    return log->step_count > 0 ? log->steps[0].unix_ms : LS_RUN_NONE;
}

/* Returns the wall time since the first start, or the time in steps if the run did not record when. */
static double seconds_of(const ls_run_log *log, long long unix_ms, double trained_s) {
    long long first = first_ms(log);
    return first > 0 && unix_ms >= first ? (double)(unix_ms - first) / 1e3 : trained_s;
}

/* Adds a recorded step to the curves of all columns. */
static ls_status add_step(ls_view_points *p, const ls_run_log *log, const ls_run_log_step *s) {
    double ms = isfinite(s->ms) ? s->ms : 0, step = (double)s->step;
    p->trained_s += ms / 1e3;
    double seconds = seconds_of(log, s->unix_ms, p->trained_s);
    long long first = first_ms(log);
    bool by_clock = first > 0 && s->unix_ms > first;
    LS_TRY(add_view_point(p, LS_VIEW_LOSS, step, seconds, s->loss));
    LS_TRY(add_view_point(p, LS_VIEW_LR, step, seconds, s->lr));
    LS_TRY(add_view_point(p, LS_VIEW_NORM, step, seconds, s->has_norm ? s->norm : (double)NAN));
    LS_TRY(add_view_point(p, LS_VIEW_SPEED, step, seconds, s->tokens_s));
    LS_TRY(add_view_point(p, LS_VIEW_MFU, step, seconds, s->mfu));
    LS_TRY(add_view_point(p, LS_VIEW_STEP_TIME, step, seconds, s->ms / 1e3));
    LS_TRY(add_view_point(p, LS_VIEW_GOODPUT, step, seconds,
                          by_clock && p->trained_s <= seconds * 1.001 ? p->trained_s / seconds : (double)NAN));
    if (isfinite(s->memory))
        LS_TRY(add_view_point(p, LS_VIEW_MEMORY, step, seconds, s->memory)); /* not of every step */
    if (isfinite(s->gpu_memory)) LS_TRY(add_view_point(p, LS_VIEW_GPU_MEMORY, step, seconds, s->gpu_memory));
    return add_view_point(p, LS_VIEW_SCALE, step, seconds, s->scale == INT_MIN ? (double)NAN : (double)s->scale);
}

/* Returns the first record of this step or a later one, or NULL. */
static const ls_run_log_step *find_step(const ls_run_log *log, long long step) {
    size_t low = 0, high = log->step_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (log->steps[middle].step < step)
            low = middle + 1;
        else
            high = middle;
    }
    return low < log->step_count ? &log->steps[low] : NULL;
}

/* Returns the time of a step from the curve of the loss, which is exact enough for a drawing. */
static double seconds_at(const ls_view_points *p, double step) {
    const curve *c = &p->curve[LS_VIEW_LOSS][0];
    size_t low = 0, high = c->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c->buckets[middle].low.step < step)
            low = middle + 1;
        else
            high = middle;
    }
    if (c->count == 0) return 0;
    return c->buckets[low < c->count ? low : c->count - 1].low.seconds;
}

/* Adds the steps and evaluations that the log has gained, and updates tokens_per_step. */
static ls_status take_new_steps(ls_view *view) {
    const ls_run_log *log = ls_series_log(view->series);
    ls_view_points *p = view->points;
    for (; p->steps < log->step_count; p->steps++) LS_TRY(add_step(p, log, &log->steps[p->steps]));
    for (; p->validations < log->validation_count; p->validations++) {
        const ls_run_log_validation *v = &log->validations[p->validations];
        const ls_run_log_step *s = find_step(log, v->step);
        double seconds = v->unix_ms > 0 ? seconds_of(log, v->unix_ms, 0)
                         : s            ? seconds_at(p, (double)v->step)
                                        : p->trained_s;
        LS_TRY(add_view_point(p, LS_VIEW_VALIDATION, (double)v->step, seconds, v->loss));
        LS_TRY(add_view_point(p, LS_VIEW_ACCURACY, (double)v->step, seconds, v->accuracy));
    }
    double batch = ls_run_log_option_number(log, "global-batch"), seq = ls_run_log_option_number(log, "seq");
    const ls_run_log_step *last = log->step_count > 0 ? &log->steps[log->step_count - 1] : NULL;
    view->is_images = !(seq > 0);
    if (last && last->tokens_s > 0 && last->ms > 0)
        view->tokens_per_step = round(last->tokens_s * last->ms / 1e3);
    else
        view->tokens_per_step = batch > 0 ? batch * (seq > 0 ? seq : 1) : 0;
    return LS_OK;
}

/* ---- a view ------------------------------------------------------------------------------------------------------ */

/* Writes the last component of the folder's path; for "." and ".." that of its real path. */
static void name_folder(const char *folder, char name[LS_RUN_NAME_MAX]) {
    char text[PATH_MAX + 1];
    snprintf(text, sizeof text, "%s", folder);
    size_t end = strlen(text);
    while (end > 1 && text[end - 1] == '/') text[--end] = '\0';
    const char *slash = strrchr(text, '/');
    const char *base = slash && slash[1] ? slash + 1 : text;
    char real[PATH_MAX + 1];
    if ((strcmp(base, ".") == 0 || strcmp(base, "..") == 0) && realpath(folder, real)) {
        slash = strrchr(real, '/');
        base = slash && slash[1] ? slash + 1 : real;
    }
    ls_run_log_copy_text(name, LS_RUN_NAME_MAX, base);
}

ls_status ls_view_open(const char *folder, ls_view *out) {
    *out = (ls_view){.folder = ls_path_format("%s", folder)};
    name_folder(folder, out->name);
    LS_TRY(ls_series_open(folder, LS_SERIES_PARENTS, &out->series));
    out->points = calloc(1, sizeof *out->points);
    ls_status status = out->points ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for the curves of a run");
    for (int s = 1; out->points && s < LS_VIEW_SMOOTHS; s++)
        out->points->keep[s] = ls_pow_f64(.5, 1.0 / ls_view_halves[s]);
    out->doctor = calloc(1, sizeof *out->doctor);
    if (!out->doctor) status = ls_fail(LS_ERR_RESOURCE, "out of memory for the curves of a run");
    if (status == LS_OK) status = take_new_steps(out);
    if (status != LS_OK) ls_view_close(out);
    return status;
}

void ls_view_close(ls_view *view) {
    ls_series_close(view->series);
    if (view->points) clear_points(view->points);
    free(view->points);
    if (view->doctor) ls_diagnosis_free(view->doctor->said);
    if (view->doctor) free(view->doctor->said);
    free(view->doctor);
    *view = (ls_view){.series = NULL};
}

ls_status ls_view_refresh(ls_view *view, bool *changed) {
    ls_series_change change = {0};
    ls_status status = ls_series_refresh(view->series, &change);
    if (change.any) *changed = true;
    /* A validation of a step may come before the step's place is known again. */
    if (change.went_back) clear_points(view->points);
    LS_TRY(take_new_steps(view));
    return status;
}

/* ---- the doctor -------------------------------------------------------------------------------------------------- */

/* Returns whether the run has grown by a tenth since the diagnosis (a finished one: at all), or has a new event or
 * start. */
static bool is_outdated(const ls_view_doctor *d, const ls_run_log *log) {
    enum { PARTS = 10 };
    size_t grows = log->is_open ? d->steps / PARTS + 1 : 1;
    return !d->said || log->step_count < d->steps || log->step_count >= d->steps + grows ||
           log->event_count != d->events || log->start_count != d->starts || log->is_open != d->was_open;
}

ls_status ls_view_diagnose(const ls_view *view, bool soon, const ls_diagnosis **out) {
    enum { MANY = 20000, MOST = 300000 };
    ls_view_doctor *d = view->doctor;
    const ls_run_log *log = ls_view_log(view);
    ls_status status = LS_OK;
    bool later = soon && log->step_count > MANY && (log->step_count > MOST || d->asked_for++ == 0);
    if (!later && is_outdated(d, log)) {
        ls_diagnosis *said = malloc(sizeof *said);
        status = said ? ls_diagnose(log, said) : ls_fail(LS_ERR_RESOURCE, "out of memory for a diagnosis");
        if (status == LS_OK) {
            ls_diagnosis_free(d->said);
            free(d->said);
            d->said = said;
            d->steps = log->step_count;
            d->events = log->event_count;
            d->starts = log->start_count;
            d->was_open = log->is_open;
        } else {
            free(said);
        }
    }
    *out = d->said;
    return status;
}

double ls_view_place(const ls_view *view, long long step, ls_view_x x) {
    switch (x) {
    case LS_VIEW_BY_TOKENS: return (double)step * view->tokens_per_step;
    case LS_VIEW_BY_TIME: return seconds_at(view->points, (double)step);
    default: return (double)step;
    }
}

ls_status ls_view_curve(const ls_view *view, ls_view_column column, int smooth, ls_view_x x, ls_curve_point **points,
                        size_t *count) {
    const curve *c = &view->points->curve[column][smooths(column) ? smooth : 0];
    *points = NULL;
    *count = 0;
    if (c->count == 0) return LS_OK;
    ls_curve_point *out = malloc(2 * c->count * sizeof *out);
    if (!out) return ls_fail(LS_ERR_RESOURCE, "out of memory for the curves of a run");
    for (size_t i = 0; i < c->count; i++) {
        const bucket *b = &c->buckets[i];
        place pair[2] = {b->low, b->high};
        int n = isnan(b->low.y) || b->low.step == b->high.step ? 1 : 2;
        if (n == 2 && b->low.step > b->high.step) pair[0] = b->high, pair[1] = b->low;
        for (int k = 0; k < n; k++) {
            double at = x == LS_VIEW_BY_TOKENS ? pair[k].step * view->tokens_per_step
                        : x == LS_VIEW_BY_TIME ? pair[k].seconds
                                               : pair[k].step;
            out[(*count)++] = (ls_curve_point){at, pair[k].y};
        }
    }
    *points = out;
    return LS_OK;
}
