/* pack.h: how flat arrays and rows are divided among threads (pack.cuh). */
#ifndef LS_DEVICE_CUDA_COMMON_PACK_H
#define LS_DEVICE_CUDA_COMMON_PACK_H

#include "device/cuda/common/types.h"

enum { LS_CUDA_PACK_THREADS = 256 };

typedef struct ls_cuda_flat {
    size_t n;
    int aligned; /* every tensor begins at a multiple of a pack */
} ls_cuda_flat;

typedef struct ls_cuda_rows {
    size_t rows, columns;
    int lanes_log2; /* threads beside each other in a row */
    int aligned;    /* every row of every tensor begins at a multiple of a pack, and ends with one */
} ls_cuda_rows;

#endif
