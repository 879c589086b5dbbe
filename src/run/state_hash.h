/* state_hash.h: one hash of everything that determines how a run continues after a step: weights, optimizer state and a
 * few numbers. It is the same under every layout and on every device, so it verifies a state that was loaded, moved to
 * another layout, or assembled from surviving workers.
 *
 * It needs no message of its own: the sum of a step's state is sent with the losses of the next step. A run with
 * --check off has no hash. */
#ifndef LS_RUN_STATE_HASH_H
#define LS_RUN_STATE_HASH_H

#include "run/trainer.h"

bool ls_trainer_has_state_hash(const ls_trainer *trainer);

/* Of sums of all workers: with the trainer's step, position in the data, updates and loss scale as they are now. */
ls_hash128 ls_trainer_state_hash_of(const ls_trainer *trainer, ls_hash128 sum);

/* This worker's part of the sum, as the last update wrote it; no other worker is asked. Parts add up with
 * ls_state_add() (numerics/state_sum.h). */
ls_status ls_trainer_state_part(ls_trainer *trainer, ls_hash128 *part);

/* All workers together: the hash after the step that was done last, as the update wrote it, */
ls_status ls_trainer_state_hash(ls_trainer *trainer, ls_hash128 *out);
/* and as memory has it now. A state that was rebuilt is to be trained on if this is the hash recorded for its step. */
ls_status ls_trainer_state_hash_now(ls_trainer *trainer, ls_hash128 *out);

/* All workers together: from now on trainer->state has the hash after the last step. */
ls_status ls_trainer_know_state(ls_trainer *trainer);
/* All workers together: finds out whether memory still has what was written, names worker and tensor where it has not,
 * and then trainer->state has the hash. Before a state is saved. */
ls_status ls_trainer_prove_state(ls_trainer *trainer);

/* Call after weights or optimizer state were written from outside: takes their present values as correct. */
ls_status ls_trainer_state_written(ls_trainer *trainer);

#endif
