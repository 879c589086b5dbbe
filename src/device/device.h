/* device.h: where tensors live and where operations on them run.
 *
 * A device is a memory space, some queues with events, and a table of operations (ops.h). Operations, copies and fills
 * are enqueued and take effect in the order of the calls; they may still be running when the call returns. The CPU runs
 * each at once.
 *
 *     ls_device_copy_in → ops->gemm → ops->gelu_forward → ls_device_record → … → ls_device_wait → ls_device_copy_out
 *
 * Calls go to the queue that ls_device_use() named last, at first LS_QUEUE_COMPUTE. Between queues events alone make an
 * order: what follows ls_device_follow() on one queue comes after what was before ls_device_record() on another.
 *
 * Workers on one machine may read each other's memory, where the device can share it; counters in such memory make the
 * order between them: ls_device_signal() of one, ls_device_await() of another.
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

#include "base/clock.h"
#include "base/events.h"
#include "base/memory.h"
#include "base/status.h"
#include "config/choices.h"

struct ls_kernels;
struct ls_ops;
struct ls_pool;

typedef struct ls_device ls_device;

/* Queues: one computes, four move tensors between the workers that share an axis of the layout, and one takes tensors
 * of other machines. */
enum { LS_QUEUE_COMPUTE, LS_QUEUE_COMM, LS_QUEUE_RECEIVE = LS_QUEUE_COMM + 4, LS_QUEUES };

/* A place in a queue of one device. A plain value; it needs no release. */
typedef struct ls_event {
    int queue;
    uint64_t number;
} ls_event;

/* What another process needs to find shared memory. */
typedef struct ls_memory_handle {
    unsigned char bytes[64];
} ls_memory_handle;

/* A link joins devices of several machines, so that bytes go from one to another past the hosts. Its members have
 * numbers from 0; they find each other by an id, which one of them makes and the others are told. */
typedef struct ls_link ls_link;
typedef struct ls_link_id {
    unsigned char bytes[128];
} ls_link_id;

/* What goes to or comes from a member. */
typedef struct ls_link_piece {
    void *memory;
    size_t bytes;
    int member;
    bool sends;
} ls_link_piece;

/* What a device holds of its own kind of memory, beside what was allocated on it. */
typedef struct ls_device_usage {
    unsigned char id[16]; /* of the hardware: workers with the same share its memory */
    size_t total, free;   /* of the hardware */
    size_t others;        /* in use before this device had allocated: contexts, and other processes */
    size_t modules;       /* kernels, as the driver's count of free memory tells */
    size_t lists;         /* for lists of kernels' arguments */
    size_t scratch;       /* that operations needed beyond what was lent to them */
    size_t pinned;        /* memory of the host, for copies */
    size_t shared;        /* for collectives, beside arenas: counters, and scratch that was not lent */
    size_t links;         /* between machines, as the driver's count of free memory tells */
} ls_device_usage;

