/* list.h: short lists that kernels take by value, long ones in memory of the device. */
#ifndef LS_DEVICE_CUDA_COMMON_LIST_H
#define LS_DEVICE_CUDA_COMMON_LIST_H

#include "device/cuda/common/types.h"

enum { LS_CUDA_FEW = 65 };

typedef struct ls_cuda_sizes {
    const size_t *many; /* on the device; NULL: they are in few */
    size_t few[LS_CUDA_FEW];
} ls_cuda_sizes;

typedef struct ls_cuda_pointers {
    const void *const *many;
    const void *few[LS_CUDA_FEW];
} ls_cuda_pointers;

#endif
