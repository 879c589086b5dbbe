/* hgmma.cuh: shared by the GEMM kernels of hgmma.cu, hgmma_over.cu and hgmma_act.cu: the division of work, the producer
 * and the consumers.
 *
 * The grid is persistent: a block stays on its multiprocessor and computes tiles of 128 × BN, one after another. Its
 * warpgroup 0 is the producer: by TMA it loads steps of 64 k into a ring of stages in shared memory, some steps ahead.
 * Warpgroups 1 and 2 are the consumers: each multiplies 64 rows of the tile (wgmma) and runs the epilogue for them.
 *
 *     producer    wait empty[stage] → TMA load of A and B → arrives at full[stage]
 *     consumer    wait full[stage] → wgmma → arrive at empty[stage]
 *
 * All k of a step belong to one slice and one sequence. At the end of a sequence, or of k, TMA fills the rest of the
 * step with +0. A granule of zeros leaves a sum unchanged, because a sum that has at least one granule is never −0.
 *
 * The tree over slices makes the sum of a slice wait for the next slice. It waits in registers if a tile has two slices
 * and BN < 256, otherwise in registers and shared memory. Sums of two or more slices wait in global memory. */
#pragma once
#include "device/cuda/args/hgmma.h"
#include "device/cuda/kernels/gemm.cuh"
#include "device/cuda/kernels/wgmma.cuh"

enum { BM = LS_CUDA_HGMMA_M, BK = LS_CUDA_HGMMA_K, GRANULE_K = 16, CONSUMERS = 2, CHUNK_BYTES = 64 * BK * 2 };

#ifdef LS_HAS_WGMMA

/* A block's shared memory: the stages of A and B, the output buffers of each consumer warp, and the barriers. */
template <int BN, int ROWS = BM> struct hgmma_shared {
    enum { STAGES = ROWS == BM ? LS_CUDA_HGMMA_STAGES(BN) : LS_CUDA_HGMMA_TALL_STAGES, STAGED = LS_CUDA_HGMMA_STAGED(BN) };
    uint16_t a[STAGES][ROWS * BK], b[STAGES][BN * BK];
    uint8_t staged[CONSUMERS * 4][STAGED][LS_CUDA_HGMMA_STAGED_BYTES];
    uint64_t full[STAGES], empty[STAGES];
};

/* Places hgmma_shared in a block's dynamic shared memory, aligned to 1024 bytes as TMA's swizzle needs, and initializes
 * the barriers. All threads call it. */
template <int BN, int ROWS = BM> LS_DEVICE hgmma_shared<BN, ROWS> &hgmma_open(uint8_t *memory) {
    typedef hgmma_shared<BN, ROWS> shared;
    static_assert(sizeof(shared) + 1024 <= (ROWS == BM ? LS_CUDA_HGMMA_SHARED(BN) : LS_CUDA_HGMMA_TALL_SHARED), "what the host asks for");
    shared &s = *(shared *)(memory + (1024 - shared_at(memory) % 1024) % 1024);
    if (threadIdx.x == 0) {
        for (int i = 0; i < shared::STAGES; i++) {
            barrier_open(&s.full[i], 1);
            barrier_open(&s.empty[i], CONSUMERS);
        }
        barriers_are_open();
    }
    __syncthreads();
    return s;
}

/* Returns x, which must be the same in all threads of a warp, so that the compiler knows it to be. The compiler keeps
 * wgmma in flight only across branches that it can prove to be uniform. */
LS_DEVICE uint32_t uniform(uint32_t x) { return __shfl_sync(~0u, x, 0); }

/* Returns x, but hides that from the compiler. It then recomputes values derived from x, instead of keeping them in
 * registers meanwhile. */
LS_DEVICE uint32_t found_again(uint32_t x) {
    asm volatile("" : "+r"(x));
    return x;
}

/* ---- work ---------------------------------------------------------------------------------------------------------- */

/* Steps begin … end−1 of unit `unit` (args/hgmma.h says what units and the line are). Of a whole unit end is ~0: users
 * take the smaller of end and the unit's steps. */
struct hgmma_piece {
    uint32_t unit, begin, end;
};

/* Returns the block's number, counted from the end of the grid. Block number + 1 begins the unit that this block
 * completes. Counted so, it has the lower blockIdx and is scheduled earlier; so a waiting block cannot deadlock. */
LS_DEVICE uint32_t block_number() { return gridDim.x - 1 - blockIdx.x; }

/* Finds piece `turn` of this block, counted from 0: first whole units, then cut ones. Returns false if there is
 * none. */
