/* units.c: the kernels of the matrix units, beside those of the ISA, and which products they take. */
#include <pthread.h>

#include "device/cpu/gemm/gemm.h"

static ls_gemm_kernels tables[LS_UNITS];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void fill(void) {
#ifdef __aarch64__
    ls_gemm_kernels_fill_bfmmla(&tables[LS_UNIT_BFMMLA]);
#endif
#ifdef __x86_64__
    ls_gemm_kernels_fill_avx512_bf16(&tables[LS_UNIT_AVX512_BF16]);
    ls_gemm_kernels_fill_amx(&tables[LS_UNIT_AMX]);
#endif
}

const ls_gemm_kernels *ls_gemm_kernels_of(const ls_gemm_kernels *chain, ls_unit unit) {
    if (unit == LS_UNIT_CHAIN || !ls_unit_is_here(unit)) return chain;
    (void)pthread_once(&tables_once, fill); /* fails only for a broken once variable */
    return &tables[unit];
}

static bool is_float(ls_dtype dtype) { return dtype == LS_F32 || dtype == LS_BF16 || dtype == LS_F16; }

ls_status ls_gemm_check(const ls_gemm *g) {
    if (!is_float(g->dtype) || !is_float(g->c_dtype))
        return ls_fail(LS_ERR_INPUT,
                       "a matmul has operands of type %d and a result of type %d; both must be fp32, bf16 or fp16",
                       (int)g->dtype, (int)g->c_dtype);
    if (g->c_dtype != LS_F32 && (g->accumulate || g->siblings > 0))
        return ls_fail(LS_ERR_INPUT,
                       "a matmul that accumulates needs an fp32 result; a 16-bit result is rounded once, at the end");
    if ((g->patches || g->b_rows || g->c_rows) && (g->dtype != LS_F32 || g->c_dtype != LS_F32))
        return ls_fail(LS_ERR_INPUT, "a convolution has operands of type %d and a result of type %d; both must be fp32",
                       (int)g->dtype, (int)g->c_dtype);
    if (g->b_rows && g->form != LS_GEMM_NN)
        return ls_fail(LS_ERR_INPUT, "a matmul of form %d has strided rows of B, which only form NN supports",
                       (int)g->form);
    if (g->c_rows && (g->accumulate || g->siblings > 0))
        return ls_fail(LS_ERR_INPUT, "a matmul with strided result rows cannot accumulate; use a contiguous tensor");
    if (g->unit == LS_UNIT_CHAIN) return LS_OK;
    if (g->dtype != LS_BF16)
        return ls_fail(LS_ERR_INPUT, "matrix unit %s multiplies bf16 only; use bf16, or unit chain",
                       ls_unit_name(g->unit));
    return ls_unit_check(g->unit);
}
