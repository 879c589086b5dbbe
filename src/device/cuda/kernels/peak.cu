/* peak.cu: fused multiply-adds and nothing else: how many a GPU does at best. */
#include "device/cuda/args/peak.h"
#include "device/cuda/common/base.cuh"

LS_KERNEL(peak, ls_cuda_peak, LS_CUDA_PEAK_THREADS) {
    float chain[LS_CUDA_PEAK_CHAINS], sum = 0.0f;
#pragma unroll
    for (int i = 0; i < LS_CUDA_PEAK_CHAINS; i++) chain[i] = (float)(threadIdx.x + i);
    for (size_t s = 0; s < a.steps; s++)
#pragma unroll
        for (int i = 0; i < LS_CUDA_PEAK_CHAINS; i++) chain[i] = __fmaf_rn(chain[i], a.factor, a.factor);
#pragma unroll
    for (int i = 0; i < LS_CUDA_PEAK_CHAINS; i++) sum = sum + chain[i];
    if (sum == -1.0f) *a.out = sum;
}
