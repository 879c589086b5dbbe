/* drop.h: which elements dropout drops, as kernels take it (drop.cuh); made by ls_cuda_drop_of (ops/drop.h). */
#ifndef LS_DEVICE_CUDA_COMMON_DROP_H
#define LS_DEVICE_CUDA_COMMON_DROP_H

#include "device/cuda/common/divider.h"
#include "device/cuda/common/philox.h"

/* The fields of ls_drop (calls.h). If gap is not 0, rows of the call must have numbers below 2^31. */
typedef struct ls_cuda_drop {
    ls_cuda_rng key;
    uint64_t first;           /* number in the batch of the call's first row */
    size_t gap;               /* rows of the batch between those of the call of two sequences; 0: all are neighbours */
    ls_cuda_divider together; /* divisor: rows of the call in a sequence */
    uint32_t threshold;       /* elements whose random number is below are dropped */
    float scale;              /* of the others; 0: no dropout */
} ls_cuda_drop;

#endif
