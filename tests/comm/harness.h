/* harness.h: what every conformance check needs: the communicator under test, draws that all its members make alike,
 * and buffers with guard areas.
 *
 * Invariants
 *   1. draw() is called the same number of times on every member of a communicator, so members agree without talking.
 *   2. Every buffer comes from area_new() and has a guard before and behind it; areas_end() looks at all of them.
 */
#ifndef TESTS_COMM_HARNESS_H
#define TESTS_COMM_HARNESS_H

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "lockstep.h"
#include "reference.h"

typedef enum buffer_kind { BUFFERS_SHARED, BUFFERS_PRIVATE, BUFFERS_MIXED, BUFFERS_COUNT } buffer_kind;
/* How a collective is called: the blocking form, or started and then waited for or polled. */
typedef enum call_form { CALL_BLOCKING, CALL_WAITED, CALL_POLLED, CALL_COUNT } call_form;

enum { GUARD_BYTES = 64, GUARD_VALUE = 0xA5, FRESH_VALUE = 0xEE };

typedef struct area {
    unsigned char *memory, *data;
    size_t bytes, memory_bytes;
    bool shared;
} area;

typedef struct harness {
    ls_world *world;
    ls_comm *comm;
    int rank, size; /* in comm */
    uint64_t seed, draws, checks;
    int buffers; /* a buffer_kind, or −1: all in turn */
    bool some;   /* of long sums only some: the reference takes its time */
    area *areas;
    size_t area_count, area_room, areas_made;
    uint64_t bits[2]; /* hashes of the G = 8 and the G = 12 sums; 0: not made */
} harness;

static inline uint64_t draw(harness *h) { return h->draws = ref_mix(h->draws); }

static inline size_t draw_below(harness *h, size_t limit) { return (size_t)(draw(h) % limit); }

static inline buffer_kind draw_buffers(harness *h) {
    buffer_kind kind = (buffer_kind)draw_below(h, BUFFERS_COUNT);
    return h->buffers >= 0 ? (buffer_kind)h->buffers : kind;
}

static inline call_form draw_form(harness *h) { return (call_form)draw_below(h, CALL_COUNT); }

/* The same harness on another communicator; its draws go their own way. Ends with areas_free(). */
static inline harness harness_on(const harness *h, ls_comm *comm, uint64_t purpose) {
    harness sub = *h;
    sub.comm = comm;
    sub.rank = ls_comm_rank(comm);
    sub.size = ls_comm_size(comm);
    sub.draws = ref_mix(h->seed ^ purpose);
    sub.checks = 0;
    sub.areas = NULL;
    sub.area_count = sub.area_room = 0;
    return sub;
}

/* ---- buffers ----------------------------------------------------------------------------------------------------- */

/* `offset` moves the data off its alignment. The buffer is filled with FRESH_VALUE. */
static inline ls_status area_new(harness *h, buffer_kind kind, size_t bytes, size_t offset, unsigned char **data) {
    *data = NULL;
    if (h->area_count == h->area_room) {
        size_t room = h->area_room ? h->area_room * 2 : 64;
        area *grown = realloc(h->areas, room * sizeof *grown);
        if (grown == NULL) return ls_fail(LS_ERR_RESOURCE, "no memory for %zu test buffers", room);
        h->areas = grown;
        h->area_room = room;
    }
    area made = {.bytes = bytes, .memory_bytes = bytes + offset + 2 * GUARD_BYTES};
    h->areas_made++;
    made.shared = kind == BUFFERS_SHARED || (kind == BUFFERS_MIXED && (h->areas_made + (size_t)h->rank) % 2 == 0);
    if (made.shared) {
        void *memory;
        LS_TRY(ls_world_alloc(h->world, made.memory_bytes, &memory));
        made.memory = memory;
    } else {
        made.memory = malloc(made.memory_bytes);
        if (made.memory == NULL) return ls_fail(LS_ERR_RESOURCE, "no memory for %zu bytes", made.memory_bytes);
    }
    made.data = made.memory + GUARD_BYTES + offset;
    memset(made.memory, GUARD_VALUE, made.memory_bytes);
    memset(made.data, FRESH_VALUE, bytes);
    h->areas[h->area_count++] = made;
    *data = made.data;
    return LS_OK;
}

