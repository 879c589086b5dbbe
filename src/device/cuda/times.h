/* times.h: measures when kernels, copies and waits ran on the streams of a GPU, for a trace (base/events.h). device.c
 * calls it for each enqueued piece of work while a trace is recorded.
 *
 *     stream   ─ begin ─[ kernel ]─ end ─ begin ─[ kernel ]─ end ─ …       an event before and one after each
 *
 * The pairs are a ring of bounded size. They are read in the order in which they were begun, when their work is over:
 * while the host waits for the device, at the end of each step, and when the ring is full. Each becomes a span of its
 * queue's lane:
 *
 *     category   "gpu " and the kind: products, attention, norms, loss, optimizer, elementwise, conversion, copies; on
 *                queues other than the compute queue communication; waiting
 *     name       the kernel; what is copied, such as "copy in"; "wait"
 *     of         of a kernel: the operation that asked for it (NULL: none), a product with its sizes; of a wait: the
 *                queue waited for, or "worker"; of a copy: NULL
 *     n          bytes of a copy, blocks of a kernel, 0 of a wait
 *
 * A GPU has a clock of its own. An anchor is an event at which both clocks were read; times are converted by the last
 * one. No function fails: a span that could not be recorded is counted as lost. Only the host thread of the device
 * calls them. */
#ifndef LS_DEVICE_CUDA_TIMES_H
#define LS_DEVICE_CUDA_TIMES_H

#include "device/cuda/driver.h"
#include "device/ops.h"

/* The ring of pairs of a device, its lanes and its anchor. */
typedef struct ls_cuda_times ls_cuda_times;
/* The events before and after one piece of work; owned by the ring. */
typedef struct ls_cuda_pair ls_cuda_pair;

/* The operation that the launched kernels belong to, set by ls_cuda_ask(); for a matmul also its call. */
typedef struct ls_cuda_asked {
    const char *operation;  /* NULL: none */
    const ls_gemm *product; /* NULL: not a matmul */
} ls_cuda_asked;

/* Creates an empty ring; NULL if out of memory. The caller closes it. */
ls_cuda_times *ls_cuda_times_open(const ls_cuda_driver *driver);
/* Destroys the ring; pairs that were not read are dropped. NULL does nothing. */
void ls_cuda_times_close(ls_cuda_times *times);

/* Begins the span of a kernel of `blocks` thread blocks on the stream of a queue: records the begin event. The caller
 * enqueues the work and then calls ls_cuda_times_end(). `kernel` is kept, not copied. Returns NULL if the span is lost.
 */
ls_cuda_pair *ls_cuda_times_kernel(ls_cuda_times *times, CUstream stream, int queue, const char *kernel, size_t blocks,
                                   const ls_cuda_asked *asked);
/* Begins the span of a copy of `bytes` bytes as ls_cuda_times_kernel() does that of a kernel; `what` is its name,
 * a string literal. Returns NULL if the span is lost. */
ls_cuda_pair *ls_cuda_times_copy(ls_cuda_times *times, CUstream stream, int queue, const char *what, size_t bytes);
/* Begins the span of a wait for queue `other` of this device (−1: for another worker) as ls_cuda_times_kernel()
 * does. Returns NULL if the span is lost. */
ls_cuda_pair *ls_cuda_times_wait(ls_cuda_times *times, CUstream stream, int queue, int other);
/* Records the end event of a pair, after its work was enqueued on the same stream. Does nothing if `pair` is NULL. */
void ls_cuda_times_end(ls_cuda_times *times, ls_cuda_pair *pair, CUstream stream);

/* Returns the event of the next anchor, owned by the ring. The caller records it on an idle stream, waits for it,
 * and passes the host's time of that moment to ls_cuda_times_read(). NULL if the driver cannot create it. */
CUevent ls_cuda_times_anchor(ls_cuda_times *times);
/* Adds the oldest pair to the trace and removes it from the ring, if its work is over; returns false if it is not, or
 * the ring is empty. Counts the pair as lost if one of its events failed or no anchor was set yet. Called while the
 * host waits for the device. */
bool ls_cuda_times_read_one(ls_cuda_times *times);
/* Adds the pairs whose work is over to the trace, oldest first, up to the first that is not. If `anchor_ns` is not
 * 0, the next anchor, at which the host's clock was `anchor_ns`, then becomes the current one for later pairs. */
void ls_cuda_times_read(ls_cuda_times *times, uint64_t anchor_ns);

#endif
