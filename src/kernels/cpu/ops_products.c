/* ops_products.c: matrix products. */
#include "kernels/cpu/cpu.h"

static ls_status gemm(ls_device *device, const ls_gemm *call) {
    LS_TRY(ls_gemm_check(call));
    ls_cpu_device *cpu = ls_cpu_enter(device);
    void *scratch;
    LS_TRY(ls_cpu_scratch(cpu, ls_gemm_scratch_bytes(&cpu->kernels->gemm, call), &scratch));
    ls_gemm_run(&cpu->kernels->gemm, call, cpu->pool, scratch);
    return LS_OK;
}

void ls_cpu_ops_fill_products(ls_ops *ops) { ops->gemm = gemm; }
