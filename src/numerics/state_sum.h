/* state_sum.h: a checksum of weights and optimizer state that does not depend on which worker holds which part. Updates
 * compute it on the way (ops->update, ops->state_sums); the guards compare it later, to detect memory that has changed.
 *
 * With x(i) the 32-bit pattern of element i of a tensor, it is, mod 2^64, for odd factors a of 32 bits and b of 64
 * bits; each of the two words of a ls_hash128 is such a sum, with factors b of its own:
 *
 *     Σ x(i) · a(i mod 1024) · b(tensor, i / 1024)
 *
 * Elements are numbered in the order of the whole tensor in memory (nn/param.h), which is the same in every layout.
 * Each worker adds the elements that it holds, and the sums of all workers are added. A single changed element is
 * always detected: its product with a, of 32 bits, is no multiple of 2^64, and odd factors have inverses. Other
 * corruption is missed with a probability of about 2^-32 or less. The sum does not protect against an attacker. */
#ifndef LS_NUMERICS_STATE_SUM_H
#define LS_NUMERICS_STATE_SUM_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

enum { LS_STATE_BLOCK = 1024 }; /* elements of a tensor that share their factors b */

/* Returns the LS_STATE_BLOCK factors a, one for each place in a block. The array is static; any thread may call. */
const uint32_t *ls_state_places(void);

/* Mixes 64 bits, by the finalizer of SplitMix64. */
static inline uint64_t ls_state_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Adds `total`, which is Σ x·a mod 2^64 over block `block` of a tensor or over a part of the block, times the block's
 * two factors b: one for sum->lo, one for sum->hi. */
static inline void ls_state_add_block(ls_hash128 *sum, uint64_t tensor, uint64_t block, uint64_t total) {
    uint64_t seed = (tensor + 1) * 0x9e3779b97f4a7c15u + block * 0xd1b54a32d192ed03u;
    sum->lo += total * (ls_state_mix(seed) | 1);
    sum->hi += total * (ls_state_mix(seed ^ 0xa0761d6478bd642fu) | 1);
}

/* Adds one sum to another: those of two workers, or of two parts. */
static inline void ls_state_add(ls_hash128 *sum, ls_hash128 more) {
    sum->lo += more.lo;
    sum->hi += more.hi;
}

/* Adds elements first … first + n − 1 of a tensor, of which x[0] is the first. */
void ls_state_add_elems(ls_hash128 *sum, uint64_t tensor, uint64_t first, const float *x, size_t n);

#endif
