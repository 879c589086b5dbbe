/* units.c: the kernels of the matrix units, beside those of the ISA, and which matmuls they take. */
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
