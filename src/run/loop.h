/* loop.h: a training run around a trainer: metrics, evaluations, samples, checkpoints, an orderly stop. ls_run_train()
 * and ls_run_step() of the library (api/run_work.c) call it in every worker.
 *
 * All calls are collective; rank 0 reports through the event function. A signal to any worker stops all after the step,
 * or within it if time is short: see "Stopping in time" in loop.c. The event of a step follows its metrics, and a
 * checkpoint follows the events of its steps, so a run directory never claims work that was not done.
 *
 * 1. Metrics that cannot be written do not end a run: a warning follows at once, and another at the end names the steps
 *    that are missing.
 * 2. A checkpoint that cannot be written, for example because the disk is full, does not end a run either: a warning
 *    follows, and the next one is tried when it is due. Only the last checkpoint of a run must succeed.
 * 3. After any other failure ls_loop_run() first saves the last completed step if its state is sound: all workers left
 *    the failed step before its update (outside a step: there is a single worker), it was not a save that failed,
 *    weights and optimizer state are finite, and no check found damage. This checkpoint removes no older one. */
#ifndef LS_RUN_LOOP_H
#define LS_RUN_LOOP_H

#include "run/generate.h"
#include "run/loop_record.h"
#include "run/loop_save.h"
#include "run/progress.h"
#include "run/recover/left.h"
#include "run/shares.h"
#include "run/trainer.h"

/* When the parts of a recovery after a lost worker were complete, by ls_clock_ns(); ls_attempt has the earlier times,
 * seen_ns and begun_ns. */
typedef struct ls_recovery {
    uint64_t made_ns;  /* data, device and trainer were there */
    uint64_t taken_ns; /* the state was taken over */
    uint64_t ready_ns; /* all else was done: the first step may begin */
} ls_recovery;

/* The text that the model continues every --sample-every steps. */
typedef struct ls_loop_sample {
    const ls_tokenizer *tokenizer; /* NULL: no samples */
    ls_generate_options options;
    const int32_t *prompt; /* token ids; borrowed */
    size_t prompt_tokens;
} ls_loop_sample;

/* Whether the gradient groups are redistributed among replicas of different speed, which takes a restart of all workers
 * (shares.h). */
typedef struct ls_loop_shares {
    bool is_allowed; /* the run is supervised, and its layout can be changed so */
    int times;       /* how often this was done, */
    double last_s;   /* when last, by ls_clock_seconds(), */
    double cost_s;   /* and how many seconds it takes */
    /* private */
    ls_share_watch watch; /* of rank 0 */
    bool is_wanted;       /* rank 0 asks all workers to leave for other shares */
} ls_loop_shares;

/* Times in seconds, for the decision whether work that is begun would end within the grace period after a signal. */
typedef struct ls_loop_work {
    double begin_s; /* when the present work (a step, an evaluation, a sample) began, by ls_clock_seconds() */
    double usual_s; /* how long the last one of its kind took; 0: there was none */
    double step_s, evaluation_s, sample_s; /* how long the last ones took */
} ls_loop_work;

/* The caller sets the first members and zeroes the rest. */
struct ls_loop {
    ls_trainer *trainer;
    ls_loop_record record;
    ls_loop_saves saves;
    ls_loop_sample sample;
    ls_loop_shares shares;
    double peak_flops_s;          /* FLOP/s of all workers' devices together; 0: MFU is not known */
    ls_world *world;              /* of a run that is supervised (comm/world/attempt.h); else NULL */
    const ls_left_numbers *taken; /* what the attempt before left (recover/left.h); NULL: this is the first */
    ls_recovery recovery;         /* then, of this worker */
    ls_run_event_fn event;        /* called on rank 0; may be NULL */
    void *event_ctx;
    ls_run_summary summary; /* filled, on rank 0 */
    /* private */
    ls_loop_work work;
    double flops; /* FLOPs of a step, for MFU */
    bool reports; /* this is rank 0 */
    int stop;     /* signal upon which all workers stop; 0: none */
    bool gave_up; /* the step after the last completed one was abandoned, to stop in time */
    bool failed;  /* the run */
    bool in_step; /* ls_trainer_step() has begun and not succeeded: a failure now is one of a step */
    int requests; /* LS_REQUEST_* of any worker in the last step, known to all */
    bool leaves;  /* the supervisor has asked all workers to leave, and they do */
};

/* Passes an event of the run to the caller's callback on rank 0 and returns its status; LS_OK elsewhere. Not
 * collective. */
ls_status ls_loop_report(const ls_loop *loop, ls_run_event event);

/* Prepares the loop for its first step and installs signal handlers (stop.h): until ls_loop_end() signals request an
 * orderly stop. The struct must not be moved in between. */
ls_status ls_loop_begin(ls_loop *loop);
/* Ends saves and records, and restores the signal handlers. To be called also after a failure; not collective. */
void ls_loop_end(ls_loop *loop);

/* Runs all steps of the settings. Returns LS_OK, or the status of ls_stop_status_of() after a signal: the current step
 * was then finished or abandoned, and the last completed one is saved. In a supervised run also returns LS_OK when all
 * workers leave so that the run continues with others (`leaves`): for new shares, for a resize, or because a worker has
 * wrong numbers. */
ls_status ls_loop_run(ls_loop *loop);

/* Makes and records one step, for a caller with its own loop. Returns LS_OK also if all workers must stop after it,
 * which `stop` says, and if it was abandoned: then it does not count in `step` of the trainer, and out->loss is NaN. */
ls_status ls_loop_step(ls_loop *loop, ls_step *out);
/* Evaluates the validation data, records and reports the result. Loss and accuracy (−1: not an image model) are the
 * same on all workers, out->seconds is set on rank 0 alone, and the other members stay 0. Returns LS_OK also if a
 * worker abandoned it to stop in time: then out->loss is NaN, `validation` counts no evaluation, and is_due is set in
 * it. */
ls_status ls_loop_evaluate(ls_loop *loop, ls_evaluation *out);
/* Writes a checkpoint, which is on disk on return. Does nothing if this step is saved already, if nothing is saved at
 * all, or if a signal stops the run before its first step. Fails before it writes if the state is damaged or not
 * finite. */
ls_status ls_loop_save(ls_loop *loop);

#endif
