/* gemm.h: the arguments of all GEMM kernels and the tile sizes of those of gemm.cu, gemm_any.cu, conv.cu and
 * conv_grad.cu, for the kernels and the host code that launches them (ops/gemm.c, ops/conv_grad.c). mma_gemm.cu and
 * hgmma_any.cu take ls_cuda_gemm, too; the kernels of args/hgmma.h have it as a member. ops/library.c passes it on.
 *
 * A GEMM computes C (m × n) from A and B, whose k is cut into slices: fixed ranges, each summed by itself in ascending
 * order; a balanced binary tree adds the sums of the slices. A thread block computes one tile of C and goes through k
 * in steps, which it loads into shared memory. */
#ifndef LS_DEVICE_CUDA_ARGS_GEMM_H
#define LS_DEVICE_CUDA_ARGS_GEMM_H

#include "device/cuda/common/divider.h"
#include "device/cuda/common/types.h"

enum {
    LS_CUDA_GEMM_K = 16,               /* k of a step; shared memory holds two steps of both operands */
    LS_CUDA_GEMM_SLICES = 64,          /* equal to LS_GEMM_SLICES_MAX */
    LS_CUDA_GEMM_SIBLINGS = 12,        /* equal to LS_GEMM_SIBLINGS_MAX */
    LS_CUDA_GEMM_BAND = 8,             /* rows of tiles in a band: its blocks run together and share operands in L2 */
    LS_CUDA_GEMM_FLAT_TOGETHER = 3,    /* occupancy: thread blocks of flat tiles on a multiprocessor */
    LS_CUDA_GEMM_JOIN_THREADS = 256,   /* of a block of gemm_join */
    LS_CUDA_GEMM_UNFOLD_THREADS = 256, /* of a block of conv_unfold */
    /* The kernel for a C of few rows (generation). */
    LS_CUDA_GEMM_THIN_M = 8,     /* most rows of C */
    LS_CUDA_GEMM_THIN_N = 64,    /* columns of C, and threads, of a block */
    LS_CUDA_GEMM_THIN_K = 32,    /* k of a step */
    LS_CUDA_GEMM_THIN_STEPS = 6, /* stages of the pipeline: steps in shared memory or being loaded */
};

/* Floats of one operand's step in shared memory, [k][line], with `lines` rows of A or columns of B. A gap follows every
 * fourth k, so that an operand with k contiguous in memory is transposed without bank conflicts. */
enum { LS_CUDA_GEMM_GAP = 8 };
#define LS_CUDA_GEMM_STEP(lines) (LS_CUDA_GEMM_K * (lines) + LS_CUDA_GEMM_K / 4 * LS_CUDA_GEMM_GAP)

/* Tiles: rows and columns of a block's tile, then rows and columns of one thread's part of it. */
#define LS_CUDA_GEMM_LARGE 128, 128, 8, 8
#define LS_CUDA_GEMM_NARROW 128, 64, 8, 8
#define LS_CUDA_GEMM_FLAT 64, 128, 8, 8
#define LS_CUDA_GEMM_SMALL 64, 64, 8, 4
#define LS_CUDA_GEMM_TINY 32, 32, 4, 4

/* Rows that are not one stride apart (ls_gemm_grid): n1 and n2 are the divisors that split a row number, step0 …
 * step2 the elements between rows (row (i·n1 + j)·n2 + l is i·step0 + j·step1 + l·step2 behind the first). */
typedef struct ls_cuda_grid_rows {
    ls_cuda_divider n1, n2;
    size_t step0, step1, step2;
} ls_cuda_grid_rows;

/* A matrix of image patches that is not stored (ls_gemm_patches): a row per position of the window, a column per
 * tap and channel. */
typedef struct ls_cuda_patches {
    ls_cuda_divider positions, rows_x, channels, taps_x; /* divisors; positions: of one image */
    uint32_t height, width;
    /* Of the window: the pixel under its first tap at the first position (minus the padding), stride, dilation. */
    int first_y, first_x, step_y, step_x, tap_y, tap_x;
    size_t image_step; /* elements from one image to the next */
} ls_cuda_patches;

