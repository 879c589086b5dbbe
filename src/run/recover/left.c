/* left.c: lists, numbers, and what the supervisor does with them. */
#include "run/recover/left.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "comm/world.h"
#include "run/recover/left_state.h"
#include "run/state_hash.h"

/* ---- lists ------------------------------------------------------------------------------------------------------- */

static uint64_t at(const ls_world *world, const void *memory) {
    return memory ? ls_segment_offset(&world->segment, memory) : 0;
}

/* First to count, then to fill. */
static size_t list_pieces(const ls_trainer *t, const ls_world *world, ls_left_piece *out) {
    int tensors = 1 + ls_optimizer_moments(&t->settings.optimizer);
    size_t count = 0;
    for (int i = 0; i < t->model->nparams; i++)
        for (int k = 0; k < tensors; k++) {
            const ls_param *param = ls_model_param(t->model, i);
            ls_partition_piece piece;
            const float *memory;
            ls_partition_tensor which = (ls_partition_tensor)(LS_TENSOR_WEIGHT + k);
            for (int n = 0; ls_partition_reported_get(t->partition, param, which, n, &piece, &memory); n++) {
                if (piece.count == 0) continue;
                if (out)
                    out[count] = (ls_left_piece){.param = (uint32_t)i,
                                                 .which = (uint32_t)k,
                                                 .first = piece.first,
                                                 .count = piece.count,
                                                 .at = at(world, memory)};
                count++;
            }
        }
    return count;
}

/* The journal has a cell for each grain of own elements. */
static ls_status list_tensors(const ls_trainer *t, ls_world *world, ls_left *kept) {
    size_t cells = 0, count = 0;
    void *memory;
    for (int i = 0; i < ls_model_params(t->model); i++)
        cells += ls_journal_cells(ls_param_range_elems(ls_model_param(t->model, i)->own));
    LS_TRY(ls_world_alloc(world, cells * sizeof(ls_journal_cell), &memory));
    ls_journal_cell *cell = memory;
    LS_TRY(ls_world_alloc(world, (size_t)ls_model_params(t->model) * sizeof(ls_left_tensor), &memory));
    ls_left_tensor *tensor = memory;
    kept->tensors_at = at(world, tensor);
    for (int i = 0; i < ls_model_params(t->model); i++) {
        ls_param *param = ls_model_param(t->model, i);
        size_t own = ls_param_range_elems(param->own);
        if (own == 0) continue;
        param->cells = cell;
        tensor[count++] = (ls_left_tensor){.w = at(world, param->own_w),
                                           .g = at(world, param->own_grad),
                                           .moment = {at(world, param->moment[0]), at(world, param->moment[1])},
                                           .cells = at(world, cell),
                                           .elems = own,
                                           .once_begin = param->once.begin - param->own.begin,
                                           .once_end = param->once.end - param->own.begin,
                                           .number = param->number,
                                           .decay = param->decay,
                                           .running = param->running,
                                           .rounded = param->own_w16 && t->settings.policy.no_master,
                                           .follow = param->follow};
        if (ls_param_range_elems(param->once) == 0) tensor[count - 1].once_begin = tensor[count - 1].once_end = 0;
        cell += ls_journal_cells(own);
    }
    kept->tensors = count;
    return LS_OK;
}

static ls_status list_all(ls_trainer *t, ls_world *world, ls_left *kept) {
    void *memory;
    kept->pieces = list_pieces(t, world, NULL);
    LS_TRY(ls_world_alloc(world, kept->pieces * sizeof(ls_left_piece), &memory));
    kept->pieces_at = at(world, memory);
    (void)list_pieces(t, world, memory);
    LS_TRY(list_tensors(t, world, kept));
    LS_TRY(ls_world_alloc(world, (size_t)t->threads * sizeof(ls_journal_slot), &memory));
    kept->slots_at = at(world, memory);
    kept->slots = (uint64_t)t->threads;
    t->journal = (ls_journal){.slots = t->threads, .slot = memory};
    ls_cpu_use_journal(t->device, &t->journal);
    return LS_OK;
}

