/* token_sums.c: launches gradients of norms and biases, in two kernels: one sums the tokens of each slice of each
 * sequence in order (a chain) into scratch, the next one adds the chains in the order of the tree over groups
 * (kernels/token_sums.cu). */
#include "device/cuda/ops/token_sums.h"

#include "device/cuda/ops/list.h"
#include "device/cuda/ops/ops.h"
#include "device/cuda/ops/pack.h"

enum { WIDTH = 4, THREADS_ENOUGH = 1 << 14, COLUMNS_FEW = 1 << 16, BLOCKS_Y_MAX = 1 << 15 };

ls_status ls_cuda_join_tokens(ls_device *device, ls_cuda_token_join *args, int sums, const ls_token_groups *groups) {
    if (args->rows.rows == 0 || args->rows.columns == 0) return LS_OK;
    LS_TRY(ls_cuda_sizes_set(device, &args->bounds, groups->bounds, (size_t)groups->groups + 1));
    args->groups = groups->groups;
    args->accumulate = groups->accumulate;
    size_t rows = args->rows.rows, columns = args->rows.columns;
    if (args->block || (args->slices.slices && !args->are_tokens && rows * columns <= COLUMNS_FEW))
        return ls_cuda_launch(
            device, LS_CUDA_token_join_few,
            (ls_cuda_grid){ls_cuda_divide_up(columns, 32), rows < BLOCKS_Y_MAX ? rows : BLOCKS_Y_MAX, (size_t)sums},
            32 * LS_CUDA_JOIN_WARPS, 0, args);
    args->rows.aligned = args->rows.columns % WIDTH == 0 && args->in_sequence % WIDTH == 0 &&
                         args->rows.rows * args->rows.columns / WIDTH >= THREADS_ENOUGH;
    for (int i = 0; i < sums; i++)
        args->rows.aligned = args->rows.aligned && ls_cuda_fits(args->in[i], LS_F32, args->in_stride, WIDTH) &&
                             ls_cuda_fits(args->out[i], LS_F32, 0, WIDTH);
    ls_cuda_grid grid = ls_cuda_rows_grid(&args->rows, WIDTH, 1);
    grid.z = (size_t)sums;
    return ls_cuda_launch(device, LS_CUDA_token_join, grid, LS_CUDA_PACK_THREADS, 0, args);
}

/* Returns the grid of the kernels with one chain per thread, and sets rows->lanes_log2. Blocks are small, because
 * there are few, long chains, and no multiprocessor should get twice as many as another. */
static ls_cuda_grid chains_grid(ls_cuda_rows *rows) {
    enum { LANES_LOG2_MAX = 6 };
    size_t packs = rows->aligned ? rows->columns / WIDTH : rows->columns;
    rows->lanes_log2 = 0;
    while ((size_t)1 << rows->lanes_log2 < packs && rows->lanes_log2 < LANES_LOG2_MAX) rows->lanes_log2++;
    size_t x = ls_cuda_divide_up(rows->rows, (size_t)LS_CUDA_CHAIN_THREADS >> rows->lanes_log2);
    size_t y = ls_cuda_divide_up(packs, (size_t)1 << rows->lanes_log2);
    return (ls_cuda_grid){y ? x : 0, y < BLOCKS_Y_MAX ? (y ? y : 1) : BLOCKS_Y_MAX, 1};
}

/* Returns the grid of the kernels with one block per slice of a sequence and 32 packs of columns. */
static ls_cuda_grid blocks_grid(const ls_cuda_rows *rows) {
    size_t y = ls_cuda_divide_up(rows->aligned ? rows->columns / WIDTH : rows->columns, 32);
    return (ls_cuda_grid){y ? rows->rows : 0, y < BLOCKS_Y_MAX ? (y ? y : 1) : BLOCKS_Y_MAX, 1};
}

ls_status ls_cuda_slices_set(ls_device *device, ls_cuda_slices *slices, const ls_token_groups *groups) {
    slices->T = groups->T;
    slices->slices = (size_t)groups->slices;
    slices->are_listed = groups->tokens != NULL;
    return groups->tokens ? ls_cuda_sizes_set(device, &slices->tokens, groups->tokens, slices->slices + 1) : LS_OK;
}

/* The two kernels of a kind of sum: `chains` for slices that are one chain, `blocks` for slices cut into blocks. */
typedef struct chain_kernels {
    ls_cuda_kernel chains, blocks;
} chain_kernels;

