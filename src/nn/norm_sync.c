/* norm_sync.c: batch norm over the whole batch. */
#include "nn/norm_sync.h"

void ls_norm_sync_carve(const ls_nn *nn, size_t channels, ls_scratch *scratch, ls_arena *arena) {
    if (nn->sync.groups == 0) return;
    size_t row = channels * sizeof(float);
    scratch->gathered = ls_arena_take_array(arena, "scratch", (size_t)nn->sync.groups, row);
    scratch->joined_stats = ls_arena_take_array(arena, "scratch", 2, row);
}

/* out[C] = the sum of the rows of all groups of the step; `rows` are those of this worker's. */
static ls_status join(const ls_nn *nn, const float *rows, size_t C, float *out) {
    const ls_norm_sync *sync = &nn->sync;
    const void *leaf[LS_GROUPS_MAX];
    if (sync->dp) {
        size_t bytes[LS_WORKERS_MAX];
        for (int d = 0; d < ls_comm_size(sync->dp); d++)
            bytes[d] = (size_t)(sync->bounds[d + 1] - sync->bounds[d]) * C * sizeof(float);
        LS_TRY(ls_comm_all_gather(sync->dp, rows, nn->scratch.gathered, bytes));
        rows = nn->scratch.gathered;
    }
    for (int g = 0; g < sync->groups; g++) leaf[g] = rows + (size_t)g * C;
    return nn->ops->tree_sum(nn->device, out, leaf, LS_F32, sync->groups, C);
}

/* Running statistics are followed group by group (conv_unit.h): each has those of the batch. */
static ls_status repeat(const ls_nn *nn, float *rows, size_t C) {
    for (size_t g = 1; g < nn->B / nn->ghost; g++)
        LS_TRY(ls_device_copy(nn->device, rows + g * C, rows, C * sizeof *rows));
    return LS_OK;
}

static void share(const ls_nn *nn, ls_batch_norm_call *call) {
    call->shared = true;
    call->count = (double)(call->pixels * nn->sync.batch);
}

/* rstd holds the sums of the groups on their way to the statistics. */
ls_status ls_norm_sync_forward(const ls_nn *nn, ls_batch_norm_call call) {
    float *joined = nn->scratch.joined_stats;
    share(nn, &call);
    LS_TRY(nn->ops->batch_norm_sums(nn->device, &call, call.rstd));
    LS_TRY(join(nn, call.rstd, call.channels, joined));
    LS_TRY(nn->ops->batch_norm_mean(nn->device, &call, joined));
    LS_TRY(nn->ops->batch_norm_squares(nn->device, &call, call.rstd));
    LS_TRY(join(nn, call.rstd, call.channels, joined));
    LS_TRY(nn->ops->batch_norm_rstd(nn->device, &call, joined));
    LS_TRY(nn->ops->batch_norm_apply(nn->device, &call));
    LS_TRY(repeat(nn, call.mean, call.channels));
    return repeat(nn, call.var, call.channels);
}

ls_status ls_norm_sync_backward(const ls_nn *nn, ls_batch_norm_call call) {
    float *sum = nn->scratch.joined_stats, *dot = sum + call.channels;
    share(nn, &call);
    LS_TRY(nn->ops->batch_norm_grad_sums(nn->device, &call));
    LS_TRY(join(nn, call.sum, call.channels, sum));
    LS_TRY(join(nn, call.dot, call.channels, dot));
    call.sum = sum;
    call.dot = dot;
    return nn->ops->batch_norm_input_grad(nn->device, &call);
}
