/* trace_read.h: reads the spans of training from a trace file (trace.h): what each worker did, and when. timeline.h
 * measures them.
 *
 * The file is untrusted: numbers are checked, memory is bounded by its size, and errors give the position of the event.
 * Events of other kinds are skipped. */
#ifndef LS_OBSERVE_TRACE_READ_H
#define LS_OBSERVE_TRACE_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "parallel/schedule/schedule.h"

/* What a span of the host is: an action of the schedule, or one of the other parts of a step. */
typedef enum ls_mark {
    LS_MARK_FORWARD = LS_ACTION_FORWARD, /* the actions of a schedule come first, with its numbers */
    LS_MARK_BACKWARD = LS_ACTION_BACKWARD,
    LS_MARK_BACKWARD_INPUT = LS_ACTION_BACKWARD_INPUT,
    LS_MARK_BACKWARD_WEIGHTS = LS_ACTION_BACKWARD_WEIGHTS,
    LS_MARK_FINISH = LS_ACTION_KINDS, /* waiting for the remaining gradient reductions */
    LS_MARK_OPTIMIZER,
    LS_MARK_PUBLISH,   /* sending updated weights to the DP group */
    LS_MARK_WAIT,      /* for any message or collective */
    LS_MARK_REDUCTION, /* a gradient reduction over dp, from start to end; it overlaps with other spans */
    LS_MARK_STEP,      /* the whole step of a worker */
    LS_MARK_KINDS
} ls_mark;

typedef struct ls_trace_span {
    double begin_us, end_us;
    /* of an action: its chunk, counted in the model; of a wait or a reduction: bytes; of a step: its number */
    int64_t n;
    int micro; /* of an action: its micro-batch */
    int worker;
    ls_mark mark;
    bool for_sum; /* a wait for a sum of any kind */
} ls_trace_span;

/* What a queue (CUDA stream) of a GPU does: the word that follows "gpu " in a span's category. */
#define LS_KERNEL_KIND_NAMES(X)                                                                                        \
    X(PRODUCTS, "products")                                                                                            \
    X(ATTENTION, "attention")                                                                                          \
    X(NORMS, "norms")                                                                                                  \
    X(LOSS, "loss")                                                                                                    \
    X(OPTIMIZER, "optimizer")                                                                                          \
    X(ELEMENTWISE, "elementwise")                                                                                      \
    X(CONVERSION, "conversion")                                                                                        \
    X(COMMUNICATION, "communication")                                                                                  \
    X(COPIES, "copies")                                                                                                \
    X(WAITING, "waiting") /* for another queue, or for another worker */

typedef enum ls_kernel_kind {
#define LS_KERNEL_KIND(id, name) LS_KERNEL_##id,
    LS_KERNEL_KIND_NAMES(LS_KERNEL_KIND)
#undef LS_KERNEL_KIND
        LS_KERNEL_KINDS
} ls_kernel_kind;

/* Returns a static text: "products" (GEMMs), "attention", … */
const char *ls_kernel_kind_name(ls_kernel_kind kind);

/* A kernel, copy or wait on a queue. `name` and `of` belong to the trace; equal texts have the same address. */
typedef struct ls_trace_kernel {
    double begin_us, end_us;
    const char *name, *of; /* of: the operation that launched it; "": unknown */
    int64_t n;             /* bytes of a copy, else blocks */
    int worker, lane;      /* lane: of ls_trace.lane */
    ls_kernel_kind kind;
} ls_trace_kernel;

/* A queue of a worker; its number in ls_trace.lane is the `lane` of its kernels. */
typedef struct ls_trace_lane {
    int worker;
    int64_t thread;
    const char *name;
} ls_trace_lane;

/* Returns whether the span is a forward or backward action of the pipeline schedule. */
static inline bool ls_mark_is_action(ls_mark mark) { return (int)mark < LS_ACTION_KINDS; }

/* Spans in the order of workers, then of time, an outer one before those inside it. */
typedef struct ls_trace {
    int workers;
    size_t count;
    ls_trace_span *spans;
    size_t *first;           /* [workers + 1]: index of each worker's first span; the last is `count` */
    uint64_t *dropped;       /* by worker: events that were overwritten because the ring was full */
    double *complete_from;   /* by worker, us: no event that began later is missing */
    uint64_t dropped_events; /* of all workers */
    /* In the order of workers, lanes and time. */
    size_t kernels, lanes;
    ls_trace_kernel *kernel;
    ls_trace_lane *lane;
    struct ls_trace_words *words; /* texts of kernels and lanes, each once */
} ls_trace;

/* Reads a trace from a text; `source` names it in messages. Free it with ls_trace_free(). LS_ERR_INPUT, and the
 * position of the event, if it is no trace of this program; then there is nothing to free. The text may be freed
 * after parsing. */
ls_status ls_trace_parse(const char *source, const char *text, size_t bytes, ls_trace *out);
/* Reads a trace from a file of at most 2 GiB. Free it with ls_trace_free(). LS_ERR_INPUT, and the position of the
 * event, if it is no trace of this program; then there is nothing to free. */
ls_status ls_trace_open(const char *path, ls_trace *out);
/* Frees what the trace points to, and empties it; NULL does nothing. */
void ls_trace_free(ls_trace *trace);

#endif
