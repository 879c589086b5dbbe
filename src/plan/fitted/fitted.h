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
    LS_FITTED_COUNT, /* of those that are fitted; the following ones are measured: */
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
    const char *name, *meaning;
    double usual, min, max; /* value without any run; range of possible values */
    const char *source;     /* of the usual value */
} ls_fitted_row;

const ls_fitted_row *ls_fitted_row_get(ls_fitted constant);
/* Returns the values compiled into this program, [LS_FITTED_ALL]. */
const double *ls_fitted_values(void);

/* Overwrite the fields that depend on the constants. A chip of LS_GENERATION_NONE keeps its own figures. */
void ls_fitted_chip(const double *values, ls_chip *chip);
void ls_fitted_stack(const double *values, ls_stack *stack);
void ls_fitted_link(const double *values, ls_link *link);

/* Returns the highest MFU of any published run with this chip and number type; 0: there is no run. */
double ls_fitted_best_mfu(const char *chip, ls_plan_type type);

#endif
