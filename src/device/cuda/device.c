/* device.c: the device of a GPU: implements ls_device_calls (device/device.h) with one stream per queue, memory
 * from the driver, and copies through pinned rings of bounded size; and launch.h, by which operations launch
 * kernels. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/events.h"
#include "device/cuda/cuda.h"
#include "device/cuda/driver.h"
#include "device/cuda/graphs.h"
#include "device/cuda/launch.h"
#include "device/cuda/modules.h"
#include "device/cuda/nccl.h"
#include "device/cuda/times.h"
#include "device/dry.h"
#include "device/dtype.h"

enum {
    EVENTS = 256,          /* of a ring: an event stands also for the older one that had its place */
    PIECE_BYTES = 1 << 20, /* of a copy from or to the host */
    PIECES = 8,            /* of the pinned ring */
    HOST_BLOCKS = 4,       /* of pinned memory of callers, at most */
    SHORT_BYTES = 2 << 10, /* bound of a short list; most lists are short */
    SHORT_LISTS = 128,     /* of a queue */
    LONG_LISTS = 12,       /* of a queue, of up to LS_CUDA_LIST_BYTES */
    LISTS_EACH = LONG_LISTS + SHORT_LISTS,
    LISTS = LISTS_EACH * LS_QUEUE_RECEIVE, /* no kernel runs on the last queue */
    LISTS_EACH_BYTES = LONG_LISTS * LS_CUDA_LIST_BYTES + SHORT_LISTS * SHORT_BYTES,
    LISTS_BYTES = LISTS_EACH_BYTES * LS_QUEUE_RECEIVE,
    FLAGS_BYTES = LS_CUDA_FLAGS * (int)sizeof(uint32_t),
    PINNED_BYTES = PIECES * PIECE_BYTES + LISTS_BYTES,
    ALIGN_BYTES = 256, /* alignment for the widest load and store instructions */
    /* The GPU that the dry device assumes. Operations that can use a variable amount of scratch use only what the arena
     * lends them, so that the memory of a run is the same on every GPU. */
    DRY_PROCESSORS = 132,
    DRY_SHARED_BYTES = 99 << 10,
    WGMMA_CAPABILITY = 90,
    WAIT_LIMIT_S = 600,
    TEARDOWN_LIMIT_S = 10,
    RESCUE_S = 10, /* limit of each wait of a rescue */
    BLOCKS_X_MAX = 0x7FFFFFFF,
    BLOCKS_Y_MAX = 0xFFFF,
};

/* A list on the device. The pinned memory that it was copied from keeps the same bytes. */
typedef struct list_place {
    CUevent copied; /* NULL: never used */
    size_t bytes;
    uint64_t used; /* number of the last call that used it: the least recently used list is replaced */
} list_place;

typedef struct cuda_device {
    ls_device base;
    const ls_cuda_driver *driver; /* NULL: a dry device */
    int gpu;
    double patience_s; /* how long the host waits for work that does not end */
    CUdevice handle;
    CUcontext context;
    CUstream streams[LS_QUEUES];
    CUevent events[LS_QUEUES][EVENTS];
    uint64_t recorded[LS_QUEUES]; /* events so far; number n is at place n % EVENTS */
    bool otherwise;               /* use other tiles and blocks, which give the same bits */
    int processors;
    int capability;
    bool has_wgmma;
    size_t shared_max;
    size_t shared_set[LS_CUDA_KERNELS]; /* shared memory that each kernel may use so far */
    ls_cuda_modules *modules;
    ls_cuda_library *library;
    void *lent; /* scratch of the compute queue, borrowed from an arena */
    size_t lent_bytes;
    void *scratch[LS_QUEUES]; /* allocated if the lent scratch is too small */
    size_t scratch_bytes[LS_QUEUES];
    size_t others;         /* bytes in use on the GPU before this device allocated any */
    unsigned char *pinned; /* PIECES pieces, then LISTS lists */
    CUevent piece_done[PIECES];
    bool piece_used[PIECES];
    unsigned next_piece; /* number of the next piece, modulo PIECES its place */
    list_place list[LISTS];
    uint64_t lists_given; /* calls of ls_cuda_list() so far */
    struct {
        unsigned char *memory;
        size_t bytes;
    } host_blocks[HOST_BLOCKS]; /* pinned memory of callers, to which copies need no staging */
    void *lists;                /* on the device: LISTS lists, those of a queue together, long ones first; then flags */
    ls_cuda_graphs *graphs;     /* NULL: kernels are launched one by one */
    bool one_by_one;            /* launch directly for now, although there are graphs */
    size_t args_bytes[LS_CUDA_KERNELS]; /* for graphs; 0: not known yet */
    ls_cuda_times *times;               /* NULL until something is traced */
    ls_cuda_asked asked;                /* the operation that now launches kernels, for the trace */
    char name[32], model[96], about[128];
    CUevent marked;   /* NULL: mark() was not called */
    CUstream aside;   /* created by the first rescue, never destroyed */
    void *aside_host; /* pinned, PIECE_BYTES */
    bool blamed;      /* blame_lost_worker() has run */
    bool lost;        /* the GPU failed, hangs, or waits for a lost worker: its resources are not freed */
} cuda_device;

/* Returns the GPU device whose base this is. */
static cuda_device *cuda_of(ls_device *device) { return (cuda_device *)(void *)device; }
/* Returns the stream of the queue that ls_device_use() named last. */
static CUstream current_stream(const cuda_device *cuda) { return cuda->streams[cuda->base.queue]; }

/* Returns whether this is a dry device, which computes nothing and has no driver. */
static bool is_dry(const cuda_device *cuda) { return !cuda->driver; }
static void *const nowhere = (void *)(uintptr_t)4096; /* what a dry device returns as memory that nothing reads */

/* Converts a pointer into device memory to the driver's type of address. */
static CUdeviceptr address_of(const void *memory) { return (CUdeviceptr)(uintptr_t)memory; }

