/* trace.h: records what every worker did, and when, in one file of Chrome's trace format (--trace). trace_read.h reads
 * it.
 *
 * Every worker records spans in a ring in its own memory (base/events.h), which drops the oldest ones; at the end rank
 * 0 collects them and writes the file. Workers of one machine share a clock; clocks of several are not aligned. */
#ifndef LS_OBSERVE_TRACE_H
#define LS_OBSERVE_TRACE_H

#include "base/status.h"

/* Start recording, and stop it and write `path` (replaced atomically). All workers must call both; ls_trace_end()
 * returns on all of them when the file exists, or fails on all of them. Both do nothing if `path` is NULL. */
ls_status ls_trace_begin(const char *path);
ls_status ls_trace_end(ls_world *world, const char *path);

#endif
