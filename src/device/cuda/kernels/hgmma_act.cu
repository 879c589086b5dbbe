/* hgmma_act.cu: products of the unit hgmma whose rounded result goes through GELU, or through the gradient of GELU or of a gate,
 * before it leaves (ls_gemm_end).
 *
 *     shared memory | steps of A | steps of B | a tile of rounded results | a table | barriers |
 *
 * The end takes almost as long as the product of a tile with k = 768. So others have it, the warps of a third warpgroup and those
 * beside the one that brings: those that multiply leave their rounded results in shared memory and go on with the next tile. What limits
 * are their instructions, so addresses are known beforehand but for few additions, and activations of bf16 are looked up; for those of fp16
 * there is no room. */
#include "device/cuda/common/act_table.cuh"
#include "device/cuda/kernels/hgmma.cuh"

#ifdef LS_HAS_WGMMA

enum { BN = LS_CUDA_HGMMA_ACT_N, HALF_ROWS = BM / CONSUMERS, PIECES = BN / 8, HALF_PIECES = HALF_ROWS * PIECES };
enum { ENDERS = 7, HALF_TURNS = (HALF_PIECES + ENDERS * 32 - 1) / (ENDERS * 32) }; /* ENDERS: warps */

struct act_shared {
    enum { STAGES = LS_CUDA_HGMMA_ACT_STAGES };
    uint16_t a[STAGES][BM * BK], b[STAGES][BN * BK];
    uint16_t made[CONSUMERS][HALF_ROWS * BN];
    float table[LS_CUDA_SLOPE_TABLE];
    uint64_t full[STAGES], empty[STAGES], is_made[CONSUMERS], is_taken[CONSUMERS];
};

/* Where eight neighbours of a row are: pieces of 16 bytes are exchanged, as accesses that go down the rows need it. */
LS_DEVICE uint16_t *piece_at(act_shared &s, int half, int row, int piece) {
    return s.made[half] + row * BN + (piece ^ (row & 7)) * 8;
}

/* ---- who multiplies ------------------------------------------------------------------------------------------------ */

