/* hgmma_act.cu: products of the unit hgmma whose rounded result goes through GELU, or through the gradient of GELU or of a gate,
 * before it leaves (ls_gemm_end).
 *
 *     shared memory | steps of A | steps of B | a tile of rounded results | a table | bias | barriers |
 *
 * The end takes almost as long as the product of a tile with k = 768. So others have it, the warps of a third warpgroup and those
 * beside the one that brings: those that multiply leave their rounded results in shared memory and go on with the next tile. Activations
 * of bf16 are looked up; for those of fp16 there is no room. */
#include "device/cuda/common/act_table.cuh"
#include "device/cuda/kernels/hgmma.cuh"

#ifdef LS_HAS_WGMMA

enum { BN = LS_CUDA_HGMMA_ACT_N, HALF_ROWS = BM / CONSUMERS };
/* Warps that have the end take tasks in turns: 4 rows of 8 pieces, a line of memory each. */
enum { ENDERS = 7, TASK_ROWS = 4, TASK_PIECES = 8, ROW_TASKS = BN / (8 * TASK_PIECES) };
enum { TASKS = BM / TASK_ROWS * ROW_TASKS, HALF_TASKS = TASKS / CONSUMERS };

struct act_shared {
    enum { STAGES = LS_CUDA_HGMMA_ACT_STAGES };
    uint16_t a[STAGES][BM * BK], b[STAGES][BN * BK];
    uint16_t made[BM * BN];
    float table[LS_CUDA_SIGMOID_TABLE];
    float bias[2][BN]; /* of a tile and the next */
    uint64_t full[STAGES], empty[STAGES], is_made[CONSUMERS], is_taken[CONSUMERS];
};

/* Where eight neighbours of a row are: pieces of 16 bytes are exchanged, as accesses that go down the rows need it. */
LS_DEVICE uint16_t *piece_at(act_shared &s, int row, int piece) {
    return s.made + row * BN + (piece ^ (row & 7)) * 8;
}

/* The next piece that this block ends, `turn` or later; false: there is none. */
LS_DEVICE bool find_ended(const ls_cuda_hgmma &a, uint32_t &turn, hgmma_piece &p) {
    while (find_piece(a, turn++, p))
        if (p.end >= a.steps) return true;
    return false;
}

/* Those that have the end bring the bias of a tile while the one before it is multiplied. */
LS_DEVICE void bring_bias(const ls_cuda_hgmma &a, act_shared &s, const hgmma_unit &u, uint32_t number, int thread) {
    if (a.g.bias && thread < BN) s.bias[number % 2][thread] = u.n0 + thread < a.g.n ? a.g.bias[u.n0 + thread] : 0;
}

/* ---- who multiplies ------------------------------------------------------------------------------------------------ */

