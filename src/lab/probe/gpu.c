/* gpu.c: what a GPU of this machine does, measured in a process of its own, since the driver may not be started in one
 * that forks workers later. */
#include "lab/probe/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/child.h"
#include "base/clock.h"
#include "device/choose.h"
#include "device/cuda/cuda.h"
#include "device/ops.h"
#include "lab/calls.h"

enum { TRIES = 3, SIDE_FIRST = 64, SIDE_MAX = 4096 };

static const size_t copy_first = (size_t)1 << 20, copy_most = (size_t)256 << 20;
static const double enough_s = 5e-3; /* of one call: what starting it costs does not show any more */

typedef struct bench {
    ls_device *device;
    void *a, *b, *c; /* on the device, as large as the largest */
    void *host;
    size_t size; /* bytes, or the side of a matrix */
} bench;

/* ---- one call, of a size ----------------------------------------------------------------------------------------- */

static ls_status copy_inside(const bench *b) { return ls_device_copy(b->device, b->b, b->a, b->size); }
static ls_status copy_in(const bench *b) { return ls_device_copy_in(b->device, b->a, b->host, b->size); }
static ls_status copy_out(const bench *b) { return ls_device_copy_out(b->device, b->host, b->a, b->size); }

static ls_status multiply(const bench *b) {
    size_t n = b->size;
    return b->device->ops->gemm(
        b->device,
        &(ls_gemm){
            .form = LS_GEMM_NT, .m = n, .n = n, .k = n, .a = b->a, .lda = n, .b = b->b, .ldb = n, .c = b->c, .ldc = n});
}

/* Best of some. */
static ls_status time_call(const bench *b, ls_status (*call)(const bench *), double *seconds) {
    for (int i = 0; i < TRIES; i++) {
        LS_TRY(ls_device_finish(b->device));
        double begin = ls_clock_seconds();
        LS_TRY(call(b));
        LS_TRY(ls_device_finish(b->device));
        double took = ls_clock_seconds() - begin;
        if (i == 0 || took < *seconds) *seconds = took;
    }
    return LS_OK;
}

/* Doubles the size until a call takes long enough. */
static ls_status time_largest(bench *b, ls_status (*call)(const bench *), size_t first, size_t most, double *seconds) {
    for (b->size = first;; b->size *= 2) {
        LS_TRY(time_call(b, call, seconds));
        if (*seconds >= enough_s || 2 * b->size > most) return LS_OK;
    }
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static ls_status fill(const bench *b) {
    float *numbers = b->host;
    for (size_t i = 0; i < (size_t)SIDE_MAX * SIDE_MAX; i++) numbers[i] = ls_operand_value(i);
    LS_TRY(ls_device_copy_in(b->device, b->a, numbers, (size_t)SIDE_MAX * SIDE_MAX * sizeof *numbers));
    return ls_device_copy_in(b->device, b->b, numbers, (size_t)SIDE_MAX * SIDE_MAX * sizeof *numbers);
}

static ls_status measure_all(bench *b, ls_native_gpu *out) {
    double seconds;
    LS_TRY(fill(b));
    LS_TRY(time_largest(b, multiply, SIDE_FIRST, SIDE_MAX, &seconds));
    out->matmul_flops_per_second = 2.0 * (double)b->size * (double)b->size * (double)b->size / seconds;
    LS_TRY(time_largest(b, copy_inside, copy_first, copy_most, &seconds));
    out->copy_bytes_per_second = 2.0 * (double)b->size / seconds;
    LS_TRY(time_largest(b, copy_in, copy_first, copy_most, &seconds));
    out->to_bytes_per_second = (double)b->size / seconds;
    LS_TRY(time_largest(b, copy_out, copy_first, copy_most, &seconds));
    out->from_bytes_per_second = (double)b->size / seconds;
    out->peak_flops_per_second = b->device->ops->peak_flops_s(b->device, LS_UNIT_CHAIN);
    return LS_OK;
}

static ls_status measure(void *ctx, void *result) {
    ls_native_gpu *out = result;
    bench b = {0};
    ls_status status = LS_OK;
    LS_TRY(ls_device_open_named(ctx, 0, &b.device));
    b.host = malloc(copy_most);
    if (!b.host) status = ls_fail(LS_ERR_RESOURCE, "out of memory for measuring a GPU");
    if (status == LS_OK) status = ls_device_alloc(b.device, copy_most, &b.a);
    if (status == LS_OK) status = ls_device_alloc(b.device, copy_most, &b.b);
    if (status == LS_OK) status = ls_device_alloc(b.device, (size_t)SIDE_MAX * SIDE_MAX * sizeof(float), &b.c);
    if (status == LS_OK) status = measure_all(&b, out);
    ls_device_free(b.device, b.a);
    ls_device_free(b.device, b.b);
    ls_device_free(b.device, b.c);
    ls_device_destroy(b.device);
    free(b.host);
    return status;
}

ls_status ls_probe_gpu(const char *device, ls_native_gpu *out) {
    static const double limit_s = 120;
    ls_gpu_survey survey;
    char name[16];
    int number = strchr(device, ':') ? atoi(strchr(device, ':') + 1) : 0;
    *out = (ls_native_gpu){0};
    LS_TRY(ls_cuda_survey(0, &survey));
    (void)snprintf(name, sizeof name, "cuda:%d", number);
    LS_TRY(ls_child_run("the process that measures the GPU", limit_s, measure, name, out, sizeof *out));
    const ls_gpu *gpu = &survey.gpu[number < LS_GPUS_LISTED ? number : 0];
    (void)snprintf(out->name, sizeof out->name, "%s", gpu->name);
    out->count = survey.count;
    out->capability = gpu->capability;
    out->memory_bytes = (double)gpu->bytes;
    return LS_OK;
}