LS_DEVICE bool find_piece(const ls_cuda_hgmma &a, uint32_t turn, hgmma_piece &p) {
    const uint32_t self = block_number(), blocks = gridDim.x;
    if (self + turn * blocks < a.whole) {
        p = {self + turn * blocks, 0, ~0u};
        return true;
    }
    if (!a.steps) return false;
    const uint32_t whole = a.whole / blocks; /* units per block */
    /* at … end−1 is this block's part of the line. */
    const uint32_t at = self * a.line_each + min(self, a.line_rest), end = at + a.line_each + (self < a.line_rest);
    const uint32_t unit = at / a.steps + turn - whole, from = turn == whole ? at % a.steps : 0;
    if (unit * a.steps + from >= end) return false;
    /* The later part of the line has the lower k. */
    p = {a.whole + unit, a.steps - min(a.steps, end - unit * a.steps), a.steps - from};
    return true;
}

/* The place of a unit: row m0 and column n0 of its tile in C, and slices first … last−1. */
struct hgmma_unit {
    uint32_t m0, n0;
    int first, last, part;
    /* Finds the place of `unit` among tiles of bm × bn: parts come one after another, then bands of LS_CUDA_HGMMA_BAND rows of tiles,
     * in a band column by column. */
    LS_DEVICE hgmma_unit(const ls_cuda_hgmma &a, uint32_t unit, int bn, int bm = BM) {
        part = (int)divide(unit, a.tiles); /* 0 unless slices are computed separately */
        const uint32_t tile = unit - part * a.tiles.divisor, band = divide(tile, a.band);
        const uint32_t at = tile - band * a.band.divisor, top = band * LS_CUDA_HGMMA_BAND;
        uint32_t row = at % LS_CUDA_HGMMA_BAND, column = at / LS_CUDA_HGMMA_BAND;
        if (a.g.tiles_m - top < LS_CUDA_HGMMA_BAND) {
            const uint32_t rows = a.g.tiles_m - top;
            row = at % rows, column = at / rows;
        }
        m0 = (top + row) * bm;
        n0 = column * bn;
        first = part * a.each;
        last = first + a.each;
    }
};

/* The place of a tile of a gated MLP, half of whose columns are gate, half up: where each begins in C, where
 * silu(gate)·up begins in y, and how many columns of each exist. */
template <int BN> struct hgmma_gates {
    enum { COLUMNS = BN / 2 };
    uint32_t m0, gate, up, y;
    int columns;
    LS_DEVICE hgmma_gates(const ls_cuda_hgmma &a, uint32_t unit) {
        const hgmma_unit u(a, unit, 1); /* n0 counts tiles, because they are 1 column wide here */
        const uint32_t pair = divide(u.n0, a.across), first = (u.n0 - pair * a.across.divisor) * COLUMNS;
        m0 = u.m0;
        gate = 2 * pair * a.gate.divisor + first;
        up = gate + a.gate.divisor;
        y = pair * a.gate.divisor + first;
        columns = (int)min((uint32_t)COLUMNS, a.gate.divisor - first);
    }
};

/* An iterator over the steps of a unit, slice by slice and sequence by sequence. */
struct hgmma_walk {
    const ls_cuda_hgmma &a;
    int slice;
    uint32_t sequence, k, left; /* k counts within the sequence; left: steps of the slice from this one on */
    /* Returns the steps of slice s. */
    LS_DEVICE uint32_t steps_of(int s) const {
        const uint32_t length = (uint32_t)(a.g.bounds[s + 1] - a.g.bounds[s]), period = (uint32_t)a.g.period;
        return a.is_periodic ? length / period * ((period + BK - 1) / BK) : (length + BK - 1) / BK;
    }
    /* Begins at step `skip` of the unit whose first slice is `first`. */
    LS_DEVICE hgmma_walk(const ls_cuda_hgmma &args, int first, uint32_t skip) : a(args), slice(first) {
        uint32_t steps = steps_of(slice);
        while (skip >= steps) {
            skip -= steps;
            steps = steps_of(++slice);
        }
        enter();
        left = steps - skip;
        if (a.is_periodic) {
            const uint32_t each = ((uint32_t)a.g.period + BK - 1) / BK;
            sequence += skip / each;
            k = skip % each * BK;
        } else {
            k += skip * BK;
        }
    }
    /* Sets sequence and k to the beginning of the slice. */
    LS_DEVICE void enter() {
        sequence = a.is_periodic ? (uint32_t)(a.g.bounds[slice] / a.g.period) : 0;
        k = a.is_periodic ? 0 : (uint32_t)a.g.bounds[slice];
    }
    /* Goes to the next step; after the last step of slice last−1 the iterator is invalid. */
    LS_DEVICE void advance(int last) {
        k += BK;
        if (--left == 0) {
            if (++slice == last) return;
            left = steps_of(slice);
            enter();
        } else if (a.is_periodic && k >= a.g.period) {
            k = 0;
            sequence++;
        }
    }
    /* Skips `steps` steps of this slice; sequence and k are no longer valid then. */
    LS_DEVICE void skip(uint32_t steps, int last) {
        left -= steps;
        if (left == 0 && ++slice < last) left = steps_of(slice);
    }
    /* Returns the steps of slices first … last − 1. */
    LS_DEVICE uint32_t total(int first, int last) const {
        uint32_t sum = 0;
        for (int s = first; s < last; s++) sum += steps_of(s);
        return sum;
    }
};

