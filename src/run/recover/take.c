/* take.c: gives the state that the workers of an attempt left to those of the next one: ls_left_take(). "Old" and "new"
 * workers are those of the two; the work is divided among the new ones.
 *
 * A tensor is read from the memory of the worker that reports it. If that memory is lost or damaged, it is read from
 * another worker that has the same elements: a replica, or the keeper of copies (copies.h). */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/log.h"
#include "comm/world/world.h"
#include "numerics/state_sum.h"
#include "parallel/partition/state_sum.h"
#include "run/agree.h"
#include "run/recover/left_state.h"

/* Where the state is read from. */
typedef struct sources {
    const ls_segment *segment;
    ls_left_numbers numbers;
    bool gone[LS_WORKERS_MAX];     /* by old worker: nothing of its memory is used */
    bool damaged[LS_WORKERS_MAX];  /* because it does not match its sums; else it is lost */
    bool was_late[LS_WORKERS_MAX]; /* its last update found that, and skipped a block */
    bool any_gone;
    bool refused;         /* the assembled state has another hash than was recorded, or copies differ from it */
    ls_left_piece *piece; /* reported by surviving workers, by parameter, tensor and first element */
    ls_left_piece *spare; /* other locations of what lost workers reported, and of more */
    size_t pieces, spares;
} sources;

/* Returns whether this worker keeps copies of a worker whose memory is not used. */
static bool is_copied(const sources *from, const ls_left *kept) {
    return kept->copies_of >= 0 && from->gone[kept->copies_of];
}

/* ---- an update that was not finished ----------------------------------------------------------------------------- */

/* Returns a tensor of the segment as a parameter that an update can run on. */
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

/* Restores the elements that old workers were just changing in update `number`, from their journal slots, so that the
 * update can be repeated for them. */
