/* gemm_pack.c: packing, by 4 × 4 transposes where the values of a line are neighbours. */
#include "kernels/gemm_pack.h"

#include <stdint.h>
#include <string.h>

#include "numerics/float16.h"

typedef float four __attribute__((vector_size(16)));

static inline four load4(const float *from) {
    four v;
    memcpy(&v, from, sizeof v);
    return v;
}
static inline void store4(float *to, four v) { memcpy(to, &v, sizeof v); }

static inline four widen4(const uint16_t *from) {
    return (four){ls_bf16_to_f32(from[0]), ls_bf16_to_f32(from[1]), ls_bf16_to_f32(from[2]), ls_bf16_to_f32(from[3])};
}

static inline void transpose4(float *panel, size_t width, four r0, four r1, four r2, four r3) {
    four t0 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5), t1 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
    four t2 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5), t3 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
    store4(panel, __builtin_shufflevector(t0, t2, 0, 1, 4, 5));
    store4(panel + width, __builtin_shufflevector(t0, t2, 2, 3, 6, 7));
    store4(panel + 2 * width, __builtin_shufflevector(t1, t3, 0, 1, 4, 5));
    store4(panel + 3 * width, __builtin_shufflevector(t1, t3, 2, 3, 6, 7));
}

static inline float value_at(const void *source, ls_dtype dtype, size_t at) {
    return dtype == LS_BF16 ? ls_bf16_to_f32(((const uint16_t *)source)[at]) : ((const float *)source)[at];
}

/* Lines l … l+3 whole; their values are neighbours. */
static void pack_four_lines(float *panel, size_t width, const void *source, ls_dtype dtype, size_t ld, size_t k) {
    size_t i = 0;
    if (dtype == LS_BF16) {
        const uint16_t *s = source;
        for (; i + 4 <= k; i += 4)
            transpose4(panel + i * width, width, widen4(s + i), widen4(s + ld + i), widen4(s + 2 * ld + i),
                       widen4(s + 3 * ld + i));
    } else {
        const float *s = source;
        for (; i + 4 <= k; i += 4)
            transpose4(panel + i * width, width, load4(s + i), load4(s + ld + i), load4(s + 2 * ld + i),
                       load4(s + 3 * ld + i));
    }
    for (; i < k; i++)
        for (size_t l = 0; l < 4; l++) panel[i * width + l] = value_at(source, dtype, l * ld + i);
}

/* Some k at a time: that much of the panel stays in the first cache while one line after the other is written across
 * it. */
enum { K_AT_ONCE = 64, ROWS_AT_ONCE = 32 };

static void pack_along_k(float *panel, size_t width, const void *source, ls_dtype dtype, size_t ld, size_t lines,
                         size_t k) {
    size_t bytes = dtype == LS_BF16 ? 2 : 4;
    for (size_t i0 = 0; i0 < k; i0 += K_AT_ONCE) {
        size_t n = k - i0 < K_AT_ONCE ? k - i0 : K_AT_ONCE, l = 0;
        const char *from = (const char *)source + i0 * bytes;
        float *to = panel + i0 * width;
        for (; l + 4 <= lines; l += 4) pack_four_lines(to + l, width, from + l * ld * bytes, dtype, ld, n);
        for (; l < lines; l++)
            for (size_t i = 0; i < n; i++) to[i * width + l] = value_at(from, dtype, l * ld + i);
    }
}

static inline void copy_line(float *to, const float *from, size_t n) {
    size_t l = 0;
    for (; l + 4 <= n; l += 4) store4(to + l, load4(from + l));
    for (; l < n; l++) to[l] = from[l];
}

static inline void widen_line(float *to, const uint16_t *from, size_t n) {
    for (size_t l = 0; l < n; l++) to[l] = ls_bf16_to_f32(from[l]);
}

/* Some rows of k at a time: they stay in the first cache while one panel after the other takes its part of them. */
static void pack_across(float *panel, size_t width, const void *source, ls_dtype dtype, size_t ld, size_t lines,
                        size_t k) {
    for (size_t i0 = 0; i0 < k; i0 += ROWS_AT_ONCE) {
        size_t i1 = i0 + ROWS_AT_ONCE < k ? i0 + ROWS_AT_ONCE : k;
        for (size_t l = 0; l < lines; l += width) {
            size_t n = lines - l < width ? lines - l : width;
            float *to = panel + l * k;
            for (size_t i = i0; i < i1; i++) {
                if (dtype == LS_BF16)
                    widen_line(to + i * width, (const uint16_t *)source + i * ld + l, n);
                else
                    copy_line(to + i * width, (const float *)source + i * ld + l, n);
            }
        }
    }
}

void ls_gemm_pack(float *panel, size_t width, const void *source, ls_dtype dtype, size_t ld, bool along_k, size_t lines,
                  size_t k) {
    size_t bytes = dtype == LS_BF16 ? 2 : 4;
    if (along_k)
        for (size_t l = 0; l < lines; l += width)
            pack_along_k(panel + l * k, width, (const char *)source + l * ld * bytes, dtype, ld,
                         lines - l < width ? lines - l : width, k);
    else
        pack_across(panel, width, source, dtype, ld, lines, k);
    size_t rest = lines % width;
    float *last = panel + (lines - rest) * k;
    for (size_t i = 0; i < k && rest; i++) memset(last + i * width + rest, 0, (width - rest) * sizeof(float));
}
