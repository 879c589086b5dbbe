/* graphs.h: launches that recur, as CUDA graphs: a graph saves microseconds of launch latency on the host and between
 * two kernels, which matter where the kernels are as short. device.c passes its launches to it.
 *
 *     operations   a b c d | copy | e f g …           launches of a queue, and other work on its stream
 *     batches      [a b c d] copy   [e f g …]         collected, and launched together before other work
 *     step 1       [a b c d] is launched kernel by kernel, and remembered
 *     step 2       it becomes a graph, a chain of kernels, which is launched
 *     step 3 …     one call launches the graph; only arguments that have changed are set before it
 *
 * Rules:
 *   1. A collected launch is on the stream only after ls_cuda_graphs_flush(): the caller flushes before any other work
 * on the stream, and before it waits for it.
 *   2. A graph serves batches of the same queue, kernels, grids, threads and shared memory, of at least 4 launches, at
 *      most half of them with other arguments than in the graph's last batch. It gets the batch's arguments byte by
 *      byte, so it computes what the launches would. Any other batch is launched kernel by kernel.
 *   3. If a graph cannot be created, changed or launched, none is used from then on, and batches go kernel by kernel. A
 *      kernel that cannot be launched is an error of this call and of all later ones.
 *
 * Only the host thread of the device calls these functions. */
#ifndef LS_DEVICE_CUDA_GRAPHS_H
#define LS_DEVICE_CUDA_GRAPHS_H

#include "device/cuda/driver.h"

enum {
    LS_CUDA_BATCH = 64, /* launches of a batch at most: then it is flushed, and the GPU begins while the host goes on */
};

/* The batches and graphs of a device. */
typedef struct ls_cuda_graphs ls_cuda_graphs;

/* A launch, all but its arguments. */
typedef struct ls_cuda_start {
    CUfunction function;
    const char *name;                  /* static; for messages */
    unsigned grid[3], threads, shared; /* blocks; threads of a block; bytes of dynamic shared memory */
} ls_cuda_start;

/* Creates the batches of LS_QUEUES queues with these streams, which the caller owns and keeps. The caller closes the
 * result. NULL: the driver has no graphs, or memory is short; the caller then launches kernels itself. */
ls_cuda_graphs *ls_cuda_graphs_open(const ls_cuda_driver *driver, const CUstream *streams);
/* Destroys the graphs. Launches that were not flushed are dropped. NULL does nothing. */
void ls_cuda_graphs_close(ls_cuda_graphs *graphs);

/* Collects a launch for a queue, or launches the kernel now if there are no graphs any more, its arguments are too
 * large or memory is short. A full batch is flushed before. The arguments are copied. Returns the first error of any
 * launch so far, which may be an earlier one, and sets *name to its kernel, NULL without an error; after an error
 * nothing more is launched. */
CUresult ls_cuda_graphs_add(ls_cuda_graphs *graphs, int queue, const ls_cuda_start *start, const void *args,
                            size_t args_bytes, const char **name);
/* Launches what was collected for a queue, as a graph or kernel by kernel. Returns the first error of any launch
 * so far, on any queue, and sets *name to its kernel; NULL without an error. */
CUresult ls_cuda_graphs_flush(ls_cuda_graphs *graphs, int queue, const char **name);

/* Returns the bytes of GPU memory that all graphs made so far took, by the driver's free memory before and after each;
 * graphs destroyed to make room are not subtracted. 0 for NULL. */
size_t ls_cuda_graphs_bytes(const ls_cuda_graphs *graphs);

#endif
