/* events.c: the rings of events, and their JSON.
 *
 * Invariants
 * 1. A ring belongs to one thread for the life of the process and is never freed, so the pointer that a thread keeps
 *    stays valid. Only its array of events is replaced, by ls_events_enable().
 * 2. A ring's array and counts are accessed under its lock, which is uncontended during a run.
 * 3. Locks are taken in the order registry, ring. */
#include "base/events.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct event {
    ls_span span;
    uint64_t duration_ns;
    uint64_t number; /* counts the thread's events; the id of an overlapping span */
    ls_event_end end;
} event;

/* The ring of a thread, or of a lane, which has a name. */
typedef struct ls_lane {
    pthread_mutex_t lock;
    struct ls_lane *next;
    const char *name;
    int thread;
    event *events; /* NULL until the thread's first event since enable */
    size_t capacity;
    uint64_t recorded; /* since enable; the newest is at (recorded − 1) mod capacity */
    uint64_t lost;     /* dropped by lack of memory or by the caller */
} ring;

atomic_bool ls_events_on;

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static ring *registry;
static int registry_threads;
static atomic_size_t ring_capacity;
static _Thread_local ring *own_ring;

/* ---- recording --------------------------------------------------------------------------------------------------- */

/* Makes a ring and enters it into the registry. `name` is NULL for a thread. Returns NULL if memory is short. */
static ring *make_ring(const char *name) {
    ring *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    if (pthread_mutex_init(&r->lock, NULL) != 0) {
        free(r);
        return NULL;
    }
    r->name = name;
    pthread_mutex_lock(&registry_lock);
    r->thread = registry_threads++;
    r->next = registry;
    registry = r;
    pthread_mutex_unlock(&registry_lock);
    return r;
}

/* Adds the event to the ring, under the ring's lock; replaces the oldest event if the ring is full. Allocates the array
 * at the first event; without memory, counts the event as lost. */
static void push_event(ring *r, const event *e) {
    pthread_mutex_lock(&r->lock);
    if (!r->events) {
        r->capacity = atomic_load_explicit(&ring_capacity, memory_order_relaxed);
        r->events = calloc(r->capacity, sizeof *r->events);
    }
    if (r->events) {
        event *place = &r->events[r->recorded % r->capacity];
        *place = *e;
        place->number = r->recorded++;
    } else {
        r->lost++;
    }
    pthread_mutex_unlock(&r->lock);
}

void ls_events_record(ls_span span, ls_event_end end) {
    if (!ls_events_are_on()) return;
    uint64_t end_ns = ls_clock_ns();
    if (!own_ring) own_ring = make_ring(NULL);
    if (!own_ring) return; /* no memory: the event is dropped, because a trace must not stop a run */
    push_event(own_ring, &(event){.span = span, .duration_ns = end_ns - span.start_ns, .end = end});
}

ls_lane *ls_events_lane(const char *name) { return make_ring(name); }

void ls_events_add(ls_lane *lane, ls_span span, uint64_t duration_ns, int64_t n) {
    if (ls_events_are_on()) push_event(lane, &(event){.span = span, .duration_ns = duration_ns, .end = {.n = n}});
}

const char *ls_events_word(const char *text) {
    enum { WORDS = 1 << 10 };
    static char words[WORDS][LS_EVENTS_WORD_BYTES];
    static int count;
    const char *found = NULL;
    pthread_mutex_lock(&registry_lock);
    for (int i = 0; i < count && !found; i++)
        if (strncmp(words[i], text, LS_EVENTS_WORD_BYTES - 1) == 0) found = words[i];
    if (!found && count < WORDS) {
        (void)snprintf(words[count], sizeof *words, "%s", text);
        found = words[count++];
    }
    pthread_mutex_unlock(&registry_lock);
    return found;
}

void ls_events_lose(ls_lane *lane, uint64_t count) {
    pthread_mutex_lock(&lane->lock);
    lane->lost += count;
    pthread_mutex_unlock(&lane->lock);
}

ls_status ls_events_enable(size_t events_per_thread) {
    if (events_per_thread < 1 || events_per_thread > SIZE_MAX / sizeof(event))
        return ls_fail(LS_ERR_INPUT, "a trace of %zu events per thread; use at least 1", events_per_thread);
    atomic_store(&ls_events_on, false);
    pthread_mutex_lock(&registry_lock);
    atomic_store(&ring_capacity, events_per_thread);
    for (ring *r = registry; r; r = r->next) {
        pthread_mutex_lock(&r->lock);
        free(r->events);
        r->events = NULL;
        r->recorded = r->lost = 0;
        pthread_mutex_unlock(&r->lock);
    }
    pthread_mutex_unlock(&registry_lock);
    atomic_store(&ls_events_on, true);
    return LS_OK;
}

