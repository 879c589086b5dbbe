/* drop.h: dropout, as kernels take it (drop.cuh). */
#ifndef LS_DEVICE_CUDA_COMMON_DROP_H
#define LS_DEVICE_CUDA_COMMON_DROP_H

#include "device/cuda/common/divider.h"
#include "device/cuda/common/philox.h"

/* As ls_drop. With gaps rows have 31 bits. */
typedef struct ls_cuda_drop {
    ls_cuda_rng key;
    uint64_t first;
    size_t gap;
    ls_cuda_divider together;
    uint32_t threshold;
    float scale;
} ls_cuda_drop;

#endif
