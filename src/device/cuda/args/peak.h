/* peak.h: what the kernels of peak.cu are started with. */
#ifndef LS_DEVICE_CUDA_ARGS_PEAK_H
#define LS_DEVICE_CUDA_ARGS_PEAK_H

#include "device/cuda/common/types.h"

enum { LS_CUDA_PEAK_THREADS = 256, LS_CUDA_PEAK_CHAINS = 16 };
/* A block of peak_hgmma multiplies TOGETHER pairs of matrices, M × N × K each, in a step. */
enum {
    LS_CUDA_PEAK_HGMMA_THREADS = 128,
    LS_CUDA_PEAK_HGMMA_M = 64,
    LS_CUDA_PEAK_HGMMA_N = 256,
    LS_CUDA_PEAK_HGMMA_K = 16,
    LS_CUDA_PEAK_HGMMA_TOGETHER = 4
};
/* TOGETHER: mma.sync instructions of 16 × 8 × 16 of a warp of peak_mma in each step. */
enum { LS_CUDA_PEAK_MMA_THREADS = 256, LS_CUDA_PEAK_MMA_TOGETHER = 16 };

typedef struct ls_cuda_peak {
    size_t steps; /* of each chain of a thread, or of a block */
    float factor; /* multiplier and addend of each fused multiply-add */
    float *out; /* not NULL; a thread whose sum is −1 writes it, which does not happen, but the compiler cannot know */
} ls_cuda_peak;

#endif
