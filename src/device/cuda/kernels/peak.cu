/* peak.cu: fused multiply-adds and nothing else: how many a GPU does at best, by its own units and by tensor cores. */
#include "device/cuda/args/peak.h"
#include "device/cuda/common/mma.cuh"

/* Runs LS_CUDA_PEAK_CHAINS chains of fp32 fused multiply-adds a thread. The sum is stored only if it is −1, which the compiler cannot
 * exclude. */
LS_KERNEL(peak, ls_cuda_peak, LS_CUDA_PEAK_THREADS) {
    float chain[LS_CUDA_PEAK_CHAINS], sum = 0.0f;
#pragma unroll
    for (int i = 0; i < LS_CUDA_PEAK_CHAINS; i++) chain[i] = (float)(threadIdx.x + i);
    for (size_t s = 0; s < a.steps; s++)
#pragma unroll
        for (int i = 0; i < LS_CUDA_PEAK_CHAINS; i++) chain[i] = __fmaf_rn(chain[i], a.factor, a.factor);
#pragma unroll
    for (int i = 0; i < LS_CUDA_PEAK_CHAINS; i++) sum = sum + chain[i];
    if (sum == -1.0f) *a.out = sum;
}

/* Peak of wgmma: one of 64 × 256 × 16 after another, with operands in shared memory, as the fastest matmuls have them. */
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
/* Returns the matrix descriptor of an operand without swizzle: 8 rows of 16 bytes, then the next k, then the next 8 rows. */
LS_DEVICE uint64_t operand_at(const void *shared) {
    const uint64_t next_k = 128 >> 4, next_rows = 256 >> 4;
    return ((uint64_t)__cvta_generic_to_shared(shared) >> 4 & 0x3FFF) | next_k << 16 | next_rows << 32;
}

#define SUMS_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SUMS_32(i)                                                                                                     \
    SUMS_4(i), SUMS_4(i + 4), SUMS_4(i + 8), SUMS_4(i + 12), SUMS_4(i + 16), SUMS_4(i + 20), SUMS_4(i + 24),           \
        SUMS_4(i + 28)
/* Issues d += a·b: 64 × 256, 16 k of bf16; a and b are descriptors. */
LS_DEVICE void multiply(float (&d)[128], uint64_t a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
                 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
                 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
                 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
                 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
                 "%128, %129, 1, 1, 1, 0, 0;"
                 : SUMS_32(0), SUMS_32(32), SUMS_32(64), SUMS_32(96)
                 : "l"(a), "l"(b));
}

LS_KERNEL(peak_hgmma, ls_cuda_peak, LS_CUDA_PEAK_HGMMA_THREADS) {
    __shared__ __align__(128) uint16_t operands[LS_CUDA_PEAK_HGMMA_K * (LS_CUDA_PEAK_HGMMA_M + LS_CUDA_PEAK_HGMMA_N)];
    /* Numbers of all kinds near 1: with zeros it would use less power, and so clock higher, than any product. */
    for (int i = threadIdx.x; i < LS_CUDA_PEAK_HGMMA_K * (LS_CUDA_PEAK_HGMMA_M + LS_CUDA_PEAK_HGMMA_N); i += blockDim.x)
        operands[i] = (uint16_t)(((i * 2654435761u >> 16) & 0x80FF) | 0x3F00);
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    const uint64_t rows = operand_at(operands), columns = operand_at(operands + LS_CUDA_PEAK_HGMMA_K * LS_CUDA_PEAK_HGMMA_M);
    float d[128], sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 128; i++) d[i] = 0.0f;
    for (size_t s = 0; s < a.steps; s++) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        multiply(d, rows, columns);
        multiply(d, rows, columns);
        multiply(d, rows, columns);
        multiply(d, rows, columns);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
    for (int i = 0; i < 128; i++) sum = sum + d[i];
    if (sum == -1.0f) *a.out = sum;
}
#else
/* Runs a loop instead on a GPU without this unit, so that the kernel compiles and takes time. */
LS_KERNEL(peak_hgmma, ls_cuda_peak, LS_CUDA_PEAK_HGMMA_THREADS) {
    float sum = a.factor;
    for (size_t s = 0; s < 64 * a.steps; s++) sum = __fmaf_rn(sum, a.factor, a.factor);
    if (sum == -1.0f) *a.out = sum;
}
#endif

/* ---- mma.sync ---------------------------------------------------------------------------------------------------- */

/* Runs chains of mma.sync with operands in registers, of exponents that keep sums finite. The sum is stored only if it is
 * −1, which the compiler cannot exclude. A CPU that plays a GPU only takes some time. */
LS_KERNEL(peak_mma, ls_cuda_peak, LS_CUDA_PEAK_MMA_THREADS) {
    float sum = a.factor;
#ifndef LS_CUDA_ON_CPU_H
    uint32_t x[4], y[2];
    float d[LS_CUDA_PEAK_MMA_TOGETHER][4];
    LS_UNROLL for (int i = 0; i < 4; i++) x[i] = ((threadIdx.x * 4 + i) * 2654435761u & 0x80FF80FFu) | 0x3F003F00u;
    LS_UNROLL for (int i = 0; i < 2; i++) y[i] = ((threadIdx.x * 2 + i) * 2246822519u & 0x80FF80FFu) | 0x3F003F00u;
    LS_UNROLL for (int j = 0; j < LS_CUDA_PEAK_MMA_TOGETHER; j++)
        LS_UNROLL for (int i = 0; i < 4; i++) d[j][i] = 0.0f;
    for (size_t s = 0; s < a.steps; s++)
        LS_UNROLL for (int j = 0; j < LS_CUDA_PEAK_MMA_TOGETHER; j++) mma_16x8x16<false>(d[j], x, y);
    LS_UNROLL for (int j = 0; j < LS_CUDA_PEAK_MMA_TOGETHER; j++)
        LS_UNROLL for (int i = 0; i < 4; i++) sum = sum + d[j][i];
#else
    for (size_t s = 0; s < 64 * a.steps; s++) sum = __fmaf_rn(sum, a.factor, a.factor);
#endif
    if (sum == -1.0f) *a.out = sum;
}
