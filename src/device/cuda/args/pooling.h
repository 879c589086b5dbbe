/* pooling.h: the arguments of the kernels of pooling.cu, which ops/pooling.c fills in. */
#ifndef LS_DEVICE_CUDA_ARGS_POOLING_H
#define LS_DEVICE_CUDA_ARGS_POOLING_H

#include "device/cuda/common/divider.h"
#include "device/cuda/common/types.h"

enum { LS_CUDA_POOLING_THREADS = 256 };

/* The fields of ls_pooling_call, for some images. Work is counted in groups of channels: four where is_vector is
 * set, else one. */
typedef struct ls_cuda_pooling {
    uint32_t count;         /* threads: groups in y (forward) or in dx (backward) */
    ls_cuda_divider groups; /* divisor: groups of a pixel */
    uint32_t height, width, channels;
    ls_cuda_divider across, down; /* divisors: columns and rows of what is written: of y forward, of dx backward */
    uint32_t rows, columns;       /* of windows */
    uint32_t kernel_y, kernel_x, pad_y, pad_x;
    ls_cuda_divider stride_y, stride_x;
    int count_pad, is_vector;
    const float *x;
    float *y;
    uint32_t *taps; /* max pooling: which pixel of its window each output is */
    const float *dy;
    float *dx;
} ls_cuda_pooling;

#endif
