/* exp2.cuh: 2^x by the special function unit of a GPU (docs/reference/elementary.md, "exp2 of a GPU"), for attention with hgmma. */
#pragma once
#include "device/cuda/common/base.cuh"

#ifdef LS_CUDA_ON_CPU_H
#include "device/cpu/portable/exp2.h"
#endif

/* Returns 2^x as the instruction ex2.approx.ftz has it, subnormal results flushed to zero; without a GPU the same bits, emulated. */
LS_DEVICE float exp2_of(float x) {
#ifdef LS_CUDA_ON_CPU_H
    prepare_exp2();
    return unit_exp2(x);
#else
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}
