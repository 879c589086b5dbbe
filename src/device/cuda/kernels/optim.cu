/* optim.cu: optimizer steps, state sums (checksums of weights and optimizer state) and squared norms (docs/reference/arithmetic.md,
 * "Optimizers", "Squared norm"); launched by ops/optim.c. */
#include "device/cuda/args/optim.h"
#include "device/cuda/common/pack.cuh"

/* ---- factors of state sums (numerics/state_sum.h) ---------------------------------------------------------------- */

/* Returns the odd factor of element i of a block of state sums. */
LS_DEVICE uint32_t state_place(uint32_t i) {
    uint32_t z = (i + 1) * 0x9e3779b1u;
    z = (z ^ (z >> 15)) * 0x85ebca77u;
    z = (z ^ (z >> 13)) * 0xc2b2ae3du;
    return (z ^ (z >> 16)) | 1;
}

/* Mixes the bits of z (splitmix64). */
LS_DEVICE uint64_t state_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

struct state_factors { uint64_t lo, hi; };

/* Returns the odd factors by which the sum of a block of a tensor goes into lo and hi of its state sum. */
LS_DEVICE state_factors factors_of(uint64_t tensor, uint64_t block) {
    const uint64_t seed = (tensor + 1) * 0x9e3779b97f4a7c15ull + block * 0xd1b54a32d192ed03ull;
    return {state_mix(seed) | 1, state_mix(seed ^ 0xa0761d6478bd642full) | 1};
}

/* Returns the sum of a warp's lanes, modulo 2^64, to its first lane. */
LS_DEVICE uint64_t warp_total(uint64_t x) {
    for (unsigned half = 16; half > 0; half /= 2) x = x + __shfl_down_sync(~0u, x, half, 32);
    return x;
}

/* ---- updates ----------------------------------------------------------------------------------------------------- */

/* Stores a pack of new weights, rounded, to the 16-bit copy; nothing if `copy` is NULL. */
template <int W> LS_DEVICE void store_copy(void *copy, int dtype, size_t i, const pack<W> &w) {
    if (!copy) return;
    if (dtype == LS_CUDA_BF16)
        store_pack<W>((bf16 *)copy + i, w);
    else
        store_pack<W>((f16 *)copy + i, w);
}

/* Rounds four weights to the type of the 16-bit copy and packs them by twos. */
LS_DEVICE void copy_words(int dtype, const pack<4> &w, uint32_t (&two)[2]) {
    if (dtype == LS_CUDA_BF16)
        bits_of_all(bf16(), w, two);
    else
        bits_of_all(f16(), w, two);
}

/* Returns +0 for |x| < 2^−126, else x; NaN stays. */
LS_DEVICE float flush(float x) { return __uint_as_float(__float_as_uint(x) & 0x7FFFFFFFu) < 0x1p-126f ? 0.0f : x; }

/* The part of a thread block: its piece, in shared memory, and elements begin … end − 1 of that. */
struct update_part {
    const ls_cuda_update_piece *piece;
    size_t begin, end;
};

/* Finds the piece of this block by bisection, and copies it to `space`. */
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

/* w and moments, and the gradient, of four neighbours. */
template <int N> struct state_pack { pack<4> g, x[N]; };

/* A thread's share of a tile: a block of threads processes one block of sums (LS_CHECK_BLOCK) at a time. */
template <int N> struct state_tile { state_pack<N> pack[LS_CUDA_OPTIM_PACKS]; };

/* Returns state t of a piece: w, then the moments; NULL if there is none. */
LS_DEVICE float *state_at(const ls_cuda_update_piece &p, int t) { return t == 0 ? p.w : p.moment[t - 1]; }

/* Returns the first element of pack u of this thread, in the tile that begins with element `begin`. */
LS_DEVICE size_t pack_at(size_t begin, int u) { return begin + 4 * ((size_t)u * LS_CUDA_PACK_THREADS + threadIdx.x); }

