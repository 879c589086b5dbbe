/* graphs.h: launches that recur, as CUDA graphs: the host's part of a launch costs microseconds, and so does what
 * passes on the GPU between two kernels, which show where kernels take no longer.
 *
 *     operations   a b c d | copy | e f g …           launches of a queue, and what else is done on its stream
 *     batches      [a b c d] copy   [e f g …]         noted, and started together before anything else is done there
 *     step 1, 2    one by one; the second time [a b c d] becomes a graph, a chain of kernels
 *     step 3 …     one call starts the chain; only arguments that have changed are set before it
 *
 * Rules:
 *   1. What is noted is on the stream only after ls_cuda_graphs_flush(): whoever does anything else on a stream, or
 *      waits for it, flushes first.
 *   2. A graph is taken for a batch of the same kernels, grids, threads and shared memory, with the batch's arguments,
 *      byte by byte: it computes what the launches would.
 *   3. Where a graph cannot be made, changed or started there are none from then on, and all batches go one by one. A
 *      kernel that cannot be started is an error, of this call and of all later ones: nothing noted is ever lost.
 *
 * Used by the host's thread of a device alone. */
#ifndef LS_DEVICE_CUDA_GRAPHS_H
#define LS_DEVICE_CUDA_GRAPHS_H

#include "device/cuda/driver.h"

enum {
    LS_CUDA_BATCH = 64, /* launches: then they go to the GPU, which begins while the host goes on */
};

typedef struct ls_cuda_graphs ls_cuda_graphs;

/* A launch, all but its arguments. */
typedef struct ls_cuda_start {
    CUfunction function;
    const char *name;
    unsigned grid[3], threads, shared;
} ls_cuda_start;

/* For the queues with these streams, which stay the caller's. NULL: there are none (a driver without them, no
 * memory). */
ls_cuda_graphs *ls_cuda_graphs_open(const ls_cuda_driver *driver, const CUstream *streams);
/* What was not flushed is not started. */
void ls_cuda_graphs_close(ls_cuda_graphs *graphs);

/* Starts a kernel on a queue, now or by a flush. Its arguments are copied. Another result than CUDA_SUCCESS is of a
 * launch of this name, this one or one before it. */
CUresult ls_cuda_graphs_add(ls_cuda_graphs *graphs, int queue, const ls_cuda_start *start, const void *args,
                            size_t args_bytes, const char **name);
CUresult ls_cuda_graphs_flush(ls_cuda_graphs *graphs, int queue, const char **name);

/* Memory of the GPU that they take, by the driver's count of what is free. */
size_t ls_cuda_graphs_bytes(const ls_cuda_graphs *graphs);

#endif
