/* list.h: lists in a kernel's arguments: short ones are passed by value, long ones lie in memory of the device.
 * ops/list.h fills them in, list.cuh reads them. */
#ifndef LS_DEVICE_CUDA_COMMON_LIST_H
#define LS_DEVICE_CUDA_COMMON_LIST_H

#include "device/cuda/common/types.h"

enum { LS_CUDA_FEW = 65 }; /* entries of a list that is passed by value, at most */

/* A list of sizes, such as the bounds of groups. */
typedef struct ls_cuda_sizes {
    const size_t *many; /* on the device; NULL: they are in few */
    size_t few[LS_CUDA_FEW];
} ls_cuda_sizes;

/* Where the token slices (the fixed parts into which a sequence is cut for sums over tokens) of a sequence of T
 * tokens begin and end. */
typedef struct ls_cuda_slices {
    size_t T;
    size_t slices;  /* 0: there are none */
    int are_listed; /* in tokens; else slice i begins at ⌊iT/slices⌋ */
    ls_cuda_sizes tokens;
} ls_cuda_slices;

/* A list of tensors. */
typedef struct ls_cuda_pointers {
    const void *const *many; /* on the device; NULL: they are in few */
    const void *few[LS_CUDA_FEW];
} ls_cuda_pointers;

#endif
