/* mma_gemm.cu: matmuls of 16-bit numbers by mma.sync, for operands that are aligned to 16 bytes: on GPUs without wgmma
 * (every one but Hopper), and on Hopper where the kernels of hgmma.cu cannot run. hgmma_any.cu computes those that are not
 * aligned, and small ones for which the estimate of ops/gemm.c prefers its tiles.
 *
 * cp.async copies the operands of a step of k into a stage of shared memory, while the steps before it are multiplied.
 * A row of a stage consists of chunks of 16 bytes. The index of a chunk is XORed with the index of its row (swizzle), so
 * that neither cp.async nor ldmatrix has bank conflicts. An operand lies in a stage as it lies in memory:
 *
 *     along k     [line][chunks of k]      a line is a row of A (NN, NT) or a column of B (NT)
 *     across k    [k][chunks of lines]     a line is a column of A (TN) or of B (NN, TN): ldmatrix transposes it
 *
 * A part is 16 k of a step. A warp loads the fragments of the next part while it multiplies those of this one, also
 * across the end of a step: therefore the barrier stands before the last part of a step, whose fragments are in
 * registers by then. Where a slice or a sequence ends within a step, the missing k are +0, which changes no sum that has
 * begun. Sums of slices are added in the order of the tree, as in gemm.cu. */
#include "device/cuda/args/mma_gemm.h"
#include "device/cuda/common/mma.cuh"
#include "device/cuda/kernels/gemm.cuh"

/* The constants of a tile with N columns. */
template <int N> struct mma_tile_of {
    enum {
        BM = LS_CUDA_MMA_M,
        BN = N,
        THREADS = LS_CUDA_MMA_THREADS,
        WARP_M = BM / 2, /* rows and columns of a warp */
        WARP_N = BN / 2,
        TILES_M = WARP_M / 16, /* mma instructions of a warp, which compute 16 × 8 */
        TILES_N = WARP_N / 8,
        STEP_K = LS_CUDA_MMA_K,
        PARTS = STEP_K / 16,
        STAGES = LS_CUDA_MMA_STAGES,
        A_BYTES = BM * STEP_K * 2,
        STAGE_BYTES = A_BYTES + BN * STEP_K * 2,
        SHARES = N == LS_CUDA_MMA_WIDE_N ? 1 : PARTS - 1, /* portions of a step's copies: one in each of the first parts */
    };
    static_assert(THREADS == 4 * 32, "a warp for each quarter of the tile");
    static_assert(STEP_K == 32 || STEP_K == 64, "rows of shared memory begin at half or all of its banks");
    static_assert(TILES_N % 4 == 0 && PARTS % 2 == 0, "four lanes share a row of C; fragments alternate between two sets");
};

/* ---- the steps of k ---------------------------------------------------------------------------------------------- */

/* A step: `count` k from k on, of the slice `slice`. It ends where its slice or its sequence (g.period) ends, so it may
 * have fewer than STEP_K. Slices without k are skipped. After the last slice count is 0. 32 bits, to save registers. */
template <class S> struct mma_step {
    uint32_t k, end; /* end: of the slice or the sequence */
    int count, slice;
    /* Sets end and count, and slice to the first one that ends after k. */
    LS_DEVICE void settle(const ls_cuda_gemm &g, int last) {
        while (slice < last && k >= g.bounds[slice + 1]) slice++;
        count = 0;
        if (slice >= last) return;
        end = (uint32_t)g.bounds[slice + 1];
        if (g.period) end = min(end, (k / (uint32_t)g.period + 1) * (uint32_t)g.period);
        count = (int)min(end - k, (uint32_t)S::STEP_K);
    }
    /* Advances to the next step. */
    LS_DEVICE void go_on(const ls_cuda_gemm &g, int last) {
        k += count;
        if (k < end)
            count = (int)min(end - k, (uint32_t)S::STEP_K);
        else
            settle(g, last);
    }
    /* Advances by so many whole steps. The caller knows that the slice and the sequence end later. */
    LS_DEVICE void skip(int steps) {
        k += (uint32_t)steps * S::STEP_K;
        count = (int)min(end - k, (uint32_t)S::STEP_K);
    }
};

