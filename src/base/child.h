/* child.h: runs a function in a child process and returns its result, and watches other processes through /proc. For
 * code that must leave nothing behind in this process, such as a GPU driver that must not be initialized before a
 * fork (the survey of GPUs calls it), and for code that may hang or crash (probes, trial runs). */
#ifndef LS_BASE_CHILD_H
#define LS_BASE_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

/* A function to run in a child process: fills `result` and returns its status; its changes to other memory are lost. */
typedef ls_status (*ls_child_fn)(void *ctx, void *result);

/* Runs `fn` in a child process, waits for it and returns its status and message. `fn` fills `result`, of `bytes` bytes,
 * which is copied to the caller's, also if `fn` fails. Forks, so call it before any thread is started. The child
 * flushes its output but runs no exit handlers, and is killed if its parent ends. Messages call the child `what` (such
 * as "the worker"). LS_ERR_WORKER: the child was killed, or ended without a result. LS_ERR_FAILED: the child took more
 * than `limit_s` seconds (0: no limit) and was killed. In both cases `result` may be half written. LS_ERR_RESOURCE: no
 * pipe or no process. */
ls_status ls_child_run(const char *what, double limit_s, ls_child_fn fn, void *ctx, void *result, size_t bytes);

/* ---- programs beside a run --------------------------------------------------------------------------------------- */

/* Makes the kernel kill this child when its parent ends, even while the child is stopped. Call it right after fork(),
 * with the parent's pid. Exits if the parent has ended already. */
void ls_child_bind(pid_t parent);
/* Waits until the child has ended. Returns true if it ended by itself; *wait_status is then that of waitpid(). Kills
 * the child and returns false after more than `limit_s` seconds, or once it has neither used CPU time nor been runnable
 * for more than `idle_s` seconds (it is stopped or stuck). Also returns false for a pid that is no child. *wait_status
 * has no meaning if the result is false. A pause of the caller itself (SIGSTOP) counts as at most 0.1 s. */
bool ls_child_finish(pid_t pid, double idle_s, double limit_s, int *wait_status);

/* ---- state of a process, from /proc ------------------------------------------------------------------------------ */

/* Returns the state letter of /proc/PID/stat ('R' running, 'S' sleeping, 'D' in the kernel, 'T' stopped, 'Z' zombie);
 * 0: not readable. */
char ls_process_state(int pid);
/* Returns whether a debugger, or any other user of ptrace(2), is attached. */
bool ls_process_is_traced(int pid);

#endif
