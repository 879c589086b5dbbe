/* conv_bn.c: convolution and batch norm, over ghost groups or over the whole batch. */
#include "nn/images/conv_bn.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

#include "base/fault.h"
#include "nn/images/image_layer.h"

/* Returns the weight of the convolution. */
static ls_param *weight_of(ls_block *block, int u) { return ls_block_unit_param(block, LS_ROLE_CONV, u); }
/* Returns the saved tensors of conv_bn u. */
static const ls_conv_bn_saved *saved_of(const ls_block *block, int u) {
    const ls_conv_bns_saved *saved = block->saved;
    return &saved->unit[u];
}
/* Returns the elements of an output image of conv_bn u. */
static size_t elems(const ls_block *block, int u) { return ls_extent_elems(block->conv_bn[u].out); }
/* Returns the output channels of conv_bn u. */
static size_t channels(const ls_block *block, int u) { return block->conv_bn[u].out.channels; }
/* Returns the pixels (height × width) of an output image of conv_bn u. */
static size_t pixels(const ls_block *block, int u) {
    return block->conv_bn[u].out.height * block->conv_bn[u].out.width;
}

/* ---- statistics of the whole batch ------------------------------------------------------------------------------- */

/* Each gradient group has a row of sums; all rows are gathered and added by the tree over the groups, as gradients are,
 * so that every layout gets the same bits. All images of a step must reach the norm at once, so a worker has its share
 * of them in one micro-batch. */

/* Adds the rows of all groups of the step, of all workers, in the order of the tree: out[C]. `rows` are those of this
 * worker's groups. */
static ls_status join(const ls_nn *nn, const ls_conv_bns_scratch *scratch, const float *rows, size_t C, float *out) {
    const ls_norm_sync *sync = &nn->batch_norm.sync;
    const void *leaf[LS_GROUPS_MAX];
    if (sync->dp) {
        size_t bytes[LS_WORKERS_MAX];
        for (int d = 0; d < ls_comm_size(sync->dp); d++)
            bytes[d] = (size_t)(sync->bounds[d + 1] - sync->bounds[d]) * C * sizeof(float);
        LS_TRY(ls_tensor_all_gather(nn->device, sync->dp, rows, scratch->gathered, bytes));
        rows = scratch->gathered;
    }
    for (int g = 0; g < sync->groups; g++) leaf[g] = rows + (size_t)g * C;
    return nn->ops->tree_sum(nn->device, &(ls_tree_sum_call){out, leaf, LS_F32, sync->groups, C});
}

/* Copies the statistics of the batch, C numbers in the first row, to the rows of all other ghost groups of the
 * micro-batch, because running statistics follow ghost group by ghost group. */
static ls_status repeat(const ls_nn *nn, float *rows, size_t C) {
    for (size_t g = 1; g < nn->rows.B / nn->batch_norm.ghost; g++)
        LS_TRY(ls_device_copy(nn->device, rows + g * C, rows, C * sizeof *rows));
    return LS_OK;
}

/* Marks the call as one with statistics of the whole batch: one row of them, over all pixels of the step's images. */
static void share(const ls_nn *nn, ls_batch_norm_call *call) {
    call->shared = true;
    call->count = (double)(call->pixels * nn->batch_norm.sync.batch);
}

/* Computes a norm over the whole batch. rstd holds the sums of the groups on the way to the statistics. */
static ls_status sync_forward(const ls_nn *nn, const ls_conv_bns_scratch *scratch, ls_batch_norm_call call) {
    float *joined = scratch->joined_stats;
    share(nn, &call);
    call.sums = call.rstd;
    LS_TRY(nn->ops->batch_norm_sums(nn->device, &call));
    LS_TRY(join(nn, scratch, call.rstd, call.channels, joined));
    call.sums = joined;
    LS_TRY(nn->ops->batch_norm_mean(nn->device, &call));
    call.sums = call.rstd;
    LS_TRY(nn->ops->batch_norm_squares(nn->device, &call));
    LS_TRY(join(nn, scratch, call.rstd, call.channels, joined));
    call.sums = joined;
    LS_TRY(nn->ops->batch_norm_rstd(nn->device, &call));
    LS_TRY(nn->ops->batch_norm_apply(nn->device, &call));
    LS_TRY(repeat(nn, call.mean, call.channels));
    return repeat(nn, call.var, call.channels);
}

