/* divider.h: division of numbers below 2^31 by a divisor that the host knows, without a division instruction:
 * divide() of base.cuh. Host code makes the struct and passes it in a kernel's arguments. */
#ifndef LS_DEVICE_CUDA_COMMON_DIVIDER_H
#define LS_DEVICE_CUDA_COMMON_DIVIDER_H

#include "device/cuda/common/types.h"

/* x / divisor is ((the high half of x · factor) + x) >> shift. Made by ls_cuda_divider_of (launch.h); kernels also
 * read `divisor`. */
typedef struct ls_cuda_divider {
    uint32_t divisor, factor, shift;
} ls_cuda_divider;

#endif
