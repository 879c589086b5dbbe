/* heap.h: one worker's allocator inside its part of the shared segment.
 *
 * Bookkeeping is private to the owner; the memory itself is everybody's. Blocks are 128-byte aligned, page aligned from
 * a page up. Pages are brought in when they are handed out, so that a lack of memory is an error here and not a signal
 * later. What a worker holds here counts with its private memory against a limit on data (ulimit -d). */
#ifndef LS_COMM_SHM_HEAP_H
#define LS_COMM_SHM_HEAP_H

#include "comm/shm/segment.h"

typedef struct ls_heap_block ls_heap_block;

typedef struct ls_heap {
    ls_segment *segment;
    size_t begin, end;     /* offsets of this worker's heap */
    size_t reserved_until; /* pages below are there already */
    ls_heap_block *blocks; /* all blocks, used and free, by offset */
    size_t used_bytes;
} ls_heap;

ls_status ls_heap_init(ls_heap *heap, ls_segment *segment, int worker);
void ls_heap_fini(ls_heap *heap);
/* Zeroed unless `raw`. 0 bytes give a valid block. */
ls_status ls_heap_alloc(ls_heap *heap, size_t bytes, bool raw, void **out);
/* NULL does nothing. The pages are kept for the next block. */
void ls_heap_free(ls_heap *heap, void *memory);
/* Gives the pages behind the last block in use back to the system. */
void ls_heap_trim(ls_heap *heap);

#endif
