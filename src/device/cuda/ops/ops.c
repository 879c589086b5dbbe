/* ops.c: the table of operations of a GPU. */
#include "device/cuda/ops/ops.h"

#include "device/conv.h"

ls_status ls_cuda_op_conv_forward(ls_device *device, const ls_conv_call *call) { return ls_conv_forward(device, call); }

ls_status ls_cuda_op_conv_input_grad(ls_device *device, const ls_conv_call *call) {
    return ls_conv_input_grad(device, call);
}

ls_status ls_cuda_op_conv_weight_grad(ls_device *device, const ls_conv_call *call) {
    return ls_conv_weight_grad(device, call);
}

const ls_ops ls_cuda_ops = {
#define LS_CUDA_OP(name, call_type) .name = ls_cuda_op_##name,
    LS_OPS(LS_CUDA_OP)
#undef LS_CUDA_OP
        .gemm_ends = ls_cuda_gemm_ends,
    .peak_flops_s = ls_cuda_peak_flops_s,
};
