/* gemm.c: an 8 × 12 micro-kernel with NEON.
 *
 * Accumulators are v8 … v31, row i in v(8+3i) … v(10+3i); v0, v1 hold eight values of A, v2 … v4 and v5 … v7 twelve of
 * B for this k and the next. Written in assembly because gcc 12 spills the same code in intrinsics to half its speed.
 */
#include "device/cpu/simd/neon.h"

#define LSK_NAME(stem) stem##_neon
#include "device/cpu/loops/gemm_thin_loops.h"

/* One statement holds the whole kernel, so that the accumulators need no names; C11 promises less for a string. */
#pragma GCC diagnostic ignored "-Woverlength-strings"

enum { MR = 8, NR = 12 };

/* One row of the tile from or to memory; p walks down the rows, `ld` is in bytes. */
#define LOAD_ROW(r0, r1, r2, ld) "ldp q" #r0 ", q" #r1 ", [x9]\n\tldr q" #r2 ", [x9, #32]\n\tadd x9, x9, " ld "\n\t"
#define STORE_ROW(r0, r1, r2) "stp q" #r0 ", q" #r1 ", [x9]\n\tstr q" #r2 ", [x9, #32]\n\tadd x9, x9, %[ldout]\n\t"
#define ZERO_ROW(r0, r1, r2) "movi v" #r0 ".4s, #0\n\tmovi v" #r1 ".4s, #0\n\tmovi v" #r2 ".4s, #0\n\t"
#define FMA_ROW(r0, r1, r2, b0, b1, b2, a)                                                                             \
    "fmla v" #r0 ".4s, v" #b0 ".4s, " a "\n\tfmla v" #r1 ".4s, v" #b1 ".4s, " a "\n\tfmla v" #r2 ".4s, v" #b2          \
    ".4s, " a "\n\t"
/* One k with B in b0 … b2; meanwhile the next B is loaded into n0 … n2, and A as soon as its last use is past. */
#define STEP(b0, b1, b2, n0, n1, n2)                                                                                   \
    FMA_ROW(8, 9, 10, b0, b1, b2, "v0.s[0]")                                                                           \
    "ldp q" #n0 ", q" #n1 ", [%[b]]\n\t" FMA_ROW(                                                                      \
        11, 12, 13, b0, b1, b2,                                                                                        \
        "v0.s[1]") "ldr q" #n2 ", [%[b], #32]\n\tadd %[b], %[b], #48\n\t" FMA_ROW(14, 15, 16, b0, b1, b2, "v0.s[2]")   \
        FMA_ROW(17, 18, 19, b0, b1, b2, "v0.s[3]") "ldr q0, [%[a]]\n\t" FMA_ROW(20, 21, 22, b0, b1, b2, "v1.s[0]")     \
            FMA_ROW(23, 24, 25, b0, b1, b2, "v1.s[1]") FMA_ROW(26, 27, 28, b0, b1, b2, "v1.s[2]")                      \
                FMA_ROW(29, 30, 31, b0, b1, b2, "v1.s[3]") "ldr q1, [%[a], #16]\n\tadd %[a], %[a], #32\n\t"
/* The last k: nothing may be read behind it. */
#define LAST(b0, b1, b2)                                                                                               \
    FMA_ROW(8, 9, 10, b0, b1, b2, "v0.s[0]")                                                                           \
    FMA_ROW(11, 12, 13, b0, b1, b2, "v0.s[1]")                                                                         \
    FMA_ROW(14, 15, 16, b0, b1, b2, "v0.s[2]")                                                                         \
    FMA_ROW(17, 18, 19, b0, b1, b2, "v0.s[3]")                                                                         \
    FMA_ROW(20, 21, 22, b0, b1, b2, "v1.s[0]")                                                                         \
    FMA_ROW(23, 24, 25, b0, b1, b2, "v1.s[1]")                                                                         \
    FMA_ROW(26, 27, 28, b0, b1, b2, "v1.s[2]")                                                                         \
    FMA_ROW(29, 30, 31, b0, b1, b2, "v1.s[3]")
