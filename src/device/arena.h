/* arena.h: one block of memory, laid out by one function that runs twice: once to measure, once to carve.
 *
 *     static ls_status layout(ls_arena *arena, void *ctx) {
 *         struct net *net = ctx;
 *         net->weights = ls_arena_take(arena, "parameters", …);
 *         ls_arena_phase_begin(arena);                 scratch of the forward pass
 *         net->scores = ls_arena_take(arena, "activations", …);
 *         ls_arena_phase_end(arena);
 *         ls_arena_phase_begin(arena);                 the backward pass uses the same place
 *         net->dscores = ls_arena_take(arena, "gradients", …);
 *         ls_arena_phase_end(arena);
 *         return LS_OK;
 *     }
 *
 *     0                                                            measured bytes = peak
 *     ├────────────┬──────────────────────────┬─────────────────────┤
 *     │ weights    │ scores                   │                     │   in phase 1
 *     │            │ dscores                                        │   in phase 2
 *     ├────────────┴────────────────────────────────────────────────┤
 *                  ▲ mark of both phases
 *
 * Phases nest like brackets: what is taken inside one is given up at its end, and the peak counts. Every piece starts
 * at a multiple of 64 bytes, or of what the memory's source says. A layout function only stores pointers: while it
 * measures, they are NULL, and nothing may be written through them until it has run the second time. The dry run of the
 * planner is the measuring half alone, so the numbers it prints are those of the run, to the byte.
 *
 * Invariants
 * 1. used ≤ peak, and while carving peak ≤ capacity.
 * 2. The bytes by kind, padding included, add up to the peak.
 * 3. The first error is kept; from then on takes give NULL, and ls_arena_finish() reports it. */
#ifndef LS_DEVICE_ARENA_H
#define LS_DEVICE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/memory.h"

enum { LS_ARENA_ALIGN_BYTES = 64, LS_ARENA_KINDS_MAX = 16, LS_ARENA_PHASES_MAX = 8 };

typedef struct ls_arena_kind {
    const char *name;
    size_t live_bytes;
    size_t bytes; /* its share of the peak */
} ls_arena_kind;

typedef struct ls_arena_mark {
    size_t used;
    size_t live_bytes[LS_ARENA_KINDS_MAX];
} ls_arena_mark;

/* Read the fields, but change them only through the functions. */
typedef struct ls_arena {
    bool carving;
    size_t align; /* of every piece */
    unsigned char *memory;
    size_t capacity, used, peak;
    int kinds, phases;
    ls_arena_kind kind[LS_ARENA_KINDS_MAX];
    ls_arena_mark phase[LS_ARENA_PHASES_MAX];
    ls_status status;
    char message[160];
} ls_arena;

/* Starts measuring: no memory, takes give NULL. Pieces are aligned to `align` bytes, a power of two; 0: 64. */
void ls_arena_measure(ls_arena *arena, size_t align);
/* Starts carving `memory`, which is so aligned and has the measured number of bytes. Borrows it. */
void ls_arena_carve(ls_arena *arena, size_t align, void *memory, size_t bytes);

/* `kind` is a string literal, like "parameters". A piece of 0 bytes has a valid address too. */
void *ls_arena_take(ls_arena *arena, const char *kind, size_t bytes);
/* As ls_arena_take for `count` pieces of `each` bytes; a product too large is an error like any other. */
void *ls_arena_take_array(ls_arena *arena, const char *kind, size_t count, size_t each);
void ls_arena_phase_begin(ls_arena *arena);
void ls_arena_phase_end(ls_arena *arena);

/* Ends the layout. Fails for the first error of a take, for a phase left open and, when carving, when the peak is not
 * exactly the bytes given: then the layout function did not do the same thing twice. */
ls_status ls_arena_finish(ls_arena *arena);
/* Share of the peak that this kind has; 0 for a kind that was never taken. */
size_t ls_arena_kind_bytes(const ls_arena *arena, const char *kind);

typedef ls_status (*ls_arena_layout)(ls_arena *arena, void *ctx);

/* Runs `layout` to measure, gets the memory, runs it again to carve. `*arena` then describes the result and
 * arena->memory belongs to the caller, who releases it. On failure nothing is left to release. */
ls_status ls_arena_build(ls_arena_layout layout, void *layout_ctx, const ls_memory_source *source, ls_arena *arena);

#endif
