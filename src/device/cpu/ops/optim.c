/* optim.c: optimizer steps, state sums and squared norms over flat arrays. */
#include <stdatomic.h>

#include "base/fault.h"
#include "device/cpu/journal.h"
#include "device/cpu/ops/staging.h"
#include "numerics/state_sum.h"

/* Adds to a state sum that several threads share. The sums are integers, so the order of the threads does not
 * matter. */
static void add_state(ls_hash128 *to, ls_hash128 sum) {
    atomic_fetch_add_explicit((_Atomic uint64_t *)&to->lo, sum.lo, memory_order_relaxed);
    atomic_fetch_add_explicit((_Atomic uint64_t *)&to->hi, sum.hi, memory_order_relaxed);
}

/* Returns the state sum of elements begin … end − 1 of a piece. */
static ls_hash128 sum_state(const ls_kernels *kernels, const ls_state_piece *c, size_t begin, size_t end) {
    const uint32_t *places = ls_state_places();
    ls_hash128 sum = {0, 0};
    for (size_t i = begin, n; i < end; i += n) {
        uint64_t at = c->first + i, place = at % LS_STATE_BLOCK;
        n = LS_STATE_BLOCK - place < end - i ? LS_STATE_BLOCK - place : end - i;
        ls_state_add_block(&sum, c->tensor, at / LS_STATE_BLOCK,
                           kernels->optim.state_block(c->x + i, places + place, n));
    }
    return sum;
}

/* Returns the state sum of elements begin … end − 1 of w (state 0) or of a moment. */
static ls_hash128 sum_elems(const ls_kernels *kernels, const ls_update_piece *c, int state, size_t begin, size_t end) {
    const ls_state_piece piece = {.x = state == 0 ? c->w : c->moment[state - 1],
                                  .tensor = c->sums.tensor + (uint64_t)state,
                                  .first = c->sums.first};
    return sum_state(kernels, &piece, begin, end);
}

/* Returns how many tensors of a piece are summed: w and its moments. */
static int states_of(const ls_update_piece *c) { return 1 + (c->moment[0] != NULL) + (c->moment[1] != NULL); }

/* Returns the recorded sums of the block of element `at` of the piece. */
static uint64_t *block_sums(const ls_update_piece *c, size_t at) {
    return c->check.sums + (c->first + at) / LS_CHECK_BLOCK * LS_STATE_TENSORS;
}

/* Returns x, limited to low … high. */
static size_t clamp(size_t x, size_t low, size_t high) { return x < low ? low : x > high ? high : x; }

/* Adds the present values of elements begin … end − 1, which are in one block, to the state sums, and records the
 * block's sums if the piece keeps them. */
static void sum_written(const ls_kernels *kernels, const ls_update_piece *c, size_t begin, size_t end) {
    const ls_update_sums *s = &c->sums;
    const size_t first = clamp(s->begin, begin, end), last = clamp(s->end, first, end);
    const size_t cut[] = {begin, first, last, end};
    for (int state = 0; state < states_of(c); state++) {
        uint64_t block = 0;
        for (int i = 0; i < 3; i++) {
            ls_hash128 *out = i == 1 ? s->once : s->rest;
            if (cut[i] == cut[i + 1] || (!out && !c->check.sums)) continue;
            ls_hash128 sum = sum_elems(kernels, c, state, cut[i], cut[i + 1]);
            if (out) add_state(out + state, sum);
            block += sum.lo;
        }
        if (c->check.sums) block_sums(c, begin)[state] = block;
    }
}

/* Adds elements begin … end − 1 of the 16-bit copy, two numbers as one, to its state sum, if there is one. */
static void sum_copy(const ls_kernels *kernels, const ls_update_piece *c, size_t begin, size_t end) {
    if (!c->sums.copy || !c->copy) return;
    const ls_state_piece pairs = {.x = c->copy, .tensor = c->sums.copy_tensor, .first = c->first / 2};
    add_state(c->sums.copy, sum_state(kernels, &pairs, begin / 2, end / 2));
}

/* Reports the block of element `at` as damaged: raises the damage word, which keeps the first damage of all threads. */
static void note_damage(const ls_update_piece *c, int state, size_t at) {
    _Atomic uint64_t *damage = (_Atomic uint64_t *)c->check.damage;
    const uint64_t word = ls_damage_word(
        (ls_damage){.name = (uint32_t)c->name, .state = state, .block = (c->first + at) / LS_CHECK_BLOCK});
    uint64_t most = atomic_load_explicit(damage, memory_order_relaxed);
    while (most < word && !atomic_compare_exchange_weak(damage, &most, word)) {
    }
}

