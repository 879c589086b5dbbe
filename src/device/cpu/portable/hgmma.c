/* hgmma.c: matmuls with the tensor cores of NVIDIA's GPUs by their formulas, on any CPU. On x86-64 compiled twice: AVX2
 * shifts each lane by a count of its own, which takes SSE2 a turn for each. */
#include "device/cpu/portable/hgmma.h"

#include "base/cpu.h"
#include "device/cpu/gemm/gemm.h"

/* Computes a tile of 8 × 8 over k values, whole granules, from packed 16-bit panels, with its epilogue:
 * ls_gemm_kernels.micro, for the format f. */
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

/* Define the micro-kernels of each format of hgmma.h, whose constants the compiler then knows. */
#define MICRO_KERNEL(attributes, name, f)                                                                              \
    attributes static void name(size_t k, const void *a, const void *b, const ls_gemm_tile *tile) {                    \
        add_tile(k, a, b, f, tile);                                                                                    \
    }
#define MICRO_KERNELS(attributes, suffix)                                                                              \
    MICRO_KERNEL(attributes, lsk_gemm_bf16_8x8_hgmma##suffix, format_bf16)                                             \
    MICRO_KERNEL(attributes, lsk_gemm_f16_8x8_hgmma##suffix, format_f16)                                               \
    MICRO_KERNEL(attributes, lsk_gemm_bf16_8x8_ampere##suffix, ampere_bf16)                                            \
    MICRO_KERNEL(attributes, lsk_gemm_f16_8x8_ampere##suffix, ampere_f16)

MICRO_KERNELS(, )
#ifdef __x86_64__
MICRO_KERNELS(__attribute__((target("avx2"))), _avx2)
#endif

/* Lists them by formula (hgmma, ampere), then by type (bf16, fp16). */
#define BY_UNIT_AND_TYPE(suffix)                                                                                       \
    {                                                                                                                  \
        {lsk_gemm_bf16_8x8_hgmma##suffix, lsk_gemm_f16_8x8_hgmma##suffix}, {                                           \
            lsk_gemm_bf16_8x8_ampere##suffix, lsk_gemm_f16_8x8_ampere##suffix                                          \
        }                                                                                                              \
    }

void ls_gemm_kernels_fill_tensor_core(ls_gemm_kernels *table, ls_unit unit, ls_dtype dtype) {
    static const ls_gemm_micro micro[2][2] = BY_UNIT_AND_TYPE();
    bool is_ampere = ls_unit_granule(unit) == 8, is_f16 = dtype == LS_F16;
    *table = (ls_gemm_kernels){.name = is_ampere ? "8x8 ampere" : "8x8 hgmma",
                               .micro = micro[is_ampere][is_f16],
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
    static const ls_gemm_micro micro_avx2[2][2] = BY_UNIT_AND_TYPE(_avx2);
    if (ls_cpu_use(LS_ISA_AVX2)) table->micro = micro_avx2[is_ampere][is_f16];
#endif
}