/* ---- operands ---------------------------------------------------------------------------------------------------- */

/* Returns the byte offset in a stage of number k of a line. The one of the two that is contiguous must be the first of a
 * chunk. */
template <class S, bool ACROSS, int LINES> LS_DEVICE int place_of(int line, int k) {
    if (ACROSS) return (k * LINES + (line / 8 ^ (k & 7)) * 8) * 2;
    return (line * S::STEP_K + (k / 8 ^ (S::STEP_K == 64 ? line & 7 : line / 2 & 3)) * 8) * 2;
}

/* Copies one operand of a tile from memory into stages. A thread copies EACH chunks of a step: one of FEW rows of the
 * stage, which are ROWS apart, and if a row has more than 64 lines (ACROSS), again for each further 64. The offsets of all
 * these chunks from the first one are constants. */
template <class S, bool ACROSS, int LINES> struct operand {
    enum {
        EACH = LINES * S::STEP_K / 8 / S::THREADS,
        WIDTH = ACROSS ? 8 : S::STEP_K / 8, /* chunks of a row that neighbouring threads copy */
        ROWS = S::THREADS / WIDTH,
        FEW = ACROSS ? S::STEP_K / ROWS : EACH,
    };
    static_assert(ROWS % 8 == 0 && FEW > 0 && EACH % FEW == 0, "all chunks of a thread have the same swizzle");
    const char *from; /* the first number of the tile and step: the same for all threads */
    uint32_t offset;  /* bytes from there to the first chunk of this thread */
    uint32_t apart;   /* bytes of ROWS rows of the matrix */
    LS_DEVICE operand(const void *matrix, size_t ld, size_t line0, size_t first_k) {
        apart = (uint32_t)ld * (ROWS * 2);
        offset = ((uint32_t)ld * (threadIdx.x / WIDTH) + threadIdx.x % WIDTH * 8) * 2;
        from = (const char *)matrix + (ACROSS ? first_k * ld + line0 : line0 * ld + first_k) * 2;
    }
    /* Return the line in the tile and the k in the step of this thread's first chunk, and its byte offset in a stage. */
    LS_DEVICE static int line() { return ACROSS ? threadIdx.x % WIDTH * 8 : threadIdx.x / WIDTH; }
    LS_DEVICE static int k() { return ACROSS ? threadIdx.x / WIDTH : threadIdx.x % WIDTH * 8; }
    LS_DEVICE static int to() { return place_of<S, ACROSS, LINES>(line(), k()); }
    /* Return how far chunk i is from the first one: in rows, in numbers along a row, and in bytes of a stage. */
    LS_DEVICE static constexpr int row_of(int i) { return i % FEW * ROWS; }
    LS_DEVICE static constexpr int beside(int i) { return ACROSS ? i / FEW * 64 : 0; }
    LS_DEVICE static constexpr int offset_of(int i) {
        return (row_of(i) * (ACROSS ? (int)LINES : (int)S::STEP_K) + beside(i)) * 2;
    }
    /* Returns the address of chunk i in memory. */
    LS_DEVICE const char *chunk(int i) const { return from + (offset + i % FEW * apart + beside(i) * 2); }
    /* Starts the copies of one share of a step that is complete: all its lines and k exist. */
    LS_DEVICE void fetch_share(mma_place stage, int share) const {
        LS_UNROLL for (int i = 0; i < EACH; i++)
            if (i * S::SHARES / EACH == share) copy16_async_to(stage + to() + offset_of(i), chunk(i));
    }
    /* Starts the copies of a step of which only `lines` lines and `count` k exist. The rest becomes +0. */
    LS_DEVICE void fetch_some(mma_place stage, int count, int lines) const {
        LS_UNROLL for (int i = 0; i < EACH; i++) {
            const int there = ACROSS ? (k() + row_of(i) < count ? lines - line() - beside(i) : 0)
                                     : (line() + row_of(i) < lines ? count - k() : 0);
            copy16_async_some(stage + to() + offset_of(i), chunk(i), 2 * min(max(there, 0), 8));
        }
    }
    /* Advances by `count` k. */
    LS_DEVICE void go_on(size_t ld, int count) { from += 2 * (ACROSS ? count * ld : count); }
};

