/* optim.c: optimizer steps and squared norms over flat arrays. */
#include "device/cuda/kernels/optim.h"

#include "device/cuda/ops/ops.h"
#include "device/cuda/ops/pack.h"

enum { WIDTH = 4 };

_Static_assert((int)LS_SQUARE_BLOCK == LS_CUDA_SQUARE_BLOCK, "blocks of squared norms are those of the contract");

static ls_status adamw(ls_device *device, float *w, float *m, float *v, void *copy, ls_dtype copy_dtype, const float *g,
                       const ls_adamw_step *step, size_t n) {
    if (copy) LS_TRY(ls_cuda_check_half("a copy of weights", copy_dtype));
    ls_cuda_adamw args = {.flat = {.n = n},
                          .copy_dtype = (int)copy_dtype,
                          .factor = step->factor,
                          .beta1 = step->beta1,
                          .beta1_rest = step->beta1_rest,
                          .beta2 = step->beta2,
                          .beta2_rest = step->beta2_rest,
                          .rate = step->rate,
                          .root = step->root,
                          .epsilon = step->epsilon,
                          .decay = step->decay,
                          .w = w,
                          .m = m,
                          .v = v,
                          .copy = copy,
                          .g = g};
    args.flat.aligned = ls_cuda_fits(w, LS_F32, 0, WIDTH) && ls_cuda_fits(m, LS_F32, 0, WIDTH) &&
                        ls_cuda_fits(v, LS_F32, 0, WIDTH) && ls_cuda_fits(g, LS_F32, 0, WIDTH) &&
                        ls_cuda_fits(copy, copy_dtype, 0, WIDTH);
    return ls_cuda_launch(device, LS_CUDA_adamw, ls_cuda_flat_grid(&args.flat, WIDTH, LS_CUDA_OPTIM_PACKS),
                          LS_CUDA_PACK_THREADS, 0, &args);
}

static ls_status sgd(ls_device *device, float *w, float *b, void *copy, ls_dtype copy_dtype, const float *g,
                     const ls_sgd_step *step, size_t n) {
    if (copy) LS_TRY(ls_cuda_check_half("a copy of weights", copy_dtype));
    ls_cuda_sgd args = {.flat = {.n = n},
                        .copy_dtype = (int)copy_dtype,
                        .nesterov = step->nesterov,
                        .factor = step->factor,
                        .rate = step->rate,
                        .momentum = step->momentum,
                        .weight_decay = step->weight_decay,
                        .w = w,
                        .b = b,
                        .copy = copy,
                        .g = g};
    args.flat.aligned = ls_cuda_fits(w, LS_F32, 0, WIDTH) && ls_cuda_fits(b, LS_F32, 0, WIDTH) &&
                        ls_cuda_fits(g, LS_F32, 0, WIDTH) && ls_cuda_fits(copy, copy_dtype, 0, WIDTH);
    return ls_cuda_launch(device, LS_CUDA_sgd, ls_cuda_flat_grid(&args.flat, WIDTH, LS_CUDA_OPTIM_PACKS),
                          LS_CUDA_PACK_THREADS, 0, &args);
}

static ls_status square_sums(ls_device *device, double *out, const float *x, size_t n) {
    ls_cuda_squares args = {.n = n, .out = out, .x = x};
    ls_cuda_grid grid = {ls_cuda_divide_up(n, (size_t)LS_CUDA_SQUARE_BLOCK * LS_CUDA_SQUARE_BLOCKS), 1, 1};
    return ls_cuda_launch(device, LS_CUDA_square_sums, grid, 16 * LS_CUDA_SQUARE_BLOCKS, 0, &args);
}

void ls_cuda_ops_fill_optim(ls_ops *ops) {
    ops->adamw = adamw;
    ops->sgd = sgd;
    ops->square_sums = square_sums;
}