/* The addend is the left operand, the bias the right one. */
#define ADD_ROW(r0, r1, r2)                                                                                            \
    LOAD_ROW(0, 1, 2, "x10")                                                                                           \
    "fadd v" #r0 ".4s, v0.4s, v" #r0 ".4s\n\tfadd v" #r1 ".4s, v1.4s, v" #r1 ".4s\n\tfadd v" #r2 ".4s, v2.4s, v" #r2   \
    ".4s\n\t"
#define BIAS_ROW(r0, r1, r2)                                                                                           \
    "fadd v" #r0 ".4s, v" #r0 ".4s, v0.4s\n\tfadd v" #r1 ".4s, v" #r1 ".4s, v1.4s\n\tfadd v" #r2 ".4s, v" #r2          \
    ".4s, v2.4s\n\t"
#define ROWS(DO)                                                                                                       \
    DO(8, 9, 10)                                                                                                       \
    DO(11, 12, 13) DO(14, 15, 16) DO(17, 18, 19) DO(20, 21, 22) DO(23, 24, 25) DO(26, 27, 28) DO(29, 30, 31)
#define LOAD_START(r0, r1, r2) LOAD_ROW(r0, r1, r2, "%[ldstart]")

/* clang-format off */
/* Computes a tile of 8 × 12 over k from packed fp32 panels, with its epilogue: ls_gemm_kernels.micro. */
static void lsk_gemm_f32_8x12_neon(size_t k, const void *a, const void *b, const ls_gemm_tile *tile) {
    const ls_gemm_addend *addend = tile->addend;
    size_t addends = (size_t)tile->addends;
    __asm__ volatile(
        "cbz %[start], 1f\n\t"
        "mov x9, %[start]\n\t"
        ROWS(LOAD_START)
        "b 2f\n"
        "1:\n\t"
        ROWS(ZERO_ROW)
        "2:\n\t"
        "cbz %[k], 4f\n\t"
        "ldp q0, q1, [%[a]], #32\n\t"
        "ldp q2, q3, [%[b]]\n\t"
        "ldr q4, [%[b], #32]\n\t"
        "add %[b], %[b], #48\n\t"
        "subs %[k], %[k], #2\n\t"
        "b.ls 8f\n"
        "3:\n\t"
        STEP(2, 3, 4, 5, 6, 7)
        "subs %[k], %[k], #2\n\t"
        STEP(5, 6, 7, 2, 3, 4)
        "b.hi 3b\n"
        "8:\n\t"
        "b.lo 9f\n\t"
        STEP(2, 3, 4, 5, 6, 7)
        LAST(5, 6, 7)
        "b 4f\n"
        "9:\n\t"
        LAST(2, 3, 4)
        "4:\n\t"
        "cbz %[addends], 6f\n"
        "5:\n\t"
        "ldp x9, x10, [%[addend]], #16\n\t"
        "lsl x10, x10, #2\n\t"
        ROWS(ADD_ROW)
        "subs %[addends], %[addends], #1\n\t"
        "b.ne 5b\n"
        "6:\n\t"
        "cbz %[bias], 7f\n\t"
        "ldp q0, q1, [%[bias]]\n\t"
        "ldr q2, [%[bias], #32]\n\t"
        ROWS(BIAS_ROW)
        "7:\n\t"
        "mov x9, %[out]\n\t"
        ROWS(STORE_ROW)
        : [k] "+r"(k), [a] "+r"(a), [b] "+r"(b), [addend] "+r"(addend), [addends] "+r"(addends)
        : [start] "r"(tile->start), [ldstart] "r"(tile->ldstart * sizeof(float)), [out] "r"(tile->out),
          [ldout] "r"(tile->ldout * sizeof(float)), [bias] "r"(tile->bias)
        : "x9", "x10", "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15",
          "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
}
/* clang-format on */

_Static_assert(sizeof(ls_gemm_addend) == 16 && offsetof(ls_gemm_addend, ld) == 8, "as the assembly reads it");

/* One register holds the chains of four rows with one line, whether there are so many rows or not: a value of the line
 * is then taken from its lane, and nothing is transposed but the result. */
enum { THIN_LINES = 8 };

#ifdef __clang__
#    define LINES_UNROLL _Pragma("clang loop unroll(full)")
#else
#    define LINES_UNROLL _Pragma("GCC unroll 8")
#endif

/* Loads four values, widened if they are bf16. */
LSK_INLINE float32x4_t four_of(const char *from, bool is_bf16) {
    if (!is_bf16) return vld1q_f32((const float *)(const void *)from);
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16((const uint16_t *)(const void *)from), 16));
}

