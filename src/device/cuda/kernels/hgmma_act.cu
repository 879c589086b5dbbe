/* hgmma_act.cu: GEMMs of the matrix unit hgmma with a fused epilogue: GELU, a gate, or the gradient of either is applied to the
 * rounded result before it is stored (ls_gemm_end); launched by ops/hgmma.c. With a gate a tile has 96 columns of gates and the same 96 of the
 * values that they multiply.
 *
 *     shared memory | steps of A | steps of B | a tile of rounded results | a table | barriers |
 *
 * The epilogue takes almost as long as the matmul of a tile with k = 768. Therefore other warps run it: those of a
 * third warpgroup, and those of the producer warpgroup that do not load. The consumers store their rounded results in
 * shared memory and continue with the next tile. The number of instructions limits the epilogue, so addresses are
 * precomputed except for a few additions, and bf16 activations come from a lookup table; one for fp16 would not fit. */
#include "device/cuda/common/act_table.cuh"
#include "device/cuda/kernels/hgmma.cuh"

#ifdef LS_HAS_WGMMA

enum { BN = LS_CUDA_HGMMA_ACT_N, HALF_ROWS = BM / CONSUMERS, PIECES = BN / 8, HALF_PIECES = HALF_ROWS * PIECES };
enum { ENDERS = 7, HALF_TURNS = (HALF_PIECES + ENDERS * 32 - 1) / (ENDERS * 32) }; /* ENDERS: warps */

/* The shared memory of a block; `made` has the rounded tile, one half per consumer warpgroup. */
struct act_shared {
    enum { STAGES = LS_CUDA_HGMMA_ACT_STAGES };
    uint16_t a[STAGES][BM * BK], b[STAGES][BN * BK];
    uint16_t made[CONSUMERS][HALF_ROWS * BN];
    float table[LS_CUDA_SLOPE_TABLE];
    uint64_t full[STAGES], empty[STAGES], is_made[CONSUMERS], is_taken[CONSUMERS];
};

/* Returns the place of eight neighbours of a row: pieces of 16 bytes are swizzled against bank conflicts down the rows. */
LS_DEVICE uint16_t *piece_at(act_shared &s, int half, int row, int piece) {
    return s.made[half] + row * BN + (piece ^ (row & 7)) * 8;
}

/* ---- consumers --------------------------------------------------------------------------------------------------- */

/* The consumers' part of a tile, whose finish() leaves it in shared memory for the warps of the epilogue. */
struct act_part : hgmma_part<BN, false> {
    LS_DEVICE act_part(const ls_cuda_hgmma &args) : hgmma_part<BN, false>(args) {}
    /* Writes the rounded sums of this thread to shared memory. */
    template <bool IS_F16> LS_DEVICE void leave(const sums &d, act_shared &s) const {
        const int r = thread / 32 * 16 + thread % 16, c = thread % 32 / 16;
        LS_UNROLL for (int j = 0; j < BN / 16; j++) {
            const float *x = d + j * 8;
            matrices_store(shared_at(piece_at(s, warpgroup, r, 2 * j + c)), pair_of<IS_F16>(x[0], x[1]), pair_of<IS_F16>(x[2], x[3]),
                           pair_of<IS_F16>(x[4], x[5]), pair_of<IS_F16>(x[6], x[7]));
        }
    }
    /* Adds the bias, waits until the epilogue has taken the last tile, and leaves this one; `ended`: tiles so far. */
    LS_DEVICE void finish(sums &d, act_shared &s, const hgmma_unit &u, uint32_t ended) {
        place(u);
        if (a.g.bias) add_bias(d);
        barrier_wait(&s.is_taken[warpgroup], ended % 2 ^ 1);
        if (a.g.dtype == LS_CUDA_F16)
            leave<true>(d, s);
        else
            leave<false>(d, s);
        __syncwarp();
        if (thread % 32 == 0) barrier_arrive(&s.is_made[warpgroup]);
    }
};

/* ---- epilogue ---------------------------------------------------------------------------------------------------- */

