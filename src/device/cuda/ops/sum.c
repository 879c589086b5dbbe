/* sum.c: launches sums and maxima of several tensors, scaling and filling, element by element (kernels/sum.cu). */
#include "device/cuda/args/sum.h"

#include "device/cuda/ops/list.h"
#include "device/cuda/ops/ops.h"
#include "device/cuda/ops/take.h"

enum { WIDTH = 4 };

/* Launches the computation of y = a + b in fp32; b may be 16-bit. */
ls_status ls_cuda_op_add(ls_device *device, const ls_add_call *c) {
    const size_t width = WIDTH;
    LS_TRY(ls_check_float("a sum", c->b_dtype));
    ls_cuda_add args = {.flat = {.aligned = LS_CUDA_FITS(ls_add_call)}};
    LS_CUDA_TAKE(ls_add_call, args.flat);
    return ls_cuda_launch(device, LS_CUDA_add, ls_cuda_flat_grid(&args.flat, WIDTH, LS_CUDA_SUM_PACKS),
                          LS_CUDA_PACK_THREADS, 0, &args);
}

LS_ASSERT_ARGS(ls_tree_sum_call, 5);
LS_ASSERT_ARGS(ls_max_call, 4);
/* Launches a kernel that combines `count` tensors element by element; `packs`: of a thread at a time. */
static ls_status join(ls_device *device, ls_cuda_kernel kernel, float *out, const void *const *inputs, ls_dtype dtype,
                      int count, size_t n, size_t packs) {
    ls_cuda_join args = {.flat = {.n = n, .aligned = ls_cuda_fits(out, LS_F32, 0, WIDTH)},
                         .dtype = (int)dtype,
                         .count = count,
                         .out = out};
    for (int i = 0; i < count; i++) args.flat.aligned = args.flat.aligned && ls_cuda_fits(inputs[i], dtype, 0, WIDTH);
    if (n == 0) return LS_OK;
    LS_TRY(ls_cuda_pointers_set(device, &args.inputs, inputs, (size_t)count));
    return ls_cuda_launch(device, kernel, ls_cuda_flat_grid(&args.flat, WIDTH, packs), LS_CUDA_PACK_THREADS, 0, &args);
}

/* Launches the computation of out = the sum of the contributions by the balanced binary tree of the contract. */
ls_status ls_cuda_op_tree_sum(ls_device *device, const ls_tree_sum_call *c) {
    LS_TRY(ls_check_leaves(c->leaves));
    LS_TRY(ls_check_float("a sum", c->dtype));
    bool is_few = c->leaves <= LS_CUDA_FEW_LEAVES;
    return join(device, is_few ? LS_CUDA_tree_sum_few : LS_CUDA_tree_sum, c->out, c->contributions, c->dtype, c->leaves,
                c->elems, is_few ? LS_CUDA_TREE_PACKS : 1);
}

/* Launches the trees over the rows of the collected pieces, and empties the collection. */
static ls_status join_rows(ls_device *device, ls_cuda_tree_rows *args) {
    ls_status status = LS_OK;
    if (args->first[args->count] > 0)
        status = ls_cuda_launch(device, LS_CUDA_tree_rows, (ls_cuda_grid){args->first[args->count], 1, 1},
                                LS_CUDA_PACK_THREADS, 0, args);
    args->count = 0;
    return status;
}

LS_ASSERT_ARGS(ls_tree_rows_piece, 2);
/* Launches the computation of the tree over the rows of each piece, into its first row; many small pieces in one
 * launch. */
ls_status ls_cuda_op_tree_rows(ls_device *device, const ls_tree_rows_call *c) {
    enum { BLOCKS_MAX = 1 << 30 };
    ls_cuda_tree_rows args = {.leaves = c->leaves};
    LS_TRY(ls_check_leaves(c->leaves));
    for (int i = 0; i < c->count; i++) {
        const ls_tree_rows_piece *piece = &c->pieces[i];
        size_t blocks = ls_cuda_divide_up(piece->n, LS_CUDA_PACK_THREADS);
        if (blocks == 0) continue;
        if (args.count == LS_CUDA_ROWS_PIECES || (args.count && blocks > BLOCKS_MAX - args.first[args.count]))
            LS_TRY(join_rows(device, &args));
        args.rows[args.count] = piece->rows;
        args.n[args.count] = piece->n;
        args.first[args.count + 1] = args.first[args.count] + (unsigned)blocks;
        args.count++;
    }
    return join_rows(device, &args);
}

/* Launches the computation of out = the maximum of `count` tensors, element by element. */
ls_status ls_cuda_op_max(ls_device *device, const ls_max_call *c) {
    if (c->count < 1 || c->count > LS_WORKERS_MAX)
        return ls_fail(LS_ERR_INPUT, "a maximum over %d tensors; the number of tensors must be between 1 and %d",
                       c->count, LS_WORKERS_MAX);
    return join(device, LS_CUDA_max, c->out, (const void *const *)c->inputs, LS_F32, c->count, c->elems, 1);
}

/* Launches a kernel with the arguments of y = x·factor; LS_CUDA_set sets y to the factor and has no x. */
static ls_status run_scale(ls_device *device, ls_cuda_kernel kernel, const ls_scale_call *c) {
    const size_t width = WIDTH;
    ls_cuda_scale args = {.flat = {.aligned = LS_CUDA_FITS(ls_scale_call)}};
    LS_CUDA_TAKE(ls_scale_call, args.flat);
    return ls_cuda_launch(device, kernel, ls_cuda_flat_grid(&args.flat, WIDTH, LS_CUDA_SUM_PACKS), LS_CUDA_PACK_THREADS,
                          0, &args);
}

/* Launches the computation of y = x·factor. */
ls_status ls_cuda_op_scale(ls_device *device, const ls_scale_call *c) { return run_scale(device, LS_CUDA_scale, c); }

LS_ASSERT_ARGS(ls_set_call, 3);
/* Launches the computation of y = value for every element. */
ls_status ls_cuda_op_set(ls_device *device, const ls_set_call *c) {
    return run_scale(device, LS_CUDA_set, &(ls_scale_call){.y = c->y, .factor = c->value, .n = c->n});
}