/* ---- the producer ------------------------------------------------------------------------------------------------ */

/* Loads all steps of all pieces of this block by TMA. One thread of the producer warpgroup runs it. TA, TB: k goes from row to row in A,
 * in B; HAS_GATES: half of B's columns are gates. */
template <int BN, int TA, int TB, class S, int ROWS = BM, bool HAS_GATES = false> LS_DEVICE void bring(const ls_cuda_hgmma &a, S &s) {
    enum { STAGES = S::STAGES };
    int stage = 0;
    uint32_t phase = 0;
    hgmma_piece p;
    for (uint32_t turn = 0; find_piece(a, found_again(turn), p); turn++) {
        const hgmma_unit u(a, p.unit, BN, ROWS);
        hgmma_walk walk(a, u.first, p.begin);
        const uint32_t end = min(p.end, walk.total(u.first, u.last));
        int gate = 0, up = 0;
        if constexpr (HAS_GATES) {
            const hgmma_gates<BN> gates(a, p.unit);
            gate = (int)gates.gate, up = (int)gates.up;
        }
        for (uint32_t i = p.begin; i < end; i++) {
            barrier_wait(&s.empty[stage], phase ^ 1);
            barrier_expect(&s.full[stage], (ROWS + BN) * BK * 2);
            const int k = (int)walk.k, sequence = (int)walk.sequence;
            if (TA)
                for (int c = 0; c < ROWS / 64; c++)
                    tile_load(s.a[stage] + c * 64 * BK, a.a, &s.full[stage], (int)u.m0 + c * 64, k, sequence);
            else
                tile_load(s.a[stage], a.a, &s.full[stage], k, (int)u.m0, sequence);
            if (TB) {
                for (int c = 0; c < BN / 64; c++)
                    tile_load(s.b[stage] + c * 64 * BK, a.b, &s.full[stage], (int)u.n0 + c * 64, k, sequence);
            } else if (HAS_GATES) {
                tile_load(s.b[stage], a.b, &s.full[stage], k, gate, sequence);
                tile_load(s.b[stage] + BN / 2 * BK, a.b, &s.full[stage], k, up, sequence);
            } else {
                tile_load(s.b[stage], a.b, &s.full[stage], k, (int)u.n0, sequence);
            }
            if (++stage == STAGES) stage = 0, phase ^= 1;
            walk.advance(u.last);
        }
    }
}

/* ---- the consumers ----------------------------------------------------------------------------------------------- */

/* One thread's accumulators of its warpgroup's 64 × BN part of the tile, and the epilogue. Pair i of quad j is row
 * warp·16 + lane / 4 + 8·i, columns 8·j + lane mod 4 · 2 and the next. HAS_SECOND: a second set of accumulators holds
 * the second of two slices. */
