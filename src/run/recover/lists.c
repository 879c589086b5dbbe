/* lists.c: lists the tensors that a worker leaves to its successor, their offsets, and the journal of their updates. */
#include "comm/world/world.h"
#include "run/recover/copies.h"
#include "run/recover/left_state.h"

/* Returns the offset of memory in the segment, or of the range to which it was copied; 0 if there is none, or for
 * NULL. */
static uint64_t at(const ls_left_places *places, const void *memory) {
    if (!memory) return 0;
    if (!places->range) return ls_segment_offset(&places->world->segment, memory);
    for (size_t i = 0; i < places->count; i++) {
        const ls_left_range *r = &places->range[i];
        uintptr_t begin = (uintptr_t)r->memory, place = (uintptr_t)memory;
        if (place >= begin && place < begin + r->bytes) return r->at + (place - begin);
    }
    return 0;
}

/* ls_partition_reported_get() or ls_partition_own_get(). */
typedef bool get_fn(const ls_partition *partition, const ls_param *param, ls_partition_tensor which, int i,
                    ls_partition_piece *piece, const float **memory);

/* Lists the pieces of the weight and the moments of parameter i. Returns their number; fills `out` unless it is NULL,
 * as it is for counting. */
static size_t list_param(const ls_recover *self, const ls_left_places *places, int i, get_fn *get, ls_left_piece *out) {
    int tensors = 1 + ls_optimizer_moments(&self->settings->optimizer);
    size_t count = 0;
    for (int k = 0; k < tensors; k++) {
        ls_partition_piece piece;
        const float *memory;
        ls_partition_tensor which = (ls_partition_tensor)(LS_TENSOR_WEIGHT + k);
        for (int n = 0; get(self->partition, ls_model_param(self->model, i), which, n, &piece, &memory); n++) {
            if (piece.count == 0) continue;
            if (out)
                out[count] = (ls_left_piece){.param = (uint32_t)i,
                                             .which = (uint32_t)k,
                                             .first = piece.first,
                                             .count = piece.count,
                                             .at = at(places, memory)};
            count++;
        }
    }
    return count;
}

/* Lists the elements that this worker reports (of those that several workers hold, one reports each). Returns their
 * number; fills `out` unless it is NULL. */
static size_t list_reported(const ls_recover *self, const ls_left_places *places, ls_left_piece *out) {
    size_t count = 0;
    for (int i = 0; i < self->model->nparams; i++)
        count += list_param(self, places, i, ls_partition_reported_get, out ? out + count : NULL);
    return count;
}

/* Lists elements that this worker updates although another one reports some of them: second places to read from.
 * Returns their number; fills `out` unless it is NULL. */
static size_t list_shared(const ls_recover *self, const ls_left_places *places, ls_left_piece *out) {
    size_t count = 0;
    for (int i = 0; i < self->model->nparams; i++) {
        const ls_param *p = ls_model_param(self->model, i);
        if (ls_param_range_elems(p->own) > ls_param_range_elems(p->once))
            count += list_param(self, places, i, ls_partition_own_get, out ? out + count : NULL);
    }
    return count;
}

/* Lists the copies of another worker's elements. Returns their number; fills `out` unless it is NULL. */
static size_t list_copied(const ls_recover *self, const ls_left_places *places, ls_left_piece *out) {
    size_t count = 0;
    for (size_t i = 0; i < self->copies->count; i++) {
        const ls_copy *copy = &self->copies->copy[i];
        const float *tensor[] = {copy->param.own_w, copy->param.moment[0], copy->param.moment[1]};
        for (uint32_t k = 0; k < 3; k++)
            for (size_t n = 0; tensor[k] && n < copy->pieces; n++, count++)
                if (out)
                    out[count] = (ls_left_piece){.param = copy->param.number,
                                                 .which = k,
                                                 .first = copy->piece[n].first,
                                                 .count = copy->piece[n].count,
                                                 .at = at(places, tensor[k] + copy->piece[n].offset)};
    }
    return count;
}

typedef size_t list_fn(const ls_recover *self, const ls_left_places *places, ls_left_piece *out);

/* Returns the location in the segment of memory of the world. */
static uint64_t offset(const ls_world *world, const void *memory) { return ls_segment_offset(&world->segment, memory); }

/* Counts, allocates and fills one list in the segment; *where is its location. */
static ls_status make_list(const ls_recover *self, ls_world *world, const ls_left_places *places, list_fn *list,
                           uint64_t *count, uint64_t *where) {
    void *memory;
    *count = list(self, places, NULL);
    LS_TRY(ls_world_alloc(world, (*count + 1) * sizeof(ls_left_piece), &memory));
    *where = offset(world, memory);
    (void)list(self, places, memory);
    return LS_OK;
}

