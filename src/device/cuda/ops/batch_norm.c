/* batch_norm.c: launches batch norm (kernels/batch_norm.cu): sums image by image, joined in the order of the images of
 * a ghost group (the images over which statistics are taken); then maps over all numbers.
 *
 *     scratch:  | chains [image][channel], one or two of them | */
#include "device/cuda/args/batch_norm.h"

#include <stdbool.h>

#include "device/cuda/ops/ops.h"

/* Returns whether a tensor allows loads of 16 bytes; true for NULL. */
static bool is_aligned(const void *p) { return (uintptr_t)p % 16 == 0; }

LS_ASSERT_ARGS(ls_batch_norm_call, 22);
/* Converts a call to the kernels' arguments; what the call lacks (chains, joined, kind, pieces) is zero. */
static ls_cuda_batch_norm args_of(const ls_batch_norm_call *c) {
    const void *all[] = {c->x,    c->w,  c->b,  c->residual,  c->y,   c->mean,
                         c->rstd, c->dy, c->dx, c->dresidual, c->sum, c->dot};
    bool is_vector = c->channels % 4 == 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) is_vector = is_vector && is_aligned(all[i]);
    return (ls_cuda_batch_norm){
        .images = c->images,
        .pixels = c->pixels,
        .channels = c->channels,
        .ghost = c->ghost,
        .stat_step = c->shared ? 0 : c->channels,
        .count = (float)(c->count > 0 ? c->count : (double)(c->pixels * c->ghost)),
        .eps = c->eps,
        .relu = c->relu,
        .is_vector = is_vector,
        .x = c->x,
        .w = c->w,
        .b = c->b,
        .residual = c->residual,
        .y = c->y,
        .mean = c->mean,
        .rstd = c->rstd,
        .var = c->var,
        .dy = c->dy,
        .dx = c->dx,
        .dresidual = c->dresidual,
        .sum = c->sum,
        .dot = c->dot,
        .stats = (c->shared ? 1 : c->images / c->ghost) * c->channels,
    };
}

/* Launches `kernel`, which sums each image into scratch, then the kernel that joins these sums by ghost groups
 * into `sum` and, with two sums, `dot`. `kind`, a LS_CUDA_BATCH_NORM_ constant, says what is made of a sum: for
 * MEAN and RSTD `sum` is NULL and the call's mean, rstd and var are written. */
static ls_status run_sums(ls_device *device, const ls_batch_norm_call *c, ls_cuda_kernel kernel, int kind, float *sum,
                          float *dot) {
    ls_cuda_batch_norm args = args_of(c);
    size_t elems = c->images * c->channels;
    void *scratch;
    LS_TRY(ls_cuda_scratch(device, (dot ? 2 : 1) * elems * sizeof(float), &scratch));
    args.chains[0] = scratch;
    args.chains[1] = dot ? args.chains[0] + elems : NULL;
    args.joined[0] = sum;
    args.joined[1] = dot;
    args.kind = kind;
    ls_cuda_grid grid = {ls_cuda_divide_up(elems, LS_CUDA_BATCH_NORM_CHAINS), 1, 1};
    LS_TRY(ls_cuda_launch(device, kernel, grid, LS_CUDA_BATCH_NORM_CHAINS, 0, &args));
    grid.x = ls_cuda_divide_up(elems / c->ghost, LS_CUDA_BATCH_NORM_CHAINS);
    return ls_cuda_launch(device, LS_CUDA_batch_norm_join, grid, LS_CUDA_BATCH_NORM_CHAINS, 0, &args);
}

/* Launches the computation of the sums of x of each ghost group and channel into c->sums. */
ls_status ls_cuda_op_batch_norm_sums(ls_device *device, const ls_batch_norm_call *c) {
    LS_TRY(ls_batch_norm_check(c));
    return run_sums(device, c, LS_CUDA_batch_norm_sums, LS_CUDA_BATCH_NORM_SUMS, c->sums, NULL);
}

/* Launches the computation of the sums of (x − mean)² into c->sums. */
ls_status ls_cuda_op_batch_norm_squares(ls_device *device, const ls_batch_norm_call *c) {
    LS_TRY(ls_batch_norm_check(c));
    return run_sums(device, c, LS_CUDA_batch_norm_squares, LS_CUDA_BATCH_NORM_SUMS, c->sums, NULL);
}

