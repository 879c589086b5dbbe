/* act.c: activations and bias, element by element. */
#include "device/cuda/args/act.h"

#include "device/cuda/ops/ops.h"
#include "device/cuda/ops/pack.h"

static const char *const names[LS_ACT_FNS] = {
    [LS_ACT_GELU] = "GELU", [LS_ACT_SILU] = "SiLU", [LS_ACT_RELU] = "ReLU", [LS_ACT_SIGMOID] = "sigmoid"};

_Static_assert((int)LS_ACT_GELU == LS_CUDA_GELU && (int)LS_ACT_SILU == LS_CUDA_SILU &&
                   (int)LS_ACT_RELU == LS_CUDA_RELU && (int)LS_ACT_SIGMOID == LS_CUDA_SIGMOID,
               "kernels know activations by the numbers of ls_act_fn");

/* From here on what a block saves by its table is more than making it takes. */
#define TABLE_ELEMS_MIN ((size_t)1 << 20)

static bool has_table(ls_device *device, ls_dtype dtype, bool are_aligned, size_t n) {
    return dtype == LS_BF16 && are_aligned && n >= TABLE_ELEMS_MIN && !ls_cuda_computes_otherwise(device);
}

/* Blocks that stay on their multiprocessors. */
static ls_status run_table(ls_device *device, ls_cuda_kernel kernel, ls_cuda_grid grid, const void *args) {
    bool has_one = kernel == LS_CUDA_act_forward_table; /* input alone */
    size_t most = ls_cuda_processors(device) * (has_one ? LS_CUDA_TABLE_BLOCKS : LS_CUDA_TABLE_MORE_BLOCKS);
    most = most > grid.y ? most / grid.y : 1;
    if (grid.x > most) grid.x = most;
    return ls_cuda_launch(device, kernel, grid, LS_CUDA_TABLE_THREADS, 0, args);
}

static ls_status run(ls_device *device, ls_cuda_kernel kernel, const ls_act_call *c, const void *dy, size_t packs) {
    LS_TRY(ls_check_float(names[c->fn], c->act));
    size_t width = ls_cuda_widest(c->act);
    ls_cuda_act args = {.flat = {.n = c->n}, .fn = (int)c->fn, .act = (int)c->act, .y = c->y, .dy = dy, .x = c->x};
    args.flat.aligned = ls_cuda_fits(c->y, c->act, 0, width) && ls_cuda_fits(dy, c->act, 0, width) &&
                        ls_cuda_fits(c->x, c->act, 0, width);
    ls_cuda_grid grid = ls_cuda_flat_grid(&args.flat, width, packs);
    if ((c->fn == LS_ACT_GELU || c->fn == LS_ACT_SILU) && has_table(device, c->act, args.flat.aligned, c->n))
        return run_table(device, dy ? LS_CUDA_act_backward_table : LS_CUDA_act_forward_table, grid, &args);
    return ls_cuda_launch(device, kernel, grid, LS_CUDA_PACK_THREADS, 0, &args);
}

ls_status ls_cuda_op_act_forward(ls_device *device, const ls_act_call *c) {
    return run(device, LS_CUDA_act_forward, c, NULL, LS_CUDA_ACT_PACKS);
}

ls_status ls_cuda_op_act_backward(ls_device *device, const ls_act_call *c) {
    return run(device, LS_CUDA_act_backward, c, c->dy, 1);
}

/* ---- gates ------------------------------------------------------------------------------------------------------- */

static ls_status gated(ls_device *device, ls_cuda_kernel kernel, const ls_gated_call *c, ls_cuda_gated args) {
    LS_TRY(ls_check_float("a gate", c->act));
    size_t width = ls_cuda_widest(c->act);
    args.rows = (ls_cuda_rows){.rows = c->rows, .columns = c->columns};
    args.act = (int)c->act;
    args.gate = c->gate, args.up = c->up, args.in_stride = c->in_stride;
    args.rows.aligned =
        c->columns % width == 0 && ls_cuda_fits(c->gate, c->act, c->in_stride, width) &&
        ls_cuda_fits(c->up, c->act, c->in_stride, width) && ls_cuda_fits(args.y, c->act, c->y_stride, width) &&
        ls_cuda_fits(args.dy, c->act, c->dy_stride, width) && ls_cuda_fits(args.dgate, c->act, c->din_stride, width) &&
        ls_cuda_fits(args.dup, c->act, c->din_stride, width);
    ls_cuda_grid grid = ls_cuda_rows_grid(&args.rows, width, 1);
    if (has_table(device, c->act, args.rows.aligned, c->rows * c->columns))
        return run_table(device, args.dy ? LS_CUDA_gated_backward_table : LS_CUDA_gated_forward_table, grid, &args);
    return ls_cuda_launch(device, kernel, grid, LS_CUDA_PACK_THREADS, 0, &args);
}

ls_status ls_cuda_op_gated_forward(ls_device *device, const ls_gated_call *c) {
    return gated(device, LS_CUDA_gated_forward, c, (ls_cuda_gated){.y = c->y, .y_stride = c->y_stride});
}

ls_status ls_cuda_op_gated_backward(ls_device *device, const ls_gated_call *c) {
    ls_cuda_gated args = {
        .dy = c->dy, .dy_stride = c->dy_stride, .dgate = c->dgate, .dup = c->dup, .din_stride = c->din_stride};
    return gated(device, LS_CUDA_gated_backward, c, args);
}

/* ---- bias -------------------------------------------------------------------------------------------------------- */

static ls_status add_bias(ls_device *device, ls_cuda_kernel kernel, ls_cuda_bias *args) {
    enum { WIDTH = 4 };
    args->rows.aligned =
        args->rows.columns % WIDTH == 0 && ls_cuda_fits(args->y, (ls_dtype)args->act, args->y_stride, WIDTH) &&
        ls_cuda_fits(args->c, LS_F32, args->c_stride, WIDTH) && ls_cuda_fits(args->bias, LS_F32, 0, WIDTH) &&
        ls_cuda_fits(args->pre, LS_F32, args->pre_stride, WIDTH);
    return ls_cuda_launch(device, kernel, ls_cuda_rows_grid(&args->rows, WIDTH, LS_CUDA_ACT_ROWS), LS_CUDA_PACK_THREADS,
                          0, args);
}

ls_status ls_cuda_op_bias_gelu_forward(ls_device *device, const ls_bias_gelu_call *c) {
    ls_cuda_bias args = {.rows = {.rows = c->rows, .columns = c->columns},
                         .act = LS_F32,
                         .y = c->y,
                         .y_stride = c->y_stride,
                         .c = c->c,
                         .c_stride = c->c_stride,
                         .bias = c->bias,
                         .pre = c->pre,
                         .pre_stride = c->pre_stride};
    return add_bias(device, LS_CUDA_bias_gelu_forward, &args);
}

ls_status ls_cuda_op_bias_add(ls_device *device, const ls_bias_add_call *c) {
    LS_TRY(ls_check_float("a sum with a bias", c->act));
    ls_cuda_bias args = {.rows = {.rows = c->rows, .columns = c->columns},
                         .act = (int)c->act,
                         .y = c->y,
                         .y_stride = c->y_stride,
                         .c = c->c,
                         .c_stride = c->c_stride,
                         .bias = c->bias};
    return add_bias(device, LS_CUDA_bias_add, &args);
}
