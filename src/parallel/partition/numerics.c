/* numerics.c: an update of which the numbers are counted: gradients, weights, and what became of the updates.
 *
 * Own elements go through the first cache in pieces: the old weights are set aside, the update is made, and what it did
 * is looked at while all is near. Blocks of 1024 elements are those of every sum of squares (rule 8), and each element
 * counts on one worker, so the numbers are the same on every layout. */
#include "device/calls.h"
#include "parallel/partition/numerics.h"
#include "parallel/partition/state.h"

/* A stretch of own elements, counted in the local rows. */
typedef struct piece {
    const ls_param *param;
    size_t begin, end;
    bool counts; /* this worker reports it */
} piece;

static ls_status run_piece(ls_partition *partition, const ls_optimizer_update *update, const piece *p,
                           ls_block_numerics *out) {
    const ls_param *param = p->param;
    const ls_policy *policy = &partition->setup.policy;
    size_t first = p->begin - param->own.begin, n = p->end - p->begin;
    const float *g = param->own_grad + first, *w = param->own_w + first;
    const float *by = param->moment[0] ? param->moment[0] + first : g;
    if (!p->counts || param->running) return ls_optimizer_run(update, partition->device, policy, param, first, n);
    LS_TRY(partition->nn.ops->count(partition->device, &(ls_count_call){out->grads, g, 1, policy->act, n}));
    LS_TRY(ls_partition_add_squares(partition, g, n, &out->grad_squares));
    LS_TRY(ls_device_copy(partition->device, partition->aside, w, n * sizeof(float)));
    LS_TRY(ls_optimizer_run(update, partition->device, policy, param, first, n));
    LS_TRY(ls_partition_add_squares(partition, w, n, &out->weight_squares));
    LS_TRY(partition->nn.ops->difference(partition->device,
                                         &(ls_difference_call){partition->aside, w, by, &out->lost, n}));
    out->elems += (int64_t)n;
    return ls_partition_add_squares(partition, partition->aside, n, &out->update_squares);
}

/* Pieces end with slices, and where this worker begins or ends to report elements. */
static ls_status run_slice(ls_partition *partition, const ls_optimizer_update *update, const ls_param *param,
                           size_t begin, size_t end, ls_block_numerics *out) {
    while (begin < end) {
        piece p = {.param = param, .begin = begin, .end = begin + LS_NUMERICS_PIECE};
        if (p.end > end) p.end = end;
        if (begin < param->once.begin && p.end > param->once.begin) p.end = param->once.begin;
        if (begin < param->once.end && p.end > param->once.end) p.end = param->once.end;
        p.counts = begin >= param->once.begin && p.end <= param->once.end;
        LS_TRY(run_piece(partition, update, &p, out));
        begin = p.end;
    }
    return LS_OK;
}

static ls_status run_param(ls_partition *partition, const ls_optimizer_update *update, const ls_param *param,
                           ls_block_numerics *out) {
    int S = partition->model->S, slices = ls_param_slices(param, S);
    size_t first = param->first_row * param->columns;
    for (int i = 0; i < slices; i++) {
        size_t begin = ls_param_slice_row(param, S, i) * param->columns;
        size_t end = ls_param_slice_row(param, S, i + 1) * param->columns;
        if (begin < first + param->own.begin) begin = first + param->own.begin;
        if (end > first + param->own.end) end = first + param->own.end;
        if (begin < end) LS_TRY(run_slice(partition, update, param, begin - first, end - first, out));
    }
    return LS_OK;
}

void ls_partition_count_acts(ls_partition *partition, ls_block_numerics *blocks) { partition->numerics = blocks; }

ls_status ls_partition_update_counted(ls_partition *partition, const ls_optimizer_update *update,
                                      ls_block_numerics *blocks) {
    const ls_model *model = partition->model;
    for (int b = 0; b < model->nblocks; b++)
        for (int i = 0; i < model->blocks[b].nparams; i++) {
            const ls_param *param = &model->blocks[b].param[i];
            if (ls_param_range_elems(param->own) > 0) LS_TRY(run_param(partition, update, param, &blocks[b]));
        }
    return LS_OK;
}

/* Exact sums travel as their words. */
static ls_status sum_exact(ls_partition *partition, ls_exact_sum *sum) {
    ls_exact_sum_settle(sum);
    return ls_partition_sum(partition, sum->words, LS_EXACT_WORDS);
}

ls_status ls_partition_sum_numerics(ls_partition *partition, ls_block_numerics *blocks) {
    for (int b = 0; b < partition->model->nblocks; b++) {
        ls_block_numerics *n = &blocks[b];
        LS_TRY(ls_partition_sum(partition, n->grads, LS_COUNTS));
        LS_TRY(ls_partition_sum(partition, n->acts, LS_COUNTS));
        LS_TRY(ls_partition_sum(partition, &n->acts_elems, 3));
        LS_TRY(sum_exact(partition, &n->grad_squares));
        LS_TRY(sum_exact(partition, &n->weight_squares));
        LS_TRY(sum_exact(partition, &n->update_squares));
    }
    return LS_OK;
}
