/* memory.h: whether the machine has the memory that is about to be asked for. The kernel of the system would rather
 * kill a process later than refuse now, so large amounts are looked at first. */
#ifndef LS_BASE_MEMORY_H
#define LS_BASE_MEMORY_H

#include <stddef.h>

#include "base/status.h"

/* LS_ERR_RESOURCE when fewer than `bytes` are available; small amounts are not looked at. */
ls_status ls_memory_check(size_t bytes);

/* Where memory comes from: an allocator of 64-byte aligned, zeroed blocks and its counterpart. Blocks may be of 0 bytes. */
typedef struct ls_memory_source {
    ls_status (*alloc)(void *ctx, size_t bytes, void **memory);
    void (*release)(void *ctx, void *memory);
    void *ctx;
} ls_memory_source;

#endif
