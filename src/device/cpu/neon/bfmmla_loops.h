/* bfmmla_loops.h: matmuls of bf16 panels on the matrix unit of ARM64 (FEAT_BF16), and how panels are made.
 *
 * A panel holds `width` lines, four neighbouring values of k of each at a time (a granule): [k/4][line][4]. If the
 * number of k is no multiple of 4, the panels of both A and B pad their last granule with +0. A tile has 8 lines of A
 * and 12 of B:
 *
 *     one BFMMLA takes a granule of two lines of A and two of B and adds to four sums:  [a0·b0 a0·b1 a1·b0 a1·b1]
 *     24 sums of four, v8 … v31: sum (i, j) of lines 2i, 2i+1 and 2j, 2j+1 is v(8 + 6i + j)
 *
 * unit_sums() stores the sums of a tile in the order of the registers, 96 consecutive floats, from which the next call
 * may continue, so granules may be divided among calls anywhere; unit_untangle() then puts them in rows. unit_rows()
 * computes a tile in one call and stores its rows at once. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "device/cpu/simd/neon.h"

/* What a function needs that holds an instruction of the unit. */
#ifdef __clang__
#    define UNIT_TARGET __attribute__((target("bf16")))
#else
#    define UNIT_TARGET __attribute__((target("+bf16")))
#endif

/* An asm statement holds a whole kernel, so its string is longer than the 4095 characters that C11 guarantees. */
#pragma GCC diagnostic ignored "-Woverlength-strings"

enum { UNIT_K = 4, UNIT_A = 8, UNIT_B = 12, UNIT_TILE = UNIT_A * UNIT_B };

#define MMLA(sum, a, b) "bfmmla v" #sum ".4s, v" #a ".8h, v" #b ".8h\n\t"
#define MMLA_COLUMN(s0, s1, s2, s3, b) MMLA(s0, 0, b) MMLA(s1, 1, b) MMLA(s2, 2, b) MMLA(s3, 3, b)
/* clang-format off */
#define MMLA_GRANULE                                                                                                   \
    "ldp q0, q1, [%[a]]\n\tldp q4, q5, [%[b]]\n\tldp q2, q3, [%[a], #32]\n\tldp q6, q7, [%[b], #32]\n\t"               \
    MMLA_COLUMN(8, 14, 20, 26, 4) MMLA_COLUMN(9, 15, 21, 27, 5)                                                        \
    "ldp q4, q5, [%[b], #64]\n\tadd %[a], %[a], #64\n\tadd %[b], %[b], #96\n\t"                                        \
    MMLA_COLUMN(10, 16, 22, 28, 6) MMLA_COLUMN(11, 17, 23, 29, 7)                                                      \
    MMLA_COLUMN(12, 18, 24, 30, 4) MMLA_COLUMN(13, 19, 25, 31, 5)
#define MMLA_LOOP "cbz %[k], 4f\n3:\n\t" MMLA_GRANULE "subs %[k], %[k], #1\n\tb.ne 3b\n4:\n\t"
#define MMLA_SUMS(DO)                                                                                                  \
    DO(8, 9, 0) DO(10, 11, 32) DO(12, 13, 64) DO(14, 15, 96) DO(16, 17, 128) DO(18, 19, 160) DO(20, 21, 192)           \
    DO(22, 23, 224) DO(24, 25, 256) DO(26, 27, 288) DO(28, 29, 320) DO(30, 31, 352)
#define MMLA_ZERO(s0, s1, at) "movi v" #s0 ".4s, #0\n\tmovi v" #s1 ".4s, #0\n\t"
#define MMLA_LOAD(s0, s1, at) "ldp q" #s0 ", q" #s1 ", [%[sums], #" #at "]\n\t"
#define MMLA_STORE(s0, s1, at) "stp q" #s0 ", q" #s1 ", [%[sums], #" #at "]\n\t"
#define MMLA_CLOBBERS                                                                                                  \
    "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",     \
    "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31"

