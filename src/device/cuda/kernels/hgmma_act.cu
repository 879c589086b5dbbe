/* hgmma_act.cu: products of the unit hgmma whose rounded result goes through GELU, or through the gradient of GELU or of a gate,
 * before it leaves (ls_gemm_end).
 *
 *     shared memory | steps of A | steps of B | a tile of rounded results | a table | barriers |
 *
 * The end takes almost as long as the product of a tile with k = 768. So others have it, the warps of a third warpgroup and those
 * beside the one that brings: those that multiply leave their rounded results in shared memory and go on with the next tile. Activations
 * of bf16 are looked up; for those of fp16 there is no room. */
#include "device/cuda/common/act_table.cuh"
#include "device/cuda/kernels/hgmma.cuh"

#ifdef LS_HAS_WGMMA

enum { BN = LS_CUDA_HGMMA_ACT_N, HALF_ROWS = BM / CONSUMERS, PIECES = BN / 8, HALF_PIECES = HALF_ROWS * PIECES };
enum { ENDERS = 7, HALF_TURNS = (HALF_PIECES + ENDERS * 32 - 1) / (ENDERS * 32), TURNS = CONSUMERS * HALF_TURNS }; /* ENDERS: warps */

struct act_shared {
    enum { STAGES = LS_CUDA_HGMMA_ACT_STAGES };
    uint16_t a[STAGES][BM * BK], b[STAGES][BN * BK];
    uint16_t made[CONSUMERS][HALF_ROWS * BN];
    float table[LS_CUDA_SIGMOID_TABLE];
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

/* Tanh or sigmoid of eight numbers, as END needs it. */
template <bool IS_F16, int END> struct act_numbers {
    enum { FN = END == LS_CUDA_HGMMA_GATED_GRAD ? LS_CUDA_SILU : LS_CUDA_GELU };
    LS_DEVICE static void make(act_shared &s, int thread, int threads) {
        if (!IS_F16) act_table<FN>{s.table}.make(thread, threads);
    }
    LS_DEVICE static void of(act_shared &s, const float (&x)[8], float (&t)[8]) {
        if constexpr (IS_F16) {
            LS_UNROLL for (int k = 0; k < 8; k++) t[k] = FN == LS_CUDA_SILU ? sigmoid_of(x[k]) : gelu_tanh(x[k], x[k] * x[k]);
        } else {
            act_table<FN>{s.table}.look_up(x, t);
        }
    }
};

/* A thread has eight neighbours of a row at a time: a piece in each turn, neighbours in neighbouring threads. HAS_Y: what the activation
 * gives is wanted. */
template <bool IS_F16, int END, bool HAS_Y> struct act_end {
    const ls_cuda_hgmma &a;
    act_shared &s;
    const int thread;

    struct place {
        int half, row, piece; /* row: of the half */
        size_t y, at, up;     /* elements; at: in C and pre, with a gate that of the gate */
        bool is_in;
    };
    struct numbers {
        uint4 pre, up;
    };

    LS_DEVICE place place_of(const hgmma_unit &u, int turn) const {
        place p;
        const int number = turn % HALF_TURNS * (ENDERS * 32) + thread;
        p.half = turn / HALF_TURNS, p.row = number / PIECES, p.piece = number % PIECES;
        const uint32_t row = u.m0 + p.half * HALF_ROWS + p.row, column = u.n0 + p.piece * 8;
        p.at = row * a.g.ldc + column;
        p.y = p.up = p.at;
        p.is_in = row < a.g.m && column < a.g.n && number < HALF_PIECES;
        if (END == LS_CUDA_HGMMA_GATED_GRAD) {
            p.y = row * a.g.n + column;
            p.at += divide(column, a.gate) * a.gate.divisor;
            p.up = p.at + a.gate.divisor;
        }
        return p;
    }
    LS_DEVICE uint4 read(const place &p, size_t at) const {
        return p.is_in ? __ldcs((const uint4 *)((const uint16_t *)a.pre + at)) : make_uint4(0, 0, 0, 0);
    }
    LS_DEVICE numbers load(const hgmma_unit &u, int turn) const {
        numbers x = {};
        if (END == LS_CUDA_HGMMA_GELU || turn >= TURNS) return x;
        const place p = place_of(u, turn);
        x.pre = read(p, p.at);
        if (END == LS_CUDA_HGMMA_GATED_GRAD) x.up = read(p, p.up);
        return x;
    }
    LS_DEVICE void store(const place &p, void *to, size_t at, const float (&x)[8]) const {
        if (p.is_in) __stcs((uint4 *)((uint16_t *)to + at), rounded<IS_F16>(x));
    }
    LS_DEVICE void end_piece(const place &p, const numbers &in) const {
        const uint4 made = *(const uint4 *)piece_at(s, p.half, p.row < HALF_ROWS ? p.row : 0, p.piece);
        float c[8], x[8], t[8], up[8];
        widen<IS_F16>(made, c);
        if (END == LS_CUDA_HGMMA_GELU) {
            act_numbers<IS_F16, END>::of(s, c, t);
            LS_UNROLL for (int k = 0; k < 8; k++) x[k] = gelu_both(c[k], t[k]).y;
            if (p.is_in) __stcs((uint4 *)((uint16_t *)a.g.c + p.at), made);
            store(p, a.y, p.y, x);
            return;
        }
        widen<IS_F16>(in.pre, x);
        act_numbers<IS_F16, END>::of(s, x, t);
        if (END == LS_CUDA_HGMMA_GELU_GRAD) {
            LS_UNROLL for (int k = 0; k < 8; k++) {
                const gelu_both g(x[k], t[k]);
                c[k] = c[k] * g.slope, x[k] = g.y;
            }
        } else {
            float dup[8];
            widen<IS_F16>(in.up, up);
            LS_UNROLL for (int k = 0; k < 8; k++) {
                const float g = t[k], silu = x[k] * g;
                dup[k] = c[k] * silu;
                c[k] = (c[k] * up[k]) * silu_slope(x[k], g);
                x[k] = silu * up[k];
            }
            store(p, a.g.c, p.up, dup);
        }
        store(p, a.g.c, p.at, c);
        if (HAS_Y) store(p, a.y, p.y, x);
    }
    LS_DEVICE void run() const {
        hgmma_piece p;
        uint32_t phase = 0;
        for (uint32_t unit = 0; find_piece(a, unit, p); unit++) {
            if (p.end < a.steps) continue; /* another block ends it */
            const hgmma_unit u(a, p.unit, BN);
            numbers now = load(u, 0), next = load(u, 1), then = load(u, 2);
            LS_NO_UNROLL for (int turn = 0; turn < TURNS; turn++) {
                const numbers last = load(u, turn + 3);
                if (turn % HALF_TURNS == 0) barrier_wait(&s.is_made[turn / HALF_TURNS], phase);
                end_piece(place_of(u, turn), now);
                now = next, next = then, then = last;
                if ((turn + 1) % HALF_TURNS) continue;
                __syncwarp();
                if (thread % 32 == 0) barrier_arrive(&s.is_taken[turn / HALF_TURNS]);
            }
            phase ^= 1;
        }
    }
};

template <bool IS_F16, int END> LS_DEVICE void end_tiles(const ls_cuda_hgmma &a, act_shared &s, int thread) {
    if (END == LS_CUDA_HGMMA_GELU || a.y)
        act_end<IS_F16, END, true>{a, s, thread}.run();
    else
        act_end<IS_F16, END, false>{a, s, thread}.run();
}

template <bool IS_F16, int END> LS_DEVICE void hgmma_act(const ls_cuda_hgmma &a) {
    LS_SHARED(uint8_t, memory);
    static_assert(sizeof(act_shared) + 1024 <= LS_CUDA_HGMMA_ACT_SHARED, "what the host asks for");
    act_shared &s = *(act_shared *)(memory + (1024 - shared_at(memory) % 1024) % 1024);
    if (threadIdx.x == 0) {
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
    act_numbers<IS_F16, END>::make(s, (int)threadIdx.x, LS_CUDA_HGMMA_ACT_THREADS);
    __syncthreads();
    if (threadIdx.x < 128) {
        give_registers<104>();
        if (threadIdx.x == 0)
            bring<BN, 0, 0>(a, s);
        else if (threadIdx.x >= 32)
            end_tiles<IS_F16, END>(a, s, (int)threadIdx.x - 32);
    } else if (threadIdx.x < 384) {
        take_registers<152>();
        multiply_tiles<act_part, BN, 0, 0, IS_F16>(a, s);
    } else {
        give_registers<104>();
        end_tiles<IS_F16, END>(a, s, (int)threadIdx.x - 384 + 96);
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
