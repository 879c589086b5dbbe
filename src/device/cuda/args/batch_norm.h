/* batch_norm.h: the arguments of the kernels of batch_norm.cu, which ops/batch_norm.c fills in. Statistics are
 * taken over ghost groups: `ghost` consecutive images. */
#ifndef LS_DEVICE_CUDA_ARGS_BATCH_NORM_H
#define LS_DEVICE_CUDA_ARGS_BATCH_NORM_H

#include "device/cuda/common/types.h"

enum {
    LS_CUDA_BATCH_NORM_CHAINS = 64,   /* threads of a block of the sums: one sum in order (chain) each */
    LS_CUDA_BATCH_NORM_THREADS = 256, /* of a block of the other kernels */
    LS_CUDA_BATCH_NORM_ROWS = 8,      /* pixels of a thread in apply and input_grad */
};

/* What batch_norm_join and batch_norm_stats make of a sum: the sum itself, the mean, or rstd and var. */
enum { LS_CUDA_BATCH_NORM_SUMS, LS_CUDA_BATCH_NORM_MEAN, LS_CUDA_BATCH_NORM_RSTD };

/* The fields of ls_batch_norm_call, for all kernels. Statistics of an image are stat_step · (image / ghost)
 * numbers behind the first; stat_step 0: they are shared by all groups. */
typedef struct ls_cuda_batch_norm {
    size_t images, pixels, channels, ghost, stat_step;
    float count, eps;    /* count: numbers behind a statistic, of all workers */
    int relu, is_vector; /* is_vector: all tensors allow loads of four channels */
    size_t pieces;       /* of the pixels of an image, each with a block */
    const float *x, *w, *b, *residual;
    float *y, *mean, *rstd, *var;
    const float *dy;
    float *dx, *dresidual;
    const float *sum, *dot; /* of input_grad */
    float *chains[2];       /* [image][channel], the sums of each image; NULL: not made */
    float *joined[2];       /* [group][channel], the sums of each group; NULL with a kind that writes mean or rstd */
    const float *sums;      /* of batch_norm_stats: what statistics are made of */
    size_t stats;           /* of batch_norm_stats: how many */
    int kind;               /* LS_CUDA_BATCH_NORM_SUMS, MEAN or RSTD */
} ls_cuda_batch_norm;

#endif
