/* heap.h: one worker's allocator inside its part of the shared segment.
 *
 * The list of blocks is private to the owner; all workers can access the memory. Blocks are aligned to 128 bytes, and
 * to a page from a page up. Pages are faulted in when a block is allocated, so that a lack of memory is an error here
 * and not a SIGBUS later. Shared and private memory of a worker together count against `ulimit -d`. */
#ifndef LS_COMM_SHM_HEAP_H
#define LS_COMM_SHM_HEAP_H

#include "comm/shm/segment.h"

typedef struct ls_heap_block ls_heap_block;

typedef struct ls_heap {
    ls_segment *segment;
    size_t begin, end;     /* offsets of this worker's heap */
    size_t reserved_until; /* pages below this offset are faulted in */
    ls_heap_block *blocks; /* all blocks, used and free, by offset */
    size_t used_bytes;
} ls_heap;

/* Begin and end the use of this worker's heap in a mapped segment, which must outlive it. The second frees the list of
 * blocks, not the shared pages. */
ls_status ls_heap_init(ls_heap *heap, ls_segment *segment, int worker);
void ls_heap_fini(ls_heap *heap);
/* Allocates a block, zeroed unless `raw`. 0 bytes give a valid block. LS_ERR_RESOURCE names the limit that was hit. */
ls_status ls_heap_alloc(ls_heap *heap, size_t bytes, bool raw, void **out);
/* Frees a block but keeps its pages for the next one. NULL does nothing. */
void ls_heap_free(ls_heap *heap, void *memory);
/* Returns the pages behind the last used block to the system. */
void ls_heap_trim(ls_heap *heap);

#endif
