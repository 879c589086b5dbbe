/* gpu.c: measures a GPU of this machine: memory, copies, peaks and start-up; gpu_kernels.c measures kernels. Runs in a
 * process of its own, because the driver must not be initialized in one that forks workers later. */
#include "lab/probe/gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/child.h"
#include "base/log.h"
#include "base/stats.h"
#include "device/choose.h"
#include "device/cuda/cuda.h"
#include "lab/calls.h"

enum { TRIES = 3, SIDE_FIRST = 64, SIDE_MAX = 4096, PIECE = 1 << 20 };

static const size_t copy_first = (size_t)1 << 20, copy_most = (size_t)256 << 20;
static const size_t array_most = (size_t)1 << 30, array_least = (size_t)128 << 20, array_of_slow = (size_t)4 << 20;
static const double enough_s = 5e-3; /* time of a call in which its launch is negligible */
static const double limit_s = 120;

/* Argument of a call: its size is the bytes of a copy, or the side of a square fp32 matmul. */
typedef struct sized {
    const ls_probe_gpu_bench *b;
    size_t size;
} sized;

/* Copies `size` bytes from one array of the GPU to another. */
static ls_status copy_inside(const sized *s) { return ls_device_copy(s->b->device, s->b->at[1], s->b->at[0], s->size); }
/* Copies `size` bytes from the host to the GPU. */
static ls_status copy_in(const sized *s) { return ls_device_copy_in(s->b->device, s->b->at[0], s->b->host, s->size); }
/* Copies `size` bytes from the GPU to the host. */
static ls_status copy_out(const sized *s) { return ls_device_copy_out(s->b->device, s->b->host, s->b->at[0], s->size); }

/* Multiplies two square fp32 matrices of side `size`. */
static ls_status multiply(const sized *s) {
    const ls_probe_gpu_bench *b = s->b;
    ls_gemm g = {.form = LS_GEMM_NT, .m = s->size, .n = s->size, .k = s->size};
    g.lda = g.ldb = g.ldc = s->size;
    g.a = b->at[0];
    g.b = b->at[1];
    g.c = b->at[2];
    return b->device->ops->gemm(b->device, &g);
}

/* Times a call with synchronization; keeps the minimum of several tries. */
static ls_status time_alone(const sized *s, ls_status (*call)(const sized *), double *seconds) {
    for (int i = 0; i < TRIES; i++) {
        LS_TRY(ls_device_finish(s->b->device));
        double begin = ls_clock_seconds();
        LS_TRY(call(s));
        LS_TRY(ls_device_finish(s->b->device));
        double took = ls_clock_seconds() - begin;
        if (i == 0 || took < *seconds) *seconds = took;
    }
    return LS_OK;
}

/* Measures a call at the size, doubled from `first` on, at which it lasts at least 5 ms, but at most `most`; leaves
 * that size in *s. */
static ls_status time_largest(sized *s, ls_status (*call)(const sized *), size_t first, size_t most, double *seconds) {
    for (s->size = first;; s->size *= 2) {
        LS_TRY(time_alone(s, call, seconds));
        if (*seconds >= enough_s || 2 * s->size > most) return LS_OK;
    }
}

/* Measures calls enqueued one after the other, with one wait at the end; *seconds is that of one. */
static ls_status time_round(const ls_probe_gpu_bench *b, ls_timer_call call, void *ctx, int calls, double *seconds) {
    LS_TRY(ls_device_finish(b->device));
    double begin = ls_clock_seconds();
    for (int i = 0; i < calls; i++) LS_TRY(call(ctx));
    LS_TRY(ls_device_finish(b->device));
    *seconds = (ls_clock_seconds() - begin) / calls;
    return LS_OK;
}

/* Makes two calls first: the first call of a kind loads its kernel; the second call of a large GEMM tries out
 * algorithms (device/cuda/ops/library.c). The first two rounds create graphs of their launches. */
