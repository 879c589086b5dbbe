/* attention_hgmma_tiles.cuh: shared by the attention kernels for Hopper (attention_hgmma.cu, attention_hgmma_once.cu):
 * which tile a persistent block computes next, where it lies, how results are stored, and the weights and their
 * gradients of a tile of keys. */
#pragma once
#include "device/cuda/common/wgmma_attention.cuh"
#include "device/cuda/common/attention_hgmma.cuh"

/* Compiles its argument for compute capability 9.0 only: for other GPUs these kernels are empty and never launched. */
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || !defined(__CUDA_ARCH__)
#define LS_ON_HOPPER(...) __VA_ARGS__
#else
#define LS_ON_HOPPER(...)
#endif

/* The place of a tile: `row` rows of tiles down head `head` of part `part` (ls_cuda_attention_part) of a sequence. */
struct tile_place {
    int row; /* counted in tiles */
    int part;
    uint32_t sequence, head; /* the head in its part */
    uint32_t first;          /* the number of the part's first query head */
};

/* Returns the place of row `row` of head `number`, which counts the heads (of keys if OF_KEYS, else of queries) of all
 * parts of this launch, sequence after sequence. */
template <bool OF_KEYS> LS_DEVICE tile_place place_of(const ls_cuda_attention_tiles &t, uint32_t number, uint32_t row) {
    const uint32_t heads = OF_KEYS ? t.h.kv_heads : t.h.heads;
    tile_place p = {(int)row, 0, number / heads, number % heads, 0};
    for (;; p.part++) {
        const ls_cuda_attention_part &part = t.h.a.parts[p.part];
        const uint32_t here = OF_KEYS ? part.kv_heads : part.heads;
        if (p.head < here) return p;
        p.head -= here;
        p.first += part.heads;
    }
}

/* Returns `number`, but hides that from the compiler. It then recomputes values derived from it, instead of keeping them
 * in registers meanwhile. */
LS_DEVICE uint32_t anew(uint32_t number) {
    asm volatile("" : "+r"(number));
    return number;
}

/* Returns the place of tile `number` of all, `rows` of each head: they are numbered by chunks of `blocks` heads, in a
 * chunk row by row and in a row head by head, so that few heads are in use at a time. LAST_FIRST: rows are numbered from
 * the last one, because later tiles are longer. */
template <bool LAST_FIRST, bool OF_KEYS>
LS_DEVICE tile_place tile_among(const ls_cuda_attention_tiles &t, uint32_t number, uint32_t blocks, uint32_t rows) {
    const uint32_t all = (OF_KEYS ? t.h.kv_heads : t.h.heads) * t.h.B, chunk = anew(min(all, blocks));
    const uint32_t first = number / (chunk * rows) * chunk, heads = min(chunk, all - first), in = number - first * rows;
    const uint32_t row = in / heads;
    return place_of<OF_KEYS>(t, first + in % heads, LAST_FIRST ? rows - 1 - row : row);
}
/* Returns the place of tile `number`, as tile_among() numbers the t.rows tiles of each head for all blocks of the grid. */
template <bool LAST_FIRST, bool OF_KEYS> LS_DEVICE tile_place tile_at(const ls_cuda_attention_tiles &t, uint32_t number) {
    return tile_among<LAST_FIRST, OF_KEYS>(t, number, gridDim.x, t.rows);
}

/* Returns the number of this block's tile in a round of one tile per block; odd rounds are dealt out from the last block
 * on, so that a block with a longer tile in one round has a shorter one in the next. May be tiles_of() or more: none. */
LS_DEVICE uint32_t tile_of_round(uint32_t round) {
    return round * gridDim.x + (round % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
}

/* Returns the number of tiles of all heads, of keys or of queries, in all sequences of this launch. */
LS_DEVICE uint32_t tiles_of(const ls_cuda_attention_tiles &t, bool of_keys) {
    return (of_keys ? t.h.kv_heads : t.h.heads) * t.h.B * t.rows;
}

/* Returns x, which must be the same in all threads of a warp, so that the compiler knows it to be. */
LS_DEVICE int uniform(int x) { return __shfl_sync(~0u, x, 0); }
/* Returns the number of this thread's warpgroup in the block, counted from 0. */
LS_DEVICE int warp_group() { return uniform((int)threadIdx.x / 128); }

/* Makes the compiler compute x and y, and all that they are made of, before what follows; neither may be negative, which
 * would end the kernel by a trap. The compiler moves a wait for wgmma up over arithmetic that should overlap with it, but
 * not over a branch on the results of that arithmetic. */
LS_DEVICE void made_before(float x, float y) {
    if ((x < 0.0f) | (y < 0.0f)) asm volatile("trap;");
}

/* Returns the larger number; NaN wins, of two zeros any. */
LS_DEVICE float larger(float a, float b) { return max_of_any_zero(a, b); }

/* Stores 16 bytes to global memory by one instruction: the compiler may make four stores of a plain assignment. */
LS_DEVICE void write16(void *to, const uint32_t (&x)[4]) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(x[0]), "r"(x[1]),
                 "r"(x[2]), "r"(x[3])
                 : "memory");
}

