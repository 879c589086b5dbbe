/* gpu.h: how the probe measures a GPU. */
#ifndef LS_LAB_PROBE_GPU_H
#define LS_LAB_PROBE_GPU_H

#include "device/ops.h"
#include "lab/probe/passes.h"
#include "lab/probe/probe.h"
#include "lab/timer.h"

typedef struct ls_probe_gpu_bench {
    ls_device *device;
    bool has_unit; /* hgmma */
    bool is_slow;  /* it is played by a CPU: sizes are as small as they can be */
    size_t bytes;  /* of each array */
    void *at[LS_PROBE_PASS_ARRAYS];
    void *host;
    ls_native_gpu *out;
} ls_probe_gpu_bench;

/* Seconds of a call among many of its kind, as in a step: they are enqueued one behind another, by graphs where the GPU
 * has them, and waited for once. The median of some rounds. The first two calls, which may load and try things, are not
 * timed. */
ls_status ls_probe_gpu_time(const ls_probe_gpu_bench *b, ls_timer_call call, void *ctx, double *seconds);

/* gpu_kernels.c: b->out->rates, with its sizes. The arrays hold random numbers at first, and anything after. */
ls_status ls_probe_gpu_kernels(ls_probe_gpu_bench *b);
/* gpu_links.c: workers on `device` that read each other's memory. Starts workers. A machine whose GPUs take no second
 * worker has no links, and that is no failure. */
ls_status ls_probe_gpu_links(const char *device, ls_native_gpu *out);

#endif
