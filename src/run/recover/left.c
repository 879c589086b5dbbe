/* left.c: writes what a worker leaves in shared memory: its numbers, and sums of its state; and reads it for the
 * supervisor. lists.c lists the tensors. */
#include "run/recover/left.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "comm/world/world.h"
#include "numerics/state_sum.h"
#include "parallel/partition/state_sum.h"
#include "run/recover/copies.h"
#include "run/recover/left_state.h"

/* ---- opening ----------------------------------------------------------------------------------------------------- */

ls_status ls_left_open(ls_recover *self, ls_world *world) {
    void *memory;
    if (!ls_world_attempt(world)) return LS_OK;
    LS_TRY(ls_world_alloc(world, sizeof(ls_left), &memory));
    ls_left *kept = memory;
    atomic_store(&kept->tried, -1);
    for (int i = 0; i < 2; i++) {
        atomic_store(&kept->own.sums[i].step, -1);
        atomic_store(&kept->copies.sums[i].step, -1);
    }
    kept->copies_of = kept->summed = -1;
    kept->place = ls_layout_place(self->layout, self->rank);
    self->kept = kept;
    if (self->device->is_host) {
        const ls_left_places here = {.world = world};
        LS_TRY(ls_left_list_own(self, world, &here, &kept->own));
        LS_TRY(ls_left_list_copies(self, world, &here, kept));
        ls_left_use_journal(self, world);
        atomic_store(&kept->is_here, true);
    } else if (ls_device_rescues(self->device)) {
        ls_world_rescues(world);
    }
    if (self->device->is_host || ls_device_rescues(self->device)) ls_partition_sum_rest(self->partition);
    ls_world_keep(world, kept);
    return LS_OK;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* Publishes numbers so that a reader always finds complete ones: writes to the slot that is not in use, then increments
 * the count, which makes that slot the current one. The fence makes this visible before any later write. */
static void write_numbers(ls_left *kept, const ls_left_numbers *numbers) {
    uint64_t written = atomic_load_explicit(&kept->written, memory_order_relaxed) + 1;
    kept->numbers[written & 1] = *numbers;
    atomic_store_explicit(&kept->written, written, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst); /* what is decided is there before anything is done about it */
}

/* Returns the newest numbers of a worker. */
static ls_left_numbers *numbers_of(ls_left *kept) { return &kept->numbers[atomic_load(&kept->written) & 1]; }

ls_status ls_left_mark(ls_recover *self, int64_t updates) {
    if (!self->kept || self->device->is_host) return LS_OK;
    LS_TRY(ls_device_mark(self->device));
    self->marked = updates;
    return LS_OK;
}

ls_status ls_left_begin(ls_recover *self, ls_left_numbers now, const ls_left_numbers *taken) {
    if (!self->kept) return LS_OK;
    LS_TRY(ls_left_mark(self, now.updates));
    now.saved_step = taken ? taken->saved_step : now.step > 0 ? now.step : -1;
    now.settled = !taken || taken->settled;
    if (taken) now.result = taken->result;
    write_numbers(self->kept, &now);
    return LS_OK;
}

void ls_left_note_peak(ls_recover *self, double flops_s) {
    if (self->kept) self->kept->peak_flops_s = flops_s;
}

void ls_left_try(ls_recover *self, int64_t step) {
    if (self->kept) atomic_store(&self->kept->tried, step);
}

void ls_left_commit(ls_recover *self, ls_left_numbers now, const ls_step_result *result,
                    const ls_optimizer_update *by) {
    if (!self->kept) return;
    now.saved_step = numbers_of(self->kept)->saved_step;
    now.step++;
    now.last_loss = result->loss;
    now.result = *result;
    now.pending = by != NULL;
    if (by) now.by = *by;
    self->journal.number = (uint64_t)now.updates;
    write_numbers(self->kept, &now);
}

int ls_left_kind_of(const ls_recover *self, const ls_param *p) {
    bool sharded = self->layout->zero >= 1 && p->kind != LS_PARAM_VECTOR;
    return (p->split ? LS_LEFT_SPLIT : 0) | (sharded ? LS_LEFT_SHARDED : 0);
}

/* Writes the sum of the state after a step: `part`, what this worker reports, and, unless `self` is NULL, the sums by
 * kind of parameters. */
static void write_sum(ls_left_sum sums[2], int64_t step, ls_hash128 part, const ls_recover *self) {
    ls_left_sum *sum = &sums[step & 1];
    atomic_store(&sum->step, -1);
    sum->part = part;
    memset(sum->kind, 0, sizeof sum->kind);
    for (int i = 0; self && i < ls_model_params(self->model); i++)
        ls_state_add(&sum->kind[ls_left_kind_of(self, ls_model_param(self->model, i))],
                     ls_partition_param_sum(self->partition, i));
    atomic_store(&sum->step, step);
}

void ls_left_note_damage(ls_recover *self) {
    if (self->kept) atomic_store(&self->kept->is_damaged, true);
}

ls_status ls_left_stepped(ls_recover *self, int64_t step) {
    ls_hash128 part;
    if (!self->kept || !self->device->is_host || !ls_partition_sums_state(self->partition)) return LS_OK;
    LS_TRY(ls_partition_state_part(self->partition, &part, NULL));
    write_sum(self->kept->own.sums, step, part, self);
    if (!self->copies) return LS_OK;
    LS_TRY(ls_copies_part(self, &part));
    write_sum(self->kept->copies.sums, step, part, NULL);
    return LS_OK;
}

void ls_left_settle(ls_recover *self, ls_left_numbers now, int64_t saved_step) {
    if (!self->kept) return;
    const ls_left_numbers *before = numbers_of(self->kept);
    now.saved_step = saved_step;
    now.settled = true;
    now.pending = before->pending;
    now.by = before->by;
    now.result = before->result;
    write_numbers(self->kept, &now);
}

void ls_left_blame(ls_recover *self, const ls_wrong *blame) {
    if (self->kept) self->kept->blame = *blame;
}

ls_wrong ls_left_blamed(const ls_segment *segment) {
    const ls_left *kept = segment->base ? ls_segment_kept(segment, 0) : NULL;
    return kept ? kept->blame : (ls_wrong){.is_found = false};
}

void ls_left_share(ls_recover *self, const ls_left_shares *shares) {
    if (self->kept) self->kept->shares = *shares;
}

ls_left_shares ls_left_shared(const ls_segment *segment) {
    const ls_left *kept = segment->base ? ls_segment_kept(segment, 0) : NULL;
    return kept ? kept->shares : (ls_left_shares){.rows = 0};
}

void ls_left_leave_out(const ls_segment *segment) {
    ls_left *kept = ls_segment_kept(segment, 0);
    if (kept) kept->blame.event.left_out = true;
}

/* ---- the supervisor ---------------------------------------------------------------------------------------------- */

bool ls_left_newest(const ls_segment *segment, ls_left_numbers *out) {
    bool found = false;
    for (int l = 0; l < segment->workers; l++) {
        ls_left *kept = ls_segment_kept(segment, l);
        if (!kept || atomic_load(&kept->written) == 0) continue;
        const ls_left_numbers *n = numbers_of(kept);
        if (found && n->step <= out->step) continue;
        *out = *n;
        /* Only the first worker knows whether metrics and checkpoints are written; what others have done is done again.
         */
        if (l > 0) out->settled = false;
        found = true;
    }
    return found;
}

void ls_left_look(const ls_segment *segment, int local, int64_t *done, int64_t *tried) {
    ls_left_numbers newest;
    ls_left *kept = segment->base && local >= 0 && local < segment->workers ? ls_segment_kept(segment, local) : NULL;
    *done = segment->base && ls_left_newest(segment, &newest) ? newest.step : -1;
    *tried = kept ? atomic_load(&kept->tried) : -1;
}

/* Bytes begin … end − 1 of the segment that must stay. */
typedef struct span {
    uint64_t begin, end;
} span;

/* Orders spans by their begin, for qsort(). */
static int compare_spans(const void *a, const void *b) {
    const span *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Adds a span, unless it is empty or has no place (begin 0). */
static void add_span(span *spans, size_t *count, uint64_t begin, uint64_t bytes) {
    if (begin && bytes) spans[(*count)++] = (span){begin, begin + bytes};
}

/* Lists what recovery needs of a part: lists, tensors, journal. Returns the number of spans. */
static size_t list_spans(const ls_segment *segment, const ls_left_part *part, span *spans) {
    size_t count = 0;
    add_span(spans, &count, part->pieces_at, part->pieces * sizeof(ls_left_piece));
    add_span(spans, &count, part->shared_at, part->shared * sizeof(ls_left_piece));
    add_span(spans, &count, part->tensors_at, part->tensors * sizeof(ls_left_tensor));
    add_span(spans, &count, part->slots_at, part->slots * sizeof(ls_journal_slot));
    const ls_left_tensor *tensor = ls_segment_at(segment, part->tensors_at);
    for (uint64_t i = 0; i < part->tensors; i++) {
        uint64_t bytes = tensor[i].elems * sizeof(float);
        add_span(spans, &count, tensor[i].w, bytes);
        add_span(spans, &count, tensor[i].g, bytes);
        add_span(spans, &count, tensor[i].moment[0], bytes);
        add_span(spans, &count, tensor[i].moment[1], bytes);
        add_span(spans, &count, tensor[i].cells, ls_journal_cells(tensor[i].elems) * sizeof(ls_journal_cell));
    }
    return count;
}

/* Frees the whole pages (of 64 KiB) in a range of the segment. If the kernel refuses, the memory stays in use for a
 * while. */
static void punch(const ls_segment *segment, uint64_t begin, uint64_t end) {
    enum { PAGE = 65536 };
    begin = (begin + PAGE - 1) / PAGE * PAGE;
    end = end / PAGE * PAGE;
    if (begin < end)
        (void)ls_segment_fallocate(segment, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin, end - begin);
}

void ls_left_trim(const ls_segment *segment, int first, int step) {
    for (int l = first; segment->base && l < segment->workers; l += step) {
        const ls_left *kept = ls_segment_kept(segment, l);
        span *spans =
            kept ? malloc((1 + 2 * 4 + 5 * (kept->own.tensors + kept->copies.tensors)) * sizeof *spans) : NULL;
        if (!spans) continue;
        size_t count = 0;
        add_span(spans, &count, ls_segment_offset(segment, kept), sizeof *kept);
        count += list_spans(segment, &kept->own, spans + count);
        count += list_spans(segment, &kept->copies, spans + count);
        uint64_t from = segment->heap_at + segment->heap_bytes * (uint64_t)l, end = from + segment->heap_bytes;
        qsort(spans, count, sizeof *spans, compare_spans);
        for (size_t i = 0; i < count; i++) {
            if (spans[i].begin > from) punch(segment, from, spans[i].begin);
            if (spans[i].end > from) from = spans[i].end;
        }
        punch(segment, from, end);
        free(spans);
    }
}
