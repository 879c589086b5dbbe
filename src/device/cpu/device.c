/* device.c: the CPU as a device: plain memory, and a queue that is always empty because every call runs to its end. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fpenv.h"
#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "device/cpu/peak.h"

enum { ALIGN_BYTES = 64, COPY_GRAIN_BYTES = 256 * 1024, HUGE_BYTES = 2 << 20, HUGE_FROM_BYTES = 8 << 20 };

/* Casts a device that is known to be a CPU. */
static ls_cpu_device *cpu_of(ls_device *device) { return (ls_cpu_device *)(void *)device; }

ls_cpu_device *ls_cpu_enter(ls_device *device) {
    if (!ls_fpenv_is_set()) ls_fpenv_set();
    return cpu_of(device);
}

/* The arguments of ls_cpu_run(), for its tasks. */
typedef struct range_job {
    const ls_kernels *kernels;
    ls_cpu_fn fn;
    const void *args;
    size_t n, grain;
} range_job;

/* Task of ls_cpu_run(): computes one piece. */
static void range_task(void *ctx, size_t task, int thread) {
    (void)thread;
    const range_job *job = ctx;
    size_t begin = task * job->grain, left = job->n - begin;
    job->fn(job->kernels, job->args, begin, begin + (left < job->grain ? left : job->grain));
}

ls_status ls_cpu_run(ls_device *device, size_t n, size_t grain, ls_cpu_fn fn, const void *args) {
    ls_cpu_device *cpu = ls_cpu_enter(device);
    range_job job = {cpu->kernels, fn, args, n, grain};
    ls_pool_run(cpu->pool, n / grain + (n % grain != 0), range_task, &job);
    return LS_OK;
}

size_t ls_cpu_row_grain(size_t columns) { return columns < LS_CPU_GRAIN ? LS_CPU_GRAIN / (columns ? columns : 1) : 1; }

/* Allocates memory that is not zeroed; NULL if it is short. Blocks from 8 MiB on are aligned to 2 MiB, and the system
 * is advised to use huge pages for them: rows far apart then need fewer TLB entries. */
static void *aligned_memory(size_t bytes) {
    size_t align = bytes >= HUGE_FROM_BYTES ? HUGE_BYTES : ALIGN_BYTES;
    if (bytes > SIZE_MAX - align || ls_memory_check(bytes) != LS_OK) return NULL;
    size_t whole = bytes / align * align + align;
    void *memory = aligned_alloc(align, whole);
    if (memory && align == HUGE_BYTES) (void)madvise(memory, whole, MADV_HUGEPAGE);
    return memory;
}

ls_status ls_cpu_scratch(ls_cpu_device *cpu, size_t bytes, void **out) {
    if (!cpu->scratch || bytes > cpu->scratch_bytes) {
        free(cpu->scratch);
        cpu->scratch = aligned_memory(bytes);
        cpu->scratch_bytes = cpu->scratch ? bytes : 0;
    }
    *out = cpu->scratch;
    if (cpu->scratch) return LS_OK;
    return ls_fail(LS_ERR_RESOURCE,
                   "out of memory: %zu bytes of scratch needed; use a smaller micro-batch or fewer threads", bytes);
}

/* A copy or a fill: `from` for the one, `byte` for the other. */
typedef struct bytes_job {
    unsigned char *to;
    const unsigned char *from;
    unsigned char byte;
} bytes_job;

/* Copies bytes begin … end−1; a callback of ls_cpu_run(). */
static void copy_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    (void)kernels;
    const bytes_job *job = args;
    memcpy(job->to + begin, job->from + begin, end - begin);
}

/* Sets bytes begin … end−1; a callback of ls_cpu_run(). */
static void fill_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    (void)kernels;
    const bytes_job *job = args;
    memset(job->to + begin, job->byte, end - begin);
}

/* Copies on all threads, and returns when done. Serves copy_in, copy_out and copy, because the memory is the host's. */
static ls_status copy_bytes(ls_device *device, void *to, const void *from, size_t bytes) {
    return ls_cpu_run(device, bytes, COPY_GRAIN_BYTES, copy_range, &(bytes_job){.to = to, .from = from});
}

/* Sets all bytes on all threads, and returns when done. */
static ls_status fill_bytes(ls_device *device, void *to, unsigned char byte, size_t bytes) {
    return ls_cpu_run(device, bytes, COPY_GRAIN_BYTES, fill_range, &(bytes_job){.to = to, .byte = byte});
}

