/* events.h: trace spans. What ran when, on which thread, for a timeline.
 *
 *     ls_span span = ls_span_begin("comm", "all_reduce");
 *     …
 *     ls_span_end(span, (int64_t)bytes);
 *
 * A span has one number, or two with ls_span_end2(): the second is the micro-batch it belongs to. Spans of one thread
 * nest; one that need not, because it runs from a start to a completion while the thread does other things, ends with
 * ls_span_end_overlapping() and has a line of its own in a timeline.
 *
 * Off, a span costs one relaxed load. On, each thread has a ring of fixed size, made at its first event, in which the
 * newest event replaces the oldest; how many were lost is counted. Category and name are string literals: the pointers
 * are kept. Any thread may record; enable, disable and json may be called at any time, from one thread at a time. After
 * fork() a child that records its own events calls ls_events_enable() first. */
#ifndef LS_BASE_EVENTS_H
#define LS_BASE_EVENTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/status.h"

typedef struct ls_span {
    const char *category, *name;
    const char *of;    /* what it is about, a string literal; NULL: nothing */
    uint64_t start_ns; /* 0: recording was off */
} ls_span;

/* Starts recording with empty rings of this many events (at least 1). */
ls_status ls_events_enable(size_t events_per_thread);
/* Stops recording; the events stay until the next enable. */
void ls_events_disable(void);

/* The events as objects of Chrome's trace format, separated by commas and without the brackets of the array, so that
 * the parts of several workers join to one: pid is the worker, tid a small number for the thread, ts and dur are in
 * microseconds of ls_clock_ns(), args.n is the argument of ls_span_end(), args.micro the micro-batch and args.of what
 * the span is about, each only where given. A span is one object of type X; an overlapping one is two, of types b and
 * e, the second right behind the first, with an id of their own. Each thread's events are in order of their start, an
 * outer span before the ones inside it. A lane is a thread with a "thread_name" of type M in front of its events. One
 * "dropped_events" object of type M tells args.dropped for each thread, behind its events. The
 * caller frees *text; it has a NUL behind its `*bytes` bytes. */
ls_status ls_events_json(int worker, char **text, size_t *bytes);

extern atomic_bool ls_events_on;
static inline bool ls_events_are_on(void) { return atomic_load_explicit(&ls_events_on, memory_order_relaxed); }

/* What of an event is not in its span. */
typedef struct ls_event_end {
    int64_t n, micro;
    bool has_micro, overlapping;
} ls_event_end;
void ls_events_record(ls_span span, ls_event_end end);

static inline ls_span ls_span_begin(const char *category, const char *name) {
    ls_span span = {.category = category, .name = name};
    if (ls_events_are_on()) span.start_ns = ls_clock_ns();
    return span;
}

static inline void ls_span_end(ls_span span, int64_t n) {
    if (span.start_ns != 0) ls_events_record(span, (ls_event_end){.n = n});
}

static inline void ls_span_end2(ls_span span, int64_t n, int64_t micro) {
    if (span.start_ns != 0) ls_events_record(span, (ls_event_end){.n = n, .micro = micro, .has_micro = true});
}

static inline void ls_span_end_overlapping(ls_span span, int64_t n) {
    if (span.start_ns != 0) ls_events_record(span, (ls_event_end){.n = n, .overlapping = true});
}

/* ---- what no thread did ------------------------------------------------------------------------------------------ */

/* A line of the timeline for a queue of a device, with a ring like that of a thread: whoever learns when something ran
 * there adds it, from one thread at a time. It stays for the life of the process; `name` is kept. NULL: no memory. */
typedef struct ls_lane ls_lane;
ls_lane *ls_events_lane(const char *name);
/* The same text, kept for the life of the process, for spans whose words are no literals; cut to so many bytes. NULL:
 * there are too many different ones. */
enum { LS_EVENTS_WORD_BYTES = 48 };
const char *ls_events_word(const char *text);
/* A span that is over. Nothing where recording is off. */
void ls_events_add(ls_lane *lane, ls_span span, uint64_t duration_ns, int64_t n);
/* So many could not be added. */
void ls_events_lose(ls_lane *lane, uint64_t count);

#endif
