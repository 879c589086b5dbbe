/* device.h: where tensors live and where operations on them run.
 *
 * A device (the CPU, a GPU, or one without hardware for the planner) is a memory space, some queues with events like
 * CUDA streams, and a table of operations (ops.h). Each worker opens one. Operations, copies and fills are enqueued and
 * take effect in the order of the calls; they may still be running when the call returns. On the CPU every call returns
 * when its work is done.
 *
 *     ls_device_copy_in → ops->gemm → ops->act_forward → ls_device_record → … → ls_device_wait → ls_device_copy_out
 *
 * Calls go to the queue that ls_device_use() named last, at first LS_QUEUE_COMPUTE. Between queues events alone make an
 * order: what follows ls_device_follow() on one queue comes after what was before ls_device_record() on another.
 *
 * Workers on one machine may read each other's memory, if the device can share it. Counters in shared memory order
 * their work: one worker calls ls_device_signal(), another ls_device_await().
 *
 * Only the device's own functions may read or write its memory. The caller may add to a pointer into it, but must not
 * dereference it. One thread at a time uses a device.
 *
 * Errors: LS_ERR_RESOURCE if memory is short, LS_ERR_FAILED if the device itself failed. After LS_ERR_FAILED only
 * ls_device_destroy() may be called. A failure of queued work may be reported by any later call. */
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

/* Queues: one computes; four move tensors between workers, one for each axis of the layout (dp, tp, pp) and one for
 * other communicators; and one receives tensors from other machines. */
enum { LS_QUEUE_COMPUTE, LS_QUEUE_COMM, LS_QUEUE_RECEIVE = LS_QUEUE_COMM + 4, LS_QUEUES };

/* A place in a queue of one device: done once all work enqueued before it is done. A plain value; it needs no release.
 */
typedef struct ls_event {
    int queue;
    uint64_t number; /* counts the events of the device, or of the queue, from 1; 0 on a device without hardware */
} ls_event;

/* The name by which another process opens shared memory. */
typedef struct ls_memory_handle {
    unsigned char bytes[64];
} ls_memory_handle;

/* A link joins devices of several machines (an NCCL communicator), so that bytes go from one to another without a copy
 * in host memory. Its members have numbers from 0. They find each other by an id: one member makes it, and the host
 * sends it to the others. */
typedef struct ls_link ls_link;
typedef struct ls_link_id {
    unsigned char bytes[128];
} ls_link_id;

/* Bytes to send to a member, or to receive from it. */
typedef struct ls_link_piece {
    void *memory;
    size_t bytes;
    int member; /* the other side */
    bool sends; /* false: receives */
} ls_link_piece;

/* How the memory of a device is used, beside what was allocated on it by ls_device_alloc(); all in bytes. */
typedef struct ls_device_usage {
    unsigned char id[16]; /* of the hardware: workers with the same share its memory */
    size_t total, free;   /* of the hardware */
    size_t others;        /* in use before this device had allocated: contexts, and other processes */
    size_t modules;       /* kernels, as the driver's count of free memory tells */
    size_t lists;         /* buffers for lists of kernel arguments */
    size_t scratch;       /* that operations allocated because ls_device_lend() gave them less than they needed */
    size_t pinned;        /* pinned memory of the host, for copies */
    size_t shared;        /* for collectives, beside arenas: counters, and scratch that was not lent */
    size_t links;         /* between machines, as the driver's count of free memory tells */
} ls_device_usage;

/* The functions of a device; the functions below state their contracts. */
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
    /* NULL, all three: memory is the host's, and operations allocate their own scratch. */
    void (*lend)(ls_device *device, void *memory, size_t bytes);
    void (*take_back)(ls_device *device, const void *memory);
    ls_status (*usage)(ls_device *device, ls_device_usage *out);
    /* NULL, both: plain pages will do. */
    ls_status (*host_alloc)(ls_device *device, size_t bytes, void **out);
    void (*host_free)(ls_device *device, void *memory);
    ls_status (*read_times)(ls_device *device); /* NULL: calls return when their work is done */
    /* NULL, both: memory is the host's. */
    ls_status (*mark)(ls_device *device);
    ls_status (*rescue)(ls_device *device, void *host, const void *from, size_t bytes);
} ls_device_calls;

