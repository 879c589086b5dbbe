/* trace_read.c: parses the events of a trace one by one, so that only one of them is in memory as JSON. */
#include "observe/trace_read.h"

#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "parallel/layout/layout.h"

static const size_t FILE_MAX = (size_t)2 << 30;
static const double TIME_MAX_US = 1e15; /* thirty years: microseconds are exact to a quarter */

typedef struct reader {
    const char *source, *text;
    size_t bytes, at;
    size_t event_at; /* of the event being read */
    ls_trace *trace;
    double *ring_from; /* by worker: the first end since the last count of what was lost */
    /* The first half of a pair, which its second half follows at once. */
    bool has_open, open_is_wanted;
    char open_id[64];
    ls_trace_span open;
} reader;

/* Fails with LS_ERR_INPUT for the event being read; `what` completes "the event at byte N ...". */
static ls_status refuse_event(const reader *r, const char *what) {
    return ls_fail(LS_ERR_INPUT, "%s: the event at byte %zu %s; this is not a lockstep trace", r->source, r->event_at,
                   what);
}

/* ---- fields ------------------------------------------------------------------------------------------------------ */

/* Reads a whole number that the event must have. */
static ls_status whole_field(const reader *r, const json_t *object, const char *key, int64_t *out) {
    ls_status status = ls_json_get_i64(object, key, out);
    return status == LS_OK ? LS_OK : ls_fail_at(status, "%s: the event at byte %zu: ", r->source, r->event_at);
}

/* Reads a time in microseconds that the event must have; refuses negative ones and those beyond TIME_MAX_US. */
static ls_status time_field(const reader *r, const json_t *event, const char *key, double *out) {
    ls_status status = ls_json_get_f64(event, key, out);
    if (status != LS_OK) return ls_fail_at(status, "%s: the event at byte %zu: ", r->source, r->event_at);
    if (!(*out >= 0 && *out <= TIME_MAX_US)) return refuse_event(r, "has a timestamp out of range");
    return LS_OK;
}

/* Reads the worker, which is the "pid" of the event, and raises the number of workers of the trace to include it. */
static ls_status worker_field(const reader *r, const json_t *event, int *out) {
    int64_t pid;
    LS_TRY(whole_field(r, event, "pid", &pid));
    if (pid < 0 || pid >= LS_WORKERS_MAX) return refuse_event(r, "has an impossible worker number");
    *out = (int)pid;
    if (*out >= r->trace->workers) r->trace->workers = *out + 1;
    return LS_OK;
}

/* Returns the text, which belongs to the object, or "" if it is absent. */
static const char *text_field(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *category, *name;
    ls_mark mark;
} names[] = {
    {"stage", "forward", LS_MARK_FORWARD},
    {"stage", "backward", LS_MARK_BACKWARD},
    {"stage", "backward-input", LS_MARK_BACKWARD_INPUT},
    {"stage", "backward-weights", LS_MARK_BACKWARD_WEIGHTS},
    {"stage", "finish reductions", LS_MARK_FINISH},
    {"stage", "optimizer", LS_MARK_OPTIMIZER},
    {"stage", "publish", LS_MARK_PUBLISH},
    {"comm", "wait", LS_MARK_WAIT},
    {"train", "step", LS_MARK_STEP},
};

/* Returns the mark of the event by its category and name; LS_MARK_KINDS if it is not a span of training that is kept.
 */
static ls_mark mark_of(const json_t *event) {
    const char *category = text_field(event, "cat"), *name = text_field(event, "name");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].category, category) == 0 && strcmp(names[i].name, name) == 0) return names[i].mark;
    return LS_MARK_KINDS;
}

/* Returns whether the collective adds the contributions of workers. */
static bool is_sum(const char *operation) {
    return strcmp(operation, "reduce_scatter") == 0 || strcmp(operation, "all_reduce") == 0;
}

