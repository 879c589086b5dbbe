/* batch_norm.h: what the kernels of batch_norm.cu are started with. */
#ifndef LS_DEVICE_CUDA_ARGS_BATCH_NORM_H
#define LS_DEVICE_CUDA_ARGS_BATCH_NORM_H

#include "device/cuda/common/types.h"

enum {
    LS_CUDA_BATCH_NORM_CHAINS = 64, /* threads of a block: a chain each */
    LS_CUDA_BATCH_NORM_THREADS = 256,
    LS_CUDA_BATCH_NORM_ROWS = 8, /* of a thread in a map */
};

/* What batch_norm_join makes of a sum. */
enum { LS_CUDA_BATCH_NORM_SUMS, LS_CUDA_BATCH_NORM_MEAN, LS_CUDA_BATCH_NORM_RSTD };

/* ls_batch_norm_call. Statistics of an image are stat_step · (image / ghost) numbers behind the first. */
typedef struct ls_cuda_batch_norm {
    size_t images, pixels, channels, ghost, stat_step;
    float count, eps;
    int relu, is_vector;
    size_t pieces; /* of the pixels of an image, each with a block */
    const float *x, *w, *b, *residual;
    float *y, *mean, *rstd, *var;
    const float *dy;
    float *dx, *dresidual;
    const float *sum, *dot; /* input_grad */
    float *chains[2];       /* [image][channel]; NULL: not made */
    float *joined[2];       /* [group][channel] */
    const float *sums;      /* statistics from sums */
    size_t stats;           /* how many */
    int kind;
} ls_cuda_batch_norm;

#endif