/* Launches `sums` (1 or 2) sums of `columns` columns over the tokens of each group, slice by slice: the chains,
 * then the kernel that joins them. The caller sets the inputs in `args`; this function sets slices, rows, scratch
 * and block. out[i] is [slices][columns]. */
static ls_status run_chains(ls_device *device, chain_kernels kernels, ls_cuda_chains *args, size_t columns,
                            float *const out[2], int sums, const ls_token_groups *groups) {
    size_t sequences = groups->bounds[groups->groups], slices = (size_t)groups->slices,
           elems = sequences * slices * columns;
    void *scratch = NULL;
    LS_TRY(ls_cuda_slices_set(device, &args->slices, groups));
    args->block = groups->block;
    LS_TRY(ls_cuda_scratch(device, ((size_t)sums * (elems + WIDTH)) * sizeof(float), &scratch));
    args->out[0] = scratch;
    args->out[1] = (float *)scratch + elems / WIDTH * WIDTH + WIDTH;
    args->rows = (ls_cuda_rows){.rows = sequences * slices, .columns = columns};
    /* Scalar loads where vector loads would leave too few threads to saturate the memory bandwidth. */
    args->rows.aligned = columns % WIDTH == 0 && ls_cuda_fits(args->dy, (ls_dtype)args->act, args->dy_stride, WIDTH) &&
                         ls_cuda_fits(args->x, LS_F32, args->x_stride, WIDTH) &&
                         (args->block || elems / WIDTH >= THREADS_ENOUGH);
    if (args->block)
        LS_TRY(ls_cuda_launch(device, kernels.blocks, blocks_grid(&args->rows), 32 * LS_CUDA_CHAIN_WARPS, 0, args));
    else
        LS_TRY(ls_cuda_launch(device, kernels.chains, chains_grid(&args->rows), LS_CUDA_CHAIN_THREADS, 0, args));
    ls_cuda_token_join joins = {.rows = {.rows = slices, .columns = columns},
                                .slices = args->slices,
                                .in_stride = columns,
                                .in_sequence = slices * columns,
                                .in = {args->out[0], args->out[1]},
                                .out = {out[0], out[1]}};
    return ls_cuda_join_tokens(device, &joins, sums, groups);
}

LS_ASSERT_ARGS(ls_norm_call, 28);
/* Launches the computation of the gradients dw and, without rms, db of a norm's parameters. */
ls_status ls_cuda_op_norm_params(ls_device *device, const ls_norm_call *c) {
    const ls_token_groups *groups = c->groups;
    LS_TRY(ls_check_float("a norm", c->act));
    LS_TRY(ls_token_groups_check_rows(groups, c->rows));
    ls_cuda_chains args = {.act = (int)c->act,
                           .dy = c->dy,
                           .dy_stride = c->dy_stride,
                           .x = c->x,
                           .x_stride = c->x_stride,
                           .mean = c->mean,
                           .rstd = c->rstd};
    chain_kernels kernels = c->rms ? (chain_kernels){LS_CUDA_rms_chains, LS_CUDA_rms_blocks}
                                   : (chain_kernels){LS_CUDA_layer_chains, LS_CUDA_layer_blocks};
    return run_chains(device, kernels, &args, c->C, (float *const[2]){c->dw, c->db}, c->rms ? 1 : 2, groups);
}

LS_ASSERT_ARGS(ls_bias_grad_call, 6);
/* Launches the computation of db, the sums of dy over the tokens of each slice. fp32 sequences of one token need no
 * chains: the join reads dy itself. */
ls_status ls_cuda_op_bias_grad(ls_device *device, const ls_bias_grad_call *c) {
    LS_TRY(ls_check_float("the gradient of a bias", c->act));
    LS_TRY(ls_token_groups_check(c->groups));
    if (c->groups->T == 1 && c->groups->slices == 1 && !c->groups->tokens && c->act == LS_F32) {
        ls_cuda_token_join joins = {.rows = {.rows = 1, .columns = c->columns},
                                    .slices = {.T = 1, .slices = 1},
                                    .in_stride = c->columns,
                                    .in_sequence = c->dy_stride,
                                    .in = {c->dy},
                                    .out = {c->db},
                                    .are_tokens = true};
        return ls_cuda_join_tokens(device, &joins, 1, c->groups);
    }
    ls_cuda_chains args = {.act = (int)c->act, .dy = c->dy, .dy_stride = c->dy_stride};
    chain_kernels kernels = {LS_CUDA_bias_chains, LS_CUDA_bias_blocks};
    return run_chains(device, kernels, &args, c->columns, (float *const[2]){c->db, NULL}, 1, c->groups);
}
