/* fit.h: non-negative least squares: fits measured times as sums of a few terms.
 *
 * Errors are relative to the measured time, so that large and small times weigh the same. Each function solves for a
 * given subset of the terms. The non-negative solution is that of some subset, and the caller, which wants all
 * explanations, tries every subset anyway. */
#ifndef LS_PLAN_TIMES_FIT_H
#define LS_PLAN_TIMES_FIT_H

#include <stdbool.h>

enum { LS_FIT_ROWS_MAX = 512, LS_FIT_TERMS_MAX = 10 };

typedef struct ls_fit {
    int rows, terms;                             /* of x */
    double x[LS_FIT_ROWS_MAX][LS_FIT_TERMS_MAX]; /* value of each term for each row */
    double y[LS_FIT_ROWS_MAX];                   /* measured times, above 0 */
    double weight[LS_FIT_ROWS_MAX];              /* 1, or 0 for a row that is left out */
    unsigned any_sign;                           /* bit t: the coefficient of term t may be negative */
} ls_fit;

/* Fits the terms whose bits are set into coefficient[LS_FIT_TERMS_MAX]; the others become 0. Returns false, with
 * coefficients undefined, if the rows do not determine them, or if one that must be positive is not. */
bool ls_fit_solve(const ls_fit *fit, unsigned terms, double *coefficient);
/* Fits as ls_fit_solve() does, but gives outliers less weight (Huber) if there are at least 3 more rows than terms. */
bool ls_fit_solve_robust(const ls_fit *fit, unsigned terms, double *coefficient);

/* Returns the number of rows that are not left out. */
int ls_fit_used(const ls_fit *fit);
/* Returns the time of a row by the fit. */
double ls_fit_value(const ls_fit *fit, const double *coefficient, int row);
/* Returns the sum of the squared relative errors. An error above `cap` counts as `cap`; 0: no cap. */
double ls_fit_squares(const ls_fit *fit, const double *coefficient, double cap);
/* Returns the standard deviation of the relative errors, estimated by their median and corrected for the number of
 * fitted `terms`; 0 if there are no more rows than terms. */
double ls_fit_scatter(const ls_fit *fit, const double *coefficient, int terms);
/* Returns how many bits of `terms` are set. */
static inline int ls_fit_count(unsigned terms) {
    int n = 0;
    for (; terms; terms &= terms - 1) n++;
    return n;
}

#endif
