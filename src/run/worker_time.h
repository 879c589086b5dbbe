/* worker_time.h: how long each worker computes and how long it waits for others, step by step.
 *
 * Measured always: two looks at the clock for a wait that has to wait. What a worker has measured travels with the sum
 * that ends a backward pass (step.c), so no message is added. That sum comes before the update: a step is told with the
 * update of the step before, which is as long. Time between steps (evaluation, checkpoints) is nobody's.
 *
 * With many workers it is the mean over some steps that is told, so that metrics stay small. */
#ifndef LS_RUN_WORKER_TIME_H
#define LS_RUN_WORKER_TIME_H

#include "comm/world.h"

typedef struct ls_worker_time {
    const ls_world *world; /* borrowed; NULL: one worker alone, of whom nothing is told */
    int workers;
    uint64_t since_ns, waited_ns; /* when what is not told yet began; 0: outside a step. World's waiting by then */
    uint64_t busy_left_ns, wait_left_ns; /* of the last step, not told yet */
    int every, steps;                    /* how many steps are told together, and how many have been added up */
    double *busy_ms, *wait_ms;           /* by worker: the sum; once `due`, the mean */
    bool due;                            /* the step that ended was the last of those */
} ls_worker_time;

ls_status ls_worker_time_open(ls_worker_time *time, const ls_world *world);
void ls_worker_time_close(ls_worker_time *time);

/* Around a step. */
void ls_worker_time_begin(ls_worker_time *time);
void ls_worker_time_end(ls_worker_time *time);

/* Before the sum over all workers: fills `words`, one for each worker; after it, takes the sum. */
void ls_worker_time_give(ls_worker_time *time, int64_t *words);
void ls_worker_time_take(ls_worker_time *time, const int64_t *words);

#endif
