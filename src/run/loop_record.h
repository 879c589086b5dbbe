/* loop_record.h: the lines of metrics.jsonl and the log of state sums of a run, as the loop writes them; private to
 * loop*.c. Rank 0 alone calls these functions, except ls_loop_record_state(), _stop() and _end(), which every worker
 * calls.
 *
 * Lines that cannot be written never end the run, because its weights are worth more than its metrics: the first such
 * line is a warning at once, and ls_loop_record_end() names the steps whose lines are missing. */
#ifndef LS_RUN_LOOP_RECORD_H
#define LS_RUN_LOOP_RECORD_H

#include "observe/metrics.h"
#include "run/folder/saver.h"
#include "run/folder/state_log.h"
#include "run/progress.h"
#include "run/trainer.h"

typedef struct ls_loop ls_loop;

typedef struct ls_loop_record {
    ls_metrics *metrics; /* borrowed; of rank 0 */
    const char *folder;  /* of the run, visible to all workers, for the log of state sums; NULL: no such log */
    /* private */
    bool told_start;      /* this process has written its line "started", before its first step */
    double memory_s;      /* when memory was last recorded; 0: not yet */
    int64_t lost;         /* lines that could not be written, */
    int64_t from, to;     /* of these steps */
    ls_state_log *states; /* of this worker; NULL: not opened yet */
    bool states_are_lost; /* the log cannot be written */
} ls_loop_record;

/* Writes the line of a step; before the first one the line of the start of this process, and after it lines of
 * --numerics if they are due and the step made an update. gpu_wait_ms: how long the host waited for its GPU in this
 * step; below 0: there is no GPU, and the figure is left out. */
void ls_loop_record_step(ls_loop *loop, const ls_step_result *result, const ls_step *step, double gpu_wait_ms);
/* Appends the checksums of each tensor of the state after the previous step to this worker's log, which `lockstep
 * bisect` reads. Every worker calls it after each step, because those checksums become known only within the next step
 * (state_hash.h); so the last step of a run has none. Does nothing without checksums of the state (--check off) or a
 * folder. After a failure, logs a warning and writes no more. */
void ls_loop_record_state(ls_loop *loop);
/* Writes the line of a guard's event. */
void ls_loop_record_event(ls_loop *loop, const ls_train_event *event);
/* Writes the line of an evaluation after the present step. */
void ls_loop_record_evaluation(ls_loop *loop, const ls_evaluation *evaluation);
/* Writes the line of a generated text, cut to 8 KiB; NUL bytes become question marks. */
void ls_loop_record_sample(ls_loop *loop, const char *text, size_t bytes);
/* Writes the line of a save, also of a failed one, so that a resumed run that does not find the checkpoint can tell. */
void ls_loop_record_save(ls_loop *loop, const ls_save_outcome *outcome);
/* Writes why the run stops, on rank 0, if steps are left and a line of this process exists; else does nothing. */
void ls_loop_record_stop(ls_loop *loop, const char *reason);
/* Warns of missing lines and closes the log of state sums; metrics stay open. */
void ls_loop_record_end(ls_loop *loop);

#endif
