/* optim.cu: optimizer steps and squared norms (docs/arithmetic.md, "Optimizers", "Squared norm"). */
#include "device/cuda/args/optim.h"
#include "device/cuda/common/pack.cuh"

/* ---- factors of state sums (numerics/state_sum.h) ---------------------------------------------------------------- */

LS_DEVICE uint32_t state_place(uint32_t i) {
    uint32_t z = (i + 1) * 0x9e3779b1u;
    z = (z ^ (z >> 15)) * 0x85ebca77u;
    z = (z ^ (z >> 13)) * 0xc2b2ae3du;
    return (z ^ (z >> 16)) | 1;
}

LS_DEVICE uint64_t state_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

struct state_factors { uint64_t lo, hi; };

LS_DEVICE state_factors factors_of(uint64_t tensor, uint64_t block) {
    const uint64_t seed = (tensor + 1) * 0x9e3779b97f4a7c15ull + block * 0xd1b54a32d192ed03ull;
    return {state_mix(seed) | 1, state_mix(seed ^ 0xa0761d6478bd642full) | 1};
}

/* Sum of the lanes of a warp, in its first. */
LS_DEVICE uint64_t warp_total(uint64_t x) {
    for (unsigned half = 16; half > 0; half /= 2) x = x + __shfl_down_sync(~0u, x, half, 32);
    return x;
}

/* ---- updates ----------------------------------------------------------------------------------------------------- */

/* A 16-bit copy of the new weights, where there is one. */
template <int W> LS_DEVICE void store_copy(void *copy, int dtype, size_t i, const pack<W> &w) {
    if (!copy) return;
    if (dtype == LS_CUDA_BF16)
        store_pack<W>((bf16 *)copy + i, w);
    else
        store_pack<W>((f16 *)copy + i, w);
}

/* NaN is not below anything and stays. */
LS_DEVICE float flush(float x) { return __uint_as_float(__float_as_uint(x) & 0x7FFFFFFFu) < 0x1p-126f ? 0.0f : x; }

/* The piece of a block, in shared memory, and its elements begin … end − 1 of it. */
struct update_part {
    const ls_cuda_update_piece *piece;
    size_t begin, end;
};

LS_DEVICE update_part find_part(const ls_cuda_update &a, ls_cuda_update_piece *space) {
    unsigned low = 0, high = a.count; /* first[low] ≤ the block < first[high] */
    while (low + 1 < high) {
        const unsigned middle = (low + high) / 2;
        if (a.first[middle] <= blockIdx.x)
            low = middle;
        else
            high = middle;
    }
    const uint32_t *from = (const uint32_t *)(a.many ? a.many + low : a.few + low);
    for (unsigned i = threadIdx.x; i < sizeof *space / 4; i += blockDim.x) ((uint32_t *)space)[i] = from[i];
    __syncthreads();
    const size_t begin = (size_t)(blockIdx.x - a.first[low]) * LS_CUDA_UPDATE_ELEMS, n = space->n;
    return {space, begin, begin + LS_CUDA_UPDATE_ELEMS < n ? begin + LS_CUDA_UPDATE_ELEMS : n};
}

/* State sums of what a block of threads writes, of N tensors, from its registers. The next pack of a thread is a block
 * of the sums further on: so its places in these are the same for all its packs. */
