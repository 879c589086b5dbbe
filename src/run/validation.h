/* validation.h: tracks the evaluations of a run: the lowest validation loss and its step, how many evaluations since
 * then were no better (--early-stop), and which saved checkpoint is the best.
 *
 * Part of a run's state: it goes into state.json, so a run that was killed and resumed stops early at the same step and
 * keeps the same best checkpoint. The same numbers on all workers. */
#ifndef LS_RUN_VALIDATION_H
#define LS_RUN_VALIDATION_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ls_validation {
    double best_loss;   /* lowest of all evaluations; NaN: there was none */
    int64_t best_step;  /* where; −1: nowhere */
    int64_t stale;      /* evaluations since then, none of them lower */
    double saved_loss;  /* lowest of those whose step was saved; NaN: none */
    int64_t saved_step; /* its checkpoint, the best one; −1: none */
    double last_loss;   /* of the last evaluation since the run began or was resumed, */
    int64_t last_step;  /* and where; −1: none */
    bool is_due;        /* one was abandoned when the run stopped; a resumed run makes it first */
} ls_validation;

/* Before any evaluation. */
ls_validation ls_validation_start(void);
/* An evaluation after `step` steps. A loss that is not a number is no improvement. */
void ls_validation_add(ls_validation *v, int64_t step, double loss);
/* Whether a checkpoint of `step` would be the best one so far: it was evaluated, and is lower than those saved. */
bool ls_validation_is_best_at(const ls_validation *v, int64_t step);
/* Call before the checkpoint of a step is written, so that the checkpoint includes it. */
void ls_validation_saving(ls_validation *v, int64_t step);
/* Whether --early-stop `evaluations` ends the run; 0: never. */
bool ls_validation_is_over(const ls_validation *v, int64_t evaluations);

/* The member "validation" of state.json; nothing before the first evaluation. False: no memory. */
bool ls_validation_to_json(const ls_validation *v, json_t *state);
/* Starts empty if there is no such member. */
ls_status ls_validation_from_json(ls_validation *v, const json_t *state);

#endif
