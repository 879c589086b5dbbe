/* loss.h: the arguments of the kernels of loss.cu (softmax cross-entropy of fp32 logits) and loss_hgmma.cu (of
 * 16-bit logits, whose sums have an order of their own), which ops/loss.c and ops/loss_hgmma.c fill in. */
#ifndef LS_DEVICE_CUDA_ARGS_LOSS_H
#define LS_DEVICE_CUDA_ARGS_LOSS_H

#include "device/cuda/common/list.h"

enum {
    LS_CUDA_LOSS_THREADS = 1024, /* of a block, at most */
    LS_CUDA_LOSS_GRAD = 512,     /* of a block of loss_grad, at most */
    LS_CUDA_LOSS_VALUES = 256,   /* of a block of loss_values: a row each */
    LS_CUDA_LOSS_SUMS = 16       /* slices of rows that a block of loss_sums adds, 16 threads each */
};

/* 16-bit logits: the sum over a slice (a fixed range of the columns) has LANES partial sums, lane j those of packs
 * j, j + LANES, … of eight columns; FOLD of them at a time are added first, which leaves FOLDED. */
enum { LS_CUDA_LOSS_LANES = 512, LS_CUDA_LOSS_FOLD = 32, LS_CUDA_LOSS_FOLDED = LS_CUDA_LOSS_LANES / LS_CUDA_LOSS_FOLD };

/* The fields of ls_loss_call, for all kernels; pointers are device memory. */
typedef struct ls_cuda_loss {
    size_t rows;
    const void *z;
    int z_dtype;
    size_t z_stride;
    ls_cuda_sizes bounds;
    size_t slices;         /* of the columns, each with a sum of its own */
    size_t first, columns; /* bounds[0], and the columns of all slices */
    const int32_t *targets;
    int32_t id_begin;
    float *m, *l, *loss, *z_target, *sums; /* for whole rows m and l may be NULL: they are not stored */
    void *dz;                              /* NULL, for whole rows: no gradient */
    int dz_dtype;
    size_t dz_stride;
    float g;
    size_t whole; /* columns that are accessed by packs of four: of rows that begin with one, in z and dz. With 16-bit
                     logits: by packs of eight, where every slice begins with one */
    size_t kept;  /* of 16-bit logits: packs of a row that shared memory holds */
    int over;     /* a 16-bit dz lies over fp32 logits */
} ls_cuda_loss;

#endif