/* Launches the computation of the sums of dy (behind ReLU) into c->sum and of its products with the normalised x into
 * c->dot. */
ls_status ls_cuda_op_batch_norm_grad_sums(ls_device *device, const ls_batch_norm_call *c) {
    LS_TRY(ls_batch_norm_check(c));
    return run_sums(device, c, LS_CUDA_batch_norm_grad_sums, LS_CUDA_BATCH_NORM_SUMS, c->sum, c->dot);
}

/* Launches the kernel that makes mean or rstd (and var), as `kind` says, from c->sums. */
static ls_status make_stats(ls_device *device, const ls_batch_norm_call *c, int kind) {
    LS_TRY(ls_batch_norm_check(c));
    ls_cuda_batch_norm args = args_of(c);
    args.sums = c->sums;
    args.kind = kind;
    ls_cuda_grid grid = {ls_cuda_divide_up(args.stats, LS_CUDA_BATCH_NORM_THREADS), 1, 1};
    return ls_cuda_launch(device, LS_CUDA_batch_norm_stats, grid, LS_CUDA_BATCH_NORM_THREADS, 0, &args);
}

/* Launches the computation of mean from c->sums, the sums of this worker or of all joined. */
ls_status ls_cuda_op_batch_norm_mean(ls_device *device, const ls_batch_norm_call *c) {
    return make_stats(device, c, LS_CUDA_BATCH_NORM_MEAN);
}

/* Launches the computation of rstd, and var if it is not NULL, from c->sums, the sums of squares. */
ls_status ls_cuda_op_batch_norm_rstd(ls_device *device, const ls_batch_norm_call *c) {
    return make_stats(device, c, LS_CUDA_BATCH_NORM_RSTD);
}

/* Launches a kernel that computes each number by itself; a block has a piece of the pixels of an image. */
static ls_status run_map(ls_device *device, const ls_batch_norm_call *c, ls_cuda_kernel kernel) {
    LS_TRY(ls_batch_norm_check(c));
    ls_cuda_batch_norm args = args_of(c);
    size_t groups = args.is_vector ? c->channels / 4 : c->channels;
    size_t rows = groups < LS_CUDA_BATCH_NORM_THREADS ? LS_CUDA_BATCH_NORM_THREADS / groups : 1;
    args.pieces = ls_cuda_divide_up(c->pixels, rows * LS_CUDA_BATCH_NORM_ROWS);
    return ls_cuda_launch(device, kernel, (ls_cuda_grid){c->images * args.pieces, 1, 1}, LS_CUDA_BATCH_NORM_THREADS, 0,
                          &args);
}

/* Launches the computation of y from x, mean and rstd. */
ls_status ls_cuda_op_batch_norm_apply(ls_device *device, const ls_batch_norm_call *c) {
    return run_map(device, c, LS_CUDA_batch_norm_apply);
}

/* Launches the computation of dx, and dresidual if it is not NULL, from dy, sum and dot. */
ls_status ls_cuda_op_batch_norm_input_grad(ls_device *device, const ls_batch_norm_call *c) {
    return run_map(device, c, LS_CUDA_batch_norm_input_grad);
}

/* Launches the computation of mean, rstd, var and y for statistics of this worker alone. LS_ERR_INPUT if the call has
 * shared ones, whose sums workers must join between the steps. */
ls_status ls_cuda_op_batch_norm_forward(ls_device *device, const ls_batch_norm_call *c) {
    if (c->shared || c->count > 0)
        return ls_fail(LS_ERR_INPUT, "batch norm with external statistics does not compute its own; call sums, mean, "
                                     "squares and rstd, and join between them");
    LS_TRY(ls_batch_norm_check(c));
    LS_TRY(run_sums(device, c, LS_CUDA_batch_norm_sums, LS_CUDA_BATCH_NORM_MEAN, NULL, NULL));
    LS_TRY(run_sums(device, c, LS_CUDA_batch_norm_squares, LS_CUDA_BATCH_NORM_RSTD, NULL, NULL));
    return ls_cuda_op_batch_norm_apply(device, c);
}
