/* hash.cu: XXH3 with 128 bits (github.com/Cyan4973/xxHash, doc/xxhash_spec.md); launched by ops/hash.c.
 *
 * For more than 240 bytes XXH3 adds 16 stripes of 64 bytes to eight accumulators, scrambles these, and continues with the next 16. The sums
 * of stripes do not depend on the accumulators, so all threads compute those of 1024 bytes each in parallel, and eight threads then add
 * and scramble. Up to 240 bytes have rules of their own, which one thread follows. */
#include "device/cuda/args/hash.h"
#include "device/cuda/common/base.cuh"

typedef unsigned long long u64;

enum {
    LANES = 8,
    STRIPES = 16,
    STRIPE_BYTES = 64,
    BLOCK_BYTES = STRIPES * STRIPE_BYTES,
    BLOCKS = LS_CUDA_HASH_PIECE / BLOCK_BYTES,
    SHORT_BYTES = 240
};
enum {
    SCRAMBLE_KEY = 128,
    LAST_KEY = 121,
    MERGE_LOW_KEY = 11,
    MERGE_HIGH_KEY = 117
}; /* where they begin in the secret */

#define PRIME32_1 0x9E3779B1u
#define PRIME32_2 0x85EBCA77u
#define PRIME64_1 0x9E3779B185EBCA87ull
#define PRIME64_2 0xC2B2AE3D27D4EB4Full
#define PRIME64_3 0x165667B19E3779F9ull
#define PRIME64_4 0x85EBCA77C2B2AE63ull

struct hash128 {
    u64 lo, hi;
};

/* The secret of XXH3. */
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
    0xC2B2AE3Dull, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, 0x27D4EB2F165667C5ull, PRIME32_1};

/* Reads eight bytes, little-endian, from an address that is a multiple of ALIGN. */
template <int ALIGN> LS_DEVICE u64 read(const unsigned char *p) {
    if (ALIGN == 8) return *(const u64 *)p;
    if (ALIGN == 4) return *(const uint32_t *)p | (u64) * (const uint32_t *)(p + 4) << 32;
    u64 x = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) x |= (u64)p[i] << 8 * i;
    return x;
}

/* Returns what a stripe adds to this lane's accumulator; to its neighbour's it adds the data itself. */
LS_DEVICE u64 own_sum(u64 data, u64 key) {
    u64 mixed = data ^ key;
    return (mixed & 0xFFFFFFFFull) * (mixed >> 32);
}

/* ---- more than 240 bytes ----------------------------------------------------------------------------------------- */

/* Sums the stripes of each 1024 bytes into sums[block], with eight threads a block: thread i takes the bytes 8i … 8i + 7 of every
 * stripe. The last block has `last_stripes` stripes. */
