/* validation.h: tracks the evaluations of a run: the lowest validation loss and its step, how many evaluations since
 * then were no better (--early-stop), and which saved checkpoint is the best.
 *
 * Part of a run's state: it goes into state.json, so a run that was killed and resumed stops early at the same step and
 * keeps the same best checkpoint. The trainer owns it, the loop updates it; the same numbers on all workers. */
#ifndef LS_RUN_VALIDATION_H
#define LS_RUN_VALIDATION_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ls_validation {
    double best_loss;   /* lowest of all evaluations; NaN: there was none */
    int64_t best_step;  /* step of the lowest loss; −1: none */
    int64_t stale;      /* evaluations since best_step, none of which was lower */
    double saved_loss;  /* lowest loss of a step with a checkpoint; NaN: none */
    int64_t saved_step; /* step of that checkpoint, the best one; −1: none */
    double last_loss;   /* of the last evaluation since the run began or was resumed; NaN: none. Not in state.json */
    int64_t last_step;  /* step of that evaluation; −1: none */
    bool is_due;        /* an evaluation was abandoned when the run stopped; a resumed run repeats it first */
} ls_validation;

/* Returns the state before the first evaluation. */
ls_validation ls_validation_start(void);
/* Records an evaluation after `step` steps. A loss of NaN is never an improvement, and counts as stale. */
void ls_validation_add(ls_validation *v, int64_t step, double loss);
/* Returns whether a checkpoint of `step` would be the best one so far: the step was evaluated, and its loss is lower
 * than those of all saved steps. */
bool ls_validation_is_best_at(const ls_validation *v, int64_t step);
/* Records that `step` is being saved, if it is the best checkpoint so far; otherwise does nothing. Call it before the
 * checkpoint is written, because the checkpoint holds this state. */
void ls_validation_saving(ls_validation *v, int64_t step);
/* Returns whether --early-stop ends the run: the last `evaluations` evaluations were no better than the best. 0:
 * never. */
bool ls_validation_is_over(const ls_validation *v, int64_t evaluations);

/* Adds the member "validation" to state.json; adds nothing before the first evaluation, unless one is due. Returns
 * false if memory is short. */
bool ls_validation_to_json(const ls_validation *v, json_t *state);
/* Restores the state from state.json; without that member, the state before the first evaluation. LS_ERR_INPUT if the
 * member is damaged. */
ls_status ls_validation_from_json(ls_validation *v, const json_t *state);

#endif