/* Returns whether an element belongs to the piece. */
LS_DEVICE bool is_in(const ls_cuda_update_piece &p, size_t i) { return i >= p.from && i < p.n; }

/* Loads a tile; elements outside the piece are 0. */
template <int N> LS_DEVICE void load_tile(const ls_cuda_update_piece &p, size_t begin, bool is_whole, state_tile<N> &tile) {
#pragma unroll
    for (int u = 0; u < LS_CUDA_OPTIM_PACKS; u++) {
        const size_t i = pack_at(begin, u);
        state_pack<N> &in = tile.pack[u];
        in = {};
        if (is_whole) {
            if (p.mode == LS_CUDA_UPDATE_STEP) in.g = load_pack<4>(p.g + i);
#pragma unroll
            for (int t = 0; t < N; t++)
                if (state_at(p, t)) in.x[t] = load_pack<4>(state_at(p, t) + i);
        } else {
#pragma unroll
            for (int k = 0; k < 4; k++) {
                if (!is_in(p, i + k)) continue;
                if (p.mode == LS_CUDA_UPDATE_STEP) in.g.v[k] = p.g[i + k];
#pragma unroll
                for (int t = 0; t < N; t++)
                    if (state_at(p, t)) in.x[t].v[k] = state_at(p, t)[i + k];
            }
        }
    }
}

/* Stores the new states of a tile and its 16-bit copy; elements outside the piece are left alone. */
template <int N>
LS_DEVICE void store_tile(const ls_cuda_update_piece &p, size_t begin, bool is_whole, const state_tile<N> &tile) {
#pragma unroll
    for (int u = 0; u < LS_CUDA_OPTIM_PACKS; u++) {
        const size_t i = pack_at(begin, u);
        const state_pack<N> &out = tile.pack[u];
        if (is_whole) {
#pragma unroll
            for (int t = N - 1; t >= 0; t--)
                if (state_at(p, t)) store_pack<4>(state_at(p, t) + i, out.x[t]);
            store_copy(p.copy, p.copy_dtype, i, out.x[0]);
        } else {
#pragma unroll
            for (int k = 0; k < 4; k++) {
                if (!is_in(p, i + k)) continue;
#pragma unroll
                for (int t = 0; t < N; t++)
                    if (state_at(p, t)) state_at(p, t)[i + k] = out.x[t].v[k];
                store_copy(p.copy, p.copy_dtype, i + k, pack<1>{{out.x[0].v[k]}});
            }
        }
    }
}

/* State sums of the tiles of a block of threads, for N tensors. The packs of a thread are a block of the state sums apart,
 * so their places in these blocks are the same. */
