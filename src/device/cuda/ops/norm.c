/* norm.c: launches layer norm and RMS norm (kernels/norm.cu): a block has as many rows as leave shared memory for
 * other blocks of the multiprocessor. */
#include "device/cuda/args/norm.h"

#include "device/cuda/ops/drop.h"
#include "device/cuda/ops/ops.h"
#include "device/cuda/ops/pack.h"
#include "device/cuda/ops/token_sums.h"

/* A third of a multiprocessor's shared memory; numbers that shared memory has in its banks. */
enum { WIDTH = 4, SHARED_OF_BLOCK = 72 << 10, BANKS = 32, SHARED_OF_KERNEL = 1024 };

LS_ASSERT_ARGS(ls_norm_call, 28);
/* Converts a call to the kernel's arguments, without branch, sum and dx_copy, which only one of the passes has. */
static ls_cuda_norm args_of(const ls_norm_call *call) {
    return (ls_cuda_norm){
        .rows = call->rows,
        .C = call->C,
        .rms = call->rms,
        .act = (int)call->act,
        .add = call->add,
        .eps = call->eps,
        .x = call->x,
        .x_stride = call->x_stride,
        .w = call->w,
        .b = call->b,
        .y = call->y,
        .y_stride = call->y_stride,
        .mean = call->mean,
        .rstd = call->rstd,
        .dy = call->dy,
        .dy_stride = call->dy_stride,
        .dx = call->dx,
        .dx_stride = call->dx_stride,
        .drop = ls_cuda_drop_of(&call->drop),
    };
}

/* Converts a call to the arguments of backward; y is NULL unless the call asks to make it again (remake). */
static ls_cuda_norm backward_args_of(const ls_norm_call *call) {
    ls_cuda_norm args = args_of(call);
    args.dx_copy = call->dx_copy;
    if (!call->remake) args.y = NULL;
    return args;
}

/* Returns whether all tensors of a pass allow loads of WIDTH elements; in backward the branch is not looked at. */
static bool are_aligned(const ls_norm_call *c, bool backward) {
    bool makes_y = !backward || c->remake;
    bool both = c->C % WIDTH == 0 && ls_cuda_fits(c->x, LS_F32, c->x_stride, WIDTH) &&
                ls_cuda_fits(c->w, LS_F32, 0, WIDTH) && (c->rms || ls_cuda_fits(c->b, LS_F32, 0, WIDTH)) &&
                (!makes_y || ls_cuda_fits(c->y, c->act, c->y_stride, WIDTH));
    if (backward)
        return both && ls_cuda_fits(c->dy, c->act, c->dy_stride, WIDTH) &&
               ls_cuda_fits(c->dx, LS_F32, c->dx_stride, WIDTH) && ls_cuda_fits(c->dx_copy, c->act, 0, WIDTH);
    return both && ls_cuda_fits(c->branch, c->act, 0, WIDTH) && ls_cuda_fits(c->sum, LS_F32, 0, WIDTH);
}

/* Returns the threads of a block with `together` rows (0: one long row) of `packs` packs: they share the packs of
 * a row equally, and include half a warp for each row. */
static unsigned threads_of(size_t packs, int together) {
    size_t turns = ls_cuda_divide_up(packs, LS_CUDA_NORM_THREADS);
    size_t threads = ls_cuda_divide_up(ls_cuda_divide_up(packs, turns ? turns : 1), 32) * 32;
    size_t least = ls_cuda_divide_up((size_t)(together ? together : 1) * 16, 32) * 32;
    return (unsigned)(threads > least ? threads : least);
}

/* Returns the pitch of a row in shared memory, in floats. Two adjacent rows are read at once, so they must lie in
 * different banks. */
static size_t pitch_of(size_t C) { return ls_cuda_divide_up(C, BANKS) * BANKS + BANKS / 2; }

/* Returns whether the call has dropout. */
static bool drops(const ls_norm_call *call) { return call->drop.scale != 0 && (call->branch || call->dx_copy); }

/* Launches one norm kernel, forward or backward (dx, dx_copy, y; without gradients of parameters). Rows that do
 * not fit into shared memory are read several times. */
