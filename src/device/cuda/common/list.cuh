/* list.cuh: reads the lists of sizes and of tensors in a kernel's arguments (list.h). */
#pragma once
#include "device/cuda/common/base.cuh"
#include "device/cuda/common/list.h"

/* Returns entry i of a list of sizes; i is not checked. */
LS_DEVICE size_t size_at(const ls_cuda_sizes &list, size_t i) { return list.many ? list.many[i] : list.few[i]; }
/* Returns the token with which token slice i (a fixed part) of a sequence begins; T for i = slices. */
LS_DEVICE size_t token_of(const ls_cuda_slices &s, size_t i) {
    return s.are_listed ? size_at(s.tokens, i) : i * s.T / s.slices;
}
/* Returns entry i of a list of pointers; i is not checked. */
LS_DEVICE const void *pointer_at(const ls_cuda_pointers &list, size_t i) {
    return list.many ? list.many[i] : list.few[i];
}
