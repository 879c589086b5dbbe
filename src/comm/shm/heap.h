/* heap.h: one worker's allocator inside its part of the shared segment.
 *
 * ls_world_alloc() and collectives on private buffers allocate here, on the worker's main thread. The segment is the
 * memory that the workers of a machine share (segment.h). The list of blocks is private to the owner; all workers can
 * access the memory. Blocks are aligned to 128 bytes, and to a page from a page up. Pages are faulted in when a block
 * is allocated, so that a lack of memory is an error here and not a SIGBUS later. Shared and private memory of a worker
 * together count against `ulimit -d`. */
#ifndef LS_COMM_SHM_HEAP_H
#define LS_COMM_SHM_HEAP_H

#include "comm/shm/segment.h"

typedef struct ls_heap_block ls_heap_block;

typedef struct ls_heap {
    ls_segment *segment;
    size_t begin, end;     /* offsets of this worker's heap */
    size_t reserved_until; /* pages below this offset are faulted in */
    ls_heap_block *blocks; /* all blocks, used and free, by offset */
    size_t used_bytes;     /* of blocks in use */
} ls_heap;

/* Begins the use of heap number `worker` of a mapped segment, which must outlive the heap. */
ls_status ls_heap_init(ls_heap *heap, ls_segment *segment, int worker);
/* Frees the list of blocks, not the shared pages, which end with the segment. */
void ls_heap_fini(ls_heap *heap);
/* Allocates a block, zeroed unless `raw`. 0 bytes give a valid block. LS_ERR_RESOURCE names the limit that was hit. */
ls_status ls_heap_alloc(ls_heap *heap, size_t bytes, bool raw, void **out);
/* Frees a block but keeps its pages for the next one. NULL does nothing. */
void ls_heap_free(ls_heap *heap, void *memory);
/* Returns the free pages behind the last used block to the system, if they are 4 MiB or more. */
void ls_heap_trim(ls_heap *heap);

#endif