static ls_status run_norm(ls_device *device, const ls_norm_call *call, bool backward) {
    static const ls_cuda_kernel kernels[2][2][2] = {{{LS_CUDA_layer_norm_forward, LS_CUDA_layer_norm_forward_drop},
                                                     {LS_CUDA_layer_norm_backward, LS_CUDA_layer_norm_backward_drop}},
                                                    {{LS_CUDA_rms_norm_forward, LS_CUDA_rms_norm_forward_drop},
                                                     {LS_CUDA_rms_norm_backward, LS_CUDA_rms_norm_backward_drop}}};
    LS_TRY(ls_check_float("a norm", call->act));
    if (call->rows == 0 || call->C == 0) return LS_OK;
    ls_cuda_norm args = backward ? backward_args_of(call) : args_of(call);
    if (!backward) args.branch = call->branch, args.sum = call->sum;
    args.aligned = are_aligned(call, backward);
    size_t pitch = pitch_of(call->C), row = pitch * sizeof(float) * (backward ? 2 : 1);
    size_t most = ls_cuda_shared_max(device) - SHARED_OF_KERNEL;
    args.together = LS_CUDA_NORM_ROWS;
    while (args.together > 1 && ((size_t)args.together * row > SHARED_OF_BLOCK ||
                                 ls_cuda_divide_up(call->rows, (size_t)args.together) < ls_cuda_processors(device)))
        args.together /= 2;
    if (row > most) args.together = 0;
    args.pitch = args.together ? (int)pitch : 0;
    size_t blocks = ls_cuda_divide_up(call->rows, args.together ? (size_t)args.together : 1);
    return ls_cuda_launch(device, kernels[call->rms][backward][drops(call)], (ls_cuda_grid){blocks, 1, 1},
                          threads_of(args.aligned ? call->C / WIDTH : call->C, args.together),
                          (size_t)args.together * row, &args);
}

/* Launches the computation of y, mean and rstd, and sum = x + branch if there is a branch. */
ls_status ls_cuda_op_norm_forward(ls_device *device, const ls_norm_call *call) { return run_norm(device, call, false); }

/* Launches the computation of own->sum = x + what dropout leaves of the branch, and makes it the input own->x; the
 * branch becomes NULL. */
static ls_status add_branch(ls_device *device, ls_norm_call *own) {
    const size_t C = own->C;
    const ls_dropout_call dropped = {own->rows, C,      own->drop, own->branch, own->act, C, own->x, own->x_stride,
                                     own->sum,  LS_F32, C};
    const ls_add_call add = {own->sum, own->x, own->branch, own->act, own->rows * C};
    LS_TRY(drops(own) ? ls_cuda_op_dropout_add(device, &dropped) : ls_cuda_op_add(device, &add));
    own->x = own->sum;
    own->x_stride = C;
    own->branch = NULL;
    return LS_OK;
}

/* Launches the backward pass as separate operations: the sum with the branch, dx, the gradients of parameters, the
 * gradient of the bias. */
static ls_status backward_apart(ls_device *device, const ls_norm_call *call) {
    ls_norm_call own = *call;
    if (call->branch) LS_TRY(add_branch(device, &own));
    LS_TRY(run_norm(device, &own, true));
    if (!call->params) return LS_OK;
    LS_TRY(ls_cuda_op_norm_params(device, &own));
    if (!call->dx_sums) return LS_OK;
    return ls_cuda_op_bias_grad(
        device, &(ls_bias_grad_call){call->dx_sums, call->dx_copy, call->act, call->C, call->C, call->groups});
}

/* How many chains (runs of up to `block` tokens, added in order) a slice has at most, and all slices of all
 * sequences together if each had as many. */
typedef struct chain_counts {
    size_t of_slice, all;
} chain_counts;

/* Counts the chains of a call whose slices are cut into blocks of tokens (g->block > 0). */
static chain_counts count_chains(const ls_token_groups *g) {
    size_t most = 0, sequences = g->bounds[g->groups];
    for (int i = 0; i < g->slices; i++) {
        size_t begin = g->tokens ? g->tokens[i] : (size_t)i * g->T / (size_t)g->slices,
               end = g->tokens ? g->tokens[i + 1] : (size_t)(i + 1) * g->T / (size_t)g->slices,
               chains = ls_cuda_divide_up(end - begin, g->block);
        if (chains > most) most = chains;
    }
    return (chain_counts){most, most * sequences * (size_t)g->slices};
}

/* Returns whether to run backward_chains(): blocks with one chain each fill the GPU and fit into shared memory,
 * tensors are 16-bit and aligned, and this is no audit. */
static bool chains_fit(ls_device *device, const ls_norm_call *call, chain_counts counts) {
    enum { BLOCKS_MAX = 1 << 30 };
    return call->act != LS_F32 && are_aligned(call, true) && ls_cuda_fits(call->branch, call->act, 0, WIDTH) &&
           call->C / WIDTH <= LS_CUDA_NORM_CHAIN_THREADS && counts.all * 8 >= ls_cuda_processors(device) * 7 &&
           counts.all <= BLOCKS_MAX && !ls_cuda_computes_otherwise(device) &&
           pitch_of(call->C) * 2 * sizeof(float) <= ls_cuda_shared_max(device) - SHARED_OF_KERNEL;
}

