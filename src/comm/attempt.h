/* attempt.h: workers of one machine that are started anew after one of them was lost.
 *
 * The process that forks them becomes a supervisor: it holds no tensors and opens no GPU, sees a death by SIGCHLD, ends
 * the workers that are left, and forks a new set, which may be larger or smaller. Tensors of CPU workers lie in the
 * segment, which is the supervisor's and outlives them; those of other devices are brought there by the workers that
 * are left, before they end:
 *
 *     attempt k      segment k      a worker dies, all are ended; what they left is in segment k
 *     attempt k+1    segment k+1    its workers take the state from segment k and say that they are ready
 *                                   all are: segment k is given back
 *                                   one dies before: segment k+1 is dropped, attempt k+2 begins from segment k again
 *
 * What a worker leaves, and where, is the caller's: an offset in its record, `kept`. */
#ifndef LS_COMM_ATTEMPT_H
#define LS_COMM_ATTEMPT_H

#include "comm/shm/segment.h"
#include "lockstep.h"

typedef struct ls_attempt {
    int number;        /* 0: the first */
    uint64_t seen_ns;  /* when the loss before this attempt was seen; 0: there was none */
    uint64_t begun_ns; /* when the workers before were gone, and these were about to be forked */
    ls_segment before; /* what the last whole attempt left; base NULL: nothing, begin as if there had been none */
} ls_attempt;

/* Why an attempt ended before the run did. */
typedef struct ls_attempt_end {
    int rank;            /* of the worker that was lost; −1: all left because they were asked to */
    bool whole;          /* all workers had the state: the segment is what to go on from */
    ls_segment *segment; /* of this attempt, or of the last whole one; base NULL: there is none */
    const struct ls_placement *placement;
    char text[LS_MESSAGE_MAX];
    /* Answers of next(). */
    int shares_out;  /* places that cores are shared out to anew; 0: they stay as they are */
    int wrong_place; /* whose cores compute wrongly; −1: none */
} ls_attempt_end;

/* What the supervisor asks its caller, in the process that forks. */
typedef struct ls_supervision {
    /* The workers of the next attempt, and in `places` which place each of them has (its cores, its GPU). Other than
     * LS_OK ends the run so. */
    ls_status (*next)(void *ctx, ls_attempt_end *end, int *workers, int *places);
    /* Ten times a second, also while workers start; true, until next() is called: all shall leave after the step under
     * way, to go on as next() says. */
    bool (*wants_change)(void *ctx);
    void *ctx;
    int places; /* that cores are shared out to: workers, and spares */
} ls_supervision;

/* ls_workers_run() on one machine with a supervisor, also for one worker. */
ls_status ls_workers_supervise(const ls_workers_options *options, const ls_supervision *supervision, ls_worker_fn fn,
                               void *arg);

/* ---- of a worker ------------------------------------------------------------------------------------------------- */

/* NULL: nobody supervises. */
const ls_attempt *ls_world_attempt(const ls_world *world);
/* `memory` of ls_world_alloc() is what this worker leaves. */
void ls_world_keep(ls_world *world, const void *memory);
/* The state of the run is in this attempt's segment; that of the one before is given back by this worker. */
void ls_world_ready(ls_world *world);
/* This worker's tensors are not in the segment: when another is lost it is woken from whatever it waits for, with
 * LS_ERR_PEER, and is given the time to bring them there. */
void ls_world_rescues(ls_world *world);
/* Whether another was lost; this one is at it; it is done, and may be ended. */
bool ls_world_is_abandoned(const ls_world *world);
void ls_world_rescuing(ls_world *world);
void ls_world_rescued(ls_world *world);
/* Whether the supervisor asks all to leave. */
bool ls_world_should_leave(const ls_world *world);
/* This worker leaves because all do, and the run goes on without it. */
void ls_world_go_on(ls_world *world);

/* What worker `local` of a segment left; NULL: nothing. */
static inline void *ls_segment_kept(const ls_segment *segment, int local) {
    uint64_t at = atomic_load_explicit(&segment->header->workers[local].kept, memory_order_acquire);
    return at ? ls_segment_at(segment, at) : NULL;
}

#endif
