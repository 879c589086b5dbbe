/* left.h: the state that a worker leaves in shared memory, so that the run can continue with other workers after one is
 * lost, or after a resize: tensors, and the numbers of its last step. Only in runs with a supervisor, which starts the
 * next set of workers, the next attempt (comm/world/attempt.h); without one these functions do nothing. Trainer and
 * loop call them in each worker.
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
 * no such hash if not all of them completed the last update, or with --check off. The state is then used if copies of
 * it (copies.h) equal their originals; without copies it is used unverified, unless the workers left because of damage.
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

/* The numbers of a trainer after a step, the same on all workers. */
typedef struct ls_left_numbers {
    int64_t step, base_step, lr_start, updates; /* steps done, ls_fork_origin, updates of the optimizer */
    uint64_t base_samples;                      /* ls_fork_origin.samples */
    double last_loss;
    ls_validation validation;
    ls_loss_scale scale;
    int64_t noise[LS_NOISE_WORDS], outlier[LS_OUTLIER_WORDS], audits, audited_step;
    int64_t saved_step;     /* newest step with a checkpoint, as the loop knows it; −1: none */
    bool settled;           /* evaluation, sample and checkpoint that were due after the step are done */
    bool pending;           /* the update may not be finished everywhere; below, what it does */
    ls_optimizer_update by; /* update number `updates` */
    ls_step_result result;  /* of the step */
    double peak_flops_s;    /* measured peak of all devices, for as many workers as now; 0: not known */
} ls_left_numbers;

/* Measured speeds of replicas, for a new distribution of the gradient groups (run/shares.h). */
typedef struct ls_left_shares {
    int rows;                      /* replicas; 0: no request */
    double speeds[LS_WORKERS_MAX]; /* groups per millisecond, by replica */
    char text[160];                /* why, for the log */
} ls_left_shares;

typedef struct ls_left ls_left;

/* ---- of a worker ------------------------------------------------------------------------------------------------- */

/* Makes the records in shared memory where the supervisor and the next workers find what this worker leaves, and on a
 * CPU lists the tensors of the partition there; tensors of a GPU are listed by ls_left_rescue(). Fails only for lack of
 * memory. */
ls_status ls_left_open(ls_recover *self, ls_world *world);
/* Frees the shared memory that workers first, first + step, … of the previous attempt left and that recovery does not
 * need: all but their numbers, lists, tensors and journals. */
void ls_left_trim(const ls_segment *before, int first, int step);
/* Fills weights and optimizer state from what the previous attempt left, and sets *out to its numbers. Completes an
 * update that was interrupted first. LS_ERR_INPUT, or LS_ERR_PEER on workers that only learn of it, if the state is
 * incomplete or damaged; optimizer state is then 0, *out may be set, and the caller resumes from the newest checkpoint.
 * Collective. */
ls_status ls_left_take(ls_recover *self, ls_world *world, ls_left_numbers *out);
/* Sets this worker's optimizer state to 0, so that a run that starts again does not begin with a part of what was
 * taken. Ignores failures. */
void ls_left_forget(ls_recover *self);
/* Writes the first numbers: from now on this worker's state can be taken over. `taken`: the numbers that came from a
 * previous attempt; NULL: the state has another origin. */
ls_status ls_left_begin(ls_recover *self, ls_left_numbers now, const ls_left_numbers *taken);

/* Keeps the measured FLOP/s of all devices for a later attempt with as many workers. */
void ls_left_note_peak(ls_recover *self, double flops_s);
/* Records that this worker begins step number `step`, counted from 1, so that the supervisor knows in which step it was
 * lost. */
void ls_left_try(ls_recover *self, int64_t step);
/* Records the decision of a step, before anything is changed: from here on the step counts as made, and is completed if
 * workers are lost. `now` has the numbers before it, but counts its update. `by`: the update; NULL: there is none. */
void ls_left_commit(ls_recover *self, ls_left_numbers now, const ls_step_result *result, const ls_optimizer_update *by);
/* Records this worker's part of the state hash after a step that is done, if there are hashes and the device is a CPU
 * (for a GPU see ls_left_rescue()). */
ls_status ls_left_stepped(ls_recover *self, int64_t step);
/* Marks, in the stream of a GPU, that update number `updates` is launched: the device finishes it even if other workers
 * are lost. A CPU needs no mark. */
ls_status ls_left_mark(ls_recover *self, int64_t updates);
/* Copies the state from device memory to shared memory before this worker leaves. Does nothing on a CPU, whose state is
 * there already, if it was done, before the first ls_left_mark(), or on a device that cannot. Not collective; uses no
 * other worker. */
ls_status ls_left_rescue(ls_recover *self, ls_world *world);
/* Records that evaluation, sample and checkpoint after the last step are done. `saved_step`: newest step that is
 * certainly saved, −1: none. */
void ls_left_settle(ls_recover *self, ls_left_numbers now, int64_t saved_step);

/* Records that the memory of this worker is damaged (the last update skipped a damaged block), so that recovery uses no
 * part of it. */
void ls_left_note_damage(ls_recover *self);
/* Records why all workers leave, for the supervisor: a worker has wrong numbers. */
void ls_left_blame(ls_recover *self, const ls_wrong *blame);
/* Records, for the supervisor, that all workers leave so that gradient groups are redistributed by speed. */
void ls_left_share(ls_recover *self, const ls_left_shares *shares);

/* ---- of the supervisor ------------------------------------------------------------------------------------------- */

/* Returns why the workers of a segment (the shared memory of an attempt) left; `is_found` false: not because of wrong
 * numbers. */
ls_wrong ls_left_blamed(const ls_segment *segment);
/* Notes in the segment that the place (cores or GPU) of the blamed worker is not used any more, so that the next
 * attempt records it in the metrics. */
void ls_left_leave_out(const ls_segment *segment);
/* Returns the request for other shares that the workers of a segment left; `rows` 0: none. */
ls_left_shares ls_left_shared(const ls_segment *segment);
/* Sets *done to the steps that the workers of a segment committed, and *tried to the step that worker `local` had
 * begun; −1: not known, as *tried for local −1. */
void ls_left_look(const ls_segment *segment, int local, int64_t *done, int64_t *tried);

#endif