/* ---- fragments --------------------------------------------------------------------------------------------------- */

/* The registers of mma.sync for one part of a warp's lines: TILES tiles of 16 rows of A or of 8 columns of B. */
#ifndef LS_CUDA_ON_CPU_H
template <class S, bool ACROSS, int LINES, int TILES, bool IS_A> struct fragment {
    uint32_t x[TILES][IS_A ? 4 : 2];
    /* Loads the fragments of part `part`, of the lines from `first` on. An ldmatrix loads four matrices of 8 × 8, and a
     * lane has the address of one of their rows. Order for A: 16 lines, then the same lines of the next 8 k. For B: 16 k
     * of 8 lines, then of the next 8 lines. */
    LS_DEVICE void load(mma_place from, int first, int part) {
        const int lane = threadIdx.x % 32, low = lane / 8 % 2 * 8, high = lane / 16 * 8;
        const int line = first + (IS_A ? low : high) + (ACROSS ? 0 : lane % 8);
        const int k = (IS_A ? high : low) + (ACROSS ? lane % 8 : 0);
        LS_UNROLL for (int i = 0; i < TILES; i += IS_A ? 1 : 2) {
            const int lines = i * (IS_A ? 16 : 8); /* `line` has none of its bits: ^ adds, and saves registers */
            const mma_place at = from + (ACROSS ? (place_of<S, true, LINES>(line, k) ^ lines * 2) + part * 16 * LINES * 2
                                                : (place_of<S, false, LINES>(line, k) ^ part * 32) + lines * S::STEP_K * 2);
            if constexpr (IS_A)
                load_matrices<ACROSS>(x[i][0], x[i][1], x[i][2], x[i][3], at);
            else
                load_matrices<ACROSS>(x[i][0], x[i][1], x[i + 1][0], x[i + 1][1], at);
        }
    }
};
#else
template <class S, bool ACROSS, int LINES, int TILES, bool IS_A> struct fragment {
    /* A CPU takes whole lines, those of the sums that this lane has: of A lane / 4 and that + 8, of B 2·(lane mod 4) and
     * the next. */
    uint16_t x[TILES][2][GRANULE];
    void load(mma_place from, int first, int part) {
        const int lane = threadIdx.x % 32;
        for (int i = 0; i < TILES; i++)
            for (int e = 0; e < 2; e++)
                for (int k = 0; k < GRANULE; k++) {
                    const int line = first + (IS_A ? 16 * i + 8 * e + lane / 4 : 8 * i + lane % 4 * 2 + e), of = part * 16 + k;
                    const int chunk = ACROSS ? place_of<S, true, LINES>(line / 8 * 8, of) + line % 8 * 2
                                             : place_of<S, false, LINES>(line, of / 8 * 8) + of % 8 * 2;
                    x[i][e][k] = *(const uint16_t *)(from + chunk);
                }
    }
};
#endif

/* ---- a warp's part of the tile ----------------------------------------------------------------------------------- */

/* The sums of a warp in registers, as mma.sync has them: sum[i][j] are four numbers of the tile of 16 rows i and 8
 * columns j: rows lane / 4 and that + 8 (elements 0 and 1, 2 and 3), columns 2·(lane mod 4) and the next. */
