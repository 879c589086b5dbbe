/* gemm.c: matmuls. */
#include "device/cpu/cpu.h"

ls_status ls_cpu_gemm(ls_cpu_device *cpu, const ls_gemm *call) {
    void *scratch;
    LS_TRY(ls_cpu_scratch(cpu, ls_gemm_scratch_bytes(&cpu->kernels->gemm, call), &scratch));
    ls_gemm_run(&cpu->kernels->gemm, call, cpu->pool, scratch);
    return LS_OK;
}

ls_status ls_cpu_op_gemm(ls_device *device, const ls_gemm *call) {
    LS_TRY(ls_gemm_check(call));
    return ls_cpu_gemm(ls_cpu_enter(device), call);
}
