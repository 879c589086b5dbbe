/* scaling.c: the fits and predictions of scaling.h. */
#include "lab/scale/scaling.h"

#include <string.h>

#include <math.h>
#include "plan/times/fit.h"

double ls_scaling_sync_of(const ls_scaling_point *p) {
    double sum = 0;
    for (int k = 0; k < LS_TRAFFIC_KINDS; k++) sum += p->sync[k];
    return sum;
}

double ls_scaling_hidden_of(const ls_scaling_point *p) {
    double sum = 0;
    for (int k = 0; k < LS_TRAFFIC_KINDS; k++) sum += p->hidden[k];
    return sum;
}

/* ---- fits -------------------------------------------------------------------------------------------------------- */

/* Fits the subset of terms with the least expected error (Akaike's final prediction error), none of them below 0.
 * Returns its error; −1: none can be fitted. */
static double fit_best_subset(const ls_fit *fit, double *coefficient) {
    double best = -1;
    memset(coefficient, 0, LS_FIT_TERMS_MAX * sizeof *coefficient);
    for (unsigned terms = 1; terms < 1u << fit->terms; terms++) {
        double one[LS_FIT_TERMS_MAX];
        int count = __builtin_popcount(terms);
        if (count > fit->rows || !ls_fit_solve(fit, terms, one)) continue;
        double squares = ls_fit_squares(fit, one, 0);
        /* As many terms as rows meet them all: such a fit is taken only where there is no other. */
        double score = fit->rows > count ? (squares + 1e-12) * (fit->rows + count) / (fit->rows - count) : 1e6 + count;
        if (best >= 0 && score >= best) continue;
        best = score;
        memcpy(coefficient, one, sizeof one);
    }
    return best;
}

/* Adds y = a·x0 + b·x1 + c·x2 + d·x3 to the fit, unless y is 0 or the fit is full. */
static void add_row(ls_fit *fit, double y, double a, double b, double c, double d) {
    if (!(y > 0) || fit->rows == LS_FIT_ROWS_MAX) return;
    fit->x[fit->rows][0] = a;
    fit->x[fit->rows][1] = b;
    fit->x[fit->rows][2] = c;
    fit->x[fit->rows][3] = d;
    fit->weight[fit->rows] = 1;
    fit->y[fit->rows++] = y;
}

/* Returns whether point i is used. Crowded workers wait for a core, not for each other, so they are used only if no
 * other number of workers is measured. */
static bool is_counted(const ls_scaling_point *points, int count, int i) {
    if (points[i].crowding <= 1 || points[i].workers == 1) return true;
    for (int k = 0; k < count; k++)
        if (points[k].workers > 1 && points[k].crowding <= 1) return false;
    return true;
}

/* Returns whether point i is used for the fit of communication. */
static bool is_counted_for_sync(const ls_scaling_point *points, int count, int i) {
    return points[i].workers > 1 && is_counted(points, count, i);
}

/* Fits computing and other time. Returns false if there are too few points. */
static bool fit_computing(ls_fit *fit, const ls_scaling_point *points, int count, ls_scaling_fit *out) {
    double c[LS_FIT_TERMS_MAX];
    *fit = (ls_fit){.terms = 4};
    for (int i = 0; i < count; i++) {
        const ls_scaling_point *p = &points[i];
        double each = p->sequences * p->crowding;
        if (is_counted(points, count, i))
            add_row(fit, p->compute, each, p->crowding / p->workers, p->crowding, each * (1 - 1.0 / p->workers));
    }
    if (fit_best_subset(fit, c) < 0) return false;
    out->sequence_s = c[0];
    out->shared_s = c[1];
    out->fixed_s = c[2];
    out->contended_s = c[3];
    *fit = (ls_fit){.terms = 2};
    for (int i = 0; i < count; i++)
        if (is_counted(points, count, i)) add_row(fit, points[i].other, points[i].sequences, 1, 0, 0);
    (void)fit_best_subset(fit, c);
    out->other_sequence_s = c[0];
    out->other_s = c[1];
    return true;
}

/* Fits latency and time per byte of communication, and the idle share; leaves 0 if only one worker was measured. */
static void fit_sync(ls_fit *fit, const ls_scaling_point *points, int count, ls_scaling_fit *out) {
    double c[LS_FIT_TERMS_MAX], compute = 0, idle = 0;
    *fit = (ls_fit){.terms = 2};
    for (int i = 0; i < count; i++) {
        const ls_scaling_point *p = &points[i];
        if (!is_counted_for_sync(points, count, i)) continue;
        out->has_sync = true;
        compute += p->compute;
        idle += p->idle;
        for (int k = 0; k < LS_TRAFFIC_KINDS; k++)
            if (p->messages[k] > 0) add_row(fit, p->own[k], p->messages[k], p->bytes[k], 0, 0);
    }
    out->idle = compute > 0 ? idle / compute : 0;
    if (fit_best_subset(fit, c) < 0) return;
    out->latency_s = c[0];
    out->byte_s = c[1];
}

/* Returns the fitted seconds of all traffic of a kind. */
static double seconds_of_kind(const ls_scaling_fit *fit, const ls_scaling_point *p, int kind) {
    return fit->latency_s * p->messages[kind] + fit->byte_s * p->bytes[kind];
}

