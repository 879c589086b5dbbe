/* tensors.h: collectives on device memory. The rules are those of the collectives on host memory in lockstep.h; the
 * first argument is the device that owns the buffers.
 *
 * The partition of a training run calls them. A collective takes its place in the device's order: it reads what was
 * enqueued before its start, and work enqueued after ls_request_wait() sees its result; only if staged does the
 * host wait for the device. Forms ending in _start return a request for ls_request_wait(); the buffers belong to it
 * until then. After an error of a start there is no request, and *out is NULL. How bytes move depends on the device:
 *
 *     host     host pointers are valid: the calls of lockstep.h, without additional copies
 *     peers    devices of one machine access each other's memory; no host waits for a device (peers/peers.h). Only for
 *              communicators that were made after the device was opened
 *     links    devices on different machines send each other tensors (links/links.h)
 *     staged   otherwise, and for sums of integers on devices: copied through host memory */
#ifndef LS_COMM_MOVERS_TENSORS_H
#define LS_COMM_MOVERS_TENSORS_H

#include "comm/collectives/device_sum.h"

struct ls_kernels;

/* Opens this worker's device by its name (device/choose.h); GPUs by the worker's place. Tensors of a CPU device lie in
 * memory that the other workers of the machine can read, if there are others or a supervisor; `kernels` is for the CPU
 * device, as in ls_device_open_cpu(). A GPU, the first that the worker opens, is shared with the other workers, if
 * possible. The caller destroys the device before the world ends. */
ls_status ls_world_open_device(ls_world *world, const char *name, const struct ls_kernels *kernels, ls_device **out);

/* Gathers `bytes[r]` bytes of each rank r in `out`, in order of rank; in place if `in` is this rank's place there. */
ls_status ls_tensor_all_gather(ls_device *device, ls_comm *comm, const void *in, void *out, const size_t *bytes);
/* Sends a message, matched by tag; ls_tensor_recv() of the partner receives it. */
ls_status ls_tensor_send(ls_device *device, ls_comm *comm, int to, int tag, const void *buffer, size_t bytes);
/* Receives the message that `from` sends with this tag. */
ls_status ls_tensor_recv(ls_device *device, ls_comm *comm, int from, int tag, void *buffer, size_t bytes);
/* Computes the ordered sum of all contributions in `out`, on every member; arguments as in ls_comm_all_reduce(). */
ls_status ls_tensor_all_reduce(ls_device *device, ls_comm *comm, const ls_runs *runs, ls_dtype dtype,
                               const void *const *parts, void *out, size_t elems);
/* Computes this worker's shard of the ordered sum. Unlike in lockstep.h, `shards` must not be NULL. */
ls_status ls_tensor_reduce_scatter(ls_device *device, ls_comm *comm, const ls_runs *runs, ls_dtype dtype,
                                   const void *const *parts, void *out, const size_t *shards, size_t elems);

/* Starts ls_tensor_all_gather(); ls_request_wait() ends it, and the buffers belong to it until then. */
ls_status ls_tensor_all_gather_start(ls_device *device, ls_comm *comm, const void *in, void *out_buffer,
                                     const size_t *bytes, ls_request **out);
/* Starts ls_tensor_send(); after ls_request_wait() later work on the device may overwrite the buffer. */
ls_status ls_tensor_send_start(ls_device *device, ls_comm *comm, int to, int tag, const void *buffer, size_t bytes,
                               ls_request **out);
/* Starts ls_tensor_all_reduce(); ls_request_wait() ends it, and the buffers belong to it until then. */
ls_status ls_tensor_all_reduce_start(ls_device *device, ls_comm *comm, const ls_runs *runs, ls_dtype dtype,
                                     const void *const *parts, void *out_buffer, size_t elems, ls_request **out);
/* Starts ls_tensor_reduce_scatter(); ls_request_wait() ends it, and the buffers belong to it until then. */
ls_status ls_tensor_reduce_scatter_start(ls_device *device, ls_comm *comm, const ls_runs *runs, ls_dtype dtype,
                                         const void *const *parts, void *out_buffer, const size_t *shards, size_t elems,
                                         ls_request **out);

#endif