struct act_part : hgmma_part<BN, false> {
    LS_DEVICE act_part(const ls_cuda_hgmma &args) : hgmma_part<BN, false>(args) {}
    enum { IN_REGISTERS = true }; /* there is one */
    template <bool IS_F16> LS_DEVICE void leave(const sums &d, act_shared &s) const {
        const int r = thread / 32 * 16 + thread % 16, c = thread % 32 / 16;
        LS_UNROLL for (int j = 0; j < BN / 16; j++) {
            const float *x = d + j * 8;
            matrices_store(shared_at(piece_at(s, warpgroup, r, 2 * j + c)), pair_of<IS_F16>(x[0], x[1]), pair_of<IS_F16>(x[2], x[3]),
                           pair_of<IS_F16>(x[4], x[5]), pair_of<IS_F16>(x[6], x[7]));
        }
    }
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

/* ---- who has the end ----------------------------------------------------------------------------------------------- */

template <bool IS_F16> LS_DEVICE void widen(uint4 from, float (&x)[8]) {
    const uint32_t pair[4] = {from.x, from.y, from.z, from.w};
    LS_UNROLL for (int i = 0; i < 4; i++) {
        x[2 * i] = IS_F16 ? plain_from_f16((uint16_t)pair[i]) : __uint_as_float(pair[i] << 16);
        x[2 * i + 1] = IS_F16 ? plain_from_f16((uint16_t)(pair[i] >> 16)) : __uint_as_float(pair[i] & 0xFFFF0000u);
    }
}
template <bool IS_F16> LS_DEVICE uint4 rounded(const float (&x)[8]) {
    return make_uint4(pair_of<IS_F16>(x[0], x[1]), pair_of<IS_F16>(x[2], x[3]), pair_of<IS_F16>(x[4], x[5]), pair_of<IS_F16>(x[6], x[7]));
}

/* Tanh or sigmoid of eight numbers, as END needs it. HAS_Y: what the activation gives is wanted, too; where it is not, GELU's slope comes
 * from a table of its own. */
template <bool IS_F16, int END, bool HAS_Y> struct act_numbers {
    enum { FN = END == LS_CUDA_HGMMA_GATED_GRAD ? LS_CUDA_SILU : LS_CUDA_GELU };
    enum { BY_SLOPE = !IS_F16 && END == LS_CUDA_HGMMA_GELU_GRAD && !HAS_Y };
    LS_DEVICE static void make(act_shared &s, int thread, int threads) {
        if (BY_SLOPE)
            gelu_slopes{s.table}.make(thread, threads);
        else if (!IS_F16)
            act_table<FN>{s.table}.make(thread, threads);
    }
    LS_DEVICE static void of(act_shared &s, const float (&x)[8], float (&t)[8]) {
        if constexpr (IS_F16) {
            LS_UNROLL for (int k = 0; k < 8; k++) t[k] = FN == LS_CUDA_SILU ? sigmoid_of(x[k]) : gelu_tanh(x[k], x[k] * x[k]);
        } else {
            act_table<FN>{s.table}.look_up(x, t);
        }
    }
};

/* A thread has eight neighbours of a row at a time, a piece; eight threads beside each other have a line of eight pieces. Lines are handed
 * out in turns: the next of an eight of threads is ROWS rows below and one further, so that turns of the same remainder by LINES have
 * the same columns, and rows that differ by what is known beforehand. */
template <bool IS_F16, int END, bool HAS_Y> struct act_end {
    enum { LINES = PIECES / 8, EIGHTS = ENDERS * 4, ROWS = EIGHTS / LINES };
    enum { AHEAD = END == LS_CUDA_HGMMA_GATED_GRAD ? 1 : 3 }; /* turns whose numbers are on their way */
    static_assert(PIECES % 8 == 0 && EIGHTS % LINES == 1 && AHEAD <= HALF_TURNS, "how lines are handed out");
    typedef act_numbers<IS_F16, END, HAS_Y> found;

    const ls_cuda_hgmma &a;
    act_shared &s;
    const int thread;
    int row[LINES], column[LINES]; /* of the first turns, in a half of a tile; elements */

    struct tile {
        size_t at[LINES]; /* where these are in C and pre, with a gate that of the gate */
        uint32_t m0, n0;
        int rows, columns;
    };
    struct numbers {
        uint4 pre, up;
    };

    LS_DEVICE act_end(const ls_cuda_hgmma &a, act_shared &s, int thread) : a(a), s(s), thread(thread) {
        LS_UNROLL for (int k = 0; k < LINES; k++) {
            const int line = thread / 8 + k;
            row[k] = line / LINES, column[k] = (line % LINES * 8 + thread % 8) * 8;
        }
    }
    LS_DEVICE static constexpr int rows_before(int turn) { return turn * ROWS + turn / LINES; }
    LS_DEVICE tile tile_of(const hgmma_unit &u) const {
        tile t;
        t.m0 = u.m0, t.n0 = u.n0;
        t.rows = a.g.m - u.m0 < BM ? (int)(a.g.m - u.m0) : BM;
        t.columns = a.g.n - u.n0 < BN ? (int)(a.g.n - u.n0) : BN;
        LS_UNROLL for (int k = 0; k < LINES; k++) {
            const uint32_t r = u.m0 + row[k], c = u.n0 + column[k];
            t.at[k] = r * a.g.ldc + c;
            if (END == LS_CUDA_HGMMA_GATED_GRAD) t.at[k] += divide(c, a.gate) * a.gate.divisor;
        }
        return t;
    }
    LS_DEVICE bool is_in(const tile &t, int half, int turn) const {
        const int r = row[turn % LINES] + rows_before(turn);
        return (turn + 1 < HALF_TURNS || r < HALF_ROWS) && half * HALF_ROWS + r < t.rows && column[turn % LINES] < t.columns;
    }
    LS_DEVICE size_t place_of(const tile &t, int half, int turn) const {
        return t.at[turn % LINES] + (size_t)(uint32_t)(half * HALF_ROWS + rows_before(turn)) * (uint32_t)a.g.ldc;
    }
    /* Of y with a gate, which is half as wide as C. */
    LS_DEVICE size_t gated_place_of(const tile &t, int half, int turn) const {
        const uint32_t r = t.m0 + row[turn % LINES] + half * HALF_ROWS + rows_before(turn);
        return (size_t)r * (uint32_t)a.g.n + t.n0 + column[turn % LINES];
    }
    LS_DEVICE uint4 read(size_t at) const { return __ldcs((const uint4 *)((const uint16_t *)a.pre + at)); }
    LS_DEVICE numbers load(const tile &t, int half, int turn) const {
        numbers x = {};
        if (END == LS_CUDA_HGMMA_GELU || !is_in(t, half, turn)) return x;
        const size_t at = place_of(t, half, turn);
        x.pre = read(at);
        if (END == LS_CUDA_HGMMA_GATED_GRAD) x.up = read(at + a.gate.divisor);
        return x;
    }
    LS_DEVICE static void store(void *to, size_t at, uint4 x) { __stcs((uint4 *)((uint16_t *)to + at), x); }
    LS_DEVICE void end_piece(const tile &t, int half, int turn, const numbers &in) const {
        if (!is_in(t, half, turn)) return;
        const size_t at = place_of(t, half, turn);
        const uint4 made = *(const uint4 *)piece_at(s, half, row[turn % LINES] + rows_before(turn), column[turn % LINES] / 8);
        float c[8], x[8], n[8];
        widen<IS_F16>(made, c);
        if constexpr (END == LS_CUDA_HGMMA_GELU) {
            found::of(s, c, n);
            LS_UNROLL for (int k = 0; k < 8; k++) x[k] = gelu_both(c[k], n[k]).y;
            store(a.g.c, at, made);
        } else if constexpr (found::BY_SLOPE) {
            const uint32_t two[4] = {in.pre.x, in.pre.y, in.pre.z, in.pre.w};
            gelu_slopes{s.table}.look_up(two, n);
            LS_UNROLL for (int k = 0; k < 8; k++) c[k] = c[k] * n[k];
        } else if constexpr (END == LS_CUDA_HGMMA_GELU_GRAD) {
            widen<IS_F16>(in.pre, x);
            found::of(s, x, n);
            LS_UNROLL for (int k = 0; k < 8; k++) {
                const gelu_both g(x[k], n[k]);
                c[k] = c[k] * g.slope, x[k] = g.y;
            }
        } else {
            float up[8], dup[8];
            widen<IS_F16>(in.pre, x);
            found::of(s, x, n);
            widen<IS_F16>(in.up, up);
            LS_UNROLL for (int k = 0; k < 8; k++) {
                const float g = n[k], silu = x[k] * g;
                dup[k] = c[k] * silu;
                c[k] = (c[k] * up[k]) * silu_slope(x[k], g);
                x[k] = silu * up[k];
            }
            store(a.g.c, at + a.gate.divisor, rounded<IS_F16>(dup));
        }
        if (END != LS_CUDA_HGMMA_GELU) store(a.g.c, at, rounded<IS_F16>(c));
        if (HAS_Y) store(a.y, END == LS_CUDA_HGMMA_GATED_GRAD ? gated_place_of(t, half, turn) : at, rounded<IS_F16>(x));
    }
    LS_DEVICE void run() const {
        hgmma_piece p;
        uint32_t phase = 0;
        for (uint32_t unit = 0; find_piece(a, unit, p); unit++) {
            if (p.end < a.steps) continue; /* another block ends it */
            const tile t = tile_of(hgmma_unit(a, p.unit, BN));
            numbers in[HALF_TURNS];
            LS_UNROLL for (int turn = 0; turn < AHEAD; turn++) in[turn] = load(t, 0, turn);
            LS_NO_UNROLL for (int half = 0; half < CONSUMERS; half++) {
                barrier_wait(&s.is_made[half], phase);
                LS_UNROLL for (int turn = 0; turn < HALF_TURNS; turn++) {
                    if (turn + AHEAD < HALF_TURNS)
                        in[turn + AHEAD] = load(t, half, turn + AHEAD);
                    else if (half + 1 < CONSUMERS)
                        in[turn + AHEAD - HALF_TURNS] = load(t, half + 1, turn + AHEAD - HALF_TURNS);
                    end_piece(t, half, turn, in[turn]);
                }
                __syncwarp();
                if (thread % 32 == 0) barrier_arrive(&s.is_taken[half]);
            }
            phase ^= 1;
        }
    }
};

template <bool IS_F16, int END> LS_DEVICE void make_table(const ls_cuda_hgmma &a, act_shared &s) {
    if (END == LS_CUDA_HGMMA_GELU || a.y)
        act_numbers<IS_F16, END, true>::make(s, (int)threadIdx.x, LS_CUDA_HGMMA_ACT_THREADS);
    else
        act_numbers<IS_F16, END, false>::make(s, (int)threadIdx.x, LS_CUDA_HGMMA_ACT_THREADS);
}

template <bool IS_F16, int END> LS_DEVICE void end_tiles(const ls_cuda_hgmma &a, act_shared &s, int thread) {
    if (END == LS_CUDA_HGMMA_GELU || a.y)
        act_end<IS_F16, END, true>(a, s, thread).run();
    else
        act_end<IS_F16, END, false>(a, s, thread).run();
}

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
            bring<BN, 0, 0>(a, s);
        else if (thread >= 32)
            end_tiles<IS_F16, END>(a, s, thread < 128 ? thread - 32 : thread - 384 + 96);
    }
}