struct act_part : hgmma_part<BN, false> {
    LS_DEVICE act_part(const ls_cuda_hgmma &args) : hgmma_part<BN, false>(args) {}
    enum { IN_REGISTERS = true }; /* there is one */
    template <bool IS_F16> LS_DEVICE void leave(const sums &d, act_shared &s) const {
        const int r = warpgroup * HALF_ROWS + thread / 32 * 16 + thread % 16, c = thread % 32 / 16;
        LS_UNROLL for (int j = 0; j < BN / 16; j++) {
            const float *x = d + j * 8;
            matrices_store(shared_at(piece_at(s, r, 2 * j + c)), pair_of<IS_F16>(x[0], x[1]), pair_of<IS_F16>(x[2], x[3]),
                           pair_of<IS_F16>(x[4], x[5]), pair_of<IS_F16>(x[6], x[7]));
        }
    }
    LS_DEVICE void finish(sums &d, act_shared &s, const hgmma_unit &, uint32_t ended) {
        barrier_wait(&s.is_taken[warpgroup], ended % 2 ^ 1); /* the bias is there then, too */
        if (a.g.bias)
            LS_UNROLL for (int j = 0; j < QUADS; j++) {
                const float2 v = *(const float2 *)(s.bias[ended % 2] + 8 * j + thread % 4 * 2);
                d[4 * j] = d[4 * j] + v.x, d[4 * j + 1] = d[4 * j + 1] + v.y;
                d[4 * j + 2] = d[4 * j + 2] + v.x, d[4 * j + 3] = d[4 * j + 3] + v.y;
            }
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

/* A thread has eight neighbours of a row at a time. Of a task that comes two turns later pre is on its way from memory, and of
 * the next one numbers are on their way from the table. */
template <bool IS_F16, int END> struct act_end {
    const ls_cuda_hgmma &a;
    act_shared &s;
    const int warp, lane;
    enum { LOOKS_AHEAD = END == LS_CUDA_HGMMA_GELU_GRAD }; /* a gate has no registers for it, and GELU forward nothing to look up */

    /* A task of a tile that this block ends. */
    struct cursor {
        uint32_t number, turn, m0, n0; /* number: of the tile; turn: of the piece behind it */
        int task;
        bool is_there;
    };
    LS_DEVICE void enter(cursor &c) const {
        hgmma_piece p;
        c.task = warp;
        c.is_there = find_ended(a, c.turn, p);
        if (!c.is_there) return;
        const hgmma_unit u(a, p.unit, BN);
        c.m0 = u.m0, c.n0 = u.n0;
    }
    LS_DEVICE void advance(cursor &c) const {
        c.task += ENDERS;
        if (c.task < TASKS) return;
        c.number++;
        enter(c);
    }

    struct place {
        int row, piece;   /* of the tile */
        size_t y, at, up; /* elements; at: in C and pre, with a gate that of the gate */
        bool is_in;
    };
    struct numbers {
        uint4 pre, up;
    };
    struct looked_up {
        float x[8], t[8];
    };

    LS_DEVICE place place_of(const cursor &c) const {
        place p;
        const int rows = c.task / ROW_TASKS;
        p.row = rows * TASK_ROWS + lane / TASK_PIECES;
        p.piece = (c.task - rows * ROW_TASKS) * TASK_PIECES + lane % TASK_PIECES;
        const uint32_t row = c.m0 + p.row, column = c.n0 + p.piece * 8;
        p.at = row * a.g.ldc + column;
        p.y = p.up = p.at;
        p.is_in = row < a.g.m && column < a.g.n;
        if (END == LS_CUDA_HGMMA_GATED_GRAD) {
            p.y = row * a.g.n + column;
            p.at += divide(column, a.gate) * a.gate.divisor;
            p.up = p.at + a.gate.divisor;
        }
        return p;
    }
    LS_DEVICE numbers load(const cursor &c) const {
        const uint32_t any = 0x3F803F80u; /* that is in a table */
        numbers x = {make_uint4(any, any, any, any), make_uint4(any, any, any, any)};
        if (END == LS_CUDA_HGMMA_GELU || !c.is_there) return x;
        const place p = place_of(c);
        if (!p.is_in) return x;
        x.pre = __ldcs((const uint4 *)((const uint16_t *)a.pre + p.at));
        if (END == LS_CUDA_HGMMA_GATED_GRAD) x.up = __ldcs((const uint4 *)((const uint16_t *)a.pre + p.up));
        return x;
    }
    LS_DEVICE looked_up look_up(uint4 pre) const {
        looked_up l;
        widen<IS_F16>(pre, l.x);
        act_numbers<IS_F16, END>::of(s, l.x, l.t);
        return l;
    }
    LS_DEVICE void store(const place &p, void *to, size_t at, const float (&x)[8]) const {
        if (p.is_in) __stcs((uint4 *)((uint16_t *)to + at), rounded<IS_F16>(x));
    }
    LS_DEVICE void end_gelu(const place &p, uint4 made) const {
        looked_up l = look_up(made);
        if (p.is_in) __stcs((uint4 *)((uint16_t *)a.g.c + p.at), made);
        LS_UNROLL for (int k = 0; k < 8; k++) l.x[k] = gelu_both(l.x[k], l.t[k]).y;
        store(p, a.y, p.y, l.x);
    }
    LS_DEVICE void end_grad(const place &p, uint4 made, uint4 in_up, const looked_up &l) const {
        float c[8], y[8];
        widen<IS_F16>(made, c);
        if (END == LS_CUDA_HGMMA_GELU_GRAD) {
            LS_UNROLL for (int k = 0; k < 8; k++) {
                const gelu_both g(l.x[k], l.t[k]);
                c[k] = c[k] * g.slope, y[k] = g.y;
            }
        } else {
            float up[8], dup[8];
            widen<IS_F16>(in_up, up);
            LS_UNROLL for (int k = 0; k < 8; k++) {
                const float silu = l.x[k] * l.t[k];
                dup[k] = c[k] * silu;
                c[k] = (c[k] * up[k]) * silu_slope(l.x[k], l.t[k]);
                y[k] = silu * up[k];
            }
            store(p, a.g.c, p.up, dup);
        }
        store(p, a.g.c, p.at, c);
        if (a.y) store(p, a.y, p.y, y);
    }
    /* The bias of the tile behind that of c. */
    LS_DEVICE void bring_next_bias(const cursor &c) const {
        hgmma_piece p;
        uint32_t turn = c.turn;
        if (a.g.bias && find_ended(a, turn, p)) bring_bias(a, s, hgmma_unit(a, p.unit, BN), c.number + 1, warp * 32 + lane);
    }
    LS_DEVICE void run() const {
        cursor now = {}, ahead;
        numbers in[2];
        looked_up l[2];
        enter(now);
        ahead = now;
        LS_UNROLL for (int i = 0; i < 2; i++) {
            in[i] = load(ahead);
            if (ahead.is_there) advance(ahead);
        }
        if (LOOKS_AHEAD) l[0] = look_up(in[0].pre);
        LS_NO_UNROLL while (now.is_there)
            LS_UNROLL for (int i = 0; i < 2; i++) {
                if (!now.is_there) break;
                const int half = now.task >= HALF_TASKS, at = now.task - half * HALF_TASKS;
                if (now.task < ENDERS) bring_next_bias(now);
                if (at < ENDERS) barrier_wait(&s.is_made[half], now.number % 2); /* its first of this half */
                const place p = place_of(now);
                const uint4 made = *(const uint4 *)piece_at(s, p.row, p.piece);
                if (END == LS_CUDA_HGMMA_GELU) {
                    end_gelu(p, made);
                } else {
                    const int next = LOOKS_AHEAD ? 1 - i : i;
                    l[next] = look_up(in[next].pre);
                    end_grad(p, made, in[i].up, l[i]);
                    in[i] = load(ahead);
                    if (ahead.is_there) advance(ahead);
                }
                if (at + ENDERS >= HALF_TASKS) {
                    __syncwarp();
                    if (lane == 0) barrier_arrive(&s.is_taken[half]);
                }
                advance(now);
            }
    }
};

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
    hgmma_piece first;
    uint32_t turn = 0;
    if (find_ended(a, turn, first)) bring_bias(a, s, hgmma_unit(a, first.unit, BN), 0, (int)threadIdx.x);
    __syncthreads();
    if (threadIdx.x < 128) {
        give_registers<104>();
        if (threadIdx.x == 0)
            bring<BN, 0, 0>(a, s);
        else if (threadIdx.x >= 32)
            act_end<IS_F16, END>{a, s, (int)uniform(threadIdx.x / 32) - 1, (int)threadIdx.x % 32}.run();
    } else if (threadIdx.x < 384) {
        take_registers<152>();
        multiply_tiles<act_part, BN, 0, 0, IS_F16>(a, s);
    } else {
        give_registers<104>();
        act_end<IS_F16, END>{a, s, (int)uniform(threadIdx.x / 32) - 9, (int)threadIdx.x % 32}.run();
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
