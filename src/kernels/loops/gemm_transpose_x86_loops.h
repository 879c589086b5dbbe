/* gemm_transpose_x86_loops.h: lines along k on x86-64, written once: packing, and chains of few rows.
 *
 * Included by one file per ISA after gemm_x86_loops.h. A register takes four values of each of LANES / 4 lines, 128
 * bits a line, so that a 4 × 4 transpose inside the 128-bit parts of four registers leaves LANES lines in order:
 *
 *     r[q] = lines q, 4+q, 8+q …, k … k+3        out[i] = lines 0, 1, 2, 3 … of k+i
 *
 * MR lines are done at once too, as that is what a panel of A has. The file sets TRANSPOSE and THIN_ALONG (names of
 * functions) and STORE_MR(to, v), which stores the first MR lanes. */
#include <math.h>
#include <stdint.h>

#include "numerics/float16.h"

static inline __attribute__((always_inline)) __m128 four_values(const char *from, bool is_bf16) {
    if (!is_bf16) return _mm_loadu_ps((const float *)(const void *)from);
    __m128i halves = _mm_loadl_epi64((const __m128i *)(const void *)from);
    return _mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), halves));
}

/* Four values of every fourth line of `lines` lines; parts of the register without a line are undefined. */
static inline __attribute__((always_inline)) VEC every_fourth(const char *from, size_t step, size_t lines,
                                                              bool is_bf16) {
#if LANES == 16
    VEC v = _mm512_castps128_ps512(four_values(from, is_bf16));
    v = _mm512_insertf32x4(v, four_values(from + step, is_bf16), 1);
    v = _mm512_insertf32x4(v, four_values(from + 2 * step, is_bf16), 2);
    return lines > 12 ? _mm512_insertf32x4(v, four_values(from + 3 * step, is_bf16), 3) : v;
#else
    VEC v = _mm256_castps128_ps256(four_values(from, is_bf16));
    return lines > 4 ? _mm256_insertf128_ps(v, four_values(from + step, is_bf16), 1) : v;
#endif
}

/* out[i]: values k + i of `lines` lines. */
static inline __attribute__((always_inline)) void turn_four(VEC out[4], const char *from, size_t line, size_t lines,
                                                            bool is_bf16) {
    VEC r[4], t[4];
    for (size_t q = 0; q < 4; q++) r[q] = every_fourth(from + q * line, 4 * line, lines - q, is_bf16);
    t[0] = MM(unpacklo_ps)(r[0], r[1]);
    t[1] = MM(unpackhi_ps)(r[0], r[1]);
    t[2] = MM(unpacklo_ps)(r[2], r[3]);
    t[3] = MM(unpackhi_ps)(r[2], r[3]);
    for (size_t h = 0; h < 2; h++) {
        out[2 * h] = MM(castpd_ps)(MM(unpacklo_pd)(MM(castps_pd)(t[h]), MM(castps_pd)(t[2 + h])));
        out[2 * h + 1] = MM(castpd_ps)(MM(unpackhi_pd)(MM(castps_pd)(t[h]), MM(castps_pd)(t[2 + h])));
    }
}

static inline float value_at(const char *from, bool is_bf16) {
    if (!is_bf16) return *(const float *)(const void *)from;
    return ls_bf16_to_f32(*(const uint16_t *)(const void *)from);
}

/* ---- packing ----------------------------------------------------------------------------------------------------- */

static inline __attribute__((always_inline)) void transpose_some(float *to, size_t width, const char *from,
                                                                 bool is_bf16, size_t ld, size_t lines, size_t k) {
    size_t bytes = is_bf16 ? 2 : 4, line = ld * bytes, i = 0;
    for (; i + 4 <= k; i += 4, from += 4 * bytes, to += 4 * width) {
        VEC out[4];
        turn_four(out, from, line, lines, is_bf16);
        for (size_t q = 0; q < 4; q++) {
            if (lines == LANES)
                MM(storeu_ps)(to + q * width, out[q]);
            else
                STORE_MR(to + q * width, out[q]);
        }
    }
    for (; i < k; i++, from += bytes, to += width)
        for (size_t l = 0; l < lines; l++) to[l] = value_at(from + l * line, is_bf16);
}

static size_t TRANSPOSE(float *to, size_t width, const void *from, ls_dtype dtype, size_t ld, size_t lines, size_t k) {
    if (lines >= LANES) {
        if (dtype == LS_BF16)
            transpose_some(to, width, from, true, ld, LANES, k);
        else
            transpose_some(to, width, from, false, ld, LANES, k);
        return LANES;
    }
    if (lines != MR) return 0;
    if (dtype == LS_BF16)
        transpose_some(to, width, from, true, ld, MR, k);
    else
        transpose_some(to, width, from, false, ld, MR, k);
    return MR;
}

/* ---- few rows ---------------------------------------------------------------------------------------------------- */

/* Two registers of lines, so that one row has two chains under way. `rows` and `is_bf16` are constants. */
enum { THIN_LINES = 2 * LANES };

static inline __attribute__((always_inline)) void thin_along(size_t k, size_t rows, const float *a, const char *b,
                                                             bool is_bf16, size_t ldb, float *c, size_t ldc) {
    size_t bytes = is_bf16 ? 2 : 4, line = ldb * bytes, i = 0;
    VEC sums[LS_GEMM_THIN_ROWS][2];
    for (size_t r = 0; r < rows; r++)
        for (size_t h = 0; h < 2; h++) sums[r][h] = MM(loadu_ps)(c + r * ldc + h * LANES);
    for (; i + 4 <= k; i += 4, a += 4 * LS_GEMM_THIN_ROWS, b += 4 * bytes)
        for (size_t h = 0; h < 2; h++) {
            VEC x[4];
            turn_four(x, b + h * LANES * line, line, LANES, is_bf16);
            for (size_t p = 0; p < 4; p++)
                for (size_t r = 0; r < rows; r++)
                    sums[r][h] = MM(fmadd_ps)(MM(set1_ps)(a[p * LS_GEMM_THIN_ROWS + r]), x[p], sums[r][h]);
        }
    for (size_t r = 0; r < rows; r++)
        for (size_t h = 0; h < 2; h++) MM(storeu_ps)(c + r * ldc + h * LANES, sums[r][h]);
    for (; i < k; i++, a += LS_GEMM_THIN_ROWS, b += bytes)
        for (size_t l = 0; l < THIN_LINES; l++)
            for (size_t r = 0; r < rows; r++)
                c[r * ldc + l] = fmaf(a[r], value_at(b + l * line, is_bf16), c[r * ldc + l]);
}

static inline __attribute__((always_inline)) void thin_along_rows(size_t k, size_t rows, const float *a, const void *b,
                                                                  bool is_bf16, size_t ldb, float *c, size_t ldc) {
    switch (rows) {
    case 1: thin_along(k, 1, a, b, is_bf16, ldb, c, ldc); break;
    case 2: thin_along(k, 2, a, b, is_bf16, ldb, c, ldc); break;
    case 3: thin_along(k, 3, a, b, is_bf16, ldb, c, ldc); break;
    default: thin_along(k, 4, a, b, is_bf16, ldb, c, ldc); break;
    }
}

static void THIN_ALONG(size_t k, size_t rows, const float *a, const void *b, ls_dtype dtype, size_t ldb, float *c,
                       size_t ldc) {
    if (dtype == LS_BF16)
        thin_along_rows(k, rows, a, b, true, ldb, c, ldc);
    else
        thin_along_rows(k, rows, a, b, false, ldb, c, ldc);
}
