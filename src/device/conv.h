/* conv.h: convolutions as implicit GEMMs: each calls the matmul of the device (ops->gemm) on patches of the images that
 * are never stored. Devices put these functions into their table of operations (cpu/ops/gemm.c, cuda/ops/ops.c).
 *
 * Tensors are fp32, channels last; ls_conv_call (calls.h) has the layouts. The functions allocate nothing. They return
 * LS_ERR_INPUT for an invalid shape, or invalid groups of a weight gradient; other errors are those of the matmul. */
#ifndef LS_DEVICE_CONV_H
#define LS_DEVICE_CONV_H

#include "device/ops.h"

/* Computes y from x, w and bias (NULL: none). */
ls_status ls_conv_forward(ls_device *device, const ls_conv_call *call);
/* Computes all of dx from dy and w, by one matmul for each remainder of a pixel by the strides: stride_y · stride_x of
 * them, or fewer in a smaller image. Pixels that no window reaches get +0. */
ls_status ls_conv_input_grad(ls_device *device, const ls_conv_call *call);
/* Computes dw from dy and x, summed over positions by groups (slices, bounds), with siblings as ls_gemm has them. */
ls_status ls_conv_weight_grad(ls_device *device, const ls_conv_call *call);

#endif
