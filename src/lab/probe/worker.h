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
    double seconds;             /* budget of one measurement */
    double end;                 /* by ls_clock_seconds(): after it a measurement is as short as possible */
    ls_native_machine *machine; /* the worker's own copy, which rank 0 hands to the parent */
    ls_native_rates *rates;     /* of this number of workers, in `machine` */
    int blocks;                 /* number of memory blocks of the current measurement */
    float *block[8];            /* memory of the current measurement */
} ls_probe_worker;

/* Measures the seconds of a call while all workers make it: the lower quartile of some samples, which excludes
 * disturbance by other programs, averaged over the workers. Collective. */
ls_status ls_probe_time(const ls_probe_worker *w, ls_timer_call call, void *ctx, double *seconds);
/* Allocates memory as a partition (a worker's part of the model) has it, filled with numbers from −1 to 1; it is freed
 * when the measurement ends. */
ls_status ls_probe_alloc(ls_probe_worker *w, size_t elems, float **out);

/* Measures matmuls of all forms and types into w->rates. Collective, as the two below. */
ls_status ls_probe_matmuls(ls_probe_worker *w);
/* Measures attention, forward and backward, into w->rates. */
ls_status ls_probe_attention(ls_probe_worker *w);
/* Measures passes over arrays into w->rates. */
ls_status ls_probe_passes(ls_probe_worker *w);

#endif
