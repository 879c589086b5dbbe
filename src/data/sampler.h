/* sampler.h: which tokens are sample number i of a training run. A pure function of (seed, N, T, i): no state, no
 * memory, any worker computes any sample. The position of a training run in its data is one number, the count of
 * samples taken so far.
 *
 * N tokens hold n = ⌊(N−1)/T⌋ windows of T+1 tokens, each beginning with the last token of the one before: T inputs
 * and, one further, their T targets. So every token but the first is a target once in an epoch, less a rest of r =
 * (N−1) − nT tokens at the end. With i = e·n + j, sample i is in epoch e and begins at token
 *
 *     T · P(e, j) + s(e)
 *
 * Without shuffle (validation) P(e, j) = j and s = 0. With it:
 *
 *     s(0) = 0; from epoch 1 on s(e) is a random number in 0 … r, so that the cuts and the tokens left out change from
 *     epoch to epoch where N leaves room for it
 *     P(e, ·) is a permutation of 0 … n−1: a Feistel network of LS_SAMPLER_ROUNDS rounds on 2h bits, where h ≥ 1 is the
 *     least with 4^h ≥ n. The network is applied again until the result is below n (n = 1 gives 0). With the number
 *     split as L·2^h + R, round k = 0, 1, … replaces (L, R) by (R, L xor (F mod 2^h)), where F is word 0 of the Philox
 *     block k·2^32 + R of the key (seed, LS_RNG_PURPOSE_ORDER, e mod 2^48) (base/rng.h)
 *     s(e) is ls_rng_below(key (seed, LS_RNG_PURPOSE_SHIFT, e mod 2^48), 0, r+1) */
#ifndef LS_DATA_SAMPLER_H
#define LS_DATA_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum { LS_RNG_PURPOSE_ORDER = 0x0D01, LS_RNG_PURPOSE_SHIFT = 0x0D02 };
enum { LS_SAMPLER_ROUNDS = 8 };

typedef struct ls_sampler {
    uint64_t seed, tokens, length; /* N and T */
    uint64_t windows;              /* n: samples in an epoch */
    bool shuffle;
} ls_sampler;

/* Sets up the samples of N tokens with T ≥ 1 inputs each. LS_ERR_INPUT, with the numbers, if N < T+1. */
ls_status ls_sampler_init(ls_sampler *sampler, uint64_t seed, uint64_t tokens, uint64_t length, bool shuffle);
/* Returns the position in the data of the first of the T+1 tokens of sample `index`, at most N−T−1. Any index is
 * valid, in any epoch. */
uint64_t ls_sampler_start(const ls_sampler *sampler, uint64_t index);
/* Returns the epoch, from 0 on, that sample `index` belongs to. */
uint64_t ls_sampler_epoch(const ls_sampler *sampler, uint64_t index);

#endif
