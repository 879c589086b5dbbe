/* arena.c: measuring and carving run the same code; only the pointers differ. */
#include "device/arena.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Records the first error of the arena; later ones are dropped. */
__attribute__((format(printf, 3, 4))) static void keep_error(ls_arena *arena, ls_status status, const char *format,
                                                             ...) {
    if (arena->status != LS_OK) return;
    va_list args;
    va_start(args, format);
    vsnprintf(arena->message, sizeof arena->message, format, args);
    va_end(args);
    arena->status = status;
}

void ls_arena_measure(ls_arena *arena, size_t align) {
    *arena = (ls_arena){.align = align ? align : LS_ARENA_ALIGN_BYTES};
}

void ls_arena_carve(ls_arena *arena, size_t align, void *memory, size_t bytes) {
    ls_arena_measure(arena, align);
    arena->carving = true;
    arena->memory = memory;
    arena->capacity = bytes;
    if ((uintptr_t)memory % arena->align != 0)
        keep_error(arena, LS_ERR_FAILED, "arena memory at %p must be aligned to %zu bytes", memory, arena->align);
    if (!memory && bytes > 0) keep_error(arena, LS_ERR_FAILED, "an arena of %zu bytes was given no memory", bytes);
}

/* Returns the kind of this name, added on first use; NULL, and an error of the arena, if there are too many. Compares
 * text, because literals of equal text may have several addresses. */
static ls_arena_kind *find_or_add_kind(ls_arena *arena, const char *name) {
    for (int i = 0; i < arena->kinds; i++) {
        if (strcmp(arena->kind[i].name, name) == 0) return &arena->kind[i];
    }
    if (arena->kinds == LS_ARENA_KINDS_MAX) {
        keep_error(arena, LS_ERR_FAILED, "an arena supports %d kinds of memory; '%s' is one too many",
                   LS_ARENA_KINDS_MAX, name);
        return NULL;
    }
    arena->kind[arena->kinds].name = name;
    return &arena->kind[arena->kinds++];
}

/* Makes the present use the peak, with what each kind has in use as its share. */
static void raise_peak(ls_arena *arena) {
    arena->peak = arena->used;
    for (int i = 0; i < arena->kinds; i++) arena->kind[i].bytes = arena->kind[i].live_bytes;
}

void *ls_arena_take(ls_arena *arena, const char *kind, size_t bytes) {
    if (arena->status != LS_OK) return NULL;
    ls_arena_kind *counted = find_or_add_kind(arena, kind);
    if (!counted) return NULL;
    size_t padded, end;
    if (__builtin_add_overflow(bytes, arena->align - 1, &padded) ||
        __builtin_add_overflow(arena->used, padded & ~(arena->align - 1), &end)) {
        keep_error(arena, LS_ERR_RESOURCE, "%zu bytes of %s on top of %zu others exceed the address space", bytes, kind,
                   arena->used);
        return NULL;
    }
    if (arena->carving && end > arena->capacity) {
        keep_error(arena, LS_ERR_FAILED, "%zu bytes of %s do not fit: %zu of the %zu measured bytes are in use", bytes,
                   kind, arena->used, arena->capacity);
        return NULL;
    }
    void *piece = arena->memory ? arena->memory + arena->used : NULL; /* while measuring there is none */
    counted->live_bytes += end - arena->used;
    arena->used = end;
    if (arena->used > arena->peak) raise_peak(arena);
    return piece;
}

void *ls_arena_take_array(ls_arena *arena, const char *kind, size_t count, size_t each) {
    size_t bytes;
    if (__builtin_mul_overflow(count, each, &bytes)) {
        keep_error(arena, LS_ERR_RESOURCE, "%zu blocks of %zu bytes of %s exceed the address space", count, each, kind);
        return NULL;
    }
    return ls_arena_take(arena, kind, bytes);
}

void ls_arena_phase_begin(ls_arena *arena) {
    if (arena->status != LS_OK) return;
    if (arena->phases == LS_ARENA_PHASES_MAX) {
        keep_error(arena, LS_ERR_FAILED, "arena phases nest at most %d deep", LS_ARENA_PHASES_MAX);
        return;
    }
    ls_arena_mark *mark = &arena->phase[arena->phases++];
    *mark = (ls_arena_mark){.used = arena->used};
    for (int i = 0; i < arena->kinds; i++) mark->live_bytes[i] = arena->kind[i].live_bytes;
}

void ls_arena_phase_end(ls_arena *arena) {
    if (arena->status != LS_OK) return;
    if (arena->phases == 0) {
        keep_error(arena, LS_ERR_FAILED, "an arena phase was ended that was not begun");
        return;
    }
    const ls_arena_mark *mark = &arena->phase[--arena->phases];
    assert(mark->used <= arena->used);
    arena->used = mark->used;
    for (int i = 0; i < arena->kinds; i++) arena->kind[i].live_bytes = mark->live_bytes[i];
}

ls_status ls_arena_finish(ls_arena *arena) {
    if (arena->phases > 0) keep_error(arena, LS_ERR_FAILED, "%d arena phases were not ended", arena->phases);
    if (arena->carving && arena->peak != arena->capacity)
        keep_error(arena, LS_ERR_FAILED, "a layout allocated %zu bytes after measuring %zu", arena->peak,
                   arena->capacity);
    return arena->status == LS_OK ? LS_OK : ls_fail(arena->status, "%s", arena->message);
}

size_t ls_arena_kind_bytes(const ls_arena *arena, const char *kind) {
    for (int i = 0; i < arena->kinds; i++) {
        if (strcmp(arena->kind[i].name, kind) == 0) return arena->kind[i].bytes;
    }
    return 0;
}

ls_status ls_arena_build(ls_arena_layout layout, void *layout_ctx, const ls_memory_source *source, ls_arena *arena) {
    ls_arena_measure(arena, source->align);
    LS_TRY(layout(arena, layout_ctx));
    LS_TRY(ls_arena_finish(arena));
    size_t bytes = arena->peak;
    void *memory = NULL;
    LS_TRY(source->alloc(source->ctx, bytes, &memory));
    ls_arena_carve(arena, source->align, memory, bytes);
    ls_status status = layout(arena, layout_ctx);
    if (status == LS_OK) status = ls_arena_finish(arena);
    if (status != LS_OK) {
        source->release(source->ctx, memory);
        arena->memory = NULL;
    }
    return status;
}
