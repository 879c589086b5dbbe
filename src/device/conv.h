/* conv.h: convolutions by the matmul of a device, for its table of operations.
 *
 * ls_conv_call (calls.h) says what each reads and writes. They allocate nothing. LS_ERR_INPUT for a shape, or for
 * groups of a weight gradient, that make no sense; other errors are those of the matmul. */
#ifndef LS_DEVICE_CONV_H
#define LS_DEVICE_CONV_H

#include "device/ops.h"

ls_status ls_conv_forward(ls_device *device, const ls_conv_call *call);
ls_status ls_conv_input_grad(ls_device *device, const ls_conv_call *call);
ls_status ls_conv_weight_grad(ls_device *device, const ls_conv_call *call);

#endif
