/* loop.h: a training run around a trainer: progress, evaluations, samples, metrics, checkpoints, an orderly stop.
 *
 * All workers run it together; the first one speaks for all of them. A signal to any of them stops all after the step.
 *
 * Writes to the stream it is given. A step's line comes after its metrics, a checkpoint after the lines of its steps,
 * so what a run directory says was done was done. Ends with LS_OK, or as ls_stop_status() says after a signal: then the
 * step was finished and saved.
 *
 * 1. What cannot be printed or recorded does not end a run: progress is dropped; metrics are missed, with a warning at
 *    once and one at the end that tells which steps.
 * 2. After any other failure the last step that was done is saved first, where its state is sound: all workers left the
 *    step alike and before its update, every weight and moment is finite, and no check found them changed. A checkpoint
 *    that was made so removes no older one. */
#ifndef LS_RUN_LOOP_H
#define LS_RUN_LOOP_H

#include <stdio.h>

#include "observe/metrics.h"
#include "run/generate.h"
#include "run/progress/progress.h"
#include "run/folder/save.h"
#include "run/progress/summary.h"
#include "run/trainer.h"

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
    double peak_flops_s; /* of this machine; 0: MFU is not known */
    int64_t log_every;   /* as ls_progress_cadence() takes it */
    FILE *out;
    ls_run_summary summary; /* filled, on the first worker */
} ls_loop;

ls_status ls_loop_run(ls_loop *loop);

#endif
