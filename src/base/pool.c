/* pool.c: threads that wait at a gate.
 *
 * A run opens the gate, works along, closes the gate and waits until all threads that entered have left:
 *
 *     caller   write job → open gate → epoch+1, wake → tasks … → close gate → wait for gate = 0
 *     thread   wait for a new epoch → enter if open → tasks … → leave
 *
 * A thread that wakes late finds the gate closed and goes back to wait; no thread waits for it. So on a busy machine a
 * run costs no more than the caller doing the work alone.
 *
 * On such a machine threads sleep instead of spinning, and leave the CPUs that they are pinned to: a thread that spins
 * uses up its time slice and is preempted in the middle of its next task, and a pinned one then waits for that one core
 * while all others wait for its task. Each thread checks now and then how long it waited for a core.
 *
 * Invariants
 * 1. The job (fn, ctx, tasks, next) is written only while the gate is 0: closed and empty.
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
#include <sys/resource.h>
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

/* How often a thread checks at most how long it waited for a core, and for how long a positive result holds. */
enum { LOOK_EVERY_NS = 10000000, CROWDED_NS = 200000000 };

/* A thread of a pool. Only the thread itself writes has_left_cpu, looked_ns and queue. */
typedef struct pool_thread {
    ls_pool *pool;
    pthread_t handle;
    int number;
    int cpu; /* that it is pinned to; −1: any */
    bool has_left_cpu;
    uint64_t looked_ns;
    ls_clock_queue queue; /* at the last check */
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
    int threads;       /* including the caller */
    int started;       /* excluding the caller */
    pool_thread *team; /* the first is the caller */
    _Alignas(LINE_BYTES) atomic_bool is_crowded;
    _Atomic uint64_t crowded_until_ns;
};

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

