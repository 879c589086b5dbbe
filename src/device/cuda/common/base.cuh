/* base.cuh: shared by all kernels: how a kernel is declared, 16-bit numbers, cp.async, sums over sixteen lanes.
 *
 * A kernel takes one struct by value, declared in the family's header (args/norm.h for norm.cu), which the host side fills in:
 *
 *     LS_KERNEL(norm_forward, ls_cuda_norm, 128) { … a.rows … }      128: threads of a block, at most
 *
 * Its symbol is ls_norm_forward, and kernels.def has a row for it. The same sources are compiled by nvcc, by NVRTC, and by a C++
 * compiler for tests without a GPU (LS_CUDA_ON_CPU_H, tests/cuda/on_cpu.h: threads of a block are fibers there). Compiled with
 * -fmad=false: a fused multiply-add is where __fmaf_rn stands and nowhere else; no fast math, no floating-point atomics. The formulas
 * are those of docs/reference/arithmetic.md, in its order of additions. */
#pragma once
#include "device/cuda/common/divider.h"
#include "device/cuda/common/types.h"

#ifndef LS_CUDA_ON_CPU_H
/* Declares the kernel ls_name, which takes `a`, a struct of this type. */
#define LS_KERNEL(name, type, threads) \
    extern "C" __global__ void __launch_bounds__(threads) ls_##name(const __grid_constant__ type a)
/* Declares a kernel that may use all registers, so that a multiprocessor has room for one block only. */
#define LS_KERNEL_ALONE(name, type, threads) \
    extern "C" __global__ void __launch_bounds__(threads, 1) ls_##name(const __grid_constant__ type a)
/* Declares a kernel whose registers leave room for so many blocks on a multiprocessor. */
#define LS_KERNEL_MANY(name, type, threads, blocks) \
    extern "C" __global__ void __launch_bounds__(threads, blocks) ls_##name(const __grid_constant__ type a)
/* Is true for GPUs before Hopper, for which the compiler needs some registers more. */
#define LS_BEFORE_HOPPER (__CUDA_ARCH__ < 900)
/* Declares a pointer to the dynamic shared memory of the block. */
#define LS_SHARED(type, name)                 \
    extern __shared__ float4 ls_shared_memory[]; \
    type *name = (type *)ls_shared_memory
#define LS_UNROLL _Pragma("unroll")
#define LS_UNROLL_2 _Pragma("unroll 2")
#define LS_UNROLL_4 _Pragma("unroll 4")
#define LS_UNROLL_8 _Pragma("unroll 8")
#define LS_UNROLL_16 _Pragma("unroll 16")
#define LS_NO_UNROLL _Pragma("unroll 1")
#else
#define LS_KERNEL_ALONE(name, type, threads) LS_KERNEL(name, type, threads)
#define LS_BEFORE_HOPPER 0
#define LS_KERNEL_MANY(name, type, threads, blocks) LS_KERNEL(name, type, threads)
#define LS_UNROLL
#define LS_UNROLL_2
#define LS_UNROLL_4
#define LS_UNROLL_8
#define LS_UNROLL_16
#define LS_NO_UNROLL
#endif

#define LS_DEVICE __device__ __forceinline__

/* Returns x / d.divisor, rounded down, for x below 2^31, without a division instruction. */
LS_DEVICE uint32_t divide(uint32_t x, const ls_cuda_divider &d) { return (__umulhi(x, d.factor) + x) >> d.shift; }

/* ---- 16-bit numbers ------------------------------------------------------------------------------------------------ */

#define LS_NAN_BITS 0x7FC00000u

/* Converts bf16 to fp32, exactly; every NaN becomes the one NaN of the contract. */
LS_DEVICE float from_bf16(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    return __uint_as_float((bits & 0x7FFFFFFFu) > 0x7F800000u ? LS_NAN_BITS : bits);
}