template <int BN, bool HAS_SECOND = (BN < 256)> struct hgmma_part {
    enum { COUNT = BN / 2, QUADS = BN / 8, HAS_TWO = HAS_SECOND, SECOND = HAS_SECOND ? COUNT : 4, THREADS = 256 };
    typedef float sums[COUNT], waiting[SECOND]; /* waiting: accumulators of the second slice */
    const ls_cuda_hgmma &a;
    int warpgroup, thread; /* consumer warpgroup, 0 or 1, and thread in it */
    uint32_t row, column;  /* in C, of this thread's first accumulator; set by place() */

    LS_DEVICE hgmma_part(const ls_cuda_hgmma &args) : a(args) {
        const uint32_t number = found_again(threadIdx.x);
        warpgroup = number / 128 - 1;
        thread = number % 128;
    }
    /* Sets row and column for a unit. */
    LS_DEVICE void place(const hgmma_unit &u) {
        row = u.m0 + warpgroup * 64 + thread / 32 * 16 + thread % 32 / 4;
        column = u.n0 + thread % 4 * 2;
    }

    /* Returns this thread's part of a set of sums in global memory. The same thread of another block reads it back, so
     * the layout of a set is free. */
    LS_DEVICE float4 *set_at(float *sets, size_t number) const {
        return (float4 *)(sets + number * (BM * BN)) + warpgroup * 128 + thread;
    }
    /* Writes N of this thread's sums to a set. */
    template <int N> LS_DEVICE void write_set(float4 *to, const float (&x)[N]) const {
        LS_UNROLL for (int q = 0; q < N / 4; q++) to[q * THREADS] = make_float4(x[4 * q], x[4 * q + 1], x[4 * q + 2], x[4 * q + 3]);
    }
    /* Reads N of this thread's sums from a set, past L1, because another block wrote them. */
    template <int N> LS_DEVICE void read_set(const float4 *from, float (&x)[N]) const {
        LS_UNROLL for (int q = 0; q < N / 4; q++) {
            const float4 v = __ldcg(from + q * THREADS);
            x[4 * q] = v.x, x[4 * q + 1] = v.y, x[4 * q + 2] = v.z, x[4 * q + 3] = v.w;
        }
    }

    /* Tells the compiler that these values are dead, so that they occupy no registers. */
    LS_DEVICE static void forget(waiting &second) {
        LS_UNROLL for (int i = 0; i < SECOND; i++) forget_number(second[i]);
    }

    /* Publishes this block's sets in a.begun to the block that completes the unit. */
    LS_DEVICE void tell_begun(uint32_t self) const {
        __threadfence();
        warpgroup_sync(warpgroup + 1);
        if (thread == 0) flag_set(a.is_begun + self * CONSUMERS + warpgroup);
    }
    /* Waits for the sets of block `from`, and clears its flag. */
    LS_DEVICE void await_begun(uint32_t from) const {
        if (thread == 0) {
            uint32_t *flag = a.is_begun + from * CONSUMERS + warpgroup;
            flag_await(flag);
            *flag = 0;
        }
        warpgroup_sync(warpgroup + 1);
    }
    /* Writes the sums of a unit that another block completes, as block `self`. is_second: the unit has reached its second slice, so both
     * sets of sums count. */
    LS_DEVICE void hand_over(const sums &d, const waiting &second, uint32_t self, bool is_second) const {
        write_set(set_at(a.begun, 2 * self), d);
        if (HAS_SECOND && is_second) write_set(set_at(a.begun, 2 * self + 1), second);
        tell_begun(self);
    }
    /* Waits for and reads the sums of a unit that block `from` has begun. */
    LS_DEVICE void take_over(sums &d, waiting &second, uint32_t from, bool is_second) const {
        await_begun(from);
        read_set(set_at(a.begun, 2 * from), d);
        if (HAS_SECOND && is_second) read_set(set_at(a.begun, 2 * from + 1), second);
    }

    /* Calls visit(x, y, row, column, count) for each pair of accumulators x, y, neighbours in a row, `count` of which
     * lie inside C. */
    template <class F> LS_DEVICE void each_pair(sums &d, F visit) const {
        LS_UNROLL for (int i = 0; i < 2; i++) {
            const uint32_t r = row + 8 * i;
            if (r >= a.g.m) continue;
            LS_UNROLL for (int j = 0; j < QUADS; j++) {
                const uint32_t c = column + 8 * j;
                if (j % 8 == 0) asm volatile("" ::: "memory"); /* all loads at once would need too many registers */
                if (c < a.g.n) visit(d[4 * j + 2 * i], d[4 * j + 2 * i + 1], r, c, a.g.n - c > 1 ? 2 : 1);
            }
        }
    }
    /* Starts the chain from the numbers in C (accumulate). */
    LS_DEVICE void continue_from_c(sums &d, const hgmma_unit &u) {
        place(u);
        LS_UNROLL for (int i = 0; i < COUNT; i++) d[i] = 0;
        each_pair(d, [&](float &x, float &y, uint32_t r, uint32_t c, int count) {
            const float *from = (const float *)a.g.c + r * a.g.ldc + c;
            x = from[0];
            if (count > 1) y = from[1];
        });
    }
    /* Adds the siblings to the sums from the left, one after another. */
    LS_DEVICE void add_siblings(sums &d) const {
        for (int s = 0; s < a.g.siblings; s++)
            each_pair(d, [&](float &x, float &y, uint32_t r, uint32_t c, int count) {
                const float *left = a.g.sibling[s] + r * a.g.ldsibling + c;
                x = left[0] + x;
                if (count > 1) y = left[1] + y;
            });
    }
    /* Adds the bias to the sums. */
    LS_DEVICE void add_bias(sums &d) const {
        LS_UNROLL for (int j = 0; j < QUADS; j++) {
            const uint32_t c = column + 8 * j;
            const float x = c < a.g.n ? a.g.bias[c] : 0, y = c + 1 < a.g.n ? a.g.bias[c + 1] : 0;
            d[4 * j] = d[4 * j] + x, d[4 * j + 1] = d[4 * j + 1] + y;
            d[4 * j + 2] = d[4 * j + 2] + x, d[4 * j + 3] = d[4 * j + 3] + y;
        }
    }

    /* Stores a tile to C, or to a.g.parts, in pieces of 16 rows of 128 bytes. Each warp calls write(number, to) to put
     * a piece into one of its output buffers, and one of its threads then starts the TMA store. */
    template <int PIECES, class F> LS_DEVICE void store_pieces(hgmma_shared<BN> &s, const hgmma_unit &u, F write) const {
        enum { STAGED = hgmma_shared<BN>::STAGED };
        static_assert(PIECES % STAGED == 0, "all of them");
        const int warp = thread / 32;
        LS_UNROLL for (int first = 0; first < PIECES; first += STAGED) {
            if (thread % 32 == 0) stores_read<0>();
            __syncwarp();
            LS_UNROLL for (int i = 0; i < STAGED; i++) write(first + i, s.staged[warpgroup * 4 + warp][i]);
            shared_is_written();
            __syncwarp();
            if (thread % 32 == 0)
                LS_UNROLL for (int i = 0; i < STAGED; i++)
                    tile_store(a.c, s.staged[warpgroup * 4 + warp][i], (int)u.n0 + (first + i) * (BN / PIECES),
                               (int)u.m0 + warpgroup * 64 + warp * 16, a.g.parts ? u.part : 0);
        }
    }
    /* Writes a piece of 4 quads of fp32 to an output buffer, swizzled. */
    LS_DEVICE void write_f32(const float *d, uint8_t *to) const {
        const int r = thread % 32 / 4, c = thread % 4;
        LS_UNROLL for (int j = 0; j < 4; j++) {
            const float *x = d + j * 4;
            const int piece = ((2 * j + c / 2) ^ r) * 16 + c % 2 * 8;
            *(float2 *)(to + r * 128 + piece) = make_float2(x[0], x[1]);
            *(float2 *)(to + (r + 8) * 128 + piece) = make_float2(x[2], x[3]);
        }
    }
    /* Writes a piece of 8 quads, rounded to 16 bits, to an output buffer, swizzled. */
    template <bool TO_F16> LS_DEVICE void write_16(const float *d, uint8_t *to) const {
        const int r = thread % 16, c = thread % 32 / 16;
        LS_UNROLL for (int j = 0; j < 4; j++) {
            const float *x = d + j * 8;
            matrices_store(shared_at(to) + r * 128 + ((2 * j + c) ^ (r & 7)) * 16, pair_of<TO_F16>(x[0], x[1]),
                           pair_of<TO_F16>(x[2], x[3]), pair_of<TO_F16>(x[4], x[5]), pair_of<TO_F16>(x[6], x[7]));
        }
    }
    /* Stores the tile as fp32 by TMA. */
    LS_DEVICE void store_f32(const sums &d, hgmma_shared<BN> &s, const hgmma_unit &u) const {
        store_pieces<BN / 32>(s, u, [&](int q, uint8_t *to) { write_f32(d + q * 16, to); });
    }
    /* Rounds the tile to 16 bits and stores it by TMA. */
    template <bool TO_F16> LS_DEVICE void store_16(const sums &d, hgmma_shared<BN> &s, const hgmma_unit &u) const {
        store_pieces<BN / 64>(s, u, [&](int q, uint8_t *to) { write_16<TO_F16>(d + q * 32, to); });
    }
    /* The epilogue piece by piece, overlapped with the wgmma of the next tile. Piece q is 32 columns of fp32, or 64 of
     * 16-bit numbers, which then have half as many pieces. IS_SPREAD: a piece with every other step, not with each. */
    enum { PIECES = BN / 32, IS_SPREAD = false };
    /* Returns whether the tile is stored as fp32: C is, or the sums of slices go to parts. */
    LS_DEVICE bool is_f32() const { return a.g.parts || a.g.c_dtype == LS_CUDA_F32; }
    /* Loads the bias of piece q, two columns per lane: 0 without bias, beyond the last column, and for split slices,
     * which get no bias. The caller loads it long before finish_piece() needs it, so that the latency overlaps work. */
    LS_DEVICE float2 piece_bias(int q, const hgmma_unit &u) const {
        float2 x = make_float2(0, 0);
        if (a.g.parts || !a.g.bias) return x;
        const uint32_t c = u.n0 + q * (is_f32() ? 32 : 64) + thread % 32 * 2;
        if (c < a.g.n) x.x = a.g.bias[c];
        if (c + 1 < a.g.n) x.y = a.g.bias[c + 1];
        return x;
    }
    /* Copies the quads of a piece to x and adds the bias there. It does not change d: if a thread writes to
     * accumulators while a wgmma is in flight, the compiler serializes the wgmma. */
    template <bool HAS_BIAS, int N> LS_DEVICE void take_quads(const sums &d, int first, float2 bias, float (&x)[N]) const {
        LS_UNROLL for (int j = 0; j < N / 4; j++) {
            const float *from = d + 4 * (first + j);
            LS_UNROLL for (int i = 0; i < 4; i++) x[4 * j + i] = from[i];
            if (!HAS_BIAS) continue;
            const float low = __shfl_sync(~0u, bias.x, 4 * j + thread % 4), high = __shfl_sync(~0u, bias.y, 4 * j + thread % 4);
            x[4 * j] = x[4 * j] + low, x[4 * j + 1] = x[4 * j + 1] + high;
            x[4 * j + 2] = x[4 * j + 2] + low, x[4 * j + 3] = x[4 * j + 3] + high;
        }
    }
    /* Writes piece q, with its bias, to an output buffer. */
    template <bool HAS_BIAS> LS_DEVICE void write_piece(const sums &d, int q, float2 bias, uint8_t *to) const {
        if (is_f32()) {
            float x[16];
            take_quads<HAS_BIAS>(d, 4 * q, bias, x);
            write_f32(x, to);
        } else if (q < PIECES / 2) {
            float x[32];
            take_quads<HAS_BIAS>(d, 8 * q, bias, x);
            if (a.g.c_dtype == LS_CUDA_BF16)
                write_16<false>(x, to);
            else
                write_16<true>(x, to);
        }
    }
    /* Runs the epilogue of piece q and starts its TMA store. Nothing for the pieces that 16-bit numbers do not have. */
    template <bool TAKES_BIAS = true, class S>
    LS_DEVICE void finish_piece(const sums &d, int q, float2 bias, S &s, const hgmma_unit &u) const {
        if (!is_f32() && q >= PIECES / 2) return;
        uint8_t *to = s.staged[warpgroup * 4 + thread / 32][q % S::STAGED];
        if (thread % 32 == 0) stores_read<S::STAGED - 1>();
        __syncwarp();
        if (TAKES_BIAS && !a.g.parts && a.g.bias)
            write_piece<true>(d, q, bias, to);
        else
            write_piece<false>(d, q, bias, to);
        shared_is_written();
        __syncwarp();
        if (thread % 32 == 0)
            tile_store(a.c, to, (int)u.n0 + q * (is_f32() ? 32 : 64), (int)u.m0 + warpgroup * 64 + thread / 32 * 16,
                       a.g.parts ? u.part : 0);
    }
    /* Runs finish_piece() for all pieces of a tile. */
    template <class S> LS_DEVICE void finish_pieces(const sums &d, S &s, const hgmma_unit &u) const {
        LS_UNROLL for (int q = 0; q < PIECES; q++) finish_piece(d, q, piece_bias(q, u), s, u);
    }
    /* The whole epilogue of a tile: adds siblings and bias, unless d is a part, then rounds and stores. */
    LS_DEVICE void finish(sums &d, hgmma_shared<BN> &s, const hgmma_unit &u, uint32_t) {
        place(u);
        if (!a.g.parts) {
            if (a.g.siblings) add_siblings(d);
            if (a.g.bias) add_bias(d);
        }
        const int dtype = a.g.parts ? (int)LS_CUDA_F32 : a.g.c_dtype;
        if (a.c_is_staged) {
            if (dtype == LS_CUDA_F32)
                store_f32(d, s, u);
            else if (dtype == LS_CUDA_BF16)
                store_16<false>(d, s, u);
            else
                store_16<true>(d, s, u);
            return;
        }
        void *c = a.g.parts ? (void *)(a.g.parts + u.part * (a.g.m * a.g.n)) : a.g.c;
        const size_t ld = a.g.parts ? a.g.n : a.g.ldc;
        if (dtype == LS_CUDA_F32) {
            each_pair(d, [&](float &x, float &y, uint32_t r, uint32_t column0, int count) {
                float *to = (float *)c + r * ld + column0;
                to[0] = x;
                if (count > 1) to[1] = y;
            });
            return;
        }
        each_pair(d, [&](float &x, float &y, uint32_t r, uint32_t column0, int count) {
            const uint32_t pair = dtype == LS_CUDA_BF16 ? pair_of<false>(x, y) : pair_of<true>(x, y);
            uint16_t *to = (uint16_t *)c + r * ld + column0;
            to[0] = (uint16_t)pair;
            if (count > 1) to[1] = (uint16_t)(pair >> 16);
        });
    }
};

