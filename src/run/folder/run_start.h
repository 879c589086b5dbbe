/* run_start.h: starts a run from the seed, from given weights, from its own last checkpoint, or from another run's.
 *
 * Identity fields record the start, so that a resumed run has the same identity:
 *   start           hash of the weights it began with; absent: made from the seed
 *   start-step      of a fork: steps that the parent had done
 *   start-samples   of a fork: the parent's position in the data; 0 where the data is another
 *   lr-start-step   of a fork: the step from which warm-up and decay count; absent: from 0, as in forks of version 0.1,
 *                   and where the schedule has no end (constant, step) and its warm-up is the parent's
 *
 * All calls are collective. Each worker has the identity and has opened the weights (ls_run_start_model); only worker 0
 * has the store and run directory, the others may pass NULL. Worker 0 checks and decides; if one worker fails, all fail
 * with one message (run/agree.h). */
#ifndef LS_RUN_FOLDER_RUN_START_H
#define LS_RUN_FOLDER_RUN_START_H

#include "interop/weights.h"
#include "run/folder/run_dir.h"
#include "run/folder/save.h"
#include "run/trainer.h"

/* ls_weights_resolve() for all workers of `world` (NULL: one alone): the first one verifies checksums and tells the
 * others what to open. `model` is worker 0's. *weights is the caller's to close on every worker. */
ls_status ls_run_start_model(ls_world *world, const char *model, ls_shape *shape, ls_weights **weights);

/* Fails unless all workers have the same options, data and matrix unit. */
ls_status ls_run_start_agree(ls_world *world, const ls_identity *identity);

/* Each fills the trainer's weights, and adds its fields to the identity. */
ls_status ls_run_start_seed(ls_trainer *trainer);
ls_status ls_run_start_weights(ls_trainer *trainer, ls_weights *weights, ls_identity *identity);
/* Resumes from the newest intact checkpoint of the store and logs damaged ones that it skips. A run that was stopped
 * before its first checkpoint starts again (`*anew`) from `weights` (NULL: from the seed), which its identity must
 * allow. */
ls_status ls_run_start_resume(ls_trainer *trainer, ls_store *store, const ls_run_dir *dir, ls_weights *weights,
                              ls_identity *identity, bool *anew);
/* `weights` come from a checkpoint; moments, step and, with the same data, position are taken over. `*parent` gets the
 * identity of the parent, the caller's to destroy. --steps must be more than the parent has done. */
ls_status ls_run_start_fork(ls_trainer *trainer, ls_weights *weights, ls_identity *identity, ls_identity **parent);

#endif
