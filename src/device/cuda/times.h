/* times.h: when kernels, copies and waits ran on the streams of a GPU, for a trace (base/events.h).
 *
 *     stream   ─ begin ─[ kernel ]─ end ─ begin ─[ kernel ]─ end ─ …       an event before and one after each
 *
 * The pairs are a ring of bounded size. They are read in the order in which they were begun, when their work is over:
 * while the host waits for the device, at the end of each step, and when the ring is full. Each becomes a span of its
 * queue's lane:
 *
 *     category   "gpu " and the kind: products, attention, norms, loss, optimizer, elementwise, conversion,
 *                communication, copies, waiting
 *     name       the kernel, or what is copied or waited for
 *     of         the operation that asked for it, a product with its sizes
 *     n          bytes of a copy, else blocks of the kernel
 *
 * A GPU has a clock of its own: at an anchor both clocks were read. Nothing here fails: what could not be recorded is
 * counted as lost. */
#ifndef LS_DEVICE_CUDA_TIMES_H
#define LS_DEVICE_CUDA_TIMES_H

#include "device/cuda/driver.h"
#include "device/ops.h"

typedef struct ls_cuda_times ls_cuda_times;
typedef struct ls_cuda_pair ls_cuda_pair;

/* The operation that runs, as ops.c says; a product's call. */
typedef struct ls_cuda_asked {
    const char *operation; /* NULL: none */
    const ls_gemm *product;
} ls_cuda_asked;

/* NULL: no memory. */
ls_cuda_times *ls_cuda_times_open(const ls_cuda_driver *driver);
void ls_cuda_times_close(ls_cuda_times *times);

/* Around a kernel on a queue's stream. NULL: it is lost. */
ls_cuda_pair *ls_cuda_times_kernel(ls_cuda_times *times, CUstream stream, int queue, const char *kernel, size_t blocks,
                                   const ls_cuda_asked *asked);
/* Around a copy of so many bytes. */
ls_cuda_pair *ls_cuda_times_copy(ls_cuda_times *times, CUstream stream, int queue, const char *what, size_t bytes);
/* Around a wait for another queue, or (-1) for another worker. */
ls_cuda_pair *ls_cuda_times_wait(ls_cuda_times *times, CUstream stream, int queue, int other);
void ls_cuda_times_end(ls_cuda_times *times, ls_cuda_pair *pair, CUstream stream);

/* An event to record on an idle stream; when it has passed, ls_cuda_times_read() is told the host's time. */
CUevent ls_cuda_times_anchor(ls_cuda_times *times);
/* Adds the oldest pair to the trace, if its work is over; whether it was. */
bool ls_cuda_times_read_one(ls_cuda_times *times);
/* Adds all pairs whose work is over to the trace, and takes the anchor for those that come; 0: there is no new one. */
void ls_cuda_times_read(ls_cuda_times *times, uint64_t anchor_ns);

#endif