template <int N> struct written_sums {
    enum { BLOCKS = LS_CUDA_UPDATE_ELEMS / LS_CUDA_STATE_BLOCK + 1, WARPS = LS_CUDA_PACK_THREADS / 32 };
    struct room {
        state_factors by[N][BLOCKS], warp[N][WARPS];
    };
    room &space;
    const size_t begin;
    unsigned from; /* place of the block's first element */
    uint32_t place[4];
    uint64_t lo[N] = {}, hi[N] = {};

    LS_DEVICE written_sums(room &shared, const update_part &part) : space(shared), begin(part.begin) {
        const uint64_t first = part.piece->first + part.begin;
        from = (unsigned)(first % LS_CUDA_STATE_BLOCK);
        for (unsigned i = threadIdx.x; i < N * BLOCKS; i += blockDim.x)
            space.by[i / BLOCKS][i % BLOCKS] =
                factors_of(part.piece->tensor + i / BLOCKS, first / LS_CUDA_STATE_BLOCK + i % BLOCKS);
#pragma unroll
        for (int k = 0; k < 4; k++) place[k] = state_place((from + 4 * threadIdx.x + k) % LS_CUDA_STATE_BLOCK);
        __syncthreads();
    }

    LS_DEVICE static uint64_t times(float x, uint32_t place) { return (uint64_t)__float_as_uint(x) * place; }

    LS_DEVICE uint64_t in_block(const pack<4> &x, unsigned) const {
        uint64_t sum = 0;
#pragma unroll
        for (int k = 0; k < 4; k++) sum += times(x.v[k], place[k]);
        return sum;
    }
    LS_DEVICE uint64_t in_block(const pack<1> &x, unsigned at) const {
        return times(x.v[0], state_place(at % LS_CUDA_STATE_BLOCK));
    }

    /* Elements i … of the piece, of tensor t. */
    template <int W> LS_DEVICE void add(int t, size_t i, const pack<W> &x) {
        const unsigned at = from + (unsigned)(i - begin);
        const state_factors by = space.by[t][at / LS_CUDA_STATE_BLOCK];
        const uint64_t sum = in_block(x, at);
        lo[t] += sum * by.lo;
        hi[t] += sum * by.hi;
    }

    /* Every thread comes by when it has added all. */
    LS_DEVICE void flush(unsigned long long *out) {
#pragma unroll
        for (int t = 0; t < N; t++) {
            const state_factors total = {warp_total(lo[t]), warp_total(hi[t])};
            if (threadIdx.x % 32 == 0) space.warp[t][threadIdx.x / 32] = total;
        }
        __syncthreads();
        if (threadIdx.x >= N) return;
        state_factors sum = {0, 0};
        for (int w = 0; w < WARPS; w++) {
            sum.lo += space.warp[threadIdx.x][w].lo;
            sum.hi += space.warp[threadIdx.x][w].hi;
        }
        atomicAdd(out + 2 * threadIdx.x, (unsigned long long)sum.lo);
        atomicAdd(out + 2 * threadIdx.x + 1, (unsigned long long)sum.hi);
    }
};

/* As each_elem(), of a block's own. */
template <int W, int U, class L, class F> LS_DEVICE void each_own(const update_part &p, const L &load, const F &finish) {
    const size_t whole = p.piece->aligned ? p.begin + (p.end - p.begin) / W * W : p.begin;
    walk_own<W, U>(p.begin, whole, load, finish);
    walk_own<1, U>(whole, p.end, load, finish);
}

template <int W> struct adamw_packs { pack<W> g, m, v, w; };

LS_KERNEL(adamw, ls_cuda_update, LS_CUDA_PACK_THREADS) {
    __shared__ ls_cuda_update_piece space;
    __shared__ written_sums<3>::room room;
    const update_part part = find_part(a, &space);
    const ls_cuda_update_piece p = *part.piece;
    written_sums<3> sums(room, part);
    each_own<4, LS_CUDA_OPTIM_PACKS>(
        part,
        [&](auto w, size_t i) {
            return adamw_packs<w.n>{load_pack<w.n>(p.g + i), load_pack<w.n>(p.moment[0] + i),
                                    load_pack<w.n>(p.moment[1] + i), load_pack<w.n>(p.w + i)};
        },
        [&](auto width, size_t i, const auto &in) {
            pack<width.n> m, v, w;
#pragma unroll
            for (int k = 0; k < width.n; k++) {
                float g = p.factor * in.g.v[k];
                m.v[k] = flush(__fmaf_rn(p.beta1, in.m.v[k], p.beta1_rest * g));
                v.v[k] = flush(__fmaf_rn(p.beta2, in.v.v[k], p.beta2_rest * (g * g)));
                float e = __fmaf_rn(__fsqrt_rn(v.v[k]), p.root, p.epsilon);
                w.v[k] = __fmaf_rn(-p.rate, __fdiv_rn(m.v[k], e), in.w.v[k] * p.decay);
            }
            store_pack<width.n>(p.moment[0] + i, m);
            store_pack<width.n>(p.moment[1] + i, v);
            store_pack<width.n>(p.w + i, w);
            store_copy(p.copy, p.copy_dtype, i, w);
            sums.add(0, i, w);
            sums.add(1, i, m);
            sums.add(2, i, v);
        });
    if (p.sums) sums.flush(p.sums);
}