/* Starts the wgmma of one step: d += A·B, or d = A·B if keep is 0. */
template <bool IS_F16, int TA, int TB, int N> LS_DEVICE void multiply_step(float (&d)[N], uint32_t a, uint32_t b, int keep) {
    wgmma_begin();
    LS_UNROLL for (int g = 0; g < BK / GRANULE_K; g++)
        wgmma_granule<IS_F16, TA, TB>(d, wgmma_tile(a + g * (TA ? 2048 : 32), CHUNK_BYTES),
                                      wgmma_tile(b + g * (TB ? 2048 : 32), CHUNK_BYTES), keep | g);
    wgmma_commit();
}

/* The consumer's side of the ring of stages. */
template <bool IS_F16, int TA, int TB, class S> struct hgmma_steps {
    S &s;
    const int warpgroup;
    const bool is_first; /* this thread is the first of its warpgroup and arrives for it */
    int stage = 0;
    uint32_t phase = 0;

    /* Returns the previous stage, whose wgmma is complete, to the producer. */
    LS_DEVICE void release() {
        const int before = (stage ? stage : S::STAGES) - 1;
        if (is_first) barrier_arrive(&s.empty[before]);
    }
    /* Waits for the present stage and starts its wgmma; keep 0: d is overwritten. */
    template <int N> LS_DEVICE void step(float (&d)[N], int keep) {
        barrier_wait(&s.full[stage], phase);
        multiply_step<IS_F16, TA, TB>(d, shared_at(s.a[stage]) + warpgroup * CHUNK_BYTES, shared_at(s.b[stage]), keep);
    }
    /* Goes to the next stage, and to the next phase behind the last one. */
    LS_DEVICE void advance() {
        if (++stage == S::STAGES) stage = 0, phase ^= 1;
    }
    /* Multiplies `count` steps into d; keep 0: the first one overwrites d. On return the last wgmma is still in flight.
     * FOLLOWS: so is one of an earlier run when this one starts. */
    template <bool FOLLOWS, int N> LS_DEVICE void run(float (&d)[N], uint32_t count, int keep) {
        step(d, keep);
        if (FOLLOWS) {
            wgmma_wait<1>();
            release();
        }
        advance();
        for (uint32_t i = 1; i < count; i++) {
            step(d, 1);
            wgmma_wait<1>();
            release();
            advance();
        }
    }
    /* Waits for the last wgmma. */
    LS_DEVICE void end() {
        wgmma_wait<0>();
        release();
    }
};

