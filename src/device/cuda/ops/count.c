/* count.c: launches counts and searches of numbers of a kind, and sums of losses and of right answers
 * (kernels/count.cu). Results stay on the GPU; counts and sums are added to what is there. */
#include "device/cuda/args/count.h"

#include "device/cuda/ops/ops.h"
#include "device/cuda/ops/pack.h"
#include "numerics/float16.h"

enum { WIDTH = 4 };

_Static_assert((int)LS_COUNTS == LS_CUDA_COUNTS && LS_COUNT_FLUSHED == 0 && LS_COUNT_HIGH == 1 &&
                   LS_COUNT_NONZERO == 2 && LS_COUNT_BAD == 3,
               "kernels count in the order of ls_count");

/* Returns the grid of a flat array, cut to as many blocks as the GPU runs at once, because each block ends with an
 * atomic addition. */
static ls_cuda_grid grid_of(ls_device *device, const ls_cuda_flat *flat, size_t width, size_t packs) {
    ls_cuda_grid grid = ls_cuda_flat_grid(flat, width, packs);
    grid.x = ls_cuda_blocks(device, grid.x);
    return grid;
}

LS_ASSERT_ARGS(ls_count_call, 5);
/* Adds the counts of ls_count to c->out: numbers that would flush to zero or come near the limit of c->type after
 * scaling, nonzero ones, and those that are not finite. */
ls_status ls_cuda_op_count(ls_device *device, const ls_count_call *c) {
    ls_dtype type = c->type;
    LS_TRY(ls_check_float("counts", type));
    if (c->n == 0) return LS_OK;
    /* The tie between 0 and the smallest number goes to 0. */
    float flushed = type == LS_BF16 ? 0x1p-134f : type == LS_F16 ? 0x1p-25f : 0.0f;
    float high = type == LS_BF16 ? 0x1.FEp123f : type == LS_F16 ? 0x1.FFCp11f : 0x1.FFFFFEp123f;
    ls_cuda_count args = {.flat = {.n = c->n, .aligned = ls_cuda_fits(c->x, LS_F32, 0, WIDTH)},
                          .x = c->x,
                          .scale = c->scale,
                          .flushed = ls_f32_bits(flushed),
                          .high = ls_f32_bits(high),
                          .out = (unsigned long long *)c->out};
    return ls_cuda_launch(device, LS_CUDA_count, grid_of(device, &args.flat, WIDTH, LS_CUDA_COUNT_PACKS),
                          LS_CUDA_PACK_THREADS, 0, &args);
}

LS_ASSERT_ARGS(ls_difference_call, 5);
/* Launches the computation of before = after − before, and adds to *lost the elements that an update left unchanged
 * although by[i] ≠ 0. */
ls_status ls_cuda_op_difference(ls_device *device, const ls_difference_call *c) {
    if (c->n == 0) return LS_OK;
    ls_cuda_difference args = {.flat = {.n = c->n}, .before = c->before, .after = c->after, .by = c->by};
    args.flat.aligned = ls_cuda_fits(c->before, LS_F32, 0, WIDTH) && ls_cuda_fits(c->after, LS_F32, 0, WIDTH) &&
                        ls_cuda_fits(c->by, LS_F32, 0, WIDTH);
    args.lost = (unsigned long long *)c->lost;
    return ls_cuda_launch(device, LS_CUDA_difference, grid_of(device, &args.flat, WIDTH, 1), LS_CUDA_PACK_THREADS, 0,
                          &args);
}

LS_ASSERT_ARGS(ls_find_bad_call, 4);
/* Sets *index to that of the first element that is not finite; LS_ALL_FINITE if there is none. */
ls_status ls_cuda_op_find_bad(ls_device *device, const ls_find_bad_call *c) {
    LS_TRY(ls_check_float("a search", c->dtype));
    LS_TRY(ls_device_fill(device, c->index, 0xFF, sizeof *c->index));
    if (c->n == 0) return LS_OK;
    size_t width = ls_cuda_widest(c->dtype);
    ls_cuda_find args = {.flat = {.n = c->n, .aligned = ls_cuda_fits(c->x, c->dtype, 0, width)},
                         .x = c->x,
                         .dtype = (int)c->dtype,
                         .first = (unsigned long long *)c->index};
    return ls_cuda_launch(device, LS_CUDA_find_bad, grid_of(device, &args.flat, width, 2), LS_CUDA_PACK_THREADS, 0,
                          &args);
}

_Static_assert(LS_ALL_FINITE == UINT64_MAX, "the largest index, all bytes 0xFF, is that of no element");

_Static_assert(offsetof(ls_loss_sum, total) == 0 && offsetof(ls_loss_sum, count) == sizeof(int64_t) &&
                   offsetof(ls_loss_sum, bad) == 2 * sizeof(int64_t),
               "kernels add to total, count and bad");

LS_ASSERT_ARGS(ls_add_losses_call, 5);
/* Adds the losses of the sequences, without the first `context` tokens of each, to the exact sum. */
ls_status ls_cuda_op_add_losses(ls_device *device, const ls_add_losses_call *c) {
    ls_cuda_losses args = {.loss = c->loss, .n = c->sequences * c->T, .T = c->T, .context = c->context};
    args.sum = (unsigned long long *)(void *)c->sum;
    size_t blocks = ls_cuda_blocks(device, ls_cuda_divide_up(args.n, LS_CUDA_PACK_THREADS));
    return ls_cuda_launch(device, LS_CUDA_add_losses, (ls_cuda_grid){blocks, 1, 1}, LS_CUDA_PACK_THREADS, 0, &args);
}

LS_ASSERT_ARGS(ls_count_right_call, 6);
/* Adds to *right the rows of logits whose largest is that of the target. */
ls_status ls_cuda_op_count_right(ls_device *device, const ls_count_right_call *c) {
    ls_cuda_right args = {.z = c->z, .z_stride = c->z_stride, .rows = c->rows, .columns = c->columns};
    args.targets = c->targets;
    args.right = (unsigned long long *)c->right;
    size_t blocks = ls_cuda_blocks(device, ls_cuda_divide_up(c->rows, LS_CUDA_PACK_THREADS / 32));
    return ls_cuda_launch(device, LS_CUDA_count_right, (ls_cuda_grid){blocks, 1, 1}, LS_CUDA_PACK_THREADS, 0, &args);
}
