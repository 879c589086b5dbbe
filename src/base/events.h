/* events.h: trace spans: what ran when on which thread of this worker, for a timeline. The executor, collectives and
 * devices record them; observe/trace.h collects those of all workers into a file.
 *
 *     ls_span span = ls_span_begin("comm", "all_reduce");
 *     …
 *     ls_span_end(span, (int64_t)bytes);
 *
 * A span has one number, or two with ls_span_end2(): the second is its micro-batch. Spans of one thread nest. A span of
 * an asynchronous operation, which overlaps with others of its thread, ends with ls_span_end_overlapping() and gets a
 * line of its own in a timeline.
 *
 * While recording is off, a span costs one relaxed load. While it is on, each thread has a ring of fixed size, made at
 * its first event; the newest event replaces the oldest, and the lost ones are counted. Category and name must be
 * string literals, because the pointers are kept. Any thread may record; enable, disable and json may be called at any
 * time, from one thread at a time. A forked child that records events calls ls_events_enable() first. */
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
    const char *of;    /* its subject, a string literal; NULL: none */
    uint64_t start_ns; /* 0: recording was off */
} ls_span;

/* Starts recording with empty rings of this many events (at least 1). */
ls_status ls_events_enable(size_t events_per_thread);
/* Stops recording. The events stay until the next enable, so they can still be written. */
void ls_events_disable(void);

/* Writes the events as objects of Chrome's trace format, separated by commas and without the brackets of the array, so
 * that the texts of several workers can be concatenated. The first object, "process_name" (type M), names the worker.
 * pid is the worker, tid a small number for the thread, ts and dur are in microseconds of ls_clock_ns(), args.n is the
 * argument of ls_span_end(), args.micro the micro-batch and args.of the span's subject, the last two only if given. A
 * span is one object of type X; an overlapping span is a pair of types b and e, adjacent and with an id of its own.
 * Each thread's events are in order of their start, an outer span before the ones inside it. A lane is a thread with a
 * "thread_name" object (type M) before its events. After each thread's events a "dropped_events" object (type M) has
 * args.dropped. The events are kept. The caller frees *text, which has a NUL behind its `*bytes` bytes. */
ls_status ls_events_json(int worker, char **text, size_t *bytes);

extern atomic_bool ls_events_on;
/* Returns whether spans are being recorded. Any thread. */
static inline bool ls_events_are_on(void) { return atomic_load_explicit(&ls_events_on, memory_order_relaxed); }

/* The part of an event that is known at its end. */
typedef struct ls_event_end {
    int64_t n, micro;
    bool has_micro, overlapping;
} ls_event_end;
/* Records a span that ends now in the calling thread's ring. Called by the functions below, only for spans that began
 * while recording was on; drops the span if recording is off by now or memory is short. */
void ls_events_record(ls_span span, ls_event_end end);

/* Begins a span; both texts are string literals. */
static inline ls_span ls_span_begin(const char *category, const char *name) {
    ls_span span = {.category = category, .name = name};
    if (ls_events_are_on()) span.start_ns = ls_clock_ns();
    return span;
}

/* Ends the span, with a number such as its bytes. */
static inline void ls_span_end(ls_span span, int64_t n) {
    if (span.start_ns != 0) ls_events_record(span, (ls_event_end){.n = n});
}

/* Ends the span, with a number and its micro-batch. */
static inline void ls_span_end2(ls_span span, int64_t n, int64_t micro) {
    if (span.start_ns != 0) ls_events_record(span, (ls_event_end){.n = n, .micro = micro, .has_micro = true});
}

/* Ends a span that may overlap others of its thread. */
static inline void ls_span_end_overlapping(ls_span span, int64_t n) {
    if (span.start_ns != 0) ls_events_record(span, (ls_event_end){.n = n, .overlapping = true});
}

/* ---- device queues ----------------------------------------------------------------------------------------------- */

/* A line of the timeline for a queue of a device (a CUDA stream). */
typedef struct ls_lane ls_lane;
/* Makes a line of the timeline for a device queue, with a ring like that of a thread. Spans are added to it after
 * they have ended, from one thread at a time. It lives as long as the process; the pointer `name` is kept. Returns
 * NULL if memory is short. */
ls_lane *ls_events_lane(const char *name);
enum { LS_EVENTS_WORD_BYTES = 48 }; /* with the NUL */
/* Interns a text for spans whose words are not literals: returns a copy that lives as long as the process, cut to
 * LS_EVENTS_WORD_BYTES − 1 bytes. NULL: there are 1024 different texts already. */
const char *ls_events_word(const char *text);
/* Adds a completed span to the lane, with its start in span.start_ns (time of ls_clock_ns()). Does nothing while
 * recording is off. */
void ls_events_add(ls_lane *lane, ls_span span, uint64_t duration_ns, int64_t n);
/* Adds `count` to the lane's number of dropped events, for spans that the caller could not add. */
void ls_events_lose(ls_lane *lane, uint64_t count);

#endif
