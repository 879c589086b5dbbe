/* pool.c: threads that wait at a gate.
 *
 * A run opens the gate, works along, closes the gate and waits until everybody who came in has left:
 *
 *     caller   write job → open gate → epoch+1, wake → tasks … → close gate → wait for gate = 0
 *     thread   wait for a new epoch → enter if open → tasks … → leave
 *
 * A thread that wakes late finds the gate closed and goes back to wait; nobody waits for it. So on a busy machine a run
 * costs no more than the caller doing the work alone.
 *
 * Invariants
 * 1. The job (fn, ctx, tasks, next) is written only while the gate is 0: closed and nobody inside.
 * 2. A thread reads the job only after it entered. Entering acquires what opening released.
 * 3. The caller returns only after the gate was 0 again. Seeing 0 acquires what every leaving thread released.
 * 4. A thread counts itself in `sleepers` before it sleeps on `epoch`; the caller raises `epoch` before it reads
 * `sleepers`. Both are sequentially consistent, so a wake-up is never missed. */
#include "base/pool.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/fpenv.h"

enum { LINE_BYTES = 64, SPIN_NS = 20000, SPINS_PER_LOOK_AT_CLOCK = 32 };

/* The gate: a flag for open, one for "the caller sleeps on it", and the number of threads inside. */
#define GATE_OPEN 0x80000000u
#define GATE_CALLER_SLEEPS 0x40000000u

typedef struct pool_thread {
    ls_pool *pool;
    pthread_t handle;
    int number;
} pool_thread;

struct ls_pool {
    _Alignas(LINE_BYTES) atomic_uint epoch;
    atomic_uint sleepers;
    atomic_bool stop;
    _Alignas(LINE_BYTES) atomic_uint gate;
    _Alignas(LINE_BYTES) atomic_size_t next;
    _Alignas(LINE_BYTES) ls_pool_fn fn;
    void *ctx;
    size_t tasks;
    uint64_t spin_ns;
    int threads; /* with the caller */
    int started; /* without */
    pool_thread *team;
};

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

static void futex_wait(atomic_uint *word, unsigned expected) {
    /* Every caller looks at the word again, so EINTR, EAGAIN and spurious returns need no distinction. */
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word, int count) {
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static inline void cpu_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    __asm__ volatile("yield");
#endif
}

/* Spins while the word holds `value`; true when it changed in time. */
static bool spin_until_changed(atomic_uint *word, unsigned value, uint64_t spin_ns) {
    if (spin_ns == 0) return atomic_load_explicit(word, memory_order_acquire) != value;
    uint64_t end_ns = ls_clock_ns() + spin_ns;
    do {
        for (int i = 0; i < SPINS_PER_LOOK_AT_CLOCK; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != value) return true;
            cpu_relax();
        }
    } while (ls_clock_ns() < end_ns);
    return false;
}

/* ---- pool threads ------------------------------------------------------------------------------------------------ */

