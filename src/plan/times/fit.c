/* fit.c: solves the normal equations of relative errors by Cholesky decomposition, with columns scaled to length 1. */
#include "plan/times/fit.h"

#include <math.h>
#include <string.h>

#include "base/stats.h"

/* A column counts as a combination of the others if less than this of it is independent of them. */
static const double PIVOT_MIN = 1e-6;
enum { ROUNDS = 12 };

typedef struct system {
    int n, term[LS_FIT_TERMS_MAX];
    double scale[LS_FIT_TERMS_MAX], a[LS_FIT_TERMS_MAX][LS_FIT_TERMS_MAX], b[LS_FIT_TERMS_MAX];
} system_of;

/* Sums the normal equations of the given terms; false if a term has no row, or if there are fewer rows than terms. */
static bool set_up(const ls_fit *fit, unsigned terms, const double *weight, system_of *s) {
    memset(s, 0, sizeof *s);
    for (int t = 0; t < fit->terms; t++)
        if (terms >> t & 1) s->term[s->n++] = t;
    int used = 0;
    for (int r = 0; r < fit->rows; r++) {
        double w = weight[r];
        if (!(w > 0)) continue;
        used++;
        for (int i = 0; i < s->n; i++) {
            double xi = fit->x[r][s->term[i]] / fit->y[r];
            s->b[i] += w * xi;
            for (int j = 0; j <= i; j++) s->a[i][j] += w * xi * (fit->x[r][s->term[j]] / fit->y[r]);
        }
    }
    for (int i = 0; i < s->n; i++) {
        if (!(s->a[i][i] > 0)) return false;
        s->scale[i] = sqrt(s->a[i][i]);
    }
    for (int i = 0; i < s->n; i++) {
        s->b[i] /= s->scale[i];
        for (int j = 0; j <= i; j++) s->a[i][j] /= s->scale[i] * s->scale[j];
    }
    return used >= s->n;
}

/* Cholesky-decomposes the matrix in place; returns false if it is not positive definite. */
static bool decompose(system_of *s) {
    for (int i = 0; i < s->n; i++)
        for (int j = 0; j <= i; j++) {
            double sum = s->a[i][j];
            for (int k = 0; k < j; k++) sum -= s->a[i][k] * s->a[j][k];
            if (i == j) {
                if (!(sum > PIVOT_MIN)) return false;
                s->a[i][i] = sqrt(sum);
            } else {
                s->a[i][j] = sum / s->a[j][j];
            }
        }
    return true;
}

/* Solves the weighted fit as ls_fit_solve() does, with `weight` in place of the rows' own. */
static bool solve(const ls_fit *fit, unsigned terms, const double *weight, double *coefficient) {
    system_of s;
    if (!set_up(fit, terms, weight, &s) || !decompose(&s)) return false;
    for (int i = 0; i < s.n; i++) {
        for (int k = 0; k < i; k++) s.b[i] -= s.a[i][k] * s.b[k];
        s.b[i] /= s.a[i][i];
    }
    for (int i = s.n - 1; i >= 0; i--) {
        for (int k = i + 1; k < s.n; k++) s.b[i] -= s.a[k][i] * s.b[k];
        s.b[i] /= s.a[i][i];
    }
    for (int t = 0; t < LS_FIT_TERMS_MAX; t++) coefficient[t] = 0;
    for (int i = 0; i < s.n; i++) {
        double c = s.b[i] / s.scale[i];
        if (!(c > 0) && !(fit->any_sign >> s.term[i] & 1)) return false;
        coefficient[s.term[i]] = c;
    }
    return true;
}

bool ls_fit_solve(const ls_fit *fit, unsigned terms, double *coefficient) {
    return solve(fit, terms, fit->weight, coefficient);
}

int ls_fit_used(const ls_fit *fit) {
    int used = 0;
    for (int r = 0; r < fit->rows; r++) used += fit->weight[r] > 0;
    return used;
}

double ls_fit_value(const ls_fit *fit, const double *coefficient, int row) {
    double sum = 0;
    for (int t = 0; t < fit->terms; t++) sum += coefficient[t] * fit->x[row][t];
    return sum;
}

double ls_fit_squares(const ls_fit *fit, const double *coefficient, double cap) {
    double sum = 0;
    for (int r = 0; r < fit->rows; r++) {
        double e = ls_fit_value(fit, coefficient, r) / fit->y[r] - 1, square = e * e;
        sum += fit->weight[r] * (cap > 0 && square > cap * cap ? cap * cap : square);
    }
    return sum;
}

/* Estimates the standard deviation of the relative errors by their median, so that a few outliers do not count, and
 * writes their sizes by row; at least 1e-4. */
static double scatter(const ls_fit *fit, const double *coefficient, double *error) {
    static const double FLOOR = 1e-4;
    double sorted[LS_FIT_ROWS_MAX];
    int n = 0;
    for (int r = 0; r < fit->rows; r++) {
        error[r] = fabs(ls_fit_value(fit, coefficient, r) / fit->y[r] - 1);
        if (fit->weight[r] > 0) sorted[n++] = error[r];
    }
    (void)ls_median(sorted, (size_t)n); /* sorts */
    double middle = n ? 1.4826 * sorted[n / 2] : 0;
    return middle > FLOOR ? middle : FLOOR;
}

double ls_fit_scatter(const ls_fit *fit, const double *coefficient, int terms) {
    double error[LS_FIT_ROWS_MAX], used = ls_fit_used(fit);
    return used > terms ? scatter(fit, coefficient, error) * sqrt(used / (used - terms)) : 0;
}

bool ls_fit_solve_robust(const ls_fit *fit, unsigned terms, double *coefficient) {
    double weight[LS_FIT_ROWS_MAX], error[LS_FIT_ROWS_MAX];
    int used = ls_fit_used(fit);
    if (!solve(fit, terms, fit->weight, coefficient)) return false;
    for (int round = 0; round < ROUNDS && used >= ls_fit_count(terms) + 3; round++) {
        double limit = 1.5 * scatter(fit, coefficient, error);
        for (int r = 0; r < fit->rows; r++) weight[r] = fit->weight[r] * (error[r] > limit ? limit / error[r] : 1);
        if (!solve(fit, terms, weight, coefficient)) return false;
    }
    return true;
}
