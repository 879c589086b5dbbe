/* hgmma_over.cu: GEMMs as in hgmma.cu with 192 accumulators in each thread's registers:
 *
 * - over: two whole tiles of 128 × 192, of one slice each or of two: the epilogue of a tile overlaps the mainloop of the next, which pays for
 *   short chains; with many steps (spread) it stores a piece with every other step;
 * - tall: a tile of 256 × 192 of one slice, without bias, which needs less shared memory bandwidth per multiply-add and pays for long chains. The
 *   units of the last two waves may be cut (stream-K).
 *
 * Nothing is added to C, and TMA stores it. If slices are computed separately, a tile is a part (args/hgmma.h), and the kernel that joins
 * the parts adds siblings and bias.
 *
 * Launched by ops/hgmma.c. */
#include "device/cuda/kernels/hgmma.cuh"

enum { OVER_N = LS_CUDA_HGMMA_OVER_N, TALL_M = LS_CUDA_HGMMA_TALL_M };

#ifdef LS_HAS_WGMMA

static_assert(hgmma_part<OVER_N>::PIECES <= LS_CUDA_HGMMA_OVER_STEPS, "a step for each piece");

/* Spreads stores evenly, which leaves more shared memory bandwidth to wgmma. */
struct spread_part : hgmma_part<OVER_N> {
    enum { IS_SPREAD = true };
    LS_DEVICE spread_part(const ls_cuda_hgmma &args) : hgmma_part<OVER_N>(args) {}
};
static_assert(2 * spread_part::PIECES <= LS_CUDA_HGMMA_SPREAD_STEPS, "two steps for each piece");

/* Computes all tiles of this block with overlapped epilogues. The consumer warpgroups run it. */
template <class PART, int TA, int TB, int SLICES, bool IS_F16, class S> LS_DEVICE void multiply_turns(const ls_cuda_hgmma &a, S &s) {
    hgmma_turns<PART, OVER_N, IS_F16, TA, TB, S> turns(a, s);
    if constexpr (SLICES == 1)
        turns.ones();
    else
        turns.twos();
    if (turns.part.thread % 32 == 0) stores_done();
}

/* The kernels hgmma_over_…: gives the warpgroups of a block their roles. */
template <int TA, int TB, int SLICES, class PART = hgmma_part<OVER_N>> LS_DEVICE void hgmma_over(const ls_cuda_hgmma &a) {
    LS_SHARED(uint8_t, memory);
    auto &s = hgmma_open<OVER_N>(memory);
    if (threadIdx.x < 128) {
        give_registers<40>();
        if (threadIdx.x == 0) bring<OVER_N, TA, TB>(a, s);
        return;
    }
    take_registers<232>();
    if (a.g.dtype == LS_CUDA_F16)
        multiply_turns<PART, TA, TB, SLICES, true>(a, s);
    else
        multiply_turns<PART, TA, TB, SLICES, false>(a, s);
}

/* All tiles of 256 rows of this block; run() is what the consumers call. A consumer warpgroup has 64 rows of the upper half and 64 of
 * the lower, whose accumulators take the place of a second slice's. */
