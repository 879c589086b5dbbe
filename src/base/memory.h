/* memory.h: reads how much host memory is available, and allocates growing arrays, pages and regions (blocks that are
 * freed together). Any thread may call; an array or a region belongs to one thread at a time. */
#ifndef LS_BASE_MEMORY_H
#define LS_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* Checks that `bytes` of memory are available; LS_ERR_RESOURCE if not. Callers check before a large allocation because
 * Linux overcommits: it grants memory that it does not have, and later kills a process. Requests below 32 MiB pass
 * unchecked. */
ls_status ls_memory_check(size_t bytes);
/* Returns the bytes that the system reports as available; SIZE_MAX if it reports nothing. */
size_t ls_memory_available(void);

/* Resident memory of a process. */
typedef struct ls_memory_use {
    double bytes;  /* total */
    double shared; /* part of it that other processes may share: files, and shared memory of workers */
} ls_memory_use;
/* Reads the resident memory of process `pid`. Returns false, with zeros in *out, if the system does not report it. */
bool ls_memory_of_process(int pid, ls_memory_use *out);

/* Allocates zeroed pages, as huge pages if the system has them, for memory that is copied as a whole. The caller frees
 * them by ls_pages_free() with the same number of bytes. */
ls_status ls_pages_alloc(size_t bytes, void **out);
/* Frees pages of ls_pages_alloc(); NULL does nothing. */
void ls_pages_free(void *memory, size_t bytes);

/* An allocator, for buffers that must be of a certain kind of memory: a device's, or shared memory. Its blocks are
 * zeroed and aligned to 64 bytes. A request for 0 bytes is valid. */
typedef struct ls_memory_source {
    ls_status (*alloc)(void *ctx, size_t bytes, void **memory);
    void (*release)(void *ctx, void *memory);
    void *ctx;
    size_t align; /* alignment of tensors carved from its blocks, a power of two; 0: 64 */
} ls_memory_source;

/* Grows `list`, which has `count` elements of `bytes` each, so that one more element fits. If `count` has reached
 * *capacity, reallocates the list with twice that capacity (16 for the first; `list` is NULL then). Returns the list.
 * Returns NULL if memory is short: the old list stays valid, and *capacity unchanged. */
void *ls_list_grow(void *list, size_t count, size_t *capacity, size_t bytes);

/* A region: blocks that are allocated one by one and freed together. All zeros: empty. */
typedef struct ls_region {
    struct ls_region_block *last;
    bool is_short; /* an allocation has failed */
} ls_region;

/* Allocates `count` zeroed elements of `bytes` each, which the region owns. Returns NULL, and sets is_short, if memory
 * is short; so a caller may check is_short once after several calls. */
void *ls_region_take(ls_region *region, size_t count, size_t bytes);
/* Frees all blocks of the region and leaves it empty. */
void ls_region_free(ls_region *region);

/* Grows an array of `count` elements so that one more fits. `array` is the address of the array's pointer, NULL at
 * first. The function derives the capacity from `count`, so no other call may allocate or resize the array. `what`
 * names the elements in the message of LS_ERR_RESOURCE. */
ls_status ls_array_grow(void *array, size_t count, size_t elem_bytes, const char *what);

#endif