/* Computes the 96 sums of a tile over `granules` granules, in the order of the unit's registers; from +0 or, if
 * goes_on, from what they are. */
UNIT_TARGET static void unit_sums(size_t granules, const uint16_t *a, const uint16_t *b, int goes_on, float *sums) {
    __asm__ volatile(
        "cbz %w[on], 1f\n\t"
        MMLA_SUMS(MMLA_LOAD)
        "b 2f\n"
        "1:\n\t"
        MMLA_SUMS(MMLA_ZERO)
        "2:\n\t"
        MMLA_LOOP
        MMLA_SUMS(MMLA_STORE)
        : [k] "+r"(granules), [a] "+r"(a), [b] "+r"(b)
        : [on] "r"(goes_on), [sums] "r"(sums)
        : MMLA_CLOBBERS);
}

/* Stores two rows of the tile. Each of the six registers s0 … s5 has two columns of both rows: zip1 joins the low
 * halves, which are the first row, zip2 the high halves, which are the second. */
#define MMLA_ROWS(s0, s1, s2, s3, s4, s5)                                                                              \
    "zip1 v0.2d, v" #s0 ".2d, v" #s1 ".2d\n\tzip1 v1.2d, v" #s2 ".2d, v" #s3 ".2d\n\tzip1 v2.2d, v" #s4 ".2d, v" #s5   \
    ".2d\n\tzip2 v3.2d, v" #s0 ".2d, v" #s1 ".2d\n\tzip2 v4.2d, v" #s2 ".2d, v" #s3 ".2d\n\tzip2 v5.2d, v" #s4         \
    ".2d, v" #s5 ".2d\n\tstp q0, q1, [%[out]]\n\tstr q2, [%[out], #32]\n\tadd %[out], %[out], %[ld]\n\t"               \
    "stp q3, q4, [%[out]]\n\tstr q5, [%[out], #32]\n\tadd %[out], %[out], %[ld]\n\t"

/* Computes a tile from +0 and stores it as out[8][12], with rows `ld` floats apart. */
UNIT_TARGET static void unit_rows(size_t granules, const uint16_t *a, const uint16_t *b, float *out, size_t ld) {
    __asm__ volatile(
        MMLA_SUMS(MMLA_ZERO)
        MMLA_LOOP
        MMLA_ROWS(8, 9, 10, 11, 12, 13)
        MMLA_ROWS(14, 15, 16, 17, 18, 19)
        MMLA_ROWS(20, 21, 22, 23, 24, 25)
        MMLA_ROWS(26, 27, 28, 29, 30, 31)
        : [k] "+r"(granules), [a] "+r"(a), [b] "+r"(b), [out] "+r"(out)
        : [ld] "r"(ld * sizeof(float))
        : MMLA_CLOBBERS);
}
/* clang-format on */

/* Stores the sums of a tile as rows[line of B][line of A], `stride` apart, adding +0 to each, so that it makes no
 * difference whether the last granules were zeros. */
static void unit_untangle(float *rows, size_t stride, const float *sums) {
    const float32x4_t zero = vdupq_n_f32(0);
    for (size_t i = 0; i < UNIT_A / 4; i++)
        for (size_t j = 0; j < UNIT_B / 2; j++) {
            const float *two = sums + (2 * i * (UNIT_B / 2) + j) * 4;
            float32x4_t x = vaddq_f32(vld1q_f32(two), zero), y = vaddq_f32(vld1q_f32(two + 2 * UNIT_B), zero);
            vst1q_f32(rows + 2 * j * stride + 4 * i, vuzp1q_f32(x, y));
            vst1q_f32(rows + (2 * j + 1) * stride + 4 * i, vuzp2q_f32(x, y));
        }
}

/* Rounds four numbers each of two lines to bf16, to nearest even; a NaN stays a NaN. For functions with UNIT_TARGET. */
LSK_INLINE uint16x8_t unit_round(float32x4_t low, float32x4_t high) {
    uint16x8_t out;
    __asm__("bfcvtn %0.4h, %1.4s\n\tbfcvtn2 %0.8h, %2.4s" : "=&w"(out) : "w"(low), "w"(high));
    return out;
}

