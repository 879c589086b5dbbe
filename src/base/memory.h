/* memory.h: whether the machine has the memory that is about to be asked for. The kernel of the system would rather
 * kill a process later than refuse now, so large amounts are looked at first. */
#ifndef LS_BASE_MEMORY_H
#define LS_BASE_MEMORY_H

#include <stddef.h>

#include "base/status.h"

/* LS_ERR_RESOURCE when fewer than `bytes` are available; small amounts are not looked at. */
ls_status ls_memory_check(size_t bytes);

#endif
