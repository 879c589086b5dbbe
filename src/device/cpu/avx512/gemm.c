/* gemm.c: matmuls with AVX-512: a 14 × 32 micro-kernel (28 accumulators, 2 vectors of B, one value of A at a time),
 * and lines along k, sixteen at a time, sixteen k of each.
 *
 * A whole cache line of each line is loaded at once: where lines are a multiple of 4 KiB apart they all fall into one
 * set of the first cache, which would evict a part that is left for later. */
#include "device/cpu/simd/avx512.h"

#define LSK_NAME(stem) stem##_avx512
#include "device/cpu/loops/gemm_thin_loops.h"

#define MR 14
#define LANES 16
#define VEC __m512
#define MM(op) _mm512_##op
#define MICRO lsk_gemm_f32_14x32_avx512
#include "device/cpu/loops/gemm_x86_loops.h"

#ifdef __clang__
#    define UNROLL_16 _Pragma("clang loop unroll(full)")
#else
#    define UNROLL_16 _Pragma("GCC unroll 16")
#endif

/* Loads the first n values at `at`; the other lanes are +0. */
LSK_INLINE __m512 load_values(const void *at, size_t n, bool is_bf16) {
    if (!is_bf16) return n == 16 ? _mm512_loadu_ps(at) : _mm512_maskz_loadu_ps(lsk_first(n), at);
    __m256i halves = n == 16 ? _mm256_loadu_si256(at) : _mm256_maskz_loadu_epi16(lsk_first(n), at);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

/* Loads the first n values of line l to r[l]; lines behind the last are +0. */
LSK_INLINE void load_lines(__m512 r[16], const char *from, size_t line, size_t lines, size_t n, bool is_bf16) {
    UNROLL_16
    for (size_t l = 0; l < 16; l++) r[l] = l < lines ? load_values(from + l * line, n, is_bf16) : _mm512_setzero_ps();
}

/* Transposes 16 lines in place, so that r[i] has value i of all lines. Pairs of lines first, then pairs of pairs; then
 * parts of 128 bits change places. */
LSK_INLINE void transpose16(__m512 r[16]) {
    __m512 t[16], u[16];
    UNROLL_16
    for (size_t q = 0; q < 16; q += 2) {
        t[q] = _mm512_unpacklo_ps(r[q], r[q + 1]);
        t[q + 1] = _mm512_unpackhi_ps(r[q], r[q + 1]);
    }
    UNROLL_16
    for (size_t q = 0; q < 16; q += 4) {
        __m512d a = _mm512_castps_pd(t[q]), b = _mm512_castps_pd(t[q + 1]);
        __m512d c = _mm512_castps_pd(t[q + 2]), d = _mm512_castps_pd(t[q + 3]);
        u[q] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
        u[q + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
        u[q + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
        u[q + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
    }
    UNROLL_16
    for (size_t i = 0; i < 4; i++) {
        __m512 a = _mm512_shuffle_f32x4(u[i], u[4 + i], 0x88), b = _mm512_shuffle_f32x4(u[i], u[4 + i], 0xDD);
        __m512 c = _mm512_shuffle_f32x4(u[8 + i], u[12 + i], 0x88), d = _mm512_shuffle_f32x4(u[8 + i], u[12 + i], 0xDD);
        r[i] = _mm512_shuffle_f32x4(a, c, 0x88);
        r[4 + i] = _mm512_shuffle_f32x4(b, d, 0x88);
        r[8 + i] = _mm512_shuffle_f32x4(a, c, 0xDD);
        r[12 + i] = _mm512_shuffle_f32x4(b, d, 0xDD);
    }
}

/* Transposes `lines` lines into a panel; it is fastest if `lines` and `is_bf16` are constants. */
LSK_INLINE void pack_lines(float *to, size_t width, const char *from, bool is_bf16, size_t ld, size_t lines, size_t k) {
    size_t bytes = is_bf16 ? 2 : 4, i = 0;
    __m512 r[16];
    for (; i + 16 <= k; i += 16, from += 16 * bytes, to += 16 * width) {
        load_lines(r, from, ld * bytes, lines, 16, is_bf16);
        transpose16(r);
        UNROLL_16
        for (size_t q = 0; q < 16; q++) {
            if (lines == 16)
                _mm512_storeu_ps(to + q * width, r[q]);
            else
                _mm512_mask_storeu_ps(to + q * width, lsk_first(lines), r[q]);
        }
    }
    if (i == k) return;
    float rest[16][16];
    load_lines(r, from, ld * bytes, lines, k - i, is_bf16);
    transpose16(r);
    UNROLL_16
    for (size_t q = 0; q < 16; q++) _mm512_storeu_ps(rest[q], r[q]);
    for (size_t q = 0; q < k - i; q++)
        _mm512_mask_storeu_ps(to + q * width, lsk_first(lines), _mm512_loadu_ps(rest[q]));
}

/* Transposes the first 16 lines, or all if there are fewer, and returns how many: ls_gemm_kernels.transpose. Panels of
 * B have sixteen lines and more, one of A has fourteen; edges have any number. */
static size_t lsk_gemm_transpose_avx512(float *to, size_t width, const void *from, ls_dtype dtype, size_t ld,
                                        size_t lines, size_t k) {
    size_t some = lines < 16 ? lines : 16;
    if (dtype == LS_BF16)
        pack_lines(to, width, from, true, ld, some, k);
    else if (some == 16)
        pack_lines(to, width, from, false, ld, 16, k);
    else if (some == MR)
        pack_lines(to, width, from, false, ld, MR, k);
    else
        pack_lines(to, width, from, false, ld, some, k);
    return some;
}

enum { THIN_LINES = 16 };

/* Continues the chains of `rows` rows with lines of B along k; `rows` and `is_bf16` are constants. */
LSK_INLINE void thin_along(size_t k, size_t rows, const float *a, const char *b, bool is_bf16, size_t ldb, float *c,
                           size_t ldc) {
    size_t bytes = is_bf16 ? 2 : 4, i = 0;
    __m512 sums[LS_GEMM_THIN_ROWS], r[16];
    for (size_t row = 0; row < rows; row++) sums[row] = _mm512_loadu_ps(c + row * ldc);
    for (; i + 16 <= k; i += 16, a += 16 * LS_GEMM_THIN_ROWS, b += 16 * bytes) {
        load_lines(r, b, ldb * bytes, 16, 16, is_bf16);
        transpose16(r);
        UNROLL_16
        for (size_t q = 0; q < 16; q++) {
            UNROLL_16
            for (size_t row = 0; row < rows; row++)
                sums[row] = _mm512_fmadd_ps(_mm512_set1_ps(a[q * LS_GEMM_THIN_ROWS + row]), r[q], sums[row]);
        }
    }
    if (i < k) {
        float rest[16][16];
        load_lines(r, b, ldb * bytes, 16, k - i, is_bf16);
        transpose16(r);
        UNROLL_16
        for (size_t q = 0; q < 16; q++) _mm512_storeu_ps(rest[q], r[q]);
        for (size_t q = 0; q < k - i; q++)
            for (size_t row = 0; row < rows; row++)
                sums[row] = _mm512_fmadd_ps(_mm512_set1_ps(a[q * LS_GEMM_THIN_ROWS + row]), _mm512_loadu_ps(rest[q]),
                                            sums[row]);
    }
    for (size_t row = 0; row < rows; row++) _mm512_storeu_ps(c + row * ldc, sums[row]);
}

#define THIN_ALONG lsk_gemm_thin_along_avx512
#include "device/cpu/loops/gemm_thin_along_loops.h"

/* Fills the table. A block's 2048 × 64 × 4 bytes of B and 112 × 2048 × 4 of A stay in a second cache of 2 MiB; from
 * there the kernel runs as fast as from the first, so the passes are long and C is touched seldom. */
void ls_gemm_kernels_fill_avx512(ls_gemm_kernels *table) {
    *table = (ls_gemm_kernels){.name = "14x32 avx512",
                               .micro = MICRO,
                               .thin = lsk_gemm_thin_f32_avx512,
                               .thin_along = THIN_ALONG,
                               .thin_lines = THIN_LINES,
                               .transpose = lsk_gemm_transpose_avx512,
                               .mr = MR,
                               .nr = NR,
                               .kc = 2048,
                               .mb = 112,
                               .nb = 64};
    ls_convert_kernels_fill_avx512(&table->convert);
}
