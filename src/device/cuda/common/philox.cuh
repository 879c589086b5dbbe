/* philox.cuh: the random numbers of base/rng.h (Philox 4×32-10) on a GPU. */
#pragma once
#include "device/cuda/common/base.cuh"
#include "device/cuda/common/philox.h"

/* Returns the random words 4·block … 4·block + 3 of the sequence of this key, those of ls_rng (base/rng.h). ROUNDS are unrolled: with
 * fewer the compiler interleaves less other code, which takes fewer registers; the result is the same. */
template <int ROUNDS = 10> LS_DEVICE uint4 philox_block(const ls_cuda_rng &key, uint64_t block) {
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32) | (uint32_t)(key.step & 0xFFFFu) << 16;
    uint32_t c2 = (uint32_t)(key.step >> 16), c3 = key.purpose, k0 = (uint32_t)key.seed,
             k1 = (uint32_t)(key.seed >> 32);
#pragma unroll ROUNDS
    for (int round = 0; round < 10; round++) {
        uint32_t high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
        uint32_t high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
        c0 = high1 ^ c1 ^ k0;
        c2 = high0 ^ c3 ^ k1;
        c1 = low1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return make_uint4(c0, c1, c2, c3);
}