void ls_events_disable(void) { atomic_store(&ls_events_on, false); }

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* Orders by start, for qsort(); of spans that start together the longest, the outer one, comes first. */
static int compare_events(const void *a, const void *b) {
    const event *x = a, *y = b;
    if (x->span.start_ns != y->span.start_ns) return x->span.start_ns < y->span.start_ns ? -1 : 1;
    if (x->duration_ns != y->duration_ns) return x->duration_ns > y->duration_ns ? -1 : 1;
    return 0;
}

/* Prints a text as a JSON string, with escapes. */
static void print_json_string(FILE *out, const char *text) {
    putc('"', out);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20)
            fprintf(out, "\\u%04x", c);
        else if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else
            putc(c, out);
    }
    putc('"', out);
}

/* Prints nanoseconds as microseconds with three decimals. */
static void print_us(FILE *out, uint64_t ns) { fprintf(out, "%" PRIu64 ".%03u", ns / 1000, (unsigned)(ns % 1000)); }

/* Prints an object up to its time, without the closing brace. */
static void print_head(FILE *out, const char *type, int worker, int thread, const event *e, uint64_t at_ns) {
    fprintf(out, ",\n{\"ph\":\"%s\",\"cat\":", type);
    print_json_string(out, e->span.category);
    fputs(",\"name\":", out);
    print_json_string(out, e->span.name);
    fprintf(out, ",\"pid\":%d,\"tid\":%d,\"ts\":", worker, thread);
    print_us(out, at_ns);
    if (e->end.overlapping) fprintf(out, ",\"id\":\"%d.%d.%" PRIu64 "\"", worker, thread, e->number);
}

/* Prints the arguments of an event and closes its object. */
static void print_args(FILE *out, const event *e) {
    fprintf(out, ",\"args\":{\"n\":%" PRId64, e->end.n);
    if (e->end.has_micro) fprintf(out, ",\"micro\":%" PRId64, e->end.micro);
    if (e->span.of) {
        fputs(",\"of\":", out);
        print_json_string(out, e->span.of);
    }
    fputs("}}", out);
}

/* Prints a span as one object, an overlapping one as a pair with an id: in viewers the spans of a thread must nest. */
static void print_event(FILE *out, int worker, int thread, const event *e) {
    if (e->end.overlapping) {
        print_head(out, "b", worker, thread, e, e->span.start_ns);
        print_args(out, e);
        print_head(out, "e", worker, thread, e, e->span.start_ns + e->duration_ns);
        putc('}', out);
        return;
    }
    print_head(out, "X", worker, thread, e, e->span.start_ns);
    fputs(",\"dur\":", out);
    print_us(out, e->duration_ns);
    print_args(out, e);
}

/* Prints the events of a thread or lane, and how many were dropped. Sorts and prints a copy, so that the thread is
 * blocked only while its ring is copied. */
static ls_status print_ring(FILE *out, int worker, ring *r) {
    pthread_mutex_lock(&r->lock);
    size_t count = !r->events || r->recorded < r->capacity ? (size_t)r->recorded : r->capacity;
    uint64_t dropped = r->recorded - count + r->lost;
    event *copy = count > 0 ? malloc(count * sizeof *copy) : NULL;
    if (copy) memcpy(copy, r->events, count * sizeof *copy);
    pthread_mutex_unlock(&r->lock);
    if (count > 0 && !copy) return ls_fail(LS_ERR_RESOURCE, "out of memory to write %zu trace events", count);
    if (count > 0) qsort(copy, count, sizeof *copy, compare_events);
    if (r->name && (count > 0 || dropped > 0)) {
        fprintf(out, ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":", worker,
                r->thread);
        print_json_string(out, r->name);
        fputs("}}", out);
    }
    for (size_t i = 0; i < count; i++) print_event(out, worker, r->thread, &copy[i]);
    free(copy);
    if (count > 0 || dropped > 0)
        fprintf(out,
                ",\n{\"ph\":\"M\",\"name\":\"dropped_events\",\"pid\":%d,\"tid\":%d,\"args\":{\"dropped\":%" PRIu64
                "}}",
                worker, r->thread, dropped);
    return LS_OK;
}

ls_status ls_events_json(int worker, char **text, size_t *bytes) {
    *text = NULL;
    *bytes = 0;
    FILE *out = open_memstream(text, bytes);
    if (!out) return ls_fail_errno(LS_ERR_RESOURCE, "cannot format the trace");
    fprintf(out, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"worker %d\"}}", worker,
            worker);
    ls_status status = LS_OK;
    pthread_mutex_lock(&registry_lock);
    for (ring *r = registry; r && status == LS_OK; r = r->next) status = print_ring(out, worker, r);
    pthread_mutex_unlock(&registry_lock);
    bool complete = !ferror(out);
    if ((fclose(out) != 0 || !complete) && status == LS_OK)
        status = ls_fail(LS_ERR_RESOURCE, "out of memory to format the trace");
    if (status != LS_OK) {
        free(*text);
        *text = NULL;
        *bytes = 0;
    }
    return status;
}
