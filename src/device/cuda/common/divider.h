/* divider.h: quotients of numbers below 2^31 by a number that the host knows, without a division. */
#ifndef LS_DEVICE_CUDA_COMMON_DIVIDER_H
#define LS_DEVICE_CUDA_COMMON_DIVIDER_H

#include "device/cuda/common/types.h"

/* x / divisor is (the high half of x · factor, + x) >> shift. Made by ls_cuda_divider_of (launch.h). */
typedef struct ls_cuda_divider {
    uint32_t divisor, factor, shift;
} ls_cuda_divider;

#endif