/* ASK() and CALL() call the driver and return on an error; CALL() first looks for a lost worker as its cause. */
#define ASK(cuda, name, ...)                                                                                           \
    LS_TRY(ls_cuda_result((cuda)->driver, (cuda)->driver->name(__VA_ARGS__), #name, (cuda)->gpu))
#define CALL(cuda, name, ...)                                                                                          \
    LS_TRY(blame_lost_worker(cuda,                                                                                     \
                             ls_cuda_result((cuda)->driver, (cuda)->driver->name(__VA_ARGS__), #name, (cuda)->gpu)))

/* Returns the loss of another worker instead of LS_ERR_FAILED of the GPU, if there is one: the memory of a lost
 * worker disappears while kernels read it, which makes the driver fail. Polls the observer for up to half a
 * second, because the loss is detected late; if it reports one, this device is lost, too. Does so once; then, and
 * for any other status, returns `status`. */
static ls_status blame_lost_worker(cuda_device *cuda, ls_status status) {
    enum { TRIES = 500, TRY_US = 1000 };
    ls_device_guest *guest = cuda->base.guest;
    if (status != LS_ERR_FAILED || !guest || cuda->blamed) return status;
    cuda->blamed = true;
    for (int i = 0; i < TRIES; i++) {
        ls_status other = guest->watch(guest);
        if (other != LS_OK) {
            cuda->lost = true;
            return other;
        }
        ls_clock_sleep_us(TRY_US);
    }
    return status;
}

/* Launches the kernels collected for a queue in graphs (graphs.h). Must precede any other call on its stream. */
static ls_status flush_queue(cuda_device *cuda, int queue) {
    const char *kernel;
    if (!cuda->graphs) return LS_OK;
    CUresult result = ls_cuda_graphs_flush(cuda->graphs, queue, &kernel);
    return blame_lost_worker(cuda, ls_cuda_result(cuda->driver, result, kernel, cuda->gpu));
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

/* Polls until `ask(cuda, event)` no longer returns CUDA_ERROR_NOT_READY; sleeps between polls after 2 ms.
 * Meanwhile adds finished times to the trace and, after the first 1000 polls, calls the observer's watch. Fails if the
 * GPU failed, if the watch fails, or after cuda->patience_s. After any failure the device is lost: nothing of it is
 * freed. */
static ls_status wait_until(cuda_device *cuda, CUresult (*ask)(cuda_device *cuda, CUevent event), CUevent event) {
    double begin = 0;
    for (unsigned turn = 0;; turn++) {
        CUresult result = ask(cuda, event);
        if (result != CUDA_ERROR_NOT_READY) {
            cuda->lost = result != CUDA_SUCCESS;
            return blame_lost_worker(cuda, ls_cuda_result(cuda->driver, result, "waiting", cuda->gpu));
        }
        if (cuda->times && ls_cuda_times_read_one(cuda->times)) continue;
        if (turn < 1000) continue; /* most waits end within microseconds */
        double now = ls_clock_seconds();
        if (begin == 0) begin = now;
        ls_status status = cuda->base.guest ? cuda->base.guest->watch(cuda->base.guest) : LS_OK;
        if (status != LS_OK) {
            cuda->lost = true;
            return status;
        }
        if (now - begin > cuda->patience_s) {
            cuda->lost = true;
            return ls_fail(LS_ERR_FAILED,
                           "GPU %d has not finished its work for %g seconds: look for it with nvidia-smi, and in dmesg "
                           "for Xid",
                           cuda->gpu, cuda->patience_s);
        }
        if (now - begin > 0.002) ls_clock_sleep_us(100);
    }
}

/* For wait_until(): asks whether an event has been reached. */
static CUresult ask_event(cuda_device *cuda, CUevent event) { return cuda->driver->cuEventQuery(event); }
/* For wait_until(): asks whether all queues are empty; ignores `event`. */
static CUresult ask_streams(cuda_device *cuda, CUevent event) {
    (void)event;
    CUresult result = CUDA_SUCCESS;
    for (int q = 0; q < LS_QUEUES && result == CUDA_SUCCESS; q++)
        if (cuda->streams[q]) result = cuda->driver->cuStreamQuery(cuda->streams[q]);
    return result;
}

/* Launches what is collected in graphs, and waits until all queues are empty. */
static ls_status finish_queues(ls_device *device) {
    for (int q = 0; q < LS_QUEUES; q++) LS_TRY(flush_queue(cuda_of(device), q));
    return wait_until(cuda_of(device), ask_streams, NULL);
}

/* ---- times ------------------------------------------------------------------------------------------------------- */

/* For wait_until(): asks whether the compute queue is empty; ignores `event`. */
static CUresult ask_compute(cuda_device *cuda, CUevent event) {
    (void)event;
    return cuda->driver->cuStreamQuery(cuda->streams[LS_QUEUE_COMPUTE]);
}

/* Adds finished pairs to the trace and sets a new anchor, at which the clocks of GPU and host are compared
 * (times.h). Waits until the compute queue is idle, so that the host sees the anchor pass without delay. Does
 * nothing before anything was traced. */
static ls_status read_times(ls_device *device) {
    cuda_device *cuda = cuda_of(device);
    CUevent anchor = cuda->times ? ls_cuda_times_anchor(cuda->times) : NULL;
    if (!anchor) return LS_OK;
    LS_TRY(flush_queue(cuda, LS_QUEUE_COMPUTE));
    LS_TRY(wait_until(cuda, ask_compute, NULL));
    ls_cuda_times_read(cuda->times, 0);
    CALL(cuda, cuEventRecord, anchor, cuda->streams[LS_QUEUE_COMPUTE]);
    LS_TRY(wait_until(cuda, ask_event, anchor));
    ls_cuda_times_read(cuda->times, ls_clock_ns());
    return LS_OK;
}

/* Returns whether enqueued work is traced. Creates cuda->times on first use, and then waits for the compute queue to
 * set the first anchor; without a trace it costs one load. False if that fails, for the call in which it does;
 * always false on a dry device. */
static bool is_traced(cuda_device *cuda) {
    if (!ls_events_are_on() || is_dry(cuda)) return false;
    if (cuda->times) return true;
    cuda->times = ls_cuda_times_open(cuda->driver);
    return cuda->times && read_times(&cuda->base) == LS_OK;
}

/* Begins the span of a copy named `what`, a string literal, on the current stream; NULL if nothing is traced. */
static ls_cuda_pair *begin_copy(cuda_device *cuda, const char *what, size_t bytes) {
    return is_traced(cuda) ? ls_cuda_times_copy(cuda->times, current_stream(cuda), cuda->base.queue, what, bytes)
                           : NULL;
}

/* Begins the span of a wait for queue `other` (−1: for another worker) on the current stream; NULL if nothing is
 * traced. */
static ls_cuda_pair *begin_wait(cuda_device *cuda, int other) {
    return is_traced(cuda) ? ls_cuda_times_wait(cuda->times, current_stream(cuda), cuda->base.queue, other) : NULL;
}

/* Ends a span on the current stream, after its work was enqueued there; NULL does nothing. */
static void end_times(cuda_device *cuda, ls_cuda_pair *pair) {
    if (pair) ls_cuda_times_end(cuda->times, pair, current_stream(cuda));
}

bool ls_cuda_ask(ls_device *device, const char *operation, const ls_gemm *product) {
    cuda_device *cuda = cuda_of(device);
    if (operation && cuda->asked.operation) return false;
    cuda->asked = (ls_cuda_asked){operation, product};
    return true;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

/* Implements ls_device_record(): sets *out to an event at the present end of the current queue. The ring of EVENTS
 * events of the queue is reused without waiting. */
static ls_status record_event(ls_device *device, ls_event *out) {
    cuda_device *cuda = cuda_of(device);
    int queue = device->queue;
    LS_TRY(flush_queue(cuda, device->queue));
    uint64_t number = cuda->recorded[queue] + 1;
    CALL(cuda, cuEventRecord, cuda->events[queue][number % EVENTS], cuda->streams[queue]);
    cuda->recorded[queue] = number;
    *out = (ls_event){queue, number};
    return LS_OK;
}

/* Checks that the event was recorded on this device. An event whose place in the ring was taken by a newer one
 * passes, too: waiting for the newer one then waits longer. */
static ls_status check_event(const cuda_device *cuda, ls_event event) {
    uint64_t recorded = (unsigned)event.queue < LS_QUEUES ? cuda->recorded[event.queue] : 0;
    if (event.number >= 1 && event.number <= recorded) return LS_OK;
    return ls_fail(LS_ERR_INPUT,
                   "event %llu was not recorded on this device, which has recorded %llu events; record it first",
                   (unsigned long long)event.number, (unsigned long long)recorded);
}

/* Implements ls_device_follow(): makes the current stream, not the host, wait for an event of another queue.
 * Nothing to do for one of the same queue. */
static ls_status follow_event(ls_device *device, ls_event event) {
    cuda_device *cuda = cuda_of(device);
    LS_TRY(check_event(cuda, event));
    if (event.queue == device->queue) return LS_OK;
    LS_TRY(flush_queue(cuda, device->queue));
    ls_cuda_pair *pair = begin_wait(cuda, event.queue);
    CALL(cuda, cuStreamWaitEvent, current_stream(cuda), cuda->events[event.queue][event.number % EVENTS], 0);
    end_times(cuda, pair);
    return LS_OK;
}

/* Implements ls_device_wait(): the host waits until the work before the event is done. Needs no flush: the queue
 * was flushed when the event was recorded. */
static ls_status wait_for_event(ls_device *device, ls_event event) {
    cuda_device *cuda = cuda_of(device);
    LS_TRY(check_event(cuda, event));
    return wait_until(cuda, ask_event, cuda->events[event.queue][event.number % EVENTS]);
}

/* Implements ls_device_passed(): sets *out to whether the work before the event is done, without waiting. On an
 * error other than "not ready" the device is lost. */
static ls_status has_passed(ls_device *device, ls_event event, bool *out) {
    cuda_device *cuda = cuda_of(device);
    LS_TRY(check_event(cuda, event));
    CUresult result = ask_event(cuda, cuda->events[event.queue][event.number % EVENTS]);
    *out = result == CUDA_SUCCESS;
    if (*out || result == CUDA_ERROR_NOT_READY) return LS_OK;
    cuda->lost = true;
    return blame_lost_worker(cuda, ls_cuda_result(cuda->driver, result, "looking after it", cuda->gpu));
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Implements ls_device_fill(): enqueues the fill on the current queue. */
static ls_status fill_bytes(ls_device *device, void *to, unsigned char byte, size_t bytes) {
    cuda_device *cuda = cuda_of(device);
    if (!bytes) return LS_OK;
    LS_TRY(flush_queue(cuda, device->queue));
    ls_cuda_pair *pair = begin_copy(cuda, "fill", bytes);
    CALL(cuda, cuMemsetD8Async, address_of(to), byte, bytes, current_stream(cuda));
    end_times(cuda, pair);
    return LS_OK;
}

/* Implements ls_device_alloc(): allocates zeroed memory; 0 bytes give a valid address, too. The zeros are enqueued
 * on the current queue. */
static ls_status alloc_memory(ls_device *device, size_t bytes, void **out) {
    cuda_device *cuda = cuda_of(device);
    CUdeviceptr memory = 0;
    *out = NULL;
    CALL(cuda, cuMemAlloc, &memory, bytes ? bytes : 1);
    ls_status status = fill_bytes(device, (void *)(uintptr_t)memory, 0, bytes);
    if (status == LS_OK)
        *out = (void *)(uintptr_t)memory;
    else
        (void)cuda->driver->cuMemFree(memory);
    return status;
}

/* Implements ls_device_free(): waits for all queues, then frees. On a lost GPU the memory stays allocated until
 * the process ends. */
static void free_memory(ls_device *device, void *memory) {
    if (!cuda_of(device)->lost) (void)finish_queues(device);
    if (!cuda_of(device)->lost) (void)cuda_of(device)->driver->cuMemFree(address_of(memory));
}

/* Implements ls_device_copy(): enqueues the copy, within the GPU or to memory of another worker that is mapped, on
 * the current queue. */
static ls_status copy_bytes(ls_device *device, void *to, const void *from, size_t bytes) {
    cuda_device *cuda = cuda_of(device);
    if (!bytes) return LS_OK;
    LS_TRY(flush_queue(cuda, device->queue));
    ls_cuda_pair *pair = begin_copy(cuda, "copy", bytes);
    CALL(cuda, cuMemcpyDtoDAsync, address_of(to), address_of(from), bytes, current_stream(cuda));
    end_times(cuda, pair);
    return LS_OK;
}

/* Sets *at to the number of the next piece of the pinned ring, after the previous copy through it is complete. */
static ls_status next_piece(cuda_device *cuda, unsigned *at) {
    *at = cuda->next_piece++ % PIECES;
    if (cuda->piece_used[*at]) LS_TRY(wait_until(cuda, ask_event, cuda->piece_done[*at]));
    cuda->piece_used[*at] = true;
    return LS_OK;
}

/* Implements ls_device_copy_in(): copies from the host through the pinned ring, and waits only for a free piece of
 * it; `host` may change when it returns. */
static ls_status copy_in(ls_device *device, void *to, const void *host, size_t bytes) {
    cuda_device *cuda = cuda_of(device);
    LS_TRY(flush_queue(cuda, device->queue));
    for (size_t begin = 0, n; begin < bytes; begin += n) {
        n = bytes - begin < PIECE_BYTES ? bytes - begin : PIECE_BYTES;
        unsigned at;
        LS_TRY(next_piece(cuda, &at));
        unsigned char *piece = cuda->pinned + (size_t)at * PIECE_BYTES;
        memcpy(piece, (const unsigned char *)host + begin, n);
        ls_cuda_pair *pair = begin_copy(cuda, "copy in", n);
        CALL(cuda, cuMemcpyHtoDAsync, address_of(to) + begin, piece, n, current_stream(cuda));
        end_times(cuda, pair);
        CALL(cuda, cuEventRecord, cuda->piece_done[at], current_stream(cuda));
    }
    return LS_OK;
}

/* ---- pinned memory of callers ---------------------------------------------------------------------------------- */

/* Implements ls_device_host_alloc(): allocates pinned host memory, to which copy_out() copies directly.
 * LS_ERR_RESOURCE for more than HOST_BLOCKS blocks. */
static ls_status alloc_host(ls_device *device, size_t bytes, void **out) {
    cuda_device *cuda = cuda_of(device);
    *out = NULL;
    for (int i = 0; i < HOST_BLOCKS; i++) {
        if (cuda->host_blocks[i].memory) continue;
        CALL(cuda, cuMemHostAlloc, out, bytes, 0);
        cuda->host_blocks[i].memory = *out;
        cuda->host_blocks[i].bytes = bytes;
        return LS_OK;
    }
    return ls_fail(LS_ERR_RESOURCE, "more than %d blocks of pinned memory", HOST_BLOCKS);
}

/* Implements ls_device_host_free(): frees such memory. Another address is ignored; on a lost GPU the memory stays
 * pinned. */
static void free_host(ls_device *device, void *memory) {
    cuda_device *cuda = cuda_of(device);
    for (int i = 0; i < HOST_BLOCKS; i++) {
        if (!memory || cuda->host_blocks[i].memory != memory) continue;
        if (!cuda->lost) (void)cuda->driver->cuMemFreeHost(memory);
        cuda->host_blocks[i].memory = NULL;
    }
}

/* Returns whether the bytes lie in a block of alloc_host(). */
static bool is_pinned(const cuda_device *cuda, const void *host, size_t bytes) {
    uintptr_t at = (uintptr_t)host;
    for (int i = 0; i < HOST_BLOCKS; i++) {
        uintptr_t begin = (uintptr_t)cuda->host_blocks[i].memory;
        if (begin && at >= begin && at + bytes <= begin + cuda->host_blocks[i].bytes) return true;
    }
    return false;
}

/* Copies from the device straight to pinned host memory, and waits. */
static ls_status copy_to_pinned(cuda_device *cuda, void *host, const void *from, size_t bytes) {
    unsigned at;
    LS_TRY(next_piece(cuda, &at)); /* the copy needs only the event of the piece */
    ls_cuda_pair *pair = begin_copy(cuda, "copy out", bytes);
    CALL(cuda, cuMemcpyDtoHAsync, host, address_of(from), bytes, current_stream(cuda));
    end_times(cuda, pair);
    CALL(cuda, cuEventRecord, cuda->piece_done[at], current_stream(cuda));
    return wait_until(cuda, ask_event, cuda->piece_done[at]);
}

/* Implements ls_device_copy_out(): copies to the host and returns when the bytes have arrived: straight into
 * memory of alloc_host(); else through the pinned ring, with up to PIECES copies in flight while the host drains
 * finished ones. */
static ls_status copy_out(ls_device *device, void *host, const void *from, size_t bytes) {
    cuda_device *cuda = cuda_of(device);
    size_t asked = 0, taken = 0;
    LS_TRY(flush_queue(cuda, device->queue));
    if (bytes > 0 && is_pinned(cuda, host, bytes)) return copy_to_pinned(cuda, host, from, bytes);
    unsigned first = cuda->next_piece;
    while (taken < bytes) {
        while (asked < bytes && asked - taken < (size_t)PIECES * PIECE_BYTES) {
            size_t n = bytes - asked < PIECE_BYTES ? bytes - asked : PIECE_BYTES;
            unsigned at;
            LS_TRY(next_piece(cuda, &at));
            ls_cuda_pair *pair = begin_copy(cuda, "copy out", n);
            CALL(cuda, cuMemcpyDtoHAsync, cuda->pinned + (size_t)at * PIECE_BYTES, address_of(from) + asked, n,
                 current_stream(cuda));
            end_times(cuda, pair);
            CALL(cuda, cuEventRecord, cuda->piece_done[at], current_stream(cuda));
            asked += n;
        }
        unsigned at = first++ % PIECES;
        size_t n = bytes - taken < PIECE_BYTES ? bytes - taken : PIECE_BYTES;
        LS_TRY(wait_until(cuda, ask_event, cuda->piece_done[at]));
        memcpy((unsigned char *)host + taken, cuda->pinned + (size_t)at * PIECE_BYTES, n);
        taken += n;
    }
    return LS_OK;
}

/* Implements ls_device_mark(): records the end of the compute queue, for which the first rescue waits. */
static ls_status mark_compute(ls_device *device) {
    cuda_device *cuda = cuda_of(device);
    if (!cuda->marked) CALL(cuda, cuEventCreate, &cuda->marked, CU_EVENT_DISABLE_TIMING);
    LS_TRY(flush_queue(cuda, LS_QUEUE_COMPUTE));
    CALL(cuda, cuEventRecord, cuda->marked, cuda->streams[LS_QUEUE_COMPUTE]);
    return LS_OK;
}

/* Waits for a stream, or for the marked event if `stream` is NULL; LS_ERR_FAILED after RESCUE_S. Does not look for
 * lost workers as wait_until() does: a rescue runs only after a loss. */
static ls_status wait_alone(cuda_device *cuda, CUstream stream) {
    double begin = ls_clock_seconds();
    for (;;) {
        CUresult result = stream ? cuda->driver->cuStreamQuery(stream) : cuda->driver->cuEventQuery(cuda->marked);
        if (result != CUDA_ERROR_NOT_READY) return ls_cuda_result(cuda->driver, result, "rescuing", cuda->gpu);
        if (ls_clock_seconds() - begin > RESCUE_S)
            return ls_fail(LS_ERR_FAILED, "GPU %d does not give its memory back", cuda->gpu);
        ls_clock_sleep_us(20);
    }
}

/* Implements ls_device_rescue(): copies to the host after the loss of another worker. Uses its own stream and
 * pinned buffer, because the others may wait forever for a lost worker. The first call waits for the marked event, if
 * there is one. LS_ERR_FAILED if that, or a piece of PIECE_BYTES, takes more than RESCUE_S. */
static ls_status rescue_bytes(ls_device *device, void *host, const void *from, size_t bytes) {
    cuda_device *cuda = cuda_of(device);
    if (!cuda->aside) {
        ASK(cuda, cuStreamCreate, &cuda->aside, CU_STREAM_NON_BLOCKING);
        ASK(cuda, cuMemHostAlloc, &cuda->aside_host, PIECE_BYTES, 0);
        if (cuda->marked) LS_TRY(wait_alone(cuda, NULL));
    }
    for (size_t begin = 0, n; begin < bytes; begin += n) {
        n = bytes - begin < PIECE_BYTES ? bytes - begin : PIECE_BYTES;
        ASK(cuda, cuMemcpyDtoHAsync, cuda->aside_host, address_of(from) + begin, n, cuda->aside);
        LS_TRY(wait_alone(cuda, cuda->aside));
        memcpy((unsigned char *)host + begin, cuda->aside_host, n);
    }
    return LS_OK;
}

ls_status ls_cuda_scratch(ls_device *device, size_t bytes, void **out) {
    cuda_device *cuda = cuda_of(device);
    void **scratch = &cuda->scratch[device->queue];
    size_t *had = &cuda->scratch_bytes[device->queue];
    if (is_dry(cuda)) {
        if (bytes > *had) *had = bytes;
        *out = nowhere;
        return LS_OK;
    }
    if (device->queue == LS_QUEUE_COMPUTE && bytes <= cuda->lent_bytes) {
        *out = cuda->lent;
        return LS_OK;
    }
    if (!*scratch || bytes > *had) {
        if (*scratch) free_memory(device, *scratch);
        *scratch = NULL, *had = 0;
        LS_TRY(alloc_memory(device, bytes, scratch));
        *had = bytes;
    }
    *out = *scratch;
    return LS_OK;
}

size_t ls_cuda_scratch_limit(ls_device *device) {
    const cuda_device *cuda = cuda_of(device);
    return cuda->lent ? cuda->lent_bytes : SIZE_MAX;
}

bool ls_cuda_heads_map(ls_device *device, const void *at, const size_t counts[4], const size_t strides[3], size_t rows,
                       ls_cuda_tensor_map *out) {
    enum { HOPPER = 90, ALIGNED = 16, ELEMS = 64 };
    cuda_device *cuda = cuda_of(device);
    int capability = 0;
    if (is_dry(cuda) || !cuda->driver->cuTensorMapEncodeTiled || (uintptr_t)at % ALIGNED) return false;
    if (ls_cuda_capability(cuda->driver, cuda->gpu, cuda->handle, &capability) != LS_OK || capability != HOPPER)
        return false;
    uint64_t count[4], stride[3];
    for (int i = 0; i < 4; i++) count[i] = counts[i];
    for (int i = 0; i < 3; i++) {
        stride[i] =
            counts[i + 1] == 1 ? ALIGNED : strides[i]; /* a dimension of size 1 has no next element: any stride works */
        if (stride[i] % ALIGNED) return false;
    }
    const uint32_t box[4] = {ELEMS, 1, (uint32_t)rows, 1}, steps[4] = {1, 1, 1, 1};
    void *memory;
    memcpy(&memory, &at, sizeof at);
    return cuda->driver->cuTensorMapEncodeTiled(out, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, memory, count, stride, box,
                                                steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                                CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

/* Implements ls_device_lend(): makes a piece of device memory the scratch of the compute queue; ignored while
 * another piece is lent. */
static void lend_memory(ls_device *device, void *memory, size_t bytes) {
    cuda_device *cuda = cuda_of(device);
    if (cuda->lent) return;
    cuda->lent = memory;
    cuda->lent_bytes = bytes;
}

/* Implements ls_device_take_back(): ends the loan of `memory`; does nothing unless that is the piece that is lent. */
static void take_back_memory(ls_device *device, const void *memory) {
    cuda_device *cuda = cuda_of(device);
    if (cuda->lent != memory) return;
    cuda->lent = NULL;
    cuda->lent_bytes = 0;
}

/* Implements ls_device_get_usage(): sets *out to how the GPU's memory is used, in bytes. On a dry device only
 * `scratch` is set: the most that an operation asked for, summed over the queues. */
static ls_status get_usage(ls_device *device, ls_device_usage *out) {
    cuda_device *cuda = cuda_of(device);
    *out = (ls_device_usage){.others = cuda->others};
    for (int q = 0; q < LS_QUEUES; q++) out->scratch += cuda->scratch_bytes[q];
    if (is_dry(cuda)) return LS_OK;
    CALL(cuda, cuDeviceGetUuid, out->id, cuda->handle);
    CALL(cuda, cuMemGetInfo, &out->free, &out->total);
    out->modules = ls_cuda_modules_bytes(cuda->modules) + ls_cuda_graphs_bytes(cuda->graphs);
    out->links = device->linked_bytes;
    out->shared = device->shared_bytes;
    out->lists = LISTS_BYTES + FLAGS_BYTES;
    out->pinned = PINNED_BYTES;
    return LS_OK;
}

/* ---- memory of other workers ------------------------------------------------------------------------------------- */

/* Implements ls_device_share(): makes a handle (CUDA IPC) by which other processes of this machine open `memory`. */
static ls_status share_memory(ls_device *device, void *memory, ls_memory_handle *out) {
    cuda_device *cuda = cuda_of(device);
    CUipcMemHandle handle;
    ASK(cuda, cuIpcGetMemHandle, &handle, address_of(memory));
    memcpy(out->bytes, handle.reserved, sizeof out->bytes);
    return LS_OK;
}

/* Implements ls_device_open(): maps the memory of another process on this machine, and enables peer access if it
 * lies on another GPU. */
static ls_status open_memory(ls_device *device, const ls_memory_handle *handle, void **out) {
    cuda_device *cuda = cuda_of(device);
    CUipcMemHandle ipc;
    CUdeviceptr memory = 0;
    memcpy(ipc.reserved, handle->bytes, sizeof ipc.reserved);
    *out = NULL;
    ASK(cuda, cuIpcOpenMemHandle, &memory, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    *out = (void *)(uintptr_t)memory;
    return LS_OK;
}

/* Implements ls_device_close(): waits for all queues, then unmaps the memory of another worker. On a lost GPU the
 * mapping stays. */
static void close_memory(ls_device *device, void *memory) {
    if (!cuda_of(device)->lost) (void)finish_queues(device);
    if (!cuda_of(device)->lost) (void)cuda_of(device)->driver->cuIpcCloseMemHandle(address_of(memory));
}

/* Implements ls_device_signal(): enqueues a write of `value` to a counter, which may lie on another worker's GPU,
 * after all earlier work of the current queue. */
static ls_status signal_counter(ls_device *device, uint64_t *counter, uint64_t value) {
    cuda_device *cuda = cuda_of(device);
    LS_TRY(flush_queue(cuda, device->queue));
    CALL(cuda, cuStreamWriteValue64, current_stream(cuda), address_of(counter), value, 0);
    return LS_OK;
}

/* Implements ls_device_await(): makes the current stream, not the host, wait until the counter is at least
 * `value`. */
static ls_status await_counter(ls_device *device, const uint64_t *counter, uint64_t value) {
    cuda_device *cuda = cuda_of(device);
    LS_TRY(flush_queue(cuda, device->queue));
    ls_cuda_pair *pair = begin_wait(cuda, -1);
    CALL(cuda, cuStreamWaitValue64, current_stream(cuda), address_of(counter), value, CU_STREAM_WAIT_VALUE_GEQ);
    end_times(cuda, pair);
    return LS_OK;
}

/* ---- devices of other machines ----------------------------------------------------------------------------------- */

/* Implements ls_device_link_id(): makes the id of a new link to GPUs of other machines (nccl.h), which the caller
 * sends to all members. */
static ls_status make_link_id(ls_device *device, ls_link_id *out) {
    (void)device;
    return ls_nccl_id(out);
}

/* Implements ls_device_link_open(): starts to join a link, and does not wait for its other members. */
static ls_status open_link(ls_device *device, const ls_link_id *id, int member, int members, ls_link **out) {
    (void)device;
    return ls_nccl_open(id, member, members, out);
}

/* Implements ls_device_link_settled(): sets *out to whether the last open or move on the link has completed,
 * without waiting. */
static ls_status link_settled(ls_device *device, ls_link *link, bool *out) {
    (void)device;
    return ls_nccl_settled(link, out);
}

/* Implements ls_device_link_move(): enqueues sends and receives of `count` pieces over a link on the current
 * queue, as one span of the trace. */
static ls_status move_pieces(ls_device *device, ls_link *link, const ls_link_piece *pieces, int count) {
    cuda_device *cuda = cuda_of(device);
    size_t bytes = 0;
    for (int i = 0; i < count; i++) bytes += pieces[i].bytes;
    LS_TRY(flush_queue(cuda, device->queue));
    ls_cuda_pair *pair = begin_copy(cuda, "link", bytes);
    LS_TRY(ls_nccl_move(link, pieces, count, current_stream(cuda)));
    end_times(cuda, pair);
    return LS_OK;
}

/* Implements ls_device_link_close(). If the GPU itself is lost, closes without NCCL, which could wait for it
 * forever. */
static void close_link(ls_device *device, ls_link *link) { ls_nccl_close(link, cuda_of(device)->lost); }

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* Implements ls_device_use_graphs(): waits for all queues, drops the graphs so far and, if switched on, collects
 * launches for new ones. If the driver has no graphs, launches stay single, without an error. */
static ls_status use_graphs(ls_device *device, ls_graphs how) {
    cuda_device *cuda = cuda_of(device);
    LS_TRY(finish_queues(device));
    ls_cuda_graphs_close(cuda->graphs);
    cuda->graphs = how == LS_GRAPHS_ON ? ls_cuda_graphs_open(cuda->driver, cuda->streams) : NULL;
    return LS_OK;
}

void ls_cuda_launch_one_by_one(ls_device *device, bool one_by_one) { cuda_of(device)->one_by_one = one_by_one; }

/* Returns whether a launch may be added to a graph: graphs are on, it is not traced, and the driver tells the size
 * of its arguments, which is cached in cuda->args_bytes. */
static bool is_for_graphs(cuda_device *cuda, ls_cuda_kernel kernel, CUfunction function) {
    size_t offset, bytes;
    if (is_traced(cuda) || !cuda->graphs || cuda->one_by_one) return false;
    if (!cuda->args_bytes[kernel] && cuda->driver->cuFuncGetParamInfo(function, 0, &offset, &bytes) == CUDA_SUCCESS)
        cuda->args_bytes[kernel] = bytes;
    return cuda->args_bytes[kernel] > 0;
}

/* Adds a launch to the batch of the current queue (graphs.h). An error may be that of an earlier launch, which the
 * message names. */
static ls_status note_launch(cuda_device *cuda, ls_cuda_kernel kernel, const ls_cuda_start *start, const void *args) {
    const char *failed;
    CUresult result =
        ls_cuda_graphs_add(cuda->graphs, cuda->base.queue, start, args, cuda->args_bytes[kernel], &failed);
    return blame_lost_worker(cuda, ls_cuda_result(cuda->driver, result, failed, cuda->gpu));
}

ls_status ls_cuda_launch(ls_device *device, ls_cuda_kernel kernel, ls_cuda_grid grid, unsigned threads, size_t shared,
                         const void *args) {
    cuda_device *cuda = cuda_of(device);
    if (!grid.x) return LS_OK;
    if (grid.x > BLOCKS_X_MAX || grid.y > BLOCKS_Y_MAX || grid.z > BLOCKS_Y_MAX)
        return ls_fail(LS_ERR_INPUT, "%zu × %zu × %zu blocks are more than a GPU numbers: use a smaller micro-batch",
                       grid.x, grid.y, grid.z);
    if (is_dry(cuda)) return LS_OK;
    CUfunction function;
    LS_TRY(ls_cuda_modules_get(cuda->modules, kernel, &function));
    if (shared > 48 << 10 && shared > cuda->shared_set[kernel]) {
        CALL(cuda, cuFuncSetAttribute, function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared);
        cuda->shared_set[kernel] = shared;
    }
    if (is_for_graphs(cuda, kernel, function)) {
        const ls_cuda_start start = {.function = function,
                                     .name = ls_cuda_kernel_name(kernel),
                                     .grid = {(unsigned)grid.x, (unsigned)grid.y, (unsigned)grid.z},
                                     .threads = threads,
                                     .shared = (unsigned)shared};
        return note_launch(cuda, kernel, &start, args);
    }
    LS_TRY(flush_queue(cuda, device->queue));
    void *parameters[1];
    memcpy(parameters, &args, sizeof args);
    ls_cuda_pair *pair = NULL;
    if (is_traced(cuda))
        pair = ls_cuda_times_kernel(cuda->times, current_stream(cuda), device->queue, ls_cuda_kernel_name(kernel),
                                    grid.x * grid.y * grid.z, &cuda->asked);
    CUresult result =
        cuda->driver->cuLaunchKernel(function, (unsigned)grid.x, (unsigned)grid.y, (unsigned)grid.z, threads, 1, 1,
                                     (unsigned)shared, current_stream(cuda), parameters, NULL);
    end_times(cuda, pair);
    return blame_lost_worker(cuda, ls_cuda_result(cuda->driver, result, ls_cuda_kernel_name(kernel), cuda->gpu));
}

ls_status ls_cuda_enqueue(ls_device *device, const char *name, ls_status (*enqueue)(void *ctx, CUstream stream),
                          void *ctx) {
    cuda_device *cuda = cuda_of(device);
    LS_TRY(flush_queue(cuda, device->queue));
    ls_cuda_pair *pair = NULL;
    if (is_traced(cuda))
        pair = ls_cuda_times_kernel(cuda->times, current_stream(cuda), device->queue, name, 1, &cuda->asked);
    ls_status status = enqueue(ctx, current_stream(cuda));
    end_times(cuda, pair);
    return status;
}

ls_cuda_library **ls_cuda_library_of(ls_device *device) {
    cuda_device *cuda = cuda_of(device);
    return is_dry(cuda) ? NULL : &cuda->library;
}

const char *ls_cuda_model(ls_device *device, int *driver) {
    *driver = cuda_of(device)->driver->version;
    return cuda_of(device)->model;
}

/* Returns the byte offset of list number `at` of a queue, in the pinned lists and in those of the device: the
 * first LONG_LISTS are long, the others short. */
static size_t list_offset(unsigned queue, unsigned at) {
    return (size_t)queue * LISTS_EACH_BYTES +
           (at < LONG_LISTS ? at * (size_t)LS_CUDA_LIST_BYTES
                            : LONG_LISTS * (size_t)LS_CUDA_LIST_BYTES + (at - LONG_LISTS) * (size_t)SHORT_BYTES);
}

/* Returns the pinned copy of list number `at` of a queue. */
static unsigned char *list_pinned(const cuda_device *cuda, unsigned queue, unsigned at) {
    return cuda->pinned + (size_t)PIECES * PIECE_BYTES + list_offset(queue, at);
}

/* Returns the number of the list of the queue that already has these bytes (*is_there true), or of the least
 * recently used one. Short lists and long ones are searched apart. */
static unsigned find_list(const cuda_device *cuda, unsigned queue, const void *host, size_t bytes, bool *is_there) {
    unsigned first = bytes > SHORT_BYTES ? 0 : LONG_LISTS, end = bytes > SHORT_BYTES ? LONG_LISTS : LISTS_EACH;
    const list_place *places = &cuda->list[queue * LISTS_EACH];
    unsigned oldest = first;
    for (unsigned i = first; i < end; i++) {
        *is_there = places[i].used && places[i].bytes == bytes && !memcmp(list_pinned(cuda, queue, i), host, bytes);
        if (*is_there) return i;
        if (places[i].used < places[oldest].used) oldest = i;
    }
    return oldest;
}

/* Copies the bytes to list `at` of the current queue, after its last copy is complete. Stream order keeps the old bytes
 * until the kernels launched before have read them. */
static ls_status copy_list(cuda_device *cuda, unsigned at, const void *host, size_t bytes) {
    unsigned queue = (unsigned)cuda->base.queue;
    list_place *place = &cuda->list[queue * LISTS_EACH + at];
    unsigned char *pinned = list_pinned(cuda, queue, at);
    if (place->copied) LS_TRY(wait_until(cuda, ask_event, place->copied));
    if (!place->copied) CALL(cuda, cuEventCreate, &place->copied, CU_EVENT_DISABLE_TIMING);
    memcpy(pinned, host, bytes);
    place->bytes = bytes;
    LS_TRY(flush_queue(cuda, cuda->base.queue));
    if (bytes) {
        ls_cuda_pair *pair = begin_copy(cuda, "list", bytes);
        CALL(cuda, cuMemcpyHtoDAsync, address_of(cuda->lists) + list_offset(queue, at), pinned, bytes,
             current_stream(cuda));
        end_times(cuda, pair);
    }
    CALL(cuda, cuEventRecord, place->copied, current_stream(cuda));
    return LS_OK;
}

ls_status ls_cuda_list(ls_device *device, const void *host, size_t bytes, const void **out) {
    cuda_device *cuda = cuda_of(device);
    if (bytes > LS_CUDA_LIST_BYTES)
        return ls_fail(LS_ERR_INPUT, "a list of %zu bytes for the GPU: at most %d", bytes, LS_CUDA_LIST_BYTES);
    *out = nowhere;
    if (is_dry(cuda)) return LS_OK;
    bool is_there;
    unsigned queue = (unsigned)device->queue, at = find_list(cuda, queue, host, bytes, &is_there);
    if (!is_there) LS_TRY(copy_list(cuda, at, host, bytes));
    cuda->list[queue * LISTS_EACH + at].used = ++cuda->lists_given;
    *out = (const unsigned char *)cuda->lists + list_offset(queue, at);
    return LS_OK;
}

ls_status ls_cuda_tensor_map_of(ls_device *device, const ls_cuda_tiled *m, ls_cuda_tensor_map *out) {
    static const int types[] = {[LS_F32] = CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
                                [LS_BF16] = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                                [LS_F16] = CU_TENSOR_MAP_DATA_TYPE_FLOAT16};
    cuda_device *cuda = cuda_of(device);
    const uint64_t sizes[3] = {m->sizes[0], m->sizes[1], m->sizes[2]}, bytes = ls_dtype_bytes(m->dtype);
    const uint64_t strides[2] = {m->strides[0] * bytes, m->strides[1] * bytes};
    const uint32_t box[3] = {m->box[0], m->box[1], 1}, steps[3] = {1, 1, 1};
    void *at;
    *out = (ls_cuda_tensor_map){0};
    if (is_dry(cuda)) return LS_OK;
    memcpy(&at, &m->at, sizeof at);
    CALL(cuda, cuTensorMapEncodeTiled, out->words, types[m->dtype], 3, at, sizes, strides, box, steps,
         CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
         CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return LS_OK;
}

/* Implements ls_device_compute_otherwise(): makes matmuls use other tiles and loops other blocks, so that other
 * multiprocessors compute each part. */
static ls_status compute_otherwise(ls_device *device, bool otherwise) {
    cuda_of(device)->otherwise = otherwise;
    return LS_OK;
}

bool ls_cuda_computes_otherwise(ls_device *device) { return cuda_of(device)->otherwise; }

size_t ls_cuda_blocks(ls_device *device, size_t n) {
    size_t most = (size_t)cuda_of(device)->processors * (cuda_of(device)->otherwise ? 5 : 16);
    return n < most ? n : most;
}

/* The formula of 9.0 was measured. Those of the others are published: how many products each architecture adds at once,
 * and how many bits it keeps (MMA-Sim, arXiv 2511.10909, and github.com/microsoft/MMA-Sim). */
ls_unit ls_cuda_unit_of(int capability) {
    if (capability == 89) return LS_UNIT_ADA;
    if (capability == 90) return LS_UNIT_HGMMA;
    if (capability >= 80 && capability < 89) return LS_UNIT_AMPERE;
    return capability >= 100 && capability < 130 ? LS_UNIT_BLACKWELL : LS_UNIT_CHAIN;
}

ls_status ls_cuda_check_unit(ls_device *device, ls_unit unit) {
    const cuda_device *cuda = cuda_of(device);
    if (unit == LS_UNIT_CHAIN || (ls_unit_is_tensor_core(unit) && is_dry(cuda))) return LS_OK;
    if (!ls_unit_is_tensor_core(unit))
        return ls_fail(LS_ERR_INPUT, "matrix unit %s is not on a GPU; use auto or chain", ls_unit_name(unit));
    ls_unit own = ls_cuda_unit_of(cuda->capability);
    if (unit == own) return LS_OK;
    return ls_fail_here(LS_ERR_INPUT,
                        "%s has compute capability %d.%d, whose tensor cores do not compute by the formula of %s: use "
                        "--matrix-unit %s, or --precision fp32",
                        cuda->about, cuda->capability / 10, cuda->capability % 10, ls_unit_name(unit),
                        ls_unit_name(own));
}

size_t ls_cuda_processors(ls_device *device) { return (size_t)cuda_of(device)->processors; }

bool ls_cuda_has_wgmma(ls_device *device) { return cuda_of(device)->has_wgmma; }

uint32_t *ls_cuda_flags(ls_device *device) {
    cuda_device *cuda = cuda_of(device);
    if (is_dry(cuda)) return nowhere;
    return device->queue == LS_QUEUE_COMPUTE ? (uint32_t *)(void *)((char *)cuda->lists + LISTS_BYTES) : NULL;
}

size_t ls_cuda_shared_max(ls_device *device) { return cuda_of(device)->shared_max; }

/* ---- life -------------------------------------------------------------------------------------------------------- */

/* Implements ls_device_destroy(): waits up to TEARDOWN_LIMIT_S, then frees all but the stream and buffer of a
 * rescue and pinned memory that callers have not freed. A lost GPU's resources are left to the end of the process,
 * because freeing them could wait forever. Also called for a device that open_gpu() opened in part. */
static void destroy_cuda(ls_device *device) {
    cuda_device *cuda = cuda_of(device);
    const ls_cuda_driver *driver = cuda->driver;
    if (cuda->patience_s > TEARDOWN_LIMIT_S) cuda->patience_s = TEARDOWN_LIMIT_S;
    if (cuda->streams[0] && !cuda->lost) (void)finish_queues(device);
    if (cuda->lost) {
        free(cuda);
        return;
    }
    ls_cuda_library_close(cuda->library);
    ls_cuda_graphs_close(cuda->graphs);
    ls_cuda_times_close(cuda->times);
    ls_cuda_modules_close(cuda->modules);
    if (cuda->lists) (void)driver->cuMemFree(address_of(cuda->lists));
    if (cuda->pinned) (void)driver->cuMemFreeHost(cuda->pinned);
    for (int q = 0; q < LS_QUEUES; q++) {
        if (cuda->scratch[q]) (void)driver->cuMemFree(address_of(cuda->scratch[q]));
        for (int i = 0; i < EVENTS; i++)
            if (cuda->events[q][i]) (void)driver->cuEventDestroy(cuda->events[q][i]);
    }
    if (cuda->marked) (void)driver->cuEventDestroy(cuda->marked);
    for (int i = 0; i < PIECES; i++)
        if (cuda->piece_done[i]) (void)driver->cuEventDestroy(cuda->piece_done[i]);
    for (int i = 0; i < LISTS; i++)
        if (cuda->list[i].copied) (void)driver->cuEventDestroy(cuda->list[i].copied);
    for (int q = 0; q < LS_QUEUES; q++)
        if (cuda->streams[q]) (void)driver->cuStreamDestroy(cuda->streams[q]);
    if (cuda->context) (void)driver->cuDevicePrimaryCtxRelease(cuda->handle);
    free(cuda);
}

static const ls_device_calls cuda_calls = {
    .alloc = alloc_memory,
    .free = free_memory,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .copy = copy_bytes,
    .fill = fill_bytes,
    .record = record_event,
    .follow = follow_event,
    .wait = wait_for_event,
    .finish = finish_queues,
    .destroy = destroy_cuda,
    .compute_otherwise = compute_otherwise,
    .use_graphs = use_graphs,
    .share = share_memory,
    .open = open_memory,
    .close = close_memory,
    .signal = signal_counter,
    .await = await_counter,
    .passed = has_passed,
    .link_id = make_link_id,
    .link_open = open_link,
    .link_settled = link_settled,
    .link_move = move_pieces,
    .link_close = close_link,
    .lend = lend_memory,
    .take_back = take_back_memory,
    .usage = get_usage,
    .host_alloc = alloc_host,
    .host_free = free_host,
    .read_times = read_times,
    .mark = mark_compute,
    .rescue = rescue_bytes,
};

/* Creates `count` events without timing. On failure the caller destroys those that were created. */
static ls_status make_events(cuda_device *cuda, CUevent *events, int count) {
    for (int i = 0; i < count; i++) CALL(cuda, cuEventCreate, &events[i], CU_EVENT_DISABLE_TIMING);
    return LS_OK;
}

/* Opens the context, streams, events and buffers of GPU number cuda->gpu, and makes its context current for this
 * thread. On failure the caller destroys what was opened. */
static ls_status open_gpu(cuda_device *cuda) {
    int count = 0, value = 0;
    CALL(cuda, cuDeviceGetCount, &count);
    if (cuda->gpu < 0 || cuda->gpu >= count)
        return ls_fail_here(LS_ERR_INPUT, "there is no GPU %d: this process sees %d, numbered from 0", cuda->gpu,
                            count);
    CALL(cuda, cuDeviceGet, &cuda->handle, cuda->gpu);
    CALL(cuda, cuDeviceGetName, cuda->model, sizeof cuda->model, cuda->handle);
    (void)snprintf(cuda->about, sizeof cuda->about, "GPU %d, %s,", cuda->gpu, cuda->model);
    LS_TRY(ls_cuda_capability(cuda->driver, cuda->gpu, cuda->handle, &cuda->capability));
    CALL(cuda, cuDeviceGetAttribute, &value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, cuda->handle);
    cuda->processors = value;
    CALL(cuda, cuDeviceGetAttribute, &value, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, cuda->handle);
    cuda->shared_max = (size_t)value;
    CALL(cuda, cuDevicePrimaryCtxRetain, &cuda->context, cuda->handle);
    CALL(cuda, cuCtxSetCurrent, cuda->context);
    size_t free_bytes = 0, total = 0;
    CALL(cuda, cuMemGetInfo, &free_bytes, &total);
    cuda->others = total - free_bytes;
    for (int q = 0; q < LS_QUEUES; q++) CALL(cuda, cuStreamCreate, &cuda->streams[q], CU_STREAM_NON_BLOCKING);
    for (int q = 0; q < LS_QUEUES; q++) LS_TRY(make_events(cuda, cuda->events[q], EVENTS));
    LS_TRY(make_events(cuda, cuda->piece_done, PIECES));
    void *pinned = NULL;
    CALL(cuda, cuMemHostAlloc, &pinned, PINNED_BYTES, 0);
    cuda->pinned = pinned;
    LS_TRY(alloc_memory(&cuda->base, LISTS_BYTES + FLAGS_BYTES, &cuda->lists));
    CALL(cuda, cuMemsetD8Async, address_of(cuda->lists) + LISTS_BYTES, 0, FLAGS_BYTES, cuda->streams[LS_QUEUE_COMPUTE]);
    LS_TRY(ls_cuda_capability(cuda->driver, cuda->gpu, cuda->handle, &value));
    const char *asked = getenv("LS_WGMMA");
    cuda->has_wgmma =
        value == WGMMA_CAPABILITY && cuda->driver->cuTensorMapEncodeTiled && !(asked && strcmp(asked, "no") == 0);
    return ls_cuda_modules_open(cuda->driver, cuda->gpu, cuda->handle, &cuda->modules);
}

ls_status ls_device_open_cuda(int gpu, ls_device **out) {
    *out = NULL;
    const ls_cuda_driver *driver;
    LS_TRY(ls_cuda_driver_load(&driver));
    cuda_device *cuda = calloc(1, sizeof *cuda);
    if (!cuda) return ls_fail(LS_ERR_RESOURCE, "out of memory");
    cuda->driver = driver;
    cuda->gpu = gpu;
    cuda->patience_s = ls_cuda_patience_s(WAIT_LIMIT_S);
    (void)snprintf(cuda->name, sizeof cuda->name, "cuda:%d", gpu);
    cuda->base = (ls_device){
        .name = cuda->name, .about = cuda->about, .align = ALIGN_BYTES, .calls = &cuda_calls, .ops = &ls_cuda_ops};
    ls_status status = open_gpu(cuda);
    if (status != LS_OK) {
        destroy_cuda(&cuda->base);
        return status;
    }
    *out = &cuda->base;
    return LS_OK;
}

/* ---- without a GPU ----------------------------------------------------------------------------------------------- */

/* Implements ls_device_destroy() of a dry device, which owns nothing else. */
static void destroy_dry(ls_device *device) { free(cuda_of(device)); }

ls_status ls_device_open_cuda_dry(ls_device **out) {
    static ls_device_calls calls;
    cuda_device *cuda = calloc(1, sizeof *cuda);
    *out = NULL;
    if (!cuda) return ls_fail(LS_ERR_RESOURCE, "out of memory");
    calls = ls_dry_calls;
    calls.destroy = destroy_dry;
    calls.usage = get_usage;
    cuda->base = (ls_device){.name = "cuda", .align = ALIGN_BYTES, .calls = &calls, .ops = &ls_cuda_ops};
    cuda->processors = DRY_PROCESSORS;
    cuda->shared_max = DRY_SHARED_BYTES;
    cuda->has_wgmma = true;
    *out = &cuda->base;
    return LS_OK;
}
