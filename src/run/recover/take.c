/* take.c: from what an attempt left to the workers of the next one. */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "comm/world.h"
#include "numerics/state_sum.h"
#include "parallel/partition/state_sum.h"
#include "run/agree.h"
#include "run/recover/left_state.h"
#include "run/state_hash.h"

/* ---- an update that was not finished ----------------------------------------------------------------------------- */

static ls_param param_of(const ls_segment *segment, const ls_left_tensor *tensor) {
    ls_param param = {.number = tensor->number,
                      .decay = tensor->decay,
                      .running = tensor->running,
                      .follow = tensor->follow,
                      .own_w = ls_segment_at(segment, tensor->w),
                      .own_grad = ls_segment_at(segment, tensor->g),
                      .cells = ls_segment_at(segment, tensor->cells)};
    for (int m = 0; m < 2; m++)
        if (tensor->moment[m]) param.moment[m] = ls_segment_at(segment, tensor->moment[m]);
    return param;
}

static void put_back(const ls_segment *segment, const ls_left *kept, uint64_t number) {
    const ls_left_tensor *tensors = ls_segment_at(segment, kept->tensors_at);
    ls_journal_slot *slots = ls_segment_at(segment, kept->slots_at);
    for (uint64_t s = 0; s < kept->slots; s++)
        for (uint64_t i = 0; i < kept->tensors; i++) {
            if (tensors[i].number != slots[s].tensor) continue;
            ls_param param = param_of(segment, &tensors[i]);
            ls_update_piece whole = {
                .w = param.own_w,
                .moment = {param.running ? NULL : param.moment[0], param.running ? NULL : param.moment[1]},
                .cells = param.cells,
                .n = tensors[i].elems};
            ls_journal_put_back(&slots[s], number, &whole);
        }
}

/* Of what the worker reports: nobody takes anything else. */
static ls_status finish_tensor(ls_trainer *t, const ls_segment *segment, const ls_left_tensor *tensor,
                               const ls_left_numbers *n) {
    ls_param param = param_of(segment, tensor);
    for (uint64_t g = tensor->once_begin / LS_JOURNAL_GRAIN; g * LS_JOURNAL_GRAIN < tensor->once_end; g++) {
        uint64_t grain = g * LS_JOURNAL_GRAIN, end = grain + LS_JOURNAL_GRAIN;
        uint64_t begin = grain + ls_journal_done(param.cells, g, (uint64_t)n->updates);
        if (end > tensor->elems) end = tensor->elems;
        if (begin < end) LS_TRY(ls_optimizer_run(&n->by, t->device, &t->settings.policy, &param, begin, end - begin));
        ls_fault_point(LS_POINT_FINISH);
    }
    if (!tensor->rounded) return LS_OK;
    float *w = param.own_w + tensor->once_begin; /* rounding twice is rounding once */
    return t->device->ops->round(t->device,
                                 &(ls_round_call){w, w, t->settings.policy.act, tensor->once_end - tensor->once_begin});
}

/* A slot of the old worker is free once all are put back, and one is enough: grains follow each other. */
static ls_status finish(ls_trainer *t, const ls_segment *segment, const ls_left *kept, const ls_left_numbers *n) {
    const ls_left_tensor *tensors = ls_segment_at(segment, kept->tensors_at);
    ls_journal journal = {.number = (uint64_t)n->updates, .slots = 1, .slot = ls_segment_at(segment, kept->slots_at)};
    ls_status status = LS_OK;
    put_back(segment, kept, journal.number);
    ls_cpu_use_journal(t->device, &journal);
    for (uint64_t i = 0; i < kept->tensors && status == LS_OK; i++) status = finish_tensor(t, segment, &tensors[i], n);
    ls_cpu_use_journal(t->device, &t->journal);
    return status;
}

