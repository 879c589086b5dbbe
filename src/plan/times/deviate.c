/* deviate.c: measured times against the planner's: which one assumption of the prediction is wrong.
 *
 * Every assumption is tried alone, with the others as predicted, and has one number to fit; the one that leaves the
 * least error is named. The number stays within what is possible: no chip computes above its peak, no link carries more
 * than its wire, no time is below 0. A link does not act in proportion, since a part of what it carries overlaps: the
 * planner predicts every row again for each bandwidth that is tried. Assumptions that the rows cannot show are marked
 * as not tested. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/times/times.h"

static const double CLEARLY = 1.5, ERROR_LEAST = .003; /* the second is clearly worse if its error is CLEARLY times that
                                                          of the best, which counts as ERROR_LEAST at least */
static const double GAIN_LEAST = .7;      /* an assumption explains nothing if it leaves more than this of the error */
static const double SHOWS = .002;         /* share of a row's time by which a change must move it to be tested */
static const double LINK_LEAST = 1 / 64.; /* lowest factor of a link's bandwidth that is tried */
enum { LINK_ROUNDS = 24 };

static const char *const names[LS_THINGS] = {
    [LS_THING_NONE] = "nothing",          [LS_THING_CHIP] = "computing",
    [LS_THING_LINK] = "the link",         [LS_THING_BUBBLE] = "the pipeline bubble",
    [LS_THING_STRAGGLER] = "a straggler", [LS_THING_SERIAL] = "work that is not divided",
};

const char *ls_times_thing_name(ls_times_thing thing) { return names[thing]; }

typedef struct deviating {
    const ls_times *times;
    const ls_times_model *model;
    int largest; /* the row with most chips among those that are fitted */
    /* Seconds by row; `now`: of the change that is being tried. */
    double predicted[LS_FIT_ROWS_MAX], computing[LS_FIT_ROWS_MAX], bubble[LS_FIT_ROWS_MAX], now[LS_FIT_ROWS_MAX];
    double least_chip; /* factor of computing at the chip's peak */
} deviating;

/* Returns whether the row is fitted: with two labels only rows after the change are. */
static bool counts(const deviating *d, int i) { return d->times->labels != 2 || d->times->row[i].label == 1; }

static double larger(double a, double b) { return a > b ? a : b; }

/* Returns log2(n), interpolated linearly between powers of two. */
static double log_2(double n) {
    double whole = 0;
    for (; n >= 2; n /= 2) whole++;
    return whole + n - 1;
}

/* Returns the root mean square of the relative errors of predicted times, over the rows that are fitted. */
static double error_of(const deviating *d, const double *predicted) {
    double sum = 0;
    int n = 0;
    for (int i = 0; i < d->times->count; i++) {
        if (!counts(d, i)) continue;
        double e = predicted[i] / d->times->row[i].time - 1;
        sum += e * e;
        n++;
    }
    return sqrt(sum / n);
}

/* Predicts all rows, divides each time into computing, bubble and synchronisation, and sets `largest` and
 * `least_chip`. */
static ls_status predict_rows(deviating *d) {
    for (int i = 0; i < d->times->count; i++) {
        ls_prediction p;
        const ls_times_row *row = &d->times->row[i];
        LS_TRY(ls_times_predict_row(row, d->model, &p));
        double sync = p.time[LS_TIME_TP] + p.time[LS_TIME_GATHER] + p.time[LS_TIME_P2P] + p.time[LS_TIME_DP];
        d->predicted[i] = p.seconds;
        d->bubble[i] = p.time[LS_TIME_BUBBLE];
        d->computing[i] = p.seconds - sync - d->bubble[i];
        const ls_chip *chip = &d->model->task.cluster.site[0].chip;
        double peak = chip->peak_flops[d->model->layout.type] * row->chips;
        double least = peak > 0 ? p.model_flops / peak / d->computing[i] : 0;
        if (least > d->least_chip) d->least_chip = least;
        if (counts(d, i) && (!counts(d, d->largest) || row->chips > d->times->row[d->largest].chips)) d->largest = i;
    }
    return LS_OK;
}

/* ---- a part in proportion ---------------------------------------------------------------------------------------- */

/* Fits measured = predicted + x · part, with x at least `least`, by relative least squares; sets tested, and if true
 * factor (x), error and share. */
static void fit_part(deviating *d, const double *part, double least, ls_times_deviation *out) {
    double xx = 0, xr = 0, shown = 0;
    for (int i = 0; i < d->times->count; i++) {
        if (!counts(d, i)) continue;
        double y = d->times->row[i].time, x = part[i] / y;
        xx += x * x;
        xr += x * (1 - d->predicted[i] / y);
        if (x > shown) shown = x;
    }
    out->tested = shown > SHOWS;
    if (!out->tested) return;
    double x = xr / xx;
    if (x < least) x = least;
    for (int i = 0; i < d->times->count; i++) d->now[i] = d->predicted[i] + x * part[i];
    out->factor = x;
    out->error = error_of(d, d->now);
    out->share = x * part[d->largest] / d->times->row[d->largest].time;
}

/* Returns whether there are several numbers of chips: rows of one number cannot tell what grows with it. */
static bool has_sizes(const deviating *d) {
    int first = 0;
    for (int i = 0; i < d->times->count; i++) {
        if (!counts(d, i)) continue;
        if (first && d->times->row[i].chips != first) return true;
        first = d->times->row[i].chips;
    }
    return false;
}