/* What a device is made of; the contracts are with the functions below. */
typedef struct ls_device_calls {
    ls_status (*alloc)(ls_device *device, size_t bytes, void **out);
    void (*free)(ls_device *device, void *memory);
    ls_status (*copy_in)(ls_device *device, void *to, const void *host, size_t bytes);
    ls_status (*copy_out)(ls_device *device, void *host, const void *from, size_t bytes);
    ls_status (*copy)(ls_device *device, void *to, const void *from, size_t bytes);
    ls_status (*fill)(ls_device *device, void *to, unsigned char byte, size_t bytes);
    ls_status (*record)(ls_device *device, ls_event *out);
    ls_status (*follow)(ls_device *device, ls_event event);
    ls_status (*wait)(ls_device *device, ls_event event);
    ls_status (*finish)(ls_device *device);
    void (*destroy)(ls_device *device);
    ls_status (*compute_otherwise)(ls_device *device, bool otherwise); /* NULL: there is one way */
    ls_status (*use_graphs)(ls_device *device, ls_graphs how);         /* NULL: there are none */
    /* NULL, all five: memory cannot be shared. */
    ls_status (*share)(ls_device *device, void *memory, ls_memory_handle *out);
    ls_status (*open)(ls_device *device, const ls_memory_handle *handle, void **out);
    void (*close)(ls_device *device, void *memory);
    ls_status (*signal)(ls_device *device, uint64_t *counter, uint64_t value);
    ls_status (*await)(ls_device *device, const uint64_t *counter, uint64_t value);
    /* NULL, all six: there are no links. */
    ls_status (*passed)(ls_device *device, ls_event event, bool *out);
    ls_status (*link_id)(ls_device *device, ls_link_id *out);
    ls_status (*link_open)(ls_device *device, const ls_link_id *id, int member, int members, ls_link **out);
    ls_status (*link_settled)(ls_device *device, ls_link *link, bool *out);
    ls_status (*link_move)(ls_device *device, ls_link *link, const ls_link_piece *pieces, int count);
    void (*link_close)(ls_device *device, ls_link *link);
    /* NULL, all three: memory is the host's, and operations find their own scratch. */
    void (*lend)(ls_device *device, void *memory, size_t bytes);
    void (*take_back)(ls_device *device, const void *memory);
    ls_status (*usage)(ls_device *device, ls_device_usage *out);
    /* NULL, both: plain pages will do. */
    ls_status (*host_alloc)(ls_device *device, size_t bytes, void **out);
    void (*host_free)(ls_device *device, void *memory);
    ls_status (*read_times)(ls_device *device); /* NULL: what it does is done when its calls return */
    /* NULL, both: memory is the host's. */
    ls_status (*mark)(ls_device *device);
    ls_status (*rescue)(ls_device *device, void *host, const void *from, size_t bytes);
} ls_device_calls;

/* Who has to know what happens to a device: the workers that read each other's memory (comm/peers). */
typedef struct ls_device_guest ls_device_guest;
struct ls_device_guest {
    /* Asked while the host waits for the device; other than LS_OK ends the wait, and the device is lost. */
    ls_status (*watch)(ls_device_guest *guest);
    ls_status (*allocated)(ls_device_guest *guest, void *memory, size_t bytes);
    void (*freed)(ls_device_guest *guest, void *memory); /* it is about to be */
    void (*leave)(ls_device_guest *guest);               /* before the device is destroyed */
};

/* A kind of device begins its own struct with this one. */
struct ls_device {
    const char *name;
    const char *about; /* which hardware it is, "GPU 0, NVIDIA H200,"; NULL: none of its own */
    int queue;         /* where calls go */
    bool is_host;      /* its memory is the host's: workers move it as they move any other (comm/tensors.h) */
    size_t align;      /* of pieces of an arena in its memory; 0: the least */
    uint64_t reads;    /* copies to the host so far: each waits for the queue, so a step makes as few as it can */
    uint64_t read_ns;  /* that the host spent on them: work that was still to be done when it had no more to enqueue */
    const ls_device_calls *calls;
    const struct ls_ops *ops;
    ls_device_guest *guest; /* NULL: nobody */
    size_t linked_bytes;    /* of its memory that links took */
    size_t shared_bytes;    /* that was allocated for collectives beside arenas */
};

/* The CPU. `threads` and `cpus` are those of ls_pool_create(): the calling thread is the first and may be pinned.
 * `kernels` is borrowed and outlives the device; NULL: those of this CPU. On failure nothing is left to release. */
ls_status ls_device_open_cpu(int threads, const int *cpus, const struct ls_kernels *kernels, ls_device **out);

/* The same on threads that are there already; the pool is borrowed. Tensors come from `memory`, so that other workers
 * can read them; NULL: plain memory of this process. */
ls_status ls_device_open_cpu_pool(struct ls_pool *pool, const struct ls_kernels *kernels,
                                  const ls_memory_source *memory, ls_device **out);

/* Waits for the queue and gives everything back but memory that is still allocated, which its owner frees first. NULL
 * does nothing. */
static inline void ls_device_destroy(ls_device *device) {
    if (device && device->guest) device->guest->leave(device->guest);
    if (device) device->calls->destroy(device);
}

/* Zeroed, 64-byte aligned; 0 bytes give a valid address too. The caller owns it and frees it on the same device. On
 * failure *out is NULL. */