/* Describes the elements of a parameter that this worker updates; the caller adds the cells. */
static ls_left_tensor tensor_of(const ls_recover *self, const ls_left_places *places, const ls_param *param) {
    ls_left_tensor tensor = {.w = at(places, param->own_w),
                             .g = at(places, param->own_grad),
                             .moment = {at(places, param->moment[0]), at(places, param->moment[1])},
                             .elems = ls_param_range_elems(param->own),
                             .once_begin = param->once.begin - param->own.begin,
                             .once_end = param->once.end - param->own.begin,
                             .first = param->first_row * param->columns + param->own.begin,
                             .number = param->number,
                             .decay = param->decay,
                             .running = param->running,
                             .rounded = param->rounded || (param->own_w16 && self->settings->policy.no_master),
                             .follow = param->follow};
    if (ls_param_range_elems(param->once) == 0) tensor.once_begin = tensor.once_end = 0;
    return tensor;
}

/* Allocates `elems` journal cells (which count an update's progress) in memory that the workers of a node share; the
 * world owns them. */
static ls_status alloc_journal_cells(ls_world *world, size_t elems, ls_journal_cell **out) {
    void *memory;
    LS_TRY(ls_world_alloc(world, elems * sizeof(ls_journal_cell), &memory));
    *out = memory;
    return LS_OK;
}

/* Lists the tensors that updates change, and gives their parameters journal cells (which count an update's
 * progress). */
static ls_status list_tensors(const ls_recover *self, ls_world *world, const ls_left_places *places,
                              ls_left_part *part) {
    size_t cells = 0, count = 0;
    void *memory;
    ls_journal_cell *cell;
    for (int i = 0; i < ls_model_params(self->model); i++)
        cells += ls_journal_cells(ls_param_range_elems(ls_model_param(self->model, i)->own));
    LS_TRY(alloc_journal_cells(world, cells + 1, &cell));
    LS_TRY(ls_world_alloc(world, (size_t)ls_model_params(self->model) * sizeof(ls_left_tensor), &memory));
    ls_left_tensor *tensor = memory;
    part->tensors_at = offset(world, tensor);
    for (int i = 0; i < ls_model_params(self->model); i++) {
        ls_param *param = ls_model_param(self->model, i);
        size_t own = ls_param_range_elems(param->own);
        if (own == 0) continue;
        param->cells = cell;
        tensor[count] = tensor_of(self, places, param);
        tensor[count++].cells = offset(world, cell);
        cell += ls_journal_cells(own);
    }
    part->tensors = count;
    return LS_OK;
}

/* Allocates the journal's slots: one for each thread that updates. */
static ls_status make_slots(const ls_recover *self, ls_world *world, ls_left_part *part) {
    void *memory;
    LS_TRY(ls_world_alloc(world, (size_t)self->threads * sizeof(ls_journal_slot), &memory));
    part->slots_at = offset(world, memory);
    part->slots = (uint64_t)self->threads;
    return LS_OK;
}

ls_status ls_left_list_own(ls_recover *self, ls_world *world, const ls_left_places *places, ls_left_part *part) {
    LS_TRY(make_list(self, world, places, list_reported, &part->pieces, &part->pieces_at));
    LS_TRY(make_list(self, world, places, list_shared, &part->shared, &part->shared_at));
    LS_TRY(list_tensors(self, world, places, part));
    return make_slots(self, world, part);
}

ls_status ls_left_list_copies(ls_recover *self, ls_world *world, const ls_left_places *places, ls_left *kept) {
    const ls_copies *c = self->copies;
    ls_left_part *part = &kept->copies;
    ls_journal_cell *cell;
    size_t cells = 0;
    void *memory;
    if (!c) return LS_OK;
    for (size_t i = 0; i < c->count; i++) cells += ls_journal_cells(ls_param_range_elems(c->copy[i].param.own));
    LS_TRY(alloc_journal_cells(world, cells + 1, &cell));
    LS_TRY(make_list(self, world, places, list_copied, &part->pieces, &part->pieces_at));
    LS_TRY(ls_world_alloc(world, (c->count + 1) * sizeof(ls_left_tensor), &memory));
    ls_left_tensor *tensor = memory;
    part->tensors_at = offset(world, tensor);
    part->tensors = c->count;
    for (size_t i = 0; i < c->count; i++) {
        ls_param *param = &c->copy[i].param;
        param->cells = cell;
        tensor[i] = tensor_of(self, places, param);
        tensor[i].cells = offset(world, cell);
        cell += ls_journal_cells(ls_param_range_elems(param->own));
    }
    kept->copies_of = c->keeps;
    return make_slots(self, world, part);
}

void ls_left_use_journal(ls_recover *self, const ls_world *world) {
    const ls_left *kept = self->kept;
    self->journal =
        (ls_journal){.slots = (int)kept->own.slots, .slot = ls_segment_at(&world->segment, kept->own.slots_at)};
    ls_cpu_use_journal(self->device, &self->journal);
    if (self->copies)
        self->copies->journal = (ls_journal){.slots = (int)kept->copies.slots,
                                             .slot = ls_segment_at(&world->segment, kept->copies.slots_at)};
}