template <int ALIGN>
LS_DEVICE void sum_blocks(const unsigned char *x, unsigned blocks, unsigned last_stripes, u64 (*sums)[LANES],
                          unsigned thread, unsigned threads) {
    const unsigned lane = thread % LANES;
    u64 key[STRIPES];
#pragma unroll
    for (int s = 0; s < STRIPES; s++) key[s] = read<8>(secret + 8 * (s + lane));
    /* Every thread goes round equally often, as neighbours exchange. */
    for (unsigned first = 0; first < blocks; first += threads / LANES) {
        const unsigned b = first + thread / LANES, stripes = b + 1 < blocks ? (unsigned)STRIPES
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

/* Returns the xor of the halves of the 128-bit product. */
LS_DEVICE u64 fold(u64 a, u64 b) { return (a * b) ^ (u64)__umul64hi(a, b); }

/* Mixes the bits of XXH3's results (XXH3_avalanche). */
LS_DEVICE u64 avalanche(u64 h) {
    h = (h ^ h >> 37) * 0x165667919E3779F9ull;
    return h ^ h >> 32;
}

/* Merges the eight accumulators to half of the hash; `key`: the place in the secret. */
LS_DEVICE u64 merge(const u64 *acc, int key, u64 start) {
    u64 h = start;
    for (int i = 0; i < LANES; i += 2)
        h += fold(acc[i] ^ read<1>(secret + key + 8 * i), acc[i + 1] ^ read<1>(secret + key + 8 * i + 8));
    return avalanche(h);
}

/* Returns the hash of n > 240 bytes to all of `threads` threads, which compute it together and call sync() to synchronize;
 * `sums` has room for `room` blocks. */
template <class S>
LS_DEVICE hash128 hash_long(const unsigned char *x, size_t n, int align, u64 (*sums)[LANES], unsigned room, u64 *acc,
                            unsigned thread, unsigned threads, const S &sync) {
    const size_t whole = (n - 1) / BLOCK_BYTES;
    const unsigned last_stripes = (unsigned)(n - 1 - whole * BLOCK_BYTES) / STRIPE_BYTES, i = thread;
    u64 own = i < LANES ? start[i] : 0;
    for (size_t first = 0; first <= whole; first += room) {
        const unsigned blocks = whole + 1 - first < room ? (unsigned)(whole + 1 - first) : room;
        const unsigned stripes = first + blocks > whole ? last_stripes : (unsigned)STRIPES;
        const unsigned char *at = x + first * BLOCK_BYTES;
        if (align == 8)
            sum_blocks<8>(at, blocks, stripes, sums, thread, threads);
        else if (align == 4)
            sum_blocks<4>(at, blocks, stripes, sums, thread, threads);
        else
            sum_blocks<1>(at, blocks, stripes, sums, thread, threads);
        sync();
        for (unsigned b = 0; i < LANES && b < blocks; b++) {
            own += sums[b][i];
            if (first + b < whole) own = (own ^ own >> 47 ^ read<8>(secret + SCRAMBLE_KEY + 8 * i)) * PRIME32_1;
        }
        sync();
    }
    if (i < LANES) {
        const unsigned char *last = x + n - STRIPE_BYTES;
        acc[i] = own + own_sum(read<1>(last + 8 * i), read<1>(secret + LAST_KEY + 8 * i)) + read<1>(last + 8 * (i ^ 1));
    }
    sync();
    return {merge(acc, MERGE_LOW_KEY, n * PRIME64_1), merge(acc, MERGE_HIGH_KEY, ~(n * PRIME64_2))};
}

/* ---- up to 240 bytes --------------------------------------------------------------------------------------------- */

/* Reads eight bytes, little-endian, from any address. */
LS_DEVICE u64 read8(const unsigned char *p) { return read<1>(p); }
/* Reads four bytes, little-endian, from any address. */
LS_DEVICE uint32_t read4(const unsigned char *p) {
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
/* Returns the xor of two neighbouring keys of eight bytes of the secret. */
LS_DEVICE u64 flip(int key) { return read8(secret + key) ^ read8(secret + key + 8); }

/* Returns x with its bytes in the opposite order. */
LS_DEVICE u64 swap8(u64 x) {
    x = (x & 0x00FF00FF00FF00FFull) << 8 | (x >> 8 & 0x00FF00FF00FF00FFull);
    x = (x & 0x0000FFFF0000FFFFull) << 16 | (x >> 16 & 0x0000FFFF0000FFFFull);
    return x << 32 | x >> 32;
}

/* Mixes as the older XXH64 does. */
LS_DEVICE u64 avalanche64(u64 h) {
    h = (h ^ h >> 33) * PRIME64_2;
    h = (h ^ h >> 29) * PRIME64_3;
    return h ^ h >> 32;
}

/* Mixes 16 bytes with the secret. */
LS_DEVICE u64 mix(const unsigned char *x, int key) {
    return fold(read8(x) ^ read8(secret + key), read8(x + 8) ^ read8(secret + key + 8));
}

/* Mixes 16 bytes at x into one half of the hash and 16 at y into the other. */
LS_DEVICE void mix_both(hash128 &h, const unsigned char *x, const unsigned char *y, int key) {
    h.lo = (h.lo + mix(x, key)) ^ (read8(y) + read8(y + 8));
    h.hi = (h.hi + mix(y, key + 16)) ^ (read8(x) + read8(x + 8));
}

/* Returns the hash of n bytes, 1 to 3. */
LS_DEVICE hash128 hash_to_3(const unsigned char *x, unsigned n) {
    const uint32_t lo = (uint32_t)x[0] << 16 | (uint32_t)x[n / 2] << 24 | x[n - 1] | n << 8;
    const uint32_t swapped = (uint32_t)(swap8(lo) >> 32), hi = swapped << 13 | swapped >> 19;
    return {avalanche64(lo ^ (u64)(read4(secret) ^ read4(secret + 4))),
            avalanche64(hi ^ (u64)(read4(secret + 8) ^ read4(secret + 12)))};
}

/* Returns the hash of n bytes, 4 to 8. */
LS_DEVICE hash128 hash_to_8(const unsigned char *x, unsigned n) {
    const u64 keyed = (read4(x) | (u64)read4(x + n - 4) << 32) ^ flip(16), by = PRIME64_1 + (n << 2);
    u64 lo = keyed * by, hi = (u64)__umul64hi(keyed, by);
    hi += lo << 1;
    lo ^= hi >> 3;
    lo = (lo ^ lo >> 35) * 0x9FB21C651E98DF25ull;
    return {lo ^ lo >> 28, avalanche(hi)};
}

/* Returns the hash of n bytes, 9 to 16. */
LS_DEVICE hash128 hash_to_16(const unsigned char *x, unsigned n) {
    const u64 first = read8(x), last = read8(x + n - 8), keyed = first ^ last ^ flip(32), high = last ^ flip(48);
    u64 lo = keyed * PRIME64_1 + ((u64)(n - 1) << 54), hi = (u64)__umul64hi(keyed, PRIME64_1);
    hi += high + (high & 0xFFFFFFFFull) * (PRIME32_2 - 1);
    lo ^= swap8(hi);
    return {avalanche(lo * PRIME64_2), avalanche((u64)__umul64hi(lo, PRIME64_2) + hi * PRIME64_2)};
}

/* Returns the hash of n bytes, 17 to 240. */
LS_DEVICE hash128 hash_to_240(const unsigned char *x, unsigned n) {
    enum { FIRST = 128, OFFSET = 3, LAST = 103 };
    hash128 h = {n * PRIME64_1, 0};
    if (n <= FIRST) {
        for (int i = (int)(n - 1) / 32; i >= 0; i--) mix_both(h, x + 16 * i, x + n - 16 * (i + 1), 32 * i);
    } else {
        for (unsigned i = 0; i < FIRST; i += 32) mix_both(h, x + i, x + i + 16, (int)i);
        h = {avalanche(h.lo), avalanche(h.hi)};
        for (unsigned i = FIRST; i + 32 <= n; i += 32) mix_both(h, x + i, x + i + 16, (int)(OFFSET + i - FIRST));
        mix_both(h, x + n - 16, x + n - 32, LAST);
    }
    return {avalanche(h.lo + h.hi), 0ull - avalanche(h.lo * PRIME64_1 + h.hi * PRIME64_4 + n * PRIME64_2)};
}

/* Returns the hash of n ≤ 240 bytes; one thread computes it. */
LS_DEVICE hash128 hash_short(const unsigned char *x, unsigned n) {
    if (n > 16) return hash_to_240(x, n);
    if (n > 8) return hash_to_16(x, n);
    if (n > 3) return hash_to_8(x, n);
    if (n > 0) return hash_to_3(x, n);
    return {avalanche64(flip(64)), avalanche64(flip(80))};
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* Hashes a piece of memory per block of threads. */
LS_KERNEL(hash_pieces, ls_cuda_hash, LS_CUDA_HASH_THREADS) {
    __shared__ u64 sums[BLOCKS][LANES], accumulators[LANES];
    const size_t begin = (size_t)blockIdx.x * a.piece, left = a.bytes - begin, n = left < a.piece ? left : a.piece;
    const unsigned char *x = a.x + begin;
    hash128 h = {0, 0};
    if (n > SHORT_BYTES)
        h = hash_long(x, n, a.align, sums, BLOCKS, accumulators, threadIdx.x, blockDim.x, [] { __syncthreads(); });
    else if (threadIdx.x == 0)
        h = hash_short(x, (unsigned)n);
    if (threadIdx.x > 0) return;
    a.out[2 * (size_t)blockIdx.x] = a.canonical ? swap8(h.hi) : h.lo;
    a.out[2 * (size_t)blockIdx.x + 1] = a.canonical ? swap8(h.lo) : h.hi;
}

/* Loads a block of n elements into shared memory as fp32 bit patterns, by one warp; every NaN becomes the one NaN. */
template <class T> LS_DEVICE void load_block(const T *x, unsigned n, uint32_t *to) {
    for (unsigned i = threadIdx.x % 32; i < n; i += 32) {
        const uint32_t bits = __float_as_uint(load(x + i));
        to[i] = (bits & 0x7FFFFFFFu) > 0x7F800000u ? LS_NAN_BITS : bits;
    }
}

/* Hashes a block of LS_CUDA_HASH_BLOCK elements, as fp32 numbers, per warp. */
LS_KERNEL(hash_blocks, ls_cuda_hash_blocks, LS_CUDA_HASH_THREADS) {
    enum { WARPS = LS_CUDA_HASH_THREADS / 32, ROOM = LS_CUDA_HASH_BLOCK * 4 / BLOCK_BYTES };
    alignas(8) __shared__ uint32_t blocks[WARPS][LS_CUDA_HASH_BLOCK];
    __shared__ u64 sums[WARPS][ROOM][LANES], accumulators[WARPS][LANES];
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const size_t block = (size_t)blockIdx.x * WARPS + warp, begin = block * LS_CUDA_HASH_BLOCK;
    if (begin >= a.n) return;
    const unsigned n = a.n - begin < LS_CUDA_HASH_BLOCK ? (unsigned)(a.n - begin) : (unsigned)LS_CUDA_HASH_BLOCK;
    LS_BY_TYPE(a.dtype, T, { load_block((const T *)a.x + begin, n, blocks[warp]); });
    __syncwarp();
    const unsigned char *x = (const unsigned char *)blocks[warp];
    hash128 h = {0, 0};
    if (n * 4 > SHORT_BYTES)
        h = hash_long(x, n * 4, 8, sums[warp], ROOM, accumulators[warp], lane, 32, [] { __syncwarp(); });
    else if (lane == 0)
        h = hash_short(x, n * 4);
    if (lane > 0) return;
    a.out[2 * block] = h.lo;
    a.out[2 * block + 1] = h.hi;
}
