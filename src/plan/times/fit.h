/* fit.h: least squares of measured times as sums of a few terms, none of which may be below 0.
 *
 * Errors count relative to what was measured, so that large and small times weigh the same. The solution without
 * negative coefficients is that of some subset of the terms; a caller that looks for all explanations tries all
 * subsets, so the functions here solve a given subset. */
#ifndef LS_PLAN_TIMES_FIT_H
#define LS_PLAN_TIMES_FIT_H

#include <stdbool.h>

enum { LS_FIT_ROWS_MAX = 512, LS_FIT_TERMS_MAX = 10 };

typedef struct ls_fit {
    int rows, terms;
    double x[LS_FIT_ROWS_MAX][LS_FIT_TERMS_MAX];
    double y[LS_FIT_ROWS_MAX];      /* above 0 */
    double weight[LS_FIT_ROWS_MAX]; /* 1, or 0 for a row that is left out */
    unsigned any_sign;              /* bits of terms that may be below 0 */
} ls_fit;

/* Coefficients of the terms whose bits are set, 0 for the others. false: they cannot be told apart by these rows, or
 * one of them would be 0 or less. */
bool ls_fit_solve(const ls_fit *fit, unsigned terms, double *coefficient);
/* The same, with rows that stand out counted less (Huber's weights), where there are rows enough to tell. */
bool ls_fit_solve_robust(const ls_fit *fit, unsigned terms, double *coefficient);

/* Rows that are not left out. */
int ls_fit_used(const ls_fit *fit);
double ls_fit_value(const ls_fit *fit, const double *coefficient, int row);
/* Sum of squares of relative errors, each counted at most as `cap` (0: as it is). */
double ls_fit_squares(const ls_fit *fit, const double *coefficient, double cap);
/* Typical relative error by the median, for that many terms that were fitted; 0: no row is left to tell it. */
double ls_fit_scatter(const ls_fit *fit, const double *coefficient, int terms);
static inline int ls_fit_count(unsigned terms) {
    int n = 0;
    for (; terms; terms &= terms - 1) n++;
    return n;
}

#endif