template <class S> struct mma_sums {
    enum { TILES_M = S::TILES_M, TILES_N = S::TILES_N, THREADS = S::THREADS };
    float sum[TILES_M][TILES_N][4];

    /* Return the first row and column of this warp, in the tile. */
    LS_DEVICE static int row() { return threadIdx.x / 64 * S::WARP_M; }
    LS_DEVICE static int column() { return threadIdx.x / 32 % 2 * S::WARP_N; }
    /* Sets all sums to +0. */
    LS_DEVICE void clear() {
        LS_UNROLL for (int i = 0; i < TILES_M; i++)
            LS_UNROLL for (int j = 0; j < TILES_N; j++)
                LS_UNROLL for (int e = 0; e < 4; e++) sum[i][j][e] = 0.0f;
    }
#ifndef LS_CUDA_ON_CPU_H
    /* Adds the products of one part. Columns run forth and back, so that neighbouring instructions share an operand. */
    template <bool IS_F16, class A, class B> LS_DEVICE void add(const A &a, const B &b) {
        LS_UNROLL for (int i = 0; i < TILES_M; i++)
            LS_UNROLL for (int j = 0; j < TILES_N; j++) {
                const int c = i % 2 ? TILES_N - 1 - j : j;
                mma_16x8x16<IS_F16>(sum[i][c], a.x[i], b.x[c]);
            }
    }
#else
    template <bool IS_F16, class A, class B> void add(const A &a, const B &b) {
        const format f = unit_format<IS_F16>();
        line y[TILES_N][2];
        for (int j = 0; j < TILES_N; j++)
            for (int e = 0; e < 2; e++) take_line(&y[j][e], b.x[j][e], f);
        for (int i = 0; i < TILES_M; i++)
            for (int e = 0; e < 4; e++) {
                line x;
                take_line(&x, a.x[i][e / 2], f);
                for (int j = 0; j < TILES_N; j++) sum[i][j][e] = add_granule(&x, &y[j][e % 2], f, sum[i][j][e]);
            }
    }
#endif
    /* Adds a stored sum from the left. All threads store their sums together, the fours q at [q][thread]. */
    LS_DEVICE void join(const float *waiting) {
        const float4 *left = (const float4 *)waiting + threadIdx.x;
        LS_UNROLL for (int i = 0; i < TILES_M; i++)
            LS_UNROLL for (int j = 0; j < TILES_N; j++) {
                const float4 v = left[(i * TILES_N + j) * THREADS];
                sum[i][j][0] = v.x + sum[i][j][0];
                sum[i][j][1] = v.y + sum[i][j][1];
                sum[i][j][2] = v.z + sum[i][j][2];
                sum[i][j][3] = v.w + sum[i][j][3];
            }
    }
    /* Stores the sums, for join(). */
    LS_DEVICE void wait(float *waiting) const {
        float4 *to = (float4 *)waiting + threadIdx.x;
        LS_UNROLL for (int i = 0; i < TILES_M; i++)
            LS_UNROLL for (int j = 0; j < TILES_N; j++)
                to[(i * TILES_N + j) * THREADS] = make_float4(sum[i][j][0], sum[i][j][1], sum[i][j][2], sum[i][j][3]);
    }
};

/* The sums of finished slices that wait for their right neighbour in the tree, one for each level. The lowest levels are in
 * shared memory behind the stages, the others in scratch. */
template <class S> struct mma_waiting {
    enum { ELEMS = S::BM * S::BN };
    void *shared;
    /* Returns the place of a level. Each call computes it, because the loop has no registers to keep it. */
    LS_DEVICE float *level(const ls_cuda_gemm &g, int number) const {
        if (number < g.near_levels) return (float *)((char *)shared + S::STAGES * S::STAGE_BYTES) + number * ELEMS;
        return g.far + ((size_t)blockIdx.x * g.far_levels + (number - g.near_levels)) * ELEMS;
    }
    /* Ends slice s: adds from the left the waiting sums that it completes in the tree. Then stores the result as one that
     * waits and clears c, unless s is the last of `slices`. */
    LS_DEVICE void end_slice(const ls_cuda_gemm &g, mma_sums<S> &c, int s, int slices) const {
        unsigned complete = s + 1 == slices ? (unsigned)s : (unsigned)s & ~((unsigned)s + 1);
        LS_NO_UNROLL for (; complete; complete &= complete - 1) c.join(level(g, __ffs((int)complete) - 1));
        if (s + 1 == slices) return;
        c.wait(level(g, __ffs(~s) - 1));
        c.clear();
    }
};