/* Returns how many rows of `row` bytes a block of `threads` threads processes at a time: as many as fit into
 * shared memory at the planned occupancy, at least 1. */
static int rows_together(ls_device *device, size_t chains, unsigned threads, size_t row) {
    enum { BLOCKS_MAX = 4, THREADS_MAX = 2 * LS_CUDA_NORM_CHAIN_THREADS };
    size_t blocks = chains / ls_cuda_processors(device), room = THREADS_MAX / threads;
    if (blocks > room) blocks = room;
    if (blocks > BLOCKS_MAX) blocks = BLOCKS_MAX;
    if (blocks == 0) blocks = 1;
    size_t rows = (ls_cuda_shared_max(device) / blocks - SHARED_OF_KERNEL) / row;
    return rows < 1 ? 1 : rows < LS_CUDA_NORM_ROWS ? (int)rows : LS_CUDA_NORM_ROWS;
}

/* Launches backward with the gradients of parameters in one kernel, a block per chain of tokens, whose sums go to
 * `scratch`, then the kernel that joins the chains. */
static ls_status backward_chains(ls_device *device, const ls_norm_call *call, chain_counts counts, float *scratch) {
    const size_t C = call->C, packs = C / WIDTH, pitch = pitch_of(C), row = pitch * 2 * sizeof(float);
    ls_cuda_norm_chains args = {.norm = backward_args_of(call), .block = call->groups->block, .most = counts.of_slice};
    ls_cuda_token_join joins = {.rows = {.rows = (size_t)call->groups->slices, .columns = C},
                                .block = args.block,
                                .in_stride = args.most * C,
                                .in_sequence = (size_t)call->groups->slices * args.most * C};
    int sums = 0;
    args.norm.branch = call->branch;
    LS_TRY(ls_cuda_slices_set(device, &args.slices, call->groups));
    joins.slices = args.slices;
    joins.in[sums] = args.dw = scratch, joins.out[sums++] = call->dw;
    if (!call->rms) joins.in[sums] = args.db = scratch + (size_t)sums * counts.all * C, joins.out[sums++] = call->db;
    if (call->dx_sums)
        joins.in[sums] = args.dx_sums = scratch + (size_t)sums * counts.all * C, joins.out[sums++] = call->dx_sums;
    size_t threads = ls_cuda_divide_up(packs, 32) * 32;
    /* With one block for a multiprocessor, its own loads have to be early. */
    bool few = counts.all < 2 * (size_t)ls_cuda_processors(device);
    args.norm.together = rows_together(device, counts.all, (unsigned)threads, row);
    if (few && args.norm.together > LS_CUDA_NORM_FEW_ROWS) args.norm.together = LS_CUDA_NORM_FEW_ROWS;
    args.norm.pitch = (int)pitch;
    /* Half a warp for each row. */
    while (threads < (size_t)args.norm.together * 16) threads += 32;
    static const ls_cuda_kernel kernels[2][2][2] = {
        {{LS_CUDA_layer_norm_chains, LS_CUDA_layer_norm_chains_drop},
         {LS_CUDA_layer_norm_chains_few, LS_CUDA_layer_norm_chains_few_drop}},
        {{LS_CUDA_rms_norm_chains, LS_CUDA_rms_norm_chains_drop},
         {LS_CUDA_rms_norm_chains_few, LS_CUDA_rms_norm_chains_few_drop}}};
    LS_TRY(ls_cuda_launch(device, kernels[call->rms][few][drops(call)], (ls_cuda_grid){counts.all, 1, 1},
                          (unsigned)threads, (size_t)args.norm.together * row, &args));
    return ls_cuda_join_tokens(device, &joins, sums, call->groups);
}

/* Launches the computation of dx and what else the call asks for (dx_copy, y, gradients of parameters and of a bias),
 * fused where that is faster, else one operation after another, with the same bits. */
ls_status ls_cuda_op_norm_backward(ls_device *device, const ls_norm_call *call) {
    LS_TRY(ls_check_float("a norm", call->act));
    if (!call->params) return backward_apart(device, call);
    LS_TRY(ls_token_groups_check_rows(call->groups, call->rows));
    if (call->rows == 0 || call->C == 0 || call->groups->block == 0) return backward_apart(device, call);
    /* Scratch for the sums of either kernel, so that its size follows from the shapes alone. */
    chain_counts counts = count_chains(call->groups);
    size_t sums = (call->rms ? 1 : 2) + (call->dx_sums != NULL);
    void *scratch = NULL;
    LS_TRY(ls_cuda_scratch(device, sums * counts.all * call->C * sizeof(float), &scratch));
    return chains_fit(device, call, counts) ? backward_chains(device, call, counts, scratch)
                                            : backward_apart(device, call);
}
