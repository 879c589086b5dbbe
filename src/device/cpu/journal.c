/* journal.c: the stores of the journal and their order. */
#include "device/cpu/journal.h"

#include <string.h>

#include "device/cpu/cpu.h"

_Static_assert((int)LS_JOURNAL_GRAIN == (int)LS_CPU_GRAIN, "a grain is what a thread takes at a time");

enum { DONE_BITS = 16 };

void ls_cpu_use_journal(ls_device *device, ls_journal *journal) {
    ((ls_cpu_device *)(void *)device)->journal = journal;
}

size_t ls_journal_done(const ls_journal_cell *cells, size_t i, uint64_t number) {
    uint64_t cell = atomic_load_explicit(&cells[i], memory_order_acquire);
    return cell >> DONE_BITS == number ? cell & ((1u << DONE_BITS) - 1) : 0;
}

/* Stores in the cell of the grain of element `elem` − 1 that the grain is done up to and with that element. */
static void set_done(ls_journal_cell *cells, size_t elem, uint64_t number) {
    size_t grain = (elem - 1) / LS_JOURNAL_GRAIN;
    atomic_store_explicit(&cells[grain], number << DONE_BITS | (elem - grain * LS_JOURNAL_GRAIN), memory_order_release);
}

void ls_journal_keep(ls_journal_slot *slot, const ls_update_piece *piece, size_t begin, size_t count, uint64_t number) {
    atomic_store_explicit(&slot->number, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst); /* the old number must be gone before what it vouched for is */
    slot->tensor = piece->name;
    slot->first = piece->first + begin;
    slot->count = count;
    memcpy(slot->old[0], piece->w + begin, count * sizeof(float));
    for (int m = 0; m < LS_MOMENTS_MAX && piece->moment[m]; m++)
        memcpy(slot->old[1 + m], piece->moment[m] + begin, count * sizeof(float));
    atomic_store_explicit(&slot->number, number, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst); /* and be there before anything changes */
}

void ls_journal_note(const ls_update_piece *piece, size_t end, uint64_t number) {
    set_done(piece->cells, piece->first + end, number);
}

void ls_journal_put_back(ls_journal_slot *slot, uint64_t number, const ls_update_piece *p) {
    if (atomic_load_explicit(&slot->number, memory_order_acquire) != number) return;
    size_t grain = slot->first / LS_JOURNAL_GRAIN, end = slot->first + slot->count - grain * LS_JOURNAL_GRAIN;
    if (ls_journal_done(p->cells, grain, number) < end) {
        memcpy(p->w + slot->first, slot->old[0], slot->count * sizeof(float));
        for (int m = 0; m < LS_MOMENTS_MAX && p->moment[m]; m++)
            memcpy(p->moment[m] + slot->first, slot->old[1 + m], slot->count * sizeof(float));
    }
    atomic_store_explicit(&slot->number, 0, memory_order_release);
}