/* Returns the exposed communication: all of it except reduce-scatters that overlap with compute. */
static double sync_of(const ls_scaling_fit *fit, const ls_scaling_point *p, double compute) {
    double all = 0, hideable = seconds_of_kind(fit, p, LS_TRAFFIC_REDUCE_SCATTER), most = fit->hides * compute;
    for (int k = 0; k < LS_TRAFFIC_KINDS; k++) all += seconds_of_kind(fit, p, k);
    return all - (hideable < most ? hideable : most);
}

/* Finds the share of computing behind which communication is overlapped that explains the measured waits best. */
static void fit_hiding(const ls_scaling_point *points, int count, ls_scaling_fit *out) {
    enum { TRIES = 200 };
    double best = -1, share = 0;
    for (int t = 0; t <= TRIES; t++) {
        double error = 0;
        bool any = false;
        out->hides = (double)t / TRIES;
        for (int i = 0; i < count; i++) {
            const ls_scaling_point *p = &points[i];
            if (!is_counted_for_sync(points, count, i)) continue;
            double miss = (sync_of(out, p, p->compute) - ls_scaling_sync_of(p)) / p->seconds;
            error += miss * miss;
            any = any || ls_scaling_hidden_of(p) > 0;
        }
        if (!any) break;
        if (best >= 0 && error >= best) continue;
        best = error;
        share = out->hides;
    }
    out->hides = share;
}

/* Computes the errors of the fit at the points that it used. */
static void find_errors(const ls_scaling_point *points, int count, ls_scaling_fit *out) {
    double squares = 0, sync_squares = 0;
    int rows = 0, sync_rows = 0, terms = out->has_sync ? 5 : 3;
    for (int i = 0; i < count; i++) {
        if (!is_counted(points, count, i)) continue;
        ls_scaling_parts parts = ls_scaling_predict(out, &points[i], 1);
        double e = parts.seconds / points[i].seconds - 1, measured = ls_scaling_sync_of(&points[i]);
        squares += e * e;
        rows++;
        if (!is_counted_for_sync(points, count, i) || !(measured > 0)) continue;
        e = parts.sync / measured - 1;
        sync_squares += e * e;
        sync_rows++;
    }
    out->error = sqrt(squares / (rows > terms ? rows - terms : 1));
    out->sync_error = sync_rows > 0 ? sqrt(sync_squares / (sync_rows > 2 ? sync_rows - 2 : 1)) : 0;
}

bool ls_scaling_fit_make(const ls_scaling_point *points, int count, ls_scaling_fit *out) {
    ls_fit fit;
    *out = (ls_scaling_fit){0};
    if (count < 1 || !fit_computing(&fit, points, count, out)) return false;
    fit_sync(&fit, points, count, out);
    fit_hiding(points, count, out);
    find_errors(points, count, out);
    return true;
}

/* ---- predictions ------------------------------------------------------------------------------------------------- */

ls_scaling_parts ls_scaling_predict(const ls_scaling_fit *fit, const ls_scaling_point *p, double more) {
    ls_scaling_parts parts = {0};
    double each = fit->sequence_s + fit->contended_s * (1 - 1.0 / p->workers);
    parts.compute = p->crowding * (each * p->sequences + fit->shared_s / p->workers + fit->fixed_s);
    parts.other = fit->other_sequence_s * p->sequences + fit->other_s;
    if (p->workers > 1) {
        parts.idle = more * fit->idle * parts.compute;
        parts.sync = more * sync_of(fit, p, parts.compute);
    }
    parts.seconds = parts.compute + parts.idle + parts.other + parts.sync;
    return parts;
}

double ls_scaling_band(const ls_scaling_fit *fit) { return 2 * fit->error > .02 ? 2 * fit->error : .02; }

/* Returns the seconds that the workers of `like` save with so many sequences each. */
static double gain_of_workers(const ls_scaling_fit *fit, const ls_scaling_point *like, size_t each, double more) {
    ls_scaling_point many = *like, one = *like;
    many.crowding = one.crowding = 1;
    many.sequences = (double)each;
    one.sequences = (double)each * like->workers;
    one.workers = 1;
    return ls_scaling_predict(fit, &one, 1).seconds - ls_scaling_predict(fit, &many, more).seconds;
}

size_t ls_scaling_batch_crossover(const ls_scaling_fit *fit, const ls_scaling_point *like, double more) {
    size_t low = 0, high = (size_t)1 << 20;
    if (like->workers < 2) return 0;
    if (!(gain_of_workers(fit, like, high, more) > 0)) return 0;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (gain_of_workers(fit, like, middle, more) > 0)
            high = middle;
        else
            low = middle;
    }
    return high * (size_t)like->workers;
}

double ls_scaling_rate_crossover(const ls_scaling_fit *fit, const ls_scaling_point *point, double link_bytes_per_s,
                                 double more) {
    ls_scaling_fit other = *fit;
    ls_scaling_point one = *point, many = *point;
    double own = link_bytes_per_s > 0 ? fit->byte_s - 1 / link_bytes_per_s : fit->byte_s;
    double low = 1, high = 1e13;
    if (own < 0) own = 0;
    one.workers = 1;
    one.sequences = (double)point->batch;
    one.crowding = many.crowding = 1;
    double alone = ls_scaling_predict(fit, &one, 1).seconds;
    other.byte_s = own;
    if (!(ls_scaling_predict(&other, &many, more).seconds < alone)) return 0;
    for (int i = 0; i < 200; i++) {
        double middle = sqrt(low * high);
        other.byte_s = own + 1 / middle;
        if (ls_scaling_predict(&other, &many, more).seconds < alone)
            high = middle;
        else
            low = middle;
    }
    return high;
}