static void put_back(const ls_segment *segment, const ls_left_part *part, uint64_t number) {
    const ls_left_tensor *tensors = ls_segment_at(segment, part->tensors_at);
    ls_journal_slot *slots = ls_segment_at(segment, part->slots_at);
    for (uint64_t s = 0; s < part->slots; s++)
        for (uint64_t i = 0; i < part->tensors; i++) {
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

/* Completes the interrupted update for elements begin … end − 1 of a tensor, from where their journal cells say that it
 * stopped. */
static ls_status finish_tensor(ls_recover *self, ls_device *device, const ls_segment *segment,
                               const ls_left_tensor *tensor, const ls_left_numbers *n, uint64_t begin, uint64_t end) {
    ls_param param = param_of(segment, tensor);
    for (uint64_t g = begin / LS_JOURNAL_GRAIN; g * LS_JOURNAL_GRAIN < end; g++) {
        uint64_t grain = g * LS_JOURNAL_GRAIN, to = grain + LS_JOURNAL_GRAIN;
        uint64_t from = grain + ls_journal_done(param.cells, g, (uint64_t)n->updates);
        if (to > tensor->elems) to = tensor->elems;
        if (from < to) LS_TRY(ls_optimizer_run(&n->by, device, &self->settings->policy, &param, from, to - from));
        ls_fault_point(LS_POINT_FINISH);
    }
    if (!tensor->rounded || begin == end) return LS_OK;
    float *w = param.own_w + begin; /* rounding twice is rounding once */
    return device->ops->round(device, &(ls_round_call){w, w, self->settings->policy.act, end - begin});
}

/* Completes an interrupted update of one old worker's part. First restores the elements in its journal slots; then one
 * slot suffices, because the grains are updated one after another. `whole`: also completes elements that another worker
 * reports. */
static ls_status finish_interrupted_update(ls_recover *self, ls_device *device, const ls_segment *segment,
                                           const ls_left_part *part, const ls_left_numbers *n, bool whole) {
    const ls_left_tensor *tensor = ls_segment_at(segment, part->tensors_at);
    ls_journal journal = {.number = (uint64_t)n->updates, .slots = 1, .slot = ls_segment_at(segment, part->slots_at)};
    ls_status status = LS_OK;
    put_back(segment, part, journal.number);
    ls_cpu_use_journal(device, &journal);
    for (uint64_t i = 0; i < part->tensors && status == LS_OK; i++)
        status = finish_tensor(self, device, segment, &tensor[i], n, whole ? 0 : tensor[i].once_begin,
                               whole ? tensor[i].elems : tensor[i].once_end);
    ls_cpu_use_journal(device, &self->journal);
    return status;
}

/* Completes the updates of the old workers on this CPU device; they are divided among the new ones. Copies are
 * completed, too: they replace a lost worker, or only a comparison with them can verify the state. */
static ls_status finish_on(ls_recover *self, ls_device *device, const sources *from) {
    const ls_left_numbers *n = &from->numbers;
    int size = self->world ? ls_world_size(self->world) : 1;
    for (int l = self->rank; l < from->segment->workers; l += size) {
        const ls_left *kept = ls_left_of(from->segment, l);
        if (from->gone[l]) continue;
        LS_TRY(finish_interrupted_update(self, device, from->segment, &kept->own, n, from->any_gone));
        if (kept->copies_of >= 0)
            LS_TRY(finish_interrupted_update(self, device, from->segment, &kept->copies, n, true));
    }
    return LS_OK;
}

/* Completes a pending update. A CPU does so for any device, because the state is in shared memory and a CPU gives the
 * same bits. */
static ls_status finish_all(ls_recover *self, const sources *from) {
    ls_device *cpu;
    if (!from->numbers.pending) return LS_OK;
    if (self->device->is_host) return finish_on(self, self->device, from);
    LS_TRY(ls_device_open_cpu(self->threads, NULL, NULL, &cpu));
    ls_status status = finish_on(self, cpu, from);
    ls_device_destroy(cpu);
    return status;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* Orders pieces by parameter, tensor and first element, for qsort(). */
static int compare_pieces(const void *a, const void *b) {
    const ls_left_piece *x = a, *y = b;
    if (x->param != y->param) return x->param < y->param ? -1 : 1;
    if (x->which != y->which) return x->which < y->which ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* Appends a list of the segment; with `list` NULL only counts. */
static void add_pieces(const ls_segment *segment, uint64_t at, uint64_t count, ls_left_piece *list, size_t *listed) {
    if (list && count > 0) memcpy(list + *listed, ls_segment_at(segment, at), count * sizeof *list);
    *listed += count;
}

/* Lists the pieces that remaining workers report, and the spare places: replicas and copies. Counts them if `piece` is
 * NULL. */
static void list_all(sources *from, ls_left_piece *piece, ls_left_piece *spare) {
    from->pieces = from->spares = 0;
    for (int l = 0; l < from->segment->workers; l++) {
        const ls_left *kept = ls_left_of(from->segment, l);
        if (from->gone[l]) continue;
        add_pieces(from->segment, kept->own.pieces_at, kept->own.pieces, piece, &from->pieces);
        if (from->any_gone) add_pieces(from->segment, kept->own.shared_at, kept->own.shared, spare, &from->spares);
        if (is_copied(from, kept))
            add_pieces(from->segment, kept->copies.pieces_at, kept->copies.pieces, spare, &from->spares);
    }
}

/* Frees both lists of pieces. */
static void free_pieces(sources *from) {
    free(from->piece);
    free(from->spare);
    from->piece = from->spare = NULL;
}

/* Allocates and fills the lists of pieces, after freeing earlier ones. */
static ls_status list_pieces(sources *from) {
    free_pieces(from);
    list_all(from, NULL, NULL);
    from->piece = malloc((from->pieces + 1) * sizeof *from->piece);
    from->spare = malloc((from->spares + 1) * sizeof *from->spare);
    if (!from->piece || !from->spare) return ls_fail(LS_ERR_RESOURCE, "out of memory for the pieces of a state");
    list_all(from, from->piece, from->spare);
    qsort(from->piece, from->pieces, sizeof *from->piece, compare_pieces);
    return LS_OK;
}

/* Returns whether the piece has this element of the tensor. */
static bool holds(const ls_left_piece *p, uint32_t param, uint32_t which, uint64_t first) {
    return p->param == param && p->which == which && p->first <= first && first < p->first + p->count;
}

/* Returns the piece with this element of a tensor, by binary search, else a spare place of it; NULL if there is
 * neither. */
static const ls_left_piece *find_piece(const sources *from, uint32_t param, uint32_t which, uint64_t first) {
    size_t low = 0, high = from->pieces;
    ls_left_piece key = {.param = param, .which = which, .first = first};
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_pieces(&from->piece[middle], &key) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low > 0 && holds(&from->piece[low - 1], param, which, first)) return &from->piece[low - 1];
    for (size_t i = 0; i < from->spares; i++)
        if (holds(&from->spare[i], param, which, first)) return &from->spare[i];
    return NULL;
}

/* Fails with LS_ERR_INPUT: an element of the parameter is nowhere; names the worker whose memory is missing. */
static ls_status fail_missing(const sources *from, const ls_param *param, size_t element) {
    for (int l = 0; l < from->segment->workers; l++)
        if (from->gone[l])
            return ls_fail(LS_ERR_INPUT, "the memory of worker %d is %s, and no other worker has its part of %s", l,
                           from->damaged[l] ? "damaged" : "lost", param->name);
    return ls_fail(LS_ERR_INPUT, "no worker saved element %zu of %s", element, param->name);
}

/* Copies the elements of `want` of tensor k (0: weight, then moments) of parameter i to this worker's partition. */
static ls_status take_piece(ls_recover *self, const sources *from, int i, int k, ls_partition_piece want) {
    const ls_param *param = ls_model_param(self->model, i);
    while (want.count > 0) {
        const ls_left_piece *p = find_piece(from, (uint32_t)i, (uint32_t)k, want.first);
        if (!p) return fail_missing(from, param, want.first);
        size_t skip = want.first - p->first, count = p->count - skip;
        if (count > want.count) count = want.count;
        const float *elems = (const float *)ls_segment_at(from->segment, p->at) + skip;
        LS_TRY(ls_partition_write(self->partition, param, (ls_partition_tensor)(LS_TENSOR_WEIGHT + k), want.first,
                                  count, elems));
        want.first += count;
        want.count -= count;
    }
    return LS_OK;
}

/* Copies all elements that this worker stores. */
static ls_status take_tensors(ls_recover *self, const sources *from) {
    int tensors = 1 + ls_optimizer_moments(&self->settings->optimizer);
    for (int i = 0; i < self->model->nparams; i++) {
        ls_fault_point(LS_POINT_ADOPT);
        for (int k = 0; k < tensors; k++) {
            ls_partition_piece want;
            const ls_param *param = ls_model_param(self->model, i);
            ls_partition_tensor which = (ls_partition_tensor)(LS_TENSOR_WEIGHT + k);
            for (int n = 0; ls_partition_piece_get(self->partition, param, which, n, &want); n++)
                LS_TRY(take_piece(self, from, i, k, want));
        }
    }
    return LS_OK;
}

/* ---- admission --------------------------------------------------------------------------------------------------- */

/* Sets *out to the sum of the parts that all old workers wrote for this step. Returns false if one of them did not
 * write its part, or its last update found damage. */
static bool find_sum(const sources *from, ls_hash128 *out) {
    int64_t step = from->numbers.step;
    *out = (ls_hash128){0, 0};
    for (int l = 0; l < from->segment->workers; l++) {
        if (from->was_late[l]) return false;
        ls_left *kept = ls_left_of(from->segment, l);
        const ls_left_sum *sum = kept ? &kept->own.sums[step & 1] : NULL;
        if (!sum || atomic_load(&sum->step) != step) return false;
        ls_state_add(out, sum->part);
    }
    return true;
}

/* Returns whether an earlier remaining worker has the same parameters of this kind, so that it reports their sum. */
static bool is_told(const sources *from, int l, int kind) {
    ls_place_in_layout a = ls_left_of(from->segment, l)->place;
    for (int i = 0; i < l; i++) {
        if (from->gone[i]) continue;
        ls_place_in_layout b = ls_left_of(from->segment, i)->place;
        if (a.pp == b.pp && (!(kind & LS_LEFT_SPLIT) || a.tp == b.tp) && (!(kind & LS_LEFT_SHARDED) || a.dp == b.dp))
            return true;
    }
    return false;
}

/* Sets *out to the sum without workers whose memory is not used: one of several holders reports a part, and copies
 * report that of lost workers. Returns false if a part of this step is missing. */
static bool find_others_sum(const sources *from, ls_hash128 *out) {
    int64_t step = from->numbers.step;
    *out = (ls_hash128){0, 0};
    for (int l = 0; l < from->segment->workers; l++) {
        if (from->gone[l]) continue;
        ls_left *kept = ls_left_of(from->segment, l);
        const ls_left_sum *own = &kept->own.sums[step & 1], *copies = &kept->copies.sums[step & 1];
        if (atomic_load(&own->step) != step) return false;
        for (int kind = 0; kind < LS_LEFT_KINDS; kind++)
            if (!is_told(from, l, kind)) ls_state_add(out, own->kind[kind]);
        if (!is_copied(from, kept)) continue;
        if (atomic_load(&copies->step) != step) return false;
        ls_state_add(out, copies->part);
    }
    return true;
}

/* Sets *out to the sum of a state that was rescued from GPUs, from the sums that their last update made: one of several
 * holders reports a sum, and copies report that of lost workers. Returns false if not all workers completed the last
 * update. */
static bool find_brought_sum(const sources *from, ls_hash128 *out) {
    *out = (ls_hash128){0, 0};
    for (int l = 0; l < from->segment->workers; l++) {
        const ls_left *kept = ls_left_of(from->segment, l);
        if (from->gone[l]) continue;
        if (kept->summed < 0 || kept->summed != from->numbers.updates) return false;
        for (int kind = 0; kind < LS_LEFT_KINDS; kind++)
            if (!is_told(from, l, kind)) ls_state_add(out, kept->kind_sum[kind]);
        if (is_copied(from, kept)) ls_state_add(out, kept->copies_sum);
    }
    return true;
}

/* Returns the sum of the elements that a part reports, as they are in memory now, for a comparison with the recorded
 * one. */
static ls_hash128 sum_part(const ls_segment *segment, const ls_left_part *part) {
    const ls_left_tensor *tensor = ls_segment_at(segment, part->tensors_at);
    ls_hash128 sum = {0, 0};
    for (uint64_t i = 0; i < part->tensors; i++) {
        uint64_t at[] = {tensor[i].w, tensor[i].moment[0], tensor[i].moment[1]};
        for (uint64_t k = 0; k < 3; k++)
            if (at[k] && tensor[i].once_end > tensor[i].once_begin)
                ls_state_add_elems(&sum, (uint64_t)tensor[i].number * 4 + k, tensor[i].first + tensor[i].once_begin,
                                   (const float *)ls_segment_at(segment, at[k]) + tensor[i].once_begin,
                                   tensor[i].once_end - tensor[i].once_begin);
    }
    return sum;
}

/* Returns whether a part's memory differs from the sum recorded after `step`; false without such a sum. */
static bool is_damaged(const ls_segment *segment, const ls_left_part *part, int64_t step) {
    const ls_left_sum *recorded = &part->sums[step & 1];
    if (atomic_load(&recorded->step) != step) return false;
    ls_hash128 now = sum_part(segment, part);
    return now.lo != recorded->part.lo || now.hi != recorded->part.hi;
}

/* Finds workers whose memory differs from its recorded sums, and excludes them, so that others supply their elements;
 * *found: there is one. Collective. */
static ls_status find_damaged(ls_recover *self, sources *from, bool *found) {
    int64_t damaged[LS_WORKERS_MAX] = {0};
    int size = self->world ? ls_world_size(self->world) : 1, workers = from->segment->workers;
    for (int l = self->rank; l < workers; l += size)
        damaged[l] =
            !from->gone[l] && is_damaged(from->segment, &ls_left_of(from->segment, l)->own, from->numbers.step);
    LS_TRY(ls_partition_sum(self->partition, damaged, (size_t)workers));
    *found = false;
    for (int l = 0; l < workers; l++) {
        if (damaged[l] == 0) continue;
        *found = from->gone[l] = from->damaged[l] = from->any_gone = true;
    }
    return LS_OK;
}

/* Returns the tensor of a parameter in a part; NULL if it has none. */
static const ls_left_tensor *tensor_named(const ls_segment *segment, const ls_left_part *part, uint32_t number) {
    const ls_left_tensor *tensor = ls_segment_at(segment, part->tensors_at);
    for (uint64_t i = 0; i < part->tensors; i++)
        if (tensor[i].number == number) return &tensor[i];
    return NULL;
}

/* Compares the copies that a worker keeps of another one's tensors (weights and optimizer state) with the originals,
 * byte by byte in memory. Returns false if any differ, or if the owner lacks a copied tensor; skips a buffer that
 * either side does not have. */
static bool are_same(const ls_segment *segment, const ls_left_part *own, const ls_left_part *copies) {
    const ls_left_tensor *copy = ls_segment_at(segment, copies->tensors_at);
    for (uint64_t i = 0; i < copies->tensors; i++) {
        const ls_left_tensor *of = tensor_named(segment, own, copy[i].number);
        if (!of || of->elems != copy[i].elems) return false;
        uint64_t a[] = {of->w, of->moment[0], of->moment[1]}, b[] = {copy[i].w, copy[i].moment[0], copy[i].moment[1]};
        for (int k = 0; k < 3; k++)
            if (a[k] && b[k] &&
                memcmp(ls_segment_at(segment, a[k]), ls_segment_at(segment, b[k]), of->elems * sizeof(float)) != 0)
                return false;
    }
    return true;
}

/* Accepts a state whose sum no worker has recorded, because the update was completed afterwards or with --check off, if
 * all copies equal their originals, so also if there are no copies; otherwise LS_ERR_INPUT. Collective. */
static ls_status compare_copies(ls_recover *self, sources *from) {
    int64_t other = 0;
    int size = self->world ? ls_world_size(self->world) : 1;
    for (int l = self->rank; l < from->segment->workers; l += size) {
        const ls_left *kept = ls_left_of(from->segment, l);
        int64_t of = from->gone[l] ? -1 : kept->copies_of;
        if (of < 0 || from->gone[of]) continue;
        other += !are_same(from->segment, &ls_left_of(from->segment, (int)of)->own, &kept->copies);
    }
    LS_TRY(ls_partition_sum(self->partition, &other, 1));
    from->refused = other > 0;
    if (!from->refused) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "the state that workers saved after step %lld differs from its copies",
                   (long long)from->numbers.step);
}

/* Accepts the assembled state if its hash is the recorded one; otherwise sets from->refused and fails with
 * LS_ERR_INPUT. Without a recorded hash compares copies, unless the workers left because of damage. Collective. */
static ls_status admit(ls_recover *self, sources *from) {
    ls_hash128 recorded, part;
    ls_wrong blame = ls_left_blamed(from->segment);
    bool is_known =
        ls_partition_sums_state(self->partition) &&
        (find_sum(from, &recorded) || find_others_sum(from, &recorded) || find_brought_sum(from, &recorded));
    if (!is_known && blame.is_found && blame.event.kind == LS_EVENT_STATE)
        return ls_fail(LS_ERR_INPUT, "there is no hash of the state after step %lld", (long long)from->numbers.step);
    if (!is_known) return compare_copies(self, from);
    LS_TRY(ls_partition_state_now(self->partition, &part, NULL));
    int64_t words[2] = {(int64_t)part.lo, (int64_t)part.hi};
    LS_TRY(ls_partition_sum(self->partition, words, 2));
    from->refused = (uint64_t)words[0] != recorded.lo || (uint64_t)words[1] != recorded.hi;
    if (!from->refused) return LS_OK;
    return ls_fail(LS_ERR_INPUT,
                   "the state that workers saved after step %lld does not match the hash recorded in that step",
                   (long long)from->numbers.step);
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

/* Lets tests corrupt the state that workers left (LS_FAULT_*); does nothing outside tests, where ls_fault_spoil is
 * NULL. */
static void let_spoil_left(const ls_recover *self, const sources *from) {
    for (int l = 0; ls_fault_spoil && l < from->segment->workers; l++) {
        const ls_left *kept = ls_left_of(from->segment, l);
        const ls_left_tensor *tensor = from->gone[l] ? NULL : ls_segment_at(from->segment, kept->own.tensors_at);
        for (uint64_t i = 0; tensor && i < kept->own.tensors; i++) {
            const ls_left_tensor *at = &tensor[i];
            if (at->once_end == at->once_begin) continue;
            float *w = (float *)ls_segment_at(from->segment, at->w) + at->once_begin;
            ls_fault_at(NULL, LS_FAULT_LEFT, ls_model_param(self->model, (int)at->number)->name, l, w,
                        at->once_end - at->once_begin, sizeof *w);
        }
    }
}

/* Lets tests corrupt the state that was taken (LS_FAULT_*); does nothing outside tests, where ls_fault_spoil is
 * NULL. */
static void let_spoil_taken(const ls_recover *self) {
    for (int i = 0; ls_fault_spoil && i < self->model->nparams; i++) {
        const ls_param *p = ls_model_param(self->model, i);
        size_t own = ls_param_range_elems(p->own);
        if (own > 0) ls_fault_at(self->device, LS_FAULT_TAKEN, p->name, -1, p->own_w, own, sizeof(float));
    }
}

/* Finds which old workers' memory can be used, and the newest numbers; LS_ERR_INPUT if there are none, or no memory at
 * all. */
static ls_status find_left_parts(const ls_segment *segment, sources *from) {
    int gone = 0;
    from->segment = segment;
    if (!ls_left_newest(segment, &from->numbers)) return ls_fail(LS_ERR_INPUT, "the previous workers saved no state");
    for (int l = 0; l < segment->workers; l++) {
        const ls_left *kept = ls_left_of(segment, l);
        from->was_late[l] = kept && atomic_load(&kept->is_damaged);
        from->damaged[l] = from->was_late[l];
        from->gone[l] = !kept || !atomic_load(&kept->is_here) || from->was_late[l];
        gone += from->gone[l];
    }
    from->any_gone = gone > 0;
    if (gone < segment->workers) return LS_OK;
    for (int l = 0; l < segment->workers; l++)
        if (from->damaged[l])
            return ls_fail(LS_ERR_INPUT, "the memory of worker %d is damaged, and no other worker saved its state", l);
    return ls_fail(LS_ERR_INPUT, "the previous workers saved no tensors: these were in device memory");
}

void ls_left_forget(ls_recover *self) {
    for (int i = 0; i < ls_model_params(self->model); i++) {
        const ls_param *p = ls_model_param(self->model, i);
        for (int m = 0; m < 2 && p->moment[m]; m++)
            (void)ls_device_fill(self->device, p->moment[m], 0, ls_param_range_elems(p->own) * sizeof(float));
    }
}

/* Warns of each old worker whose memory was not used. */
static void warn_lost_memory(const sources *from) {
    for (int l = 0; l < from->segment->workers; l++)
        if (from->gone[l])
            ls_log_warn("the memory of worker %d %s; other workers supplied its part of the state", l,
                        from->damaged[l] ? "was damaged" : "is lost");
}

/* Completes updates, assembles the state, and checks it. Collective. */
static ls_status take_once(ls_recover *self, sources *from) {
    LS_TRY(ls_agree(self->world, list_pieces(from)));
    LS_TRY(ls_agree(self->world, finish_all(self, from)));
    LS_TRY(ls_agree(self->world, take_tensors(self, from)));
    LS_TRY(ls_partition_settle(self->partition));
    let_spoil_taken(self);
    from->refused = false;
    return admit(self, from);
}

/* Takes the state; if its hash is wrong, finds damaged memory and tries once more without it. Collective. */
static ls_status take_over_state(ls_recover *self, ls_world *world, sources *from) {
    bool found = false;
    LS_TRY(ls_agree(self->world, find_left_parts(&ls_world_attempt(world)->before, from)));
    ls_fault_step = from->numbers.step;
    if (self->rank == 0) let_spoil_left(self, from);
    ls_status status = take_once(self, from);
    if (!from->refused) return status;
    char why[LS_MESSAGE_MAX];
    snprintf(why, sizeof why, "%s", ls_status_message());
    LS_TRY(find_damaged(self, from, &found));
    return found ? take_once(self, from) : ls_fail(status, "%s", why);
}

ls_status ls_left_take(ls_recover *self, ls_world *world, ls_left_numbers *out) {
    const ls_segment *segment = &ls_world_attempt(world)->before;
    sources *from = calloc(1, sizeof *from);
    LS_TRY(
        ls_agree(self->world, from ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for a state to be taken over")));
    ls_status status = take_over_state(self, world, from);
    if (status == LS_OK && self->rank == 0) warn_lost_memory(from);
    if (status != LS_OK) ls_left_forget(self);
    *out = from->numbers;
    const ls_left *first = ls_left_of(segment, 0);
    out->peak_flops_s = first && segment->workers == ls_world_size(world) ? first->peak_flops_s : 0;
    free_pieces(from);
    free(from);
    return status;
}