/* Returns whether the event is a gradient reduction: a sum over the communicator "dp". */
static bool is_reduction(const json_t *event) {
    return strcmp(text_field(event, "cat"), "comm") == 0 && is_sum(text_field(event, "name")) &&
           strcmp(text_field(json_object_get(event, "args"), "of"), "dp") == 0;
}

/* A run has some hundred different texts; in a file with more, the others become "…". */
enum { WORDS = 1 << 12, WORD_SLOTS = 2 * WORDS };

struct ls_trace_words {
    size_t count;
    char *word[WORD_SLOTS]; /* at the hash of the text, or behind it */
};

/* Sets *out to the trace's only copy of the text, which it adds if it is new; "..." if the table is full. */
static ls_status find_word(const reader *r, const char *text, const char **out) {
    struct ls_trace_words *words = r->trace->words;
    uint32_t hash = 2166136261u;
    for (const char *c = text; *c; c++) hash = (hash ^ (unsigned char)*c) * 16777619u;
    size_t at = hash % WORD_SLOTS;
    while (words->word[at] && strcmp(words->word[at], text) != 0) at = (at + 1) % WORD_SLOTS;
    *out = words->word[at] ? words->word[at] : "…";
    if (words->word[at] || words->count == WORDS) return LS_OK;
    words->word[at] = strdup(text);
    if (!words->word[at]) return ls_fail(LS_ERR_RESOURCE, "out of memory for the words of a trace");
    words->count++;
    *out = words->word[at];
    return LS_OK;
}

/* Frees the table and its texts (strings that events point to); NULL does nothing. */
static void free_words(struct ls_trace_words *words) {
    for (size_t i = 0; words && i < WORD_SLOTS; i++) free(words->word[i]);
    free(words);
}

/* ---- queues of GPUs ---------------------------------------------------------------------------------------------- */

static const char *const kind_names[] = {
#define KIND_NAME(id, name) name,
    LS_KERNEL_KIND_NAMES(KIND_NAME)
#undef KIND_NAME
};

const char *ls_kernel_kind_name(ls_kernel_kind kind) { return kind_names[kind]; }

/* Returns the kind from the event's category, "gpu KIND"; LS_KERNEL_KINDS if the event is not on a GPU, or of an
 * unknown kind. */
static ls_kernel_kind kernel_kind_of(const json_t *event) {
    const char *category = text_field(event, "cat");
    ls_kernel_kind kind = LS_KERNEL_KINDS;
    if (strncmp(category, "gpu ", 4) != 0) return kind;
    for (kind = 0; kind < LS_KERNEL_KINDS && strcmp(category + 4, kind_names[kind]) != 0;) kind++;
    return kind;
}

/* Adds the queue that a thread_name event names; threads of the host have no names. */
static ls_status read_lane(const reader *r, const json_t *event, int worker) {
    ls_trace *t = r->trace;
    ls_trace_lane lane = {.worker = worker};
    LS_TRY(whole_field(r, event, "tid", &lane.thread));
    LS_TRY(find_word(r, text_field(json_object_get(event, "args"), "name"), &lane.name));
    if (t->lanes >= (size_t)INT_MAX) return refuse_event(r, "is one lane too many");
    LS_TRY(ls_array_grow(&t->lane, t->lanes, sizeof *t->lane, "queues of a trace"));
    t->lane[t->lanes++] = lane;
    return LS_OK;
}

