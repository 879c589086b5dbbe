/* convert.h: the arguments of the kernels of convert.cu (conversions between fp32 and 16-bit types, copies of
 * rows), which ops/convert.c fills in. */
#ifndef LS_DEVICE_CUDA_ARGS_CONVERT_H
#define LS_DEVICE_CUDA_ARGS_CONVERT_H

#include "device/cuda/common/pack.h"

enum { LS_CUDA_CONVERT_PACKS = 4 }; /* packs that a thread loads before it stores */

/* The conversion of a flat array. */
typedef struct ls_cuda_convert {
    ls_cuda_flat flat;
    int to, from; /* ls_dtype. In the kernel round `to` is the type to round to, and both tensors are fp32 */
    void *out;
    const void *in;
} ls_cuda_convert;

/* A copy of rows; strides are in bytes. */
typedef struct ls_cuda_copy_rows {
    size_t rows, words; /* words: of a row, `width` bytes each */
    int width;          /* 16, 4 or 1, which divides addresses, strides and rows */
    unsigned char *to;
    size_t to_stride;
    const unsigned char *from;
    size_t from_stride;
} ls_cuda_copy_rows;

#endif