/* Widens eight 16-bit numbers to fp32. */
template <bool IS_F16> LS_DEVICE void widen(uint4 from, float *x) {
    const uint32_t pair[4] = {from.x, from.y, from.z, from.w};
    LS_UNROLL for (int i = 0; i < 4; i++) {
        x[2 * i] = IS_F16 ? plain_from_f16((uint16_t)pair[i]) : __uint_as_float(pair[i] << 16);
        x[2 * i + 1] = IS_F16 ? plain_from_f16((uint16_t)(pair[i] >> 16)) : __uint_as_float(pair[i] & 0xFFFF0000u);
    }
}
/* Stores 16 bytes with an evict-first hint, because no kernel reads them soon. */
LS_DEVICE void store(void *to, size_t at, uint4 x) { __stcs((uint4 *)((uint16_t *)to + at), x); }
/* Rounds eight numbers and packs them. */
template <bool IS_F16> LS_DEVICE uint4 rounded(const float *x) {
    return make_uint4(pair_of<IS_F16>(x[0], x[1]), pair_of<IS_F16>(x[2], x[3]), pair_of<IS_F16>(x[4], x[5]), pair_of<IS_F16>(x[6], x[7]));
}

/* Finds tanh (GELU) or sigmoid (SiLU) of several values, as END requires: by table for bf16, else computed. HAS_Y: the output of the
 * activation is needed too; without it, the slope of GELU comes from its own table. */
template <bool IS_F16, int END, bool HAS_Y> struct act_numbers {
    enum { FN = END == LS_CUDA_HGMMA_GATED_GRAD || END == LS_CUDA_HGMMA_GATED ? LS_CUDA_SILU : LS_CUDA_GELU };
    enum { BY_SLOPE = !IS_F16 && END == LS_CUDA_HGMMA_GELU_GRAD && !HAS_Y };
    /* Fills the table that of() or the slopes need; none for fp16. A barrier must follow. */
    LS_DEVICE static void make(act_shared &s, int thread, int threads) {
        if (BY_SLOPE)
            gelu_slopes{s.table}.make(thread, threads);
        else if (!IS_F16)
            act_table<FN>{s.table}.make(thread, threads);
    }
    /* Sets t to the tanhs or sigmoids of x. */
    template <int W> LS_DEVICE static void of(act_shared &s, const float (&x)[W], float (&t)[W]) {
        if constexpr (IS_F16) {
            LS_UNROLL for (int k = 0; k < W; k++) t[k] = FN == LS_CUDA_SILU ? sigmoid_of(x[k]) : gelu_tanh(x[k], x[k] * x[k]);
        } else {
            act_table<FN>{s.table}.look_up(x, t);
        }
    }
};

/* The epilogue of all tiles of this block, of any kind but the gate in forward; run() is what its warps call. A thread processes a piece of eight
 * adjacent columns at a time; eight adjacent threads process a line of eight pieces. Lines are assigned round robin: the next line of
 * eight threads is ROWS rows below and one line further, so that turns with the same remainder by LINES have the same columns and row
 * offsets that are known at compile time. */
