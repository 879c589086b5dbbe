/* steps.h: trains the steps of a trial and records how each worker's time divides (base/meter.h). */
#ifndef LS_LAB_SCALE_STEPS_H
#define LS_LAB_SCALE_STEPS_H

#include "lab/scale/scaling.h"
#include "lab/trial.h"

/* Seconds of one worker in one step. */
typedef struct ls_scale_step {
    double seconds, compute, idle; /* in all; computing; waiting for other workers to start a collective */
    double queued;                 /* ready to run, but another process had the core */
    double sync[LS_TRAFFIC_KINDS]; /* in collectives, after all members have started them */
    double link[LS_TRAFFIC_KINDS]; /* of transfers on a slow link */
} ls_scale_step;

typedef struct ls_scale_noise {
    bool valid;       /* it was measured */
    double sequences; /* the gradient noise scale */
} ls_scale_noise;

/* The steps of one trial, in shared memory (lab/trial.h): each worker writes its own, rank 0 the noise. */
typedef struct ls_scale_record {
    int workers;
    int64_t steps;
    ls_scale_step *step; /* [workers][steps] */
    ls_scale_noise *noise;
} ls_scale_record;

/* Allocates a record. Call it before workers are forked. */
ls_status ls_scale_record_open(int workers, int64_t steps, ls_scale_record *out);
/* Unmaps the record; does nothing for {0}. */
void ls_scale_record_close(ls_scale_record *record);

/* Trains the steps of the record, the function of a trial; ctx is the ls_scale_record. With numerics in the settings it
 * measures the gradient noise scale, which takes time. */
ls_status ls_scale_steps(ls_trainer *trainer, void *ctx);

enum { LS_SCALE_WARMUP = 2 }; /* steps that do not count */

/* Timed steps of one size, means over its workers. Starts as zeros; its owner frees `step`. */
typedef struct ls_scale_series {
    ls_scale_step *step;
    int64_t count; /* of steps */
} ls_scale_series;

/* Appends all steps of a record but the first LS_SCALE_WARMUP. */
ls_status ls_scale_series_add(ls_scale_series *series, const ls_scale_record *record);
/* Sets the measured figures of the point: means of the faster half of the steps, of calm steps alone if there are 8.
 * Sorts the steps. LS_ERR_FAILED if there is none. */
ls_status ls_scale_series_take(ls_scale_series *series, ls_scaling_point *point);
/* Returns whether at least 8 steps were not disturbed by other programs. */
bool ls_scale_series_is_calm(const ls_scale_series *series);

#endif