/* Computes backward of a norm over the whole batch; the sums of each group stay in the call's sum and dot, for the
 * weight gradients. */
static ls_status sync_backward(const ls_nn *nn, const ls_conv_bns_scratch *scratch, ls_batch_norm_call call) {
    float *sum = scratch->joined_stats, *dot = sum + call.channels;
    share(nn, &call);
    LS_TRY(nn->ops->batch_norm_grad_sums(nn->device, &call));
    LS_TRY(join(nn, scratch, call.sum, call.channels, sum));
    LS_TRY(join(nn, scratch, call.dot, call.channels, dot));
    call.sum = sum;
    call.dot = dot;
    return nn->ops->batch_norm_input_grad(nn->device, &call);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

void ls_conv_bn_declare(ls_block *block, int u, const char *number) {
    static const struct {
        ls_role role;
        const char *stem, *name;
    } rows[] = {
        {LS_ROLE_CONV, "conv", "weight"},          {LS_ROLE_BATCH_NORM, "norm", "weight"},
        {LS_ROLE_BATCH_NORM_BIAS, "norm", "bias"}, {LS_ROLE_RUNNING_MEAN, "norm", "mean"},
        {LS_ROLE_RUNNING_VAR, "norm", "var"},
    };
    const ls_conv_bn *layer = &block->conv_bn[u];
    size_t inputs = layer->window.kernel_y * layer->window.kernel_x * layer->in.channels, C = layer->out.channels;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char name[LS_PARAM_NAME_MAX];
        ls_role role = rows[i].role;
        bool starts_at_1 = role == LS_ROLE_BATCH_NORM || role == LS_ROLE_RUNNING_VAR;
        snprintf(name, sizeof name, "%s%s.%s", rows[i].stem, number, rows[i].name);
        ls_param param = role == LS_ROLE_CONV ? ls_param_matrix(name, C, inputs, sqrt(2 / (double)inputs))
                                              : ls_param_vector(name, C, starts_at_1 ? LS_INIT_ONES : LS_INIT_ZEROS);
        param.running = role == LS_ROLE_RUNNING_MEAN || role == LS_ROLE_RUNNING_VAR;
        param.positions = pixels(block, u);
        param.unit = u;
        ls_block_add(block, role, param);
    }
}

/* Takes memory from the arena for one number of each channel and ghost group. */
static float *take_stats(const ls_block *block, int u, const ls_nn *nn, const char *kind, ls_arena *arena) {
    size_t ghosts = nn->batch_norm.ghost ? (nn->rows.B + nn->batch_norm.ghost - 1) / nn->batch_norm.ghost : 1;
    return ls_arena_take_array(arena, kind, ghosts, channels(block, u) * sizeof(float));
}

void ls_conv_bn_carve_saved(const ls_block *block, void *state, const ls_nn *nn, unsigned parts, ls_arena *arena) {
    ls_conv_bns_saved *saved = state;
    for (int u = 0; u < block->conv_bns && (parts & LS_SAVE_WIDE); u++) {
        ls_conv_bn_saved *of = &saved->unit[u];
        of->c = ls_image_take(nn, arena, "activations", elems(block, u));
        of->y = ls_image_take(nn, arena, "activations", elems(block, u));
        of->mean = take_stats(block, u, nn, "activations", arena);
        of->rstd = take_stats(block, u, nn, "activations", arena);
        of->var = take_stats(block, u, nn, "activations", arena);
    }
}

/* Takes memory from the arena for the gradients of all conv_bns of the block. */
static void carve_grads(const ls_block *block, ls_conv_bn_grads *grads, const ls_nn *nn, const char *kind,
                        ls_arena *arena) {
    for (int u = 0; u < block->conv_bns; u++) {
        grads[u].dc = ls_image_take(nn, arena, kind, elems(block, u));
        grads[u].sum = take_stats(block, u, nn, kind, arena);
        grads[u].dot = take_stats(block, u, nn, kind, arena);
    }
}

void ls_conv_bn_carve_kept(const ls_block *block, void *state, const ls_nn *nn, ls_arena *arena) {
    ls_conv_bns_kept *kept = state;
    carve_grads(block, kept->unit, nn, "activations", arena);
}

