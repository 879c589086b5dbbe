/* peak.h: what the kernel of peak.cu is started with. */
#ifndef LS_DEVICE_CUDA_ARGS_PEAK_H
#define LS_DEVICE_CUDA_ARGS_PEAK_H

#include "device/cuda/common/types.h"

enum { LS_CUDA_PEAK_THREADS = 256, LS_CUDA_PEAK_CHAINS = 16 };

typedef struct ls_cuda_peak {
    size_t steps; /* of each chain of a thread */
    float factor;
    float *out; /* written only if a sum is a number that cannot come */
} ls_cuda_peak;

#endif
