/* philox.h: the key of a sequence of random numbers, as kernels take it (philox.cuh). */
#ifndef LS_DEVICE_CUDA_COMMON_PHILOX_H
#define LS_DEVICE_CUDA_COMMON_PHILOX_H

#include "device/cuda/common/types.h"

/* The fields of ls_rng_key (base/rng.h). */
typedef struct ls_cuda_rng {
    uint64_t seed, step; /* of the run; of training */
    uint32_t purpose;    /* which use of random numbers: each has its own sequence */
} ls_cuda_rng;

#endif
