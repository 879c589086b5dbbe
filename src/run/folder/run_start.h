/* run_start.h: starts a run from the seed, from given weights, from its own last checkpoint, or from another run's (a
 * fork). api/run_work.c calls it after the trainers exist.
 *
 * Identity fields record the start, so that a resumed run has the same identity:
 *   start           hash of the weights it began with; absent: made from the seed
 *   start-step      of a fork: steps that the parent had done
 *   start-samples   of a fork: the parent's position in the data; 0 if data, val-fraction, seq or seed is another
 *   lr-start-step   of a fork: the step from which warm-up and decay count; absent: from 0, as in forks of version 0.1,
 *                   with the schedule step, and with constant if its warm-up is the parent's
 *
 * All calls are collective. Each worker has the identity and has opened the weights (ls_run_start_model); only rank 0
 * has the store and run directory, the others may pass NULL. Rank 0 checks and decides; if one worker fails, all fail
 * with one message (run/agree.h). */
#ifndef LS_RUN_FOLDER_RUN_START_H
#define LS_RUN_FOLDER_RUN_START_H

#include "interop/weights.h"
#include "run/folder/run_dir.h"
#include "run/folder/save.h"
#include "run/trainer.h"

/* Resolves --model for all workers of `world` (NULL: one alone), as ls_weights_resolve() does: rank 0 verifies
 * checksums and tells the others what to open. `model` is rank 0's. The caller closes *weights on every worker; NULL:
 * there is only a shape. */
ls_status ls_run_start_model(ls_world *world, const char *model, ls_shape *shape, ls_weights **weights);

/* Fails with LS_ERR_INPUT on all workers unless all have the same identity: the same options, data and matrix unit
 * (16-bit matrix instructions). */
ls_status ls_run_start_agree(ls_world *world, const ls_identity *identity);

/* Initializes the weights from the seed. */
ls_status ls_run_start_seed(ls_trainer *trainer);
/* Loads the weights, rounds and distributes them, and adds their hash to the identity as "start". */
ls_status ls_run_start_weights(ls_trainer *trainer, ls_weights *weights, ls_identity *identity);
/* Resumes from the newest sound checkpoint of the store, and logs damaged ones that it skips; newer ones are set aside.
 * The identity gets the start fields of the saved one, and must then equal it. A run that was stopped before its first
 * checkpoint starts again (`*anew`) from `weights` (NULL: from the seed), which its identity must allow. */
ls_status ls_run_start_resume(ls_trainer *trainer, ls_store *store, const ls_run_dir *dir, ls_weights *weights,
                              ls_identity *identity, bool *anew);
/* Starts from another run's checkpoint, in `weights`: takes over weights, optimizer state, step and, with the same
 * data, sequence length and seed, the position in it; adds the start fields to the identity. The caller destroys
 * *parent, the identity of the parent, also after a failure. LS_ERR_INPUT unless --steps is more than the parent has
 * done. */
ls_status ls_run_start_fork(ls_trainer *trainer, ls_weights *weights, ls_identity *identity, ls_identity **parent);

#endif