template <int N> struct state_sums_of {
    enum { BLOCKS = LS_CUDA_UPDATE_ELEMS / LS_CUDA_STATE_BLOCK + 1, WARPS = LS_CUDA_PACK_THREADS / 32 };
    struct room {
        state_factors by[N][BLOCKS];
        uint64_t warp[N][WARPS], tile[2][2][N][WARPS]; /* by turn: a warp may be a tile ahead of another; before the update, and after */
        uint64_t copy[2][WARPS];                       /* lo, hi of what a warp has written to the 16-bit copy */
    };
    room &space;
    const ls_cuda_update_piece &piece;
    const size_t begin;
    unsigned from; /* place of the block's first element */
    uint32_t place[4];
    uint64_t lo = 0, hi[N] = {}; /* lo: of tensor threadIdx.x alone, of all threads */

    /* Prepares the factors for a part that begins with element `begin` of the piece. All threads of the block call it. */
    LS_DEVICE state_sums_of(room &shared, const ls_cuda_update_piece &p, size_t begin) : space(shared), piece(p), begin(begin) {
        const uint64_t first = p.first + begin;
        from = (unsigned)(first % LS_CUDA_STATE_BLOCK);
        for (unsigned i = threadIdx.x; i < N * BLOCKS; i += blockDim.x)
            space.by[i / BLOCKS][i % BLOCKS] = factors_of(p.tensor + i / BLOCKS, first / LS_CUDA_STATE_BLOCK + i % BLOCKS);
        if (threadIdx.x < 2 * WARPS) space.copy[threadIdx.x / WARPS][threadIdx.x % WARPS] = 0;
#pragma unroll
        for (int k = 0; k < 4; k++) place[k] = state_place((from + 4 * threadIdx.x + k) % LS_CUDA_STATE_BLOCK);
        __syncthreads();
    }

    /* Returns the bits of x times the factor of this thread's element k. */
    LS_DEVICE uint64_t times(float x, int k) const { return (uint64_t)__float_as_uint(x) * place[k]; }

    /* Returns what elements i … i + 3 of state t add to lo and hi of its state sum. */
    LS_DEVICE state_factors sum(int t, size_t i, const pack<4> &x) const {
        const unsigned at = from + (unsigned)(i - begin);
        if (piece.aligned) {
            const state_factors by = space.by[t][at / LS_CUDA_STATE_BLOCK];
            const uint64_t all = times(x.v[0], 0) + times(x.v[1], 1) + times(x.v[2], 2) + times(x.v[3], 3);
            return {all * by.lo, all * by.hi};
        }
        state_factors all = {0, 0};
        for (int k = 0; k < 4; k++) {
            const unsigned block = (at + k) / LS_CUDA_STATE_BLOCK;
            if (block >= BLOCKS) break; /* behind the last element */
            all.lo += times(x.v[k], k) * space.by[t][block].lo;
            all.hi += times(x.v[k], k) * space.by[t][block].hi;
        }
        return all;
    }

    /* Stores each warp's part of a tile's sum of tensor t; tile_sum() adds them after a barrier. */
    LS_DEVICE void give_tile(int t, unsigned turn, int after, uint64_t x) {
        x = warp_total(x);
        if (threadIdx.x % 32 == 0) space.tile[turn % 2][after][t][threadIdx.x / 32] = x;
    }
    /* Returns a tile's sum of state t, before or after the update. */
    LS_DEVICE uint64_t tile_sum(int t, unsigned turn, int after) const {
        uint64_t sum = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++) sum += space.tile[turn % 2][after][t][w];
        return sum;
    }

    /* Returns to all threads whether the sums of a tile are those recorded; notes the damage if not. */
    LS_DEVICE bool check(size_t tile_begin, unsigned turn, const state_tile<N> &tile) {
        const size_t block = tile_begin / LS_CUDA_CHECK_BLOCK;
        const unsigned long long *recorded = piece.check + LS_CUDA_CHECK_STATES * block;
#pragma unroll
        for (int t = 0; t < N; t++) {
            uint64_t found = 0;
#pragma unroll
            for (int u = 0; u < LS_CUDA_OPTIM_PACKS; u++) found += sum(t, pack_at(tile_begin, u), tile.pack[u].x[t]).lo;
            give_tile(t, turn, 0, found);
        }
        __syncthreads();
        bool is_same = true;
#pragma unroll
        for (int t = 0; t < N; t++) {
            if (!state_at(piece, t) || tile_sum(t, turn, 0) == recorded[t]) continue;
            is_same = false;
            if (threadIdx.x == 0)
                atomicMax(piece.damage, ~(piece.damage_first + ((unsigned long long)t << LS_CUDA_CHECK_STATE_BIT) + block));
        }
        return is_same;
    }

    /* Adds a tile, as it is after the update, to the state sums, and records its block sums if the piece keeps any. */
    LS_DEVICE void add(size_t tile_begin, unsigned turn, const state_tile<N> &tile) {
#pragma unroll
        for (int t = 0; t < N; t++) {
            uint64_t written = 0;
#pragma unroll
            for (int u = 0; u < LS_CUDA_OPTIM_PACKS; u++) {
                const state_factors more = sum(t, pack_at(tile_begin, u), tile.pack[u].x[t]);
                written += more.lo;
                hi[t] += more.hi;
            }
            give_tile(t, turn, 1, written);
        }
        __syncthreads();
        if (threadIdx.x >= N) return;
        const uint64_t all = tile_sum(threadIdx.x, turn, 1);
        lo += all;
        if (piece.check && state_at(piece, threadIdx.x))
            piece.check[LS_CUDA_CHECK_STATES * (tile_begin / LS_CUDA_CHECK_BLOCK) + threadIdx.x] = all;
    }

    /* Adds the tile's part of the 16-bit copy, from registers: a sum that read the copy back would also record damage that came in between. The tile is
     * one block of the copy's state sum, and elements outside of the piece are 0. */
    LS_DEVICE void add_copy(size_t tile_begin, const state_tile<N> &tile) {
        uint64_t all = 0;
#pragma unroll
        for (int u = 0; u < LS_CUDA_OPTIM_PACKS; u++) {
            const unsigned at = (unsigned)(pack_at(tile_begin, u) - tile_begin) / 2;
            uint32_t two[2];
            copy_words(piece.copy_dtype, tile.pack[u].x[0], two);
            all += (uint64_t)two[0] * state_place(at) + (uint64_t)two[1] * state_place(at + 1);
        }
        all = warp_total(all);
        if (threadIdx.x % 32 != 0) return;
        const state_factors by = factors_of(piece.copy_tensor, (piece.copy_first + tile_begin) / LS_CUDA_CHECK_BLOCK);
        space.copy[0][threadIdx.x / 32] += all * by.lo;
        space.copy[1][threadIdx.x / 32] += all * by.hi;
    }

    /* Adds the block's state sums to `out` in global memory (NULL: nowhere), and those of the 16-bit copy to piece.copy_sums. All
     * threads call it, once, after their last add(). */
    LS_DEVICE void flush(unsigned long long *out) {
#pragma unroll
        for (int t = 0; t < N; t++) {
            const uint64_t total = warp_total(hi[t]);
            if (threadIdx.x % 32 == 0) space.warp[t][threadIdx.x / 32] = total;
        }
        __syncthreads();
        if (piece.copy_sums && threadIdx.x - N < 2u) {
            uint64_t sum = 0;
            for (int w = 0; w < WARPS; w++) sum += space.copy[threadIdx.x - N][w];
            atomicAdd(piece.copy_sums + (threadIdx.x - N), (unsigned long long)sum);
        }
        if (!out || threadIdx.x >= N) return;
        uint64_t sum = 0;
        for (int w = 0; w < WARPS; w++) sum += space.warp[threadIdx.x][w];
        atomicAdd(out + 2 * threadIdx.x, (unsigned long long)lo);
        atomicAdd(out + 2 * threadIdx.x + 1, (unsigned long long)sum);
    }
};

