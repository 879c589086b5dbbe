/* sampler.c: see sampler.h, which says every step. */
#include "data/sampler.h"

#include <assert.h>
#include <inttypes.h>

#include "base/rng.h"

ls_status ls_sampler_init(ls_sampler *sampler, uint64_t seed, uint64_t tokens, uint64_t length, bool shuffle) {
    assert(length >= 1);
    /* N ≤ T rather than N < T+1, which could overflow. */
    if (tokens <= length)
        return ls_fail(LS_ERR_INPUT,
                       "the data has %" PRIu64 " tokens, too few for one sequence of %" PRIu64
                       " and its last target (%" PRIu64 "): give more data or a shorter sequence",
                       tokens, length, length + 1);
    *sampler = (ls_sampler){
        .seed = seed, .tokens = tokens, .length = length, .windows = (tokens - 1) / length, .shuffle = shuffle};
    return LS_OK;
}

/* Returns h of sampler.h: half the bits of the Feistel network for n windows. */
static unsigned half_bits(uint64_t n) {
    unsigned half = 1;
    while (half < 32 && (UINT64_C(1) << 2 * half) < n) half++;
    return half;
}

/* Returns P(e, j) of sampler.h for 0 ≤ j < n; the key has the epoch. */
static uint64_t permute(ls_rng_key key, uint64_t n, uint64_t j) {
    unsigned half = half_bits(n);
    uint64_t mask = (UINT64_C(1) << half) - 1;
    if (n == 1) return 0;
    do {
        uint64_t left = j >> half, right = j & mask;
        for (uint64_t round = 0; round < LS_SAMPLER_ROUNDS; round++) {
            uint32_t words[4];
            ls_rng_u32x4(key, round << 32 | right, words);
            uint64_t mixed = left ^ (words[0] & mask);
            left = right;
            right = mixed;
        }
        j = left << half | right;
    } while (j >= n);
    return j;
}

uint64_t ls_sampler_epoch(const ls_sampler *sampler, uint64_t index) { return index / sampler->windows; }

uint64_t ls_sampler_start(const ls_sampler *sampler, uint64_t index) {
    uint64_t epoch = ls_sampler_epoch(sampler, index), window = index % sampler->windows, shift = 0;
    if (!sampler->shuffle) return window * sampler->length;
    uint64_t step = epoch % LS_RNG_STEP_LIMIT, rest = sampler->tokens - 1 - sampler->windows * sampler->length;
    window = permute(ls_rng_key_make(sampler->seed, LS_RNG_PURPOSE_ORDER, step), sampler->windows, window);
    if (epoch) shift = ls_rng_below(ls_rng_key_make(sampler->seed, LS_RNG_PURPOSE_SHIFT, step), 0, rest + 1);
    assert(window * sampler->length + shift + sampler->length < sampler->tokens);
    return window * sampler->length + shift;
}