template <bool IS_F16, int END, bool HAS_Y> struct act_end {
    enum { LINES = PIECES / 8, EIGHTS = ENDERS * 4, ROWS = EIGHTS / LINES };
    /* While the turns of a batch are computed, the numbers of the next are loaded. */
    enum { READS = END != LS_CUDA_HGMMA_GELU, BATCH = !READS ? HALF_TURNS : END == LS_CUDA_HGMMA_GATED_GRAD ? 1 : IS_F16 ? 2 : 4 };
    enum { BESIDE = END == LS_CUDA_HGMMA_GELU ? 2 : 1 }; /* turns, as far as registers go */
    static_assert(PIECES % 8 == 0 && EIGHTS % LINES == 1, "how lines are handed out");
    typedef act_numbers<IS_F16, END, HAS_Y> found;

    const ls_cuda_hgmma &a;
    act_shared &s;
    const int thread;
    const uint32_t nothing;        /* 0, which the compiler does not know */
    int row[LINES], column[LINES]; /* of the first turns, in a half of a tile; elements */

    /* A tile of C, and how many of its rows and columns exist. */
    struct tile {
        size_t at[LINES]; /* where these are in C and pre, with a gate that of the gate */
        uint32_t m0, n0;
        int rows, columns;
        /* Returns whether all of the tile lies in C. */
        LS_DEVICE bool is_whole() const { return rows == BM && columns == BN; }
    };
    /* What a turn loads from global memory: eight numbers of pre, and with a gate's gradient eight of up. */
    struct numbers {
        uint4 pre, up;
    };

    LS_DEVICE act_end(const ls_cuda_hgmma &a, act_shared &s, int thread) : a(a), s(s), thread(thread), nothing(threadIdx.z) {
        LS_UNROLL for (int k = 0; k < LINES; k++) row[k] = row_of(thread, k), column[k] = column_of(thread, k);
    }
    /* Return the row, in a half of a tile, and the column of a thread's piece in turn k, for k below LINES. */
    LS_DEVICE static int row_of(int thread, int k) { return (thread / 8 + k) / LINES; }
    LS_DEVICE static int column_of(int thread, int k) { return ((thread / 8 + k) % LINES * 8 + thread % 8) * 8; }
    /* Returns the row, in its half, of turn k; for fp16, whose activations are computed, there are no registers to keep it. */
    LS_DEVICE int row_at(int k) const { return IS_F16 ? row_of((int)found_again((uint32_t)thread), k) : row[k]; }
    /* Returns the column of turn k. */
    LS_DEVICE int column_at(int k) const { return IS_F16 ? column_of((int)found_again((uint32_t)thread), k) : column[k]; }
    /* Returns how many rows the piece of `turn` is below that of turn % LINES, which has the same columns. */
    LS_DEVICE static constexpr int rows_before(int turn) { return turn * ROWS + turn / LINES; }
    /* Returns a tile's place and its pieces' places in C. */
    LS_DEVICE tile tile_of(const hgmma_unit &u) const {
        tile t;
        t.m0 = u.m0, t.n0 = u.n0;
        t.rows = a.g.m - u.m0 < BM ? (int)(a.g.m - u.m0) : BM;
        t.columns = a.g.n - u.n0 < BN ? (int)(a.g.n - u.n0) : BN;
        LS_UNROLL for (int k = 0; k < LINES; k++) {
            const uint32_t r = u.m0 + row_at(k), c = u.n0 + column_at(k);
            t.at[k] = r * a.g.ldc + c;
            if (END == LS_CUDA_HGMMA_GATED_GRAD) t.at[k] += divide(c, a.gate) * a.gate.divisor;
        }
        return t;
    }
    /* Returns whether this thread's piece of a turn exists. WHOLE: all of the tile is in C, so only the last turn needs a test. */
    template <bool WHOLE> LS_DEVICE bool is_in(const tile &t, int half, int turn) const {
        if (WHOLE) return turn + 1 < HALF_TURNS || row_at(turn % LINES) + rows_before(turn) < HALF_ROWS;
        const int self = (int)found_again((uint32_t)thread), r = row_of(self, turn % LINES) + rows_before(turn);
        return (turn + 1 < HALF_TURNS || r < HALF_ROWS) && half * HALF_ROWS + r < t.rows && column_of(self, turn % LINES) < t.columns;
    }
    /* Returns the element of C where the piece of a turn begins. */
    LS_DEVICE size_t place_of(const tile &t, int half, int turn) const {
        return t.at[turn % LINES] + (size_t)(uint32_t)(half * HALF_ROWS + rows_before(turn)) * (uint32_t)a.g.ldc;
    }
    /* Returns the same for y with a gate, which is half as wide as C. */
    LS_DEVICE size_t gated_place_of(const tile &t, int half, int turn) const {
        const uint32_t r = t.m0 + row_at(turn % LINES) + half * HALF_ROWS + rows_before(turn);
        return (size_t)r * (uint32_t)a.g.n + t.n0 + column_at(turn % LINES);
    }
    /* Loads eight numbers of pre with an evict-first hint, because no kernel reads them again. */
    LS_DEVICE uint4 read(size_t at) const { return __ldcs((const uint4 *)((const uint16_t *)a.pre + at)); }
    /* Loads what the piece of a turn needs from global memory: pre, and up with a gate; zeros if the piece does not exist. */
    template <bool WHOLE> LS_DEVICE numbers load(const tile &t, int half, int turn, uint32_t after) const {
        numbers x = {};
        if (!is_in<WHOLE>(t, half, turn)) return x;
        const size_t at = place_of(t, half, turn) + after;
        x.pre = read(at);
        if (END == LS_CUDA_HGMMA_GATED_GRAD) x.up = read(at + a.gate.divisor);
        return x;
    }
    /* Loads the batch of turns that begins with turn FIRST. */
    template <bool WHOLE, int FIRST> LS_DEVICE void load_batch(const tile &t, int half, uint32_t after, numbers (&in)[BATCH]) const {
        LS_UNROLL for (int i = 0; i < BATCH; i++)
            if (FIRST + i < HALF_TURNS) in[i] = load<WHOLE>(t, half, FIRST + i, after);
    }
    /* Returns 0 when the first COUNT loads of a batch have arrived. A wait for one load also waits for loads issued
     * later, so the caller issues no load before those of the first batch have arrived. */
    template <int COUNT> LS_DEVICE uint32_t arrived(const numbers (&in)[BATCH]) const {
        uint32_t any = 0;
        LS_UNROLL for (int i = 0; i < COUNT; i++) any |= END == LS_CUDA_HGMMA_GATED_GRAD ? in[i].pre.x | in[i].up.x : in[i].pre.x;
        return any & nothing;
    }
    /* Computes N turns from `turn` on, interleaved, so that they overlap each other's shared memory latency. */
    template <int N> LS_DEVICE void end_pieces(const tile &t, int half, int turn, const numbers *in) const {
        uint4 made[N];
        size_t at[N];
        float c[8 * N], x[8 * N], n[8 * N];
        LS_UNROLL for (int i = 0; i < N; i++) {
            const int k = (turn + i) % LINES;
            made[i] = *(const uint4 *)piece_at(s, half, row_at(k) + rows_before(turn + i), column_at(k) / 8);
        }
        LS_UNROLL for (int i = 0; i < N; i++) at[i] = place_of(t, half, turn + i), widen<IS_F16>(made[i], c + 8 * i);
        if constexpr (END == LS_CUDA_HGMMA_GELU) {
            found::of(s, c, n);
            LS_UNROLL for (int k = 0; k < 8 * N; k++) x[k] = gelu_both(c[k], n[k]).y;
            LS_UNROLL for (int i = 0; i < N; i++) store(a.g.c, at[i], made[i]);
        } else if constexpr (found::BY_SLOPE) {
            uint32_t two[4 * N];
            LS_UNROLL for (int i = 0; i < N; i++)
                two[4 * i] = in[i].pre.x, two[4 * i + 1] = in[i].pre.y, two[4 * i + 2] = in[i].pre.z, two[4 * i + 3] = in[i].pre.w;
            gelu_slopes{s.table}.look_up(two, n);
            LS_UNROLL for (int k = 0; k < 8 * N; k++) c[k] = c[k] * n[k];
        } else {
            LS_UNROLL for (int i = 0; i < N; i++) widen<IS_F16>(in[i].pre, x + 8 * i);
            found::of(s, x, n);
        }
        if constexpr (END == LS_CUDA_HGMMA_GELU_GRAD && !found::BY_SLOPE) {
            LS_UNROLL for (int k = 0; k < 8 * N; k++) {
                const gelu_both g(x[k], n[k]);
                c[k] = c[k] * g.slope, x[k] = g.y;
            }
        } else if constexpr (END == LS_CUDA_HGMMA_GATED_GRAD) {
            float up[8 * N], dup[8 * N];
            LS_UNROLL for (int i = 0; i < N; i++) widen<IS_F16>(in[i].up, up + 8 * i);
            LS_UNROLL for (int k = 0; k < 8 * N; k++) {
                const float g = n[k], silu = x[k] * g;
                dup[k] = c[k] * silu;
                c[k] = (c[k] * up[k]) * silu_slope(x[k], g);
                x[k] = silu * up[k];
            }
            LS_UNROLL for (int i = 0; i < N; i++) store(a.g.c, at[i] + a.gate.divisor, rounded<IS_F16>(dup + 8 * i));
        }
        LS_UNROLL for (int i = 0; i < N; i++) {
            if (END != LS_CUDA_HGMMA_GELU) store(a.g.c, at[i], rounded<IS_F16>(c + 8 * i));
            if (HAS_Y)
                store(a.y, END == LS_CUDA_HGMMA_GATED_GRAD ? gated_place_of(t, half, turn + i) : at[i], rounded<IS_F16>(x + 8 * i));
        }
    }
    /* Runs turns TURN … LAST − 1, two at a time where registers allow. */
    template <bool WHOLE, int TURN, int LAST> LS_DEVICE void end_turns(const tile &t, int half, const numbers (&in)[BATCH]) const {
        if constexpr (TURN < LAST) {
            enum { N = WHOLE && BESIDE == 2 && TURN + 2 <= LAST && TURN + 2 < HALF_TURNS ? 2 : 1 };
            if (is_in<WHOLE>(t, half, TURN)) end_pieces<N>(t, half, TURN, in + TURN % BATCH);
            end_turns<WHOLE, TURN + N, LAST>(t, half, in);
        }
    }
    /* Finds the next tile whose epilogue this block runs, from piece `turn` on. */
    LS_DEVICE bool find_tile(uint32_t &turn, tile &t) const {
        hgmma_piece p;
        while (find_piece(a, turn++, p)) {
            if (p.end < a.steps) continue; /* another block ends it */
            t = tile_of(hgmma_unit(a, p.unit, BN));
            return true;
        }
        return false;
    }
    /* Processes a half of t from turn FIRST on. On entry `in` has the loads of its first batch; on return, those of the
     * next batch, which after the last half belongs to `next`. Returns false if there is no next tile. */
    template <bool WHOLE, int FIRST = 0> LS_DEVICE bool end_half(const tile &t, int half, uint32_t &turn, tile &next, numbers (&in)[BATCH]) const {
        enum { LAST = FIRST + BATCH < HALF_TURNS ? FIRST + BATCH : HALF_TURNS };
        bool is_there = true;
        numbers later[BATCH];
        const uint32_t after = READS ? arrived<LAST - FIRST>(in) : 0;
        if constexpr (LAST < HALF_TURNS) {
            if constexpr (READS) load_batch<WHOLE, LAST>(t, half, after, later);
        } else if (half + 1 < CONSUMERS) {
            if constexpr (READS) load_batch<WHOLE, 0>(t, half + 1, after, later);
        } else {
            is_there = find_tile(turn, next);
            if constexpr (READS) load_first(next, is_there, after, later);
        }
        end_turns<WHOLE, FIRST, LAST>(t, half, in);
        if constexpr (READS) LS_UNROLL for (int i = 0; i < BATCH; i++) in[i] = later[i];
        if constexpr (LAST < HALF_TURNS)
            return end_half<WHOLE, LAST>(t, half, turn, next, in);
        else
            return is_there;
    }
    /* Loads the first batch of a tile, if there is one. */
    LS_DEVICE void load_first(const tile &t, bool is_there, uint32_t after, numbers (&in)[BATCH]) const {
        if (is_there && t.is_whole())
            load_batch<true, 0>(t, 0, after, in);
        else if (is_there)
            load_batch<false, 0>(t, 0, after, in);
    }
    /* Runs the epilogue of all tiles of this block, in the order in which the consumers leave them. */
    LS_DEVICE void run() const {
        uint32_t turn = 0, phase = 0;
        tile t;
        numbers in[BATCH];
        bool is_there = find_tile(turn, t);
        if constexpr (READS) load_first(t, is_there, 0, in);
        while (is_there) {
            LS_NO_UNROLL for (int half = 0; half < CONSUMERS; half++) {
                tile next = t;
                barrier_wait(&s.is_made[half], phase);
                is_there = t.is_whole() ? end_half<true>(t, half, turn, next, in) : end_half<false>(t, half, turn, next, in);
                __syncwarp();
                if (thread % 32 == 0) barrier_arrive(&s.is_taken[half]);
                t = next;
            }
            phase ^= 1;
        }
    }
};

