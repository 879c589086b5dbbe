/* nccl.h: links between GPUs of several machines by NVIDIA's NCCL, loaded when the first link is opened. Only its sends
 * and receives are used: the order of its reductions depends on its topology, but ours is fixed (comm/links). */
#ifndef LS_DEVICE_CUDA_NCCL_H
#define LS_DEVICE_CUDA_NCCL_H

#include "device/cuda/driver.h"
#include "device/device.h"

/* The functions implement ls_device_link_id(), _open(), _settled(), _move() and _close() (device.h), and return at
 * once. LS_ERR_FAILED: NCCL failed; the message has its text. LS_ERR_INPUT: NCCL is not installed, or too old. */
ls_status ls_nccl_id(ls_link_id *out);
ls_status ls_nccl_open(const ls_link_id *id, int member, int members, ls_link **out);
ls_status ls_nccl_settled(ls_link *link, bool *out);
ls_status ls_nccl_move(ls_link *link, const ls_link_piece *pieces, int count, CUstream stream);
/* Aborts what is in flight and frees the link. If `left`, NCCL is not called, because the GPU is lost and it could wait
 * forever. */
void ls_nccl_close(ls_link *link, bool left);

#endif
