/* device_sum.h: ordered sums by a device over tensors in its memory, and the scratch memory that they need.
 *
 * The movers peers and links call it to add up sources, parts of the sum (subtrees) that the device can read; the order
 * of additions is a fixed binary tree, given as a program (numerics/tree.h). Each worker has one piece of scratch for
 * each kind and device queue, which grows and is freed with the device. Work is enqueued, not waited for; the worker's
 * main thread calls. */
#ifndef LS_COMM_COLLECTIVES_DEVICE_SUM_H
#define LS_COMM_COLLECTIVES_DEVICE_SUM_H

#include "comm/collectives/reduce.h"

/* Enqueues the sum that `program` of the request's plan describes, over `elems` elements of `count` sources at
 * `sources`; of[i] says which subtree source i is. `out` is fp32 and may be one of the fp32 sources. LS_ERR_RESOURCE:
 * out of host memory or device memory. */
ls_status ls_device_sum(const ls_request *request, const ls_tree_program *program, const ls_reduce_source *of,
                        int count, const void *const *sources, void *out, size_t elems);

/* Computes the device scratch, in *bytes, that a sum of these runs over `size` workers needs, for ls_tensor_lend(); 0
 * if one kernel suffices. Any thread. */
ls_status ls_tensor_sum_bytes(int size, const ls_runs *runs, ls_dtype dtype, size_t *bytes);
/* Lends the communicator's queue `bytes` of device memory for sums, which saves an allocation; without a loan the first
 * sum allocates. Does nothing if the queue has scratch already. The caller owns the memory and must take it back before
 * it frees it. */
void ls_tensor_lend(ls_device *device, ls_comm *comm, void *memory, size_t bytes);
/* Ends a loan; does nothing if the memory is not lent, or has been replaced by a larger piece. */
void ls_tensor_take_back(ls_device *device, ls_comm *comm, const void *memory);

/* Returns in *out at least `bytes` of device memory, valid until the next call for the same queue and kind. */
ls_status ls_comm_scratch(const ls_comm *comm, ls_scratch_kind kind, size_t bytes, void **out);
/* Frees all scratch of this worker that is not lent. Called before the device is destroyed. */
void ls_scratch_free(ls_world *world);

#endif
