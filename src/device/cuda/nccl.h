/* nccl.h: links between GPUs of several machines by NVIDIA's NCCL, loaded when the first link is opened; for
 * device.c. A link is one NCCL communicator. Only NCCL's sends and receives are used: the order of additions in
 * its reductions depends on its topology, but ours is fixed, so our own kernels add (comm/links). */
#ifndef LS_DEVICE_CUDA_NCCL_H
#define LS_DEVICE_CUDA_NCCL_H

#include "device/cuda/driver.h"
#include "device/device.h"

/* The functions implement ls_device_link_id(), _open(), _settled(), _move() and _close() (device.h), and return without
 * waiting for other members. LS_ERR_FAILED: NCCL failed; the message has its text. LS_ERR_INPUT of this machine, from
 * ls_nccl_id() and ls_nccl_open(): NCCL is not installed, or older than 2.14. */

/* Makes the id of a new link (ncclGetUniqueId), which one member calls and sends to the others. */
ls_status ls_nccl_id(ls_link_id *out);
/* Starts to join a link as member `member` of `members`, on the current GPU; the link is usable once
 * ls_nccl_settled() says so. The caller closes *out, which is NULL on failure. */
ls_status ls_nccl_open(const ls_link_id *id, int member, int members, ls_link **out);
/* Sets *out to whether the last call has completed: the link is open, or the move is enqueued (it may still run on
 * its stream). Fails, now and in every later call, once the link has failed; *out is then false. */
ls_status ls_nccl_settled(ls_link *link, bool *out);
/* Enqueues sends and receives on the stream as one group, so that they run at the same time. A piece is bytes in memory
 * of this GPU that are sent to a member or received from it; pieces of 0 bytes are skipped. The last call must have
 * settled. Blocks the stream, not the host, until the other members take part. */
ls_status ls_nccl_move(ls_link *link, const ls_link_piece *pieces, int count, CUstream stream);
/* Aborts what is in flight and frees the link, which must not be NULL. If `left`, NCCL is not called and keeps its
 * communicator, because the GPU is lost and NCCL could wait for it forever. */
void ls_nccl_close(ls_link *link, bool left);

#endif
