/* fitted.h: the shares and rates that no data sheet has: few, each with a meaning, a range and a source. Those that
 * runs of groups not seen gain from are fitted to measured runs; the others stay at what single operations were
 * measured to reach. Everything else that the cost model knows is a data sheet's, or counted.
 *
 * `lockstep plan --validate RUNS --fit DIR` fits the values again and writes them (constants.inc), with what
 * predictions of groups not seen miss (error_bands.inc) and the best that was ever measured (best_mfu.inc). */
#ifndef LS_PLAN_FITTED_FITTED_H
#define LS_PLAN_FITTED_FITTED_H

#include "plan/cost/stack.h"
#include "plan/hardware/machine.h"

typedef enum ls_fitted {
    LS_FITTED_BLACKWELL,
    LS_FITTED_EIGHT_BIT,
    LS_FITTED_COUNT, /* of those that are fitted; the others have a source: */
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
    double usual, min, max; /* without any run; what is possible at all */
    const char *source;     /* of the usual value */
} ls_fitted_row;

const ls_fitted_row *ls_fitted_row_get(ls_fitted constant);
/* As they are in this program; [LS_FITTED_ALL]. */
const double *ls_fitted_values(void);

/* What depends on them, in a row of the tables. A chip of no generation keeps its own figures. */
void ls_fitted_chip(const double *values, ls_chip *chip);
void ls_fitted_stack(const double *values, ls_stack *stack);
void ls_fitted_link(const double *values, ls_link *link);

/* The largest share of a chip's peak in a type that a measured run has reached; 0: there is no run. */
double ls_fitted_best_mfu(const char *chip, ls_plan_type type);

#endif
