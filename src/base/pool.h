/* pool.h: threads inside one worker: a pool for parallel loops, which CPU kernels use, and background threads, such
 * as the one that saves checkpoints.
 *
 *     ls_pool_run(pool, tasks, fn, ctx)   calls fn(ctx, task, thread) once for each task 0 … tasks−1
 *
 * The calling thread is thread 0 and works too. Tasks go to whichever thread is free, so a result must not depend on
 * which thread ran a task; `thread` is for scratch memory. The caller sees everything the tasks wrote.
 *
 * One thread at a time may call ls_pool_run, and not from inside a task of the same pool. Running allocates nothing.
 * Pool threads block all signals but those of faults, so that signals reach the thread that waits for them. A pool does
 * not survive fork(): make it in the process that uses it. */
#ifndef LS_BASE_POOL_H
#define LS_BASE_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ls_pool ls_pool;

typedef void (*ls_pool_fn)(void *ctx, size_t task, int thread);

enum { LS_POOL_THREADS_MAX = 1024 };

/* Starts the threads of a pool. `threads` counts the caller. `cpus` is NULL or names one CPU for each thread, −1 for
 * none; the calling thread is pinned to cpus[0] and stays so, also after the pool is destroyed. While other programs
 * keep these CPUs busy (ls_pool_is_crowded()) the threads run on any CPU that the process had before. On failure
 * nothing is left to release. */
ls_status ls_pool_create(int threads, const int *cpus, ls_pool **out);
/* Ends the threads; NULL does nothing. */
void ls_pool_destroy(ls_pool *pool);
/* Returns the number of threads, with the caller; 1 for NULL. */
int ls_pool_threads(const ls_pool *pool);
/* Calls fn(ctx, task, thread) for each task and returns when all are done. NULL, or one thread: a plain loop. */
void ls_pool_run(ls_pool *pool, size_t tasks, ls_pool_fn fn, void *ctx);
/* Returns whether threads of the pool had to wait for cores in the 0.2 s before their last check (they check at most
 * every 10 ms, and only around runs): then spinning delays the thread that is waited for. Any thread; false for NULL,
 * and where Linux does not tell how long threads wait. */
bool ls_pool_is_crowded(const ls_pool *pool);
/* Returns whether a thread that waited for a core for `waited_ns` of the last `ns`, in `turns` turns, competes with
 * other programs. */
static inline bool ls_pool_waits_for_cores(uint64_t waited_ns, uint64_t turns, uint64_t ns) {
    /* Each turn may begin with waking the core from its idle state, which is not competition. */
    enum { WAKE_NS = 50000 };
    return waited_ns > ns / 4 && waited_ns > turns * WAKE_NS;
}

/* ---- background threads ------------------------------------------------------------------------------------------ */

/* One call of a function by its own thread of low priority, on any CPU that the process had before a pool pinned the
 * calling thread. */
typedef struct ls_background ls_background;

/* Starts the thread, which calls `fn`. The caller passes *out to ls_background_end(), once; it is NULL on failure. */
ls_status ls_background_start(ls_status (*fn)(void *ctx), void *ctx, ls_background **out);
/* Returns whether ls_background_end() would return at once. */
bool ls_background_is_done(const ls_background *background);
/* Waits for the function, frees `background` and returns its status and message. NULL: LS_OK. */
ls_status ls_background_end(ls_background *background);

#endif
