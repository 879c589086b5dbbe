/* loss.h: the loss of 16-bit logits (loss_hgmma.c), and the arguments that it shares with loss.c, for fp32 logits. */
#ifndef LS_DEVICE_CUDA_OPS_LOSS_H
#define LS_DEVICE_CUDA_OPS_LOSS_H

#include "device/cuda/args/loss.h"
#include "device/cuda/launch.h"
#include "device/calls.h"

/* Fills a loss kernel's arguments from a call. `width` is the number of elements that a thread loads at once. */
ls_status ls_cuda_loss_args(ls_device *device, const ls_loss_call *c, size_t width, ls_cuda_loss *out);

/* Computes loss_rows (ops.h) for 16-bit logits. */
ls_status ls_cuda_loss_hgmma_rows(ls_device *device, const ls_loss_call *c);
/* Runs `kernel`, one of the passes over a row that the workers of a TP group share. */
ls_status ls_cuda_loss_hgmma_pass(ls_device *device, ls_cuda_kernel kernel, const ls_loss_call *c);

#endif
