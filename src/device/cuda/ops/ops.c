/* ops.c: the table of operations of a GPU, ls_cuda_ops, and the wrappers in it, which tell the trace which
 * operation launches kernels. */
#include "device/cuda/ops/ops.h"

#include "device/conv.h"

/* Launches a convolution, y from x and w, as one GEMM over patches of the images (device/conv.h). */
ls_status ls_cuda_op_conv_forward(ls_device *device, const ls_conv_call *call) { return ls_conv_forward(device, call); }

/* Launches the gradient of a convolution's input, dx from dy and w, as a GEMM for each remainder of a pixel by the
 * stride (device/conv.h). */
ls_status ls_cuda_op_conv_input_grad(ls_device *device, const ls_conv_call *call) {
    return ls_conv_input_grad(device, call);
}

/* Launches the gradient of a convolution's weights, dw from dy and x, as one GEMM (device/conv.h). */
ls_status ls_cuda_op_conv_weight_grad(ls_device *device, const ls_conv_call *call) {
    return ls_conv_weight_grad(device, call);
}

/* PRODUCT_OF() of the call of a matmul: returns the call itself. */
static const ls_gemm *product_of(const void *call) { return call; }
/* PRODUCT_OF() of the call of any other operation: returns NULL. */
static const ls_gemm *no_product(const void *call) {
    (void)call;
    return NULL;
}
/* Returns the call if it is that of a matmul, else NULL. */
#define PRODUCT_OF(call) _Generic((call), const ls_gemm * : product_of, default : no_product)(call)
/* Defines run_gemm() and so on: the operation of that name, so that traces have its name and, for a matmul, its call.
 */
#define LS_CUDA_OP(name, call_type)                                                                                    \
    static ls_status run_##name(ls_device *device, const call_type *call) {                                            \
        bool is_asked = ls_cuda_ask(device, #name, PRODUCT_OF(call));                                                  \
        ls_status status = ls_cuda_op_##name(device, call);                                                            \
        if (is_asked) (void)ls_cuda_ask(device, NULL, NULL);                                                           \
        return status;                                                                                                 \
    }
LS_OPS(LS_CUDA_OP)
#undef LS_CUDA_OP

const ls_ops ls_cuda_ops = {
#define LS_CUDA_OP(name, call_type) .name = run_##name,
    LS_OPS(LS_CUDA_OP)
#undef LS_CUDA_OP
        .gemm_ends = ls_cuda_gemm_ends,
    .peak_flops_s = ls_cuda_peak_flops_s,
};