/* Callbacks of the observer of a device. The only one is comm/peers, through which workers read each other's memory: it
 * maps each allocation in the other processes, and ends waits for a worker that died. */
typedef struct ls_device_guest ls_device_guest;
struct ls_device_guest {
    /* Called repeatedly while the host waits for the device. Any status but LS_OK ends the wait, and the device is
     * lost. */
    ls_status (*watch)(ls_device_guest *guest);
    ls_status (*allocated)(ls_device_guest *guest, void *memory, size_t bytes); /* after an allocation */
    void (*freed)(ls_device_guest *guest, void *memory);                        /* before memory is freed */
    void (*leave)(ls_device_guest *guest);                                      /* before the device is destroyed */
};

/* The base of every device: the struct of a kind of device begins with it. */
struct ls_device {
    const char *name;
    const char *about; /* which hardware it is, "GPU 0, NVIDIA H200,"; NULL: none of its own */
    int queue;         /* the current queue, to which calls go; set by ls_device_use() */
    bool is_host;      /* its memory is host memory, which workers move without the device (comm/movers) */
    size_t align;      /* alignment of an arena's pieces in its memory; 0: the arena's default */
    uint64_t reads;    /* copies to the host so far; each waits for the queue, so a step makes as few as it can */
    uint64_t read_ns;  /* time that the host spent in these copies, that is, waited for the device */
    const ls_device_calls *calls;
    const struct ls_ops *ops;
    ls_device_guest *guest; /* the observer; NULL: none */
    size_t linked_bytes;    /* device memory taken by links */
    size_t shared_bytes;    /* device memory allocated for collectives outside arenas */
};

/* Opens the CPU as a device. `threads` and `cpus` are those of ls_pool_create(): the calling thread is the first and
 * may be pinned. `kernels` is borrowed and outlives the device; NULL: those of this CPU. On failure nothing is left to
 * release. */
ls_status ls_device_open_cpu(int threads, const int *cpus, const struct ls_kernels *kernels, ls_device **out);

/* Opens the CPU as a device on the threads of `pool`, which is borrowed. Tensors are allocated from `memory`, so that
 * other workers can read them; NULL: from private memory of this process. */
ls_status ls_device_open_cpu_pool(struct ls_pool *pool, const struct ls_kernels *kernels,
                                  const ls_memory_source *memory, ls_device **out);

/* Waits for the queues, and destroys the device after its observer has left it. The caller must have freed its memory
 * before. NULL does nothing. */
static inline void ls_device_destroy(ls_device *device) {
    if (device && device->guest) device->guest->leave(device->guest);
    if (device) device->calls->destroy(device);
}

/* Allocates zeroed memory, aligned to 64 bytes; 0 bytes give a valid address too. The caller frees it on the same
 * device. The observer sees it; if that fails, the memory is freed again. On failure *out is NULL. */
static inline ls_status ls_device_alloc(ls_device *device, size_t bytes, void **out) {
    LS_TRY(device->calls->alloc(device, bytes, out));
    ls_status status = device->guest ? device->guest->allocated(device->guest, *out, bytes) : LS_OK;
    if (status == LS_OK) return LS_OK;
    device->calls->free(device, *out);
    *out = NULL;
    return status;
}

/* Frees memory. Work that was enqueued before may still use it. NULL does nothing. */
static inline void ls_device_free(ls_device *device, void *memory) {
    if (memory && device->guest) device->guest->freed(device->guest, memory);
    if (memory) device->calls->free(device, memory);
}

/* Copies from the host to the device. The host memory may be changed as soon as the call returns. */
static inline ls_status ls_device_copy_in(ls_device *device, void *to, const void *host, size_t bytes) {
    return device->calls->copy_in(device, to, host, bytes);
}

/* Copies from the device to the host. Waits for the work enqueued before on the current queue, and returns when the
 * bytes have arrived. Counts the call and the time of the wait in device->reads and read_ns. */
static inline ls_status ls_device_copy_out(ls_device *device, void *host, const void *from, size_t bytes) {
    uint64_t begin = ls_clock_ns();
    ls_status status = device->calls->copy_out(device, host, from, bytes);
    device->reads++;
    device->read_ns += ls_clock_ns() - begin;
    return status;
}

