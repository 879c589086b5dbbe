/* rng.c: Philox4x32-10 and the numbers made of its blocks. */
#include "base/rng.h"

#include <assert.h>

enum { ROUNDS = 10 };

#define MULTIPLIER_0 0xD2511F53u
#define MULTIPLIER_1 0xCD9E8D57u
#define WEYL_0 0x9E3779B9u /* golden ratio */
#define WEYL_1 0xBB67AE85u /* square root of 3, minus 1 */

__extension__ typedef unsigned __int128 uint128;

void ls_rng_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t p0 = (uint64_t)MULTIPLIER_0 * c0, p1 = (uint64_t)MULTIPLIER_1 * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += WEYL_0;
        k1 += WEYL_1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

ls_rng_key ls_rng_key_make(uint64_t seed, uint32_t purpose, uint64_t step) {
    assert(step < LS_RNG_STEP_LIMIT);
    return (ls_rng_key){.seed = seed, .step = step, .purpose = purpose};
}

void ls_rng_u32x4(ls_rng_key key, uint64_t block, uint32_t out[4]) {
    assert(block < LS_RNG_INDEX_LIMIT);
    const uint32_t words[2] = {(uint32_t)key.seed, (uint32_t)(key.seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32) | (uint32_t)(key.step & 0xFFFF) << 16,
                                 (uint32_t)(key.step >> 16), key.purpose};
    ls_rng_philox(counter, words, out);
}

uint32_t ls_rng_u32(ls_rng_key key, uint64_t index) {
    uint32_t block[4];
    ls_rng_u32x4(key, index / 4, block);
    return block[index % 4];
}

uint64_t ls_rng_u64(ls_rng_key key, uint64_t index) {
    uint32_t block[4];
    ls_rng_u32x4(key, index / 2, block);
    uint64_t pair = index % 2;
    return block[2 * pair] | (uint64_t)block[2 * pair + 1] << 32;
}

float ls_rng_uniform_f32(ls_rng_key key, uint64_t index) { return (float)(ls_rng_u32(key, index) >> 8) * 0x1p-24f; }

uint64_t ls_rng_below(ls_rng_key key, uint64_t index, uint64_t n) {
    assert(n >= 1);
    return (uint64_t)((uint128)ls_rng_u64(key, index) * n >> 64);
}
