/* gemm.c: a 4 × 4 micro-kernel in plain C, for any CPU. */
#include <math.h>

#include "device/cpu/simd/portable.h"

#define LSK_NAME(stem) stem##_portable
#include "device/cpu/loops/gemm_thin_loops.h"

enum { MR = 4, NR = 4 };

static void lsk_gemm_f32_4x4_portable(size_t k, const void *panel_a, const void *panel_b, const ls_gemm_tile *tile) {
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

void ls_gemm_kernels_fill_portable(ls_gemm_kernels *table) {
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
