/* suspect.h: finds workers that hang, by the heartbeats that each worker writes into shared memory ten times a second
 * (world/beat.h). For the process that forked them (shm.c), which kills and replaces such a worker. */
#ifndef LS_COMM_TRANSPORTS_SUSPECT_H
#define LS_COMM_TRANSPORTS_SUSPECT_H

#include "comm/shm/segment.h"

/* State between two calls; starts as zeros but for timeout_s. */
typedef struct ls_beat_watch {
    double timeout_s; /* --timeout; 0: its default */
    uint64_t last_ns; /* time of the last call */
    uint64_t beat_ns[LS_WORKERS_MAX],
        silent_ns[LS_WORKERS_MAX]; /* by worker: last value seen, and for how long unchanged */
    uint64_t moved_ns[LS_WORKERS_MAX], still_ns[LS_WORKERS_MAX]; /* likewise of progress; a wait resets still_ns */
} ls_beat_watch;

/* Returns a worker that hangs, and describes it in `text`; −1: none does. To be called about ten times a second. A
 * worker hangs if
 *
 *   - it has sent no heartbeat for 2 s if its process is stopped, or for 10 s in any other state, because a crowded
 *     machine may leave it without a core. The second limit does not apply to a worker that is starting or ending,
 * which sends none. This rule also holds if all workers are silent, because the caller still runs.
 *   - another worker waits for it, and it has made no progress for max(2 s, three times the usual time of its phase) if
 *     no thread of it is runnable, or for max(10 s, ten times the usual time) if one is. Only in a phase that computes,
 *     and that it has completed once (the first time may compile kernels). Time in which it waits itself does not
 *     count, and a worker without a heartbeat for 2 s is judged by the first rule alone.
 *
 * 2 s and 10 s are for a --timeout of up to 300 s; a longer --timeout scales them up in proportion. A limit is never
 * longer than --timeout, of which at least 1 s counts. A worker under a debugger (ptrace(2)) never counts as hung. The
 * time between two calls counts as at most 0.2 s, so that time in which the caller itself did not run does not. */
int ls_beat_suspect(ls_beat_watch *watch, const ls_segment *segment, char *text, size_t room);
/* Returns for how many seconds all workers that still run have been stopped without a heartbeat, and the first of them
 * in *first. Returns 0, with *first undefined, if one is not stopped, has been silent for at most 1 s, or is traced; 0
 * and −1 in *first if none runs. May share the watch of ls_beat_suspect(). */
double ls_beat_all_stopped_s(ls_beat_watch *watch, const ls_segment *segment, int *first);

#endif
