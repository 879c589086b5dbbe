/* fitted.h: constants of the cost model that no data sheet has: few, each with a meaning, a range and a source.
 *
 * A constant is fitted to published runs only if that improves predictions of runs left out of the fit; the others keep
 * values measured on single operations. Everything else in the cost model comes from data sheets or is counted.
 *
 * `lockstep plan --validate RUNS --fit DIR` fits again and writes the values (constants.inc), the errors of predictions
 * for runs left out (error_bands.inc) and the best MFU ever measured (best_mfu.inc). */
#ifndef LS_PLAN_FITTED_FITTED_H
#define LS_PLAN_FITTED_FITTED_H

#include "plan/cost/stack.h"
#include "plan/hardware/machine.h"

typedef enum ls_fitted {
    LS_FITTED_BLACKWELL,
    LS_FITTED_EIGHT_BIT,
    LS_FITTED_COUNT, /* number of fitted constants; the following ones are measured on single operations: */
    LS_FITTED_MATMUL_AMPERE = LS_FITTED_COUNT,
    LS_FITTED_MATMUL_HOPPER,
    LS_FITTED_VOLTA,
    LS_FITTED_BANDWIDTH,
    LS_FITTED_POWER,
    LS_FITTED_ATTENTION,
    LS_FITTED_ATTENTION_BACK,
    LS_FITTED_HOST,
    LS_FITTED_HOST_COMPILED,
    LS_FITTED_PASSES_EAGER,
    LS_FITTED_TP_HIDDEN,
    LS_FITTED_GATHER_HIDDEN,
    LS_FITTED_NETWORK,
    LS_FITTED_CONTENTION,
    LS_FITTED_ALL
} ls_fitted;

typedef struct ls_fitted_row {
    const char *name, *meaning; /* in files; in words */
    double usual, min, max;     /* value without any run; range of possible values */
    const char *source;         /* of the usual value */
} ls_fitted_row;

/* Returns the name, meaning and range of a constant. */
const ls_fitted_row *ls_fitted_row_get(ls_fitted constant);
/* Returns the values compiled into this program, [LS_FITTED_ALL], which the functions below take as `values`. */
const double *ls_fitted_values(void);

/* Overwrites the chip's shares with those that follow from the constants; a chip of LS_GENERATION_NONE keeps
 * its own. */
void ls_fitted_chip(const double *values, ls_chip *chip);
/* Overwrites the fields of the stack that follow from the constants. */
void ls_fitted_stack(const double *values, ls_stack *stack);
/* Overwrites the share of a link that is InfiniBand or the like (is_network). */
void ls_fitted_link(const double *values, ls_link *link);

/* Returns the highest MFU, as a share, of any published run with this chip and number type; 0: there is no run. */
double ls_fitted_best_mfu(const char *chip, ls_plan_type type);

#endif
