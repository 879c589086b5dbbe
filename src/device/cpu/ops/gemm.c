/* gemm.c: matmuls, and convolutions, which are matmuls. */
#include "device/conv.h"
#include "device/cpu/cpu.h"

/* Checks the call and computes the matmul on all threads. LS_ERR_INPUT for a fused epilogue, which a CPU lacks. */
ls_status ls_cpu_op_gemm(ls_device *device, const ls_gemm *call) {
    LS_TRY(ls_gemm_check(call));
    if (call->end) return ls_fail(LS_ERR_INPUT, "a CPU has no matmul that ends with an activation; call them apart");
    ls_cpu_device *cpu = ls_cpu_enter(device);
    void *scratch;
    LS_TRY(ls_cpu_scratch(cpu, ls_gemm_scratch_bytes(&cpu->kernels->gemm, call), &scratch));
    ls_gemm_run(&cpu->kernels->gemm, call, cpu->pool, scratch);
    return LS_OK;
}

/* Computes a convolution as a matmul over patches: device/conv.h. */
ls_status ls_cpu_op_conv_forward(ls_device *device, const ls_conv_call *call) { return ls_conv_forward(device, call); }

/* Computes dx of a convolution as matmuls: device/conv.h. */
ls_status ls_cpu_op_conv_input_grad(ls_device *device, const ls_conv_call *call) {
    return ls_conv_input_grad(device, call);
}

/* Computes dw of a convolution as a matmul: device/conv.h. */
ls_status ls_cpu_op_conv_weight_grad(ls_device *device, const ls_conv_call *call) {
    return ls_conv_weight_grad(device, call);
}
