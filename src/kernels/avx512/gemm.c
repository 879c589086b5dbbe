/* gemm.c: a 14 × 32 micro-kernel with AVX-512: 28 accumulators, 2 vectors of B, one value of A at a time. */
#include <immintrin.h>

#include "kernels/gemm.h"

enum { MR = 14, NR = 32, LANES = 16, VECTORS = NR / LANES };

/* All loops over the tile have constant ends: unrolled, the accumulators stay in registers. */
static void lsk_gemm_f32_14x32_avx512(size_t k, const float *a, const float *b, const ls_gemm_tile *tile) {
    __m512 c[MR][VECTORS];
    if (tile->start) {
#pragma GCC unroll 16
        for (size_t i = 0; i < MR; i++)
#pragma GCC unroll 2
            for (size_t v = 0; v < VECTORS; v++) c[i][v] = _mm512_loadu_ps(tile->start + i * tile->ldstart + v * LANES);
    } else {
#pragma GCC unroll 16
        for (size_t i = 0; i < MR; i++)
#pragma GCC unroll 2
            for (size_t v = 0; v < VECTORS; v++) c[i][v] = _mm512_setzero_ps();
    }
    for (size_t p = 0; p < k; p++, a += MR, b += NR) {
        __m512 b0 = _mm512_loadu_ps(b), b1 = _mm512_loadu_ps(b + LANES);
#pragma GCC unroll 16
        for (size_t i = 0; i < MR; i++) {
            __m512 value = _mm512_set1_ps(a[i]);
            c[i][0] = _mm512_fmadd_ps(value, b0, c[i][0]);
            c[i][1] = _mm512_fmadd_ps(value, b1, c[i][1]);
        }
    }
    for (int s = 0; s < tile->addends; s++) {
        const float *at = tile->addend[s].at;
        size_t ld = tile->addend[s].ld;
#pragma GCC unroll 16
        for (size_t i = 0; i < MR; i++)
#pragma GCC unroll 2
            for (size_t v = 0; v < VECTORS; v++)
                c[i][v] = _mm512_add_ps(_mm512_loadu_ps(at + i * ld + v * LANES), c[i][v]);
    }
    if (tile->bias) {
        __m512 bias0 = _mm512_loadu_ps(tile->bias), bias1 = _mm512_loadu_ps(tile->bias + LANES);
#pragma GCC unroll 16
        for (size_t i = 0; i < MR; i++) {
            c[i][0] = _mm512_add_ps(c[i][0], bias0);
            c[i][1] = _mm512_add_ps(c[i][1], bias1);
        }
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < MR; i++)
#pragma GCC unroll 2
        for (size_t v = 0; v < VECTORS; v++) _mm512_storeu_ps(tile->out + i * tile->ldout + v * LANES, c[i][v]);
}

/* 384 × 32 × 4 bytes of B nearly fill a first cache of 48 KiB; 112 × 384 × 4 of A stay in a second of 1 or 2 MiB. */
void ls_gemm_kernels_fill_avx512(ls_gemm_kernels *table) {
    *table = (ls_gemm_kernels){.name = "14x32 avx512",
                               .micro = lsk_gemm_f32_14x32_avx512,
                               .mr = MR,
                               .nr = NR,
                               .kc = 384,
                               .mb = 112,
                               .nb = 192};
}
