/* hgmma.cu: matrix products with the unit hgmma (docs/arithmetic.md, "Matrix units") at the speed of the tensor cores of
 * compute capability 9.0, for operands that its copy engine can read; hgmma_any.cu has the rest.
 *
 *     shared memory | steps of A | steps of B | numbers of C on their way out | barriers |
 *
 * Who has multiplied a tile also stores it. */
#include "device/cuda/kernels/hgmma.cuh"

#ifdef LS_HAS_WGMMA

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
        multiply_tiles<hgmma_part<BN>, BN, TA, TB, true>(a, s);
    else
        multiply_tiles<hgmma_part<BN>, BN, TA, TB, false>(a, s);
}

#else

template <int BN, int TA, int TB> LS_DEVICE void hgmma(const ls_cuda_hgmma &) {} /* never started on other GPUs */

#endif

LS_KERNEL_ALONE(hgmma_nn_256, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma<256, 0, 1>(a); }
LS_KERNEL_ALONE(hgmma_nn_192, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma<192, 0, 1>(a); }
LS_KERNEL_ALONE(hgmma_nn_128, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma<128, 0, 1>(a); }
LS_KERNEL_ALONE(hgmma_nt_256, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma<256, 0, 0>(a); }
LS_KERNEL_ALONE(hgmma_nt_192, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma<192, 0, 0>(a); }
LS_KERNEL_ALONE(hgmma_nt_128, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma<128, 0, 0>(a); }
LS_KERNEL_ALONE(hgmma_tn_256, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma<256, 1, 1>(a); }
LS_KERNEL_ALONE(hgmma_tn_192, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma<192, 1, 1>(a); }
LS_KERNEL_ALONE(hgmma_tn_128, ls_cuda_hgmma, LS_CUDA_HGMMA_THREADS) { hgmma<128, 1, 1>(a); }
