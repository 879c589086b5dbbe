/* loss.h: what the kernels of loss.cu are started with. */
#ifndef LS_DEVICE_CUDA_ARGS_LOSS_H
#define LS_DEVICE_CUDA_ARGS_LOSS_H

#include "device/cuda/common/list.h"

enum {
    LS_CUDA_LOSS_THREADS = 512,
    LS_CUDA_LOSS_PARTS = 8, /* of a row, at most: blocks of a cluster */
    LS_CUDA_LOSS_GRAD = 512,
    LS_CUDA_LOSS_VALUES = 256,
    LS_CUDA_LOSS_SUMS = 16
}; /* the last: rows' slices of a block */

/* Where the part of a row begins that a block has. */
typedef struct ls_cuda_loss_cut {
    uint32_t column; /* counted from `first`; a multiple of 4, and of 16 from the begin of its slice */
    uint32_t slice, slices;
    uint32_t goes_on;  /* its last slice does, in the next part */
    uint32_t position; /* parts before this one whose sums it waits for */
} ls_cuda_loss_cut;

/* As ls_loss_call. */
typedef struct ls_cuda_loss {
    size_t rows;
    const float *z;
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
    size_t whole; /* columns that are accessed by packs of four: of rows that begin with one, in z and dz */
    int over;     /* a 16-bit dz lies over z */
    ls_cuda_loss_cut cuts[LS_CUDA_LOSS_PARTS + 1]; /* of loss_rows, as are these: */
    uint32_t part;                                 /* columns of the longest part, rounded up to packs */
    size_t ahead;                                  /* rows that are under way at a time */
} ls_cuda_loss;

#endif