/* Marks the present end of LS_QUEUE_COMPUTE, whatever the current queue: ls_device_rescue() waits only for work before
 * the last mark. Does nothing for host memory. */
static inline ls_status ls_device_mark(ls_device *device) {
    return device->calls->mark ? device->calls->mark(device) : LS_OK;
}
/* Returns whether ls_device_rescue() may be called. False for host memory, which can be read directly. */
static inline bool ls_device_rescues(const ls_device *device) { return device->calls->rescue != NULL; }
/* Copies to the host after another worker was lost, to save this worker's state: the queues may wait for the lost
 * worker forever, so this waits only for the work before the last mark. Works also after an observer has ended a wait.
 * The caller guarantees that later work does not change the memory. */
static inline ls_status ls_device_rescue(ls_device *device, void *host, const void *from, size_t bytes) {
    return device->calls->rescue(device, host, from, bytes);
}

/* Allocates host memory to which ls_device_copy_out() is fastest: pinned memory on GPUs, at most four blocks at a time
 * (LS_ERR_RESOURCE for more); pages of the process on other devices. The caller frees it on the same device with the
 * same number of bytes. */
static inline ls_status ls_device_host_alloc(ls_device *device, size_t bytes, void **out) {
    if (device->calls->host_alloc && bytes > 0) return device->calls->host_alloc(device, bytes, out);
    return ls_pages_alloc(bytes, out);
}
/* Frees memory of ls_device_host_alloc(); `bytes` is what was asked for. */
static inline void ls_device_host_free(ls_device *device, void *memory, size_t bytes) {
    if (device->calls->host_alloc && bytes > 0)
        device->calls->host_free(device, memory);
    else
        ls_pages_free(memory, bytes);
}

/* Copies within the device. The two places must not overlap. */
static inline ls_status ls_device_copy(ls_device *device, void *to, const void *from, size_t bytes) {
    return device->calls->copy(device, to, from, bytes);
}

/* Sets each of `bytes` bytes to `byte`. */
static inline ls_status ls_device_fill(ls_device *device, void *to, unsigned char byte, size_t bytes) {
    return device->calls->fill(device, to, byte, bytes);
}

/* Lends the device a piece of its own memory as scratch for operations on LS_QUEUE_COMPUTE. An operation that needs
 * more than is lent allocates it. While one piece is lent, another is ignored. */
static inline void ls_device_lend(ls_device *device, void *memory, size_t bytes) {
    if (device->calls->lend) device->calls->lend(device, memory, bytes);
}
/* Takes the scratch back, if `memory` is the piece that is lent. */
static inline void ls_device_take_back(ls_device *device, const void *memory) {
    if (device->calls->take_back) device->calls->take_back(device, memory);
}

/* Returns whether the device has memory other than the host's. */
static inline bool ls_device_has_usage(const ls_device *device) { return device->calls->usage != NULL; }
/* Reports how the device's memory is used. To be called only if ls_device_has_usage(). */
static inline ls_status ls_device_get_usage(ls_device *device, ls_device_usage *out) {
    return device->calls->usage(device, out);
}

/* Switches operations to other instructions or kernels, which give the same bits, so that an audit detects a hardware
 * unit that computes wrongly. False: back to the usual ones. Does nothing on a device with one way only. */
static inline ls_status ls_device_compute_otherwise(ls_device *device, bool otherwise) {
    return device->calls->compute_otherwise ? device->calls->compute_otherwise(device, otherwise) : LS_OK;
}

/* Switches the batching of launches into CUDA graphs on or off, on a device that has them; waits for all queues. */
static inline ls_status ls_device_use_graphs(ls_device *device, ls_graphs how) {
    return device->calls->use_graphs ? device->calls->use_graphs(device, how) : LS_OK;
}

/* Makes `queue` the queue to which calls go. Returns the previous one. */
static inline int ls_device_use(ls_device *device, int queue) {
    int before = device->queue;
    device->queue = queue;
    return before;
}

/* Records an event: the present end of the current queue. */
static inline ls_status ls_device_record(ls_device *device, ls_event *out) {
    return device->calls->record(device, out);
}

