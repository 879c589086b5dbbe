/* trial.h: some steps under a layout, with a record of what each worker spent their time on (base/meter.h).
 *
 * The record lies in memory that forked processes share, as that of verify.h. */
#ifndef LS_LAB_SCALE_TRIAL_H
#define LS_LAB_SCALE_TRIAL_H

#include "lab/verify/trial.h"

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

typedef struct ls_scale_record {
    int workers;
    int64_t steps;
    ls_scale_step *step; /* [workers][steps] */
    ls_scale_noise *noise;
    size_t map_bytes;
} ls_scale_record;

ls_status ls_scale_record_open(int workers, int64_t steps, ls_scale_record *out);
void ls_scale_record_close(ls_scale_record *record); /* zeros do nothing */

/* All workers of the job's layout call it together; world NULL: one worker alone. With numerics in the job's settings
 * the noise is measured, which takes time of its own. */
ls_status ls_scale_work(const ls_verify_job *job, ls_scale_record *record, ls_world *world, ls_device *device);

#endif
