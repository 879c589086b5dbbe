/* mma_gemm.h: the tiles of the kernels of mma_gemm.cu, whose arguments are those of args/gemm.h. */
#ifndef LS_DEVICE_CUDA_ARGS_MMA_GEMM_H
#define LS_DEVICE_CUDA_ARGS_MMA_GEMM_H

/* A thread block computes a tile of 128 rows and 128 (wide) or 64 (narrow) columns of C. Its four warps have 64 rows
 * and half of the columns each. */
enum {
    LS_CUDA_MMA_M = 128,
    LS_CUDA_MMA_WIDE_N = 128,
    LS_CUDA_MMA_NARROW_N = 64,
    LS_CUDA_MMA_THREADS = 128,
    LS_CUDA_MMA_WIDE_TOGETHER = 2, /* occupancy: thread blocks on a multiprocessor, unless shared memory allows fewer */
    LS_CUDA_MMA_NARROW_TOGETHER = 3,
};

/* The pipeline has three stages: a stage holds the operands of one step of k. Where a multiprocessor has 228 KiB of
 * shared memory (compute capability 9.0 to 11.0) a step is 64 k. Where it has 164 KiB (8.0, 8.7) or 100 KiB
 * (8.6, 8.9, 12.0) a step is 32 k, so that two thread blocks fit. The kernel knows its architecture, and ops/gemm.c
 * decides by the shared memory that the driver reports: both must agree. */
enum { LS_CUDA_MMA_STAGES = 3, LS_CUDA_MMA_LONG_K = 64, LS_CUDA_MMA_SHORT_K = 32 };
#if defined __CUDA_ARCH__ && (__CUDA_ARCH__ < 900 || __CUDA_ARCH__ >= 1200)
enum { LS_CUDA_MMA_K = LS_CUDA_MMA_SHORT_K };
#else
enum { LS_CUDA_MMA_K = LS_CUDA_MMA_LONG_K };
#endif

/* Bytes of shared memory of a tile with n columns and steps of k. */
#define LS_CUDA_MMA_SHARED(n, k) (LS_CUDA_MMA_STAGES * (LS_CUDA_MMA_M + (n)) * (k)*2)

#endif
