/* loop.h: a training run around a trainer: metrics, evaluations, samples, checkpoints, an orderly stop.
 *
 * All workers make every call together; the first one reports for all of them, through the event function. A signal to
 * any of them stops all after the step, or within it where there is no time for that: see "Stopping in time" in loop.c.
 * The event of a step comes after its metrics, a checkpoint after the events of
 * its steps, so what a run directory says was done was done.
 *
 * 1. Metrics that cannot be written do not end a run: they are missed, with a warning at once and one at the end that
 *    tells which steps.
 * 2. A checkpoint that cannot be written, as on a disk that is full, does not end a run either: that is said, aloud,
 * and tried again when the next one is due. Only the last one of a run must be there.
 * 3. After any other failure ls_loop_run() first saves the last step that was done, where its state is sound: all
 *    workers left the step alike and before its update, every weight and moment is finite, and no check found them
 *    changed. A checkpoint that was made so removes no older one. */
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

/* When what follows the loss of a worker was done, after ls_attempt's seen_ns and begun_ns. */
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

/* From here to ls_loop_end() signals ask for an orderly stop (stop.h). The loop stays where it is meanwhile. */
ls_status ls_loop_begin(ls_loop *loop);
void ls_loop_end(ls_loop *loop);

/* As often as the settings say, up to their last step. Ends with LS_OK, or as ls_stop_status() says after a signal:
 * then the step was finished, or given up, and the last one that was done is saved. */
ls_status ls_loop_run(ls_loop *loop);

/* What it is made of, for a caller with a loop of its own. A step after which all shall stop is LS_OK here, and `stop`
 * is set; also one that was given up, which has then not been made: `step` of the trainer tells. So is an evaluation:
 * of one that was given up the loss is NaN. */
ls_status ls_loop_step(ls_loop *loop, ls_step *out);
ls_status ls_loop_evaluate(ls_loop *loop, ls_evaluation *out);
/* When it returns the checkpoint is on disk. Nothing where this step is saved. */
ls_status ls_loop_save(ls_loop *loop);

#endif