/* ---- C ----------------------------------------------------------------------------------------------------------- */

/* Four lanes (a quad) have the numbers of a row: lane t has numbers 2t and 2t + 1 of each tile of eight columns. Numbers of
 * 16 bits are exchanged for four tiles at a time: then lane t has all eight of tile t, and stores 16 bytes. */

/* Rounds two numbers to T and packs them, the first in the low half. NaN takes the slower path, which has its bits from
 * the contract. */
template <class T> LS_DEVICE uint32_t bits_of_two(float x, float y) {
    T low, high;
#ifndef LS_CUDA_ON_CPU_H
    if (x == x && y == y) return rounded_two(T(), x, y);
#endif
    store(&low, x);
    store(&high, y);
    return low.bits | (uint32_t)high.bits << 16;
}

/* Transposes 4 × 4 numbers in a quad: x[i] of lane t becomes x[t] of lane i. */
LS_DEVICE void exchange_in_quad(uint32_t (&x)[4]) {
    const bool is_odd = threadIdx.x & 1, is_high = threadIdx.x & 2;
    LS_UNROLL for (int i = 0; i < 4; i += 2) {
        const uint32_t got = __shfl_xor_sync(~0u, is_odd ? x[i] : x[i + 1], 1);
        (is_odd ? x[i] : x[i + 1]) = got;
    }
    LS_UNROLL for (int i = 0; i < 2; i++) {
        const uint32_t got = __shfl_xor_sync(~0u, is_high ? x[i] : x[i + 2], 2);
        (is_high ? x[i] : x[i + 2]) = got;
    }
}

/* Stores the sums of a warp at `to` if its tile is whole and the epilogue is only a bias (NULL: none). Rows are the inner
 * loop, so that a thread loads the bias of its columns once. */
template <class S, class T> LS_DEVICE void write_whole(const mma_sums<S> &c, T *to, size_t ld, const float *bias) {
    const int t = threadIdx.x % 4;
    LS_UNROLL for (int j = 0; j < S::TILES_N; j += 4) {
        float2 behind[4];
        if (bias) LS_UNROLL for (int n = 0; n < 4; n++) behind[n] = *(const float2 *)(bias + (j + n) * 8 + 2 * t);
        LS_UNROLL for (int i = 0; i < S::TILES_M; i++)
            LS_UNROLL for (int e = 0; e < 2; e++) {
                uint32_t x[4];
                LS_UNROLL for (int n = 0; n < 4; n++) {
                    float low = c.sum[i][j + n][2 * e], high = c.sum[i][j + n][2 * e + 1];
                    if (bias) low = low + behind[n].x, high = high + behind[n].y;
                    x[n] = bits_of_two<T>(low, high);
                }
                exchange_in_quad(x);
                *(uint4 *)(to + (16 * i + 8 * e) * ld + (j + t) * 8) = make_uint4(x[0], x[1], x[2], x[3]);
            }
    }
}
/* The same for fp32: two neighbours at a time. */
template <class S> LS_DEVICE void write_whole(const mma_sums<S> &c, float *to, size_t ld, const float *bias) {
    const int t = threadIdx.x % 4;
    LS_UNROLL for (int j = 0; j < S::TILES_N; j++) {
        float2 behind = make_float2(0, 0);
        if (bias) behind = *(const float2 *)(bias + j * 8 + 2 * t);
        LS_UNROLL for (int i = 0; i < S::TILES_M; i++)
            LS_UNROLL for (int e = 0; e < 2; e++) {
                float2 x = make_float2(c.sum[i][j][2 * e], c.sum[i][j][2 * e + 1]);
                if (bias) x.x = x.x + behind.x, x.y = x.y + behind.y;
                *(float2 *)(to + (16 * i + 8 * e) * ld + j * 8 + 2 * t) = x;
            }
    }
}