/* Whole tiles with two sets of accumulators: while one tile is multiplied into one set, the epilogue of the previous
 * tile stores the other set, one piece with each of the first steps. */
template <class PART, int BN, bool IS_F16, int TA, int TB, class S> struct hgmma_turns {
    typedef typename PART::sums sums;
    const ls_cuda_hgmma &a;
    S &s;
    PART part;
    hgmma_steps<IS_F16, TA, TB, S> steps;
    LS_DEVICE hgmma_turns(const ls_cuda_hgmma &args, S &shared)
        : a(args), s(shared), part(args), steps{shared, part.warpgroup, part.thread == 0} {}

    /* Multiplies `count` steps into d while it stores the tile `out` from `before`. FOLLOWS as in hgmma_steps::run().
     * On return the last wgmma is still in flight. */
    template <bool FOLLOWS> LS_DEVICE void run(sums &d, uint32_t count, const sums &before, const hgmma_unit &out) {
        LS_UNROLL for (int q = 0; q < PART::PIECES; q++) {
            const float2 bias = part.piece_bias(q, out);
            steps.step(d, q != 0);
            if (FOLLOWS || q) {
                wgmma_wait<1>();
                steps.release();
            }
            steps.advance();
            part.finish_piece(before, q, bias, s, out);
            if (!PART::IS_SPREAD) continue;
            steps.step(d, 1);
            wgmma_wait<1>();
            steps.release();
            steps.advance();
        }
        for (uint32_t i = PART::PIECES * (PART::IS_SPREAD ? 2 : 1); i < count; i++) {
            steps.step(d, 1);
            wgmma_wait<1>();
            steps.release();
            steps.advance();
        }
    }
    /* Returns the tile of turn `turn` of this block. */
    LS_DEVICE hgmma_unit unit_of(uint32_t turn) const {
        hgmma_piece p;
        find_piece(a, found_again(turn), p);
        return hgmma_unit(a, p.unit, BN);
    }
    /* Returns whether this block has a tile in turn `turn`; the same in all threads. */
    LS_DEVICE bool has(uint32_t turn) const {
        hgmma_piece p;
        return uniform(find_piece(a, found_again(turn), p));
    }
    /* Returns the steps of a slice. */
    LS_DEVICE uint32_t count_of(int slice) const { return uniform(hgmma_walk(a, slice, 0).left); }

    /* Tiles of one slice: multiplies tile `turn` and stores the previous one. Returns false after the last tile. */
    LS_DEVICE bool one(sums &d, const sums &before, uint32_t turn) {
        const hgmma_unit out = unit_of(turn - 1);
        if (!has(turn)) {
            steps.end();
            part.finish_pieces(before, s, out);
            return false;
        }
        run<true>(d, count_of(unit_of(turn).first), before, out);
        return true;
    }
    /* Computes all tiles of this block, of one slice each. */
    LS_DEVICE void ones() {
        sums d, other;
        steps.template run<false>(d, count_of(unit_of(0).first), 0); /* each block has at least one tile */
        for (uint32_t turn = 1;; turn += 2) {
            if (!one(other, d, turn)) break;
            if (!one(d, other, turn + 1)) break;
        }
    }
    /* Tiles of two slices: waits for the last wgmma, and adds the sums of the second slice to those of the first, d. */
    LS_DEVICE void add(sums &d, const sums &second) {
        steps.end();
        LS_UNROLL for (int i = 0; i < PART::COUNT; i++) d[i] = d[i] + second[i];
    }
    /* Tiles of two slices: multiplies tile `turn` into d while it stores the previous one, `before`, whose registers then take the
     * second slice. Returns false after the last tile. */
    LS_DEVICE bool two(sums &d, sums &before, uint32_t turn) {
        const hgmma_unit out = unit_of(turn - 1);
        if (!has(turn)) {
            part.finish_pieces(before, s, out);
            return false;
        }
        run<false>(d, count_of(0), before, out);
        steps.template run<true>(before, count_of(1), 0);
        add(d, before);
        return true;
    }
    /* Computes all tiles of this block, of two slices each. */
    LS_DEVICE void twos() {
        sums d, other;
        steps.template run<false>(d, count_of(0), 0);
        steps.template run<true>(other, count_of(1), 0);
        add(d, other);
        for (uint32_t turn = 1;; turn += 2) {
            if (!two(other, d, turn)) break;
            if (!two(d, other, turn + 1)) break;
        }
    }
};

