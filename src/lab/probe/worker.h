/* worker.h: a worker of the probe, and the measurements that it makes; private to this folder. */
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
    double end;     /* by ls_clock_seconds(): after it a measurement is as short as possible */
    ls_native_machine *machine;
    ls_native_rates *rates; /* of this number of workers */
    int blocks;             /* number of memory blocks of the current measurement */
    float *block[8];
} ls_probe_worker;

/* Measures the seconds of a call while all workers make it: the lower quartile of some samples, which excludes
 * disturbance by other programs, averaged over the workers. Collective. */
ls_status ls_probe_time(const ls_probe_worker *w, ls_timer_call call, void *ctx, double *seconds);
/* Allocates memory like that of a partition, filled with numbers from −1 to 1, until the measurement ends. */
ls_status ls_probe_alloc(ls_probe_worker *w, size_t elems, float **out);

/* Fills its part of w->rates, as the two below do. Collective. */
ls_status ls_probe_matmuls(ls_probe_worker *w);
ls_status ls_probe_attention(ls_probe_worker *w);
ls_status ls_probe_passes(ls_probe_worker *w);

#endif
