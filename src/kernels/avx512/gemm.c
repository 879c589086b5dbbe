/* gemm.c: a 14 × 32 micro-kernel with AVX-512: 28 accumulators, 2 vectors of B, one value of A at a time. */
#include "kernels/simd/avx512.h"

#define LSK_NAME(stem) stem##_avx512
#include "kernels/loops/gemm_thin_loops.h"

#define MR 14
#define LANES 16
#define VEC __m512
#define MM(op) _mm512_##op
#define MICRO lsk_gemm_f32_14x32_avx512
#include "kernels/loops/gemm_x86_loops.h"

#define TRANSPOSE lsk_gemm_transpose_avx512
#define THIN_ALONG lsk_gemm_thin_along_avx512
#define STORE_MR(to, v) _mm512_mask_storeu_ps(to, 0x3FFF, v)
#include "kernels/loops/gemm_transpose_x86_loops.h"

/* 384 × 32 × 4 bytes of B nearly fill a first cache of 48 KiB; 112 × 384 × 4 of A stay in a second of 1 or 2 MiB. */
void ls_gemm_kernels_fill_avx512(ls_gemm_kernels *table) {
    *table = (ls_gemm_kernels){.name = "14x32 avx512",
                               .micro = MICRO,
                               .thin = lsk_gemm_thin_f32_avx512,
                               .thin_along = THIN_ALONG,
                               .thin_lines = THIN_LINES,
                               .transpose = TRANSPOSE,
                               .mr = MR,
                               .nr = NR,
                               .kc = 384,
                               .mb = 112,
                               .nb = 192};
}
