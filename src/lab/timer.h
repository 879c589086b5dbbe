/* timer.h: measures the time of a call. Bench and probe measure everything that is not a training step with this.
 *
 *     warm-up    batches of 1, 4, 16, … calls until one lasts a fifth of a sample, which tells how long a call takes
 *     samples    each as many calls as last about sample_s, 1 to 20,000
 *
 * Where workers make the calls together, each batch begins behind a barrier, and worker 0's clock decides how many
 * calls and samples all of them make. */
#ifndef LS_LAB_TIMER_H
#define LS_LAB_TIMER_H

#include "base/stats.h"
#include "base/status.h"

enum { LS_TIMER_SAMPLES_MAX = 64 };

typedef struct ls_timer {
    ls_comm *comm;                /* of the workers that make the calls together; NULL: this one alone */
    double sample_s, total_s;     /* seconds that one sample, and all of them, should last */
    int samples_min, samples_max; /* bounds of their number, which come before total_s; at most LS_TIMER_SAMPLES_MAX */
} ls_timer;

typedef struct ls_timing {
    int samples;
    double seconds[LS_TIMER_SAMPLES_MAX]; /* of one call, by sample */
} ls_timing;

typedef ls_status (*ls_timer_call)(void *ctx);

/* Measures the call: fills `out` with the seconds of one call in each sample. Ends at the first failure of a call.
 * Collective if the timer has a communicator. */
ls_status ls_timer_run(const ls_timer *timer, ls_timer_call call, void *ctx, ls_timing *out);

#endif
