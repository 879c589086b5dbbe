/* gemm_bf16.c: an 8 × 12 micro-kernel with BFMMLA, which multiplies 2 × 4 by 4 × 2 of bf16 and adds to 2 × 2 of fp32.
 *
 * Accumulators are v8 … v31. Rows 2i and 2i+1 have v(8+6i) … v(13+6i), a block of 2 × 2 for each pair of columns:
 *
 *     block j: [c(2i, 2j), c(2i, 2j+1), c(2i+1, 2j), c(2i+1, 2j+1)]
 *
 * Taking the even halves of two neighbours, and then the odd ones, gives four columns of row 2i and of row 2i+1; the
 * same step turns rows into blocks. v0 … v3 hold the four k of a granule for the eight rows, v4 … v7 for eight columns.
 */
#include <stddef.h>
#include <stdint.h>

#include "device/cpu/gemm/gemm.h"

/* One statement holds the whole kernel, so that the accumulators need no names; C11 promises less for a string. */
#pragma GCC diagnostic ignored "-Woverlength-strings"

enum { MR = 8, NR = 12, GRANULE = 4 };

/* Rows 2i and 2i+1, from or to memory: x9 walks down the rows. */
#define LOAD_ROW(r0, r2, r4, ld) "ldp q" #r0 ", q" #r2 ", [x9]\n\tldr q" #r4 ", [x9, #32]\n\tadd x9, x9, " ld "\n\t"
#define STORE_ROW(r0, r2, r4) "stp q" #r0 ", q" #r2 ", [x9]\n\tstr q" #r4 ", [x9, #32]\n\tadd x9, x9, %[ldout]\n\t"
#define LOAD_START(r0, r1, r2, r3, r4, r5) LOAD_ROW(r0, r2, r4, "%[ldstart]") LOAD_ROW(r1, r3, r5, "%[ldstart]")
#define STORE_ROWS(r0, r1, r2, r3, r4, r5) STORE_ROW(r0, r2, r4) STORE_ROW(r1, r3, r5)
#define ZERO(r) "movi v" #r ".4s, #0\n\t"
#define ZERO_ROWS(r0, r1, r2, r3, r4, r5) ZERO(r0) ZERO(r1) ZERO(r2) ZERO(r3) ZERO(r4) ZERO(r5)
#define TURN(r0, r1)                                                                                                   \
    "zip1 v0.2d, v" #r0 ".2d, v" #r1 ".2d\n\tzip2 v" #r1 ".2d, v" #r0 ".2d, v" #r1 ".2d\n\tmov v" #r0 ".16b, "         \
    "v0.16b\n\t"
#define TURN_ROWS(r0, r1, r2, r3, r4, r5) TURN(r0, r1) TURN(r2, r3) TURN(r4, r5)
/* The same as bf16, with BFCVTN and BFCVTN2 as numbers; v7 keeps the largest without its sign. */
#define ROUND(to, r, code) ".inst " code " + " #r " * 32 + " #to "\n\t"
#define ROUND_ROW(r0, r2, r4)                                                                                          \
    ROUND(0, r0, "0x0ea16800")                                                                                         \
    ROUND(0, r2, "0x4ea16800")                                                                                         \
    ROUND(1, r4, "0x0ea16800")                                                                                         \
    "str q0, [x9]\n\tstr d1, [x9, #16]\n\tadd x9, x9, %[ldout]\n\tbic v0.8h, #0x80, lsl #8\n\tbic v1.8h, #0x80, lsl "  \
    "#8\n\tumax v7.8h, v7.8h, v0.8h\n\tumax v7.8h, v7.8h, v1.8h\n\t"
#define ROUND_ROWS(r0, r1, r2, r3, r4, r5) ROUND_ROW(r0, r2, r4) ROUND_ROW(r1, r3, r5)
/* The addend is the left operand, the bias the right one. */
#define ADD_ROW(r0, r2, r4)                                                                                            \
    LOAD_ROW(0, 1, 2, "x10")                                                                                           \
    "fadd v" #r0 ".4s, v0.4s, v" #r0 ".4s\n\tfadd v" #r2 ".4s, v1.4s, v" #r2 ".4s\n\tfadd v" #r4 ".4s, v2.4s, v" #r4   \
    ".4s\n\t"
#define ADD_ROWS(r0, r1, r2, r3, r4, r5) ADD_ROW(r0, r2, r4) ADD_ROW(r1, r3, r5)
#define BIAS(r, b) "fadd v" #r ".4s, v" #r ".4s, v" #b ".4s\n\t"
#define BIAS_ROWS(r0, r1, r2, r3, r4, r5) BIAS(r0, 0) BIAS(r1, 0) BIAS(r2, 1) BIAS(r3, 1) BIAS(r4, 2) BIAS(r5, 2)
#define ROWS(DO)                                                                                                       \
    DO(8, 9, 10, 11, 12, 13)                                                                                           \
    DO(14, 15, 16, 17, 18, 19) DO(20, 21, 22, 23, 24, 25) DO(26, 27, 28, 29, 30, 31)

/* bfmmla c.4s, a.8h, b.8h as a number: assemblers name the extension in different ways. */
#define DOT(c, a, b) ".inst 0x6e40ec00 + " #b " * 65536 + " #a " * 32 + " #c "\n\t"
/* The blocks of one pair of columns; c0 … c3 from the top. */
#define COLUMN(c0, c1, c2, c3, b) DOT(c0, 0, b) DOT(c1, 1, b) DOT(c2, 2, b) DOT(c3, 3, b)
/* One granule; the numbers are offsets in bytes. The loads lie as far apart as their first uses allow: 4 % faster than
 * all of them in front. */
