/* hash.cu: XXH3 with 128 bits (github.com/Cyan4973/xxHash, doc/xxhash_spec.md), of pieces with more than 240 bytes. A
 * block has a piece.
 *
 * XXH3 adds 16 stripes of 64 bytes to eight accumulators, scrambles these, and goes on with the next 16. What the
 * stripes add does not depend on the accumulators; so all threads make the sums of 1024 bytes each, side by side, and
 * eight threads then add and scramble. */
#include "device/cuda/args/hash.h"
#include "device/cuda/common/base.cuh"

typedef unsigned long long u64;

enum {
    LANES = 8,
    STRIPES = 16,
    STRIPE_BYTES = 64,
    BLOCK_BYTES = STRIPES * STRIPE_BYTES,
    BLOCKS = LS_CUDA_HASH_PIECE / BLOCK_BYTES
};
enum {
    SCRAMBLE_KEY = 128,
    LAST_KEY = 121,
    MERGE_LOW_KEY = 11,
    MERGE_HIGH_KEY = 117
}; /* where they begin in the secret */

#define PRIME32_1 0x9E3779B1u
#define PRIME64_1 0x9E3779B185EBCA87ull
#define PRIME64_2 0xC2B2AE3D27D4EB4Full

/* XXH3's own. */
alignas(8) static __device__ const unsigned char secret[192] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c, 0xde, 0xd4,
    0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f, 0xcb, 0x79, 0xe6, 0x4e,
    0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21, 0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43,
    0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c, 0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb,
    0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3, 0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19,
    0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8, 0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7,
    0xc7, 0x0b, 0x4f, 0x1d, 0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78,
    0x73, 0x64, 0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e, 0x2b, 0x16,
    0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce, 0x45, 0xcb, 0x3a, 0x8f,
    0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e};

static __device__ const u64 start[LANES] = {
    0xC2B2AE3Dull,         PRIME64_1, PRIME64_2, 0x165667B19E3779F9ull, 0x85EBCA77C2B2AE63ull, 0x85EBCA77ull,
    0x27D4EB2F165667C5ull, PRIME32_1};

/* Eight bytes, the lowest first. */
template <int ALIGN> LS_DEVICE u64 read(const unsigned char *p) {
    if (ALIGN == 8) return *(const u64 *)p;
    if (ALIGN == 4) return *(const uint32_t *)p | (u64) * (const uint32_t *)(p + 4) << 32;
    u64 x = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) x |= (u64)p[i] << 8 * i;
    return x;
}

/* What a stripe adds to the accumulators: `own` to that of this lane, the data itself to that of its neighbour. */
LS_DEVICE u64 own_sum(u64 data, u64 key) {
    u64 mixed = data ^ key;
    return (mixed & 0xFFFFFFFFull) * (mixed >> 32);
}

/* Sums of the stripes of each 1024 bytes: eight threads take 1024 bytes, thread i the bytes 8i … 8i + 7 of every
 * stripe. */
template <int ALIGN>
LS_DEVICE void sum_blocks(const unsigned char *x, unsigned blocks, unsigned last_stripes, u64 (*sums)[LANES]) {
    const unsigned lane = threadIdx.x % LANES;
    u64 key[STRIPES];
#pragma unroll
    for (int s = 0; s < STRIPES; s++) key[s] = read<8>(secret + 8 * (s + lane));
    /* Every thread goes round equally often, as neighbours exchange. */
    for (unsigned first = 0; first < blocks; first += blockDim.x / LANES) {
        const unsigned b = first + threadIdx.x / LANES, stripes = b + 1 < blocks ? (unsigned)STRIPES
                                                                  : b < blocks   ? last_stripes
                                                                                 : 0;
        const unsigned char *at = x + (size_t)b * BLOCK_BYTES + 8 * lane;
        u64 data[STRIPES], own = 0, sum = 0;
#pragma unroll
        for (int s = 0; s < STRIPES; s++) data[s] = s < (int)stripes ? read<ALIGN>(at + s * STRIPE_BYTES) : 0;
#pragma unroll
        for (int s = 0; s < STRIPES; s++) own += s < (int)stripes ? own_sum(data[s], key[s]) : 0, sum += data[s];
        sum = __shfl_xor_sync(~0u, sum, 1);
        if (b < blocks) sums[b][lane] = own + sum;
    }
}

LS_DEVICE u64 fold(u64 a, u64 b) { return (a * b) ^ (u64)__umul64hi(a, b); }

LS_DEVICE u64 merge(const u64 *acc, int key, u64 start) {
    u64 h = start;
    for (int i = 0; i < LANES; i += 2)
        h += fold(acc[i] ^ read<1>(secret + key + 8 * i), acc[i + 1] ^ read<1>(secret + key + 8 * i + 8));
    h = (h ^ h >> 37) * 0x165667919E3779F9ull;
    return h ^ h >> 32;
}

LS_KERNEL(hash_pieces, ls_cuda_hash, LS_CUDA_HASH_THREADS) {
    __shared__ u64 sums[BLOCKS][LANES], accumulators[LANES];
    const size_t begin = (size_t)blockIdx.x * LS_CUDA_HASH_PIECE, left = a.bytes - begin;
    const unsigned n = left < LS_CUDA_HASH_PIECE ? (unsigned)left : (unsigned)LS_CUDA_HASH_PIECE;
    const unsigned whole = (n - 1) / BLOCK_BYTES, last_stripes = (n - 1 - whole * BLOCK_BYTES) / STRIPE_BYTES;
    const unsigned char *x = a.x + begin;
    if (a.align == 8)
        sum_blocks<8>(x, whole + 1, last_stripes, sums);
    else if (a.align == 4)
        sum_blocks<4>(x, whole + 1, last_stripes, sums);
    else
        sum_blocks<1>(x, whole + 1, last_stripes, sums);
    __syncthreads();
    if (threadIdx.x < LANES) {
        const unsigned i = threadIdx.x;
        const u64 key = read<8>(secret + SCRAMBLE_KEY + 8 * i);
        u64 acc = start[i];
        for (unsigned b = 0; b < whole; b++) {
            acc += sums[b][i];
            acc = (acc ^ acc >> 47 ^ key) * PRIME32_1;
        }
        const unsigned char *last = x + n - STRIPE_BYTES;
        acc += sums[whole][i] + own_sum(read<1>(last + 8 * i), read<1>(secret + LAST_KEY + 8 * i)) +
               read<1>(last + 8 * (i ^ 1));
        accumulators[i] = acc;
    }
    __syncthreads();
    if (threadIdx.x > 0) return;
    a.out[2 * blockIdx.x] = merge(accumulators, MERGE_LOW_KEY, n * PRIME64_1);
    a.out[2 * blockIdx.x + 1] = merge(accumulators, MERGE_HIGH_KEY, ~(n * PRIME64_2));
}