/* Runs the mode of a part tile by tile; rule(g, x) updates w and moments of one element. If the piece has sums to compare with and
 * a place for damage, a tile is compared before any of it is stored: one that differs stays as it is, and so do its recorded sums,
 * and nothing of it goes into the state sums. */
template <int N, class R>
LS_DEVICE void update_part_by(const update_part &part, typename state_sums_of<N>::room &room, const R &rule) {
    const ls_cuda_update_piece &p = *part.piece;
    state_sums_of<N> sums(room, p, part.begin);
    const bool compares = p.check && p.damage && p.mode != LS_CUDA_UPDATE_RECORD;
    unsigned turn = 0;
    LS_NO_UNROLL for (size_t begin = part.begin; begin < part.end; begin += LS_CUDA_CHECK_BLOCK, turn++) {
        const bool is_whole = p.aligned && begin >= p.from && begin + LS_CUDA_CHECK_BLOCK <= p.n;
        state_tile<N> tile;
        if (begin + LS_CUDA_CHECK_BLOCK <= p.from) continue;
        load_tile(p, begin, is_whole, tile);
        if (compares && !sums.check(begin, turn, tile)) continue;
        if (p.mode == LS_CUDA_UPDATE_CHECK) continue;
        if (p.mode == LS_CUDA_UPDATE_STEP) {
#pragma unroll
            for (int u = 0; u < LS_CUDA_OPTIM_PACKS; u++)
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    float x[N];
#pragma unroll
                    for (int t = 0; t < N; t++) x[t] = tile.pack[u].x[t].v[k];
                    rule(tile.pack[u].g.v[k], x);
                    const bool is_there = is_whole || is_in(p, pack_at(begin, u) + k);
#pragma unroll
                    for (int t = 0; t < N; t++) tile.pack[u].x[t].v[k] = is_there ? x[t] : 0.0f;
                }
            store_tile(p, begin, is_whole, tile);
            if (p.copy_sums) sums.add_copy(begin, tile);
        }
        sums.add(begin, turn, tile);
    }
    if ((p.sums || p.copy_sums) && p.mode != LS_CUDA_UPDATE_CHECK) sums.flush(p.sums);
}