#define LOAD(r0, r1, from, at) "ldp q" #r0 ", q" #r1 ", [%[" #from "], #" #at "]\n\t"
#define GRANULE_STEP(a0, a2, b0, b2, b4)                                                                               \
    LOAD(0, 1, a, a0)                                                                                                  \
    LOAD(4, 5, b, b0)                                                                                                  \
    DOT(8, 0, 4)                                                                                                       \
    DOT(14, 1, 4)                                                                                                      \
    LOAD(2, 3, a, a2)                                                                                                  \
    DOT(9, 0, 5)                                                                                                       \
    DOT(15, 1, 5)                                                                                                      \
    DOT(20, 2, 4)                                                                                                      \
    DOT(26, 3, 4)                                                                                                      \
    LOAD(6, 7, b, b2)                                                                                                  \
    DOT(21, 2, 5)                                                                                                      \
    DOT(27, 3, 5)                                                                                                      \
    LOAD(4, 5, b, b4)                                                                                                  \
    COLUMN(10, 16, 22, 28, 6)                                                                                          \
    COLUMN(11, 17, 23, 29, 7) COLUMN(12, 18, 24, 30, 4) COLUMN(13, 19, 25, 31, 5)

/* BFCVTN rounds like ls_bf16_from_f32(), but keeps the payload of a NaN. */
enum { INFINITY_BITS = 0x7F80, NAN_BITS = 0x7FC0 };

/* Replaces every NaN of a stored bf16 tile by the one NaN. */
static void one_nan(uint16_t *halves, size_t ld) {
    for (size_t i = 0; i < MR; i++)
        for (size_t j = 0; j < NR; j++) {
            uint16_t *half = halves + i * ld + j;
            if ((*half & 0x7FFF) > INFINITY_BITS) *half = NAN_BITS;
        }
}

/* clang-format off */
/* Computes a tile of 8 × 12 over k, whole granules, from packed bf16 panels, with its epilogue: ls_gemm_kernels.micro. */
static void lsk_gemm_bf16_8x12_bfmmla(size_t k, const void *a, const void *b, const ls_gemm_tile *tile) {
    const ls_gemm_addend *addend = tile->addend;
    size_t addends = (size_t)tile->addends, granules = k / GRANULE;
    void *out = tile->halves ? (void *)tile->halves : (void *)tile->out;
    size_t ldout = tile->halves ? tile->ldhalves * 2 : tile->ldout * 4;
    uint64_t top = tile->halves != NULL; /* in: whether to round; out: the largest half */
    __asm__ volatile(
        "cbz %[start], 1f\n\t"
        "mov x9, %[start]\n\t"
        ROWS(LOAD_START)
        ROWS(TURN_ROWS)
        "b 2f\n"
        "1:\n\t"
        ROWS(ZERO_ROWS)
        "2:\n\t"
        "subs %[granules], %[granules], #2\n\t"
        "b.lo 4f\n"
        ".balign 32\n"
        "3:\n\t"
        GRANULE_STEP(0, 32, 0, 32, 64)
        GRANULE_STEP(64, 96, 96, 128, 160)
        "add %[a], %[a], #128\n\t"
        "add %[b], %[b], #192\n\t"
        "subs %[granules], %[granules], #2\n\t"
        "b.hs 3b\n"
        "4:\n\t"
        "tbz %[granules], #0, 5f\n\t"
        GRANULE_STEP(0, 32, 0, 32, 64)
        "5:\n\t"
        ROWS(TURN_ROWS)
        "cbz %[addends], 7f\n"
        "6:\n\t"
        "ldp x9, x10, [%[addend]], #16\n\t"
        "lsl x10, x10, #2\n\t"
        ROWS(ADD_ROWS)
        "subs %[addends], %[addends], #1\n\t"
        "b.ne 6b\n"
        "7:\n\t"
        "cbz %[bias], 8f\n\t"
        "ldp q0, q1, [%[bias]]\n\t"
        "ldr q2, [%[bias], #32]\n\t"
        ROWS(BIAS_ROWS)
        "8:\n\t"
        "mov x9, %[out]\n\t"
        "cbnz %[top], 9f\n\t"
        ROWS(STORE_ROWS)
        "b 10f\n"
        "9:\n\t"
        "movi v7.8h, #0\n\t"
        ROWS(ROUND_ROWS)
        "umaxv h7, v7.8h\n\t"
        "umov %w[top], v7.h[0]\n"
        "10:\n"
        : [granules] "+r"(granules), [a] "+r"(a), [b] "+r"(b), [addend] "+r"(addend), [addends] "+r"(addends), [top] "+r"(top)
        : [start] "r"(tile->start), [ldstart] "r"(tile->ldstart * sizeof(float)), [out] "r"(out), [ldout] "r"(ldout), [bias] "r"(tile->bias)
        : "x9", "x10", "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15",
          "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
    if (top > INFINITY_BITS) one_nan(tile->halves, tile->ldhalves);
}
/* clang-format on */

_Static_assert(sizeof(ls_gemm_addend) == 16 && offsetof(ls_gemm_addend, ld) == 8, "as the assembly reads it");

/* Fills the table. Passes are as long as a chunk of K (gemm.c), so that C is touched once; panels are then read from
 * the second cache. */
void ls_gemm_kernels_fill_bfmmla(ls_gemm_kernels *table) {
    *table = (ls_gemm_kernels){.name = "8x12 bfmmla",
                               .micro = lsk_gemm_bf16_8x12_bfmmla,
                               .mr = MR,
                               .nr = NR,
                               .kc = 4096,
                               .mb = 64,
                               .nb = 96,
                               .granule = GRANULE,
                               .group_a = GRANULE,
                               .group_b = GRANULE,
                               .rate = 4,
                               .rounds_bf16 = true};
    ls_convert_kernels_fill_neon(&table->convert);
}
