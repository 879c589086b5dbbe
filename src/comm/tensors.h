/* tensors.h: collectives on memory of a device. They are those of lockstep.h, whose rules hold, with the device whose
 * memory is moved; lockstep.h's own move memory of the host.
 *
 * A collective takes its place in the device's order: it reads what was enqueued before its start, and what is enqueued
 * after ls_request_wait() finds its result. Where the host can follow the device's pointers nothing is copied that
 * lockstep.h's calls would not copy. Where devices share their memory they move tensors themselves, and no host waits
 * for a device (peers/peers.h): on communicators that were made after the device was opened. Between machines devices
 * that have links send each other tensors (links/links.h). Else tensors go through memory of the host. */
#ifndef LS_COMM_TENSORS_H
#define LS_COMM_TENSORS_H

#include "device/device.h"
#include "lockstep.h"

struct ls_kernels;

/* The device of this worker, by its name (device/choose.h). Tensors of a CPU lie where the other workers of the machine
 * can read them; `kernels`, for it, as in ls_device_open_cpu(). The caller destroys it before the world ends. */
ls_status ls_world_open_device(ls_world *world, const char *name, const struct ls_kernels *kernels, ls_device **out);

/* Scratch of a device that a sum of these runs over `size` workers needs; what is lent before the first of them is not
 * allocated. The memory is the device's, and is used by collectives of this communicator until it is taken back. */
ls_status ls_tensor_sum_bytes(int size, const ls_runs *runs, ls_dtype dtype, size_t *bytes);
void ls_tensor_lend(ls_device *device, ls_comm *comm, void *memory, size_t bytes);
void ls_tensor_take_back(ls_device *device, ls_comm *comm, const void *memory);

ls_status ls_tensor_all_gather(ls_device *device, ls_comm *comm, const void *in, void *out, const size_t *bytes);
ls_status ls_tensor_send(ls_device *device, ls_comm *comm, int to, int tag, const void *buffer, size_t bytes);
ls_status ls_tensor_recv(ls_device *device, ls_comm *comm, int from, int tag, void *buffer, size_t bytes);
ls_status ls_tensor_all_reduce(ls_device *device, ls_comm *comm, const ls_runs *runs, ls_dtype dtype,
                               const void *const *parts, void *out, size_t elems);
/* shards is not NULL. */
ls_status ls_tensor_reduce_scatter(ls_device *device, ls_comm *comm, const ls_runs *runs, ls_dtype dtype,
                                   const void *const *parts, void *out, const size_t *shards, size_t elems);

ls_status ls_tensor_all_gather_start(ls_device *device, ls_comm *comm, const void *in, void *out_buffer,
                                     const size_t *bytes, ls_request **out);
ls_status ls_tensor_send_start(ls_device *device, ls_comm *comm, int to, int tag, const void *buffer, size_t bytes,
                               ls_request **out);
ls_status ls_tensor_all_reduce_start(ls_device *device, ls_comm *comm, const ls_runs *runs, ls_dtype dtype,
                                     const void *const *parts, void *out_buffer, size_t elems, ls_request **out);
ls_status ls_tensor_reduce_scatter_start(ls_device *device, ls_comm *comm, const ls_runs *runs, ls_dtype dtype,
                                         const void *const *parts, void *out_buffer, const size_t *shards, size_t elems,
                                         ls_request **out);

#endif
