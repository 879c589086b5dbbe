/* hgmma.c: matmuls with the matrix unit of Hopper GPUs, on any CPU. On x86-64 compiled twice: AVX2 shifts each lane by
 * a count of its own, which takes SSE2 a turn for each. */
#include "device/cpu/portable/hgmma.h"

#include "base/cpu.h"
#include "device/cpu/gemm/gemm.h"

static inline __attribute__((always_inline)) void add_tile(size_t k, const void *panel_a, const void *panel_b, format f,
                                                           const ls_gemm_tile *tile) {
    float c[TILE][TILE];
    for (size_t i = 0; i < TILE; i++)
        for (size_t j = 0; j < TILE; j++) c[i][j] = tile->start ? tile->start[i * tile->ldstart + j] : 0.0f;
    const uint16_t *a = panel_a, *b = panel_b;
    for (size_t p = 0; p < k; p += GRANULE, a += TILE * GRANULE, b += TILE * GRANULE) add_granules(c[0], TILE, a, b, f);
    for (int s = 0; s < tile->addends; s++)
        for (size_t i = 0; i < TILE; i++)
            for (size_t j = 0; j < TILE; j++) c[i][j] = tile->addend[s].at[i * tile->addend[s].ld + j] + c[i][j];
    for (size_t i = 0; i < TILE; i++)
        for (size_t j = 0; j < TILE; j++)
            tile->out[i * tile->ldout + j] = tile->bias ? c[i][j] + tile->bias[j] : c[i][j];
}

static void lsk_gemm_bf16_8x8_hgmma(size_t k, const void *a, const void *b, const ls_gemm_tile *tile) {
    add_tile(k, a, b, format_bf16, tile);
}
static void lsk_gemm_f16_8x8_hgmma(size_t k, const void *a, const void *b, const ls_gemm_tile *tile) {
    add_tile(k, a, b, format_f16, tile);
}

#ifdef __x86_64__
#    define WITH_AVX2 __attribute__((target("avx2")))
WITH_AVX2 static void lsk_gemm_bf16_8x8_hgmma_avx2(size_t k, const void *a, const void *b, const ls_gemm_tile *tile) {
    add_tile(k, a, b, format_bf16, tile);
}
WITH_AVX2 static void lsk_gemm_f16_8x8_hgmma_avx2(size_t k, const void *a, const void *b, const ls_gemm_tile *tile) {
    add_tile(k, a, b, format_f16, tile);
}
#endif

void ls_gemm_kernels_fill_hgmma(ls_gemm_kernels *table, ls_dtype dtype) {
    *table = (ls_gemm_kernels){.name = "8x8 hgmma",
                               .micro = dtype == LS_F16 ? lsk_gemm_f16_8x8_hgmma : lsk_gemm_bf16_8x8_hgmma,
                               .mr = TILE,
                               .nr = TILE,
                               .kc = 256,
                               .mb = 64,
                               .nb = 64,
                               .granule = GRANULE,
                               .group_a = GRANULE,
                               .group_b = GRANULE,
                               .rate = 1};
    ls_convert_kernels_fill_portable(&table->convert);
#ifdef __x86_64__
    if (ls_cpu_use(LS_ISA_AVX2))
        table->micro = dtype == LS_F16 ? lsk_gemm_f16_8x8_hgmma_avx2 : lsk_gemm_bf16_8x8_hgmma_avx2;
#endif
}