static bool gate_enter(ls_pool *pool) {
    unsigned gate = atomic_load_explicit(&pool->gate, memory_order_relaxed);
    while (gate & GATE_OPEN) {
        if (atomic_compare_exchange_weak_explicit(&pool->gate, &gate, gate + 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return true;
    }
    return false;
}

static void gate_leave(ls_pool *pool) {
    unsigned before = atomic_fetch_sub_explicit(&pool->gate, 1, memory_order_release);
    if (before == (GATE_CALLER_SLEEPS | 1u)) futex_wake(&pool->gate, 1);
}

static void work(ls_pool *pool, int thread) {
    ls_pool_fn fn = pool->fn;
    void *ctx = pool->ctx;
    size_t tasks = pool->tasks;
    for (;;) {
        size_t task = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (task >= tasks) return;
        fn(ctx, task, thread);
    }
}

static unsigned wait_for_epoch(ls_pool *pool, unsigned seen) {
    if (!spin_until_changed(&pool->epoch, seen, pool->spin_ns)) {
        atomic_fetch_add(&pool->sleepers, 1);
        while (atomic_load(&pool->epoch) == seen) futex_wait(&pool->epoch, seen);
        atomic_fetch_sub(&pool->sleepers, 1);
    }
    return atomic_load_explicit(&pool->epoch, memory_order_acquire);
}

static void *thread_main(void *arg) {
    pool_thread *self = arg;
    ls_pool *pool = self->pool;
    char name[16];
    snprintf(name, sizeof name, "ls-pool-%d", self->number);
    (void)pthread_setname_np(pthread_self(), name); /* a help for debuggers only */
    ls_fpenv_set();
    unsigned seen = 0;
    for (;;) {
        seen = wait_for_epoch(pool, seen);
        if (atomic_load_explicit(&pool->stop, memory_order_acquire)) return NULL;
        if (!gate_enter(pool)) continue;
        work(pool, self->number);
        gate_leave(pool);
    }
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static void gate_close(ls_pool *pool) {
    unsigned gate = atomic_fetch_and_explicit(&pool->gate, ~GATE_OPEN, memory_order_acq_rel) & ~GATE_OPEN;
    uint64_t end_ns = gate != 0 && pool->spin_ns > 0 ? ls_clock_ns() + pool->spin_ns : 0;
    while (gate != 0 && ls_clock_ns() < end_ns) {
        (void)spin_until_changed(&pool->gate, gate, pool->spin_ns);
        gate = atomic_load_explicit(&pool->gate, memory_order_acquire);
    }
    if (gate == 0) return;
    gate = atomic_fetch_or_explicit(&pool->gate, GATE_CALLER_SLEEPS, memory_order_acquire) | GATE_CALLER_SLEEPS;
    while (gate != GATE_CALLER_SLEEPS) {
        futex_wait(&pool->gate, gate);
        gate = atomic_load_explicit(&pool->gate, memory_order_acquire);
    }
    atomic_store_explicit(&pool->gate, 0, memory_order_relaxed);
}

void ls_pool_run(ls_pool *pool, size_t tasks, ls_pool_fn fn, void *ctx) {
    ls_alive_moved();
    if (!pool || pool->threads == 1 || tasks <= 1) {
        for (size_t task = 0; task < tasks; task++) fn(ctx, task, 0);
        return;
    }
    assert(atomic_load_explicit(&pool->gate, memory_order_relaxed) == 0 && "ls_pool_run called inside ls_pool_run");
    pool->fn = fn;
    pool->ctx = ctx;
    pool->tasks = tasks;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    atomic_store_explicit(&pool->gate, GATE_OPEN, memory_order_release);
    atomic_fetch_add(&pool->epoch, 1);
    if (atomic_load(&pool->sleepers) > 0) futex_wake(&pool->epoch, tasks - 1 < INT_MAX ? (int)(tasks - 1) : INT_MAX);
    work(pool, 0);
    gate_close(pool);
}

int ls_pool_threads(const ls_pool *pool) { return pool ? pool->threads : 1; }

/* ---- life -------------------------------------------------------------------------------------------------------- */

static ls_status pin_failed(int thread, int cpu, int error) {
    errno = error;
    return ls_fail_errno(LS_ERR_INPUT, "cannot pin thread %d to CPU %d; choose a CPU in this process's affinity mask",
                         thread, cpu);
}

/* A set large enough for this CPU; NULL when there is no memory. The caller frees it with CPU_FREE. */
static cpu_set_t *set_of_cpu(int cpu, size_t *bytes) {
    cpu_set_t *set = CPU_ALLOC(cpu + 1);
    if (!set) return NULL;
    *bytes = CPU_ALLOC_SIZE(cpu + 1);
    CPU_ZERO_S(*bytes, set);
    CPU_SET_S(cpu, *bytes, set);
    return set;
}

static ls_status pin(pthread_t handle, int thread, int cpu) {
    if (cpu < 0) return LS_OK;
    size_t bytes = 0;
    cpu_set_t *set = set_of_cpu(cpu, &bytes);
    if (!set) return ls_fail(LS_ERR_RESOURCE, "out of memory for a CPU set");
    int error = pthread_setaffinity_np(handle, bytes, set);
    CPU_FREE(set);
    return error == 0 ? LS_OK : pin_failed(thread, cpu, error);
}

/* Signals go to the caller's thread; faults stay with the thread that made them. */
static void signals_to_block(sigset_t *set) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    (void)sigfillset(set);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) (void)sigdelset(set, faults[i]);
}

static ls_status start_threads(ls_pool *pool, const int *cpus) {
    sigset_t block, before;
    ls_status status = LS_OK;
    signals_to_block(&block);
    int error = pthread_sigmask(SIG_SETMASK, &block, &before);
    if (error != 0) {
        errno = error;
        return ls_fail_errno(LS_ERR_FAILED, "cannot block signals for the pool's threads");
    }
    for (int t = 1; t < pool->threads && status == LS_OK; t++) {
        pool_thread *thread = &pool->team[t - 1];
        *thread = (pool_thread){.pool = pool, .number = t};
        error = pthread_create(&thread->handle, NULL, thread_main, thread);
        if (error != 0) {
            errno = error;
            status =
                ls_fail_errno(LS_ERR_RESOURCE, "cannot start thread %d of %d; use fewer threads", t, pool->threads);
            break;
        }
        pool->started = t;
        if (cpus) status = pin(thread->handle, t, cpus[t]);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

ls_status ls_pool_create(int threads, const int *cpus, ls_pool **out) {
    *out = NULL;
    if (threads < 1 || threads > LS_POOL_THREADS_MAX)
        return ls_fail(LS_ERR_INPUT, "%d threads; a pool must have 1 to %d", threads, LS_POOL_THREADS_MAX);
    ls_pool *pool = aligned_alloc(LINE_BYTES, sizeof *pool);
    if (!pool) return ls_fail(LS_ERR_RESOURCE, "out of memory for a thread pool");
    *pool = (ls_pool){.threads = threads};
    /* More threads than cores: whoever spins keeps the one it waits for from running. */
    pool->spin_ns = threads <= ls_cpu_count() ? SPIN_NS : 0;

    ls_status status = LS_OK;
    if (threads > 1) {
        pool->team = calloc((size_t)threads - 1, sizeof *pool->team);
        if (!pool->team) {
            status = ls_fail(LS_ERR_RESOURCE, "out of memory for %d threads", threads);
            goto out;
        }
        LS_TRY_OUT(start_threads(pool, cpus));
    }
    if (cpus) LS_TRY_OUT(pin(pthread_self(), 0, cpus[0]));
    *out = pool;
out:
    if (status != LS_OK) ls_pool_destroy(pool);
    return status;
}

void ls_pool_destroy(ls_pool *pool) {
    if (!pool) return;
    atomic_store_explicit(&pool->stop, true, memory_order_release);
    atomic_fetch_add(&pool->epoch, 1);
    futex_wake(&pool->epoch, INT_MAX);
    for (int t = 0; t < pool->started; t++) (void)pthread_join(pool->team[t].handle, NULL);
    free(pool->team);
    free(pool);
}
