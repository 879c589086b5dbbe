/* philox_loops.h: the random numbers of base/rng.h over a vector of 16 lanes, for dropout.
 *
 * Included after part_loops.h. Philox 4x32-10, a counter-based generator, runs on 16 blocks at once, one in a lane, and
 * so computes the numbers of 64 consecutive elements; a block is four of them. The numbers of a stretch are computed
 * first, then used: a stretch may begin in the middle of a block. */
#ifndef LS_DEVICE_CPU_LOOPS_PHILOX_LOOPS_H
#define LS_DEVICE_CPU_LOOPS_PHILOX_LOOPS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/rng.h"

enum { PHILOX_ROUNDS = 10, BLOCK_WORDS = 4, BATCH_WORDS = BLOCK_WORDS * LANES };

/* Space for the numbers of n elements. */
#define STRETCH_WORDS(n) ((n) + 2 * BATCH_WORDS)

#define PHILOX_MULTIPLIER_0 0xD2511F53u
#define PHILOX_MULTIPLIER_1 0xCD9E8D57u
#define PHILOX_WEYL_0 0x9E3779B9u
#define PHILOX_WEYL_1 0xBB67AE85u

/* Returns a vector with this bit pattern in every lane. */
LSK_INLINE v16i set1_bits(uint32_t bits) {
    int32_t value;
    memcpy(&value, &bits, sizeof value);
    return v16i_set1(value);
}

/* Returns word 1 of the counter: the upper half of the block's number and a part of the step. */
LSK_INLINE v16i upper_half(ls_rng_key key, uint64_t block) {
    return set1_bits((uint32_t)(block >> 32) | (uint32_t)(key.step & 0xFFFF) << 16);
}

/* Computes words 0 and 1 of the counters of blocks block … block + 15. Lanes whose word 0 has wrapped have the next
 * upper half. */
LSK_INLINE void make_counters(ls_rng_key key, uint64_t block, v16i *word0, v16i *word1) {
    static const uint32_t lane_numbers[LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const v16i first = set1_bits((uint32_t)block), flip = set1_bits(0x80000000u);
    *word0 = v16i_add(first, v16i_load(lane_numbers));
    v16m wrapped = v16i_gt(v16i_xor(first, flip), v16i_xor(*word0, flip));
    *word1 = v16i_select(wrapped, upper_half(key, block + LANES), upper_half(key, block));
}

/* Writes the random numbers of elements 4·block … 4·block + 63 to to[64]. */
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

/* Computes the random numbers of n elements from `index` on, rounded up to a whole vector, in words[STRETCH_WORDS(n)];
 * returns where they begin there. */
LSK_INLINE const uint32_t *make_stretch(uint32_t *words, ls_rng_key key, uint64_t index, size_t n) {
    size_t skip = (size_t)(index % BLOCK_WORDS), used = skip + (n + LANES - 1) / LANES * LANES;
    for (size_t w = 0; w < used; w += BATCH_WORDS) make_words(words + w, key, (index - skip + w) / BLOCK_WORDS);
    return words + skip;
}

/* Returns the threshold with its highest bit flipped, so that signed comparisons order unsigned numbers. */
LSK_INLINE v16i limit_of(uint32_t threshold) { return set1_bits(threshold ^ 0x80000000u); }

/* Returns the lanes whose number is below the threshold. */
LSK_INLINE v16m dropped_lanes(const uint32_t *words, v16i limit) {
    return v16i_gt(limit, v16i_xor(v16i_load(words), set1_bits(0x80000000u)));
}

#endif
