/* child.h: a function in a process of its own, whose result comes back: for what must leave nothing behind here, as a
 * driver that may not be started in a process that forks later, and for what may hang or crash. */
#ifndef LS_BASE_CHILD_H
#define LS_BASE_CHILD_H

#include <stddef.h>

#include "base/status.h"

typedef ls_status (*ls_child_fn)(void *ctx, void *result);

/* Forks, so call it before any thread is started. `fn` fills `result`, of `bytes`, which the caller then has; its
 * status and message are those of this function. What it printed is flushed; handlers for the end of the process do
 * not run.
 *
 * LS_ERR_WORKER, naming it `what` ("the worker"): it was killed, or ended without a result. LS_ERR_FAILED: it took more
 * than `limit_s` seconds, and was killed; 0: no limit. */
ls_status ls_child_run(const char *what, double limit_s, ls_child_fn fn, void *ctx, void *result, size_t bytes);

#endif
