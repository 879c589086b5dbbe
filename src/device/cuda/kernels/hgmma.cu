/* hgmma.cu: GEMMs of the matrix unit hgmma (docs/reference/arithmetic.md, "Matrix units") at the speed of the tensor cores of
 * compute capability 9.0, for operands that TMA can load; hgmma_any.cu has the rest. Launched by ops/hgmma.c.
 *
 *     shared memory | steps of A | steps of B | output buffers of C | barriers |
 *
 * The warpgroup that multiplies a tile also stores it. */
#include "device/cuda/kernels/hgmma.cuh"

#ifdef LS_HAS_WGMMA

/* Tiles of 256 columns, with any number of slices: the sums of a slice are held for the next slice in registers and in shared memory, mostly in the
 * output buffers, which are free until then. So the sums of two slices do not go through global memory. */
template <int TA, int TB, bool IS_F16, class S> struct held_tiles {
    typedef hgmma_part<LS_CUDA_HGMMA_HELD_N> part_type;
    enum { COUNT = part_type::COUNT, HELD = LS_CUDA_HGMMA_HELD, STAGED = S::STAGED * LS_CUDA_HGMMA_STAGED_BYTES / 512, PACKS = (COUNT - HELD) / 4 };
    enum { THREADS = part_type::THREADS };
    static_assert(sizeof(S) % 16 == 0, "what lies behind begins with a pack");
    static_assert(512 * (PACKS - STAGED) == LS_CUDA_HGMMA_HELD_BYTES / 8, "what the host asks for");
    const ls_cuda_hgmma &a;
    S &s;
    part_type part;
    typename part_type::sums d;
    float held[HELD]; /* sums of the first slice; the others are in shared memory */
    LS_DEVICE held_tiles(const ls_cuda_hgmma &args, S &shared) : a(args), s(shared), part(args) {}

    /* Returns the place in shared memory of four held sums: in the output buffers or, for the last ones, behind all else. */
    LS_DEVICE float4 *rest(int q) const {
        const int thread = (int)found_again(threadIdx.x) - 128, warp = thread / 32, lane = thread % 32;
        float4 *behind = (float4 *)(&s + 1) + warp * (PACKS - STAGED) * 32 + lane - STAGED * 32;
        return (q < STAGED ? (float4 *)s.staged[warp] + lane : behind) + q * 32;
    }
    /* Waits until TMA has read the output buffers. */
    LS_DEVICE void free_rest() const {
        if (part.thread % 32 == 0) stores_read<0>();
        __syncwarp();
    }
    /* Holds the sums of a slice until those of the next are complete. */
    LS_DEVICE void hold() {
        free_rest();
        LS_UNROLL for (int q = 0; q < PACKS; q++) {
            const float *x = d + HELD + 4 * q;
            *rest(q) = make_float4(x[0], x[1], x[2], x[3]);
        }
        LS_UNROLL for (int i = 0; i < HELD; i++) held[i] = d[i];
    }
    /* Adds the sums that are held to those of the next slice, from the left. */
    LS_DEVICE void add_held() {
        LS_UNROLL for (int i = 0; i < HELD; i++) d[i] = held[i] + d[i];
        LS_UNROLL for (int q = 0; q < PACKS; q++) {
            float *x = d + HELD + 4 * q;
            const float4 v = *rest(q);
            x[0] = v.x + x[0], x[1] = v.y + x[1], x[2] = v.z + x[2], x[3] = v.w + x[3];
        }
        __syncwarp();
    }

    /* Writes the sums of a unit for the block that completes it (hgmma_part). is_second: the first slice is complete and held. */
    LS_DEVICE void hand_over(bool is_second) const {
        const part_type self(a);
        const uint32_t to = block_number();
        self.write_set(self.set_at(a.begun, 2 * to), d);
        if (is_second) {
            float4 *set = self.set_at(a.begun, 2 * to + 1);
            self.write_set(set, held);
            LS_UNROLL for (int q = 0; q < PACKS; q++) set[(HELD / 4 + q) * THREADS] = *rest(q);
        }
        self.tell_begun(to);
    }
    /* Waits for and reads the sums of a unit that another block began. is_second: its first slice is complete. */
    LS_DEVICE void take_over(bool is_second) {
        const part_type self(a);
        const uint32_t from = block_number() + 1;
        self.await_begun(from);
        self.read_set(self.set_at(a.begun, 2 * from), d);
        if (!is_second) return;
        free_rest();
        const float4 *set = self.set_at(a.begun, 2 * from + 1);
        self.read_set(set, held);
        LS_UNROLL for (int q = 0; q < PACKS; q++) *rest(q) = __ldcg(set + (HELD / 4 + q) * THREADS);
    }

    /* Ends a slice: adds it to the tree. The sum of one slice is held for its neighbour; sums of two or more go to global memory. */
    LS_DEVICE void end_slice(int s, int slices) {
        float *sets = a.g.far + (size_t)blockIdx.x * a.g.far_levels * (BM * LS_CUDA_HGMMA_HELD_N);
        const unsigned complete = s + 1 == slices ? (unsigned)s : (unsigned)s & ~((unsigned)s + 1);
        if (complete & 1) add_held();
        for (unsigned far = complete >> 1; far; far &= far - 1) {
            const float4 *from = part_type(a).set_at(sets, __ffs((int)far) - 1);
            LS_UNROLL for (int q = 0; q < COUNT / 4; q++) {
                if (q % 8 == 0) asm volatile("" ::: "memory"); /* not all loads at once: registers */
                const float4 v = from[q * THREADS];
                d[4 * q] = v.x + d[4 * q], d[4 * q + 1] = v.y + d[4 * q + 1];
                d[4 * q + 2] = v.z + d[4 * q + 2], d[4 * q + 3] = v.w + d[4 * q + 3];
            }
        }
        if (s + 1 == slices) return;
        if (s % 2 == 0)
            hold();
        else
            part_type(a).write_set(part_type(a).set_at(sets, __ffs(~s) - 2), d);
    }

    /* Computes all pieces of this block. The consumer warpgroups run it. */
    LS_DEVICE void run() {
        hgmma_steps<IS_F16, TA, TB, S> steps{s, part.warpgroup, part.thread == 0};
        hgmma_piece p;
        for (uint32_t turn = 0; find_piece(a, found_again(turn), p); turn++) {
            const hgmma_unit u(a, p.unit, LS_CUDA_HGMMA_HELD_N);
            hgmma_walk walk(a, u.first, p.begin);
            const uint32_t total = walk.total(u.first, u.last), end = min(p.end, total);
            int keep = 0;
            LS_UNROLL for (int i = 0; i < HELD; i++) forget_number(held[i]);
            if (p.begin) {
                take_over(walk.slice > u.first);
                keep = walk.left < walk.steps_of(walk.slice);
            } else if (a.g.accumulate) {
                part_type(a).continue_from_c(d, u);
                keep = 1;
            }
            for (uint32_t left = end - p.begin; left;) {
                const uint32_t count = uniform(min(left, walk.left));
                const bool ends = count == walk.left;
                const int slice = walk.slice - u.first;
                steps.template run<false>(d, count, keep);
                steps.end();
                left -= count;
                walk.skip(count, u.last);
                if (ends) end_slice(slice, u.last - u.first);
                keep = 0;
            }
            if (end < total)
                hand_over(u.last - u.first > 1 && end >= walk.steps_of(u.first));
            else
                part_type(a).finish(d, s, hgmma_unit(a, found_again(p.unit), LS_CUDA_HGMMA_HELD_N), 0);
        }
        if (part.thread % 32 == 0) stores_done();
    }
};

