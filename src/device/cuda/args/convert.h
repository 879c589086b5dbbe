/* convert.h: what the kernels of convert.cu are started with. */
#ifndef LS_DEVICE_CUDA_ARGS_CONVERT_H
#define LS_DEVICE_CUDA_ARGS_CONVERT_H

#include "device/cuda/common/pack.h"

enum { LS_CUDA_CONVERT_PACKS = 4 };

typedef struct ls_cuda_convert {
    ls_cuda_flat flat;
    int to, from; /* round: `to` is what is rounded to, and both tensors are fp32 */
    void *out;
    const void *in;
} ls_cuda_convert;

typedef struct ls_cuda_copy_rows {
    size_t rows, words; /* of `width` bytes: 16, 4 or 1, which divides addresses, strides and rows */
    int width;
    unsigned char *to;
    size_t to_stride;
    const unsigned char *from;
    size_t from_stride;
} ls_cuda_copy_rows;

#endif
