/* dropout_loops.h: dropout over a vector of 16 lanes.
 *
 * Included by one file per ISA after its vector type, with LSK_NAME(stem) set. Philox 4x32-10 runs on 16 blocks at
 * once, one in a lane, and so makes the numbers of 64 consecutive elements; base/rng.h says what a block is. The
 * numbers of a stretch of a row are made first, then used: a row may begin in the middle of a block. */
#include <string.h>

#include "kernels/dropout.h"
#include "kernels/loops/part_loops.h"

enum { PHILOX_ROUNDS = 10, BLOCK_WORDS = 4, BATCH_WORDS = BLOCK_WORDS * LANES, STRETCH = 1024 };

#define PHILOX_MULTIPLIER_0 0xD2511F53u
#define PHILOX_MULTIPLIER_1 0xCD9E8D57u
#define PHILOX_WEYL_0 0x9E3779B9u
#define PHILOX_WEYL_1 0xBB67AE85u

LSK_INLINE v16i set1_bits(uint32_t bits) {
    int32_t value;
    memcpy(&value, &bits, sizeof value);
    return v16i_set1(value);
}

/* The upper half of a block's number, as it stands in the counter. */
LSK_INLINE v16i upper_half(ls_rng_key key, uint64_t block) {
    return set1_bits((uint32_t)(block >> 32) | (uint32_t)(key.step & 0xFFFF) << 16);
}

/* Words 0 and 1 of the counters of 16 blocks. Lanes whose word 0 has wrapped have the next upper half. */
LSK_INLINE void make_counters(ls_rng_key key, uint64_t block, v16i *word0, v16i *word1) {
    static const uint32_t lane_numbers[LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const v16i first = set1_bits((uint32_t)block), flip = set1_bits(0x80000000u);
    *word0 = v16i_add(first, v16i_load(lane_numbers));
    v16m wrapped = v16i_gt(v16i_xor(first, flip), v16i_xor(*word0, flip));
    *word1 = v16i_select(wrapped, upper_half(key, block + LANES), upper_half(key, block));
}

/* Numbers 4·block … 4·block + 63. */
static void make_words(uint32_t *to, ls_rng_key key, uint64_t block) {
    uint32_t k0 = (uint32_t)key.seed, k1 = (uint32_t)(key.seed >> 32);
    const v16i m0 = set1_bits(PHILOX_MULTIPLIER_0), m1 = set1_bits(PHILOX_MULTIPLIER_1);
    v16i c0, c1, c2 = set1_bits((uint32_t)(key.step >> 16)), c3 = set1_bits(key.purpose);
    make_counters(key, block, &c0, &c1);
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        v16i low0, low1, high0 = v16i_mul_wide(c0, m0, &low0), high1 = v16i_mul_wide(c2, m1, &low1);
        c0 = v16i_xor(v16i_xor(high1, c1), set1_bits(k0));
        c2 = v16i_xor(v16i_xor(high0, c3), set1_bits(k1));
        c1 = low1;
        c3 = low0;
        k0 += PHILOX_WEYL_0;
        k1 += PHILOX_WEYL_1;
    }
    v16i_store_mixed(to, c0, c1, c2, c3);
}

/* `words` of the 16 elements. Unsigned numbers compare as signed ones do when the highest bit is flipped. */
LSK_INLINE v16 dropped_part(const float *x, const uint32_t *words, v16i limit, v16 scale, size_t n) {
    v16m drop = v16i_gt(limit, v16i_xor(v16i_load(words), set1_bits(0x80000000u)));
    return v16_select(drop, v16_set1(0.0f), v16_mul(load_part(x, n), scale));
}

LSK_INLINE void dropout_part(float *y, const float *residual, v16 dropped, size_t n) {
    store_part(y, residual ? v16_add(load_part(residual, n), dropped) : dropped, n);
}

/* n ≤ STRETCH elements from global index `index` on. */
static void drop_stretch(const ls_dropout_call *c, float *y, const float *x, const float *residual, uint64_t index,
                         size_t n) {
    uint32_t words[STRETCH + 2 * BATCH_WORDS];
    size_t skip = (size_t)(index % BLOCK_WORDS), i = 0;
    const v16i limit = set1_bits(c->threshold ^ 0x80000000u);
    const v16 scale = v16_set1(c->scale);
    /* A whole vector of numbers is read also where elements end. */
    size_t used = skip + (n + LANES - 1) / LANES * LANES;
    for (size_t w = 0; w < used; w += BATCH_WORDS) make_words(words + w, c->key, (index - skip + w) / BLOCK_WORDS);
    for (; i + LANES <= n; i += LANES)
        dropout_part(y + i, residual ? residual + i : NULL, dropped_part(x + i, words + skip + i, limit, scale, LANES),
                     LANES);
    if (i < n)
        dropout_part(y + i, residual ? residual + i : NULL, dropped_part(x + i, words + skip + i, limit, scale, n - i),
                     n - i);
}

static void LSK_NAME(lsk_dropout_add)(const ls_dropout_call *call) {
    const ls_dropout_call *c = call;
    size_t rows = c->rows, columns = c->columns;
    uint64_t index = c->index0 * columns;
    /* Rows that follow each other without gaps are one long row. */
    if (c->x_stride == columns && c->y_stride == columns && (!c->residual || c->residual_stride == columns)) {
        columns *= rows;
        rows = 1;
    }
    for (size_t r = 0; r < rows; r++, index += columns)
        for (size_t i = 0; i < columns; i += STRETCH)
            drop_stretch(c, c->y + r * c->y_stride + i, c->x + r * c->x_stride + i,
                         c->residual ? c->residual + r * c->residual_stride + i : NULL, index + i,
                         columns - i < STRETCH ? columns - i : STRETCH);
}

static void LSK_NAME(fill)(ls_dropout_kernels *t) {
    *t = (ls_dropout_kernels){.dropout_add = LSK_NAME(lsk_dropout_add)};
}