/* Makes the current queue wait for an event of any queue of this device before it runs what is enqueued from now on. */
static inline ls_status ls_device_follow(ls_device *device, ls_event event) {
    return device->calls->follow(device, event);
}

/* Blocks the host until all work enqueued before the event is done. An event may be waited for several times.
 * LS_ERR_INPUT for an event that this device has not recorded. */
static inline ls_status ls_device_wait(ls_device *device, ls_event event) { return device->calls->wait(device, event); }

/* Blocks the host until all queues are empty. */
static inline ls_status ls_device_finish(ls_device *device) { return device->calls->finish(device); }

/* Adds to the trace (base/events.h) the begin and end of the work that the queues did since the last call, and blocks
 * until LS_QUEUE_COMPUTE is empty. Does nothing unless a trace is recorded. */
static inline ls_status ls_device_read_times(ls_device *device) {
    return ls_events_are_on() && device->calls->read_times ? device->calls->read_times(device) : LS_OK;
}

/* ---- memory of other workers ------------------------------------------------------------------------------------- */

/* Returns whether the device can share memory with other processes of this machine. */
static inline bool ls_device_shares(const ls_device *device) { return device->calls->share != NULL; }

/* Makes a handle by which other processes of this machine open `memory`, a result of ls_device_alloc(). The handle is
 * valid until the memory is freed. */
static inline ls_status ls_device_share(ls_device *device, void *memory, ls_memory_handle *out) {
    return device->calls->share(device, memory, out);
}

/* Maps the memory of another worker. *out is its address on this device until ls_device_close(), which waits for all
 * queues first and does nothing for NULL. To be called only if ls_device_shares(). */
static inline ls_status ls_device_open(ls_device *device, const ls_memory_handle *handle, void **out) {
    return device->calls->open(device, handle, out);
}
/* Unmaps memory of ls_device_open(). */
static inline void ls_device_close(ls_device *device, void *memory) {
    if (memory) device->calls->close(device, memory);
}

/* Enqueues a write of `value` to a counter in shared memory. A worker whose queue has awaited the value sees everything
 * that this queue wrote before. */
static inline ls_status ls_device_signal(ls_device *device, uint64_t *counter, uint64_t value) {
    return device->calls->signal(device, counter, value);
}
/* Makes the current queue, not the host, wait until the counter is at least `value`. */
static inline ls_status ls_device_await(ls_device *device, const uint64_t *counter, uint64_t value) {
    return device->calls->await(device, counter, value);
}

/* ---- memory of other machines ------------------------------------------------------------------------------------ */

/* Returns whether the device can open links to devices of other machines. */
static inline bool ls_device_links(const ls_device *device) { return device->calls->link_open != NULL; }

/* Sets *out to whether all work before the event is done, without waiting. */
static inline ls_status ls_device_passed(ls_device *device, ls_event event, bool *out) {
    return device->calls->passed(device, event, out);
}

/* Makes the id of a new link. LS_ERR_INPUT if this machine lacks what links need. */
static inline ls_status ls_device_link_id(ls_device *device, ls_link_id *out) {
    return device->calls->link_id(device, out);
}

/* Starts to join a link; all members call it. This call and ls_device_link_move() do not wait for other members: the
 * link is open, or the move enqueued, once ls_device_link_settled() says so. On failure *out is NULL. */
static inline ls_status ls_device_link_open(ls_device *device, const ls_link_id *id, int member, int members,
                                            ls_link **out) {
    return device->calls->link_open(device, id, member, members, out);
}

/* Sets *out to whether the last call on the link has completed. Fails if the link has failed since. */
static inline ls_status ls_device_link_settled(ls_device *device, ls_link *link, bool *out) {
    return device->calls->link_settled(device, link, out);
}

/* Enqueues sends and receives, all at the same time. Messages between two members arrive in order, and the receiver's
 * pieces must have the sender's sizes. The queue blocks until the other member's queue reaches the same move. */
static inline ls_status ls_device_link_move(ls_device *device, ls_link *link, const ls_link_piece *pieces, int count) {
    return device->calls->link_move(device, link, pieces, count);
}

/* Closes a link; moves in flight are abandoned. NULL does nothing. */
static inline void ls_device_link_close(ls_device *device, ls_link *link) {
    if (link) device->calls->link_close(device, link);
}

#endif