/* Sleeps while the word holds `expected`; may also return early. */
static void futex_wait(atomic_uint *word, unsigned expected) {
    /* Every caller reads the word again, so EINTR, EAGAIN and spurious returns need no distinction. */
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

/* Wakes at most `count` threads that sleep on the word. */
static void futex_wake(atomic_uint *word, int count) {
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

/* Tells the core that this thread spins. */
static inline void cpu_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    __asm__ volatile("yield");
#endif
}

/* Returns how long a waiting thread spins before it sleeps; 0 while cores are short. */
static uint64_t spin_ns_now(const ls_pool *pool) { return ls_pool_is_crowded(pool) ? 0 : pool->spin_ns; }

/* Spins while the word holds `value`. Returns true if it changed in time. */
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

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* Fails with the reason `error`, an errno. */
static ls_status fail_to_pin(int thread, int cpu, int error) {
    errno = error;
    return ls_fail_errno(LS_ERR_INPUT, "cannot pin thread %d to CPU %d; choose a CPU in this process's affinity mask",
                         thread, cpu);
}

/* Makes a set with this CPU only; NULL: no memory. The caller frees it with CPU_FREE. */
static cpu_set_t *set_of_cpu(int cpu, size_t *bytes) {
    cpu_set_t *set = CPU_ALLOC(cpu + 1);
    if (!set) return NULL;
    *bytes = CPU_ALLOC_SIZE(cpu + 1);
    CPU_ZERO_S(*bytes, set);
    CPU_SET_S(cpu, *bytes, set);
    return set;
}

/* Pins the thread to the CPU; −1: does nothing. */
static ls_status pin_thread(pthread_t handle, int thread, int cpu) {
    if (cpu < 0) return LS_OK;
    size_t bytes = 0;
    cpu_set_t *set = set_of_cpu(cpu, &bytes);
    if (!set) return ls_fail(LS_ERR_RESOURCE, "out of memory for a CPU set");
    int error = pthread_setaffinity_np(handle, bytes, set);
    CPU_FREE(set);
    return error == 0 ? LS_OK : fail_to_pin(thread, cpu, error);
}

/* CPUs of the calling thread before it was pinned; empty: it never was. */
static cpu_set_t unpinned;

/* Remembers the CPUs of the calling thread before it is pinned for the first time. */
static void keep_unpinned(void) {
    if (CPU_COUNT(&unpinned) == 0 && sched_getaffinity(0, sizeof unpinned, &unpinned) != 0) CPU_ZERO(&unpinned);
}

/* Moves a thread to the CPUs that the process had before (`leave`), or back to its own. If Linux refuses, it stays. */
static void leave_or_take_cpu(pool_thread *self, bool leave) {
    if (self->cpu < 0 || self->has_left_cpu == leave || CPU_COUNT(&unpinned) == 0) return;
    if (leave)
        (void)sched_setaffinity(0, sizeof unpinned, &unpinned);
    else
        (void)pin_thread(pthread_self(), self->number, self->cpu);
    self->has_left_cpu = leave;
}

/* Records how long the thread has waited for cores. Returns false if Linux keeps no such counts. */
static bool read_core_waits(pool_thread *self, uint64_t now_ns) {
    self->looked_ns = now_ns;
    int fd = ls_clock_queue_open();
    if (fd < 0) return false;
    self->queue = ls_clock_queue_read(fd);
    (void)close(fd);
    return true;
}

/* Checks, at most every 10 ms, whether this thread waited for cores; updates is_crowded and moves the thread. */
static void watch_cores(pool_thread *self, uint64_t now_ns) {
    ls_pool *pool = self->pool;
    uint64_t ns = now_ns - self->looked_ns;
    if (ns < LOOK_EVERY_NS) return;
    ls_clock_queue before = self->queue;
    if (!read_core_waits(self, now_ns)) return;
    ls_clock_queue now = self->queue;
    bool waits = ls_pool_waits_for_cores(now.waited_ns - before.waited_ns, now.turns - before.turns, ns);
    if (waits) atomic_store_explicit(&pool->crowded_until_ns, now_ns + CROWDED_NS, memory_order_relaxed);
    bool is_crowded = now_ns < atomic_load_explicit(&pool->crowded_until_ns, memory_order_relaxed);
    atomic_store_explicit(&pool->is_crowded, is_crowded, memory_order_relaxed);
    leave_or_take_cpu(self, is_crowded);
}

/* ---- pool threads ------------------------------------------------------------------------------------------------ */

/* Counts this thread in, if the gate is open. Returns false if it is closed. */
static bool gate_enter(ls_pool *pool) {
    unsigned gate = atomic_load_explicit(&pool->gate, memory_order_relaxed);
    while (gate & GATE_OPEN) {
        if (atomic_compare_exchange_weak_explicit(&pool->gate, &gate, gate + 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return true;
    }
    return false;
}

/* Counts this thread out; the last one wakes a caller that sleeps. */
static void gate_leave(ls_pool *pool) {
    unsigned before = atomic_fetch_sub_explicit(&pool->gate, 1, memory_order_release);
    if (before == (GATE_CALLER_SLEEPS | 1u)) futex_wake(&pool->gate, 1);
}

/* Takes tasks of the current job, one after the other, until none is left. */
static void work_on_tasks(ls_pool *pool, int thread) {
    ls_pool_fn fn = pool->fn;
    void *ctx = pool->ctx;
    size_t tasks = pool->tasks;
    for (;;) {
        size_t task = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (task >= tasks) return;
        fn(ctx, task, thread);
    }
}

/* Waits until the epoch is no longer `seen`, spinning first. Returns the new epoch. */
static unsigned wait_for_epoch(ls_pool *pool, unsigned seen) {
    if (!spin_until_changed(&pool->epoch, seen, spin_ns_now(pool))) {
        atomic_fetch_add(&pool->sleepers, 1);
        while (atomic_load(&pool->epoch) == seen) futex_wait(&pool->epoch, seen);
        atomic_fetch_sub(&pool->sleepers, 1);
    }
    return atomic_load_explicit(&pool->epoch, memory_order_acquire);
}

/* Main function of a pool thread: waits for runs and works on their tasks until the pool is destroyed. */
static void *thread_main(void *arg) {
    pool_thread *self = arg;
    ls_pool *pool = self->pool;
    char name[16];
    snprintf(name, sizeof name, "ls-pool-%d", self->number);
    (void)pthread_setname_np(pthread_self(), name); /* for debuggers only */
    ls_fpenv_set();
    unsigned seen = 0;
    (void)read_core_waits(self, ls_clock_ns());
    for (;;) {
        seen = wait_for_epoch(pool, seen);
        if (atomic_load_explicit(&pool->stop, memory_order_acquire)) return NULL;
        if (gate_enter(pool)) {
            work_on_tasks(pool, self->number);
            gate_leave(pool);
        }
        watch_cores(self, ls_clock_ns());
    }
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* Closes the gate and waits until all threads that entered have left. */
static void gate_close(ls_pool *pool) {
    unsigned gate = atomic_fetch_and_explicit(&pool->gate, ~GATE_OPEN, memory_order_acq_rel) & ~GATE_OPEN;
    uint64_t spin_ns = spin_ns_now(pool), end_ns = gate != 0 && spin_ns > 0 ? ls_clock_ns() + spin_ns : 0;
    while (gate != 0 && ls_clock_ns() < end_ns) {
        (void)spin_until_changed(&pool->gate, gate, spin_ns);
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
    if (pool) watch_cores(&pool->team[0], ls_clock_ns());
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
    work_on_tasks(pool, 0);
    gate_close(pool);
}

bool ls_pool_is_crowded(const ls_pool *pool) {
    return pool && atomic_load_explicit(&((ls_pool *)(uintptr_t)pool)->is_crowded, memory_order_relaxed);
}

int ls_pool_threads(const ls_pool *pool) { return pool ? pool->threads : 1; }

/* ---- life -------------------------------------------------------------------------------------------------------- */

/* Makes the set of all signals but faults, which stay with their thread. The caller's thread gets the others. */
static void signals_to_block(sigset_t *set) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    (void)sigfillset(set);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) (void)sigdelset(set, faults[i]);
}

/* Blocks all signals but faults for the calling thread; *before is its old mask, which the caller restores. */
static ls_status block_signals(sigset_t *before) {
    sigset_t block;
    signals_to_block(&block);
    errno = pthread_sigmask(SIG_SETMASK, &block, before);
    return errno == 0 ? LS_OK : ls_fail_errno(LS_ERR_FAILED, "cannot block signals for a thread");
}

/* Starts and pins all threads but the caller, which blocks signals meanwhile: new threads inherit its mask. */
static ls_status start_threads(ls_pool *pool, const int *cpus) {
    sigset_t before;
    ls_status status = LS_OK;
    int error;
    LS_TRY(block_signals(&before));
    for (int t = 1; t < pool->threads && status == LS_OK; t++) {
        pool_thread *thread = &pool->team[t];
        error = pthread_create(&thread->handle, NULL, thread_main, thread);
        if (error != 0) {
            errno = error;
            status =
                ls_fail_errno(LS_ERR_RESOURCE, "cannot start thread %d of %d; use fewer threads", t, pool->threads);
            break;
        }
        pool->started = t;
        if (cpus) status = pin_thread(thread->handle, t, cpus[t]);
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
    /* With more threads than cores, a spinning thread keeps the thread that it waits for from running. */
    pool->spin_ns = threads <= ls_cpu_count() ? SPIN_NS : 0;

    ls_status status = LS_OK;
    pool->team = calloc((size_t)threads, sizeof *pool->team);
    if (!pool->team) {
        status = ls_fail(LS_ERR_RESOURCE, "out of memory for %d threads", threads);
        goto out;
    }
    for (int t = 0; t < threads; t++)
        pool->team[t] = (pool_thread){.pool = pool, .number = t, .cpu = cpus ? cpus[t] : -1};
    (void)read_core_waits(&pool->team[0], ls_clock_ns());
    if (cpus) keep_unpinned();
    LS_TRY_OUT(start_threads(pool, cpus));
    if (cpus) LS_TRY_OUT(pin_thread(pthread_self(), 0, cpus[0]));
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
    for (int t = 1; t <= pool->started; t++) (void)pthread_join(pool->team[t].handle, NULL);
    free(pool->team);
    free(pool);
}

/* ---- in the background ------------------------------------------------------------------------------------------- */

struct ls_background {
    ls_status (*fn)(void *ctx);
    void *ctx;
    pthread_t handle;
    ls_status status;
    char message[LS_MESSAGE_MAX];
    atomic_bool is_done;
};

/* Lowers the thread's priority, unpins it and runs the function. Ignores failures of the first two. */
static void *background_main(void *arg) {
    enum { NICE = 10 };
    ls_background *b = arg;
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
    if (CPU_COUNT(&unpinned) > 0) (void)sched_setaffinity(0, sizeof unpinned, &unpinned);
    b->status = b->fn(b->ctx);
    if (b->status != LS_OK) snprintf(b->message, sizeof b->message, "%s", ls_status_message());
    atomic_store_explicit(&b->is_done, true, memory_order_release);
    return NULL;
}

ls_status ls_background_start(ls_status (*fn)(void *ctx), void *ctx, ls_background **out) {
    sigset_t before;
    *out = NULL;
    ls_background *b = calloc(1, sizeof *b);
    if (!b) return ls_fail(LS_ERR_RESOURCE, "out of memory for a thread");
    b->fn = fn;
    b->ctx = ctx;
    ls_status status = block_signals(&before);
    if (status == LS_OK) {
        errno = pthread_create(&b->handle, NULL, background_main, b);
        if (errno != 0) status = ls_fail_errno(LS_ERR_RESOURCE, "cannot start a thread");
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (status == LS_OK)
        *out = b;
    else
        free(b);
    return status;
}

bool ls_background_is_done(const ls_background *b) {
    return atomic_load_explicit(&((ls_background *)(uintptr_t)b)->is_done, memory_order_acquire);
}

ls_status ls_background_end(ls_background *b) {
    if (!b) return LS_OK;
    (void)pthread_join(b->handle, NULL);
    ls_status status = b->status;
    if (status != LS_OK) status = ls_fail(status, "%s", b->message);
    free(b);
    return status;
}