#else

template <bool IS_F16, int END> LS_DEVICE void hgmma_act(const ls_cuda_hgmma &) {} /* never started on other GPUs */

#endif

LS_KERNEL_ALONE(hgmma_gelu_bf16, ls_cuda_hgmma, LS_CUDA_HGMMA_ACT_THREADS) { hgmma_act<false, LS_CUDA_HGMMA_GELU>(a); }
LS_KERNEL_ALONE(hgmma_gelu_f16, ls_cuda_hgmma, LS_CUDA_HGMMA_ACT_THREADS) { hgmma_act<true, LS_CUDA_HGMMA_GELU>(a); }
LS_KERNEL_ALONE(hgmma_gelu_grad_bf16, ls_cuda_hgmma, LS_CUDA_HGMMA_ACT_THREADS) { hgmma_act<false, LS_CUDA_HGMMA_GELU_GRAD>(a); }
LS_KERNEL_ALONE(hgmma_gelu_grad_f16, ls_cuda_hgmma, LS_CUDA_HGMMA_ACT_THREADS) { hgmma_act<true, LS_CUDA_HGMMA_GELU_GRAD>(a); }
LS_KERNEL_ALONE(hgmma_gated_grad_bf16, ls_cuda_hgmma, LS_CUDA_HGMMA_ACT_THREADS) { hgmma_act<false, LS_CUDA_HGMMA_GATED_GRAD>(a); }
LS_KERNEL_ALONE(hgmma_gated_grad_f16, ls_cuda_hgmma, LS_CUDA_HGMMA_ACT_THREADS) { hgmma_act<true, LS_CUDA_HGMMA_GATED_GRAD>(a); }