static inline ls_status ls_device_alloc(ls_device *device, size_t bytes, void **out) {
    LS_TRY(device->calls->alloc(device, bytes, out));
    return device->guest ? device->guest->allocated(device->guest, *out, bytes) : LS_OK;
}

/* Work enqueued before may still use the memory. NULL does nothing. */
static inline void ls_device_free(ls_device *device, void *memory) {
    if (memory && device->guest) device->guest->freed(device->guest, memory);
    if (memory) device->calls->free(device, memory);
}

/* Host to device. The host memory may be changed as soon as this returns. */
static inline ls_status ls_device_copy_in(ls_device *device, void *to, const void *host, size_t bytes) {
    return device->calls->copy_in(device, to, host, bytes);
}

/* Device to host. Waits for what was enqueued before; when this returns the bytes are there. */
static inline ls_status ls_device_copy_out(ls_device *device, void *host, const void *from, size_t bytes) {
    uint64_t begin = ls_clock_ns();
    ls_status status = device->calls->copy_out(device, host, from, bytes);
    device->reads++;
    device->read_ns += ls_clock_ns() - begin;
    return status;
}

/* A worker that ends because another is gone may still want what it has, although its queues wait for the other for
 * ever. ls_device_rescue() reads memory past all queues, also after a guest has ended a wait, once everything is done
 * that was before the last ls_device_mark() of LS_QUEUE_COMPUTE, and waits for nothing else: the caller knows that what
 * was enqueued later leaves the memory as it is. */
static inline ls_status ls_device_mark(ls_device *device) {
    return device->calls->mark ? device->calls->mark(device) : LS_OK;
}
static inline bool ls_device_rescues(const ls_device *device) { return device->calls->rescue != NULL; }
static inline ls_status ls_device_rescue(ls_device *device, void *host, const void *from, size_t bytes) {
    return device->calls->rescue(device, host, from, bytes);
}

/* Memory of the host that ls_device_copy_out() is fastest to; freed on the same device, with the same bytes. */
static inline ls_status ls_device_host_alloc(ls_device *device, size_t bytes, void **out) {
    if (device->calls->host_alloc && bytes > 0) return device->calls->host_alloc(device, bytes, out);
    return ls_pages_alloc(bytes, out);
}
static inline void ls_device_host_free(ls_device *device, void *memory, size_t bytes) {
    if (device->calls->host_alloc && bytes > 0)
        device->calls->host_free(device, memory);
    else
        ls_pages_free(memory, bytes);
}

/* Inside the device; the two places do not overlap. */
static inline ls_status ls_device_copy(ls_device *device, void *to, const void *from, size_t bytes) {
    return device->calls->copy(device, to, from, bytes);
}

static inline ls_status ls_device_fill(ls_device *device, void *to, unsigned char byte, size_t bytes) {
    return device->calls->fill(device, to, byte, bytes);
}

/* Lends the device memory of its own for the intermediate results of operations on LS_QUEUE_COMPUTE; what is not lent
 * it allocates when an operation needs it. One piece at a time: another is not taken. */
static inline void ls_device_lend(ls_device *device, void *memory, size_t bytes) {
    if (device->calls->lend) device->calls->lend(device, memory, bytes);
}
/* Ends that, if it is this memory. */
static inline void ls_device_take_back(ls_device *device, const void *memory) {
    if (device->calls->take_back) device->calls->take_back(device, memory);
}

/* Whether the device has memory of its own kind; and how that is used. */
static inline bool ls_device_has_usage(const ls_device *device) { return device->calls->usage != NULL; }
static inline ls_status ls_device_get_usage(ls_device *device, ls_device_usage *out) {
    return device->calls->usage(device, out);
}

/* From now on operations are computed another way, by other instructions or kernels, with the same bits: what one unit
 * of the hardware does wrongly then shows. False: the usual way again. */
static inline ls_status ls_device_compute_otherwise(ls_device *device, bool otherwise) {
    return device->calls->compute_otherwise ? device->calls->compute_otherwise(device, otherwise) : LS_OK;
}

/* From now on operations are started together, as graphs, where the device can do so; with the same bits. */
static inline ls_status ls_device_use_graphs(ls_device *device, ls_graphs how) {
    return device->calls->use_graphs ? device->calls->use_graphs(device, how) : LS_OK;
}