template <int W> struct sgd_packs { pack<W> g, b, w; };

LS_KERNEL(sgd, ls_cuda_update, LS_CUDA_PACK_THREADS) {
    __shared__ ls_cuda_update_piece space;
    __shared__ written_sums<2>::room room;
    const update_part part = find_part(a, &space);
    const ls_cuda_update_piece p = *part.piece;
    written_sums<2> sums(room, part);
    float *moment = p.moment[0];
    each_own<4, LS_CUDA_OPTIM_PACKS>(
        part,
        [&](auto w, size_t i) {
            sgd_packs<w.n> in = {load_pack<w.n>(p.g + i), {}, load_pack<w.n>(p.w + i)};
            if (moment) in.b = load_pack<w.n>(moment + i);
            return in;
        },
        [&](auto width, size_t i, const auto &in) {
            pack<width.n> b, w;
#pragma unroll
            for (int k = 0; k < width.n; k++) {
                float g = __fmaf_rn(p.weight_decay, in.w.v[k], p.factor * in.g.v[k]);
                b.v[k] = __fmaf_rn(p.momentum, in.b.v[k], g);
                if (moment) g = p.nesterov ? __fmaf_rn(p.momentum, b.v[k], g) : b.v[k];
                w.v[k] = __fmaf_rn(-p.rate, g, in.w.v[k]);
            }
            if (moment) store_pack<width.n>(moment + i, b);
            store_pack<width.n>(p.w + i, w);
            store_copy(p.copy, p.copy_dtype, i, w);
            sums.add(0, i, w);
            if (moment) sums.add(1, i, b);
        });
    if (p.sums) sums.flush(p.sums);
}

/* ---- squared norms ----------------------------------------------------------------------------------------------- */

/* Adds to an exact sum: 32 bits of a fixed-point integer in each word (numerics/exact_sum.c). Integers, so the order
 * does not matter. */
LS_DEVICE void exact_add(unsigned long long *words, double x) {
    const unsigned long long bits = (unsigned long long)__double_as_longlong(x), low32 = 0xFFFFFFFFull;
    const unsigned exponent = (unsigned)(bits >> 52) & 0x7FFu, place = exponent > 0 ? exponent - 1 : 0;
    if (exponent == 0x7FFu) {
        atomicAdd(words + LS_CUDA_EXACT_WORDS - 1, 1ull);
        return;
    }
    const unsigned long long fraction = (bits & 0xFFFFFFFFFFFFFull) | (exponent > 0 ? 1ull << 52 : 0ull);
    const unsigned long long low = (fraction & low32) << place % 32, high = (fraction >> 32) << place % 32;
    const unsigned long long part[3] = {low & low32, (low >> 32) + (high & low32), high >> 32};
#pragma unroll
    for (int i = 0; i < 3; i++)
        if (part[i]) atomicAdd(words + place / 32 + i, bits >> 63 ? 0ull - part[i] : part[i]);
}

/* Half a warp has a block of elements: thread j of sixteen is lane j. */
LS_KERNEL(square_sums, ls_cuda_squares, 16 * LS_CUDA_SQUARE_BLOCKS) {
    enum { AT_ONCE = 16 };
    __shared__ unsigned long long words[LS_CUDA_EXACT_WORDS];
    for (unsigned w = threadIdx.x; w < LS_CUDA_EXACT_WORDS; w += blockDim.x) words[w] = 0;
    __syncthreads();
    for (unsigned turn = blockIdx.x, piece = 0; turn < a.first[a.count]; turn += gridDim.x) {
        while (turn >= a.first[piece + 1]) piece++;
        const size_t all = a.n[piece];
        size_t begin = ((size_t)(turn - a.first[piece]) * LS_CUDA_SQUARE_BLOCKS + threadIdx.x / 16) * LS_CUDA_SQUARE_BLOCK;
        size_t left = begin < all ? all - begin : 0;
        size_t n = left < LS_CUDA_SQUARE_BLOCK ? left : (size_t)LS_CUDA_SQUARE_BLOCK;
        const float *x = a.x[piece] + begin;
        double lane = 0.0;
        size_t i = threadIdx.x % 16;
        for (; i + 16 * (AT_ONCE - 1) < n; i += 16 * AT_ONCE) {
            float v[AT_ONCE];
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) v[k] = x[i + 16 * k];
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) lane = __fma_rn((double)v[k], (double)v[k], lane);
        }
        for (; i < n; i += 16) lane = __fma_rn((double)x[i], (double)x[i], lane);
        for (unsigned half = 8; half > 0; half /= 2) lane = lane + __shfl_down_sync(~0u, lane, half, 16);
        if (n > 0 && threadIdx.x % 16 == 0) exact_add(words, lane);
    }
    __syncthreads();
    for (unsigned w = threadIdx.x; w < LS_CUDA_EXACT_WORDS; w += blockDim.x)
        if (words[w]) atomicAdd(a.words + w, words[w]);
}

