/* loop.h: a training run around a trainer: metrics, evaluations, samples, checkpoints, an orderly stop.
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
 *    the step before its update, weights and optimizer state are finite, and no check failed. This checkpoint removes
 *    no older one. */
#ifndef LS_RUN_LOOP_H
#define LS_RUN_LOOP_H

#include "observe/metrics.h"
#include "run/folder/state_log.h"
#include "run/generate.h"
#include "run/folder/saver.h"
#include "run/progress.h"
#include "run/recover/left.h"
#include "run/shares.h"
#include "run/trainer.h"

/* Times of a recovery after a lost worker; ls_attempt has the earlier ones, seen_ns and begun_ns. */
typedef struct ls_recovery {
    uint64_t made_ns;  /* data, device and trainer */
    uint64_t taken_ns; /* the state */
    uint64_t ready_ns; /* all else: the first step may begin */
} ls_recovery;

typedef struct ls_loop {
    ls_trainer *trainer;
    const ls_identity *identity;
    bool saves;
    ls_store *store;               /* of the first worker, if anything is saved */
    ls_metrics *metrics;           /* of the first worker */
    const ls_tokenizer *tokenizer; /* NULL: no samples */
    ls_generate_options sample;
    const int32_t *prompt;
    size_t prompt_tokens;
    double peak_flops_s;          /* of all workers' devices; 0: MFU is not known */
    ls_world *world;              /* of a run that is supervised (comm/attempt.h); else NULL */
    const ls_left_numbers *taken; /* what the attempt before left (recover/left.h); NULL: this is the first */
    ls_recovery recovery;         /* then, of this worker */
    bool may_share;               /* groups may be redistributed (shares.h), */
    int shared_times;             /* which was done so often, */
    double shared_s;              /* last then, */
    double cost_s;                /* and costs so much */
    const char *folder;           /* of the run, that all workers see; NULL: none */
    ls_run_event_fn event;        /* NULL: not asked for */
    void *event_ctx;
    ls_run_summary summary; /* filled, on the first worker */
    /* private */
    double flops;         /* of a step */
    double gpu_wait_ms;   /* of the last step: that the host waited for its GPU; below 0: there is none */
    double memory_s;      /* when memory was last recorded; 0: not yet */
    ls_saver *saver;      /* NULL: nothing is saved */
    bool prepared;        /* whether saves go to the background is decided */
    bool failed;          /* the run */
    double every_s;       /* time between saves; 0: it does not count */
    int64_t saved_step;   /* last, or being saved; −1: none */
    int64_t sound_step;   /* the one before, should that one fail */
    ls_validation before; /* likewise */
    double saved_s;       /* when, or when the run began; by the clock of this worker */
    bool reports;         /* the first worker */
    bool told_start;      /* the metrics have the line that begins what this process adds */
    int stop;             /* signal upon which all workers stop */
    bool gave_up;         /* the step after the last one that was done, to stop in time */
    int requests;         /* of the first worker's clock, or by SIGUSR1; known to all */
    double begin_s;       /* when what is being done began: a step, an evaluation, a sample */
    double usual_s;       /* how long the last one of its kind took; 0: not known */
    double step_s, evaluation_s, sample_s; /* how long the last ones took */
    double save_s;                         /* the longest save so far */
    ls_share_watch share_watch;            /* of the first worker */
    bool shares_anew;                      /* it has asked all to leave for other shares */
    bool leaves;                           /* the supervisor has asked all workers to leave, and they do */
    bool in_step;                          /* what fails is a step */
    bool in_save;                          /* what fails is a checkpoint */
    int64_t lost;                          /* lines of metrics that could not be written, */
    int64_t from, to;                      /* of steps from … to */
    ls_state_log *states;                  /* of this worker; NULL: not opened yet, */
    bool states_are_lost;                  /* or it cannot be written */
} ls_loop;

/* Until ls_loop_end() signals request an orderly stop (stop.h). The struct must not be moved in between. */
ls_status ls_loop_begin(ls_loop *loop);
void ls_loop_end(ls_loop *loop);

/* Runs all steps of the settings. Returns LS_OK, or ls_stop_status() after a signal: the current step was then finished
 * or abandoned, and the last completed one is saved. */
ls_status ls_loop_run(ls_loop *loop);

/* The parts of the loop, for a caller with its own loop. A step after which all workers must stop returns LS_OK and
 * sets `stop`; so does an abandoned step, which does not count in `step` of the trainer. An abandoned evaluation
 * likewise returns LS_OK, with a loss of NaN. */
ls_status ls_loop_step(ls_loop *loop, ls_step *out);
ls_status ls_loop_evaluate(ls_loop *loop, ls_evaluation *out);
/* Writes a checkpoint, which is on disk on return. Does nothing if this step is saved already. */
ls_status ls_loop_save(ls_loop *loop);

#endif
