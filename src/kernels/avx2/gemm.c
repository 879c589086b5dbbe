/* gemm.c: a 6 × 16 micro-kernel with AVX2: 12 accumulators, 2 vectors of B, one value of A at a time. */
#include <immintrin.h>

#include "kernels/gemm.h"

enum { MR = 6, NR = 16, LANES = 8, VECTORS = NR / LANES };

/* All loops over the tile have constant ends: unrolled, the accumulators stay in registers. */
static void lsk_gemm_f32_6x16_avx2(size_t k, const float *a, const float *b, const ls_gemm_tile *tile) {
    __m256 c[MR][VECTORS];
    if (tile->start) {
#pragma GCC unroll 16
        for (size_t i = 0; i < MR; i++)
#pragma GCC unroll 2
            for (size_t v = 0; v < VECTORS; v++) c[i][v] = _mm256_loadu_ps(tile->start + i * tile->ldstart + v * LANES);
    } else {
#pragma GCC unroll 16
        for (size_t i = 0; i < MR; i++)
#pragma GCC unroll 2
            for (size_t v = 0; v < VECTORS; v++) c[i][v] = _mm256_setzero_ps();
    }
    for (size_t p = 0; p < k; p++, a += MR, b += NR) {
        __m256 b0 = _mm256_loadu_ps(b), b1 = _mm256_loadu_ps(b + LANES);
#pragma GCC unroll 16
        for (size_t i = 0; i < MR; i++) {
            __m256 value = _mm256_set1_ps(a[i]);
            c[i][0] = _mm256_fmadd_ps(value, b0, c[i][0]);
            c[i][1] = _mm256_fmadd_ps(value, b1, c[i][1]);
        }
    }
    for (int s = 0; s < tile->addends; s++) {
        const float *at = tile->addend[s].at;
        size_t ld = tile->addend[s].ld;
#pragma GCC unroll 16
        for (size_t i = 0; i < MR; i++)
#pragma GCC unroll 2
            for (size_t v = 0; v < VECTORS; v++)
                c[i][v] = _mm256_add_ps(_mm256_loadu_ps(at + i * ld + v * LANES), c[i][v]);
    }
    if (tile->bias) {
        __m256 bias0 = _mm256_loadu_ps(tile->bias), bias1 = _mm256_loadu_ps(tile->bias + LANES);
#pragma GCC unroll 16
        for (size_t i = 0; i < MR; i++) {
            c[i][0] = _mm256_add_ps(c[i][0], bias0);
            c[i][1] = _mm256_add_ps(c[i][1], bias1);
        }
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < MR; i++)
#pragma GCC unroll 2
        for (size_t v = 0; v < VECTORS; v++) _mm256_storeu_ps(tile->out + i * tile->ldout + v * LANES, c[i][v]);
}

/* 256 × 16 × 4 bytes of B stay in a first cache of 32 KiB, 96 × 256 × 4 of A in a second of 256 KiB. */
void ls_gemm_kernels_fill_avx2(ls_gemm_kernels *table) {
    *table = (ls_gemm_kernels){
        .name = "6x16 avx2", .micro = lsk_gemm_f32_6x16_avx2, .mr = MR, .nr = NR, .kc = 256, .mb = 96, .nb = 192};
}
