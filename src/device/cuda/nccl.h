/* nccl.h: links between GPUs of several machines by NVIDIA's NCCL, loaded when one is asked for. Only its sends and
 * receives are used: the order of its sums depends on how it joins machines, and theirs is fixed here (comm/links). */
#ifndef LS_DEVICE_CUDA_NCCL_H
#define LS_DEVICE_CUDA_NCCL_H

#include "device/cuda/driver.h"
#include "device/device.h"

/* As the calls of device.h; failures of NCCL itself are LS_ERR_FAILED and have its words. LS_ERR_INPUT: it is not here,
 * or too old. */
ls_status ls_nccl_id(ls_link_id *out);
ls_status ls_nccl_open(const ls_link_id *id, int member, int members, ls_link **out);
ls_status ls_nccl_settled(ls_link *link, bool *out);
ls_status ls_nccl_move(ls_link *link, const ls_link_piece *pieces, int count, CUstream stream);
/* `left`: NCCL is not to be asked for anything more. */
void ls_nccl_close(ls_link *link, bool left);

#endif
