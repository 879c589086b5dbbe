/* trainer.h: one model that learns step by step, on one worker or on all workers of a layout.
 *
 * Every worker of the layout has a trainer, and all of them make the same calls in the same order from one thread each:
 * unless it says otherwise, a call is collective and gives the same result on all workers. The caller owns the
 * trainer and what it borrows: data, device and world, which outlive it. A trainer prints nothing and writes no
 * files. The loop around it does (loop.h); verify and other trials make steps themselves (lab/trial.h). */
#ifndef LS_RUN_TRAINER_H
#define LS_RUN_TRAINER_H

#include "optim/clip.h"
#include "parallel/partition/partition.h"
#include "run/guard/event.h"
#include "run/guard/guard.h"
#include "run/guard/watch.h"
#include "run/recover/left.h"
#include "run/room.h"
#include "run/settings.h"
#include "run/step/step_checks.h"
#include "run/step/step_result.h"
#include "run/trainer_input.h"
#include "run/validation.h"
#include "run/worker_time.h"

/* A status, without a message, that a gradient or an evaluation returns on all workers if one of them abandoned it to
 * stop in time. Not an ls_status of lockstep.h, and never passed to its callers. */
#define LS_TRAINER_GAVE_UP ((ls_status)-2)

/* Callbacks that ask this worker to stop; called within steps and evaluations, so they must be fast. May be empty. */
typedef struct ls_trainer_asked {
    int (*signal)(void *ctx);    /* received by this worker, or told by another one; 0: none (loop.c: asked) */
    bool (*gives_up)(void *ctx); /* the current work must be abandoned */
    void *ctx;
} ls_trainer_asked;

/* Where a trainer runs; borrowed. */
typedef struct ls_trainer_place {
    ls_device *device;
    ls_world *world;  /* NULL: one worker alone */
    ls_layout layout; /* micro 0: chosen here, the same on all workers */
} ls_trainer_place;

/* The hash of the state (weights, optimizer state and a few numbers: state_hash.h) after a step, as all workers know
 * it. */
typedef struct ls_state_seen {
    bool is_summed;       /* the partition keeps sums of its state; false: not since it was loaded */
    int64_t step;         /* step after which the state has this hash; −1: none is known */
    ls_hash128 hash, sum; /* the hash, and the sum over all workers that it is made from */
    ls_hash128
        *parts; /* owned; of this worker, by parameter and tensor, when the sum was given; NULL with --check off */
} ls_state_seen;

/* Where a fork began; of any other run 0. */
typedef struct ls_fork_origin {
    int64_t step;     /* of the parent */
    uint64_t samples; /* the position in the data there */
    int64_t lr_start; /* step from which the learning-rate schedule counts */
} ls_fork_origin;

/* Why the last step failed, and what that leaves. */
typedef struct ls_step_failure {
    ls_wrong blame;   /* the worker at fault, if there is one */
    bool is_damaged;  /* a check found weights or optimizer state that fail their checksum; stays set */
    bool ended_whole; /* the step failed on all workers, and weights and optimizer state are unchanged */
} ls_step_failure;

struct ls_trainer {
    /* fixed */
    ls_settings settings;
    ls_layout layout;
    ls_device *device; /* borrowed */
    ls_room room;      /* of all workers, before this run took any */
    ls_world *world;   /* borrowed; NULL: one worker alone */
    ls_mesh *mesh;
    int rank, threads;       /* of this worker */
    ls_model *model;         /* owned; the shape as a list of blocks */
    ls_partition *partition; /* owned; this worker's part of the model and its memory */
    ls_trainer_input input;
    /* after the last step */
    int64_t step;    /* steps done */
    int64_t updates; /* of the optimizer: steps that were not skipped */
    ls_fork_origin origin;
    double last_loss; /* NaN before the first step */
    ls_validation validation;
    ls_adamw_powers powers; /* powers of beta1 and beta2 for the bias correction */
    ls_loss_scale scale;
    ls_clip clip; /* of the last gradients */
    ls_state_seen state;
    /* during a step */
    ls_guard guard;
    ls_step_checks checks;
    ls_step_failure failure;
    ls_worker_time time;
    int64_t *sums;        /* what all workers add up after backward (step_pass.c) */
    ls_event_sink events; /* set by the caller; may be empty */
    ls_trainer_asked asked;
    ls_recover recover;
};

/* Creates a trainer without weights: folder/run_start.h, or recovery, fills them. Chooses the micro-batch if the layout
 * has none (micro 0). LS_ERR_RESOURCE if the partition does not fit into memory; LS_ERR_INPUT for --early-stop without
 * validation data. On failure *out is NULL and nothing is left to release. */
ls_status ls_trainer_create(const ls_settings *settings, const ls_trainer_place *place, const ls_trainer_data *data,
                            ls_trainer **out);
/* Not collective, except that communicators of the mesh are closed together. NULL does nothing. */
void ls_trainer_destroy(ls_trainer *trainer);

