/* state_hash.h: one hash of everything that determines how a run continues after a step: weights, optimizer state and a
 * few numbers. It is the same under every layout and on every device, so it verifies a state that was loaded, moved to
 * another layout, or assembled from surviving workers.
 *
 * Trainer, checkpoints (folder/load.c) and recovery (recover/) use it. The hash comes from a sum over all elements that
 * each worker adds its part to, in any order (numerics/state_sum.h). It needs no message of its own: the sum of a
 * step's state is sent with the losses of the next step. A run with
 * --check off has no hash. */
#ifndef LS_RUN_STATE_HASH_H
#define LS_RUN_STATE_HASH_H

#include "run/trainer.h"

/* Returns whether the run has a state hash, that is, whether --check is not off. */
bool ls_trainer_has_state_hash(const ls_trainer *trainer);

/* Returns the state hash, given the sum of all workers' parts: combines it with the trainer's present step, position in
 * the data, number of updates, and exponent and counters of the loss scale. */
ls_hash128 ls_trainer_state_hash_of(const ls_trainer *trainer, ls_hash128 sum);

/* Computes the state hash after the last step, from the sums that the update made of what it wrote, and sets
 * trainer->state. LS_ERR_INPUT if the run has no state hash, as from the next two functions. Collective. For tests. */
ls_status ls_trainer_state_hash(ls_trainer *trainer, ls_hash128 *out);
/* Computes the state hash from the values that are in memory now; trainer->state stays. A rebuilt state is valid if
 * this hash equals the one recorded for its step. Collective. For tests. */
ls_status ls_trainer_state_hash_now(ls_trainer *trainer, ls_hash128 *out);

/* Sets trainer->state (hash, sum, parts) to that after the last step, as written, without waiting for the next step.
 * Collective. */
ls_status ls_trainer_know_state(ls_trainer *trainer);
/* Verifies, before a state is saved, that it is finite and that memory still holds the values that were written, and
 * sets trainer->state to their hash. Fails with LS_ERR_FAILED, naming worker and tensor, if a value has changed, which
 * it also reports as an event, and naming the tensor if a value is not finite. With --check off, checks only that it is
 * finite. Collective. */
ls_status ls_trainer_prove_state(ls_trainer *trainer);

/* Accepts the present weights and optimizer state as correct: sums them as they are in memory. Call it after they were
 * written other than by an update. The hash of the state is then not known (state.step −1) until the next step or
 * ls_trainer_know_state(). Does nothing with --check off. Not collective. */
ls_status ls_trainer_state_written(ls_trainer *trainer);

#endif
