/* journal.h: an undo journal for optimizer updates in place, so that another process can finish an update after a
 * worker died in it. run/recover owns the journal, in shared memory; ops/optim.c writes it; run/recover/take.c reads
 * it.
 *
 * An update changes weights and moments where they are, so a worker that dies in it leaves some elements as they were
 * and some new. The gradient is still there, and the update is a function of single elements; so it is enough to know
 * how far it went. A tensor is here what one worker updates of a parameter (ls_param.own). It is cut into grains of
 * LS_JOURNAL_GRAIN elements, each updated by one thread, block by block (at most LS_JOURNAL_BLOCK elements), ascending:
 *
 *     slot of the thread     ← w and moments of the block as they are, then the number of the update
 *     block                  ← the update
 *     cell of the grain      ← the number of the update, and the elements of the grain that are done
 *
 * After a death at any point: a slot that has the number of the update and a block that its cell does not count as done
 * has the old values of that block; all later elements that cells do not count are unchanged. Slots and cells lie in
 * memory that outlives the worker. Recovery first calls ls_journal_put_back() for each slot, then finishes each grain
 * from ls_journal_done() on. Both may themselves be interrupted and repeated. */
#ifndef LS_DEVICE_CPU_JOURNAL_H
#define LS_DEVICE_CPU_JOURNAL_H

#include <stdatomic.h>

#include "device/calls.h"
#include "device/device.h"

enum { LS_JOURNAL_BLOCK = 2048, LS_JOURNAL_GRAIN = 16 * 1024 }; /* elements */

/* One for each grain: the number of the update · 2^16 + elements of the grain that are done. */
typedef _Atomic uint64_t ls_journal_cell;

/* The old values of the block that a thread is updating. */
typedef struct ls_journal_slot {
    _Alignas(64) _Atomic uint64_t number; /* of the update; 0: the slot is empty */
    uint64_t tensor;                      /* ls_update_piece.name */
    uint64_t first, count;                /* elements first … first + count − 1 of the tensor, of one grain */
    float old[1 + LS_MOMENTS_MAX][LS_JOURNAL_BLOCK]; /* of w and of each moment that the optimizer has */
} ls_journal_slot;

typedef struct ls_journal {
    uint64_t number;       /* of the update in progress, from 1 on; 0: updates are not recorded */
    int slots;             /* one for each thread of the pool */
    ls_journal_slot *slot; /* [slots], by number of the thread */
} ls_journal;

/* Returns how many cells a tensor of `elems` elements needs. */
static inline size_t ls_journal_cells(size_t elems) { return (elems + LS_JOURNAL_GRAIN - 1) / LS_JOURNAL_GRAIN; }

/* Makes a CPU device record updates of pieces that have cells in `journal`, which is borrowed; NULL: stops
 * recording. */
void ls_cpu_use_journal(ls_device *device, ls_journal *journal);

/* Saves elements begin … begin + count − 1 of a piece, at most LS_JOURNAL_BLOCK of them, to a slot before the update
 * `number` changes them. The thread that owns the slot calls it. */
void ls_journal_keep(ls_journal_slot *slot, const ls_update_piece *piece, size_t begin, size_t count, uint64_t number);
/* Records in the piece's cells that update `number` has finished the grain of element `end` − 1 of the piece up to
 * `end`, which counts in the piece. */
void ls_journal_note(const ls_update_piece *piece, size_t end, uint64_t number);

/* Empties a slot that holds a block of update `number`, and first restores the block's old values unless its cell says
 * that the update finished it. Does nothing to other slots. `whole` is the whole tensor that the slot names: its w,
 * moments and cells, all from element 0. */
void ls_journal_put_back(ls_journal_slot *slot, uint64_t number, const ls_update_piece *whole);
/* Returns how many elements of grain `i`, from its first, update `number` has finished; 0 if the cell is of another
 * update. */
size_t ls_journal_done(const ls_journal_cell *cells, size_t i, uint64_t number);

#endif
