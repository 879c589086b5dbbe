/* trace.h: records what every worker did, and when, in one file of Chrome's trace format (--trace FILE). Training and
 * trial runs call it; trace_read.h reads the file.
 *
 * Each thread of a worker records spans in a ring in its own memory (base/events.h), which drops the oldest ones; at
 * the end rank 0 collects them and writes the file. Workers of one machine share a clock; clocks of several are not
 * aligned. */
#ifndef LS_OBSERVE_TRACE_H
#define LS_OBSERVE_TRACE_H

#include "base/status.h"

/* Starts recording in this worker; all workers must call it. Does nothing if `path` is NULL. */
ls_status ls_trace_begin(const char *path);
/* Stops recording and writes the spans of all workers to `path` (replaced atomically). A collective: all workers must
 * call it, and it returns on all of them when the file exists, or fails on all of them. Does nothing if `path` is NULL.
 */
ls_status ls_trace_end(ls_world *world, const char *path);

#endif
