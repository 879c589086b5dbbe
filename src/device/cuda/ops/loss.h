/* loss.h: the loss of 16-bit logits (loss_hgmma.c), and what it shares with that of fp32 logits (loss.c). */
#ifndef LS_DEVICE_CUDA_OPS_LOSS_H
#define LS_DEVICE_CUDA_OPS_LOSS_H

#include "device/cuda/args/loss.h"
#include "device/cuda/launch.h"
#include "device/calls.h"

/* `width`: elements of a pack. */
ls_status ls_cuda_loss_args(ls_device *device, const ls_loss_call *c, size_t width, ls_cuda_loss *out);

/* As loss_rows. */
ls_status ls_cuda_loss_hgmma_rows(ls_device *device, const ls_loss_call *c);
/* One of the passes of workers that share rows. */
ls_status ls_cuda_loss_hgmma_pass(ls_device *device, ls_cuda_kernel kernel, const ls_loss_call *c);

#endif
