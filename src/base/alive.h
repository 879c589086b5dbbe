/* alive.h: this process's phase (what it is doing) and a progress counter, which tell a worker that hangs from one
 * that is slow.
 *
 * The worker's heartbeat thread (comm/world/beat.h) writes both into a record in shared memory, where the supervisor
 * and other workers read them. The counter grows with every piece of work: an operation, a block, a megabyte of a
 * file. The heartbeat only checks whether the counter has changed, not by how much, so concurrent increments may be
 * lost. */
#ifndef LS_BASE_ALIVE_H
#define LS_BASE_ALIVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The phases of a run. */
#define LS_PHASE_LIST(X)                                                                                               \
    X(LS_PHASE_START, "starting")                                                                                      \
    X(LS_PHASE_READ, "preparing its data")                                                                             \
    X(LS_PHASE_LOAD, "loading its weights")                                                                            \
    X(LS_PHASE_COMPILE, "loading kernels")                                                                             \
    X(LS_PHASE_SAVE, "saving a checkpoint")                                                                            \
    X(LS_PHASE_END, "ending")                                                                                          \
    X(LS_PHASE_STEP, "computing gradients")                                                                            \
    X(LS_PHASE_UPDATE, "updating weights")                                                                             \
    X(LS_PHASE_EVALUATE, "evaluating")                                                                                 \
    X(LS_PHASE_SAMPLE, "writing a sample")

typedef enum ls_phase {
#define LS_PHASE_ENUM(name, text) name,
    LS_PHASE_LIST(LS_PHASE_ENUM)
#undef LS_PHASE_ENUM
        LS_PHASES
} ls_phase;

/* Returns whether work of the phase may show no progress for a long time: a file system that syncs, a compiler. */
static inline bool ls_phase_is_opaque(ls_phase phase) { return phase >= LS_PHASE_READ && phase <= LS_PHASE_SAVE; }
/* Returns whether the phase consists of many small operations, so that progress is visible. */
static inline bool ls_phase_computes(ls_phase phase) { return phase >= LS_PHASE_STEP; }

/* Returns a text such as "computing gradients". */
const char *ls_phase_text(ls_phase phase);

/* The progress counter. It is not exact: only whether it changes matters. */
extern _Atomic uint64_t ls_alive_count;

/* Reports progress. Any thread. */
static inline void ls_alive_moved(void) {
    uint64_t count = atomic_load_explicit(&ls_alive_count, memory_order_relaxed);
    atomic_store_explicit(&ls_alive_count, count + 1, memory_order_relaxed);
}

/* Reports progress by a thread during long work without collectives. Also calls that thread's hook, if 0.5 s have
 * passed since the last call; the hook tells the workers of other machines. */
void ls_alive_turn(void);
/* Bytes of a file to read or write between two calls of ls_alive_turn(). */
enum { LS_ALIVE_BYTES = 16 << 20 };
/* Sets the hook of the calling thread, which ls_alive_turn() calls; NULL removes it. */
void ls_alive_set_hook(void (*hook)(void *ctx), void *ctx);

/* Enters a phase, ends the measurement of the one before and returns it; the caller restores it later by entering it
 * again. An opaque phase calls the hook at once. Main thread only. */
ls_phase ls_phase_enter(ls_phase phase);
/* Replaces the phase for an interruption, such as kernels that are compiled on first use, and returns the one before,
 * which the caller restores. Unlike ls_phase_enter(), it lets the measured duration of the interrupted phase
 * continue. */
ls_phase ls_phase_swap(ls_phase phase);
/* Returns this process's present phase. Any thread. */
ls_phase ls_phase_now(void);
/* Returns the median duration in ns of the last 9 times in this phase; 0 if it has never ended. Any thread. The
 * heartbeat sends it, and a phase that lasts much longer than usual makes the worker suspect. */
uint64_t ls_phase_usual_ns(ls_phase phase);

#endif
