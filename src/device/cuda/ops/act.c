/* act.c: activations and bias, element by element. */
#include "device/cuda/args/act.h"

#include "device/cuda/ops/ops.h"
#include "device/cuda/ops/take.h"

_Static_assert((int)LS_ACT_GELU == LS_CUDA_GELU && (int)LS_ACT_SILU == LS_CUDA_SILU &&
                   (int)LS_ACT_RELU == LS_CUDA_RELU && (int)LS_ACT_SIGMOID == LS_CUDA_SIGMOID,
               "kernels know activations by the numbers of ls_act_fn");

/* From here on what a block saves by its table is more than making it takes. */
#define TABLE_ELEMS_MIN ((size_t)1 << 20)

static bool has_table(ls_device *device, ls_dtype dtype, bool are_aligned, size_t n) {
    return dtype == LS_BF16 && are_aligned && n >= TABLE_ELEMS_MIN && !ls_cuda_computes_otherwise(device);
}

/* Launches a kernel with a lookup table on persistent blocks, so that each loads the table only once. */
static ls_status run_table(ls_device *device, ls_cuda_kernel kernel, ls_cuda_grid grid, const void *args) {
    bool has_one = kernel == LS_CUDA_act_forward_table; /* input alone */
    size_t most = ls_cuda_processors(device) * (has_one ? LS_CUDA_TABLE_BLOCKS : LS_CUDA_TABLE_MORE_BLOCKS);
    most = most > grid.y ? most / grid.y : 1;
    if (grid.x > most) grid.x = most;
    return ls_cuda_launch(device, kernel, grid, LS_CUDA_TABLE_THREADS, 0, args);
}

static ls_status run_act(ls_device *device, ls_cuda_kernel kernel, const ls_act_call *c, size_t packs) {
    LS_TRY(ls_check_float(ls_act_fn_names[c->fn], c->act));
    size_t width = ls_cuda_widest(c->act);
    ls_cuda_act args = {.flat = {.aligned = LS_CUDA_FITS(ls_act_call)}};
    LS_CUDA_TAKE(ls_act_call, args.flat);
    ls_cuda_grid grid = ls_cuda_flat_grid(&args.flat, width, packs);
    if ((c->fn == LS_ACT_GELU || c->fn == LS_ACT_SILU) && has_table(device, c->act, args.flat.aligned, c->n))
        return run_table(device, c->dy ? LS_CUDA_act_backward_table : LS_CUDA_act_forward_table, grid, &args);
    return ls_cuda_launch(device, kernel, grid, LS_CUDA_PACK_THREADS, 0, &args);
}

ls_status ls_cuda_op_act_forward(ls_device *device, const ls_act_call *call) {
    ls_act_call own = *call;
    own.dy = NULL;
    return run_act(device, LS_CUDA_act_forward, &own, LS_CUDA_ACT_PACKS);
}

ls_status ls_cuda_op_act_backward(ls_device *device, const ls_act_call *call) {
    return run_act(device, LS_CUDA_act_backward, call, 1);
}

static ls_status run_gate(ls_device *device, const ls_gated_call *c) {
    static const ls_cuda_kernel kernels[LS_GATE_FNS][2][2] = {
        [LS_GATE_SILU] = {{LS_CUDA_gated_forward, LS_CUDA_gated_forward_table},
                          {LS_CUDA_gated_backward, LS_CUDA_gated_backward_table}},
        [LS_GATE_GELU] = {{LS_CUDA_gated_gelu_forward, LS_CUDA_gated_gelu_forward_table},
                          {LS_CUDA_gated_gelu_backward, LS_CUDA_gated_gelu_backward_table}}};
    const ls_cuda_kernel *kernel = kernels[c->fn][c->dy != NULL];
    LS_TRY(ls_check_float("a gate", c->act));
    size_t width = ls_cuda_widest(c->act);
    ls_cuda_gated args = {.rows = {.aligned = c->columns % width == 0 && LS_CUDA_FITS(ls_gated_call)}};
    LS_CUDA_TAKE(ls_gated_call, args.rows);
    ls_cuda_grid grid = ls_cuda_rows_grid(&args.rows, width, 1);
    if (has_table(device, c->act, args.rows.aligned, c->rows * c->columns))
        return run_table(device, kernel[1], grid, &args);
    return ls_cuda_launch(device, kernel[0], grid, LS_CUDA_PACK_THREADS, 0, &args);
}

/* Ignores the tensors of the backward pass, which the call may have. */
ls_status ls_cuda_op_gated_forward(ls_device *device, const ls_gated_call *call) {
    ls_gated_call own = *call;
    own.dy = NULL;
    own.dgate = own.dup = NULL;
    return run_gate(device, &own);
}

ls_status ls_cuda_op_gated_backward(ls_device *device, const ls_gated_call *call) {
    ls_gated_call own = *call;
    own.y = NULL;
    return run_gate(device, &own);
}

/* The packs of a bias. */
enum { WIDTH = 4 };

static ls_status add_bias(ls_device *device, ls_cuda_kernel kernel, ls_cuda_bias *args, bool fits) {
    args->rows.aligned = fits && args->rows.columns % WIDTH == 0;
    return ls_cuda_launch(device, kernel, ls_cuda_rows_grid(&args->rows, WIDTH, LS_CUDA_ACT_ROWS), LS_CUDA_PACK_THREADS,
                          0, args);
}

ls_status ls_cuda_op_bias_gelu_forward(ls_device *device, const ls_bias_gelu_call *c) {
    const size_t width = WIDTH;
    ls_cuda_bias args = {.act = LS_F32};
    LS_CUDA_TAKE(ls_bias_gelu_call, args.rows);
    return add_bias(device, LS_CUDA_bias_gelu_forward, &args, LS_CUDA_FITS(ls_bias_gelu_call));
}

ls_status ls_cuda_op_bias_add(ls_device *device, const ls_bias_add_call *c) {
    const size_t width = WIDTH;
    ls_cuda_bias args = {.pre = NULL};
    LS_TRY(ls_check_float("a sum with a bias", c->act));
    LS_CUDA_TAKE(ls_bias_add_call, args.rows);
    return add_bias(device, LS_CUDA_bias_add, &args, LS_CUDA_FITS(ls_bias_add_call));
}
