/* list.cuh: lists of sizes and of tensors (list.h). */
#pragma once
#include "device/cuda/common/base.cuh"
#include "device/cuda/common/list.h"

LS_DEVICE size_t size_at(const ls_cuda_sizes &list, size_t i) { return list.many ? list.many[i] : list.few[i]; }
LS_DEVICE const void *pointer_at(const ls_cuda_pointers &list, size_t i) {
    return list.many ? list.many[i] : list.few[i];
}