/* The epilogue of gates in forward. A thread processes eight adjacent gates and the eight values that they multiply, always in the same
 * columns. */
template <bool IS_F16> struct gate_end {
    enum { ROW_PIECES = PIECES / 2, ROWS = ENDERS * 32 / ROW_PIECES, TURNS = (HALF_ROWS + ROWS - 1) / ROWS };
    const ls_cuda_hgmma &a;
    act_shared &s;
    const int thread, row, piece;

    LS_DEVICE gate_end(const ls_cuda_hgmma &a, act_shared &s, int thread)
        : a(a), s(s), thread(thread), row(thread / ROW_PIECES), piece(thread % ROW_PIECES) {}
    /* Computes a piece: stores gate and up to C at `at`, and silu(gate)·up to y. */
    LS_DEVICE void end_piece(int half, int r, size_t at, size_t y_at) const {
        const uint4 gate = *(const uint4 *)piece_at(s, half, r, piece), up = *(const uint4 *)piece_at(s, half, r, piece + ROW_PIECES);
        float x[8], u[8], n[8];
        widen<IS_F16>(gate, x);
        widen<IS_F16>(up, u);
        act_numbers<IS_F16, LS_CUDA_HGMMA_GATED, true>::of(s, x, n);
        LS_UNROLL for (int k = 0; k < 8; k++) x[k] = (x[k] * n[k]) * u[k];
        store(a.g.c, at, gate);
        store(a.g.c, at + a.gate.divisor, up);
        store(a.y, y_at, rounded<IS_F16>(x));
    }
    /* Runs the epilogue of all tiles of this block, in the order in which the consumers leave them. */
    LS_DEVICE void run() const {
        hgmma_piece p;
        uint32_t phase = 0;
        for (uint32_t unit = 0; find_piece(a, unit, p); unit++) {
            if (p.end < a.steps) continue; /* another block ends it */
            const hgmma_gates<BN> tile(a, p.unit);
            const int rows = a.g.m - tile.m0 < BM ? (int)(a.g.m - tile.m0) : BM;
            const bool has_columns = piece * 8 < tile.columns && row < ROWS;
            const size_t at = (tile.m0 + row) * a.g.ldc + tile.gate + piece * 8, y_at = (tile.m0 + row) * (a.g.n / 2) + tile.y + piece * 8;
            LS_NO_UNROLL for (int half = 0; half < CONSUMERS; half++) {
                barrier_wait(&s.is_made[half], phase);
                LS_UNROLL for (int turn = 0; turn < TURNS; turn++) {
                    const int r = row + turn * ROWS, below = half * HALF_ROWS + turn * ROWS;
                    if (has_columns && r < HALF_ROWS && row + below < rows)
                        end_piece(half, r, at + below * a.g.ldc, y_at + below * (a.g.n / 2));
                }
                __syncwarp();
                if (thread % 32 == 0) barrier_arrive(&s.is_taken[half]);
            }
            phase ^= 1;
        }
    }
};

