/* attempt.h: a worker's part in restarts: after a worker is lost, all workers of the machine are forked again. The
 * training loop and run/recover call these functions; transports/supervise.h is the supervisor's part. An attempt is
 * the time between two forks; a segment is the memory that its workers share (shm/segment.h).
 *
 * The process that forks the workers becomes a supervisor: it holds no tensors and opens no GPU. When a worker dies or
 * hangs (transports/suspect.h), the supervisor ends the other workers and forks a new set, which may be larger or
 * smaller. Tensors of CPU workers lie in the segment, which belongs to the supervisor and outlives the workers. Workers
 * with tensors on another device copy them into the segment before they end ("rescue"):
 *
 *     attempt k      segment k      a worker dies, all are ended; their state is in segment k
 *     attempt k+1    segment k+1    its workers restore the state from segment k and report that they are ready
 *                                   all are ready: segment k is released
 *                                   one dies before: segment k+1 is dropped, attempt k+2 restores from segment k again
 *
 * What a worker leaves for the next attempt is the caller's choice. Its place in the segment is the offset `kept` of
 * the worker's record. */
#ifndef LS_COMM_ATTEMPT_H
#define LS_COMM_ATTEMPT_H

#include "comm/shm/segment.h"
#include "lockstep.h"

typedef struct ls_attempt {
    int number;        /* 0: the first */
    uint64_t seen_ns;  /* when the supervisor noticed the loss that ended the attempt before; 0: no loss */
    uint64_t begun_ns; /* when the fork of these workers began; all of the attempt before had ended */
    ls_segment before; /* state of the last complete attempt; base NULL: none, or ls_world_ready() unmapped it */
} ls_attempt;

/* ---- called by a worker ------------------------------------------------------------------------------------------ */

/* Returns the current attempt; NULL: no supervisor. */
const ls_attempt *ls_world_attempt(const ls_world *world);
/* Leaves `memory`, which ls_world_alloc() returned, to the next attempt: the last call counts. Only under a
 * supervisor. */
void ls_world_keep(ls_world *world, const void *memory);
/* Reports, once in each attempt, that this worker has restored its state, and unmaps the segment of the attempt before,
 * whose pointers are invalid afterwards. Does nothing without a supervisor. */
void ls_world_ready(ls_world *world);
/* Declares that this worker's tensors are not in the segment. After a loss the worker is woken from any wait with
 * LS_ERR_PEER and has time to copy them there, if all workers had reported that they are ready; before that it is
 * killed at once. Does nothing without a supervisor. */
void ls_world_rescues(ls_world *world);
/* Returns whether another worker was lost, so that this one must rescue its tensors or end; false without a
 * supervisor. */
bool ls_world_is_abandoned(const ls_world *world);
/* Reports progress of the rescue (the copy of tensors to the segment after a loss), which extends its deadline of 15
 * s. */
void ls_world_rescuing(ls_world *world);
/* Reports that the rescue is done: the supervisor may end this worker. */
void ls_world_rescued(ls_world *world);
/* Returns whether the supervisor asks all workers to leave after the current step, for example to resize the run. */
bool ls_world_should_leave(const ls_world *world);
/* Declares that this worker ends because all of them leave, while the run continues in the next attempt. Published when
 * its function returns LS_OK. */
void ls_world_go_on(ls_world *world);

/* Returns the address, in this process, of what worker `local` of a segment left by ls_world_keep(); NULL: nothing. */
static inline void *ls_segment_kept(const ls_segment *segment, int local) {
    uint64_t at = atomic_load_explicit(&segment->header->workers[local].kept, memory_order_acquire);
    return at ? ls_segment_at(segment, at) : NULL;
}

#endif