void ls_conv_bn_carve_scratch(const ls_block *block, void *state, ls_scratch *shared, const ls_nn *nn,
                              bool for_backward, ls_arena *arena) {
    (void)shared;
    ls_conv_bns_scratch *scratch = state;
    size_t most = 0;
    if (!for_backward) return;
    for (int u = 0; u < block->conv_bns; u++) most = channels(block, u) > most ? channels(block, u) : most;
    if (nn->batch_norm.sync.groups > 0) {
        scratch->gathered =
            ls_arena_take_array(arena, "scratch", (size_t)nn->batch_norm.sync.groups, most * sizeof(float));
        scratch->joined_stats = ls_arena_take_array(arena, "scratch", 2, most * sizeof(float));
    }
    carve_grads(block, scratch->unit, nn, "scratch", arena);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* Returns the convolution's call for so many images, without tensors. */
static ls_conv_call conv_of(const ls_block *block, int u, size_t images) {
    const ls_conv_bn *layer = &block->conv_bn[u];
    return ls_image_conv(layer->in, layer->out.channels, &layer->window, images);
}

/* Returns the norm's call with the saved tensors and the parameters of conv_bn u. */
static ls_batch_norm_call norm_of(ls_block *block, const ls_nn *nn, int u) {
    const ls_conv_bn_saved *saved = saved_of(block, u);
    return (ls_batch_norm_call){.images = nn->rows.B,
                                .pixels = pixels(block, u),
                                .channels = channels(block, u),
                                .ghost = nn->batch_norm.ghost,
                                .x = saved->c,
                                .w = ls_block_unit_param(block, LS_ROLE_BATCH_NORM, u)->w,
                                .b = ls_block_unit_param(block, LS_ROLE_BATCH_NORM_BIAS, u)->w,
                                .relu = block->conv_bn[u].relu,
                                .y = saved->y,
                                .mean = saved->mean,
                                .rstd = saved->rstd,
                                .var = saved->var,
                                .eps = (float)nn->shape->eps};
}

/* Normalizes with the running statistics: their variance takes the place of that of one ghost group. */
static ls_status norm_infer(ls_block *block, ls_nn *nn, int u, ls_batch_norm_call call) {
    call.ghost = nn->rows.B;
    call.shared = true;
    call.count = 1;
    call.var = NULL;
    call.sums = ls_block_unit_param(block, LS_ROLE_RUNNING_VAR, u)->w;
    LS_TRY(nn->ops->batch_norm_rstd(nn->device, &call));
    call.mean = ls_block_unit_param(block, LS_ROLE_RUNNING_MEAN, u)->w;
    return nn->ops->batch_norm_apply(nn->device, &call);
}

ls_status ls_conv_bn_forward(ls_block *block, ls_nn *nn, int u, const float *x, const float *residual) {
    size_t n = nn->rows.B * elems(block, u);
    ls_conv_call conv = conv_of(block, u, nn->rows.B);
    conv.x = x;
    conv.w = weight_of(block, u)->w;
    conv.y = saved_of(block, u)->c;
    LS_TRY(nn->ops->conv_forward(nn->device, &conv));
    ls_fault_at(nn->device, LS_FAULT_PRODUCT, weight_of(block, u)->name, -1, conv.y, n, sizeof *conv.y);
    LS_TRY(ls_nn_made(nn, conv.y, LS_F32, n));
    ls_batch_norm_call norm = norm_of(block, nn, u);
    norm.residual = residual;
    if (nn->batch_norm.infers) return norm_infer(block, nn, u, norm);
    assert(nn->batch_norm.ghost > 0 && nn->rows.B % nn->batch_norm.ghost == 0);
    if (nn->batch_norm.sync.groups > 0) return sync_forward(nn, block->scratch, norm);
    return nn->ops->batch_norm_forward(nn->device, &norm);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

ls_status ls_conv_bn_backward(ls_block *block, const ls_nn *nn, int u, const float *dy, const ls_conv_bn_grads *grads,
                              float *dresidual) {
    ls_batch_norm_call norm = norm_of(block, nn, u);
    norm.dy = dy;
    norm.dx = grads->dc;
    norm.dresidual = dresidual;
    norm.sum = grads->sum;
    norm.dot = grads->dot;
    if (nn->batch_norm.sync.groups > 0) return sync_backward(nn, block->scratch, norm);
    LS_TRY(nn->ops->batch_norm_grad_sums(nn->device, &norm));
    return nn->ops->batch_norm_input_grad(nn->device, &norm);
}

ls_status ls_conv_bn_input(ls_block *block, const ls_nn *nn, int u, const ls_conv_bn_grads *grads, float *dx) {
    ls_conv_call conv = conv_of(block, u, nn->rows.B);
    conv.w = weight_of(block, u)->w;
    conv.dy = grads->dc;
    conv.dx = dx;
    LS_TRY(nn->ops->conv_input_grad(nn->device, &conv));
    return ls_nn_made(nn, dx, LS_F32, nn->rows.B * ls_extent_elems(block->conv_bn[u].in));
}

/* Computes a step of the gradient of a vector whose contributions are `rows`, C numbers for each ghost group. */
static ls_status ghost_sums(const ls_nn *nn, ls_param *param, const float *rows, const ls_grad_step *step) {
    size_t bounds[LS_GRAD_GROUPS_MAX + 1], C = param->rows;
    ls_token_groups groups = ls_nn_groups(nn, step);
    for (int i = 0; i <= step->groups; i++) bounds[i] = step->bounds[i] / nn->batch_norm.ghost;
    groups.T = 1;
    groups.bounds = bounds;
    LS_TRY(nn->ops->bias_grad(nn->device, &(ls_bias_grad_call){param->grad.slot[step->at],
                                                               rows + step->first / nn->batch_norm.ghost * C, LS_F32, C,
                                                               C, &groups}));
    return ls_nn_grad_end(nn, param, &param->grad, step, ls_grad_rows_elems(ls_nn_grad_rows(nn, param)));
}

ls_status ls_conv_bn_weights(ls_block *block, const ls_nn *nn, int u, const float *x, const ls_conv_bn_grads *grads) {
    const ls_conv_bn_saved *saved = saved_of(block, u);
    for (int i = 0; i < nn->grads.nsteps; i++) {
        const ls_grad_step *step = &nn->grads.steps[i];
        ls_conv_call conv = conv_of(block, u, step->end - step->first);
        conv.x = x + step->first * ls_extent_elems(block->conv_bn[u].in);
        conv.dy = grads->dc + step->first * elems(block, u);
        LS_TRY(ls_image_conv_grad(nn, weight_of(block, u), step, pixels(block, u), conv));
        LS_TRY(ghost_sums(nn, ls_block_unit_param(block, LS_ROLE_BATCH_NORM, u), grads->dot, step));
        LS_TRY(ghost_sums(nn, ls_block_unit_param(block, LS_ROLE_BATCH_NORM_BIAS, u), grads->sum, step));
        LS_TRY(ghost_sums(nn, ls_block_unit_param(block, LS_ROLE_RUNNING_MEAN, u), saved->mean, step));
        LS_TRY(ghost_sums(nn, ls_block_unit_param(block, LS_ROLE_RUNNING_VAR, u), saved->var, step));
    }
    return LS_OK;
}

/* The factor of a variance of n numbers is n / (n − 1): it estimates that of their source. */
void ls_conv_bn_settle(ls_block *block, const ls_nn *nn) {
    size_t images = nn->batch_norm.sync.groups > 0 ? nn->batch_norm.sync.batch
                                                   : nn->batch_norm.ghost; /* over which statistics are taken */
    if (nn->batch_norm.ghost == 0) return;
    for (int u = 0; u < block->conv_bns; u++) {
        double n = (double)(pixels(block, u) * images);
        ls_block_unit_param(block, LS_ROLE_RUNNING_MEAN, u)->follow = 1;
        ls_block_unit_param(block, LS_ROLE_RUNNING_VAR, u)->follow = n > 1 ? n / (n - 1) : 1;
    }
}

/* Over the whole batch, each conv_bn gathers the sums of all groups twice in forward, for the mean and for the
 * variance, and twice in backward. */
ls_block_traffic ls_conv_bn_traffic(const ls_block *block, ls_block_pass pass, unsigned again) {
    int times = (pass == LS_BACKWARD_WEIGHTS ? 0 : 2) + (again & LS_SAVE_WIDE ? 2 : 0);
    ls_block_traffic sum = {.stat_gathers = times * block->conv_bns};
    for (int u = 0; u < block->conv_bns; u++) sum.stat_channels += (size_t)times * channels(block, u);
    return sum;
}