/* Stores this warp's 16 rows, from `row` on, of a result with D columns, rounded to 16 bits: x has a thread's sums in the
 * layout of wgmma, and is multiplied by factor0, or 8 rows down by factor1. Rows from `rows` on and columns from head_size
 * on are not written. Lanes exchange numbers, so that each writes 16 bytes. All lanes of the warp call it. */
template <bool IS_F16, int D>
LS_DEVICE void store_tile(const ls_cuda_heads &to, uint32_t sequence, uint32_t head, int row, int rows, int head_size,
                          const float (&x)[D / 2], float factor0, float factor1, int lane) {
    uint16_t *at = (uint16_t *)to.at + head_at(to, sequence, head);
    const int t = lane % 4;
    LS_UNROLL for (int half = 0; half < 2; half++) {
        const int r = row + lane / 4 + 8 * half;
        const float factor = half ? factor1 : factor0;
        LS_UNROLL for (int i = 0; i < D / 8; i += 4) {
            uint32_t mine[4], theirs[4];
            LS_UNROLL for (int j = 0; j < 4; j++)
                mine[j] = rounded_pair<IS_F16>(x[(i + j) * 4 + 2 * half] * factor, x[(i + j) * 4 + 2 * half + 1] * factor);
            /* Lane t gets the pairs of eight columns i + t from lanes 0 … 3. */
            LS_UNROLL for (int step = 0; step < 4; step++) {
                const int from = t ^ step;
                const uint32_t give = from == 0 ? mine[0] : from == 1 ? mine[1] : from == 2 ? mine[2] : mine[3];
                const uint32_t got = step ? __shfl_xor_sync(~0u, give, step) : give;
                theirs[0] = from == 0 ? got : theirs[0];
                theirs[1] = from == 1 ? got : theirs[1];
                theirs[2] = from == 2 ? got : theirs[2];
                theirs[3] = from == 3 ? got : theirs[3];
            }
            const int column = (i + t) * 8;
            if (r < rows && column < head_size)
                write16(at + (size_t)r * to.row_stride + column, theirs);
        }
    }
}

/* Returns a T at the first multiple of 1024 bytes, as TMA's swizzle needs, in the dynamic shared memory of the block. */
template <class T> LS_DEVICE T &shared_at_1024() {
    static_assert(sizeof(T) + 1024 <= LS_CUDA_HGMMA_SHARED);
    extern __shared__ float4 ls_shared_memory[];
    /* Counted from the array: so the compiler knows that it is shared memory. */
    return *(T *)((char *)ls_shared_memory + (-shared_address(ls_shared_memory) & 1023u));
}

/* Issues the wgmma of s = all dot products of 64 rows of a tile of 128, from `row` on, with the 64 rows of b; the caller
 * commits and waits. Both are read from shared memory: rows that are held in registers over a loop are overwritten there
 * by the compiler of CUDA 13.0. */
template <bool IS_F16, int D> LS_DEVICE void dots_of(float (&s)[32], const uint16_t *a, int row, const uint16_t *b) {
    LS_UNROLL for (int k = 0; k < D / 16; k++) product<IS_F16, 0>(s, along<128>(a, row, k), along<64>(b, 0, k), k > 0);
}

/* Those of 64 numbers, one for each column, that a thread needs: pair i is of columns 8·i + 2·(lane mod 4) and the next.
 * pairs_read reads them where they are used, pairs_held has held them in registers since it was made. */
