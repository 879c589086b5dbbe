/* memory.h: host memory: availability, growing arrays, and regions. */
#ifndef LS_BASE_MEMORY_H
#define LS_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* Returns LS_ERR_RESOURCE if fewer than `bytes` are available. Needed because Linux overcommits: it grants an
 * allocation and kills a process later. Small amounts are not checked. */
ls_status ls_memory_check(size_t bytes);
/* Returns the memory that the system reports as available; SIZE_MAX: not known. */
size_t ls_memory_available(void);

/* Resident memory of a process. */
typedef struct ls_memory_use {
    double bytes;  /* total */
    double shared; /* part of it that other processes may share: files, and shared memory of workers */
} ls_memory_use;
/* Returns false if the use is not known. */
bool ls_memory_of_process(int pid, ls_memory_use *out);

/* Allocate whole pages, as huge pages if the system has them, for memory that is copied as a whole; free them with the
 * same number of bytes. NULL does nothing. */
ls_status ls_pages_alloc(size_t bytes, void **out);
void ls_pages_free(void *memory, size_t bytes);

/* An allocator of zeroed blocks, aligned to 64 bytes. Blocks may have 0 bytes. */
typedef struct ls_memory_source {
    ls_status (*alloc)(void *ctx, size_t bytes, void **memory);
    void (*release)(void *ctx, void *memory);
    void *ctx;
    size_t align; /* alignment of tensors carved from its blocks, a power of two; 0: 64 */
} ls_memory_source;

/* Makes space for one more element in a list of `count` elements of `bytes`. Returns the list, reallocated if *capacity
 * is used up; NULL if memory is short, and then the list is unchanged. */
void *ls_list_grow(void *list, size_t count, size_t *capacity, size_t bytes);

/* Blocks that are freed together. All zeros: empty. */
typedef struct ls_region {
    struct ls_region_block *last;
    bool is_short; /* an allocation has failed */
} ls_region;

/* Returns `count` zeroed elements of `bytes`; NULL if memory is short. */
void *ls_region_take(ls_region *region, size_t count, size_t bytes);
void ls_region_free(ls_region *region);

/* Makes space for one more element in an array that grows only by this call, because the capacity is derived from
 * `count`. `array` is the address of the array's pointer; `what` names its elements in the message. */
ls_status ls_array_grow(void *array, size_t count, size_t elem_bytes, const char *what);

#endif
