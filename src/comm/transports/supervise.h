/* supervise.h: runs workers under a supervisor, the process that forks them and, if one is lost, forks all of them
 * again, with their state from shared memory. An attempt is the time between two forks; world/attempt.h is the workers'
 * part. run/recover decides in the callbacks how a run continues. A place is a set of cores and a GPU, by number. */
#ifndef LS_COMM_TRANSPORTS_SUPERVISE_H
#define LS_COMM_TRANSPORTS_SUPERVISE_H

#include "comm/world/attempt.h"

/* Why an attempt ended before the run did. */
typedef struct ls_attempt_end {
    int rank;            /* of the lost worker; −1: all workers left because the supervisor asked them to */
    bool whole;          /* all workers had restored their state, so this attempt's segment is complete */
    ls_segment *segment; /* what to restore from: this attempt's, or the last complete one; base NULL: none */
    const struct ls_placement *placement; /* the cores of each place in this attempt */
    char text[LS_MESSAGE_MAX];            /* why the worker was lost; "" if all left */
    /* Answers of next(). */
    int shares_out;  /* share the cores out again, among this many places; 0 (preset): keep the placement */
    int wrong_place; /* place whose cores compute wrong results, to be avoided once they are shared out again; −1
                      * (preset): none */
} ls_attempt_end;

/* Callbacks of the supervisor, called in the process that forks. */
typedef struct ls_supervision {
    /* Chooses the number of workers of the next attempt and, in `places`, the place of each (its cores and its GPU);
     * both hold those of the last attempt. Called when all workers have ended. A status other than LS_OK ends the run
     * with it. */
    ls_status (*next)(void *ctx, ls_attempt_end *end, int *workers, int *places);
    /* Called ten times a second or more, also while workers start. Returns true, until next() is called, if all workers
     * shall leave after the current step and continue as next() says. NULL: never. */
    bool (*wants_change)(void *ctx);
    void *ctx;
    int places; /* that cores are shared out to: workers, and spares; at least one for each worker */
} ls_supervision;

/* Runs workers like ls_workers_run(), on one machine and under a supervisor, which also forks a single worker. Returns
 * when the last attempt has ended; the options' `workers` is the number of the first attempt. */
ls_status ls_workers_supervise(const ls_workers_options *options, const ls_supervision *supervision, ls_worker_fn fn,
                               void *arg);

#endif
