/* fit.h: fits the constants of plan/fitted to published runs, and measures their error on runs left out of the fit
 * (`lockstep plan --fit`).
 *
 * The fit minimises the sum over groups (source_group: publisher and cluster) of the mean square of predicted/measured
 * − 1 in units of 10 % (Huber: beyond that, the absolute error), plus for each constant the square of its distance from
 * the usual value in units of SPREAD of it, so that a constant without evidence stays. It takes Gauss–Newton steps;
 * knobs that rows leave open are chosen again with each step's values. */
#ifndef LS_PLAN_PUBLISHED_FIT_H
#define LS_PLAN_PUBLISHED_FIT_H

#include "plan/fitted/fitted.h"
#include "plan/published/published_runs.h"

enum { LS_FIT_NAME_MAX = 64 };

/* Rows of a source_group, their errors with the constants of all rows, and with those of all others. */
typedef struct ls_fit_group {
    char name[LS_FIT_NAME_MAX];
    size_t rows;
    double within, out, out_bias; /* mean |error| in the fit, and left out of it; mean error left out */
    double values[LS_FITTED_ALL]; /* constants fitted without this group */
} ls_fit_group;

typedef struct ls_fit {
    double values[LS_FITTED_ALL];
    size_t rows;                  /* with a time to compare with */
    double within, groups_within; /* mean over rows; mean over groups */
    double out, groups_out;       /* the same for rows and groups left out; 0 without */
    int groups;
    ls_fit_group *group;
    double *error; /* relative, of each row of the input: left out of the fit where that was done; 0: not used */
} ls_fit;

/* Fits the constants; the caller frees *out with ls_fit_free(). `fixed`: bits (1 << constant) of constants that stay at
 * their usual value, in addition to the measured ones. `leave_out`: fits once more without each group. LS_ERR_INPUT if
 * no row has a time. */
ls_status ls_fit_find(const ls_rows *rows, unsigned fixed, bool leave_out, ls_fit *out);
void ls_fit_free(ls_fit *fit);

/* Returns a copy of the row whose chip, stack and links use these constants; its texts still belong to `row`, so it
 * must not be freed. */
ls_row ls_fit_row(const ls_row *row, const double *values);

#endif