/* From now on calls go to this queue; gives the one before. */
static inline int ls_device_use(ls_device *device, int queue) {
    int before = device->queue;
    device->queue = queue;
    return before;
}

/* Marks this place in the queue. */
static inline ls_status ls_device_record(ls_device *device, ls_event *out) {
    return device->calls->record(device, out);
}

/* What is enqueued from now on happens after what was before the event, on whatever queue of this device. */
static inline ls_status ls_device_follow(ls_device *device, ls_event event) {
    return device->calls->follow(device, event);
}

/* The host waits until everything enqueued before the event is done. The event may be waited for again.
 * LS_ERR_INPUT for an event that this device has not recorded. */
static inline ls_status ls_device_wait(ls_device *device, ls_event event) { return device->calls->wait(device, event); }

/* The host waits until everything on all queues is done. */
static inline ls_status ls_device_finish(ls_device *device) { return device->calls->finish(device); }

/* While a trace is recorded (base/events.h) a device notes when its queues do what they are asked for. This adds what
 * was done to the trace, and waits for LS_QUEUE_COMPUTE. Nothing without a trace. */
static inline ls_status ls_device_read_times(ls_device *device) {
    return ls_events_are_on() && device->calls->read_times ? device->calls->read_times(device) : LS_OK;
}

/* ---- memory of other workers ------------------------------------------------------------------------------------- */

static inline bool ls_device_shares(const ls_device *device) { return device->calls->share != NULL; }

/* `memory` is what ls_device_alloc() gave; the handle is good while it is allocated, for processes of this machine. */
static inline ls_status ls_device_share(ls_device *device, void *memory, ls_memory_handle *out) {
    return device->calls->share(device, memory, out);
}

/* An address at which this device finds another worker's memory, until ls_device_close(). */
static inline ls_status ls_device_open(ls_device *device, const ls_memory_handle *handle, void **out) {
    return device->calls->open(device, handle, out);
}
static inline void ls_device_close(ls_device *device, void *memory) {
    if (memory) device->calls->close(device, memory);
}

/* Writes a counter in shared memory after everything before it in the queue; everybody who awaits the value then sees
 * what that wrote. */
static inline ls_status ls_device_signal(ls_device *device, uint64_t *counter, uint64_t value) {
    return device->calls->signal(device, counter, value);
}
/* What follows in the queue waits until the counter is at least `value`. */
static inline ls_status ls_device_await(ls_device *device, const uint64_t *counter, uint64_t value) {
    return device->calls->await(device, counter, value);
}

/* ---- memory of other machines ------------------------------------------------------------------------------------ */

static inline bool ls_device_links(const ls_device *device) { return device->calls->link_open != NULL; }

/* Whether everything before the event is done; nobody waits. */
static inline ls_status ls_device_passed(ls_device *device, ls_event event, bool *out) {
    return device->calls->passed(device, event, out);
}

/* LS_ERR_INPUT where this machine lacks what links need. */
static inline ls_status ls_device_link_id(ls_device *device, ls_link_id *out) {
    return device->calls->link_id(device, out);
}

/* Begins to make this device a member; all members call it. None of these calls waits for another member: the link is
 * there, and what was moved is in the queue, when ls_device_link_settled() says so. On failure *out is NULL. */
static inline ls_status ls_device_link_open(ls_device *device, const ls_link_id *id, int member, int members,
                                            ls_link **out) {
    return device->calls->link_open(device, id, member, members, out);
}

/* Whether the last call is done with; fails where the link has failed since. */
static inline ls_status ls_device_link_settled(ls_device *device, ls_link *link, bool *out) {
    return device->calls->link_settled(device, link, out);
}

/* Sends and receives the pieces, all at a time, in the queue. What one member sends to another comes in the order in
 * which it was sent, in pieces of the same sizes; the queue stands still until both have come to it. */
static inline ls_status ls_device_link_move(ls_device *device, ls_link *link, const ls_link_piece *pieces, int count) {
    return device->calls->link_move(device, link, pieces, count);
}

/* What is under way is given up. NULL does nothing. */
static inline void ls_device_link_close(ls_device *device, ls_link *link) {
    if (link) device->calls->link_close(device, link);
}

#endif
