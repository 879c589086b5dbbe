/* dropout.h: the arguments of the kernel of dropout.cu, which ops/dropout.c fills in. */
#ifndef LS_DEVICE_CUDA_ARGS_DROPOUT_H
#define LS_DEVICE_CUDA_ARGS_DROPOUT_H

#include "device/cuda/common/drop.h"
#include "device/cuda/common/pack.h"

enum { LS_CUDA_DROPOUT_ROWS = 2 }; /* that a thread loads before it stores */

/* As ls_dropout_call: y = residual (NULL: none) + what dropout leaves of x. */
typedef struct ls_cuda_dropout {
    ls_cuda_rows rows;
    ls_cuda_drop drop;
    const void *x;
    int x_dtype, y_dtype;
    size_t x_stride;
    const float *residual;
    size_t residual_stride;
    void *y;
    size_t y_stride;
} ls_cuda_dropout;

#endif