/* The arguments of a GEMM. Fields that are not explained are those of ls_gemm; pointers are device memory. */
typedef struct ls_cuda_gemm {
    size_t m, n;
    uint32_t tiles_m, tiles_n; /* of C, down and across */
    const void *a, *b;
    size_t lda, ldb;
    int dtype;                    /* ls_dtype of A and B */
    int a_is_vector, b_is_vector; /* loads of four elements: aligned, and contiguous size a multiple of 4 */
    void *c;
    size_t ldc;
    int c_dtype, c_is_vector;
    int has_c_rows; /* rows of C are placed by c_rows, not by ldc */
    ls_cuda_grid_rows c_rows;
    /* A block that computes all slices of its tile adds them by the tree. Subtrees that wait for their right neighbour
     * are kept by level of the tree: the lower near_levels in shared memory, the upper far_levels in `far`. */
    int near_levels, far_levels;
    float *far; /* in global memory */
    /* Not NULL: blockIdx.z is a slice (in the kernels of args/hgmma.h a unit says which one or two), whose m × n sums
     * go here; another kernel adds them. */
    float *parts;
    size_t period; /* with a matrix unit: k is sequences of this length, and no granule spans two; 0: one sequence */
    int slices;
    size_t bounds[LS_CUDA_GEMM_SLICES + 1]; /* slice s is k from bounds[s] to bounds[s+1]−1 */
    int accumulate, siblings;
    const float *sibling[LS_CUDA_GEMM_SIBLINGS];
    size_t ldsibling;
    const float *bias;
} ls_cuda_gemm;

/* A GEMM that gathers an operand from images. In forms NN and NT it is A, in form TN it is B; form NN places the rows
 * of B by b_rows. */
typedef struct ls_cuda_gemm_gather {
    ls_cuda_gemm g;
    ls_cuda_patches patches;
    ls_cuda_grid_rows b_rows;
} ls_cuda_gemm_gather;

/* The weight gradient of a 3 × 3 convolution (conv_grad.cu): form TN, whose slices are whole images. A block slides its
 * windows over the images, ROWS rows of dy in each turn. A ring in shared memory holds rows of the images, those of the
 * next AHEAD turns included. `width` is that of dy.
 *
 *     ROWS    rows of dy in a turn
 *     ROW     floats of one image row in the ring: 32 channels and, with stride 1, a pixel of zeros at its end
 *     RING    image rows in the ring
 *     OUT     channels of dy of a thread */
enum { LS_CUDA_CONV_GRAD_THREADS = 128, LS_CUDA_CONV_GRAD_AHEAD = 3 };
#define LS_CUDA_CONV_GRAD_ROWS(width) ((width) > 16 ? 1 : (width) > 8 ? 2 : 4)
#define LS_CUDA_CONV_GRAD_ROW(width, stride) (((width) * (stride) + ((stride) == 1)) * 32)
#define LS_CUDA_CONV_GRAD_RING(width, stride)                                                                          \
    ((stride) * (LS_CUDA_CONV_GRAD_ROWS(width) - 1) + 3 +                                                              \
     LS_CUDA_CONV_GRAD_AHEAD * ((stride)*LS_CUDA_CONV_GRAD_ROWS(width) + 1))
#define LS_CUDA_CONV_GRAD_OUT(width) ((width) > 16 ? 2 : 4)
/* The kernel for images of few channels (the first layer), for one width of dy. */
enum {
    LS_CUDA_CONV_GRAD_THIN_CHANNELS = 3, /* most channels of the images */
    LS_CUDA_CONV_GRAD_THIN_WIDTH = 32,
    LS_CUDA_CONV_GRAD_THIN_THREADS = 96,
    LS_CUDA_CONV_GRAD_THIN_ROWS = 4,
    LS_CUDA_CONV_GRAD_THIN_RING =
        LS_CUDA_CONV_GRAD_THIN_ROWS + 2 + LS_CUDA_CONV_GRAD_AHEAD * (LS_CUDA_CONV_GRAD_THIN_ROWS + 1),
};
/* The kernel for 1 × 1 convolutions: pixels of a turn, and channels of dy of a block. */
enum { LS_CUDA_CONV_GRAD_POINTS = 32, LS_CUDA_CONV_GRAD_POINT_OUTS = 16 };
/* The arguments of the kernels of conv_grad.cu: A of `g` is dy, B the images, C (or parts) the weight gradient. */
typedef struct ls_cuda_conv_grad {
    ls_cuda_gemm g;
    ls_cuda_patches patches; /* for 1 × 1 convolutions only */
    uint32_t height;         /* of the images */
    size_t channels;         /* of the images */
} ls_cuda_conv_grad;

/* The arguments of conv_unfold, which writes patches as the rows of a matrix in memory (im2col); the padding
 * behind the last column is +0. */
typedef struct ls_cuda_unfold {
    ls_cuda_patches patches;
    const float *images;
    float *to;
    size_t rows;
    uint32_t columns;      /* of the matrix, without the padding */
    ls_cuda_divider width; /* columns with the padding to a multiple of 4 */
} ls_cuda_unfold;

#endif
