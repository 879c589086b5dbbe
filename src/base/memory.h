/* memory.h: whether the machine has the memory that is about to be asked for, and arrays that grow. The kernel of the
 * system would rather kill a process later than refuse now, so large amounts are looked at first. */
#ifndef LS_BASE_MEMORY_H
#define LS_BASE_MEMORY_H

#include <stddef.h>

#include "base/status.h"

/* LS_ERR_RESOURCE when fewer than `bytes` are available; small amounts are not looked at. */
ls_status ls_memory_check(size_t bytes);

/* Space for one more element behind the `count` of an array that has grown by this call alone: its capacity follows
 * from the count. `array` is the address of its pointer; `what` names its elements in the message. */
ls_status ls_array_grow(void *array, size_t count, size_t elem_bytes, const char *what);

#endif
