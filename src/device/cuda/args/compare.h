/* compare.h: what the kernel of compare.cu is started with. */
#ifndef LS_DEVICE_CUDA_ARGS_COMPARE_H
#define LS_DEVICE_CUDA_ARGS_COMPARE_H

#include "device/cuda/common/types.h"

enum { LS_CUDA_COMPARE_THREADS = 256, LS_CUDA_COMPARE_BYTES = 16 };

typedef struct ls_cuda_compare {
    const void *x, *y; /* at multiples of LS_CUDA_COMPARE_BYTES */
    size_t n;          /* so many pieces of LS_CUDA_COMPARE_BYTES */
    uint32_t *differ;  /* 1 where a byte does; else left as it is */
} ls_cuda_compare;

#endif