/* Computes all pieces of this block, for units of at most two slices. The consumer warpgroups run it. */
template <class PART, int BN, int TA, int TB, bool IS_F16, class S> LS_DEVICE void multiply_tiles(const ls_cuda_hgmma &a, S &s) {
    PART part(a);
    typename PART::sums d;
    typename PART::waiting second;
    hgmma_steps<IS_F16, TA, TB, S> steps{s, part.warpgroup, part.thread == 0};
    uint32_t ended = 0;
    hgmma_piece p;
    for (uint32_t turn = 0; find_piece(a, found_again(turn), p); turn++) {
        const hgmma_unit u(a, p.unit, BN);
        hgmma_walk walk(a, u.first, p.begin);
        const uint32_t total = walk.total(u.first, u.last), end = min(p.end, total);
        int keep = 0;
        part.forget(second);
        if (p.begin) {
            PART(a).take_over(d, second, block_number() + 1, walk.slice > u.first);
            keep = walk.left < walk.steps_of(walk.slice);
        } else if (a.g.accumulate) {
            PART(a).continue_from_c(d, u);
            keep = 1;
        }
        /* The second slice has its own accumulators, so its wgmma need not wait for the first slice's. */
        const uint32_t left = end - p.begin, count = uniform(walk.slice == u.first ? min(left, walk.left) : 0), more = uniform(left - count);
        if (!PART::HAS_TWO || !more) {
            steps.template run<false>(d, count, keep);
            steps.end();
        } else if constexpr (PART::HAS_TWO) {
            if (count) {
                steps.template run<false>(d, count, keep);
                steps.template run<true>(second, more, 0);
            } else {
                steps.template run<false>(second, more, keep);
            }
            steps.end();
            if (end == total) LS_UNROLL for (int i = 0; i < PART::COUNT; i++) d[i] = d[i] + second[i];
        }
        if (end < total)
            PART(a).hand_over(d, second, block_number(), u.last - u.first > 1 && end >= walk.steps_of(u.first));
        else
            PART(a).finish(d, s, hgmma_unit(a, found_again(p.unit), BN), ended++);
    }
    if (part.thread % 32 == 0) stores_done();
}

#endif
