/* child.h: a function in a process of its own, whose result comes back: for what must leave nothing behind here, as a
 * driver that may not be started in a process that forks later, and for what may hang or crash. */
#ifndef LS_BASE_CHILD_H
#define LS_BASE_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

typedef ls_status (*ls_child_fn)(void *ctx, void *result);

/* Forks, so call it before any thread is started. `fn` fills `result`, of `bytes`, which the caller then has; its
 * status and message are those of this function. What it printed is flushed; handlers for the end of the process do
 * not run.
 *
 * LS_ERR_WORKER, naming it `what` ("the worker"): it was killed, or ended without a result. LS_ERR_FAILED: it took more
 * than `limit_s` seconds, and was killed; 0: no limit. */
ls_status ls_child_run(const char *what, double limit_s, ls_child_fn fn, void *ctx, void *result, size_t bytes);

/* ---- programs beside a run --------------------------------------------------------------------------------------- */

/* To be called by a child right after fork(): from now on the kernel kills it when its parent ends, even while it is
 * stopped. Exits where `parent` has ended already. */
void ls_child_bind(pid_t parent);
/* Waits until the child has ended; true: it ended by itself, and *wait_status is as of waitpid(). It is killed once it
 * has used no CPU time for `idle_s` seconds although a core was free for it (it is stopped, or stuck), or after
 * `limit_s`. Time in which the caller itself was stopped does not count. */
bool ls_child_finish(pid_t pid, double idle_s, double limit_s, int *wait_status);

/* ---- what the kernel knows of a process -------------------------------------------------------------------------- */

/* The letter of /proc/PID/stat; 0: it cannot be read. */
char ls_process_state(int pid);
/* User and system time, in clock ticks; 0: it cannot be read. */
uint64_t ls_process_ticks(int pid);
/* Whether a debugger, or any other user of ptrace(2), is attached. */
bool ls_process_is_traced(int pid);

#endif