/* Returns whether a block has its recorded sums, true if none are compared. Notes the damage if not. */
static bool check_block(const ls_kernels *kernels, const ls_update_piece *c, size_t begin, size_t end) {
    bool is_same = true;
    if (!c->check.sums || !c->check.damage) return true;
    for (int state = 0; state < states_of(c); state++) {
        if (sum_elems(kernels, c, state, begin, end).lo == block_sums(c, begin)[state]) continue;
        note_damage(c, state, begin);
        is_same = false;
    }
    return is_same;
}

/* Adds elements begin … end−1 of a piece to its state sum. */
static void state_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_state_piece *c = args;
    add_state(c->out, sum_state(kernels, c, begin, end));
}

/* Adds the state sum of each piece to its `out`. */
ls_status ls_cpu_op_state_sums(ls_device *device, const ls_state_sums_call *call) {
    for (int i = 0; i < call->count; i++)
        LS_TRY(ls_cpu_run(device, call->pieces[i].n, LS_CPU_GRAIN, state_range, &call->pieces[i]));
    return LS_OK;
}

/* Runs the update kernel. It writes a bf16 copy itself; an fp16 copy is rounded here, in pieces that stay in L1. */
static void update_elems(const ls_kernels *kernels, const ls_update_piece *c, size_t begin, size_t end) {
    const bool to_f16 = c->copy && c->copy_dtype == LS_F16;
    for (size_t i = begin, n; i < end; i += n) {
        n = to_f16 ? ls_cpu_piece(LS_F16, end - i) : end - i;
        kernels->optim.update(c, i, i + n);
        if (to_f16) ls_cpu_narrow(kernels, c->copy, LS_F16, i, c->w + i, n);
    }
}

/* Returns whether state sums or block sums are wanted, so that the update must go block by block. The sum of the copy
 * alone does not count: it is only made along with the others. */
static bool makes_sums(const ls_update_piece *c) { return c->sums.once || c->sums.rest || c->check.sums; }

/* Updates elements; with sums block by block, so that a block stays in L1. A damaged block is left as it is. */
static void update_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_update_piece *c = args;
    if (!makes_sums(c)) {
        update_elems(kernels, c, begin, end);
        return;
    }
    for (size_t i = begin, n; i < end; i += n) {
        n = clamp(LS_CHECK_BLOCK - (c->first + i) % LS_CHECK_BLOCK, 0, end - i);
        if (!check_block(kernels, c, i, i + n)) continue;
        update_elems(kernels, c, i, i + n);
        sum_copy(kernels, c, i, i + n);
        sum_written(kernels, c, i, i + n);
    }
}

/* Compares the blocks of elements begin … end−1, and reports those that differ. */
static void check_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_update_piece *c = args;
    for (size_t i = begin; i < end; i += LS_CHECK_BLOCK)
        (void)check_block(kernels, c, i, clamp(i + LS_CHECK_BLOCK, i, end));
}

/* Adds elements begin … end−1 to the state sums and writes their block sums, without an update. */
static void record_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_update_piece *c = args;
    for (size_t i = begin; i < end; i += LS_CHECK_BLOCK) sum_written(kernels, c, i, clamp(i + LS_CHECK_BLOCK, i, end));
}

/* An update of one piece that is recorded in a journal. */
typedef struct journal_job {
    const ls_kernels *kernels;
    const ls_update_piece *piece;
    ls_journal *journal;
} journal_job;

/* Task: updates the piece's part of a grain of the tensor block by block, and writes the journal before and after each
 * block. */
static void update_grain(void *ctx, size_t task, int thread) {
    const journal_job *job = ctx;
    const ls_update_piece *p = job->piece;
    ls_journal_slot *slot = &job->journal->slot[thread];
    size_t grain = (p->first / LS_JOURNAL_GRAIN + task) * LS_JOURNAL_GRAIN;
    size_t begin = grain > p->first ? grain - p->first : 0, end = grain + LS_JOURNAL_GRAIN - p->first;
    if (end > p->n) end = p->n;
    for (size_t i = begin, n; i < end; i += n) {
        n = end - i < LS_JOURNAL_BLOCK ? end - i : LS_JOURNAL_BLOCK;
        ls_journal_keep(slot, p, i, n, job->journal->number);
        update_range(job->kernels, p, i, i + n);
        ls_fault_point(LS_POINT_UPDATE);
        ls_journal_note(p, i + n, job->journal->number);
    }
}