/* ---- state sums -------------------------------------------------------------------------------------------------- */

/* A lane has four neighbours at a time: their places are the same in every block. */
enum { STATE_PACKS = LS_CUDA_STATE_BLOCK / 128 };

/* This lane's part of block `block` of the tensor, of which the piece may have only some. */
LS_DEVICE uint64_t state_lane(const ls_cuda_state_piece &p, uint64_t block, unsigned lane, const uint32_t (&place)[4 * STATE_PACKS]) {
    const uint64_t first = block * LS_CUDA_STATE_BLOCK, end = p.first + p.n;
    const unsigned from = p.first > first ? (unsigned)(p.first - first) : 0u;
    const unsigned to = end - first < LS_CUDA_STATE_BLOCK ? (unsigned)(end - first) : (unsigned)LS_CUDA_STATE_BLOCK;
    const float *x = p.x + (int64_t)(first - p.first) + 4 * lane;
    const bool is_whole = from == 0 && to == LS_CUDA_STATE_BLOCK && (size_t)x % 16 == 0;
    uint64_t sum = 0;
#pragma unroll
    for (int k = 0; k < STATE_PACKS; k++) {
        pack<4> v = {};
        if (is_whole) {
            v = load_pack<4>(x + 128 * k);
        } else {
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const unsigned i = 128 * k + 4 * lane + j;
                if (i >= from && i < to) v.v[j] = x[128 * k + j];
            }
        }
#pragma unroll
        for (int j = 0; j < 4; j++) sum += (uint64_t)__float_as_uint(v.v[j]) * place[4 * k + j];
    }
    return sum;
}

/* Adds what the lanes of a warp have, and begins anew. */
LS_DEVICE void state_flush(unsigned long long *out, uint64_t &lo, uint64_t &hi) {
    lo = warp_total(lo);
    hi = warp_total(hi);
    if (threadIdx.x % 32 == 0) {
        atomicAdd(out, (unsigned long long)lo);
        atomicAdd(out + 1, (unsigned long long)hi);
    }
    lo = hi = 0;
}

/* A warp has blocks that follow each other, so that few of its sums go to memory: all warps add to the same ones. */
LS_KERNEL(state_sums, ls_cuda_state, LS_CUDA_STATE_THREADS) {
    const unsigned lane = threadIdx.x % 32, warps = gridDim.x * (LS_CUDA_STATE_THREADS / 32);
    const unsigned warp = blockIdx.x * (LS_CUDA_STATE_THREADS / 32) + threadIdx.x / 32;
    const uint64_t turns = a.begin[a.count];
    const unsigned end = (unsigned)(turns * (warp + 1) / warps);
    unsigned turn = (unsigned)(turns * warp / warps), piece = 0;
    uint32_t place[4 * STATE_PACKS];
#pragma unroll
    for (int i = 0; i < 4 * STATE_PACKS; i++) place[i] = state_place(128 * (i / 4) + 4 * lane + i % 4);
    uint64_t lo = 0, hi = 0;
    if (turn >= end) return;
    while (turn >= a.begin[piece + 1]) piece++;
    for (; turn < end; turn++) {
        if (turn >= a.begin[piece + 1]) {
            state_flush(a.piece[piece].out, lo, hi);
            while (turn >= a.begin[piece + 1]) piece++;
        }
        const ls_cuda_state_piece &p = a.piece[piece];
        const uint64_t block = p.first / LS_CUDA_STATE_BLOCK + (turn - a.begin[piece]);
        const state_factors by = factors_of(p.tensor, block);
        const uint64_t sum = state_lane(p, block, lane, place);
        lo += sum * by.lo;
        hi += sum * by.hi;
    }
    state_flush(a.piece[piece].out, lo, hi);
}
