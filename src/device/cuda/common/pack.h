/* pack.h: how flat arrays and rows are divided among threads: ops/pack.h fills the structs in and computes the
 * grid, the loops of pack.cuh read them. A pack is what a thread loads at once: some neighbours of a tensor. */
#ifndef LS_DEVICE_CUDA_COMMON_PACK_H
#define LS_DEVICE_CUDA_COMMON_PACK_H

#include "device/cuda/common/types.h"

enum { LS_CUDA_PACK_THREADS = 256 }; /* of a block */

/* A flat array of n elements; all tensors of a call have the same n. */
typedef struct ls_cuda_flat {
    size_t n;
    int aligned; /* every tensor begins at a multiple of a pack */
} ls_cuda_flat;

/* Rows of `columns` elements; the strides of each tensor are in the kernel's arguments. */
typedef struct ls_cuda_rows {
    size_t rows, columns;
    int lanes_log2; /* binary logarithm of the threads beside each other in a row */
    int aligned;    /* every row of every tensor begins at a multiple of a pack, and ends with one */
} ls_cuda_rows;

#endif
