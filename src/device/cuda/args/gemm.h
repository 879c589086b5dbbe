/* gemm.h: what the kernels of gemm.cu, gemm_any.cu and conv.cu are started with, and the tiles that they have. */
#ifndef LS_DEVICE_CUDA_ARGS_GEMM_H
#define LS_DEVICE_CUDA_ARGS_GEMM_H

#include "device/cuda/common/divider.h"
#include "device/cuda/common/types.h"

enum {
    LS_CUDA_GEMM_K = 16,      /* of a step: two steps of both operands are in shared memory */
    LS_CUDA_GEMM_SLICES = 64, /* as LS_GEMM_SLICES_MAX and LS_GEMM_SIBLINGS_MAX */
    LS_CUDA_GEMM_SIBLINGS = 12,
    LS_CUDA_GEMM_BAND = 8,          /* rows of tiles whose blocks run together, for the second cache */
    LS_CUDA_GEMM_FLAT_TOGETHER = 3, /* flat tiles on a multiprocessor: they hide each other's waits */
    LS_CUDA_GEMM_JOIN_THREADS = 256,
    LS_CUDA_GEMM_UNFOLD_THREADS = 256,
    LS_CUDA_GEMM_THIN_M = 8,     /* rows of C that count as few */
    LS_CUDA_GEMM_THIN_N = 64,    /* columns of a block, and threads */
    LS_CUDA_GEMM_THIN_K = 32,    /* of a step, */
    LS_CUDA_GEMM_THIN_STEPS = 6, /* of which so many are in shared memory or on their way */
};

/* Numbers of a step of so many lines, [k][line]: behind each fourth k there is a gap, so that an operand whose k are
 * neighbours in memory is turned without bank conflicts. */
enum { LS_CUDA_GEMM_GAP = 8 };
#define LS_CUDA_GEMM_STEP(lines) (LS_CUDA_GEMM_K * (lines) + LS_CUDA_GEMM_K / 4 * LS_CUDA_GEMM_GAP)

/* Rows and columns of a block's tile, and of a thread's part of it. */
#define LS_CUDA_GEMM_LARGE 128, 128, 8, 8
#define LS_CUDA_GEMM_NARROW 128, 64, 8, 8
#define LS_CUDA_GEMM_FLAT 64, 128, 8, 8
#define LS_CUDA_GEMM_SMALL 64, 64, 8, 4
#define LS_CUDA_GEMM_TINY 32, 32, 4, 4

/* Rows at distances of their own: ls_gemm_grid. */
typedef struct ls_cuda_grid_rows {
    ls_cuda_divider n1, n2;
    size_t step0, step1, step2;
} ls_cuda_grid_rows;

/* ls_gemm_patches; an image is image_step elements. */
typedef struct ls_cuda_patches {
    ls_cuda_divider positions, rows_x, channels, taps_x; /* positions: of an image */
    uint32_t height, width;
    int first_y, first_x, step_y, step_x, tap_y, tap_x;
    size_t image_step;
} ls_cuda_patches;

typedef struct ls_cuda_gemm {
    size_t m, n;
    uint32_t tiles_m, tiles_n;
    const void *a, *b;
    size_t lda, ldb;
    int dtype;
    int a_is_vector, b_is_vector; /* four neighbours in one access, and no three at an end */
    void *c;
    size_t ldc;
    int c_dtype, c_is_vector;
    int has_c_rows;
    ls_cuda_grid_rows c_rows;
    /* Sums that wait in the tree over slices: levels of it in shared memory, and those above, of each tile. */
    int near_levels, far_levels;
    float *far;
    float *parts; /* not NULL: blockIdx.z is a slice, whose sum goes to its m × n numbers here; the tree comes later */
    size_t period; /* with a unit: a granule of k ends with each so many, too; 0: it does not */
    int slices;
    size_t bounds[LS_CUDA_GEMM_SLICES + 1];
    int accumulate, siblings;
    const float *sibling[LS_CUDA_GEMM_SIBLINGS];
    size_t ldsibling;
    const float *bias;
} ls_cuda_gemm;

/* A product over patches. Form NN: A is patches, B has grid rows; NT: A is patches; TN: B is patches. */
typedef struct ls_cuda_gemm_gather {
    ls_cuda_gemm g;
    ls_cuda_patches patches;
    ls_cuda_grid_rows b_rows;
} ls_cuda_gemm_gather;

/* The gradient of the weights of a 3 × 3 window (conv_grad.cu): form TN, whose slices are whole images. By the width of
 * dy: a turn's rows, numbers of a row of the images in shared memory, where there are so many rows, and channels of dy
 * of a thread. */
enum { LS_CUDA_CONV_GRAD_THREADS = 128, LS_CUDA_CONV_GRAD_AHEAD = 3 };
#define LS_CUDA_CONV_GRAD_ROWS(width) ((width) > 16 ? 1 : (width) > 8 ? 2 : 4)
#define LS_CUDA_CONV_GRAD_ROW(width, stride) (((width) * (stride) + ((stride) == 1)) * 32)
#define LS_CUDA_CONV_GRAD_RING(width, stride)                                                                          \
    ((stride) * (LS_CUDA_CONV_GRAD_ROWS(width) - 1) + 3 +                                                              \
     LS_CUDA_CONV_GRAD_AHEAD * ((stride)*LS_CUDA_CONV_GRAD_ROWS(width) + 1))
#define LS_CUDA_CONV_GRAD_OUT(width) ((width) > 16 ? 2 : 4)
/* Of few channels, and of one width: */
enum {
    LS_CUDA_CONV_GRAD_THIN_CHANNELS = 3, /* at most */
    LS_CUDA_CONV_GRAD_THIN_WIDTH = 32,
    LS_CUDA_CONV_GRAD_THIN_THREADS = 96,
    LS_CUDA_CONV_GRAD_THIN_ROWS = 4,
    LS_CUDA_CONV_GRAD_THIN_RING =
        LS_CUDA_CONV_GRAD_THIN_ROWS + 2 + LS_CUDA_CONV_GRAD_AHEAD * (LS_CUDA_CONV_GRAD_THIN_ROWS + 1),
};
enum { LS_CUDA_CONV_GRAD_POINTS = 32, LS_CUDA_CONV_GRAD_POINT_OUTS = 16 }; /* of windows of one pixel */
typedef struct ls_cuda_conv_grad {
    ls_cuda_gemm g;
    ls_cuda_patches patches; /* of windows of one pixel */
    uint32_t height;         /* of the images */
    size_t channels;
} ls_cuda_conv_grad;

/* Patches as the rows of a matrix in memory; the columns behind the last are +0. */
typedef struct ls_cuda_unfold {
    ls_cuda_patches patches;
    const float *images;
    float *to;
    size_t rows;
    uint32_t columns; /* in memory a multiple of 4 */
    ls_cuda_divider width;
} ls_cuda_unfold;

#endif