ls_status ls_probe_gpu_time(const ls_probe_gpu_bench *b, ls_timer_call call, void *ctx, double *seconds) {
    enum { FIRST = 2, ROUNDS = 3, CALLS_MAX = 200 };
    const double round_s = 3e-3, long_s = .03;
    double took[FIRST + ROUNDS], one;
    LS_TRY(ls_device_use_graphs(b->device, LS_GRAPHS_ON)); /* drops the graphs of other calls */
    LS_TRY(call(ctx));
    if (!b->is_slow) LS_TRY(call(ctx));
    LS_TRY(time_round(b, call, ctx, 1, &one));
    *seconds = one;
    if (!b->is_slow && one <= long_s) {
        int calls = one * CALLS_MAX < round_s ? CALLS_MAX : 1 + (int)(round_s / one);
        for (int round = 0; round < FIRST + ROUNDS; round++) LS_TRY(time_round(b, call, ctx, calls, &took[round]));
        *seconds = ls_median(took + FIRST, ROUNDS);
    }
    if (*seconds < 1e-9) *seconds = 1e-9;
    return LS_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Fills the arrays with random values, because a GPU is faster than usual on zeros. The first two arrays have both
 * signs; the others are positive, because passes store variances and moments there. */
static ls_status fill_arrays(const ls_probe_gpu_bench *b) {
    float *numbers = b->host;
    size_t piece = PIECE * sizeof *numbers < b->bytes ? PIECE * sizeof *numbers : b->bytes;
    for (int a = 0; a < LS_PROBE_PASS_ARRAYS; a++) {
        for (size_t i = 0; a % 2 == 0 && i < PIECE; i++)
            numbers[i] = a < 2 ? ls_operand_value(i) : ls_operand_value(i) * .25F + 1;
        LS_TRY(ls_device_copy_in(b->device, b->at[a], numbers, piece));
        for (size_t done = piece; done < b->bytes; done *= 2) {
            size_t more = b->bytes - done < done ? b->bytes - done : done;
            LS_TRY(ls_device_copy(b->device, (char *)b->at[a] + done, b->at[a], more));
        }
    }
    return LS_OK;
}

/* Detects a GPU that a CPU emulates, as in tests, which needs a second for what a real one does in a millisecond.
 * Measures a fill, in which they differ most: the slowest GPU takes a third of the limit. Uses the minimum, because
 * other load on the machine only makes it slower. */
static ls_status detect_slow_device(ls_probe_gpu_bench *b) {
    enum { ELEMS = 1 << 22, ROUNDS = 3 };
    const double slow_s = 1e-3;
    double best = HUGE_VAL;
    void *memory;
    LS_TRY(ls_device_alloc(b->device, ELEMS * sizeof(float), &memory));
    for (int i = 0; i < ROUNDS && best > slow_s; i++) {
        LS_TRY(ls_device_finish(b->device));
        double begin = ls_clock_seconds();
        LS_TRY(b->device->ops->set(b->device, &(ls_set_call){memory, 1, ELEMS}));
        LS_TRY(ls_device_finish(b->device));
        double seconds = ls_clock_seconds() - begin;
        if (seconds < best) best = seconds;
    }
    b->is_slow = best > slow_s;
    ls_device_free(b->device, memory);
    return LS_OK;
}

/* Allocates the arrays, as large as a sixteenth of the free memory allows. */
static ls_status alloc_arrays(ls_probe_gpu_bench *b) {
    const size_t most = b->is_slow ? array_of_slow : array_most, least = b->is_slow ? array_of_slow : array_least;
    ls_device_usage usage;
    LS_TRY(ls_device_get_usage(b->device, &usage));
    b->out->free_bytes = (double)usage.free;
    for (b->bytes = most; b->bytes > least && b->bytes > usage.free / 16;) b->bytes /= 2;
    if (b->bytes > usage.free / 16)
        return ls_fail(LS_ERR_RESOURCE, "%s has %.1f MiB of memory free, too little to measure it: %.0f MiB are needed",
                       b->device->name, (double)usage.free / 0x1p20, 16 * (double)least / 0x1p20);
    b->host = malloc(copy_most);
    if (!b->host) return ls_fail(LS_ERR_RESOURCE, "out of memory for measuring a GPU");
    for (int a = 0; a < LS_PROBE_PASS_ARRAYS; a++) LS_TRY(ls_device_alloc(b->device, b->bytes, &b->at[a]));
    return LS_OK;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

/* Measures a large fp32 matmul, copies inside, to and from the GPU, and the time until the host has a
 * computed number. */
static ls_status measure_copies(const ls_probe_gpu_bench *b) {
    ls_native_gpu *out = b->out;
    sized s = {.b = b};
    size_t most = copy_most < b->bytes ? copy_most : b->bytes, side = SIDE_MAX;
    double seconds;
    while (side * side * sizeof(float) > b->bytes) side /= 2;
    LS_TRY(time_largest(&s, multiply, SIDE_FIRST, side, &seconds));
    out->matmul_flops_per_second = 2.0 * (double)s.size * (double)s.size * (double)s.size / seconds;
    LS_TRY(time_largest(&s, copy_inside, copy_first, most, &seconds));
    out->copy_bytes_per_second = 2.0 * (double)s.size / seconds;
    LS_TRY(time_largest(&s, copy_in, copy_first, most, &seconds));
    out->to_bytes_per_second = (double)s.size / seconds;
    LS_TRY(time_largest(&s, copy_out, copy_first, most, &seconds));
    out->from_bytes_per_second = (double)s.size / seconds;
    s.size = sizeof(float);
    return time_alone(&s, copy_out, &out->read_seconds);
}

/* Measures everything about the GPU. Fills the arrays again before kernels run, because the copies overwrote them. */
static ls_status measure_all(ls_probe_gpu_bench *b) {
    const ls_ops *ops = b->device->ops;
    LS_TRY(detect_slow_device(b));
    LS_TRY(alloc_arrays(b));
    LS_TRY(fill_arrays(b));
    LS_TRY(measure_copies(b));
    b->out->peak_flops_per_second = ops->peak_flops_s(b->device, LS_UNIT_CHAIN);
    if (b->unit != LS_UNIT_CHAIN) b->out->unit_flops_per_second = ops->peak_flops_s(b->device, b->unit);
    LS_TRY(fill_arrays(b));
    return ls_probe_gpu_kernels(b);
}

/* Returns the number of a device: 1 for "cuda:1", 0 for "cuda". */
static int device_number(const char *device) { return strchr(device, ':') ? atoi(strchr(device, ':') + 1) : 0; }

typedef struct subject {
    const char *device;
    ls_unit unit;
} subject;

/* Opens the GPU, measures it into `result` (an ls_native_gpu) and closes it: the function of a child process. */
static ls_status measure_gpu(void *ctx, void *result) {
    const subject *which = ctx;
    ls_probe_gpu_bench b = {.out = result, .unit = which->unit};
    double begin = ls_clock_seconds();
    LS_TRY(ls_device_open_named(which->device, 0, &b.device));
    b.out->open_seconds = ls_clock_seconds() - begin;
    ls_status status = measure_all(&b);
    for (int a = 0; a < LS_PROBE_PASS_ARRAYS; a++) ls_device_free(b.device, b.at[a]);
    ls_device_destroy(b.device);
    free(b.host);
    return status;
}

/* Warns if other programs use the GPU. The threshold is far above the memory of a context. */
static void warn_of_others(const ls_native_gpu *gpu) {
    const double much = 2 * 0x1p30, taken = gpu->memory_bytes - gpu->free_bytes;
    if (taken > much)
        ls_log_warn(
            "other programs hold %.1f GiB of %s: if they also compute, it is measured as slower than it is; probe it "
            "again when they have ended",
            taken / 0x1p30, gpu->name);
}

ls_status ls_probe_gpu(const char *device, bool alone, ls_native_gpu *out) {
    ls_gpu_survey survey;
    char name[16];
    int number = device_number(device);
    *out = (ls_native_gpu){0};
    LS_TRY(ls_cuda_survey(0, &survey));
    const ls_gpu *gpu = &survey.gpu[number < LS_GPUS_LISTED ? number : 0];
    subject which = {name, ls_cuda_unit_of(gpu->capability)};
    (void)snprintf(name, sizeof name, "cuda:%d", number);
    LS_TRY(ls_device_prepare(name, which.unit, NULL, NULL));
    LS_TRY(ls_child_run("the process that measures the GPU", limit_s, measure_gpu, &which, out, sizeof *out));
    (void)snprintf(out->name, sizeof out->name, "%s", gpu->name);
    out->count = strchr(device, ':') ? 1 : survey.count;
    out->capability = gpu->capability;
    out->memory_bytes = (double)gpu->bytes;
    warn_of_others(out);
    return alone ? LS_OK : ls_probe_gpu_links(device, out);
}

ls_status ls_probe_gpu_check(const char *device) {
    ls_gpu_survey survey;
    int number = device_number(device);
    ls_status status = ls_cuda_survey(0, &survey);
    if (status == LS_ERR_INPUT && !ls_cuda_is_installed())
        return ls_fail(LS_ERR_INPUT, "this machine has no NVIDIA driver (libcuda.so.1): use --device cpu");
    LS_TRY(status);
    if (number < survey.count) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "there is no GPU %d: the driver sees %d, numbered from 0", number, survey.count);
}

/* ---- as it is now ------------------------------------------------------------------------------------------------ */

/* Reads the free memory of the device, in a child process. */
static ls_status look_at_memory(void *ctx, void *result) {
    ls_device *device;
    ls_device_usage usage = {0};
    double *free_bytes = result;
    LS_TRY(ls_device_open_named(ctx, 0, &device));
    ls_status status = ls_device_get_usage(device, &usage);
    *free_bytes = (double)usage.free;
    ls_device_destroy(device);
    return status;
}

ls_status ls_probe_gpu_refresh(const char *device, ls_native_gpu *gpu) {
    char name[16];
    (void)snprintf(name, sizeof name, "%s", device);
    return ls_child_run("the process that looks at the GPU's memory", limit_s, look_at_memory, name, &gpu->free_bytes,
                        sizeof gpu->free_bytes);
}

bool ls_probe_gpu_is_current(const char *device, const ls_native_gpu *gpu) {
    ls_gpu_survey survey;
    int number = device_number(device);
    if (gpu->count == 0 || gpu->rates.workers == 0 || ls_cuda_survey(0, &survey) != LS_OK) return false;
    return number < LS_GPUS_LISTED && number < survey.count && strcmp(survey.gpu[number].name, gpu->name) == 0 &&
           gpu->count == (strchr(device, ':') ? 1 : survey.count);
}
