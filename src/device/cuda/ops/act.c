/* act.c: launches activations, gates and bias additions, element by element (kernels/act.cu). */
#include "device/cuda/args/act.h"

#include "device/cuda/ops/ops.h"
#include "device/cuda/ops/take.h"

_Static_assert((int)LS_ACT_GELU == LS_CUDA_GELU && (int)LS_ACT_SILU == LS_CUDA_SILU &&
                   (int)LS_ACT_RELU == LS_CUDA_RELU && (int)LS_ACT_SIGMOID == LS_CUDA_SIGMOID,
               "kernels know activations by the numbers of ls_act_fn");

/* Elements from which on the table of activations in shared memory saves a block more time than filling it takes. */
#define TABLE_ELEMS_MIN ((size_t)1 << 20)

/* Returns whether to take the kernels with a table: only for large, aligned bf16 tensors, and not in an audit,
 * which computes otherwise. */
static bool has_table(ls_device *device, ls_dtype dtype, bool are_aligned, size_t n) {
    return dtype == LS_BF16 && are_aligned && n >= TABLE_ELEMS_MIN && !ls_cuda_computes_otherwise(device);
}

/* Launches a kernel with a lookup table on persistent blocks, as many as run at once, so that each fills its table
 * only once. */
static ls_status run_table(ls_device *device, ls_cuda_kernel kernel, ls_cuda_grid grid, const void *args) {
    bool has_one = kernel == LS_CUDA_act_forward_table; /* input alone */
    size_t most = ls_cuda_processors(device) * (has_one ? LS_CUDA_TABLE_BLOCKS : LS_CUDA_TABLE_MORE_BLOCKS);
    most = most > grid.y ? most / grid.y : 1;
    if (grid.x > most) grid.x = most;
    return ls_cuda_launch(device, kernel, grid, LS_CUDA_TABLE_THREADS, 0, args);
}

/* Launches an activation: with a table where that pays (GELU and SiLU only), else `kernel`, whose threads have
 * `packs` packs each. dy NULL: forward. */
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

/* Launches the computation of y = fn(x). Ignores dy, which the call may have. */
ls_status ls_cuda_op_act_forward(ls_device *device, const ls_act_call *call) {
    ls_act_call own = *call;
    own.dy = NULL;
    return run_act(device, LS_CUDA_act_forward, &own, LS_CUDA_ACT_PACKS);
}

/* Launches the computation of y = dy · the slope of fn, from what ls_act_fn says x is (for ReLU and the sigmoid the
 * result of forward). */
ls_status ls_cuda_op_act_backward(ls_device *device, const ls_act_call *call) {
    return run_act(device, LS_CUDA_act_backward, call, 1);
}

/* Launches the computation of y = fn(gate)·up, or its gradients dgate and dup if dy is not NULL; with a table where
 * that pays. */
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

/* Launches the computation of y = fn(gate)·up. Ignores the tensors of the backward pass, which the call may have. */
ls_status ls_cuda_op_gated_forward(ls_device *device, const ls_gated_call *call) {
    ls_gated_call own = *call;
    own.dy = NULL;
    own.dgate = own.dup = NULL;
    return run_gate(device, &own);
}

/* Launches the computation of dgate and dup from dy, gate and up. Ignores y. */
ls_status ls_cuda_op_gated_backward(ls_device *device, const ls_gated_call *call) {
    ls_gated_call own = *call;
    own.y = NULL;
    return run_gate(device, &own);
}

/* Elements of a pack in the kernels of a bias, whatever the type. */
enum { WIDTH = 4 };

/* Launches a kernel of a bias; `fits`: all addresses and strides allow packs of WIDTH elements. */
static ls_status add_bias(ls_device *device, ls_cuda_kernel kernel, ls_cuda_bias *args, bool fits) {
    args->rows.aligned = fits && args->rows.columns % WIDTH == 0;
    return ls_cuda_launch(device, kernel, ls_cuda_rows_grid(&args->rows, WIDTH, LS_CUDA_ACT_ROWS), LS_CUDA_PACK_THREADS,
                          0, args);
}

/* Launches the computation of pre = c + bias, y = gelu(pre), in fp32. */
ls_status ls_cuda_op_bias_gelu_forward(ls_device *device, const ls_bias_gelu_call *c) {
    const size_t width = WIDTH;
    ls_cuda_bias args = {.act = LS_F32};
    LS_CUDA_TAKE(ls_bias_gelu_call, args.rows);
    return add_bias(device, LS_CUDA_bias_gelu_forward, &args, LS_CUDA_FITS(ls_bias_gelu_call));
}

/* Launches the computation of y = c + bias, rounded to the type of y; without a bias (NULL) only the conversion. */
ls_status ls_cuda_op_bias_add(ls_device *device, const ls_bias_add_call *c) {
    const size_t width = WIDTH;
    ls_cuda_bias args = {.pre = NULL};
    LS_TRY(ls_check_float("a sum with a bias", c->act));
    LS_CUDA_TAKE(ls_bias_add_call, args.rows);
    return add_bias(device, LS_CUDA_bias_add, &args, LS_CUDA_FITS(ls_bias_add_call));
}
