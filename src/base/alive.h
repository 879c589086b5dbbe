/* alive.h: what this process is doing, and whether it gets anywhere, for whoever watches it (comm/beat.h).
 *
 * Work counts as it goes on: an operation, a block, a megabyte of a file. Who watches sees that the count has changed,
 * not by how much, so threads may count at the same time without care. */
#ifndef LS_BASE_ALIVE_H
#define LS_BASE_ALIVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What a run does. */
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

/* Time may pass on what nobody can see into: a file system that syncs, a compiler. */
static inline bool ls_phase_is_opaque(ls_phase phase) { return phase >= LS_PHASE_READ && phase <= LS_PHASE_SAVE; }
/* It consists of many small operations. */
static inline bool ls_phase_computes(ls_phase phase) { return phase >= LS_PHASE_STEP; }

/* "computing gradients" */
const char *ls_phase_text(ls_phase phase);

extern _Atomic uint64_t ls_alive_count;

/* Something was done. Any thread. */
static inline void ls_alive_moved(void) {
    uint64_t count = atomic_load_explicit(&ls_alive_count, memory_order_relaxed);
    atomic_store_explicit(&ls_alive_count, count + 1, memory_order_relaxed);
}

/* The same, by the thread that leads a worker, while it does something long in which it meets no other worker: calls
 * the function that ls_alive_set_hook() was given, at most twice a second. */
void ls_alive_turn(void);
/* How much of a file that may have to come from a disk is looked through between two turns. */
enum { LS_ALIVE_BYTES = 16 << 20 };
/* Of the calling thread; NULL: none. */
void ls_alive_set_hook(void (*hook)(void *ctx), void *ctx);

/* From now on the process does this; an opaque phase calls the hook at once. What it did before, to be put back. */
ls_phase ls_phase_enter(ls_phase phase);
/* The same where the phase before is only held up, as by kernels that are compiled on first use: its turn goes on. */
ls_phase ls_phase_swap(ls_phase phase);
ls_phase ls_phase_now(void);
/* Median of how long the last few turns of the phase took; 0: there was none. */
uint64_t ls_phase_usual_ns(ls_phase phase);

#endif