ls_status ls_left_open(ls_trainer *t, ls_world *world) {
    void *memory;
    if (!ls_world_attempt(world)) return LS_OK;
    LS_TRY(ls_world_alloc(world, sizeof(ls_left), &memory));
    ls_left *kept = memory;
    atomic_store(&kept->tried, -1);
    for (int i = 0; i < 2; i++) atomic_store(&kept->sums[i].step, -1);
    kept->is_host = t->device->is_host;
    if (kept->is_host) LS_TRY(list_all(t, world, kept));
    t->kept = kept;
    ls_world_keep(world, kept);
    return LS_OK;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static void write_numbers(ls_left *kept, const ls_left_numbers *numbers) {
    uint64_t written = atomic_load_explicit(&kept->written, memory_order_relaxed) + 1;
    kept->numbers[written & 1] = *numbers;
    atomic_store_explicit(&kept->written, written, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst); /* what is decided is there before anything is done about it */
}

static ls_left_numbers *numbers_of(ls_left *kept) { return &kept->numbers[atomic_load(&kept->written) & 1]; }

static ls_left_numbers numbers_now(const ls_trainer *t) {
    ls_left_numbers n = {.step = t->step,
                         .base_step = t->base_step,
                         .lr_start = t->lr_start,
                         .updates = t->updates,
                         .base_samples = t->base_samples,
                         .last_loss = t->last_loss,
                         .validation = t->validation,
                         .scale = t->scale,
                         .audits = t->guard.audit.counted,
                         .saved_step = -1};
    ls_noise_save(&t->guard.noise, n.noise);
    if (t->guard.outlier) ls_outlier_save(t->guard.outlier, n.outlier);
    return n;
}

void ls_left_begin(ls_trainer *t, const ls_left_numbers *numbers) {
    if (!t->kept) return;
    ls_left_numbers n = numbers_now(t);
    if (numbers) {
        n.saved_step = numbers->saved_step;
        n.settled = numbers->settled;
        n.result = numbers->result;
    } else {
        n.saved_step = t->step > 0 ? t->step : -1;
        n.settled = true;
    }
    write_numbers(t->kept, &n);
}

void ls_left_note_peak(ls_trainer *t, double flops_s) {
    if (t->kept) t->kept->peak_flops_s = flops_s;
}

void ls_left_try(ls_trainer *t) {
    if (t->kept) atomic_store(&t->kept->tried, t->step + 1);
}

void ls_left_commit(ls_trainer *t, const ls_step_result *result, const ls_optimizer_update *by) {
    if (!t->kept) return;
    ls_left_numbers n = numbers_now(t);
    n.saved_step = numbers_of(t->kept)->saved_step;
    n.step++;
    n.last_loss = result->loss;
    n.result = *result;
    n.pending = by != NULL;
    if (by) n.by = *by;
    t->journal.number = (uint64_t)t->updates;
    write_numbers(t->kept, &n);
}

ls_status ls_left_stepped(ls_trainer *t) {
    ls_hash128 part;
    if (!t->kept || !t->kept->is_host || !ls_trainer_has_state_hash(t)) return LS_OK;
    LS_TRY(ls_trainer_state_part(t, &part));
    ls_left_sum *sum = &t->kept->sums[t->step & 1];
    atomic_store(&sum->step, -1);
    sum->part = part;
    atomic_store(&sum->step, t->step);
    return LS_OK;
}

void ls_left_settle(ls_trainer *t, int64_t saved_step) {
    if (!t->kept) return;
    ls_left_numbers n = numbers_now(t), *before = numbers_of(t->kept);
    n.saved_step = saved_step;
    n.settled = true;
    n.pending = before->pending;
    n.by = before->by;
    n.result = before->result;
    write_numbers(t->kept, &n);
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

typedef struct span {
    uint64_t begin, end;
} span;

static int compare_spans(const void *a, const void *b) {
    const span *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static void add_span(span *spans, size_t *count, uint64_t begin, uint64_t bytes) {
    if (begin && bytes) spans[(*count)++] = (span){begin, begin + bytes};
}

static size_t list_spans(const ls_segment *segment, int local, span *spans) {
    ls_left *kept = ls_segment_kept(segment, local);
    size_t count = 0;
    add_span(spans, &count, ls_segment_offset(segment, kept), sizeof *kept);
    add_span(spans, &count, kept->pieces_at, kept->pieces * sizeof(ls_left_piece));
    add_span(spans, &count, kept->tensors_at, kept->tensors * sizeof(ls_left_tensor));
    add_span(spans, &count, kept->slots_at, kept->slots * sizeof(ls_journal_slot));
    const ls_left_tensor *tensor = ls_segment_at(segment, kept->tensors_at);
    for (uint64_t i = 0; i < kept->tensors; i++) {
        uint64_t bytes = tensor[i].elems * sizeof(float);
        add_span(spans, &count, tensor[i].w, bytes);
        add_span(spans, &count, tensor[i].g, bytes);
        add_span(spans, &count, tensor[i].moment[0], bytes);
        add_span(spans, &count, tensor[i].moment[1], bytes);
        add_span(spans, &count, tensor[i].cells, ls_journal_cells(tensor[i].elems) * sizeof(ls_journal_cell));
    }
    return count;
}

/* Only what is left of whole pages goes; where it is refused, more memory stays in use for a moment. */
static void punch(const ls_segment *segment, uint64_t begin, uint64_t end) {
    enum { PAGE = 65536 };
    begin = (begin + PAGE - 1) / PAGE * PAGE;
    end = end / PAGE * PAGE;
    if (begin < end)
        (void)fallocate(segment->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)begin, (off_t)(end - begin));
}

void ls_left_trim(const ls_segment *segment) {
    for (int l = 0; segment->base && l < segment->workers; l++) {
        const ls_left *kept = ls_segment_kept(segment, l);
        span *spans = kept ? malloc((4 + 5 * kept->tensors) * sizeof *spans) : NULL;
        if (!spans) continue;
        size_t count = list_spans(segment, l, spans);
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
