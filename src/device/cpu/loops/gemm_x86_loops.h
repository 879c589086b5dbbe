/* gemm_x86_loops.h: the micro-kernel of x86-64, written once: MR rows of two vectors of LANES values.
 *
 * Included by one file per ISA or unit, which sets MR, LANES, VEC (the vector type), MM(op) (the intrinsic of its
 * width) and MICRO (the name of the function). A unit that takes pairs of bf16 sets PAIRS and DOT(a, b, c): a pair
 * moves as one float then. All loops over the tile have constant ends: unrolled, the accumulators stay in registers. */
#include <immintrin.h>

#include "device/cpu/gemm/gemm.h"

#ifdef PAIRS
enum { NR = 2 * LANES, TOGETHER = 2 };
#else
enum { NR = 2 * LANES, TOGETHER = 1 };
#    define DOT(a, b, c) MM(fmadd_ps)(a, b, c)
#endif

/* Computes a tile of MR × NR over k from packed panels, with its epilogue: ls_gemm_kernels.micro. */
static void MICRO(size_t k, const void *panel_a, const void *panel_b, const ls_gemm_tile *tile) {
    const float *a = panel_a, *b = panel_b;
    VEC c[MR][2];
    if (tile->start) {
#pragma GCC unroll 16
        for (size_t i = 0; i < MR; i++) {
            c[i][0] = MM(loadu_ps)(tile->start + i * tile->ldstart);
            c[i][1] = MM(loadu_ps)(tile->start + i * tile->ldstart + LANES);
        }
    } else {
#pragma GCC unroll 16
        for (size_t i = 0; i < MR; i++) c[i][0] = c[i][1] = MM(setzero_ps)();
    }
    for (size_t p = 0; p < k; p += TOGETHER, a += MR, b += NR) {
        VEC b0 = MM(loadu_ps)(b), b1 = MM(loadu_ps)(b + LANES);
#pragma GCC unroll 16
        for (size_t i = 0; i < MR; i++) {
            VEC value = MM(set1_ps)(a[i]);
            c[i][0] = DOT(value, b0, c[i][0]);
            c[i][1] = DOT(value, b1, c[i][1]);
        }
    }
    for (int s = 0; s < tile->addends; s++) {
        const float *at = tile->addend[s].at;
        size_t ld = tile->addend[s].ld;
#pragma GCC unroll 16
        for (size_t i = 0; i < MR; i++) {
            c[i][0] = MM(add_ps)(MM(loadu_ps)(at + i * ld), c[i][0]);
            c[i][1] = MM(add_ps)(MM(loadu_ps)(at + i * ld + LANES), c[i][1]);
        }
    }
    if (tile->bias) {
        VEC bias0 = MM(loadu_ps)(tile->bias), bias1 = MM(loadu_ps)(tile->bias + LANES);
#pragma GCC unroll 16
        for (size_t i = 0; i < MR; i++) {
            c[i][0] = MM(add_ps)(c[i][0], bias0);
            c[i][1] = MM(add_ps)(c[i][1], bias1);
        }
    }
#ifdef PAIRS
    if (tile->halves) {
#    pragma GCC unroll 16
        for (size_t i = 0; i < MR; i++) {
            HALVES(tile->halves + i * tile->ldhalves, c[i][0]);
            HALVES(tile->halves + i * tile->ldhalves + LANES, c[i][1]);
        }
        return;
    }
#endif
#pragma GCC unroll 16
    for (size_t i = 0; i < MR; i++) {
        MM(storeu_ps)(tile->out + i * tile->ldout, c[i][0]);
        MM(storeu_ps)(tile->out + i * tile->ldout + LANES, c[i][1]);
    }
}
