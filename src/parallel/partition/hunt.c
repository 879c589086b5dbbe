/* hunt.c: finds the first value that is not finite, after a step with a bad loss or norm. The step is repeated, which
 * gives the same bits, and every output of every block is checked. */
#include <math.h>
#include <stdlib.h>

#include "parallel/partition/state.h"

enum { ORDER_BITS = 24 };

/* Returns the position of a result in the order of computation, smaller is earlier: first by micro-batch, then forward
 * through the blocks, the loss, and backward, with a block's weight gradients after its input gradient. `made` is the
 * number of the matmul in its block; the block's output comes after all its matmuls. */
static int64_t order_of(const ls_partition *partition, const ls_micro *micro, int block, ls_bad_phase phase, int made) {
    int64_t n = partition->model->nblocks, place = block;
    if (phase == LS_BAD_LOSS) place = n;
    if (phase == LS_BAD_BACKWARD) place = n + 1 + 2 * (n - block);
    if (phase == LS_BAD_GRADIENT) place = n + 2 + 2 * (n - block);
    return (int64_t)micro->begin * (INT64_C(1) << ORDER_BITS) + place * LS_RESULTS_MAX + made;
}

/* Returns whether an order is before another; −1 is after all. */
static bool is_earlier(int64_t order, int64_t than) { return than < 0 || order < than; }

/* Records a find that is earlier than those before it. */
static void record(ls_bad_place *hunt, ls_bad_place found, uint64_t index, float value) {
    found.index = (int64_t)index;
    found.is_nan = isnan(value);
    found.is_finite = isfinite(value);
    found.erred = is_earlier(found.order, hunt->erred) ? found.order : hunt->erred;
    *hunt = found;
}

/* Looks for a value that is not finite in a tensor, unless an earlier one has been found. */
static ls_status look(ls_partition *partition, ls_bad_place found, const float *x, size_t elems) {
    uint64_t index;
    float value;
    if (!is_earlier(found.order, partition->hunt->order)) return LS_OK;
    LS_TRY(ls_partition_find_bad(partition, x, LS_F32, elems, &index));
    if (index == LS_ALL_FINITE) return LS_OK;
    LS_TRY(ls_device_copy_out(partition->device, &value, x + index, sizeof value));
    record(partition->hunt, found, index, value);
    return LS_OK;
}

/* Looks for a loss of 2^31 or more in size: such losses count as bad (numerics/exact_sum.h), long before they are
 * infinite. */
static ls_status find_large_loss(ls_partition *partition, ls_bad_place place, const float *loss, size_t rows) {
    if (!is_earlier(place.order, partition->hunt->order)) return LS_OK;
    LS_TRY(ls_device_copy_out(partition->device, partition->staging.f32, loss, rows * sizeof *loss));
    for (size_t i = 0; i < rows; i++) {
        if (fabsf(partition->staging.f32[i]) < 0x1p31F) continue;
        record(partition->hunt, place, i, partition->staging.f32[i]);
        break;
    }
    return LS_OK;
}

ls_status ls_partition_look(ls_partition *partition, const ls_micro *micro, int number, int block, ls_bad_phase phase,
                            const float *x, size_t elems) {
    if (!partition->hunt) return LS_OK;
    ls_bad_place place = {.order = order_of(partition, micro, block, phase, LS_RESULTS_MAX - 1),
                          .micro = number,
                          .block = block,
                          .phase = phase,
                          .param = -1};
    LS_TRY(look(partition, place, x, elems));
    return phase == LS_BAD_LOSS ? find_large_loss(partition, place, x, elems) : LS_OK;
}

/* Records only the order: outputs of blocks define the reported place, because every layout has them. Results of
 * matmuls, before they are joined over the TP group, only show which worker erred. */
ls_status ls_partition_look_at_result(ls_partition *partition, int made, const void *y, ls_dtype dtype, size_t elems) {
    const ls_partition_at *at = &partition->results.at;
    uint64_t index;
    if (!partition->hunt) return LS_OK;
    bool is_head = at->block == partition->model->nblocks - 1; /* its first matmul is what the loss is made from */
    ls_bad_phase phase = at->is_back || (is_head && made > 0) ? LS_BAD_BACKWARD
                         : is_head                            ? LS_BAD_LOSS
                                                              : LS_BAD_FORWARD;
    int64_t order = order_of(partition, at->micro, at->block, phase, made);
    if (!is_earlier(order, partition->hunt->erred)) return LS_OK;
    LS_TRY(ls_partition_find_bad(partition, y, dtype, elems, &index));
    if (index != LS_ALL_FINITE) partition->hunt->erred = order;
    return LS_OK;
}