/* Loads one value into all lanes, widened if it is bf16. */
LSK_INLINE float32x4_t one_of(const char *from, bool is_bf16) {
    if (!is_bf16) return vdupq_n_f32(*(const float *)(const void *)from);
    return vreinterpretq_f32_u32(vshll_n_u16(vdup_n_u16(*(const uint16_t *)(const void *)from), 16));
}

/* Continues the chains of up to four rows with THIN_LINES lines of B along k, `line` bytes apart; `is_bf16` is a
 * constant. */
LSK_INLINE void thin_chains(float32x4_t sums[THIN_LINES], size_t k, const float *a, const char *b, size_t line,
                            bool is_bf16) {
    size_t bytes = is_bf16 ? 2 : 4, i = 0;
    for (; i + 4 <= k; i += 4, a += 4 * LS_GEMM_THIN_ROWS, b += 4 * bytes) {
        float32x4_t a0 = vld1q_f32(a), a1 = vld1q_f32(a + 4), a2 = vld1q_f32(a + 8), a3 = vld1q_f32(a + 12);
        LINES_UNROLL
        for (size_t l = 0; l < THIN_LINES; l++) {
            float32x4_t x = four_of(b + l * line, is_bf16);
            sums[l] = vfmaq_laneq_f32(sums[l], a0, x, 0);
            sums[l] = vfmaq_laneq_f32(sums[l], a1, x, 1);
            sums[l] = vfmaq_laneq_f32(sums[l], a2, x, 2);
            sums[l] = vfmaq_laneq_f32(sums[l], a3, x, 3);
        }
    }
    for (; i < k; i++, a += LS_GEMM_THIN_ROWS, b += bytes) {
        LINES_UNROLL
        for (size_t l = 0; l < THIN_LINES; l++)
            sums[l] = vfmaq_f32(sums[l], vld1q_f32(a), one_of(b + l * line, is_bf16));
    }
}

/* Continues the chains of 1 to 4 rows with eight lines of B stored along k: ls_gemm_kernels.thin_along. */
static void lsk_gemm_thin_along_neon(size_t k, size_t rows, const float *a, const void *b, ls_dtype dtype, size_t ldb,
                                     float *c, size_t ldc) {
    float32x4_t sums[THIN_LINES];
    float turned[THIN_LINES][LS_GEMM_THIN_ROWS] = {{0}};
    for (size_t l = 0; l < THIN_LINES; l++)
        for (size_t r = 0; r < rows; r++) turned[l][r] = c[r * ldc + l];
    LINES_UNROLL
    for (size_t l = 0; l < THIN_LINES; l++) sums[l] = vld1q_f32(turned[l]);
    if (dtype == LS_BF16)
        thin_chains(sums, k, a, b, 2 * ldb, true);
    else
        thin_chains(sums, k, a, b, 4 * ldb, false);
    LINES_UNROLL
    for (size_t l = 0; l < THIN_LINES; l++) vst1q_f32(turned[l], sums[l]);
    for (size_t l = 0; l < THIN_LINES; l++)
        for (size_t r = 0; r < rows; r++) c[r * ldc + l] = turned[l][r];
}

/* Fills the table. The panels of a block (512 KiB of A, 768 KiB of B) are read from the second cache; from there the
 * kernel runs as fast as from the first, so the passes are long and C is touched seldom. */
void ls_gemm_kernels_fill_neon(ls_gemm_kernels *table) {
    *table = (ls_gemm_kernels){.name = "8x12 neon",
                               .micro = lsk_gemm_f32_8x12_neon,
                               .thin = lsk_gemm_thin_f32_neon,
                               .thin_along = lsk_gemm_thin_along_neon,
                               .thin_lines = THIN_LINES,
                               .mr = MR,
                               .nr = NR,
                               .kc = 2048,
                               .mb = 64,
                               .nb = 96};
    ls_convert_kernels_fill_neon(&table->convert);
}
