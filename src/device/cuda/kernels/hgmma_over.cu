/* hgmma_over.cu: the products of hgmma.cu whose tiles are whole and of one slice, or of two, in tiles of 128 × 192: a tile goes
 * out while the next is multiplied, which pays where chains are short. */
#include "device/cuda/kernels/hgmma.cuh"

enum { OVER_N = 192 };

#ifdef LS_HAS_WGMMA

static_assert(hgmma_part<OVER_N>::PIECES <= LS_CUDA_HGMMA_OVER_STEPS, "a step for each piece");

template <int TA, int TB, int SLICES, bool IS_F16, class S> LS_DEVICE void multiply_turns(const ls_cuda_hgmma &a, S &s) {
    hgmma_turns<hgmma_part<OVER_N>, OVER_N, IS_F16, TA, TB, S> turns(a, s);
    if constexpr (SLICES == 1)
        turns.ones();
    else
        turns.twos();
    if (turns.part.thread % 32 == 0) stores_done();
}

template <int TA, int TB, int SLICES> LS_DEVICE void hgmma_over(const ls_cuda_hgmma &a) {
    LS_SHARED(uint8_t, memory);
    auto &s = hgmma_open<OVER_N>(memory);
    if (threadIdx.x < 128) {
        give_registers<40>();
        if (threadIdx.x == 0) bring<OVER_N, TA, TB>(a, s);
        return;
    }
    take_registers<232>();
    if (a.g.dtype == LS_CUDA_F16)
        multiply_turns<TA, TB, SLICES, true>(a, s);
    else
        multiply_turns<TA, TB, SLICES, false>(a, s);
}

#else

template <int TA, int TB, int SLICES> LS_DEVICE void hgmma_over(const ls_cuda_hgmma &) {} /* never started on other GPUs */

#endif

LS_KERNEL_ALONE(hgmma_over_nn, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma_over<0, 1, 1>(a); }
LS_KERNEL_ALONE(hgmma_over_nt, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma_over<0, 0, 1>(a); }
LS_KERNEL_ALONE(hgmma_over_tn, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma_over<1, 1, 1>(a); }
LS_KERNEL_ALONE(hgmma_over_nn_2, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma_over<0, 1, 2>(a); }
LS_KERNEL_ALONE(hgmma_over_nt_2, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma_over<0, 0, 2>(a); }
LS_KERNEL_ALONE(hgmma_over_tn_2, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma_over<1, 1, 2>(a); }
