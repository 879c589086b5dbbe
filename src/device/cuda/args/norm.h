/* norm.h: what the kernels of norm.cu are started with. */
#ifndef LS_DEVICE_CUDA_ARGS_NORM_H
#define LS_DEVICE_CUDA_ARGS_NORM_H

#include "device/cuda/common/types.h"

enum {
    LS_CUDA_NORM_ROWS = 8, /* of a block */
    LS_CUDA_NORM_THREADS = 16 * LS_CUDA_NORM_ROWS,
    LS_CUDA_NORM_CHUNK = 8, /* numbers of each of the sixteen lanes */
    LS_CUDA_NORM_SHORT = 6, /* chunks of a row that stays in registers */
    LS_CUDA_NORM_LONG = 8,
};

typedef struct ls_cuda_norm {
    size_t rows, C;
    int rms, act, add;
    float eps;
    const float *x;
    size_t x_stride;
    const float *w, *b;
    void *y;
    size_t y_stride;
    float *mean, *rstd;
    const void *dy;
    size_t dy_stride;
    float *dx;
    size_t dx_stride;
} ls_cuda_norm;

#endif
