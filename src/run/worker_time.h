/* worker_time.h: how each worker spends a step: computing, waiting for others, and parts of these, step by step.
 *
 * Always on: it reads the clock for waits and batch reads, and one small system file per step. Measurements are sent
 * with the sum that ends a backward pass (step.c), so they need no message of their own. That sum precedes the update,
 * so the time reported for a step contains the update of the previous step in place of its own, which takes as long.
 * Time between steps (evaluation, checkpoints) is not counted. The trainer owns one, and the loop records it.
 *
 * With many workers, means over several steps are reported, so that metrics stay small. */
#ifndef LS_RUN_WORKER_TIME_H
#define LS_RUN_WORKER_TIME_H

#include "comm/world/world.h"
#include "parallel/traffic/traffic.h"

/* The first two are a worker's step; the others are parts of them. */
typedef enum ls_worker_time_kind {
    LS_WORKER_BUSY,   /* all but waiting, in ms as all of them */
    LS_WORKER_WAIT,   /* for messages and collectives that were not done */
    LS_WORKER_NET,    /* part of waiting: data was in flight, and all peers had arrived, or which had is not known */
    LS_WORKER_INPUT,  /* of busy: reading the batch */
    LS_WORKER_QUEUED, /* of both, the main thread only: runnable without a core */
    LS_WORKER_CPU,    /* of both, the main thread only: on a core */
    LS_WORKER_TIMES
} ls_worker_time_kind;

/* A word has two times, of 32 bits each; a worker fills its own words and leaves 0 in the others, so sums are exact. */
_Static_assert((LS_WORKER_TIMES + 1) / 2 == LS_TRAFFIC_TIME_NUMBERS, "traffic.c counts them");

/* Returns the name of the member in a line of metrics, such as "busy_ms". */
const char *ls_worker_time_name(ls_worker_time_kind kind);

typedef struct ls_worker_time {
    const ls_world *world; /* borrowed; NULL: a single worker, for which only parts of busy time are reported */
    int workers;
    int queue_fd;                       /* /proc file with LS_WORKER_QUEUED; −1: none */
    uint64_t since_ns;                  /* start of the unreported time; 0: outside a step */
    uint64_t at_since[LS_WORKER_TIMES]; /* counters at that time */
    uint64_t input_ns;                  /* counter: see ls_worker_time_read() */
    uint64_t left_ns[LS_WORKER_TIMES];  /* of the last step, not reported yet */
    int every, steps;                   /* steps per report, more with more workers; steps added up so far */
    double *ms[LS_WORKER_TIMES];        /* by rank: the sum over steps; once `due`, the mean of a step */
    bool due;                           /* the report is complete */
} ls_worker_time;

/* Allocates and starts the measurement. `world` is borrowed; NULL: a single worker. ls_worker_time_close() ends it. Not
 * collective. */
ls_status ls_worker_time_open(ls_worker_time *time, const ls_world *world);
void ls_worker_time_close(ls_worker_time *time);

/* Marks the begin of a step; a report that was due is dropped. */
void ls_worker_time_begin(ls_worker_time *time);
/* Marks the end of a step, and sets `due` if a report is complete with it. Ignored without a begin. */
void ls_worker_time_end(ls_worker_time *time);

/* Adds the time from begin_ns (ls_clock_ns()) to now to LS_WORKER_INPUT: the time that reading the batch took. */
static inline void ls_worker_time_read(ls_worker_time *time, uint64_t begin_ns) {
    time->input_ns += ls_clock_ns() - begin_ns;
}

/* Returns how many 64-bit words the times of all workers take in the sum after backward; 0 for a single worker. */
static inline size_t ls_worker_time_words(const ls_worker_time *time) {
    return time->world ? (size_t)time->workers * LS_TRAFFIC_TIME_NUMBERS : 0;
}
/* Fills `words` (ls_worker_time_words() of them) with this worker's times since the last call, each at most 2^31 − 1
 * µs, before they are summed over all workers; with zeros outside a step. Does nothing for a single worker. */
void ls_worker_time_give(ls_worker_time *time, int64_t *words);
/* Adds the times of all workers, from the summed words, to `ms`. */
void ls_worker_time_take(ls_worker_time *time, const int64_t *words);

#endif
