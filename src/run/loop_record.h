/* loop_record.h: the metrics of a run, as its loop writes them on rank 0; private to loop*.c.
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
    bool told_start;      /* the line that begins what this process adds is written */
    double memory_s;      /* when memory was last recorded; 0: not yet */
    int64_t lost;         /* lines that could not be written, */
    int64_t from, to;     /* of these steps */
    ls_state_log *states; /* of this worker; NULL: not opened yet */
    bool states_are_lost; /* the log cannot be written */
} ls_loop_record;

/* Records a step, before it the line that begins this process, and after it numerics if they are due. gpu_wait_ms: how
 * long the host waited for its GPU; below 0: there is none. */
void ls_loop_record_step(ls_loop *loop, const ls_step_result *result, const ls_step *step, double gpu_wait_ms);
/* Appends the sums of the state to the log that `lockstep bisect` reads. On every worker. */
void ls_loop_record_state(ls_loop *loop);
void ls_loop_record_event(ls_loop *loop, const ls_train_event *event);
void ls_loop_record_evaluation(ls_loop *loop, const ls_evaluation *evaluation);
/* Records a generated text, cut to a bounded length. */
void ls_loop_record_sample(ls_loop *loop, const char *text, size_t bytes);
/* Records that a checkpoint was saved, or why not, so that a resumed run that does not find it can tell. */
void ls_loop_record_save(ls_loop *loop, const ls_save_outcome *outcome);
/* Records why the run stops before its last step. */
void ls_loop_record_stop(ls_loop *loop, const char *reason);
/* Warns of missing lines and closes the log. */
void ls_loop_record_end(ls_loop *loop);

#endif
