/* conv.h: convolutions by the matmul of a device, for its table of operations. */
#ifndef LS_DEVICE_CONV_H
#define LS_DEVICE_CONV_H

#include "device/ops.h"

ls_status ls_conv_forward(ls_device *device, const ls_conv_call *call);
ls_status ls_conv_input_grad(ls_device *device, const ls_conv_call *call);
ls_status ls_conv_weight_grad(ls_device *device, const ls_conv_call *call);

#endif
