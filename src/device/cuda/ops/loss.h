/* loss.h: shared by the host code of the loss: loss.c, for fp32 logits, and loss_hgmma.c, which it calls for
 * 16-bit logits (those of tensor cores, whose sums have an order of their own). */
#ifndef LS_DEVICE_CUDA_OPS_LOSS_H
#define LS_DEVICE_CUDA_OPS_LOSS_H

#include "device/cuda/args/loss.h"
#include "device/cuda/launch.h"
#include "device/calls.h"

/* Fills a loss kernel's arguments from a call, and copies long bounds to the device. `width` is the number of
 * elements that a thread loads at once; out->whole is 0 if rows of z or dz are not aligned to it. out->kept stays 0,
 * for the caller to set. */
ls_status ls_cuda_loss_args(ls_device *device, const ls_loss_call *c, size_t width, ls_cuda_loss *out);

/* Launches the operation loss_rows (device/ops.h), whole rows at once, for 16-bit logits. */
ls_status ls_cuda_loss_hgmma_rows(ls_device *device, const ls_loss_call *c);
/* Launches `kernel`, one of the passes over rows of 16-bit logits (max, sums, grad, or any: a whole row without
 * alignment), a block per row. Workers of a TP group that share rows use the passes. */
ls_status ls_cuda_loss_hgmma_pass(ls_device *device, ls_cuda_kernel kernel, const ls_loss_call *c);

#endif
