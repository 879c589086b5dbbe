/* mma.cuh: the instructions for matmuls of 16-bit numbers of compute capability 8.0 and newer: mma.sync, cp.async, ldmatrix.
 * mma.sync has the bits of the unit ampere on Ampere and Ada, and those of hgmma on Hopper and Blackwell. A CPU that plays a
 * GPU computes by the formula of the unit of the capability that it plays. */
#pragma once
#include "device/cuda/common/base.cuh"

#ifndef LS_CUDA_ON_CPU_H
/* Adds 16 products to each sum of a tile of 16 × 8. A lane has in d rows lane / 4 (d[0], d[1]) and that + 8 (d[2], d[3]) of
 * columns 2·(lane mod 4) and the next. */
template <bool IS_F16> LS_DEVICE void mma_16x8x16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    if (IS_F16)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* An address in shared memory, of 32 bits, and its conversion from a pointer. */
typedef uint32_t mma_place;
LS_DEVICE mma_place mma_place_of(void *shared) { return (uint32_t)__cvta_generic_to_shared(shared); }

/* Start an asynchronous copy of 16 bytes, as copy16_async() does. copy16_async_some() reads only `bytes` of them and fills
 * the rest with zeros. */
LS_DEVICE void copy16_async_to(mma_place shared, const void *global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}
LS_DEVICE void copy16_async_some(mma_place shared, const void *global, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes) : "memory");
}

/* Loads four matrices of 8 × 8 numbers by ldmatrix, one into each register: lane l has the address of row l mod 8 of matrix
 * l / 8. ACROSS transposes them. */
template <bool ACROSS> LS_DEVICE void load_matrices(uint32_t &r0, uint32_t &r1, uint32_t &r2, uint32_t &r3, mma_place at) {
    if (ACROSS)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
                     : "r"(at)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
                     : "r"(at)
                     : "memory");
}
#else
#include "device/cpu/portable/hgmma.h"

typedef char *mma_place;
LS_DEVICE mma_place mma_place_of(void *shared) { return (char *)shared; }
LS_DEVICE void copy16_async_to(mma_place shared, const void *global) { memcpy(shared, global, 16); }
LS_DEVICE void copy16_async_some(mma_place shared, const void *global, int bytes) {
    memset(shared, 0, 16);
    memcpy(shared, global, (size_t)bytes);
}

/* Returns the formula of the GPU that is played. */
template <bool IS_F16> LS_DEVICE format unit_format() {
    if (on_cpu::has_ampere_unit) return IS_F16 ? ampere_f16 : ampere_bf16;
    return IS_F16 ? format_f16 : format_bf16;
}
#endif

/* A step: `count` k from k on, at most LENGTH, of the slice `slice`. It ends where its slice or its sequence (g.period) ends.
 * Slices without k are skipped. After the last slice count is 0. */
template <int LENGTH> struct unit_step {
    size_t k;
    int count, slice;
    /* Sets slice to the first one that ends after k, and count. */
    template <class G> LS_DEVICE void settle(const G &g, int last) {
        while (slice < last && k >= g.bounds[slice + 1]) slice++;
        count = 0;
        if (slice >= last) return;
        size_t end = g.bounds[slice + 1];
        if (g.period) end = min(end, (k / g.period + 1) * g.period);
        count = (int)min(end - k, (size_t)LENGTH);
    }
    /* Returns the step after this one. */
    template <class G> LS_DEVICE unit_step next(const G &g, int last) const {
        unit_step step = {k + count, 0, slice};
        step.settle(g, last);
        return step;
    }
};
