/* gemm.c: a 4 × 4 micro-kernel in plain C, for any CPU. On x86-64 it is compiled twice: where the CPU has FMA, fmaf()
 * is an instruction and not a call. Both round once: the bits are the same. */
#include <math.h>

#include "base/cpu.h"
#include "device/cpu/simd/portable.h"

#define LSK_NAME(stem) stem##_portable
#include "device/cpu/loops/gemm_thin_loops.h"

enum { MR = 4, NR = 4 };

/* Computes a 4 × 4 tile over k, with its epilogue; inlined into each of the two kernels. */
static inline __attribute__((always_inline)) void make_tile(size_t k, const void *panel_a, const void *panel_b,
                                                            const ls_gemm_tile *tile) {
    const float *a = panel_a, *b = panel_b;
    float c[MR][NR];
    for (int i = 0; i < MR; i++)
        for (int j = 0; j < NR; j++) c[i][j] = tile->start ? tile->start[(size_t)i * tile->ldstart + (size_t)j] : 0.0f;
    for (size_t p = 0; p < k; p++, a += MR, b += NR)
        for (int i = 0; i < MR; i++)
            for (int j = 0; j < NR; j++) c[i][j] = fmaf(a[i], b[j], c[i][j]);
    for (int s = 0; s < tile->addends; s++)
        for (int i = 0; i < MR; i++)
            for (int j = 0; j < NR; j++)
                c[i][j] = tile->addend[s].at[(size_t)i * tile->addend[s].ld + (size_t)j] + c[i][j];
    for (int i = 0; i < MR; i++)
        for (int j = 0; j < NR; j++)
            tile->out[(size_t)i * tile->ldout + (size_t)j] = tile->bias ? c[i][j] + tile->bias[j] : c[i][j];
}

/* Computes a tile, for a CPU without FMA, where fmaf() is a call: ls_gemm_kernels.micro. */
static void lsk_gemm_f32_4x4_portable(size_t k, const void *panel_a, const void *panel_b, const ls_gemm_tile *tile) {
    make_tile(k, panel_a, panel_b, tile);
}

void ls_gemm_kernels_fill_plain(ls_gemm_kernels *table) {
    *table = (ls_gemm_kernels){.name = "4x4 portable",
                               .micro = lsk_gemm_f32_4x4_portable,
                               .thin = lsk_gemm_thin_f32_portable,
                               .mr = MR,
                               .nr = NR,
                               .kc = 256,
                               .mb = 64,
                               .nb = 128};
    ls_convert_kernels_fill_portable(&table->convert);
}

#ifdef __x86_64__
/* Computes a tile with FMA instructions. */
__attribute__((target("fma"))) static void lsk_gemm_f32_4x4_fma(size_t k, const void *panel_a, const void *panel_b,
                                                                const ls_gemm_tile *tile) {
    make_tile(k, panel_a, panel_b, tile);
}
#endif

void ls_gemm_kernels_fill_portable(ls_gemm_kernels *table) {
    ls_gemm_kernels_fill_plain(table);
#ifdef __x86_64__
    if (ls_cpu_detect()->fma) table->micro = lsk_gemm_f32_4x4_fma;
#endif
}