/* Adds a kernel. Its queue must be the one named last. */
static ls_status read_kernel(const reader *r, const json_t *event, ls_kernel_kind kind, const ls_trace_span *span) {
    ls_trace *t = r->trace;
    const json_t *args = json_object_get(event, "args");
    ls_trace_kernel k = {.begin_us = span->begin_us, .end_us = span->end_us, .worker = span->worker, .kind = kind};
    int64_t thread;
    LS_TRY(whole_field(r, event, "tid", &thread));
    if (t->lanes == 0 || t->lane[t->lanes - 1].worker != k.worker || t->lane[t->lanes - 1].thread != thread)
        return refuse_event(r, "is on a queue that has no name");
    k.lane = (int)t->lanes - 1;
    LS_TRY(whole_field(r, args, "n", &k.n));
    LS_TRY(find_word(r, text_field(event, "name"), &k.name));
    LS_TRY(find_word(r, text_field(args, "of"), &k.of));
    LS_TRY(ls_array_grow(&t->kernel, t->kernels, sizeof *t->kernel, "kernels of a trace"));
    t->kernel[t->kernels++] = k;
    return LS_OK;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

/* Appends a span to the trace; sort_spans() orders them at the end. */
static ls_status add_span(reader *r, const ls_trace_span *span) {
    ls_trace *t = r->trace;
    LS_TRY(ls_array_grow(&t->spans, t->count, sizeof *t->spans, "spans of a trace"));
    t->spans[t->count++] = *span;
    return LS_OK;
}

/* Notes the earliest end: events are recorded when they end and the oldest are dropped, so a thread or queue is
 * complete from its first end on. */
static void note_end(const reader *r, int worker, double end_us) {
    double *from = &r->ring_from[worker];
    if (end_us < *from) *from = end_us;
}

/* Reads the micro-batch of an action into span->micro, and checks its chunk. */
static ls_status read_action(const reader *r, const json_t *args, ls_trace_span *span) {
    int64_t micro;
    LS_TRY(whole_field(r, args, "micro", &micro));
    if (span->n < 0 || span->n >= LS_CHUNKS_MAX) return refuse_event(r, "has an impossible chunk number");
    if (micro < 0 || micro >= LS_SCHEDULE_UNITS_MAX) return refuse_event(r, "has an impossible micro-batch number");
    span->micro = (int)micro;
    return LS_OK;
}

/* Reads an event with begin and duration ("X"): adds a span of training or a kernel; others only count for where the
 * ring begins. */
static ls_status read_span(reader *r, const json_t *event) {
    ls_trace_span span = {.mark = mark_of(event)};
    double dur;
    LS_TRY(worker_field(r, event, &span.worker));
    LS_TRY(time_field(r, event, "ts", &span.begin_us));
    LS_TRY(time_field(r, event, "dur", &dur));
    span.end_us = span.begin_us + dur;
    note_end(r, span.worker, span.end_us);
    ls_kernel_kind kind = kernel_kind_of(event);
    if (kind < LS_KERNEL_KINDS) return read_kernel(r, event, kind, &span);
    if (span.mark == LS_MARK_KINDS) return LS_OK;
    const json_t *args = json_object_get(event, "args");
    LS_TRY(whole_field(r, args, "n", &span.n));
    if (ls_mark_is_action(span.mark)) LS_TRY(read_action(r, args, &span));
    span.for_sum = span.mark == LS_MARK_WAIT && is_sum(text_field(args, "of"));
    return add_span(r, &span);
}

/* Reads the first half of a pair ("b"), which overlaps with other spans; only gradient reductions are kept. */
static ls_status read_begin(reader *r, const json_t *event) {
    ls_trace_span *open = &r->open;
    if (r->has_open) return refuse_event(r, "begins a pair inside another pair");
    *open = (ls_trace_span){.mark = LS_MARK_REDUCTION};
    LS_TRY(worker_field(r, event, &open->worker));
    LS_TRY(time_field(r, event, "ts", &open->begin_us));
    r->open_is_wanted = is_reduction(event);
    if (r->open_is_wanted) {
        LS_TRY(whole_field(r, json_object_get(event, "args"), "n", &open->n));
        if (open->n < 0) return refuse_event(r, "has a negative byte count");
    }
    snprintf(r->open_id, sizeof r->open_id, "%s", text_field(event, "id"));
    r->has_open = true;
    return LS_OK;
}

/* Reads the second half of a pair ("e"), and adds the span if it is a gradient reduction. */
static ls_status read_end(reader *r, const json_t *event) {
    int worker = 0;
    if (!r->has_open || strcmp(text_field(event, "id"), r->open_id) != 0)
        return refuse_event(r, "ends a pair that was not begun");
    LS_TRY(worker_field(r, event, &worker));
    LS_TRY(time_field(r, event, "ts", &r->open.end_us));
    if (worker != r->open.worker || r->open.end_us < r->open.begin_us) return refuse_event(r, "ends before it begins");
    note_end(r, worker, r->open.end_us);
    r->has_open = false;
    return r->open_is_wanted ? add_span(r, &r->open) : LS_OK;
}

/* Reads metadata ("M"): the name of a queue, or how many events the thread or queue read so far has lost. Its events
 * before the first that it still has are missing, so complete_from of the worker moves there. */
static ls_status read_meta(reader *r, const json_t *event) {
    int worker = 0;
    int64_t dropped;
    LS_TRY(worker_field(r, event, &worker));
    if (strcmp(text_field(event, "name"), "thread_name") == 0) return read_lane(r, event, worker);
    if (strcmp(text_field(event, "name"), "dropped_events") != 0) return LS_OK;
    LS_TRY(whole_field(r, json_object_get(event, "args"), "dropped", &dropped));
    if (dropped < 0 || dropped > INT64_MAX / LS_WORKERS_MAX)
        return refuse_event(r, "has an impossible number of lost events");
    if (__builtin_add_overflow(r->trace->dropped[worker], (uint64_t)dropped, &r->trace->dropped[worker]) ||
        __builtin_add_overflow(r->trace->dropped_events, (uint64_t)dropped, &r->trace->dropped_events))
        return refuse_event(r, "has an impossible number of lost events");
    double *from = &r->trace->complete_from[worker];
    if (dropped > 0 && r->ring_from[worker] > *from) *from = r->ring_from[worker];
    r->ring_from[worker] = HUGE_VAL;
    return LS_OK;
}

/* Dispatches an event by its type; refuses types that lockstep does not write. */
static ls_status read_event(reader *r, const json_t *event) {
    const char *type = text_field(event, "ph");
    if (r->has_open && strcmp(type, "e") != 0) return refuse_event(r, "is between the begin and the end of a pair");
    if (strcmp(type, "X") == 0) return read_span(r, event);
    if (strcmp(type, "b") == 0) return read_begin(r, event);
    if (strcmp(type, "e") == 0) return read_end(r, event);
    if (strcmp(type, "M") == 0) return read_meta(r, event);
    return refuse_event(r, "has a type that lockstep does not write");
}

/* ---- the array --------------------------------------------------------------------------------------------------- */

/* Skips white space and returns the next character without consuming it; NUL at the end of the text. */
static char next_char(reader *r) {
    while (r->at < r->bytes && strchr(" \t\r\n", r->text[r->at]) && r->text[r->at]) r->at++;
    return r->at < r->bytes ? r->text[r->at] : '\0';
}

/* Parses the JSON object at the present position, reads it as an event, and moves behind it. */
static ls_status parse_event(reader *r) {
    json_error_t error;
    r->event_at = r->at;
    if (next_char(r) != '{') return refuse_event(r, "is not an object");
    json_t *event = json_loadb(r->text + r->at, r->bytes - r->at, JSON_DISABLE_EOF_CHECK, &error);
    if (!event && json_error_code(&error) == json_error_out_of_memory)
        return ls_fail(LS_ERR_RESOURCE, "out of memory for an event of %s", r->source);
    if (!event) return ls_fail(LS_ERR_INPUT, "%s: byte %zu: %s", r->source, r->at + (size_t)error.position, error.text);
    r->at += (size_t)error.position;
    ls_status status = read_event(r, event);
    json_decref(event);
    return status;
}

/* Reads the whole file: a JSON array of events, and nothing behind it. */
static ls_status parse_array(reader *r) {
    if (next_char(r) != '[')
        return ls_fail(LS_ERR_INPUT, "%s is not a trace: it must be a JSON array of events", r->source);
    r->at++;
    for (bool first = true; next_char(r) != ']'; first = false) {
        if (!first && next_char(r) != ',')
            return ls_fail(LS_ERR_INPUT,
                           "%s: byte %zu: a comma or the end of the array is missing; the file is damaged", r->source,
                           r->at);
        if (!first) r->at++;
        (void)next_char(r);
        LS_TRY(parse_event(r));
    }
    r->at++;
    r->event_at = r->at;
    if (r->has_open) return refuse_event(r, "is missing: a pair has no end");
    if (next_char(r) || r->at < r->bytes)
        return ls_fail(LS_ERR_INPUT, "%s: byte %zu: unexpected data after the end of the trace", r->source, r->at);
    return LS_OK;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

/* qsort() order: by worker, then by begin, an outer span before those inside it. */
static int compare_trace_spans(const void *a, const void *b) {
    const ls_trace_span *x = a, *y = b;
    if (x->worker != y->worker) return x->worker < y->worker ? -1 : 1;
    if (x->begin_us != y->begin_us) return x->begin_us < y->begin_us ? -1 : 1;
    if (x->end_us != y->end_us) return x->end_us > y->end_us ? -1 : 1;
    return (x->mark < y->mark) - (x->mark > y->mark);
}

/* qsort() order: by worker, then by queue, then by begin. */
static int compare_kernels(const void *a, const void *b) {
    const ls_trace_kernel *x = a, *y = b;
    if (x->worker != y->worker) return x->worker < y->worker ? -1 : 1;
    if (x->lane != y->lane) return x->lane < y->lane ? -1 : 1;
    return (x->begin_us > y->begin_us) - (x->begin_us < y->begin_us);
}

/* Sorts spans and kernels, and sets first[] to the index of each worker's first span. */
static void sort_spans(ls_trace *t) {
    if (t->count > 0) qsort(t->spans, t->count, sizeof *t->spans, compare_trace_spans);
    size_t at = 0;
    for (int w = 0; w <= t->workers; w++) {
        while (at < t->count && t->spans[at].worker < w) at++;
        t->first[w] = at;
    }
    if (t->kernels > 0) qsort(t->kernel, t->kernels, sizeof *t->kernel, compare_kernels);
}

ls_status ls_trace_parse(const char *source, const char *text, size_t bytes, ls_trace *out) {
    reader r = {.source = source, .text = text, .bytes = bytes, .trace = out};
    ls_status status;
    *out = (ls_trace){.first = calloc(LS_WORKERS_MAX + 1, sizeof *out->first),
                      .dropped = calloc(LS_WORKERS_MAX, sizeof *out->dropped),
                      .complete_from = malloc(LS_WORKERS_MAX * sizeof *out->complete_from),
                      .words = calloc(1, sizeof *out->words)};
    r.ring_from = malloc(LS_WORKERS_MAX * sizeof *r.ring_from);
    if (!out->first || !out->dropped || !out->complete_from || !out->words || !r.ring_from) {
        status = ls_fail(LS_ERR_RESOURCE, "out of memory for a trace");
        goto out;
    }
    for (int w = 0; w < LS_WORKERS_MAX; w++) out->complete_from[w] = -HUGE_VAL, r.ring_from[w] = HUGE_VAL;
    LS_TRY_OUT(parse_array(&r));
    sort_spans(out);
    free(r.ring_from);
    return LS_OK;
out:
    free(r.ring_from);
    ls_trace_free(out);
    return status;
}

ls_status ls_trace_open(const char *path, ls_trace *out) {
    char *text = NULL;
    size_t bytes = 0;
    *out = (ls_trace){0};
    LS_TRY(ls_file_read(path, FILE_MAX, &text, &bytes));
    ls_status status = ls_trace_parse(path, text, bytes, out);
    free(text);
    return status;
}

void ls_trace_free(ls_trace *trace) {
    if (!trace) return;
    free(trace->spans);
    free(trace->first);
    free(trace->dropped);
    free(trace->complete_from);
    free(trace->kernel);
    free(trace->lane);
    free_words(trace->words);
    *trace = (ls_trace){0};
}
