/* drop.h: converts the dropout of a call into a kernel's argument; for the host code in ops/. */
#ifndef LS_DEVICE_CUDA_OPS_DROP_H
#define LS_DEVICE_CUDA_OPS_DROP_H

#include "device/cuda/common/drop.h"
#include "device/cuda/launch.h"

/* Returns the dropout of a call (calls.h) as kernels take it, with a prepared division by `together`, which must
 * be below 2^31 (divider.h). */
static inline ls_cuda_drop ls_cuda_drop_of(const ls_drop *drop) {
    return (ls_cuda_drop){.key = {drop->key.seed, drop->key.step, drop->key.purpose},
                          .first = drop->first,
                          .gap = drop->gap,
                          .together = ls_cuda_divider_of(drop->together),
                          .threshold = drop->threshold,
                          .scale = drop->scale};
}

#endif
