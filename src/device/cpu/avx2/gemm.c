/* gemm.c: matmuls with AVX2: a 6 × 16 micro-kernel (12 accumulators, 2 vectors of B, one value of A at a time), and
 * lines along k, eight at a time, four k of each.
 *
 * A register takes four values of two lines, 128 bits a line, so that a 4 × 4 transpose inside the parts of four
 * registers leaves eight lines in order:
 *
 *     r[q] = lines q and 4+q, k … k+3        out[i] = lines 0 … 7 of k+i */
#include "device/cpu/simd/avx2.h"

#include <math.h>

#include "numerics/float16.h"

#define LSK_NAME(stem) stem##_avx2
#include "device/cpu/loops/gemm_thin_loops.h"

#define MR 6
#define LANES 8
#define VEC __m256
#define MM(op) _mm256_##op
#define MICRO lsk_gemm_f32_6x16_avx2
#include "device/cpu/loops/gemm_x86_loops.h"

/* Loads four values, widened if they are bf16. */
LSK_INLINE __m128 four_values(const char *from, bool is_bf16) {
    if (!is_bf16) return _mm_loadu_ps((const float *)(const void *)from);
    __m128i halves = _mm_loadl_epi64((const __m128i *)(const void *)from);
    return _mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), halves));
}

/* Transposes four values of eight lines, or of six, whose last two lanes are then undefined: out[i] is value i of all
 * lines. `line` is the bytes from one line to the next. */
LSK_INLINE void turn_four(__m256 out[4], const char *from, size_t line, size_t lines, bool is_bf16) {
    __m256 r[4], t[4];
    for (size_t q = 0; q < 4; q++) {
        r[q] = _mm256_castps128_ps256(four_values(from + q * line, is_bf16));
        if (4 + q < lines) r[q] = _mm256_insertf128_ps(r[q], four_values(from + (4 + q) * line, is_bf16), 1);
    }
    t[0] = _mm256_unpacklo_ps(r[0], r[1]);
    t[1] = _mm256_unpackhi_ps(r[0], r[1]);
    t[2] = _mm256_unpacklo_ps(r[2], r[3]);
    t[3] = _mm256_unpackhi_ps(r[2], r[3]);
    for (size_t h = 0; h < 2; h++) {
        out[2 * h] = _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(t[h]), _mm256_castps_pd(t[2 + h])));
        out[2 * h + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(t[h]), _mm256_castps_pd(t[2 + h])));
    }
}

/* Loads one value, widened if it is bf16. */
LSK_INLINE float value_at(const char *from, bool is_bf16) {
    if (!is_bf16) return *(const float *)(const void *)from;
    return ls_bf16_to_f32(*(const uint16_t *)(const void *)from);
}

/* Transposes eight or six lines of k values into a panel whose rows are `width` apart; `lines` and `is_bf16` are
 * constants. */
LSK_INLINE void pack_lines(float *to, size_t width, const char *from, bool is_bf16, size_t ld, size_t lines, size_t k) {
    size_t bytes = is_bf16 ? 2 : 4, line = ld * bytes, i = 0;
    for (; i + 4 <= k; i += 4, from += 4 * bytes, to += 4 * width) {
        __m256 out[4];
        turn_four(out, from, line, lines, is_bf16);
        for (size_t q = 0; q < 4; q++) {
            if (lines == LANES)
                _mm256_storeu_ps(to + q * width, out[q]);
            else
                _mm256_maskstore_ps(to + q * width, _mm256_setr_epi32(-1, -1, -1, -1, -1, -1, 0, 0), out[q]);
        }
    }
    for (; i < k; i++, from += bytes, to += width)
        for (size_t l = 0; l < lines; l++) to[l] = value_at(from + l * line, is_bf16);
}

/* Transposes the first eight of the lines, as for panels of B, or six if there are exactly six, as for one of A; else
 * none. Returns how many: ls_gemm_kernels.transpose. */
static size_t lsk_gemm_transpose_avx2(float *to, size_t width, const void *from, ls_dtype dtype, size_t ld,
                                      size_t lines, size_t k) {
    if (lines >= LANES) {
        if (dtype == LS_BF16)
            pack_lines(to, width, from, true, ld, LANES, k);
        else
            pack_lines(to, width, from, false, ld, LANES, k);
        return LANES;
    }
    if (lines != MR) return 0;
    if (dtype == LS_BF16)
        pack_lines(to, width, from, true, ld, MR, k);
    else
        pack_lines(to, width, from, false, ld, MR, k);
    return MR;
}

/* Two registers of lines, so that one row has two chains under way. */
enum { THIN_LINES = 2 * LANES };

/* Continues the chains of `rows` rows with lines of B along k; `rows` and `is_bf16` are constants. */
LSK_INLINE void thin_along(size_t k, size_t rows, const float *a, const char *b, bool is_bf16, size_t ldb, float *c,
                           size_t ldc) {
    size_t bytes = is_bf16 ? 2 : 4, line = ldb * bytes, i = 0;
    __m256 sums[LS_GEMM_THIN_ROWS][2];
    for (size_t r = 0; r < rows; r++)
        for (size_t h = 0; h < 2; h++) sums[r][h] = _mm256_loadu_ps(c + r * ldc + h * LANES);
    for (; i + 4 <= k; i += 4, a += 4 * LS_GEMM_THIN_ROWS, b += 4 * bytes)
        for (size_t h = 0; h < 2; h++) {
            __m256 x[4];
            turn_four(x, b + h * LANES * line, line, LANES, is_bf16);
            for (size_t p = 0; p < 4; p++)
                for (size_t r = 0; r < rows; r++)
                    sums[r][h] = _mm256_fmadd_ps(_mm256_set1_ps(a[p * LS_GEMM_THIN_ROWS + r]), x[p], sums[r][h]);
        }
    for (size_t r = 0; r < rows; r++)
        for (size_t h = 0; h < 2; h++) _mm256_storeu_ps(c + r * ldc + h * LANES, sums[r][h]);
    for (; i < k; i++, a += LS_GEMM_THIN_ROWS, b += bytes)
        for (size_t l = 0; l < THIN_LINES; l++)
            for (size_t r = 0; r < rows; r++)
                c[r * ldc + l] = fmaf(a[r], value_at(b + l * line, is_bf16), c[r * ldc + l]);
}

#define THIN_ALONG lsk_gemm_thin_along_avx2
#include "device/cpu/loops/gemm_thin_along_loops.h"

/* Fills the table. Block sizes: 256 × 16 × 4 bytes of B stay in a first cache of 32 KiB, 96 × 256 × 4 of A in a second
 * of 256 KiB. */
void ls_gemm_kernels_fill_avx2(ls_gemm_kernels *table) {
    *table = (ls_gemm_kernels){.name = "6x16 avx2",
                               .micro = MICRO,
                               .thin = lsk_gemm_thin_f32_avx2,
                               .thin_along = THIN_ALONG,
                               .thin_lines = THIN_LINES,
                               .transpose = lsk_gemm_transpose_avx2,
                               .mr = MR,
                               .nr = NR,
                               .kc = 256,
                               .mb = 96,
                               .nb = 192};
    ls_convert_kernels_fill_avx2(&table->convert);
}