template <int TA, int TB, bool IS_F16, class S> struct tall_tiles {
    typedef hgmma_part<OVER_N> part_type;
    const ls_cuda_hgmma &a;
    S &s;
    part_type part;
    typename part_type::sums upper, lower;
    int stage = 0;
    uint32_t phase = 0;
    LS_DEVICE tall_tiles(const ls_cuda_hgmma &args, S &shared) : a(args), s(shared), part(args) {}

    /* Waits for the present stage and starts its wgmma into both halves; keep 0: overwrites them. */
    LS_DEVICE void step(int keep) {
        const uint32_t at = shared_at(s.a[stage]) + part.warpgroup * CHUNK_BYTES, b = shared_at(s.b[stage]);
        barrier_wait(&s.full[stage], phase);
        wgmma_begin();
        LS_UNROLL for (int g = 0; g < BK / GRANULE_K; g++) {
            const uint64_t with = wgmma_tile(b + g * (TB ? 2048 : 32), CHUNK_BYTES);
            const uint32_t first = at + g * (TA ? 2048 : 32);
            wgmma_granule<IS_F16, TA, TB>(upper, wgmma_tile(first, CHUNK_BYTES), with, keep | g);
            wgmma_granule<IS_F16, TA, TB>(lower, wgmma_tile(first + BM / 64 * CHUNK_BYTES, CHUNK_BYTES), with, keep | g);
        }
        wgmma_commit();
    }
    /* Returns the previous stage, whose wgmma is complete, to the producer. */
    LS_DEVICE void release() {
        const int before = (stage ? stage : S::STAGES) - 1;
        if (part.thread == 0) barrier_arrive(&s.empty[before]);
    }
    LS_DEVICE void advance() {
        if (++stage == S::STAGES) stage = 0, phase ^= 1;
    }
    /* Returns the steps of piece `turn`, 0 if there is none, and sets is_begun to whether another block has begun it. */
    LS_DEVICE uint32_t count_of(uint32_t turn, int &is_begun) const {
        hgmma_piece p;
        if (!find_piece(a, found_again(turn), p)) return 0;
        is_begun = p.begin != 0;
        return min(p.end, hgmma_walk(a, hgmma_unit(a, p.unit, OVER_N, TALL_M).first, 0).left) - p.begin;
    }
    /* Stores one half. Values of a piece are computed again for the next one, which saves registers. */
    LS_DEVICE void finish(const typename part_type::sums &d, const hgmma_unit &out) const {
        LS_UNROLL for (int q = 0; q < part_type::PIECES; q++) {
            const part_type self(a);
            self.template finish_piece<false>(d, q, make_float2(0, 0), s, out);
        }
    }
    /* Stores the tile of piece `turn`, or hands its sums to the block that completes it. */
    LS_DEVICE void end_piece(uint32_t turn) {
        hgmma_piece p;
        find_piece(a, found_again(turn), p);
        if (p.end < a.steps) {
            part_type(a).hand_over(upper, lower, block_number(), true);
            return;
        }
        hgmma_unit out(a, p.unit, OVER_N, TALL_M);
        finish(upper, out);
        out.m0 += BM;
        finish(lower, out);
    }
    /* Computes all pieces of this block. The consumer warpgroups run it. */
    LS_DEVICE void run() {
        int is_begun = 0;
        uint32_t left;
        for (uint32_t turn = 0; (left = uniform(count_of(turn, is_begun))) != 0; turn++) {
            is_begun = (int)uniform((uint32_t)is_begun);
            if (is_begun) part_type(a).take_over(upper, lower, block_number() + 1, true);
            step(is_begun);
            advance();
            while (--left) {
                step(1);
                wgmma_wait<1>();
                release();
                advance();
            }
            wgmma_wait<0>();
            release();
            end_piece(turn);
        }
        if (part.thread % 32 == 0) stores_done();
    }
};

/* The kernels hgmma_tall_…: gives the warpgroups of a block their roles. */
template <int TA, int TB> LS_DEVICE void hgmma_tall(const ls_cuda_hgmma &a) {
    typedef hgmma_shared<OVER_N, TALL_M> shared;
    LS_SHARED(uint8_t, memory);
    shared &s = hgmma_open<OVER_N, TALL_M>(memory);
    if (threadIdx.x < 128) {
        give_registers<40>();
        if (threadIdx.x == 0) bring<OVER_N, TA, TB, shared, TALL_M>(a, s);
        return;
    }
    take_registers<232>();
    if (a.g.dtype == LS_CUDA_F16)
        tall_tiles<TA, TB, true, shared>(a, s).run();
    else
        tall_tiles<TA, TB, false, shared>(a, s).run();
}

#else

struct spread_part {};
template <int TA, int TB, int SLICES, class PART = spread_part> LS_DEVICE void hgmma_over(const ls_cuda_hgmma &) {} /* never started on other GPUs */
template <int TA, int TB> LS_DEVICE void hgmma_tall(const ls_cuda_hgmma &) {}

#endif

/* The kernels: the form of the GEMM; _2: of two slices. */
LS_KERNEL_ALONE(hgmma_over_nn, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma_over<0, 1, 1>(a); }
LS_KERNEL_ALONE(hgmma_over_nt, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma_over<0, 0, 1>(a); }
LS_KERNEL_ALONE(hgmma_over_nt_spread, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma_over<0, 0, 1, spread_part>(a); }
LS_KERNEL_ALONE(hgmma_over_tn, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma_over<1, 1, 1>(a); }
LS_KERNEL_ALONE(hgmma_over_nn_2, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma_over<0, 1, 2>(a); }
LS_KERNEL_ALONE(hgmma_over_nt_2, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma_over<0, 0, 2>(a); }
LS_KERNEL_ALONE(hgmma_over_tn_2, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma_over<1, 1, 2>(a); }
LS_KERNEL_ALONE(hgmma_tall_nn, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma_tall<0, 1>(a); }
LS_KERNEL_ALONE(hgmma_tall_nt, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma_tall<0, 0>(a); }
LS_KERNEL_ALONE(hgmma_tall_tn, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma_tall<1, 1>(a); }