/* Moves numbers between registers and C through shared memory, sixteen rows of a warp at a time, where each thread has its
 * own place for each four numbers. A loop can index shared memory, but not registers: without it the compiler would unroll
 * the epilogue for each number. */
template <class S> struct four_sums {
    static_assert(S::TILES_N * S::THREADS * 16 <= S::STAGES * S::STAGE_BYTES, "sixteen rows of each warp fit where operands lay");
    float4 *four;
    uint32_t row, column; /* of C: the first of this thread. 64 bits would make the compiler spill registers */
    LS_DEVICE four_sums(void *shared, const mma_sums<S> &c, uint32_t m0, uint32_t n0) {
        four = (float4 *)shared + threadIdx.x;
        row = m0 + c.row() + threadIdx.x % 32 / 4;
        column = n0 + c.column() + threadIdx.x % 4 * 2;
    }
    /* Returns the place of number e of column tile j. */
    LS_DEVICE float *number(int j, int e) const { return (float *)&four[j * S::THREADS] + e; }
    /* Return the row of C of number e of row tile i, and the column of number e of column tile j. */
    LS_DEVICE size_t row_of(int i, int e) const { return row + 16 * i + e / 2 * 8; }
    LS_DEVICE size_t column_of(int j, int e) const { return column + 8 * j + e % 2; }
};

/* Stores those numbers of a warp that are inside of C, one at a time: with the whole epilogue, or without one if they are
 * a part of a split matmul. */
template <class S, class T>
LS_DEVICE void write_some(const ls_cuda_gemm &g, const mma_sums<S> &c, const four_sums<S> &at, T *to, size_t ld, bool is_part) {
    LS_UNROLL for (int i = 0; i < S::TILES_M; i++) {
        LS_UNROLL for (int j = 0; j < S::TILES_N; j++)
            at.four[j * S::THREADS] = make_float4(c.sum[i][j][0], c.sum[i][j][1], c.sum[i][j][2], c.sum[i][j][3]);
        LS_NO_UNROLL for (int n = 0; n < S::TILES_N * 4; n++) {
            const size_t row = at.row_of(i, n % 4), column = at.column_of(n / 4, n % 4);
            const float x = *at.number(n / 4, n % 4);
            if (row < g.m && column < g.n) store(to + row * ld + column, is_part ? x : finished(g, row, column, x));
        }
    }
}

/* Stores the sums of this block: in C, or in the part of a split matmul that this slice has. */
template <class S>
LS_DEVICE void write_sums(const ls_cuda_gemm &g, const mma_sums<S> &c, void *shared, bool is_whole, uint32_t m0, uint32_t n0) {
    float *parts = g.parts ? g.parts + blockIdx.z * (g.m * g.n) : nullptr;
    const float *bias = parts ? nullptr : g.bias;
    const int dtype = parts ? LS_CUDA_F32 : g.c_dtype, lane = threadIdx.x % 32;
    const size_t ld = parts ? g.n : g.ldc;
    const uint32_t row = m0 + c.row() + lane / 4, column = n0 + c.column();
    void *matrix = parts ? parts : g.c;
    const bool is_vector = ((size_t)matrix | ld * (dtype == LS_CUDA_F32 ? 4 : 2) | (size_t)bias) % 16 == 0;
    if (is_whole && is_vector && (parts || !g.siblings)) {
        LS_BY_TYPE(dtype, T, {
            write_whole(c, (T *)matrix + row * ld + column, ld, bias ? bias + column : nullptr);
        });
        return;
    }
    __syncthreads(); /* all threads have read the last step */
    const four_sums<S> at(shared, c, m0, n0);
    LS_BY_TYPE(dtype, T, { write_some(g, c, at, (T *)matrix, ld, parts != nullptr); });
}

