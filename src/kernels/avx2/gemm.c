/* gemm.c: a 6 × 16 micro-kernel with AVX2: 12 accumulators, 2 vectors of B, one value of A at a time. */
#define MR 6
#define LANES 8
#define VEC __m256
#define MM(op) _mm256_##op
#define MICRO lsk_gemm_f32_6x16_avx2
#include "kernels/loops/gemm_x86_loops.h"

/* 256 × 16 × 4 bytes of B stay in a first cache of 32 KiB, 96 × 256 × 4 of A in a second of 256 KiB. */
void ls_gemm_kernels_fill_avx2(ls_gemm_kernels *table) {
    *table = (ls_gemm_kernels){.name = "6x16 avx2", .micro = MICRO, .mr = MR, .nr = NR, .kc = 256, .mb = 96, .nb = 192};
}