/* Rounds fp32 to bf16, to nearest even; every NaN becomes the one NaN of the format. */
LS_DEVICE uint16_t to_bf16(float x) {
    uint32_t bits = __float_as_uint(x);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (uint16_t)(LS_NAN_BITS >> 16);
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

/* from_f16() and to_f16() do the same for fp16. plain_from_f16() may keep the bits of a NaN, which saves a comparison. */
#ifdef LS_CUDA_ON_CPU_H
LS_DEVICE float from_f16(uint16_t half) {
    uint32_t sign = (half & 0x8000u) << 16, rest = half & 0x7FFFu;
    if (rest > 0x7C00u) return __uint_as_float(LS_NAN_BITS);
    if (rest == 0x7C00u) return __uint_as_float(sign | 0x7F800000u);
    if (rest >= 0x0400u) return __uint_as_float(sign | ((rest << 13) + (112u << 23)));
    return __uint_as_float(sign | __float_as_uint((float)rest * 0x1p-24f));
}

/* Converts fp16 to fp32, exactly. */
LS_DEVICE float plain_from_f16(uint16_t half) { return from_f16(half); }

/* Rounds fp32 to fp16, to nearest even; every NaN becomes the one NaN of the format. */
LS_DEVICE uint16_t to_f16(float x) {
    uint32_t bits = __float_as_uint(x), sign = bits >> 16 & 0x8000u, rest = bits & 0x7FFFFFFFu;
    if (rest > 0x7F800000u) return 0x7E00u;
    if (rest >= 0x477FF000u) return (uint16_t)(sign | 0x7C00u);
    /* Half the smallest normal and below: one ulp of 0.5 is the step of the subnormals, so the addition rounds. */
    if (rest < 0x38800000u) return (uint16_t)(sign | (__float_as_uint(__uint_as_float(rest) + 0.5f) - 0x3F000000u));
    return (uint16_t)(sign | ((rest - (112u << 23) + 0x0FFFu + (rest >> 13 & 1u)) >> 13));
}
#else
/* Converts fp16 to fp32, exactly; a NaN may keep its bits. */
LS_DEVICE float plain_from_f16(uint16_t half) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(half));
    return x;
}

/* Converts fp16 to fp32, exactly; every NaN becomes the one NaN. */
LS_DEVICE float from_f16(uint16_t half) {
    float x = plain_from_f16(half);
    return x != x ? __uint_as_float(LS_NAN_BITS) : x;
}

/* Rounds fp32 to fp16, to nearest even; every NaN becomes the one NaN of the format. */
LS_DEVICE uint16_t to_f16(float x) {
    uint16_t half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
    return x != x ? (uint16_t)0x7E00u : half;
}
#endif

/* ---- copies into shared memory ------------------------------------------------------------------------------------- */

/* copy16_async() and copy4_async() start asynchronous copies (cp.async) of so many bytes, aligned to their size: those before a
 * commit are one group; copy_async_wait<N> waits until at most N groups of this thread are in flight. Other threads see the numbers
 * after the wait and a __syncthreads(). Without a GPU they copy at once. */
#ifndef LS_CUDA_ON_CPU_H
LS_DEVICE void copy16_async(void *shared, const void *global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((uint32_t)__cvta_generic_to_shared(shared)), "l"(global) : "memory");
}
/* Starts an asynchronous copy of 16 bytes; if !is_there, stores zeros and reads nothing. */
LS_DEVICE void copy16_async_or_zero(void *shared, const void *global, bool is_there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((uint32_t)__cvta_generic_to_shared(shared)), "l"(global),
                 "r"(is_there ? 16 : 0)
                 : "memory");
}
/* Starts an asynchronous copy of 4 bytes. */
LS_DEVICE void copy4_async(void *shared, const void *global) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((uint32_t)__cvta_generic_to_shared(shared)), "l"(global) : "memory");
}
/* Ends a group of this thread's asynchronous copies. */
LS_DEVICE void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/* Waits until at most N groups of this thread's copies are in flight. */
template <int N> LS_DEVICE void copy_async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
#else
LS_DEVICE void copy16_async(void *shared, const void *global) { *(float4 *)shared = *(const float4 *)global; }
LS_DEVICE void copy16_async_or_zero(void *shared, const void *global, bool is_there) {
    *(float4 *)shared = is_there ? *(const float4 *)global : make_float4(0, 0, 0, 0);
}
LS_DEVICE void copy4_async(void *shared, const void *global) { *(float *)shared = *(const float *)global; }
LS_DEVICE void copy_async_commit() {}
template <int N> LS_DEVICE void copy_async_wait() {}
#endif

/* Prefetches the 128 bytes around an address into L2. */
LS_DEVICE void prefetch(const void *global) {
#ifndef LS_CUDA_ON_CPU_H
    asm volatile("prefetch.global.L2 [%0];" ::"l"(global));
#else
    (void)global;
#endif
}

