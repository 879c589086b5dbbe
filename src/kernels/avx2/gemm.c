/* gemm.c: a 6 × 16 micro-kernel with AVX2: 12 accumulators, 2 vectors of B, one value of A at a time. */
#include "kernels/simd/avx2.h"

#define LSK_NAME(stem) stem##_avx2
#include "kernels/loops/gemm_thin_loops.h"

#define MR 6
#define LANES 8
#define VEC __m256
#define MM(op) _mm256_##op
#define MICRO lsk_gemm_f32_6x16_avx2
#include "kernels/loops/gemm_x86_loops.h"

#define TRANSPOSE lsk_gemm_transpose_avx2
#define THIN_ALONG lsk_gemm_thin_along_avx2
#define STORE_MR(to, v) _mm256_maskstore_ps(to, _mm256_setr_epi32(-1, -1, -1, -1, -1, -1, 0, 0), v)
#include "kernels/loops/gemm_transpose_x86_loops.h"

/* 256 × 16 × 4 bytes of B stay in a first cache of 32 KiB, 96 × 256 × 4 of A in a second of 256 KiB. */
void ls_gemm_kernels_fill_avx2(ls_gemm_kernels *table) {
    *table = (ls_gemm_kernels){.name = "6x16 avx2",
                               .micro = MICRO,
                               .thin = lsk_gemm_thin_f32_avx2,
                               .thin_along = THIN_ALONG,
                               .thin_lines = THIN_LINES,
                               .transpose = TRANSPOSE,
                               .mr = MR,
                               .nr = NR,
                               .kc = 256,
                               .mb = 96,
                               .nb = 192};
}
