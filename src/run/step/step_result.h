/* step_result.h: what a training step gives to its caller, the loop; the same on all workers. */
#ifndef LS_RUN_STEP_RESULT_H
#define LS_RUN_STEP_RESULT_H

#include <stdbool.h>

typedef struct ls_step_result {
    double loss;  /* mean over the tokens (or images) of the batch, before the update; NaN if one is not finite */
    double norm;  /* of the gradient, before clipping; NaN if it is not finite */
    double lr;    /* learning rate of the update */
    bool finite;  /* loss and gradient are finite, so the update is made */
    bool skipped; /* fp16 overflowed, so there is no update, and the run continues */
    int scale;    /* exponent of the loss scale, a power of two, in the pass; 0 without fp16 */
    int stop;     /* the signal that stops the run; 0: none */
    int dropped;  /* groups that were left out: those of guard.absent */
    int audited;  /* groups of all replicas that were computed twice and compared; 0: no audit in this step */
    int requests; /* LS_REQUEST_* of any worker */
    bool gave_up; /* all workers abandoned the step, and nothing changed; only `stop` is valid */
} ls_step_result;

/* Requests of one worker (to save, to save if the evaluation is the best, to leave the run), for decisions by its own
 * clock: added to `stop` before a step, known to all after it. */
enum { LS_REQUEST_SAVE = 1 << 8, LS_REQUEST_SAVE_BEST = 1 << 9, LS_REQUEST_LEAVE = 1 << 10 };

#endif
