/* step_pass.h: the passes of which a training step consists; private to step*.c. All calls are collective. */
#ifndef LS_RUN_STEP_PASS_H
#define LS_RUN_STEP_PASS_H

#include "run/trainer.h"

/* Computes and judges the gradient of the batch without the absent groups. If `place` is not NULL, checks every output
 * and sets *place to the first bad value. Returns LS_TRAINER_GAVE_UP if a worker abandoned the pass. */
ls_status ls_step_pass(ls_trainer *trainer, int stop, ls_bad_place *place, ls_step_result *result);
/* The same of all groups. */
ls_status ls_step_pass_with_all(ls_trainer *trainer, int stop, ls_step_result *result);
/* The same of the groups that the first `count` findings of the guard do not name, or, if `flagged` is false, of those
 * that they name. */
ls_status ls_step_pass_without(ls_trainer *trainer, int stop, size_t count, bool flagged, ls_step_result *result);
/* Marks these groups as absent, for ls_trainer_backward_start(), without a pass. */
void ls_step_set_absent(ls_guard *guard, size_t count, bool flagged);
/* Returns whether numerics (--numerics) are counted in this step. */
bool ls_step_counts_numerics(const ls_trainer *trainer);

/* Judges groups, then workers (step_outliers.c), and leaves the partition with the gradient to use: of all groups, or
 * without the outliers. Workers are not judged in a step with outlier groups, because these distort their norms. */
ls_status ls_step_judge_outliers(ls_trainer *trainer, int stop, ls_step_result *result);

#endif
