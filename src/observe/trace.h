/* trace.h: one timeline of all workers, in Chrome's trace format.
 *
 * Every worker records spans in its own memory (base/events.h); at the end rank 0 collects them and writes the file.
 * Workers of one machine share a clock. */
#ifndef LS_OBSERVE_TRACE_H
#define LS_OBSERVE_TRACE_H

#include "base/status.h"

/* Both are collective and do nothing if `path` is NULL. */
ls_status ls_trace_begin(const char *path);
ls_status ls_trace_end(ls_world *world, const char *path);

#endif
