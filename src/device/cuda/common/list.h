/* list.h: short lists that kernels take by value, long ones in memory of the device; the slices of a sequence. */
#ifndef LS_DEVICE_CUDA_COMMON_LIST_H
#define LS_DEVICE_CUDA_COMMON_LIST_H

#include "device/cuda/common/types.h"

enum { LS_CUDA_FEW = 65 };

typedef struct ls_cuda_sizes {
    const size_t *many; /* on the device; NULL: they are in few */
    size_t few[LS_CUDA_FEW];
} ls_cuda_sizes;

/* Where the token slices of a sequence end. */
typedef struct ls_cuda_slices {
    size_t T;
    size_t slices;  /* 0: there are none */
    int are_listed; /* in tokens; else slice i begins at ⌊iT/slices⌋ */
    ls_cuda_sizes tokens;
} ls_cuda_slices;

typedef struct ls_cuda_pointers {
    const void *const *many;
    const void *few[LS_CUDA_FEW];
} ls_cuda_pointers;

#endif
