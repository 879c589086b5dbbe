/* divider.h: quotients of numbers below 2^31 by a number that the host knows, without a division. */
#ifndef LS_DEVICE_CUDA_KERNELS_DIVIDER_H
#define LS_DEVICE_CUDA_KERNELS_DIVIDER_H

#include "device/cuda/kernels/types.h"

/* x / divisor is (the high half of x · factor, + x) >> shift. */
typedef struct ls_cuda_divider {
    uint32_t divisor, factor, shift;
} ls_cuda_divider;

/* Of a divisor below 2^31; that of 0 is that of 1. */
static inline ls_cuda_divider ls_cuda_divider_of(size_t divisor) {
    ls_cuda_divider d = {divisor ? (uint32_t)divisor : 1, 0, 0};
    while (((uint64_t)1 << d.shift) < d.divisor) d.shift++;
    d.factor = (uint32_t)((((((uint64_t)1 << d.shift) - d.divisor) << 32) / d.divisor) + 1);
    return d;
}

#endif
