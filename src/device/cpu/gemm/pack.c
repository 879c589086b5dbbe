/* pack.c: packs operands as fp32. If the values of a line are contiguous, by transposes: the ISA's own, else 4 × 4.
 * fp16 is widened to a buffer in L1 and packed from there. */
#include "device/cpu/gemm/pack.h"

#include <stdint.h>
#include <string.h>

#include "device/cpu/gemm/four_floats.h"
#include "numerics/float16.h"

ls_gemm_lines ls_gemm_lines_of_a(const ls_gemm *g) {
    const ls_gemm_patches *patches = g->form == LS_GEMM_TN ? NULL : g->patches;
    return (ls_gemm_lines){g->a, g->dtype, g->lda, g->form != LS_GEMM_TN, patches, NULL, 0, 0};
}

ls_gemm_lines ls_gemm_lines_of_b(const ls_gemm *g) {
    const ls_gemm_patches *patches = g->form == LS_GEMM_TN ? g->patches : NULL;
    return (ls_gemm_lines){g->b, g->dtype, g->ldb, g->form == LS_GEMM_NT, patches, g->b_rows, 0, 0};
}

ls_gemm_lines ls_gemm_lines_from(ls_gemm_lines x, size_t line, size_t k) {
    if (!ls_gemm_lines_are_stored(&x)) {
        x.k += k;
        if (x.patches)
            x.line += line;
        else
            x.at = (const float *)x.at + line;
        return x;
    }
    size_t elems = x.along_k ? line * x.ld + k : k * x.ld + line;
    x.at = (const char *)x.at + elems * ls_dtype_bytes(x.dtype);
    return x;
}

/* Widens four bf16 values. */
static inline four widen4(const uint16_t *from) {
    return (four){ls_bf16_to_f32(from[0]), ls_bf16_to_f32(from[1]), ls_bf16_to_f32(from[2]), ls_bf16_to_f32(from[3])};
}

/* Returns element `at` as fp32; the type is bf16 or fp32. */
static inline float value_at(const void *source, ls_dtype dtype, size_t at) {
    return dtype == LS_BF16 ? ls_bf16_to_f32(((const uint16_t *)source)[at]) : ((const float *)source)[at];
}

/* Packs four lines of k contiguous values, transposed. */
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

size_t ls_gemm_pack_some(const ls_gemm_kernels *kernels, float *to, size_t width, ls_gemm_lines from, size_t lines,
                         size_t k) {
    size_t done = kernels->transpose ? kernels->transpose(to, width, from.at, from.dtype, from.ld, lines, k) : 0;
    if (done > 0) return done;
    if (lines >= 4) {
        pack_four_lines(to, width, from.at, from.dtype, from.ld, k);
        return 4;
    }
    for (size_t i = 0; i < k; i++) to[i * width] = value_at(from.at, from.dtype, i);
    return 1;
}

/* Values of k, and rows, that are packed at a time and stay in L1; rows to prefetch ahead. */
enum { K_AT_ONCE = 256, ROWS_AT_ONCE = 32, ROWS_AHEAD = 16 };

/* The buffers of widened fp16: lines × K_AT_ONCE along k, rows × lines across k. */
enum { WIDE_LINES = 16, WIDE_ROWS = 16, WIDE_ACROSS = 256 };

/* Packs fp16 lines stored along k, k ≤ K_AT_ONCE, through a widened buffer. */
static void pack_wide_along_k(const ls_gemm_kernels *kernels, float *to, size_t width, ls_gemm_lines from, size_t lines,
                              size_t k) {
    _Alignas(64) float wide[WIDE_LINES * K_AT_ONCE];
    for (size_t first = 0; first < lines; first += WIDE_LINES) {
        size_t some = lines - first < WIDE_LINES ? lines - first : WIDE_LINES;
        for (size_t l = 0; l < some; l++)
            kernels->convert.f16_to_f32(wide + l * K_AT_ONCE, ls_gemm_lines_from(from, first + l, 0).at, k);
        ls_gemm_lines x = {.at = wide, .ld = K_AT_ONCE, .along_k = true};
        for (size_t l = 0; l < some;)
            l += ls_gemm_pack_some(kernels, to + first + l, width, ls_gemm_lines_from(x, l, 0), some - l, k);
    }
}

/* Packs up to `width` lines stored along k into one panel. */
static void pack_along_k(const ls_gemm_kernels *kernels, float *panel, size_t width, ls_gemm_lines from, size_t lines,
                         size_t k) {
    for (size_t i = 0; i < k; i += K_AT_ONCE) {
        size_t n = k - i < K_AT_ONCE ? k - i : K_AT_ONCE;
        if (from.dtype == LS_F16) {
            pack_wide_along_k(kernels, panel + i * width, width, ls_gemm_lines_from(from, 0, i), lines, n);
            continue;
        }
        for (size_t l = 0; l < lines;)
            l += ls_gemm_pack_some(kernels, panel + i * width + l, width, ls_gemm_lines_from(from, l, i), lines - l, n);
    }
}

