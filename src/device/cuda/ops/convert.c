/* convert.c: launches conversions between number formats, and copies of rows (kernels/convert.cu). */
#include "device/cuda/args/convert.h"

#include "device/cuda/ops/ops.h"
#include "device/cuda/ops/pack.h"

enum { WIDTH = 4 };

LS_ASSERT_ARGS(ls_convert_call, 5);
LS_ASSERT_ARGS(ls_round_call, 4);
/* Launches a kernel over n elements; `to` is the format to round to, out_dtype that of the memory at `out`. */
static ls_status run_convert(ls_device *device, ls_cuda_kernel kernel, void *out, ls_dtype to, ls_dtype out_dtype,
                             const void *in, ls_dtype from, size_t n) {
    ls_cuda_convert args = {.flat = {.n = n}, .to = (int)to, .from = (int)from, .out = out, .in = in};
    args.flat.aligned = ls_cuda_fits(out, out_dtype, 0, WIDTH) && ls_cuda_fits(in, from, 0, WIDTH);
    return ls_cuda_launch(device, kernel, ls_cuda_flat_grid(&args.flat, WIDTH, LS_CUDA_CONVERT_PACKS),
                          LS_CUDA_PACK_THREADS, 0, &args);
}

/* Launches a conversion between fp32 and bf16 or fp16, in either direction; LS_ERR_INPUT for any other pair. */
ls_status ls_cuda_op_convert(ls_device *device, const ls_convert_call *c) {
    ls_dtype from = c->from, to = c->to;
    bool narrows = from == LS_F32 && (to == LS_BF16 || to == LS_F16),
         widens = to == LS_F32 && (from == LS_BF16 || from == LS_F16);
    if (!narrows && !widens)
        return ls_fail(LS_ERR_INPUT, "cannot convert from %s to %s; one must be f32, the other bf16 or f16",
                       ls_dtype_name(from), ls_dtype_name(to));
    return run_convert(device, LS_CUDA_convert, c->out, to, to, c->in, from, c->n);
}

/* Launches the computation of y = x rounded to a 16-bit format but stored as fp32. */
ls_status ls_cuda_op_round(ls_device *device, const ls_round_call *c) {
    LS_TRY(ls_check_half("rounding", c->to));
    return run_convert(device, LS_CUDA_round, c->y, c->to, LS_F32, c->x, LS_F32, c->n);
}

LS_ASSERT_ARGS(ls_copy_rows_call, 6);
/* Launches a copy of rows of bytes between strided places, by words of 16, 4 or 1 byte as addresses, strides and
 * rows allow. */
ls_status ls_cuda_op_copy_rows(ls_device *device, const ls_copy_rows_call *c) {
    enum { AT_ONCE = 4, BLOCKS_MAX = 1 << 15 };
    size_t all = (uintptr_t)c->to | (uintptr_t)c->from | c->to_stride | c->from_stride | c->bytes;
    int width = all % 16 == 0 ? 16 : all % 4 == 0 ? 4 : 1;
    ls_cuda_copy_rows args = {.rows = c->rows, .words = c->bytes / (size_t)width, .width = width};
    args.to = c->to;
    args.to_stride = c->to_stride;
    args.from = c->from;
    args.from_stride = c->from_stride;
    size_t x = ls_cuda_divide_up(args.words, (size_t)LS_CUDA_PACK_THREADS * AT_ONCE);
    ls_cuda_grid grid = {c->rows ? (x < BLOCKS_MAX ? x : BLOCKS_MAX) : 0, c->rows < BLOCKS_MAX ? c->rows : BLOCKS_MAX,
                         1};
    if (grid.y == 0) grid.y = 1;
    return ls_cuda_launch(device, LS_CUDA_copy_rows, grid, LS_CUDA_PACK_THREADS, 0, &args);
}