/* Old workers are shared out to the new ones. */
static ls_status finish_all(ls_trainer *t, const ls_segment *segment, const ls_left_numbers *n) {
    int size = t->world ? ls_world_size(t->world) : 1;
    for (int l = t->rank; n->pending && l < segment->workers; l += size)
        LS_TRY(finish(t, segment, ls_segment_kept(segment, l), n));
    return LS_OK;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

typedef struct pieces {
    ls_left_piece *piece; /* of all old workers, by parameter, tensor and first element */
    size_t count;
} pieces;

static int compare_pieces(const void *a, const void *b) {
    const ls_left_piece *x = a, *y = b;
    if (x->param != y->param) return x->param < y->param ? -1 : 1;
    if (x->which != y->which) return x->which < y->which ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

static ls_status list_pieces(const ls_segment *segment, pieces *out) {
    *out = (pieces){.count = 0};
    for (int l = 0; l < segment->workers; l++) {
        const ls_left *kept = ls_segment_kept(segment, l);
        if (!kept || !kept->is_host)
            return ls_fail(LS_ERR_INPUT, "worker %d left no tensors: they were in the memory of its device", l);
        out->count += kept->pieces;
    }
    out->piece = malloc((out->count + 1) * sizeof *out->piece);
    if (!out->piece) return ls_fail(LS_ERR_RESOURCE, "out of memory for the pieces of a state");
    size_t count = 0;
    for (int l = 0; l < segment->workers; l++) {
        const ls_left *kept = ls_segment_kept(segment, l);
        memcpy(out->piece + count, ls_segment_at(segment, kept->pieces_at), kept->pieces * sizeof *out->piece);
        count += kept->pieces;
    }
    qsort(out->piece, count, sizeof *out->piece, compare_pieces);
    return LS_OK;
}

/* The last piece that begins at or before the element, of this tensor; NULL: none. */
static const ls_left_piece *find_piece(const pieces *all, uint32_t param, uint32_t which, uint64_t first) {
    size_t low = 0, high = all->count;
    ls_left_piece key = {.param = param, .which = which, .first = first};
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_pieces(&all->piece[middle], &key) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    const ls_left_piece *p = low > 0 ? &all->piece[low - 1] : NULL;
    return p && p->param == param && p->which == which && first < p->first + p->count ? p : NULL;
}

static ls_status take_piece(ls_trainer *t, const ls_segment *segment, const pieces *all, int i, int k,
                            ls_partition_piece want) {
    const ls_param *param = ls_model_param(t->model, i);
    while (want.count > 0) {
        const ls_left_piece *p = find_piece(all, (uint32_t)i, (uint32_t)k, want.first);
        if (!p) return ls_fail(LS_ERR_INPUT, "no worker left element %zu of %s", want.first, param->name);
        size_t skip = want.first - p->first, count = p->count - skip;
        if (count > want.count) count = want.count;
        const float *from = (const float *)ls_segment_at(segment, p->at) + skip;
        LS_TRY(ls_partition_write(t->partition, param, (ls_partition_tensor)(LS_TENSOR_WEIGHT + k), want.first, count,
                                  from));
        want.first += count;
        want.count -= count;
    }
    return LS_OK;
}

static ls_status take_tensors(ls_trainer *t, const ls_segment *segment, const pieces *all) {
    int tensors = 1 + ls_optimizer_moments(&t->settings.optimizer);
    for (int i = 0; i < t->model->nparams; i++) {
        ls_fault_point(LS_POINT_ADOPT);
        for (int k = 0; k < tensors; k++) {
            ls_partition_piece want;
            const ls_param *param = ls_model_param(t->model, i);
            ls_partition_tensor which = (ls_partition_tensor)(LS_TENSOR_WEIGHT + k);
            for (int n = 0; ls_partition_piece_get(t->partition, param, which, n, &want); n++)
                LS_TRY(take_piece(t, segment, all, i, k, want));
        }
    }
    return LS_OK;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static ls_status take_numbers(ls_trainer *t, const ls_left_numbers *n) {
    t->step = n->step;
    t->base_step = n->base_step;
    t->lr_start = n->lr_start;
    t->updates = n->updates;
    t->base_samples = n->base_samples;
    t->last_loss = n->last_loss;
    t->validation = n->validation;
    t->scale = n->scale;
    t->guard.audit.counted = n->audits;
    LS_TRY(ls_noise_restore(&t->guard.noise, n->noise));
    return t->guard.outlier ? ls_outlier_restore(t->guard.outlier, n->outlier) : LS_OK;
}

/* ---- admission --------------------------------------------------------------------------------------------------- */

/* Whether all old workers wrote their part of the sum of this step down, and what they add up to. */
static bool find_sum(const ls_segment *segment, int64_t step, ls_hash128 *out) {
    *out = (ls_hash128){0, 0};
    for (int l = 0; l < segment->workers; l++) {
        ls_left *kept = ls_segment_kept(segment, l);
        const ls_left_sum *sum = &kept->sums[step & 1];
        if (atomic_load(&sum->step) != step) return false;
        ls_state_add(out, sum->part);
    }
    return true;
}

static ls_status admit(ls_trainer *t, const ls_segment *segment, int64_t step) {
    ls_hash128 recorded, part;
    if (!ls_trainer_has_state_hash(t) || !find_sum(segment, step, &recorded)) return LS_OK;
    LS_TRY(ls_partition_state_now(t->partition, &part, NULL));
    int64_t words[2] = {(int64_t)part.lo, (int64_t)part.hi};
    LS_TRY(ls_partition_sum(t->partition, words, 2));
    if ((uint64_t)words[0] == recorded.lo && (uint64_t)words[1] == recorded.hi) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "the state that the workers left after step %lld is not the one that they had",
                   (long long)step);
}

ls_status ls_left_take(ls_trainer *t, ls_world *world, ls_left_numbers *out) {
    const ls_segment *segment = &ls_world_attempt(world)->before;
    pieces all = {.count = 0};
    const ls_left_numbers *n = out;
    ls_status status = ls_left_newest(segment, out) ? list_pieces(segment, &all)
                                                    : ls_fail(LS_ERR_INPUT, "the workers before left no state");
    LS_TRY_OUT(ls_agree(t->world, status));
    ls_left *first = ls_segment_kept(segment, 0);
    out->peak_flops_s = segment->workers == ls_world_size(world) ? first->peak_flops_s : 0;
    ls_fault_step = n->step;
    LS_TRY_OUT(ls_agree(t->world, finish_all(t, segment, n)));
    LS_TRY_OUT(ls_agree(t->world, take_tensors(t, segment, &all)));
    LS_TRY_OUT(ls_agree(t->world, take_numbers(t, n)));
    LS_TRY_OUT(ls_partition_settle(t->partition));
    status = admit(t, segment, n->step);
out:
    free(all.piece);
    return status;
}
