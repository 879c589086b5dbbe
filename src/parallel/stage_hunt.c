/* stage_hunt.c: where a number that is not finite appeared first. A step is repeated, which gives the same bits, and
 * this time everything that blocks make is looked at. */
#include <math.h>
#include <stdlib.h>

#include "parallel/stage_state.h"

enum { ORDER_BITS = 24 };

/* Of one micro-batch: forward through the blocks, the loss, and back; a block's weights after its input. */
static int64_t order_of(const ls_stage *stage, const ls_micro *micro, int block, ls_bad_phase phase) {
    int64_t n = stage->model->nblocks, place = block;
    if (phase == LS_BAD_LOSS) place = n;
    if (phase == LS_BAD_BACKWARD) place = n + 1 + 2 * (n - block);
    if (phase == LS_BAD_GRADIENT) place = n + 2 + 2 * (n - block);
    return (int64_t)micro->begin * (INT64_C(1) << ORDER_BITS) + place;
}

static ls_status look(ls_stage *stage, ls_bad_place found, const float *x, size_t elems) {
    size_t index = elems;
    float value;
    if (stage->hunt->order >= 0 && stage->hunt->order <= found.order) return LS_OK;
    LS_TRY(stage->nn.ops->find_bad(stage->device, x, LS_F32, elems, &index));
    if (index == elems) return LS_OK;
    LS_TRY(ls_device_copy_out(stage->device, &value, x + index, sizeof value));
    found.index = (int64_t)index;
    found.is_nan = isnan(value);
    *stage->hunt = found;
    return LS_OK;
}

ls_status ls_stage_look(ls_stage *stage, const ls_micro *micro, int number, int block, ls_bad_phase phase,
                        const float *x, size_t elems) {
    if (!stage->hunt) return LS_OK;
    ls_bad_place place = {.order = order_of(stage, micro, block, phase), .micro = number, .block = block};
    place.phase = phase;
    place.param = -1;
    return look(stage, place, x, elems);
}

static ls_status look_at_param(ls_stage *stage, ls_bad_place place, const ls_param *param, const ls_grad *grad) {
    size_t elems = ls_param_local_elems(param) * (param->kind == LS_PARAM_VECTOR ? (size_t)stage->model->S : 1);
    place.param = param->number;
    for (int i = 0; i < stage->nn.nsteps; i++) {
        const ls_grad_step *step = &stage->nn.steps[i];
        const float *slot = grad->slot[step->ends ? step->at - step->joins : step->at];
        if (slot) LS_TRY(look(stage, place, slot, elems));
    }
    return LS_OK;
}

ls_status ls_stage_look_at_grads(ls_stage *stage, const ls_micro *micro, int number, int block) {
    const ls_block *b = &stage->model->blocks[block];
    if (!stage->hunt) return LS_OK;
    ls_bad_place place = {.order = order_of(stage, micro, block, LS_BAD_GRADIENT), .micro = number, .block = block};
    place.phase = LS_BAD_GRADIENT;
    if (b->table) LS_TRY(look_at_param(stage, place, b->table, &b->table->grad));
    for (int i = 0; i < b->nparams; i++) {
        const ls_param *param = &b->param[i];
        LS_TRY(look_at_param(stage, place, param, b->shares_table && i == 0 ? &param->lookup : &param->grad));
    }
    return LS_OK;
}

/* Everybody's finds, and the earliest of them; of workers that found the same thing, the first. */
static ls_status compare(ls_stage *stage, ls_bad_place *first) {
    enum { WORDS = sizeof(ls_bad_place) / sizeof(int64_t) };
    size_t workers = (size_t)ls_layout_workers(&stage->setup.layout);
    ls_bad_place *all = calloc(workers, sizeof *all);
    if (!all) return ls_fail(LS_ERR_RESOURCE, "out of memory for the finds of %zu workers", workers);
    int rank = stage->setup.world ? ls_world_rank(stage->setup.world) : 0;
    all[rank] = *first;
    all[rank].worker = rank;
    ls_status status = ls_stage_sum(stage, (int64_t *)all, workers * WORDS);
    first->order = -1;
    for (size_t i = 0; i < workers && status == LS_OK; i++)
        if (all[i].order >= 0 && (first->order < 0 || all[i].order < first->order)) *first = all[i];
    free(all);
    return status;
}

ls_status ls_stage_hunt(ls_stage *stage, uint64_t step, float start, const ls_stage_feed *feed, ls_loss_sum *loss,
                        ls_bad_place *first) {
    *first = (ls_bad_place){.order = -1};
    stage->hunt = first;
    ls_status status = ls_stage_step(stage, step, start, feed, loss);
    stage->hunt = NULL;
    return status == LS_OK ? compare(stage, first) : status;
}