/* Allocates zeroed memory for tensors: from the source of the device, else private memory. */
static ls_status alloc_memory(ls_device *device, size_t bytes, void **out) {
    const ls_memory_source *source = &cpu_of(device)->memory;
    if (source->alloc) return source->alloc(source->ctx, bytes, out);
    *out = aligned_memory(bytes);
    if (!*out)
        return ls_fail(
            LS_ERR_RESOURCE,
            "out of memory: %zu bytes needed for tensors; use a smaller model or micro-batch, or more workers", bytes);
    return fill_bytes(device, *out, 0, bytes);
}

/* Frees memory of alloc_memory(). */
static void free_memory(ls_device *device, void *memory) {
    const ls_memory_source *source = &cpu_of(device)->memory;
    if (source->alloc)
        source->release(source->ctx, memory);
    else
        free(memory);
}

/* Counts an event; everything before it is done already. */
static ls_status record_event(ls_device *device, ls_event *out) {
    *out = (ls_event){device->queue, ++cpu_of(device)->recorded};
    return LS_OK;
}

/* Checks that the event was recorded, else LS_ERR_INPUT, and does not wait: all work is done. Serves `follow` and
 * `wait`. */
static ls_status wait_for_event(ls_device *device, ls_event event) {
    uint64_t recorded = cpu_of(device)->recorded;
    if (event.number >= 1 && event.number <= recorded) return LS_OK;
    return ls_fail(LS_ERR_INPUT,
                   "event %llu was not recorded on this device, which has recorded %llu events; record it first",
                   (unsigned long long)event.number, (unsigned long long)recorded);
}

/* Does nothing: the queue is always empty. */
static ls_status finish_queue(ls_device *device) {
    (void)device;
    return LS_OK;
}

/* Measures the peak FLOP/s of the pool's threads in 0.05 s; 0 if this CPU has no such loop or unit. */
static double peak_flops_s(ls_device *device, ls_unit unit) { return ls_cpu_peak(cpu_of(device)->pool, unit, 0.05); }

/* Frees the device and its scratch, and the pool if it owns that. */
static void destroy_cpu(ls_device *device) {
    ls_cpu_device *cpu = cpu_of(device);
    if (cpu->owns_pool) ls_pool_destroy(cpu->pool);
    free(cpu->scratch);
    free(cpu);
}

/* Switches to the portable kernels, or back to the usual ones. Nothing changes if the portable ones are the usual
 * ones. */
static ls_status compute_otherwise(ls_device *device, bool otherwise) {
    static ls_kernels portable;
    ls_cpu_device *cpu = cpu_of(device);
    if (otherwise) ls_kernels_fill(&portable, 0);
    cpu->kernels = otherwise ? &portable : cpu->usual;
    return LS_OK;
}

static const ls_device_calls cpu_calls = {
    .alloc = alloc_memory,
    .free = free_memory,
    .copy_in = copy_bytes,
    .copy_out = copy_bytes,
    .copy = copy_bytes,
    .fill = fill_bytes,
    .record = record_event,
    .follow = wait_for_event,
    .wait = wait_for_event,
    .finish = finish_queue,
    .destroy = destroy_cpu,
    .compute_otherwise = compute_otherwise,
};

static const ls_ops cpu_ops = {
#define LS_CPU_OP(name, call_type) .name = ls_cpu_op_##name,
    LS_OPS(LS_CPU_OP)
#undef LS_CPU_OP
        .gemm_ends = ls_gemm_ends_never,
    .peak_flops_s = peak_flops_s};

ls_status ls_device_open_cpu_pool(ls_pool *pool, const ls_kernels *kernels, const ls_memory_source *memory,
                                  ls_device **out) {
    *out = NULL;
    ls_cpu_device *cpu = calloc(1, sizeof *cpu);
    if (!cpu) return ls_fail(LS_ERR_RESOURCE, "out of memory for a device");
    cpu->pool = pool;
    cpu->kernels = cpu->usual = kernels ? kernels : ls_kernels_get();
    if (memory) cpu->memory = *memory;
    cpu->base = (ls_device){.name = "cpu", .is_host = true, .calls = &cpu_calls, .ops = &cpu_ops};
    *out = &cpu->base;
    return LS_OK;
}

ls_status ls_device_open_cpu(int threads, const int *cpus, const ls_kernels *kernels, ls_device **out) {
    ls_pool *pool = NULL;
    *out = NULL;
    LS_TRY(ls_pool_create(threads, cpus, &pool));
    ls_status status = ls_device_open_cpu_pool(pool, kernels, NULL, out);
    if (status == LS_OK)
        ((ls_cpu_device *)*out)->owns_pool = true;
    else
        ls_pool_destroy(pool);
    return status;
}