/* Sets the callbacks that ask this worker to stop; replaces earlier ones. Not collective. */
void ls_trainer_set_asked(ls_trainer *trainer, ls_trainer_asked asked);
/* Sets *out to whether any worker abandoned its work since the last call, and ends that state. Call it after work that
 * calls the partition directly, such as ls_generate(). Without a gives_up callback *out is false, without
 * communication. */
ls_status ls_trainer_has_given_up(ls_trainer *trainer, bool *out);

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* Makes one step: gradient, judgement by the guards, update. `stop` is a signal that this worker received, or 0, plus
 * its LS_REQUEST_* bits. Also returns LS_OK if the step was abandoned (result->gave_up, nothing changed) or skipped
 * (result->skipped). Fails as ls_trainer_gradients() and ls_trainer_update() do. */
ls_status ls_trainer_step(ls_trainer *trainer, int stop, ls_step_result *result);

/* The first half of a step, for callers that use the gradients before the update: computes the gradient to use, after
 * all judgements, into the partition. Returns LS_TRAINER_GAVE_UP if a worker abandoned the step. Fails if the run
 * cannot continue: a value that is not finite again when repeated, overflow at the lowest loss scale, an outlier with
 * --on-outlier stop, an audit or a check that found a faulty worker. The weights are then unchanged, and `failure`
 * tells the cause. */
ls_status ls_trainer_gradients(ls_trainer *trainer, int stop, ls_step_result *result);
/* The second half: applies the gradient with the optimizer, if result->finite, publishes the new weights to all
 * workers, and counts the step. Fails if a check finds that replicas differ after it: the step is then not counted, but
 * the weights have changed. */
ls_status ls_trainer_update(ls_trainer *trainer, const ls_step_result *result);

/* Parts of the first half, for callers that compute the gradients themselves: */
/* Returns the factor with which backward starts, a power of two: the loss scale over the number of tokens that take
 * part, rounded up to a power of two, so that fp16 gradients stay in range. Not collective. */
float ls_trainer_backward_start(const ls_trainer *trainer);
/* Sums loss, squared gradient norm, requests and measurements over all workers, and computes *result and trainer->clip
 * (the factor of the update). Call it when the partition has its gradients. `loss` is the loss that this worker
 * reports; NULL: that of the partition. Returns LS_TRAINER_GAVE_UP if a worker abandoned the pass; fails if a worker's
 * memory is damaged. */
ls_status ls_trainer_judge(ls_trainer *trainer, int stop, const ls_loss_sum *loss, ls_step_result *result);
/* Returns the number of elements (64-bit words) of trainer->sums, which one all-reduce adds up after backward. Not
 * collective. */
size_t ls_trainer_sums(const ls_trainer *trainer);

/* Computes the mean loss over the first `batches` batches of the validation data, or over all of it if that is less,
 * and *right: for an image model the accuracy from 0 to 1, otherwise −1. *loss is NaN if a loss is not finite.
 * trainer->input.has_val must be true. Returns LS_TRAINER_GAVE_UP, without setting either, if a worker abandoned it. */
ls_status ls_trainer_evaluate(ls_trainer *trainer, int64_t batches, double *loss, double *right);

/* Sets *out to whether weights and optimizer state of all workers are finite, as they must be before they are saved
 * after a failure. */
ls_status ls_trainer_is_finite(ls_trainer *trainer, bool *out);

/* ---- before there is a trainer; these three are not collective --------------------------------------------------- */

/* Sets layout->micro (sequences) to a micro-batch that fits into the memory of all workers: the largest useful one,
 * else the first of its halves that does. Memory is that of `room`, or that of this machine if `room` is NULL or not
 * known. The smallest legal one is taken without a check. May fail while it measures. */
ls_status ls_trainer_choose_micro(const ls_room *room, const ls_settings *settings, ls_layout *layout);
/* Returns the settings as functions of parallel/layout take them; borrows the model. */
ls_layout_task ls_trainer_task(const ls_settings *settings, const ls_model *model);
/* Returns the setup of the partition of worker `rank`; the caller sets world and mesh, which are NULL. */
ls_partition_setup ls_trainer_setup(const ls_settings *settings, const ls_layout *layout, int rank);

/* ---- recovery (recover/left.h) ----------------------------------------------------------------------------------- */

/* Returns the trainer's numbers (step, position in the data, loss scale, history of the guards …) as the next attempt
 * needs them to continue after the present step. saved_step is −1: the loop knows it. */
ls_left_numbers ls_trainer_numbers(const ls_trainer *trainer);
/* Takes the state that the workers of the previous attempt left in shared memory, and its numbers, which *out gets.
 * Fails as ls_left_take() does, with LS_ERR_INPUT, or LS_ERR_PEER on workers that only learn of it, if the state is
 * incomplete; optimizer state is then 0. Collective. */
ls_status ls_trainer_take_over(ls_trainer *trainer, ls_world *world, ls_left_numbers *out);
/* Call once, when the trainer has its first state: from now on another attempt can continue if a worker is lost.
 * `taken` is what ls_trainer_take_over() gave, or NULL. Does nothing without a supervisor. */
ls_status ls_trainer_begin_recovery(ls_trainer *trainer, const ls_left_numbers *taken);

#endif