struct pairs_read {
    const float *at;
    LS_DEVICE pairs_read(const float *from, int lane) : at(from + lane % 4 * 2) {}
    LS_DEVICE float2 operator()(int i) const { return *(const float2 *)&at[i * 8]; }
};
struct pairs_held {
    float2 x[8];
    LS_DEVICE pairs_held(const float *from, int lane) {
        LS_UNROLL for (int i = 0; i < 8; i++) x[i] = *(const float2 *)&from[i * 8 + lane % 4 * 2];
    }
    LS_DEVICE float2 operator()(int i) const { return x[i]; }
};

/* What dropout leaves of x, a number of the upper (row 0) or lower (1) of a thread's two rows: without dropout x; with it x
 * times the scale if its bit is set, else times 0. Bit 2·i of a word is of column 8·i + 2·(lane mod 4), the next one of the
 * next column. */
struct all_kept {
    LS_DEVICE float operator()(int, int, float x) const { return x; }
};
struct some_kept {
    uint32_t rows[2];
    const float &scale;
    LS_DEVICE float operator()(int row, int bit, float x) const { return x * (rows[row] >> bit & 1 ? scale : 0.0f); }
};

/* Returns the rule of dropout (all_kept without DROP) for rows `line` + lane / 4 and that + 8, from the masks of a block of
 * 64 columns (ls_cuda_attention_hgmma::masks). */
template <bool DROP> LS_DEVICE auto kept_of(const uint16_t *masks, int line, int lane, const float &scale) {
    if constexpr (DROP) {
        const uint16_t *at = masks + (line + lane / 4) * 4 + lane % 4;
        return some_kept{{at[0], at[8 * 4]}, scale};
    } else {
        return all_kept();
    }
}

/* Computes the attention weights of 64 keys (rows) with 64 queries (columns) from their scores s. Weights in fp32, before dropout,
 * replace the scores; those after dropout, rounded to 16 bits, go to `weights`. L: of the queries; c: the scale inside exp2. `diagonal`:
 * the keys and queries have the same positions, so queries before a key do not see it. warp: of the warpgroup. */
template <bool IS_F16, class PAIRS, class KEPT>
LS_DEVICE void weigh_keys(float (&s)[32], uint32_t (&weights)[16], const PAIRS &L, float c, bool diagonal, int warp, int lane, const KEPT &kept) {
    const int key = warp * 16 + lane / 4 - lane % 4 * 2;
    LS_UNROLL for (int i = 0; i < 8; i++) {
        const float2 l = L(i);
        s[i * 4] = exp2_of(__fmaf_rn(s[i * 4], c, -l.x));
        s[i * 4 + 1] = exp2_of(__fmaf_rn(s[i * 4 + 1], c, -l.y));
        s[i * 4 + 2] = exp2_of(__fmaf_rn(s[i * 4 + 2], c, -l.x));
        s[i * 4 + 3] = exp2_of(__fmaf_rn(s[i * 4 + 3], c, -l.y));
    }
    if (diagonal)
        LS_UNROLL for (int i = 0; i < 8; i++) {
            if (i * 8 < key) s[i * 4] = 0.0f;
            if (i * 8 + 1 < key) s[i * 4 + 1] = 0.0f;
            if (i * 8 < key + 8) s[i * 4 + 2] = 0.0f;
            if (i * 8 + 1 < key + 8) s[i * 4 + 3] = 0.0f;
        }
    LS_UNROLL for (int i = 0; i < 16; i++)
        weights[i] = rounded_pair<IS_F16>(kept(i % 2, i / 2 * 2, s[i * 2]), kept(i % 2, i / 2 * 2 + 1, s[i * 2 + 1]));
}

/* Computes ds, the gradients of the scores of weigh_keys() rounded to 16 bits, from its fp32 weights, the gradients dp of the weights
 * after dropout, and `dots`, the queries' D. */
template <bool IS_F16, class PAIRS, class KEPT>
LS_DEVICE void slope_of_keys(uint32_t (&ds)[16], const float (&weights)[32], const float (&dp)[32], const PAIRS &dots, const KEPT &kept) {
    LS_UNROLL for (int i = 0; i < 8; i++) {
        const float2 dot = dots(i);
        LS_UNROLL for (int row = 0; row < 2; row++) {
            const int at = i * 4 + row * 2;
            const float x = kept(row, i * 2, dp[at]), y = kept(row, i * 2 + 1, dp[at + 1]);
            ds[i * 2 + row] = rounded_pair<IS_F16>(weights[at] * (x - dot.x), weights[at + 1] * (y - dot.y));
        }
    }
}
