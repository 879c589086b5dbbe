/* convert_loops.h: conversions between fp32 and 16-bit formats over a vector of 16 lanes.
 *
 * Included by kernels_loops.h. */
#include "device/cpu/loops/part_loops.h"

/* Define a kernel of ls_convert_kernels: from fp32 to 16 bits by `store`, and from 16 bits by `load`; the _n forms are
 * for the last elements. */
#define NARROW_LOOP(stem, store)                                                                                       \
    static void LSK_NAME(stem)(uint16_t * out, const float *in, size_t n) {                                            \
        size_t i = 0;                                                                                                  \
        for (; i + LANES <= n; i += LANES) store(out + i, v16_load(in + i));                                           \
        if (i < n) store##_n(out + i, v16_load_n(in + i, n - i, 0.0f), n - i);                                         \
    }
#define WIDEN_LOOP(stem, load, load_n)                                                                                 \
    static void LSK_NAME(stem)(float *out, const uint16_t *in, size_t n) {                                             \
        size_t i = 0;                                                                                                  \
        for (; i + LANES <= n; i += LANES) v16_store(out + i, load(in + i));                                           \
        if (i < n) v16_store_n(out + i, load_n(in + i, n - i), n - i);                                                 \
    }

NARROW_LOOP(lsk_f32_to_bf16, v16_store_bf16)
NARROW_LOOP(lsk_f32_to_f16, v16_store_f16)
WIDEN_LOOP(lsk_bf16_to_f32, v16_load_bf16, v16_load_bf16_n)
WIDEN_LOOP(lsk_f16_to_f32, v16_load_f16, v16_load_f16_n)
WIDEN_LOOP(lsk_widen_bf16, v16_widen_bf16, v16_load_bf16_n)
WIDEN_LOOP(lsk_widen_f16, v16_widen_f16, v16_load_f16_n)

static const ls_convert_kernels convert_kernels = {
    .f32_to_bf16 = LSK_NAME(lsk_f32_to_bf16),
    .bf16_to_f32 = LSK_NAME(lsk_bf16_to_f32),
    .f32_to_f16 = LSK_NAME(lsk_f32_to_f16),
    .f16_to_f32 = LSK_NAME(lsk_f16_to_f32),
    .widen_bf16 = LSK_NAME(lsk_widen_bf16),
    .widen_f16 = LSK_NAME(lsk_widen_f16),
};
