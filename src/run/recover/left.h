/* left.h: the state that a worker leaves in shared memory for the next attempt (comm/world/attempt.h), and its last
 * step.
 *
 * A step commits when the exact sums of loss and gradient, which all workers hold, have led to a decision. Each worker
 * records that decision before it changes any state. So after a worker is lost:
 *
 *     no worker recorded step n+1      weights and optimizer state are those of step n; the step is repeated
 *     a worker recorded step n+1       its update is completed from the reduced gradients, which every owner had before
 *                                      it contributed its squares to the sum
 *
 * The update itself is journaled block by block (device/cpu/journal.h). The numbers of a trainer are the same on all
 * workers, so those of the most advanced worker are used.
 *
 * Tensors are passed to the new workers by canonical elements, as through a checkpoint: each old worker lists the
 * pieces that it holds, and each new worker copies the pieces that it needs. The layouts may differ.
 *
 * The assembled state is used only if its hash equals the hash that the old workers recorded after the step. There is
 * no such hash if not all of them completed the last update, or with --check off.
 *
 * Surviving workers copy tensors from device memory to the shared segment before they exit (rescue.c). Of a lost worker
 * only its numbers remain, and what other workers hold of its state. */
#ifndef LS_RUN_RECOVER_LEFT_H
#define LS_RUN_RECOVER_LEFT_H

#include "comm/world/attempt.h"
#include "optim/loss_scale.h"
#include "optim/optimizer.h"
#include "run/guard/event.h"
#include "run/guard/noise.h"
#include "run/recover/recover.h"
#include "run/step/step_result.h"
#include "run/validation.h"

/* A trainer after a step. */
typedef struct ls_left_numbers {
    int64_t step, base_step, lr_start, updates;
    uint64_t base_samples;
    double last_loss;
    ls_validation validation;
    ls_loss_scale scale;
    int64_t noise[LS_NOISE_WORDS], outlier[LS_OUTLIER_WORDS], audits, audited_step;
    int64_t saved_step;     /* of the loop */
    bool settled;           /* evaluation, sample and checkpoint that were due after the step are done */
    bool pending;           /* the update may not be finished everywhere; below, what it does */
    ls_optimizer_update by; /* number `updates` */
    ls_step_result result;
    double peak_flops_s; /* that as many workers reached, as was measured; 0: not known */
} ls_left_numbers;

/* Measured speeds of replicas (run/shares.h). */
typedef struct ls_left_shares {
    int rows; /* 0: no request */
    double speeds[LS_WORKERS_MAX];
    char text[160];
} ls_left_shares;

typedef struct ls_left ls_left;

/* ---- of a worker ------------------------------------------------------------------------------------------------- */

/* Lists the tensors of the partition in memory of the world. Does nothing without a supervisor. */
ls_status ls_left_open(ls_recover *self, ls_world *world);
/* Frees the memory that workers first, first + step, … of the previous attempt left and no worker needs. */
void ls_left_trim(const ls_segment *before, int first, int step);
/* Collective: fills weights and optimizer state from what the previous attempt left, and sets *out to its numbers.
 * Fails with LS_ERR_INPUT on all workers if the state is incomplete or damaged; the caller then resumes from the newest
 * checkpoint. */
ls_status ls_left_take(ls_recover *self, ls_world *world, ls_left_numbers *out);
/* Sets the optimizer state to 0, so that a run that starts again does not begin with a part of what was taken. */
void ls_left_forget(ls_recover *self);
/* Records the first numbers. `taken` NULL: they are not those of a previous attempt. */
ls_status ls_left_begin(ls_recover *self, ls_left_numbers now, const ls_left_numbers *taken);

/* Keeps the measured rate of the devices for a later attempt with as many workers. */
void ls_left_note_peak(ls_recover *self, double flops_s);
/* Records that a step begins, counted from 1. */
void ls_left_try(ls_recover *self, int64_t step);
/* Records the decision of a step; `now` has the numbers before it, but counts its update. `by` NULL: there is none. */
void ls_left_commit(ls_recover *self, ls_left_numbers now, const ls_step_result *result, const ls_optimizer_update *by);
/* Records that the step is done, with this worker's part of the state hash if there is one (state_hash.h). */
ls_status ls_left_stepped(ls_recover *self, int64_t step);
/* Records that the launch of an update is complete: the device finishes it even if other workers are lost. */
ls_status ls_left_mark(ls_recover *self, int64_t updates);
/* Copies device memory to the shared segment before this worker leaves. */
ls_status ls_left_rescue(ls_recover *self, ls_world *world);
/* Records that evaluation, sample and checkpoint after the last step are done. */
void ls_left_settle(ls_recover *self, ls_left_numbers now, int64_t saved_step);

/* Records that the memory of this worker is damaged (the last update skipped a block), so that no part of it is used.
 */
void ls_left_note_damage(ls_recover *self);
/* Records why all workers leave: the next attempt excludes the faulty worker. */
void ls_left_blame(ls_recover *self, const ls_wrong *blame);
/* Records that all workers leave so that groups are redistributed by speed. */
void ls_left_share(ls_recover *self, const ls_left_shares *shares);

/* ---- of the supervisor ------------------------------------------------------------------------------------------- */

/* Returns why the workers of a segment left; `is_found` false: they were asked to, or one was lost. */
ls_wrong ls_left_blamed(const ls_segment *segment);
/* Tells the next attempt to record that the place of that worker is excluded. */
void ls_left_leave_out(const ls_segment *segment);
ls_left_shares ls_left_shared(const ls_segment *segment);
/* Steps that were committed, and the step that worker `local` was trying; −1: not known. */
void ls_left_look(const ls_segment *segment, int local, int64_t *done, int64_t *tried);

#endif