/* Delays the thread by so many clock cycles; without a GPU it does nothing. */
LS_DEVICE void wait_cycles(unsigned cycles) {
#ifndef LS_CUDA_ON_CPU_H
    const long long begin = clock64();
    while (clock64() - begin < cycles) continue;
#else
    (void)cycles;
#endif
}

/* ---- sums over a row ----------------------------------------------------------------------------------------------- */

/* Returns a sum16 (the contract's sum over sixteen lanes, lane i of which has elements i, i + 16, …) to all sixteen neighbouring
 * threads, of which thread j passes lane j. The whole warp calls it. */
LS_DEVICE float join16(float lane) {
    lane = lane + __shfl_down_sync(~0u, lane, 8, 16);
    lane = lane + __shfl_down_sync(~0u, lane, 4, 16);
    lane = lane + __shfl_down_sync(~0u, lane, 2, 16);
    lane = lane + __shfl_down_sync(~0u, lane, 1, 16);
    return __shfl_sync(~0u, lane, 0, 16);
}

/* ---- elements of any type ------------------------------------------------------------------------------------------ */

/* A bf16 number in memory; f16: an fp16 number. */
struct bf16 {
    uint16_t bits;
};
struct f16 {
    uint16_t bits;
};

#ifndef LS_CUDA_ON_CPU_H
/* Rounds two numbers, neither of which is NaN, to the type of the first argument, and packs them, the first in the low half. */
LS_DEVICE uint32_t rounded_two(bf16, float low, float high) {
    uint32_t two;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
    return two;
}
/* Rounds two numbers, neither of which is NaN, to fp16 and packs them, the first in the low half. */
LS_DEVICE uint32_t rounded_two(f16, float low, float high) {
    uint32_t two;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
    return two;
}
#endif

/* Loads an element as fp32, exactly. */
LS_DEVICE float load(const float *p) { return *p; }
/* Loads an element as fp32, exactly; every NaN becomes the one NaN. */
LS_DEVICE float load(const bf16 *p) { return from_bf16(p->bits); }
/* Loads an element as fp32, exactly; every NaN becomes the one NaN. */
LS_DEVICE float load(const f16 *p) { return from_f16(p->bits); }
/* Stores x. */
LS_DEVICE void store(float *p, float x) { *p = x; }
/* Stores x, rounded to nearest even. */
LS_DEVICE void store(bf16 *p, float x) { p->bits = to_bf16(x); }
/* Stores x, rounded to nearest even. */
LS_DEVICE void store(f16 *p, float x) { p->bits = to_f16(x); }

/* Loads four neighbours as fp32; the address is a multiple of four elements. */
LS_DEVICE float4 load4(const float *p) { return *(const float4 *)p; }
/* Loads four neighbours of bf16 as fp32, exactly; every NaN becomes the one NaN. */
LS_DEVICE float4 load4(const bf16 *p) {
    uint2 x = *(const uint2 *)p;
    return make_float4(from_bf16((uint16_t)x.x), from_bf16((uint16_t)(x.x >> 16)), from_bf16((uint16_t)x.y), from_bf16((uint16_t)(x.y >> 16)));
}
/* Loads four neighbours of fp16 as fp32, exactly; every NaN becomes the one NaN. */
LS_DEVICE float4 load4(const f16 *p) {
    uint2 x = *(const uint2 *)p;
    return make_float4(from_f16((uint16_t)x.x), from_f16((uint16_t)(x.x >> 16)), from_f16((uint16_t)x.y), from_f16((uint16_t)(x.y >> 16)));
}
/* Stores four neighbours; the address is a multiple of four elements. */
LS_DEVICE void store4(float *p, float4 x) { *(float4 *)p = x; }
/* Stores four neighbours as bf16, each rounded to nearest even. */
LS_DEVICE void store4(bf16 *p, float4 x) {
    *(uint2 *)p = uint2{to_bf16(x.x) | (uint32_t)to_bf16(x.y) << 16, to_bf16(x.z) | (uint32_t)to_bf16(x.w) << 16};
}
/* Stores four neighbours as fp16, each rounded to nearest even. */
LS_DEVICE void store4(f16 *p, float4 x) {
    *(uint2 *)p = uint2{to_f16(x.x) | (uint32_t)to_f16(x.y) << 16, to_f16(x.z) | (uint32_t)to_f16(x.w) << 16};
}

/* Expands the body once for each element type T, and runs that of `dtype`. */
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