/* Returns whether the epilogue writes y. */
template <int END> LS_DEVICE constexpr bool has_y(const void *y) { return END == LS_CUDA_HGMMA_GELU || END == LS_CUDA_HGMMA_GATED || y; }

/* Fills the table of the epilogue. All threads of the block call it. */
template <bool IS_F16, int END> LS_DEVICE void make_table(const ls_cuda_hgmma &a, act_shared &s) {
    if (has_y<END>(a.y))
        act_numbers<IS_F16, END, true>::make(s, (int)threadIdx.x, LS_CUDA_HGMMA_ACT_THREADS);
    else
        act_numbers<IS_F16, END, false>::make(s, (int)threadIdx.x, LS_CUDA_HGMMA_ACT_THREADS);
}

/* Runs the epilogue of all tiles of this block; `thread` counts the threads of the epilogue. */
template <bool IS_F16, int END> LS_DEVICE void end_tiles(const ls_cuda_hgmma &a, act_shared &s, int thread) {
    if constexpr (END == LS_CUDA_HGMMA_GATED)
        gate_end<IS_F16>(a, s, thread).run();
    else if (has_y<END>(a.y))
        act_end<IS_F16, END, true>(a, s, thread).run();
    else
        act_end<IS_F16, END, false>(a, s, thread).run();
}

