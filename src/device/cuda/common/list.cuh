/* list.cuh: lists of sizes and of tensors (list.h). */
#pragma once
#include "device/cuda/common/base.cuh"
#include "device/cuda/common/list.h"

LS_DEVICE size_t size_at(const ls_cuda_sizes &list, size_t i) { return list.many ? list.many[i] : list.few[i]; }
/* Returns the token with which slice i of a sequence begins; T for the one behind the last. */
LS_DEVICE size_t token_of(const ls_cuda_slices &s, size_t i) {
    return s.are_listed ? size_at(s.tokens, i) : i * s.T / s.slices;
}
LS_DEVICE const void *pointer_at(const ls_cuda_pointers &list, size_t i) {
    return list.many ? list.many[i] : list.few[i];
}
