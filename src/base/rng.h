/* rng.h: random numbers that are a function of (seed, purpose, step, index) and nothing else (rule 12 of
 * docs/reference/arithmetic.md), for initial weights, dropout and the order of samples.
 *
 * There is no stream and no state: any worker computes any number, in any order. The generator is Philox4x32-10
 * (Salmon and others, "Parallel random numbers: as easy as 1, 2, 3", 2011), a keyed bijection of 128-bit counters:
 *
 *     key       seed, 64 bits
 *     counter   word 0   block, bits 31 … 0
 *               word 1   block, bits 47 … 32   | step, bits 15 … 0 in the upper half
 *               word 2   step,  bits 47 … 16
 *               word 3   purpose
 *
 * So for one seed, distinct (purpose, step, block) within the limits give distinct counters and never the same block.
 * A block has four 32-bit numbers: number i of 32 bits is word i mod 4 of block ⌊i/4⌋, and number i of 64 bits is the
 * pair i mod 2 of block ⌊i/2⌋, low word first. The two kinds therefore share bits: give each use its own purpose. */
#ifndef LS_BASE_RNG_H
#define LS_BASE_RNG_H

#include <stdint.h>

#define LS_RNG_STEP_LIMIT (UINT64_C(1) << 48)
#define LS_RNG_INDEX_LIMIT (UINT64_C(1) << 48)

/* Names a sequence of numbers. `purpose` is a constant of the module that draws them. */
typedef struct ls_rng_key {
    uint64_t seed, step;
    uint32_t purpose;
} ls_rng_key;

/* Makes the key of the sequence of this seed, purpose and step, which must be below LS_RNG_STEP_LIMIT. In the
 * functions below, an index or block must be below LS_RNG_INDEX_LIMIT. */
ls_rng_key ls_rng_key_make(uint64_t seed, uint32_t purpose, uint64_t step);

/* Writes block `block`: the 32-bit numbers 4·block … 4·block+3. */
void ls_rng_u32x4(ls_rng_key key, uint64_t block, uint32_t out[4]);
/* Returns 32-bit number `index` of the sequence. */
uint32_t ls_rng_u32(ls_rng_key key, uint64_t index);
/* Returns 64-bit number `index`, which shares bits with 32-bit numbers. */
uint64_t ls_rng_u64(ls_rng_key key, uint64_t index);
/* Returns a multiple of 2^−24 in [0, 1): the upper 24 bits of 32-bit number `index`. */
float ls_rng_uniform_f32(ls_rng_key key, uint64_t index);
/* Returns a number in 0 … n−1, from 64-bit number `index`; n ≥ 1. A value's probability is off by less than 2^−64. */
uint64_t ls_rng_below(ls_rng_key key, uint64_t index, uint64_t n);

/* Applies the bijection itself to a counter. */
void ls_rng_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

#endif
