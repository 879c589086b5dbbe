/* memory.h: memory of the host: whether there is enough, arrays that grow, and regions. */
#ifndef LS_BASE_MEMORY_H
#define LS_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* LS_ERR_RESOURCE when fewer than `bytes` are available; small amounts are not looked at. The kernel of the system
 * would rather kill a process later than refuse now. */
ls_status ls_memory_check(size_t bytes);
/* What the system says is available; SIZE_MAX where it does not say. */
size_t ls_memory_available(void);

/* What a process has in memory. */
typedef struct ls_memory_use {
    double bytes;  /* all of it */
    double shared; /* of that, what others may have too: files, and memory that workers share */
} ls_memory_use;
/* False: it is not known. */
bool ls_memory_of_process(int pid, ls_memory_use *out);

/* Pages of their own, in large ones where the system has them: for what is copied in one go. Released with the same
 * number of bytes; NULL does nothing. */
ls_status ls_pages_alloc(size_t bytes, void **out);
void ls_pages_free(void *memory, size_t bytes);

/* Where memory comes from: an allocator of 64-byte aligned, zeroed blocks and its counterpart. Blocks may be of 0
 * bytes. */
typedef struct ls_memory_source {
    ls_status (*alloc)(void *ctx, size_t bytes, void **memory);
    void (*release)(void *ctx, void *memory);
    void *ctx;
    size_t align; /* of pieces of its blocks, a power of two; 0: 64 */
} ls_memory_source;

/* A list of `count` elements of `bytes`, with space for one more: the same memory where *capacity has it, else a larger
 * one. NULL: memory is short, and the list is as it was. */
void *ls_list_grow(void *list, size_t count, size_t *capacity, size_t bytes);

/* Blocks that are released together. Zeroed: none. */
typedef struct ls_region {
    struct ls_region_block *last;
    bool is_short; /* one of them could not be had */
} ls_region;

/* `count` zeroed elements of `bytes`; NULL where memory is short. */
void *ls_region_take(ls_region *region, size_t count, size_t bytes);
void ls_region_free(ls_region *region);

/* Space for one more element behind the `count` of an array that has grown by this call alone: its capacity follows
 * from the count. `array` is the address of its pointer; `what` names its elements in the message. */
ls_status ls_array_grow(void *array, size_t count, size_t elem_bytes, const char *what);

#endif