/* Fits every assumption but the link: each as a part of the predicted time in proportion. */
static void fit_parts(deviating *d, ls_times_deviation *out) {
    double part[LS_FIT_ROWS_MAX] = {0};
    for (int i = 0; i < d->times->count; i++) part[i] = d->computing[i] + d->bubble[i];
    fit_part(d, part, d->least_chip - 1, &out[LS_THING_CHIP]);
    out[LS_THING_CHIP].factor += 1;
    fit_part(d, d->bubble, -1, &out[LS_THING_BUBBLE]);
    out[LS_THING_BUBBLE].factor += 1;
    out[LS_THING_BUBBLE].why_not = "needs rows with pp above 1";
    for (int i = 0; i < d->times->count; i++) part[i] = d->computing[i] * log_2(d->times->row[i].chips);
    if (has_sizes(d)) fit_part(d, part, 0, &out[LS_THING_STRAGGLER]);
    out[LS_THING_STRAGGLER].why_not = "needs rows with different numbers of GPUs";
    for (int i = 0; i < d->times->count; i++) part[i] = 1;
    if (has_sizes(d)) fit_part(d, part, 0, &out[LS_THING_SERIAL]);
    out[LS_THING_SERIAL].why_not = "needs rows with different numbers of GPUs";
}

/* ---- the link ---------------------------------------------------------------------------------------------------- */

/* Returns the link that the rows can show: between nodes if any row has several nodes, else inside the node. */
static ls_link *link_of(const deviating *d, ls_site *site) {
    for (int i = 0; i < d->times->count; i++)
        if (counts(d, i) && d->times->row[i].chips > site->node) return &site->between;
    return &site->inside;
}

/* Predicts all rows with the link's bandwidth times `factor` into d->now, and their error. Not reentrant: its model is
 * static because of its size. */
static ls_status predict_link(deviating *d, double factor, double *error) {
    static ls_times_model other;
    other = *d->model;
    link_of(d, &other.task.cluster.site[0])->bandwidth *= factor;
    for (int i = 0; i < d->times->count; i++) {
        ls_prediction p;
        LS_TRY(ls_times_predict_row(&d->times->row[i], &other, &p));
        d->now[i] = p.seconds;
    }
    *error = error_of(d, d->now);
    return LS_OK;
}

/* Fits the bandwidth by ternary search, because the error has a single minimum along it; leaves `tested` false if even
 * the slowest link hardly changes a row. */
static ls_status fit_link(deviating *d, ls_times_deviation *out) {
    ls_site site = d->model->task.cluster.site[0];
    const ls_link *link = link_of(d, &site);
    double at_low, at_high, low = LINK_LEAST, high = link->share > 0 ? 1 / link->share : 1;
    out->why_not = "needs rows with more than one GPU that wait for a link";
    LS_TRY(predict_link(d, low, &at_low));
    double shown = 0;
    for (int i = 0; i < d->times->count; i++)
        if (counts(d, i)) shown = larger(shown, d->now[i] / d->predicted[i] - 1);
    out->tested = shown > SHOWS;
    for (int r = 0; out->tested && r < LINK_ROUNDS; r++) {
        double step = sqrt(sqrt(high / low)), a = low * step, b = high / step;
        LS_TRY(predict_link(d, a, &at_low));
        LS_TRY(predict_link(d, b, &at_high));
        if (at_low <= at_high)
            high = b;
        else
            low = a;
    }
    if (!out->tested) return LS_OK;
    out->factor = sqrt(low * high);
    LS_TRY(predict_link(d, out->factor, &out->error));
    out->share = (d->now[d->largest] - d->predicted[d->largest]) / d->times->row[d->largest].time;
    return LS_OK;
}

/* Orders deviations: tested ones first, then by error. */
static int by_error(const void *a, const void *b) {
    const ls_times_deviation *x = a, *y = b;
    if (x->tested != y->tested) return x->tested ? -1 : 1;
    if (x->tested && x->error != y->error) return x->error < y->error ? -1 : 1;
    return (int)x->thing - (int)y->thing;
}

ls_status ls_times_deviate(const ls_times *times, const ls_times_model *model, ls_times_deviations *out) {
    ls_status status;
    deviating *d = calloc(1, sizeof *d);
    if (!d) return ls_fail(LS_ERR_RESOURCE, "out of memory for %d rows", times->count);
    d->times = times;
    d->model = model;
    memset(out, 0, sizeof *out);
    for (int t = 0; t < LS_THINGS; t++) out->thing[t].thing = (ls_times_thing)t;
    LS_TRY_OUT(predict_rows(d));
    out->largest = d->largest;
    out->thing[LS_THING_NONE] = (ls_times_deviation){.error = error_of(d, d->predicted), .factor = 1, .tested = true};
    fit_parts(d, out->thing);
    LS_TRY_OUT(fit_link(d, &out->thing[LS_THING_LINK]));
    /* What hardly helps is not the reason; neither is anything where times are as predicted. */
    double all = out->thing[LS_THING_NONE].error;
    qsort(out->thing, LS_THINGS, sizeof *out->thing, by_error);
    if (all < ERROR_LEAST || out->thing[0].error > GAIN_LEAST * all) {
        int none = 0;
        while (out->thing[none].thing != LS_THING_NONE) none++;
        ls_times_deviation kept = out->thing[none];
        memmove(out->thing + 1, out->thing, (size_t)none * sizeof *out->thing);
        out->thing[0] = kept;
    }
    double best = larger(out->thing[0].error, ERROR_LEAST);
    out->decided = !out->thing[1].tested || out->thing[1].error > CLEARLY * best;
out:
    free(d);
    return status;
}