/* Loads the sums that C holds already, from which the first slice continues (g.accumulate). */
template <class S>
LS_DEVICE void continue_from(const ls_cuda_gemm &g, mma_sums<S> &c, void *shared, uint32_t m0, uint32_t n0) {
    const four_sums<S> at(shared, c, m0, n0);
    LS_UNROLL for (int i = 0; i < S::TILES_M; i++) {
        LS_NO_UNROLL for (int n = 0; n < S::TILES_N * 4; n++) {
            const size_t row = at.row_of(i, n % 4), column = at.column_of(n / 4, n % 4);
            *at.number(n / 4, n % 4) = row < g.m && column < g.n ? ((const float *)g.c)[row * g.ldc + column] : 0.0f;
        }
        LS_UNROLL for (int j = 0; j < S::TILES_N; j++) {
            const float4 x = at.four[j * S::THREADS];
            c.sum[i][j][0] = x.x, c.sum[i][j][1] = x.y, c.sum[i][j][2] = x.z, c.sum[i][j][3] = x.w;
        }
    }
    __syncthreads(); /* the first stages overwrite these numbers */
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

/* Computes the tile of this block: all slices, or the one that blockIdx.z names if slices are split (g.parts). `at` is the
 * step that is multiplied, `ahead` the step that is copied, STAGES − 1 later. */
template <class S, bool A_ACROSS, bool B_ACROSS, bool IS_F16> LS_DEVICE void mma_tile(const ls_cuda_gemm &g) {
    LS_SHARED(char, shared);
    const mma_place stages = mma_place_of(shared);
    const int first = g.parts ? (int)blockIdx.z : 0, slices = g.parts ? 1 : g.slices, last = first + slices;
    const mma_waiting<S> waiting = {shared};
    size_t row, column;
    find_tile<S>(g, row, column);
    const uint32_t m0 = (uint32_t)row, n0 = (uint32_t)column, m = (uint32_t)g.m, n = (uint32_t)g.n;
    operand<S, A_ACROSS, S::BM> a(g.a, g.lda, m0, g.bounds[first]);
    operand<S, B_ACROSS, S::BN> b(g.b, g.ldb, n0, g.bounds[first]);
    const bool is_whole = m - m0 >= S::BM && n - n0 >= S::BN;
    mma_sums<S> c;
    c.clear();
    if (g.accumulate) continue_from(g, c, shared, m0, n0);
    mma_step<S> at = {(uint32_t)g.bounds[first], 0, 0, first};
    at.settle(g, last);
    mma_step<S> ahead = at;
    /* Starts the copies of step `ahead`, and advances it. */
    const auto fetch = [&](mma_place stage) {
        a.fetch_some(stage, ahead.count, (int)min(m - m0, (uint32_t)S::BM));
        b.fetch_some(stage + S::A_BYTES, ahead.count, (int)min(n - n0, (uint32_t)S::BN));
        a.go_on(g.lda, ahead.count);
        b.go_on(g.ldb, ahead.count);
        ahead.go_on(g, last);
    };
    LS_UNROLL for (int stage = 0; stage < S::STAGES - 1; stage++) {
        if (ahead.count) fetch(stages + stage * S::STAGE_BYTES);
        copy_async_commit();
    }
    fragment<S, A_ACROSS, S::BM, S::TILES_M, true> x[2];
    fragment<S, B_ACROSS, S::BN, S::TILES_N, false> y[2];
    copy_async_wait<S::STAGES - 2>();
    __syncthreads();
    x[0].load(stages, c.row(), 0);
    y[0].load(stages + S::A_BYTES, c.column(), 0);
    int ended = first;                                         /* slices before it have ended */
    int now = 0, free = (S::STAGES - 1) * S::STAGE_BYTES; /* offsets of the stage that is multiplied, and of the free one */
    /* Multiplies one step. Calls fetch_next(stage, share) in its first parts, to start the copies of step `ahead`. */
    const auto multiply = [&](auto fetch_next) {
        LS_UNROLL for (int part = 0; part < S::PARTS; part++) {
            const int turn = (part + 1) % 2;
            if (part < S::SHARES) fetch_next(stages + free, part);
            if (part == S::SHARES - 1) {
                copy_async_commit();
                free = now;
            }
            if (part == S::PARTS - 1) {
                now = now == (S::STAGES - 1) * S::STAGE_BYTES ? 0 : now + S::STAGE_BYTES;
                copy_async_wait<S::STAGES - 2>();
                __syncthreads(); /* the next step has arrived, and all threads have loaded the fragments of this one */
            }
            x[turn].load(stages + now, c.row(), (part + 1) % S::PARTS);
            y[turn].load(stages + now + S::A_BYTES, c.column(), (part + 1) % S::PARTS);
            c.template add<IS_F16>(x[part % 2], y[part % 2]);
        }
    };
    for (;;) {
        LS_NO_UNROLL for (; ended < at.slice; ended++) waiting.end_slice(g, c, ended - first, slices);
        if (!at.count) break;
        /* Steps that end neither slice nor sequence, and that copy complete steps, need no conditions: so the compiler
         * can place copies between multiplications. */
        const int whole = is_whole && ahead.count ? (int)((ahead.end - ahead.k) / S::STEP_K) : 0;
        const int fast = min(whole, (int)((at.end - at.k + S::STEP_K - 1) / S::STEP_K)) - 1;
        if (fast > 0) {
            LS_NO_UNROLL for (int step = 0; step < fast; step++)
                multiply([&](mma_place stage, int share) {
                    a.fetch_share(stage, share);
                    b.fetch_share(stage + S::A_BYTES, share);
                    if (share < S::SHARES - 1) return;
                    a.go_on(g.lda, S::STEP_K);
                    b.go_on(g.ldb, S::STEP_K);
                });
            at.skip(fast);
            ahead.skip(fast);
        } else {
            multiply([&](mma_place stage, int share) {
                if (share == 0 && ahead.count) fetch(stage);
            });
            at.go_on(g, last);
        }
    }
    write_sums(g, c, shared, is_whole, m0, n0);
}

/* Computes a tile with N columns by the type of the operands. */
template <int N, bool A_ACROSS, bool B_ACROSS> LS_DEVICE void mma_gemm(const ls_cuda_gemm &g) {
    if (g.dtype == LS_CUDA_F16)
        mma_tile<mma_tile_of<N>, A_ACROSS, B_ACROSS, true>(g);
    else
        mma_tile<mma_tile_of<N>, A_ACROSS, B_ACROSS, false>(g);
}

/* Declares the kernels of a tile: `together` of its blocks run on a multiprocessor. */
#define KERNELS(name, n, together)                                                                               \
    LS_KERNEL_MANY(mma_nn_##name, ls_cuda_gemm, LS_CUDA_MMA_THREADS, together) { mma_gemm<n, false, true>(a); }  \
    LS_KERNEL_MANY(mma_nt_##name, ls_cuda_gemm, LS_CUDA_MMA_THREADS, together) { mma_gemm<n, false, false>(a); } \
    LS_KERNEL_MANY(mma_tn_##name, ls_cuda_gemm, LS_CUDA_MMA_THREADS, together) { mma_gemm<n, true, true>(a); }
KERNELS(wide, LS_CUDA_MMA_WIDE_N, LS_CUDA_MMA_WIDE_TOGETHER)
KERNELS(narrow, LS_CUDA_MMA_NARROW_N, LS_CUDA_MMA_NARROW_TOGETHER)
