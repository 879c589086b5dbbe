/* device.h: where tensors live and where operations on them run.
 *
 * A device is a memory space, an ordered queue with events, and a table of operations (ops.h). Operations,
 * copies and fills are enqueued and take effect in the order of the calls; they may still be running when the call
 * returns. The CPU runs each at once.
 *
 *     ls_device_copy_in → ops->gemm → ops->gelu_forward → ls_device_record → … → ls_device_wait → ls_device_copy_out
 *
 * Nothing but the device's own functions may read or write its memory, so a pointer to it is only a name with an
 * address: adding to it is allowed, following it is not. One thread at a time uses a device.
 *
 * Errors: LS_ERR_RESOURCE when memory is short, LS_ERR_FAILED when the device itself failed. After the latter nothing
 * but ls_device_destroy() may be called. A failure of queued work may come up at any later call. */
#ifndef LS_DEVICE_DEVICE_H
#define LS_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/status.h"

struct ls_kernels;
struct ls_ops;
struct ls_pool;

typedef struct ls_device ls_device;

/* A place in the queue of one device. A plain value; it needs no release. */
typedef struct ls_event {
    uint64_t number;
} ls_event;

/* What a device is made of; the contracts are with the functions below. */
typedef struct ls_device_calls {
    ls_status (*alloc)(ls_device *device, size_t bytes, void **out);
    void (*free)(ls_device *device, void *memory);
    ls_status (*copy_in)(ls_device *device, void *to, const void *host, size_t bytes);
    ls_status (*copy_out)(ls_device *device, void *host, const void *from, size_t bytes);
    ls_status (*copy)(ls_device *device, void *to, const void *from, size_t bytes);
    ls_status (*fill)(ls_device *device, void *to, unsigned char byte, size_t bytes);
    ls_status (*record)(ls_device *device, ls_event *out);
    ls_status (*wait)(ls_device *device, ls_event event);
    ls_status (*finish)(ls_device *device);
    void (*destroy)(ls_device *device);
} ls_device_calls;

/* A kind of device begins its own struct with this one. */
struct ls_device {
    const char *name;
    bool is_host; /* its memory is the host's: workers move it as they move any other (comm/tensors.h) */
    const ls_device_calls *calls;
    const struct ls_ops *ops;
};

/* The CPU. `threads` and `cpus` are those of ls_pool_create(): the calling thread is the first and may be pinned.
 * `kernels` is borrowed and outlives the device; NULL: those of this CPU. On failure nothing is left to release. */
ls_status ls_device_open_cpu(int threads, const int *cpus, const struct ls_kernels *kernels, ls_device **out);

/* The same on threads that are there already; the pool is borrowed. Tensors come from `memory`, so that other workers can read them; NULL:
 * plain memory of this process. */
ls_status ls_device_open_cpu_pool(struct ls_pool *pool, const struct ls_kernels *kernels,
                                  const ls_memory_source *memory, ls_device **out);

/* Waits for the queue and gives everything back but memory that is still allocated, which its owner frees first. NULL
 * does nothing. */
static inline void ls_device_destroy(ls_device *device) {
    if (device) device->calls->destroy(device);
}

/* Zeroed, 64-byte aligned; 0 bytes give a valid address too. The caller owns it and frees it on the same device. On
 * failure *out is NULL. */
static inline ls_status ls_device_alloc(ls_device *device, size_t bytes, void **out) {
    return device->calls->alloc(device, bytes, out);
}

/* Work enqueued before may still use the memory. NULL does nothing. */
static inline void ls_device_free(ls_device *device, void *memory) {
    if (memory) device->calls->free(device, memory);
}

/* Host to device. The host memory may be changed as soon as this returns. */
static inline ls_status ls_device_copy_in(ls_device *device, void *to, const void *host, size_t bytes) {
    return device->calls->copy_in(device, to, host, bytes);
}

/* Device to host. Waits for what was enqueued before; when this returns the bytes are there. */
static inline ls_status ls_device_copy_out(ls_device *device, void *host, const void *from, size_t bytes) {
    return device->calls->copy_out(device, host, from, bytes);
}

/* Inside the device; the two places do not overlap. */
static inline ls_status ls_device_copy(ls_device *device, void *to, const void *from, size_t bytes) {
    return device->calls->copy(device, to, from, bytes);
}

static inline ls_status ls_device_fill(ls_device *device, void *to, unsigned char byte, size_t bytes) {
    return device->calls->fill(device, to, byte, bytes);
}

/* Marks this place in the queue. */
static inline ls_status ls_device_record(ls_device *device, ls_event *out) {
    return device->calls->record(device, out);
}

/* The host waits until everything enqueued before the event is done. The event may be waited for again.
 * LS_ERR_INPUT for an event that this device has not recorded. */
static inline ls_status ls_device_wait(ls_device *device, ls_event event) { return device->calls->wait(device, event); }

/* The host waits until everything is done. */
static inline ls_status ls_device_finish(ls_device *device) { return device->calls->finish(device); }

#endif