/* The kernels: initializes a block and gives its warps their roles: producer, consumers, epilogue. */
template <bool IS_F16, int END> LS_DEVICE void hgmma_act(const ls_cuda_hgmma &a) {
    LS_SHARED(uint8_t, memory);
    static_assert(sizeof(act_shared) + 1024 <= LS_CUDA_HGMMA_ACT_SHARED, "what the host asks for");
    act_shared &s = *(act_shared *)(memory + (1024 - shared_at(memory) % 1024) % 1024);
    const int thread = (int)threadIdx.x;
    if (thread == 0) {
        for (int i = 0; i < act_shared::STAGES; i++) {
            barrier_open(&s.full[i], 1);
            barrier_open(&s.empty[i], CONSUMERS);
        }
        for (int i = 0; i < CONSUMERS; i++) {
            barrier_open(&s.is_made[i], 4);
            barrier_open(&s.is_taken[i], ENDERS);
        }
        barriers_are_open();
    }
    make_table<IS_F16, END>(a, s);
    __syncthreads();
    if (thread >= 128 && thread < 384) {
        take_registers<152>();
        multiply_tiles<act_part, BN, 0, 0, IS_F16>(a, s);
    } else {
        give_registers<104>();
        if (thread == 0)
            bring<BN, 0, 0, act_shared, BM, END == LS_CUDA_HGMMA_GATED>(a, s);
        else if (thread >= 32)
            end_tiles<IS_F16, END>(a, s, thread < 128 ? thread - 32 : thread - 384 + 96);
    }
}