/* Copies n values of each row; for the widths of whole panels n is a constant, and a row is a few moves. */
static inline __attribute__((always_inline)) void copy_rows(float *to, size_t width, const float *from, size_t ld,
                                                            size_t rows, size_t n) {
    for (size_t i = 0; i < rows; i++) {
        /* Rows are too far apart for the hardware prefetcher. */
        __builtin_prefetch(from + (i + ROWS_AHEAD) * ld);
        __builtin_prefetch(from + (i + ROWS_AHEAD) * ld + n - 1);
        memcpy(to + i * width, from + i * ld, n * sizeof(float));
    }
}

/* Copies n values of each row, with constants for the widths of panels. */
static void copy_panel(float *to, size_t width, const float *from, size_t ld, size_t rows, size_t n) {
    switch (n) {
    case 6: copy_rows(to, width, from, ld, rows, 6); break;
    case 8: copy_rows(to, width, from, ld, rows, 8); break;
    case 12: copy_rows(to, width, from, ld, rows, 12); break;
    case 14: copy_rows(to, width, from, ld, rows, 14); break;
    case 16: copy_rows(to, width, from, ld, rows, 16); break;
    case 32: copy_rows(to, width, from, ld, rows, 32); break;
    default: copy_rows(to, width, from, ld, rows, n); break;
    }
}

/* Widens n bf16 values of each row into a panel. */
static void widen_panel(float *to, size_t width, const uint16_t *from, size_t ld, size_t rows, size_t n) {
    for (size_t i = 0; i < rows; i++)
        for (size_t l = 0; l < n; l++) to[i * width + l] = ls_bf16_to_f32(from[i * ld + l]);
}

/* Packs k rows of fp32 or bf16 lines into panels that have `length` rows each. */
static void pack_rows(float *panel, size_t width, size_t length, ls_gemm_lines from, size_t lines, size_t k) {
    for (size_t l = 0; l < lines; l += width) {
        size_t n = lines - l < width ? lines - l : width;
        const void *at = ls_gemm_lines_from(from, l, 0).at;
        if (from.dtype == LS_BF16)
            widen_panel(panel + l * length, width, at, from.ld, k, n);
        else
            copy_panel(panel + l * length, width, at, from.ld, k, n);
    }
}

/* Packs k rows of fp16 lines as pack_rows() does, through a widened buffer. */
static void pack_wide_rows(const ls_gemm_kernels *kernels, float *panel, size_t width, size_t length,
                           ls_gemm_lines from, size_t lines, size_t k) {
    _Alignas(64) float wide[WIDE_ROWS * WIDE_ACROSS];
    size_t most = WIDE_ACROSS / width * width;
    for (size_t i = 0; i < k; i += WIDE_ROWS)
        for (size_t l = 0; l < lines; l += most) {
            size_t rows = k - i < WIDE_ROWS ? k - i : WIDE_ROWS, n = lines - l < most ? lines - l : most;
            for (size_t r = 0; r < rows; r++)
                kernels->convert.f16_to_f32(wide + r * WIDE_ACROSS, ls_gemm_lines_from(from, l, i + r).at, n);
            ls_gemm_lines x = {.at = wide, .ld = WIDE_ACROSS};
            pack_rows(panel + l * length + i * width, width, length, x, n, rows);
        }
}

/* Packs lines stored across k, some rows of k at a time, so that they stay in L1 while all panels are filled. */
static void pack_across(const ls_gemm_kernels *kernels, float *panel, size_t width, ls_gemm_lines from, size_t lines,
                        size_t k) {
    for (size_t i = 0; i < k; i += ROWS_AT_ONCE) {
        size_t rows = k - i < ROWS_AT_ONCE ? k - i : ROWS_AT_ONCE;
        ls_gemm_lines x = ls_gemm_lines_from(from, 0, i);
        if (from.dtype == LS_F16)
            pack_wide_rows(kernels, panel + i * width, width, k, x, lines, rows);
        else
            pack_rows(panel + i * width, width, k, x, lines, rows);
    }
}

/* Clears the lines that the last panel lacks, without memset(), as each row has only a few; the last four may overlap
 * those before them. */
static void clear_rest(float *panel, size_t width, size_t lines, size_t k) {
    const four zero = {0, 0, 0, 0};
    size_t n = width - lines;
    for (size_t i = 0; i < k; i++) {
        float *to = panel + i * width + lines;
        for (size_t l = 0; l + 4 <= n; l += 4) store4(to + l, zero);
        if (n >= 4)
            store4(to + n - 4, zero);
        else
            for (size_t l = 0; l < n; l++) to[l] = 0.0f;
    }
}

void ls_gemm_pack(const ls_gemm_kernels *kernels, float *panel, size_t width, ls_gemm_lines from, size_t lines,
                  size_t k) {
    if (!ls_gemm_lines_are_stored(&from))
        ls_gemm_gather(kernels, panel, width, from, lines, k);
    else if (from.along_k)
        for (size_t l = 0; l < lines; l += width)
            pack_along_k(kernels, panel + l * k, width, ls_gemm_lines_from(from, l, 0),
                         lines - l < width ? lines - l : width, k);
    else
        pack_across(kernels, panel, width, from, lines, k);
    if (lines % width) clear_rest(panel + lines / width * width * k, width, lines % width, k);
}