/* Updates, checks or records the pieces with AdamW's three states: w and two moments. */
LS_KERNEL(adamw, ls_cuda_update, LS_CUDA_PACK_THREADS) {
    __shared__ ls_cuda_update_piece space;
    __shared__ state_sums_of<3>::room room;
    const update_part part = find_part(a, &space);
    const ls_cuda_update_piece &p = *part.piece;
    update_part_by<3>(part, room, [&](float grad, float (&x)[3]) {
        const float g = p.factor * grad;
        x[1] = flush(__fmaf_rn(p.beta1, x[1], p.beta1_rest * g));
        x[2] = flush(__fmaf_rn(p.beta2, x[2], p.beta2_rest * (g * g)));
        const float e = __fmaf_rn(__fsqrt_rn(x[2]), p.root, p.epsilon);
        x[0] = __fmaf_rn(-p.rate, __fdiv_rn(x[1], e), x[0] * p.decay);
    });
}

/* Updates, checks or records the pieces with SGD's states: w and, with momentum, one moment. */
LS_KERNEL_MANY(sgd, ls_cuda_update, LS_CUDA_PACK_THREADS, 3) {
    __shared__ ls_cuda_update_piece space;
    __shared__ state_sums_of<2>::room room;
    const update_part part = find_part(a, &space);
    const ls_cuda_update_piece &p = *part.piece;
    const bool has_moment = p.moment[0] != nullptr;
    update_part_by<2>(part, room, [&](float grad, float (&x)[2]) {
        float g = __fmaf_rn(p.weight_decay, x[0], p.factor * grad);
        if (has_moment) {
            x[1] = __fmaf_rn(p.momentum, x[1], g);
            g = p.nesterov ? __fmaf_rn(p.momentum, x[1], g) : x[1];
        }
        x[0] = __fmaf_rn(-p.rate, g, x[0]);
    });
}

/* ---- squared norms ----------------------------------------------------------------------------------------------- */

/* Adds x to an exact sum by atomics: 32 bits of a fixed-point integer in each word (numerics/exact_sum.h); infinity and NaN count in the
 * last word. The words are integers, so the order does not matter. */
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

/* Adds Σ x² of each block of elements, in double, to the exact sum: half a warp a block, thread j of sixteen is lane j. */
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

/* Returns this lane's part of the sum of block `block` of the tensor, of which the piece may have only some elements. */
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

/* Adds the sums of a warp's lanes to `out`, and zeroes them. */
LS_DEVICE void state_flush(unsigned long long *out, uint64_t &lo, uint64_t &hi) {
    lo = warp_total(lo);
    hi = warp_total(hi);
    if (threadIdx.x % 32 == 0) {
        atomicAdd(out, (unsigned long long)lo);
        atomicAdd(out + 1, (unsigned long long)hi);
    }
    lo = hi = 0;
}

/* Adds the state sums of all pieces to their `out`. Each warp has consecutive blocks, so that it adds few sums to memory: all warps add
 * to the same ones. */
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