/* Checks the rows of a parameter's gradient that this worker computed; the others are stale. */
static ls_status look_at_param(ls_partition *partition, ls_bad_place place, const ls_param *param,
                               const ls_grad *grad) {
    ls_grad_rows rows = ls_nn_grad_rows(&partition->nn, param);
    place.param = param->number;
    for (int i = 0; i < partition->nn.grads.nsteps; i++) {
        const ls_grad_step *step = &partition->nn.grads.steps[i];
        const float *slot = grad->slot[step->ends ? step->at - step->joins : step->at];
        if (slot) LS_TRY(look(partition, place, slot + rows.first * rows.elems, rows.count * rows.elems));
    }
    return LS_OK;
}

ls_status ls_partition_look_at_grads(ls_partition *partition, const ls_micro *micro, int number, int block) {
    ls_block *b = &partition->model->blocks[block];
    if (!partition->hunt) return LS_OK;
    ls_bad_place place = {.order = order_of(partition, micro, block, LS_BAD_GRADIENT, LS_RESULTS_MAX - 1),
                          .micro = number,
                          .block = block,
                          .phase = LS_BAD_GRADIENT};
    if (b->table) LS_TRY(look_at_param(partition, place, b->table, &b->table->grad));
    for (int i = 0; i < b->nparams; i++) {
        const ls_param *param = &b->param[i];
        bool is_lookup = b->shares_table && param->role == LS_ROLE_TOKENS;
        LS_TRY(look_at_param(partition, place, param, is_lookup ? &param->lookup : &param->grad));
    }
    return LS_OK;
}

/* Shares the finds of all workers, and picks the earliest, with the worker that erred first; if several found the same
 * thing, the lowest rank. Collective. */
static ls_status compare(ls_partition *partition, ls_bad_place *first) {
    size_t workers = (size_t)ls_layout_workers(&partition->setup.layout);
    void *told;
    LS_TRY(ls_partition_tell_all(partition, first, sizeof *first, &told));
    const ls_bad_place *all = told;
    first->order = first->erred = -1;
    for (size_t i = 0; i < workers; i++)
        if (all[i].order >= 0 && is_earlier(all[i].order, first->order)) *first = all[i];
    first->erred = -1;
    for (size_t i = 0; i < workers; i++)
        if (all[i].erred >= 0 && is_earlier(all[i].erred, first->erred)) {
            first->erred = all[i].erred;
            first->worker = (int64_t)i;
        }
    free(told);
    return LS_OK;
}

/* Finds the first parameter, in model order, whose gradient overflowed in the sum over groups and workers, among this
 * worker's own elements. */
static ls_status find_bad_sum(ls_partition *partition) {
    const ls_model *model = partition->model;
    for (int b = 0; b < model->nblocks; b++)
        for (int i = 0; i < model->blocks[b].nparams; i++) {
            const ls_param *param = &model->blocks[b].param[i];
            ls_bad_place place = {
                .order = param->number, .block = b, .phase = LS_BAD_SUM, .param = param->number, .micro = -1};
            size_t own = ls_param_range_elems(param->own);
            if (own == 0 || param->running) continue;
            LS_TRY(look(partition, place, param->own_grad, own));
            if (partition->hunt->order < 0) continue;
            partition->hunt->index += (int64_t)param->own.begin;
            return LS_OK;
        }
    return LS_OK;
}

ls_status ls_partition_hunt(ls_partition *partition, uint64_t step, float start, const ls_partition_feed *feed,
                            ls_bad_place *first) {
    *first = (ls_bad_place){.order = -1, .erred = -1};
    partition->hunt = first;
    ls_partition_watch_results(partition);
    ls_status status = ls_partition_step(partition, step, start, feed);
    if (status == LS_OK) status = compare(partition, first);
    if (status == LS_OK && first->order < 0) {
        status = find_bad_sum(partition);
        if (status == LS_OK) status = compare(partition, first);
    }
    partition->hunt = NULL;
    ls_partition_watch_results(partition);
    return status;
}
