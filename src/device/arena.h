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
 * Phases nest like brackets: memory taken inside a phase is free again at its end, and the block is as large as the
 * peak. Every piece starts at a multiple of 64 bytes, or of the alignment that the memory's source asks for. While a
 * layout function measures, the pointers it gets are NULL, so it must only store them; nothing may be written through
 * them before the second run has ended. A dry run does the measuring alone, so it prints the bytes of the real run
 * exactly.
 *
 * Invariants
 * 1. used ≤ peak, and while carving peak ≤ capacity.
 * 2. The bytes by kind, padding included, add up to the peak.
 * 3. After the first error all takes return NULL, and ls_arena_finish() reports that error. */
#ifndef LS_DEVICE_ARENA_H
#define LS_DEVICE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/memory.h"

enum { LS_ARENA_ALIGN_BYTES = 64, LS_ARENA_KINDS_MAX = 16, LS_ARENA_PHASES_MAX = 8 };

/* Bytes of one kind of memory, such as "parameters", padding included; for reports of what memory is used for. */
typedef struct ls_arena_kind {
    const char *name;  /* borrowed from ls_arena_take() */
    size_t live_bytes; /* in use now */
    size_t bytes;      /* in use when the whole arena was at its peak */
} ls_arena_kind;

/* What was in use when a phase began; the end of the phase returns to it. */
typedef struct ls_arena_mark {
    size_t used;
    size_t live_bytes[LS_ARENA_KINDS_MAX];
} ls_arena_mark;

/* Read the fields, but change them only through the functions. */
typedef struct ls_arena {
    bool carving;          /* the second run, with memory; false: measuring */
    size_t align;          /* bytes, of every piece */
    unsigned char *memory; /* NULL while measuring */
    /* Bytes of `memory` (0 while measuring), bytes in use now, and the most that were in use. */
    size_t capacity, used, peak;
    int kinds, phases; /* kinds seen so far, and phases that are open */
    ls_arena_kind kind[LS_ARENA_KINDS_MAX];
    ls_arena_mark phase[LS_ARENA_PHASES_MAX];
    ls_status status; /* the first error, and its message; LS_OK: none so far */
    char message[160];
} ls_arena;

/* Starts measuring: the arena has no memory, and takes return NULL. Pieces are aligned to `align` bytes, a power of
 * two; 0: 64. */
void ls_arena_measure(ls_arena *arena, size_t align);
/* Starts carving `memory`, which the arena borrows. It must be aligned to `align` and have exactly the measured number
 * of `bytes`; memory that is not aligned, or NULL for more than 0 bytes, is an error that ls_arena_finish() reports. */
void ls_arena_carve(ls_arena *arena, size_t align, void *memory, size_t bytes);

/* Takes the next piece of `bytes`, which may be 0, rounded up to the alignment. `kind` is a string literal such as
 * "parameters", which the arena keeps; it counts bytes by it. Returns NULL while measuring and after an error. Errors
 * of the arena: more bytes than were measured, and more than LS_ARENA_KINDS_MAX kinds. The memory keeps what is in it:
 * only the source has zeroed it, and a piece of an earlier phase may have been there. */
void *ls_arena_take(ls_arena *arena, const char *kind, size_t bytes);
/* Takes one piece of `count` elements of `each` bytes. If their product overflows, that is an error of the arena. */
void *ls_arena_take_array(ls_arena *arena, const char *kind, size_t count, size_t each);
/* Begins a phase; phases nest at most LS_ARENA_PHASES_MAX deep, and one too many is an error of the arena. */
void ls_arena_phase_begin(ls_arena *arena);
/* Ends the innermost phase: the bytes taken since its begin are free for the next phase. An end without a begin is an
 * error of the arena. */
void ls_arena_phase_end(ls_arena *arena);

/* Ends the layout. Returns the first error of a take or a phase, an error for a phase left open and, when carving, an
 * error if the peak is not exactly the bytes given, because then the two runs of the layout function differed. */
ls_status ls_arena_finish(ls_arena *arena);
/* Returns the bytes of this kind at the peak; 0 for a kind that was never taken. */
size_t ls_arena_kind_bytes(const ls_arena *arena, const char *kind);

/* Callback: takes all pieces in the same order in both runs, and stores their addresses in what `ctx` points to. */
typedef ls_status (*ls_arena_layout)(ls_arena *arena, void *ctx);

/* Runs `layout` to measure, allocates the peak from `source`, and runs `layout` again to carve. The caller owns
 * arena->memory and releases it to `source`. On failure nothing is left to release. */
ls_status ls_arena_build(ls_arena_layout layout, void *layout_ctx, const ls_memory_source *source, ls_arena *arena);

#endif