/* Computes all pieces of this block by tiles of BN columns. */
template <int BN, int TA, int TB, bool IS_F16, class S> LS_DEVICE void multiply(const ls_cuda_hgmma &a, S &s) {
    if constexpr (BN == LS_CUDA_HGMMA_HELD_N)
        held_tiles<TA, TB, IS_F16, S>(a, s).run();
    else
        multiply_tiles<hgmma_part<BN>, BN, TA, TB, IS_F16>(a, s);
}

/* The kernels: gives the warpgroups of a block their roles. TA, TB: in A, in B k goes from row to row (A in form TN; B in forms NN and
 * TN). */
template <int BN, int TA, int TB> LS_DEVICE void hgmma(const ls_cuda_hgmma &a) {
    LS_SHARED(uint8_t, memory);
    hgmma_shared<BN> &s = hgmma_open<BN>(memory);
    if (threadIdx.x < 128) {
        give_registers<40>();
        if (threadIdx.x == 0) bring<BN, TA, TB>(a, s);
        return;
    }
    take_registers<232>();
    if (a.g.dtype == LS_CUDA_F16)
        multiply<BN, TA, TB, true>(a, s);
    else
        multiply<BN, TA, TB, false>(a, s);
}

#else

template <int BN, int TA, int TB> LS_DEVICE void hgmma(const ls_cuda_hgmma &) {} /* never started on other GPUs */

#endif

/* The kernels: the form of the GEMM and the columns of a tile. */
LS_KERNEL_ALONE(hgmma_nn_256, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma<256, 0, 1>(a); }
LS_KERNEL_ALONE(hgmma_nn_192, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma<192, 0, 1>(a); }
LS_KERNEL_ALONE(hgmma_nn_128, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma<128, 0, 1>(a); }
LS_KERNEL_ALONE(hgmma_nt_256, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma<256, 0, 0>(a); }
LS_KERNEL_ALONE(hgmma_nt_192, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma<192, 0, 0>(a); }
LS_KERNEL_ALONE(hgmma_nt_128, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma<128, 0, 0>(a); }
LS_KERNEL_ALONE(hgmma_tn_256, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma<256, 1, 1>(a); }
LS_KERNEL_ALONE(hgmma_tn_192, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma<192, 1, 1>(a); }
LS_KERNEL_ALONE(hgmma_tn_128, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma<128, 1, 1>(a); }
