/* drop.h: which elements dropout drops, as kernels take it (drop.cuh); made by ls_cuda_drop_of (ops/drop.h). */
#ifndef LS_DEVICE_CUDA_COMMON_DROP_H
#define LS_DEVICE_CUDA_COMMON_DROP_H

#include "device/cuda/common/divider.h"
#include "device/cuda/common/philox.h"

/* The fields of ls_drop (calls.h). If gap is not 0, rows of the call must have numbers below 2^31. */
typedef struct ls_cuda_drop {
    ls_cuda_rng key;
    uint64_t first;
    size_t gap;
    ls_cuda_divider together;
    uint32_t threshold; /* elements whose random number is below are dropped */
    float scale;        /* of the others; 0: no dropout */
} ls_cuda_drop;

#endif
