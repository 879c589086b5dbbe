/* scaling.h: fits the times of steps on several numbers of workers by a sum of few terms, and predicts others.
 *
 *     step = s · ((c + d · (1 − 1/W)) · n + f/W + g)  +  idle share · computing  +  other  +  synchronising
 *     synchronising = Σ over kinds of (α · messages + β · bytes), of reduce-scatters the exposed part
 *
 * n is the number of sequences of the worker that has most, W of workers, s of threads per core (at least 1: crowding);
 * d is the loss by sharing memory and caches. Messages and bytes are known (parallel/traffic.h); c, d, f, g, α, β, the
 * share that is overlapped and the idle share are fitted, each to the measurements of its own term. A prediction takes
 * s from its point; the crossovers assume s = 1, workers with cores of their own. Pure functions. */
#ifndef LS_LAB_SCALE_SCALING_H
#define LS_LAB_SCALE_SCALING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep.h"

enum { LS_SCALING_POINTS_MAX = 64 };

/* A size: known figures, then measured ones, all for one step. */
typedef struct ls_scaling_point {
    int workers;
    size_t batch;                                               /* sequences or images of a step */
    double sequences;                                           /* of the worker that has most */
    double crowding;                                            /* threads of all workers per core, at least 1 */
    double messages[LS_TRAFFIC_KINDS], bytes[LS_TRAFFIC_KINDS]; /* of the worker that has most of them */

    int64_t steps; /* timed; the faster half of them counts */
    double queued; /* of the seconds: ready to run, but another process had the core; a part of the other parts */
    double seconds, low, high;                               /* mean of the faster half of the steps; quartiles */
    double compute, idle, other;                             /* means over workers; with `sync` they add up */
    double sync[LS_TRAFFIC_KINDS], hidden[LS_TRAFFIC_KINDS]; /* waited for; passed while the worker computed */
    double own[LS_TRAFFIC_KINDS]; /* what the kind takes, waited for or hidden: a wait may be for another kind's
                                     transfer, which has the link; in all as much as `sync` and `hidden` */
} ls_scaling_point;

typedef struct ls_scaling_fit {
    double sequence_s, contended_s, shared_s, fixed_s; /* c, d, f, g */
    double other_sequence_s, other_s;                  /* other time: for each sequence, and for a step */
    double latency_s, byte_s;                          /* α, β */
    double hides;                                      /* share of computing behind which reduce-scatters pass */
    double idle;                                       /* share of computing */
    bool has_sync;                                     /* several workers were measured */
    /* Roots of the mean squares of relative errors, corrected for the number of terms: of steps; of synchronising, 0
     * without any. */
    double error, sync_error;
} ls_scaling_fit;

/* Returns the exposed communication of a point, over all kinds. */
double ls_scaling_sync_of(const ls_scaling_point *point);
/* Returns the overlapped communication of a point, over all kinds. */
double ls_scaling_hidden_of(const ls_scaling_point *point);

/* Fits the terms to measured points, of which one has one worker. Returns false if there are too few. Crowded points
 * (more threads than cores) are left out unless only they have several workers. */
bool ls_scaling_fit_make(const ls_scaling_point *points, int count, ls_scaling_fit *out);

/* Seconds of a step and the parts that add up to it. */
typedef struct ls_scaling_parts {
    double compute, idle, other, sync, seconds;
} ls_scaling_parts;

/* Predicts a step from the known figures of a point. `more` scales communication and idle time, for bands; 1:
 * as fitted. */
ls_scaling_parts ls_scaling_predict(const ls_scaling_fit *fit, const ls_scaling_point *point, double more);
/* Returns half the width of the band about a prediction, as a share of it: twice the error of the fit, at least 2 %. */
double ls_scaling_band(const ls_scaling_fit *fit);

/* Returns the smallest batch, a multiple of the workers, with which the workers of `like` beat one worker, if the gain
 * grows with the batch; 0: they do not with 2^20 sequences each, or `like` has one worker. The traffic is that of
 * `like`; `more` as above. */
size_t ls_scaling_batch_crossover(const ls_scaling_fit *fit, const ls_scaling_point *like, double more);
/* Returns the bandwidth, in bytes a second, from which on the workers of a point beat one worker with its batch;
 * link_bytes_per_s is the one that was measured. 0: not even an infinite one would be enough. */
double ls_scaling_rate_crossover(const ls_scaling_fit *fit, const ls_scaling_point *point, double link_bytes_per_s,
                                 double more);

#endif