static inline bool area_guards_hold(const area *a) {
    for (const unsigned char *p = a->memory; p < a->data; p++) {
        if (*p != GUARD_VALUE) return false;
    }
    for (const unsigned char *p = a->data + a->bytes; p < a->memory + a->memory_bytes; p++) {
        if (*p != GUARD_VALUE) return false;
    }
    return true;
}

static inline void areas_free(harness *h) {
    for (size_t i = 0; i < h->area_count; i++) {
        if (h->areas[i].shared) {
            ls_world_free(h->world, h->areas[i].memory);
        } else {
            free(h->areas[i].memory);
        }
    }
    free(h->areas);
    h->areas = NULL;
    h->area_count = h->area_room = 0;
}

/* Ends one case: looks at all guards and gives the buffers back. */
static inline ls_status areas_end(harness *h, const char *what) {
    size_t bad = 0;
    while (bad < h->area_count && area_guards_hold(&h->areas[bad])) bad++;
    bool held = bad == h->area_count;
    size_t bytes = held ? 0 : h->areas[bad].bytes;
    areas_free(h);
    if (held) return LS_OK;
    return ls_fail(LS_ERR_FAILED, "%s: W=%d rank %d wrote outside buffer %zu of %zu bytes", what, h->size, h->rank, bad,
                   bytes);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static inline ls_status finish_request(ls_request *request, call_form form) {
    if (form != CALL_POLLED) return ls_request_wait(request);
    for (int done = 0; !done;) {
        LS_TRY(ls_request_test(request, &done));
        if (!done) sched_yield();
    }
    return LS_OK;
}

static inline ls_status same_words(harness *h, const char *what, const int *got, const int *wanted, int count) {
    for (int i = 0; i < count; i++) {
        h->checks++;
        if (got[i] != wanted[i])
            return ls_fail(LS_ERR_FAILED, "%s: W=%d rank %d entry %d is %d, not %d", what, h->size, h->rank, i, got[i],
                           wanted[i]);
    }
    return LS_OK;
}

static inline ls_status expect(harness *h, bool holds, const char *what) {
    h->checks++;
    return holds ? LS_OK : ls_fail(LS_ERR_FAILED, "W=%d rank %d: this does not hold: %s", h->size, h->rank, what);
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static inline void pattern_fill(unsigned char *to, size_t bytes, uint64_t key) {
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = ref_mix(key + i);
        memcpy(to + i, &word, bytes - i < 8 ? bytes - i : 8);
    }
}

static inline ls_status pattern_check(harness *h, const char *op, const unsigned char *got, size_t bytes, uint64_t key,
                                      int from) {
    h->checks++;
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = ref_mix(key + i);
        size_t part = bytes - i < 8 ? bytes - i : 8;
        if (memcmp(got + i, &word, part) == 0) continue;
        size_t k = 0;
        while (got[i + k] == ((const unsigned char *)&word)[k]) k++;
        return ls_fail(LS_ERR_FAILED, "%s: W=%d rank %d, %zu bytes from rank %d: byte %zu is %02x, not %02x", op,
                       h->size, h->rank, bytes, from, i + k, got[i + k], ((const unsigned char *)&word)[k]);
    }
    return LS_OK;
}

/* The key of the bytes that `from` hands to `to` in one trial. */
static inline uint64_t pattern_key(const harness *h, uint64_t trial, int from, int to) {
    return ref_random(h->seed, trial, (uint64_t)(from + 1), (uint64_t)(to + 1));
}

#endif
