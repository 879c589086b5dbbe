/* compare.h: the arguments of the kernel of compare.cu, by which autotuning (ops/library.c) checks that two
 * results have the same bytes. */
#ifndef LS_DEVICE_CUDA_ARGS_COMPARE_H
#define LS_DEVICE_CUDA_ARGS_COMPARE_H

#include "device/cuda/common/types.h"

/* Threads of a block; bytes that a thread compares at a time. */
enum { LS_CUDA_COMPARE_THREADS = 256, LS_CUDA_COMPARE_BYTES = 16 };

/* Two pieces of device memory. */
typedef struct ls_cuda_compare {
    const void *x, *y; /* at multiples of LS_CUDA_COMPARE_BYTES */
    size_t n;          /* pieces of LS_CUDA_COMPARE_BYTES to compare */
    uint32_t *differ;  /* set to 1 if any byte differs; else left as it is */
} ls_cuda_compare;

#endif