/* Updates a piece on all threads and records it in the journal, so that another process can finish it. */
static ls_status update_journaled(ls_device *device, const ls_update_piece *piece, ls_journal *journal) {
    ls_cpu_device *cpu = ls_cpu_enter(device);
    journal_job job = {cpu->kernels, piece, journal};
    size_t first = piece->first / LS_JOURNAL_GRAIN, end = ls_journal_cells(piece->first + piece->n);
    if (piece->n > 0) ls_pool_run(cpu->pool, end - first, update_grain, &job);
    return LS_OK;
}

_Static_assert(LS_CPU_GRAIN % LS_CHECK_BLOCK == 0 && (int)LS_JOURNAL_BLOCK == (int)LS_CHECK_BLOCK,
               "threads and the journal take whole blocks");

/* Runs each piece in its mode: updates it (through the journal if there is one), compares its blocks, or sums it. */
ls_status ls_cpu_op_update(ls_device *device, const ls_update_call *call) {
    ls_journal *journal = ((ls_cpu_device *)(void *)device)->journal;
    LS_TRY(ls_check_update(call));
    for (int i = 0; i < call->count; i++) {
        const ls_update_piece *piece = &call->pieces[i];
        if (piece->mode != LS_UPDATE_STEP)
            LS_TRY(ls_cpu_run(device, piece->n, LS_CPU_GRAIN,
                              piece->mode == LS_UPDATE_CHECK ? check_range : record_range, piece));
        else if (journal && journal->number > 0 && piece->cells)
            LS_TRY(update_journaled(device, piece, journal));
        else
            LS_TRY(ls_cpu_run(device, piece->n, LS_CPU_GRAIN, update_range, piece));
    }
    return LS_OK;
}

_Static_assert(LS_CPU_GRAIN % LS_SQUARE_BLOCK == 0, "squared norms must be split at block boundaries");

/* Adds the squares of elements begin … end−1 of the call's only piece to its words. */
static void square_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    enum { AT_ONCE = 16 };
    const ls_square_sums_call *c = args;
    double blocks[AT_ONCE];
    ls_exact_sum sum = {.unsettled = 0};
    for (size_t i = begin, n; i < end; i += n) {
        n = end - i < AT_ONCE * LS_SQUARE_BLOCK ? end - i : AT_ONCE * LS_SQUARE_BLOCK;
        kernels->optim.square_sums(blocks, c->pieces->x + i, n);
        ls_exact_sum_add_many(&sum, blocks, (n + LS_SQUARE_BLOCK - 1) / LS_SQUARE_BLOCK);
    }
    /* Integers: it does not matter which thread adds first. */
    for (int i = 0; i < LS_EXACT_WORDS; i++)
        if (sum.words[i])
            atomic_fetch_add_explicit((_Atomic int64_t *)&c->words[i], sum.words[i], memory_order_relaxed);
}

/* Adds the squares of all pieces to the exact sum at call->words; carries are left for the caller to settle. */
ls_status ls_cpu_op_square_sums(ls_device *device, const ls_square_sums_call *call) {
    for (int i = 0; i < call->count; i++) {
        const ls_square_sums_call one = {call->words, call->pieces + i, 1};
        LS_TRY(ls_cpu_run(device, one.pieces->n, LS_CPU_GRAIN, square_range, &one));
    }
    return LS_OK;
}

/* Scales elements begin … end−1. */
static void scale_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_scale_call *c = args;
    kernels->optim.scale(c->y + begin, c->x + begin, c->factor, end - begin);
}

/* Computes y = x·factor. */
ls_status ls_cpu_op_scale(ls_device *device, const ls_scale_call *call) {
    return ls_cpu_run(device, call->n, LS_CPU_GRAIN, scale_range, call);
}

/* Sets elements begin … end−1. */
static void set_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    (void)kernels;
    const ls_set_call *c = args;
    for (size_t i = begin; i < end; i++) c->y[i] = c->value;
}

/* Sets all elements to the value. */
ls_status ls_cpu_op_set(ls_device *device, const ls_set_call *call) {
    return ls_cpu_run(device, call->n, LS_CPU_GRAIN, set_range, call);
}
