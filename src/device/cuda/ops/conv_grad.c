/* conv_grad.c: chooses and launches special kernels for weight gradients of convolutions (kernels/conv_grad.cu),
 * which slide windows over the images instead of gathering patches for a GEMM; for gemm.c. */
#include <stdbool.h>

#include "device/cuda/ops/gemm.h"
#include "device/cuda/ops/ops.h"

/* Weights times slices above which a 1 × 1 convolution has enough tiles for a plain GEMM. */
#define POINT_CHAINS_MAX ((size_t)1 << 18)

/* A special kernel, for rows of `width` windows at this stride. A block has `outs` channels of dy and `ins` of the
 * images. */
struct ls_cuda_windows {
    size_t width, stride;
    ls_cuda_kernel kernel;
    unsigned threads;
    size_t outs, ins, rows; /* rows: of a turn */
    size_t shared;          /* floats of the images in shared memory; those of dy are added to them */
};

#define WINDOWS(width, stride, name)                                                                                   \
    {                                                                                                                  \
        width, stride, LS_CUDA_conv_grad_##name, LS_CUDA_CONV_GRAD_THREADS,                                            \
            LS_CUDA_CONV_GRAD_THREADS / 32 * LS_CUDA_CONV_GRAD_OUT(width), 32, LS_CUDA_CONV_GRAD_ROWS(width),          \
            LS_CUDA_CONV_GRAD_RING(width, stride) * LS_CUDA_CONV_GRAD_ROW(width, stride)                               \
    }

static const ls_cuda_windows window_kernels[] = {
    WINDOWS(32, 1, 32),      WINDOWS(16, 1, 16),    WINDOWS(8, 1, 8),      WINDOWS(4, 1, 4),
    WINDOWS(16, 2, 16_by_2), WINDOWS(8, 2, 8_by_2), WINDOWS(4, 2, 4_by_2),
};
static const ls_cuda_windows thin_windows = {
    LS_CUDA_CONV_GRAD_THIN_WIDTH,
    1,
    LS_CUDA_conv_grad_thin,
    LS_CUDA_CONV_GRAD_THIN_THREADS,
    32,
    1,
    LS_CUDA_CONV_GRAD_THIN_ROWS,
    LS_CUDA_CONV_GRAD_THIN_RING *LS_CUDA_CONV_GRAD_THIN_WIDTH *LS_CUDA_CONV_GRAD_THIN_CHANNELS};

/* For 1 × 1 convolutions, of any width. */
static const ls_cuda_windows point_windows = {1,
                                              1,
                                              LS_CUDA_conv_grad_point,
                                              LS_CUDA_CONV_GRAD_THREADS,
                                              LS_CUDA_CONV_GRAD_POINT_OUTS,
                                              32,
                                              LS_CUDA_CONV_GRAD_POINTS,
                                              (LS_CUDA_CONV_GRAD_AHEAD + 1) * LS_CUDA_CONV_GRAD_POINTS * 32};

/* Returns the bytes of shared memory of a kernel: for the images, and for dy of the present turn and those loaded
 * ahead. */
static size_t window_shared(const ls_cuda_windows *k) {
    return (k->shared + (LS_CUDA_CONV_GRAD_AHEAD + 1) * k->rows * k->width * k->outs) * sizeof(float);
}

/* Returns whether every slice of k begins and ends with a whole image. */
static bool slices_are_images(const ls_gemm *g) {
    size_t positions = g->patches->rows_y * g->patches->rows_x;
    if (g->slices <= 1) return g->k % positions == 0;
    for (int s = 0; s <= g->slices; s++)
        if (g->bounds[s] % positions) return false;
    return true;
}

/* Returns whether the sizes of a 3 × 3 convolution are those of this kernel. */
static bool suits_windows(const ls_gemm *g, const ls_cuda_windows *k) {
    const ls_gemm_patches *p = g->patches;
    return p->rows_x == k->width && (size_t)p->step_x == k->stride && p->width == k->stride * k->width &&
           p->height == k->stride * p->rows_y && p->rows_y % k->rows == 0 && p->channels % k->ins == 0 &&
           g->m % k->outs == 0;
}

/* Returns whether this is a 1 × 1 convolution without padding, with so few weights that the tiles of a GEMM would
 * not fill the GPU. */
static bool suits_points(const ls_gemm *g) {
    const ls_gemm_patches *p = g->patches;
    return p->taps_y == 1 && p->taps_x == 1 && p->first_y == 0 && p->first_x == 0 &&
           p->channels % point_windows.ins == 0 && g->m % point_windows.outs == 0 &&
           g->m * g->n * (size_t)(g->slices > 1 ? g->slices : 1) <= POINT_CHAINS_MAX;
}

const ls_cuda_windows *ls_cuda_windows_of(const ls_gemm *g, const ls_cuda_gemm *args) {
    const ls_gemm_patches *p = g->patches;
    if (g->form != LS_GEMM_TN || g->lda != g->m || !args->a_is_vector || (uintptr_t)g->b % 16) return NULL;
    if (suits_points(g)) return &point_windows;
    if (p->taps_y != 3 || p->taps_x != 3 || p->first_y != -1 || p->first_x != -1 || p->tap_y != 1 || p->tap_x != 1 ||
        p->step_y != p->step_x || !slices_are_images(g))
        return NULL;
    if (p->channels <= LS_CUDA_CONV_GRAD_THIN_CHANNELS) return suits_windows(g, &thin_windows) ? &thin_windows : NULL;
    for (size_t i = 0; i < sizeof window_kernels / sizeof *window_kernels; i++)
        if (suits_windows(g, &window_kernels[i])) return &window_kernels[i];
    return NULL;
}

ls_status ls_cuda_windows_run(ls_device *device, const ls_gemm *g, const ls_cuda_gemm_gather *args,
                              const ls_cuda_windows *k) {
    ls_cuda_conv_grad grad = {.g = args->g,
                              .patches = args->patches,
                              .height = (uint32_t)g->patches->height,
                              .channels = g->patches->channels};
    size_t slices = (size_t)args->g.slices;
    if (slices > 1) {
        void *scratch;
        LS_TRY(ls_cuda_scratch(device, slices * g->m * g->n * sizeof(float), &scratch));
        grad.g.parts = scratch;
    }
    ls_cuda_grid grid = {g->patches->channels / k->ins * (g->m / k->outs), 1, slices};
    LS_TRY(ls_cuda_launch(device, k->kernel, grid, k->threads, window_shared(k), &grad));
    return slices > 1 ? ls_cuda_gemm_join_parts(device, &grad.g) : LS_OK;
}
