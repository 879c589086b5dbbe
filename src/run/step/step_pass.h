/* step_pass.h: the passes (forward, backward and reduction over the batch) of which a training step consists: one, or
 * several if a suspicious one is repeated; private to step*.c. All calls are collective, except where they say
 * otherwise. `stop` is that of ls_trainer_step(). */
#ifndef LS_RUN_STEP_PASS_H
#define LS_RUN_STEP_PASS_H

#include "run/trainer.h"

/* Computes and judges (ls_trainer_judge) the gradient of the batch without the groups in guard.absent, which the
 * partition has been told before (the next two functions do both). If `place` is not NULL, also checks every output,
 * and sets *place to the first value that is not finite. Returns LS_TRAINER_GAVE_UP if a worker abandoned the pass. */
ls_status ls_step_pass(ls_trainer *trainer, int stop, ls_bad_place *place, ls_step_result *result);
/* Runs a pass over all groups; clears guard.absent. */
ls_status ls_step_pass_with_all(ls_trainer *trainer, int stop, ls_step_result *result);
/* Runs a pass over the groups that the first `count` findings of the guard do not name, or, if `flagged` is false, over
 * those that they name. guard.absent stays set so. */
ls_status ls_step_pass_without(ls_trainer *trainer, int stop, size_t count, bool flagged, ls_step_result *result);
/* Sets guard->absent as ls_step_pass_without() does, without a pass, so that ls_trainer_backward_start() counts those
 * groups. Not collective. */
void ls_step_set_absent(ls_guard *guard, size_t count, bool flagged);
/* Returns whether the present step counts numerics (--numerics N: every Nth step). Not collective. */
bool ls_step_counts_numerics(const ls_trainer *trainer);

/* Judges gradient groups, then workers (step_outliers.c), reports outliers, and leaves the partition with the gradient
 * to use: of all groups, or without the outliers (result->dropped of them). Workers are not judged in a step with
 * outlier groups, because these distort their norms. Fails with --on-outlier stop, unless recomputing shows that the
 * outlier was a transient fault, and if all groups are outliers; with --on-outlier auto such a step is not even
 * reported. */
ls_status ls_step_judge_outliers(ls_trainer *trainer, int stop, ls_step_result *result);

#endif
