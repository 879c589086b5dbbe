/* loss.h: what the kernels of loss.cu and loss_hgmma.cu are started with. */
#ifndef LS_DEVICE_CUDA_ARGS_LOSS_H
#define LS_DEVICE_CUDA_ARGS_LOSS_H

#include "device/cuda/common/list.h"

enum {
    LS_CUDA_LOSS_THREADS = 1024,
    LS_CUDA_LOSS_GRAD = 512,
    LS_CUDA_LOSS_VALUES = 256,
    LS_CUDA_LOSS_SUMS = 16 /* rows' slices of a block */
};

/* 16-bit logits: lanes of the sum over a slice, and those that are folded first. */
enum { LS_CUDA_LOSS_LANES = 512, LS_CUDA_LOSS_FOLD = 32, LS_CUDA_LOSS_FOLDED = LS_CUDA_LOSS_LANES / LS_CUDA_LOSS_FOLD };

/* As ls_loss_call. */
typedef struct ls_cuda_loss {
    size_t rows;
    const void *z;
    int z_dtype;
    size_t z_stride;
    ls_cuda_sizes bounds;
    size_t slices;
    size_t first, columns; /* bounds[0], and the columns of all slices */
    const int32_t *targets;
    int32_t id_begin;
    float *m, *l, *loss, *z_target, *sums;
    void *dz;
    int dz_dtype;
    size_t dz_stride;
    float g;
    size_t whole; /* columns that are accessed by packs of four: of rows that begin with one, in z and dz. With 16-bit
                     logits: by packs of eight, where every slice begins with one */
    size_t kept;  /* of 16-bit logits: packs of a row that shared memory holds */
    int over;     /* a 16-bit dz lies over fp32 logits */
} ls_cuda_loss;

#endif
