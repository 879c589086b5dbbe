/* steps.h: the steps of a trial with a record of what each worker spent their time on (base/meter.h). */
#ifndef LS_LAB_SCALE_STEPS_H
#define LS_LAB_SCALE_STEPS_H

#include "lab/scale/scaling.h"
#include "lab/trial.h"

/* Seconds of one worker in one step. */
typedef struct ls_scale_step {
    double seconds, compute, idle;
    double queued;                 /* ready to run, but another process had the core */
    double sync[LS_TRAFFIC_KINDS]; /* in calls, after all had come to them */
    double link[LS_TRAFFIC_KINDS]; /* that transfers took on a slow link */
} ls_scale_step;

typedef struct ls_scale_noise {
    bool valid;
    double sequences; /* the gradient noise scale */
} ls_scale_noise;

/* In shared memory (lab/trial.h). */
typedef struct ls_scale_record {
    int workers;
    int64_t steps;
    ls_scale_step *step; /* [workers][steps] */
    ls_scale_noise *noise;
} ls_scale_record;

ls_status ls_scale_record_open(int workers, int64_t steps, ls_scale_record *out);
void ls_scale_record_close(ls_scale_record *record); /* zeros do nothing */

/* The steps of a trial: ctx is the record. With numerics in the settings the noise is measured, which takes time of its
 * own. */
ls_status ls_scale_steps(ls_trainer *trainer, void *ctx);

enum { LS_SCALE_WARMUP = 2 }; /* steps that do not count */

/* Timed steps of one size, means over its workers. Starts as zeros; its owner frees `step`. */
typedef struct ls_scale_series {
    ls_scale_step *step;
    int64_t count;
} ls_scale_series;

/* All steps of a record but the first LS_SCALE_WARMUP. */
ls_status ls_scale_series_add(ls_scale_series *series, const ls_scale_record *record);
ls_status ls_scale_series_take(ls_scale_series *series, ls_scaling_point *point);
/* Whether other programs left enough steps alone. */
bool ls_scale_series_is_calm(const ls_scale_series *series);

#endif
