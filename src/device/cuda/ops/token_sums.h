/* token_sums.h: sums over the tokens of a call by groups: what gradients of parameters share. */
#ifndef LS_DEVICE_CUDA_OPS_TOKEN_SUMS_H
#define LS_DEVICE_CUDA_OPS_TOKEN_SUMS_H

#include "device/cuda/args/token_sums.h"
#include "device/cuda/launch.h"

/* `args` has rows, columns, what is read, and `sums` outputs without gaps between their rows. */
ls_status ls_cuda_join_tokens(ls_device *device, ls_cuda_token_join *args, int sums, const ls_token_groups *groups);

ls_status ls_cuda_slices_set(ls_device *device, ls_cuda_slices *slices, const ls_token_groups *groups);

#endif
