/* beat.h: heartbeats of the workers of a machine, and which worker is to blame for a wait. transports/suspect.h judges
 * them from outside, in the process that forked the workers.
 *
 * Each worker has a heartbeat thread that does no other work. Ten times a second (four times in a --timeout
 * shorter than 0.4 s) it writes a heartbeat into the worker's record: the process runs, its phase, and when it last
 * made progress (base/alive.h). A worker that waits records the rank that it waits for. A late worker is not blamed at
 * once, because it may itself wait for another; the chain of waits is followed to its end:
 *
 *     0 waits for 2 in an all-reduce → 2 waits for 6 in a receive → 6 waits for no worker: 6 is to blame, unless it
 *     makes progress
 *
 * Workers of different machines exchange the same facts as messages while they wait or do something long.
 *
 * Slow work is no fault as long as it makes progress. Time in which the whole run is suspended is not counted: waits
 * and the heartbeat thread add up slices of bounded length. */
#ifndef LS_COMM_BEAT_H
#define LS_COMM_BEAT_H

#include "comm/world/comm.h"

/* Starts this worker's heartbeat thread. The thread also watches its own worker: after --timeout without progress in a
 * phase that computes, and without a wait, it fails the run with LS_ERR_DEADLINE, because no other worker may notice;
 * a worker without shared memory ends its process with that exit code.
 * Not under a debugger, nor where collectives run on a GPU (movers/device.c watches those). */
ls_status ls_beat_begin(ls_world *world);
/* Stops the thread and waits for its end; does nothing if it never started. */
void ls_beat_end(ls_world *world);

/* Records that this worker waits for the request, and thereby for which rank; if that is not known, for the rank of the
 * oldest request in flight that names one, else for no known one (LS_WAITS_SOMEHOW). */
void ls_beat_wait(ls_world *world, const ls_request *request);
/* Records that the last ls_beat_wait() is over. Does nothing without a wait. Waits do not nest. */
void ls_beat_go_on(ls_world *world);

/* Returns the last rank of the chain of waits that begins with worker `rank`, as far as it can be followed: it waits
 * for no known worker, for itself or for this worker, or is of this machine and has sent no heartbeat for 1 s (half of
 * --timeout if that is less). In a cycle of waits: any of its ranks. `through` is the rank before it, which waits for
 * it; −1: none. */
int ls_beat_blame(const ls_world *world, int rank, int *through);
/* Returns when (monotonic) the worker last made progress. 0: not known, or it waits. For a worker of another machine:
 * the time that its control words told (words.h), even if it waits now; 0: it told none. */
uint64_t ls_beat_moved_ns(const ls_world *world, int rank);
/* Returns whether the worker waits for no other, sent a heartbeat within the last `within_s` seconds, and made progress
 * within that time, or ten times that in an opaque phase (base/alive.h), such as saving, whose progress is not visible.
 * For a worker of another machine: whether its control words told of progress within `within_s`, at least 10 s in an
 * opaque phase. */
bool ls_beat_is_working(const ls_world *world, int rank, double within_s);
/* Writes "computing gradients" or "waiting for worker 3 in all-reduce"; the phase if the awaited worker is not known;
 * "" for a worker of another machine, or before its first heartbeat. */
void ls_beat_text(const ls_world *world, int rank, char *text, size_t room);

/* Returns a worker's heartbeat record, borrowed; NULL for a worker of another machine, whose record is not visible
 * here, and for this one while its heartbeat thread does not run. */
const ls_beat *ls_beat_get(const ls_world *world, int rank);
/* From now on the heartbeat thread calls `observe` with each heartbeat of this worker; NULL ends that. When the call
 * returns, the previous observer does not run any more. Does nothing without a heartbeat thread. */
void ls_beat_observe(ls_world *world, void (*observe)(void *ctx, const ls_world *world), void *ctx);

#endif