/* Rounds four numbers to bf16, to nearest even. */
LSK_INLINE uint16x4_t unit_round_four(float32x4_t x) {
    uint16x4_t out;
    __asm__("bfcvtn %0.4h, %1.4s" : "=w"(out) : "w"(x));
    return out;
}

/* Transposes four lines of four 16-bit numbers each, two lines in a register, and stores them as one granule. */
LSK_INLINE void unit_turn(uint16_t *to, uint16x8_t first, uint16x8_t last) {
    uint16x8_t even = vzip1q_u16(first, last), odd = vzip2q_u16(first, last);
    vst1q_u16(to, vzip1q_u16(even, odd));
    vst1q_u16(to + 8, vzip2q_u16(even, odd));
}

/* Packs one line of d values, four of them every `step` elements; row NULL: +0. */
LSK_INLINE void unit_pack_line(uint16_t *to, size_t step, const uint16_t *row, size_t d) {
    size_t i = 0;
    for (; row && i + 2 * UNIT_K <= d; i += 2 * UNIT_K, to += 2 * step) {
        uint16x8_t two = vld1q_u16(row + i);
        vst1_u16(to, vget_low_u16(two));
        vst1_u16(to + step, vget_high_u16(two));
    }
    for (; i < d; i += UNIT_K, to += step) {
        uint16_t four[UNIT_K] = {0};
        for (size_t j = 0; row && j < UNIT_K && i + j < d; j++) four[j] = row[i + j];
        vst1_u16(to, vld1_u16(four));
    }
}

/* Packs one panel: a line for each of `lines` rows of x, along k; the other lines are +0. */
static void unit_pack_lines(uint16_t *to, size_t width, const uint16_t *x, size_t stride, size_t lines, size_t d) {
    for (size_t l = 0; l < width; l++)
        unit_pack_line(to + l * UNIT_K, width * UNIT_K, l < lines ? x + l * stride : NULL, d);
}

/* Loads elements i … i+7 of a row of d; elements behind the row, or of row NULL, are +0. */
LSK_INLINE uint16x8_t unit_load(const uint16_t *row, size_t i, size_t d) {
    uint16_t part[8] = {0};
    if (row == NULL) return vdupq_n_u16(0);
    if (i + 8 <= d) return vld1q_u16(row + i);
    for (size_t j = 0; i + j < d; j++) part[j] = row[i + j];
    return vld1q_u16(part);
}

/* Packs panels of eight lines, one for each of the d elements of a row; k runs down the rows. */
static void unit_pack_elements(uint16_t *panels, const uint16_t *x, size_t stride, size_t rows, size_t d) {
    size_t granules = (rows + UNIT_K - 1) / UNIT_K;
    for (size_t g = 0; g < granules; g++) {
        const uint16_t *row[UNIT_K];
        for (size_t r = 0; r < UNIT_K; r++) row[r] = g * UNIT_K + r < rows ? x + (g * UNIT_K + r) * stride : NULL;
        for (size_t i = 0; i < d; i += UNIT_A) {
            uint16_t *to = panels + (i * granules + g * UNIT_A) * UNIT_K;
            uint16x8_t r0 = unit_load(row[0], i, d), r1 = unit_load(row[1], i, d);
            uint16x8_t r2 = unit_load(row[2], i, d), r3 = unit_load(row[3], i, d);
            uint16x8_t low = vzip1q_u16(r0, r2), high = vzip2q_u16(r0, r2);
            uint16x8_t low2 = vzip1q_u16(r1, r3), high2 = vzip2q_u16(r1, r3);
            vst1q_u16(to, vzip1q_u16(low, low2));
            vst1q_u16(to + 8, vzip2q_u16(low, low2));
            vst1q_u16(to + 16, vzip1q_u16(high, high2));
            vst1q_u16(to + 24, vzip2q_u16(high, high2));
        }
    }
}
