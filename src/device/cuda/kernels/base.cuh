/* base.cuh: what all kernels share: how a kernel is declared, 16-bit numbers, rows of sixteen lanes.
 *
 * A kernel takes one struct by value, declared in the family's header (norm.h for norm.cu), which the host side fills in:
 *
 *     LS_KERNEL(norm_forward, ls_cuda_norm, 128) { … a.rows … }      128: threads of a block, at most
 *
 * The same sources are compiled by nvcc, by NVRTC, and by a C++ compiler for tests without a GPU (tests/cuda/on_cpu.h:
 * threads of a block are fibers there). Compiled with -fmad=false: a fused multiply-add is where __fmaf_rn stands and
 * nowhere else; no fast math, no floating-point atomics. The formulas are those of docs/arithmetic.md, in its order. */
#pragma once
#include "device/cuda/kernels/types.h"

#ifndef LS_CUDA_ON_CPU_H
#define LS_KERNEL(name, type, threads) \
    extern "C" __global__ void __launch_bounds__(threads) ls_##name(const __grid_constant__ type a)
/* Shared memory whose size the launch gives. */
#define LS_SHARED(type, name)                 \
    extern __shared__ float4 ls_shared_memory[]; \
    type *name = (type *)ls_shared_memory
#endif

#define LS_DEVICE __device__ __forceinline__

/* ---- 16-bit numbers ------------------------------------------------------------------------------------------------ */

#define LS_NAN_BITS 0x7FC00000u

/* Every NaN becomes one NaN, both ways. */
LS_DEVICE float from_bf16(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    return __uint_as_float((bits & 0x7FFFFFFFu) > 0x7F800000u ? LS_NAN_BITS : bits);
}

/* To nearest even. */
LS_DEVICE uint16_t to_bf16(float x) {
    uint32_t bits = __float_as_uint(x);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (uint16_t)(LS_NAN_BITS >> 16);
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

#ifdef LS_CUDA_ON_CPU_H
LS_DEVICE float from_f16(uint16_t half) {
    uint32_t sign = (half & 0x8000u) << 16, rest = half & 0x7FFFu;
    if (rest > 0x7C00u) return __uint_as_float(LS_NAN_BITS);
    if (rest == 0x7C00u) return __uint_as_float(sign | 0x7F800000u);
    if (rest >= 0x0400u) return __uint_as_float(sign | ((rest << 13) + (112u << 23)));
    return __uint_as_float(sign | __float_as_uint((float)rest * 0x1p-24f));
}

LS_DEVICE uint16_t to_f16(float x) {
    uint32_t bits = __float_as_uint(x), sign = bits >> 16 & 0x8000u, rest = bits & 0x7FFFFFFFu;
    if (rest > 0x7F800000u) return 0x7E00u;
    if (rest >= 0x477FF000u) return (uint16_t)(sign | 0x7C00u);
    /* Half the smallest normal and below: one ulp of 0.5 is the step of the subnormals, so the addition rounds. */
    if (rest < 0x38800000u) return (uint16_t)(sign | (__float_as_uint(__uint_as_float(rest) + 0.5f) - 0x3F000000u));
    return (uint16_t)(sign | ((rest - (112u << 23) + 0x0FFFu + (rest >> 13 & 1u)) >> 13));
}
#else
LS_DEVICE float from_f16(uint16_t half) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(half));
    return x != x ? __uint_as_float(LS_NAN_BITS) : x;
}

LS_DEVICE uint16_t to_f16(float x) {
    uint16_t half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
    return x != x ? (uint16_t)0x7E00u : half;
}
#endif

/* ---- sums over a row ----------------------------------------------------------------------------------------------- */

/* The end of a sum16: thread j of sixteen neighbours has lane j; all of them get the sum. */
LS_DEVICE float join16(float lane) {
    lane = lane + __shfl_down_sync(~0u, lane, 8, 16);
    lane = lane + __shfl_down_sync(~0u, lane, 4, 16);
    lane = lane + __shfl_down_sync(~0u, lane, 2, 16);
    lane = lane + __shfl_down_sync(~0u, lane, 1, 16);
    return __shfl_sync(~0u, lane, 0, 16);
}

/* ---- elements of any type ------------------------------------------------------------------------------------------ */

struct bf16 {
    uint16_t bits;
};
struct f16 {
    uint16_t bits;
};

/* Exact. */
LS_DEVICE float load(const float *p) { return *p; }
LS_DEVICE float load(const bf16 *p) { return from_bf16(p->bits); }
LS_DEVICE float load(const f16 *p) { return from_f16(p->bits); }
/* Rounded once, to nearest even. */
LS_DEVICE void store(float *p, float x) { *p = x; }
LS_DEVICE void store(bf16 *p, float x) { p->bits = to_bf16(x); }
LS_DEVICE void store(f16 *p, float x) { p->bits = to_f16(x); }

/* The body once for each type of elements, T. */
#define LS_BY_TYPE(dtype, T, ...)               \
    do {                                        \
        if ((dtype) == LS_CUDA_F32) {           \
            typedef float T;                    \
            __VA_ARGS__                         \
        } else if ((dtype) == LS_CUDA_BF16) {   \
            typedef bf16 T;                     \
            __VA_ARGS__                         \
        } else {                                \
            typedef f16 T;                      \
            __VA_ARGS__                         \
        }                                       \
    } while (0)
