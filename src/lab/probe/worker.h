/* worker.h: a worker of the probe, and how its parts measure. */
#ifndef LS_LAB_PROBE_WORKER_H
#define LS_LAB_PROBE_WORKER_H

#include "device/ops.h"
#include "lab/probe/probe.h"
#include "lab/timer.h"

typedef struct ls_probe_worker {
    ls_world *world;
    ls_comm *comm;
    int rank, size;
    ls_device *device;
    double seconds; /* for one measurement */
    double end;     /* by ls_clock_seconds(): from here on a measurement takes as little as it can */
    ls_native_machine *machine;
    ls_native_rates *rates; /* of this number of workers */
    int blocks;             /* of memory that the measurement has */
    float *block[8];
} ls_probe_worker;

/* Seconds of a call while all workers make it: the lower quartile of some samples, which leaves out what other programs
 * do to this one; the mean over the workers. Collective. */
ls_status ls_probe_time(const ls_probe_worker *w, ls_timer_call call, void *ctx, double *seconds);
/* Memory as a partition has it, filled with numbers from −1 to 1; it is there until the measurement ends. */
ls_status ls_probe_alloc(ls_probe_worker *w, size_t elems, float **out);

ls_status ls_probe_matmuls(ls_probe_worker *w);
ls_status ls_probe_attention(ls_probe_worker *w);
ls_status ls_probe_passes(ls_probe_worker *w);

#endif
