/* gpu.h: the parts of the probe that measure a GPU; private to this folder. */
#ifndef LS_LAB_PROBE_GPU_H
#define LS_LAB_PROBE_GPU_H

#include "device/ops.h"
#include "lab/probe/passes.h"
#include "lab/probe/probe.h"
#include "lab/timer.h"

typedef struct ls_probe_gpu_bench {
    ls_device *device;
    ls_unit unit;                   /* tensor cores, or LS_UNIT_CHAIN: none */
    bool is_slow;                   /* a CPU emulates it, in tests: all sizes are as small as possible */
    size_t bytes;                   /* of each array */
    void *at[LS_PROBE_PASS_ARRAYS]; /* arrays on the GPU */
    void *host;                     /* a buffer on the host, for copies */
    ls_native_gpu *out;             /* filled in */
} ls_probe_gpu_bench;

/* Measures the seconds of a call in a sequence of equal ones, as in a step: they are enqueued together, by graphs if
 * the GPU has them, followed by one wait. The result is the median of some rounds, without the first two calls, which
 * may load kernels and try algorithms; a call of more than 30 ms, or on a slow device, is timed once. */
ls_status ls_probe_gpu_time(const ls_probe_gpu_bench *b, ls_timer_call call, void *ctx, double *seconds);

/* Measures kernels (gpu_kernels.c) into b->out->rates. Overwrites the arrays, which must hold random numbers. */
ls_status ls_probe_gpu_kernels(ls_probe_gpu_bench *b);
/* Measures collectives of workers on `device` (gpu_links.c): one worker for each GPU or, with one GPU, two that share
 * it. Starts workers. Any failure but a stop, such as a GPU that accepts no second worker, ends the measurement and is
 * no error. */
ls_status ls_probe_gpu_links(const char *device, ls_native_gpu *out);

#endif
