/* gemm_bf16.c: a 14 × 32 micro-kernel with VDPBF16PS, which adds two products of bf16 to each fp32: the kernel of fp32,
 * with pairs in the place of values. */
#include "device/cpu/gemm/gemm.h"
#include "device/cpu/simd/avx512.h"

#define MR 14
#define LANES 16
#define VEC __m512
#define MM(op) _mm512_##op
#define MICRO lsk_gemm_bf16_14x32_avx512
#define PAIRS
#define DOT(a, b, c) _mm512_dpbf16_ps(c, (__m512bh)(a), (__m512bh)(b))
#define HALVES(to, c) v16_store_bf16(to, c)
#include "device/cpu/loops/gemm_x86_loops.h"

/* Fills the table. A block has as many bytes as that of the kernel of fp32. */
void ls_gemm_kernels_fill_avx512_bf16(ls_gemm_kernels *table) {
    ls_gemm_kernels chain;
    ls_gemm_kernels_fill_avx512(&chain);
    *table = (ls_gemm_kernels){.name = "14x32 avx512-bf16",
                               .micro = MICRO,
                               .transpose = chain.transpose,
                               .mr = MR,
                               .nr = NR,
                               .kc = 4096,
                               .mb = 112,
                               .nb = 64,
                               .convert = chain.convert,
                               .granule = 2,
                               .group_a = 2,
                               .group_b = 2,
                               .rate = 2,
                               .rounds_bf16 = true};
}