#else

template <bool IS_F16, int END> LS_DEVICE void hgmma_act(const ls_cuda_hgmma &) {} /* never started on other GPUs */

#endif

/* The kernels: the epilogue and the element type. */
LS_KERNEL_ALONE(hgmma_gelu_bf16, ls_cuda_hgmma, LS_CUDA_HGMMA_ACT_THREADS) { hgmma_act<false, LS_CUDA_HGMMA_GELU>(a); }
LS_KERNEL_ALONE(hgmma_gelu_f16, ls_cuda_hgmma, LS_CUDA_HGMMA_ACT_THREADS) { hgmma_act<true, LS_CUDA_HGMMA_GELU>(a); }
LS_KERNEL_ALONE(hgmma_gelu_grad_bf16, ls_cuda_hgmma, LS_CUDA_HGMMA_ACT_THREADS) { hgmma_act<false, LS_CUDA_HGMMA_GELU_GRAD>(a); }
LS_KERNEL_ALONE(hgmma_gelu_grad_f16, ls_cuda_hgmma, LS_CUDA_HGMMA_ACT_THREADS) { hgmma_act<true, LS_CUDA_HGMMA_GELU_GRAD>(a); }
LS_KERNEL_ALONE(hgmma_gated_grad_bf16, ls_cuda_hgmma, LS_CUDA_HGMMA_ACT_THREADS) { hgmma_act<false, LS_CUDA_HGMMA_GATED_GRAD>(a); }
LS_KERNEL_ALONE(hgmma_gated_grad_f16, ls_cuda_hgmma, LS_CUDA_HGMMA_ACT_THREADS) { hgmma_act<true, LS_CUDA_HGMMA_GATED_GRAD>(a); }
LS_KERNEL_ALONE(hgmma_gated_bf16, ls_cuda_hgmma, LS_CUDA_HGMMA_ACT_THREADS) { hgmma_act<false, LS_CUDA_HGMMA_GATED>(a); }
LS_KERNEL_ALONE(hgmma_gated_f16, ls_cuda_hgmma, LS_CUDA_HGMMA_ACT_THREADS) { hgmma_act<true, LS_CUDA_HGMMA_GATED>(a); }
