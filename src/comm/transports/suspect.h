/* suspect.h: finds workers that hang, by the heartbeats that each worker writes into shared memory ten times a second
 * (world/beat.h). For the process that forked them (shm.c), which kills and replaces such a worker. */
#ifndef LS_COMM_TRANSPORTS_SUSPECT_H
#define LS_COMM_TRANSPORTS_SUSPECT_H

#include "comm/shm/segment.h"

/* State between two calls; starts as zeros but for timeout_s. */
typedef struct ls_beat_watch {
    double timeout_s;                                            /* --timeout; 0: its default */
    uint64_t last_ns;                                            /* time of the last call */
    uint64_t beat_ns[LS_WORKERS_MAX], silent_ns[LS_WORKERS_MAX]; /* by worker: last value seen, unchanged for so long */
    uint64_t moved_ns[LS_WORKERS_MAX], still_ns[LS_WORKERS_MAX]; /* likewise of its last progress, outside waits */
} ls_beat_watch;

/* Returns a worker that hangs, and describes it in `text`; −1: none does. To be called about ten times a second. A
 * worker hangs if
 *
 *   - it has sent no heartbeat for 2 s and its process is stopped, or for 10 s although its process is runnable, which
 *     allows for a crowded machine. This also holds if all workers are silent, because the caller still runs.
 *   - it has made no progress for max(2 s, three times the usual time of its phase) while another worker waits for it,
 *     in a phase that computes and that it has completed once (the first turn may compile kernels); or for
 *     max(10 s, ten times the usual time) although it is runnable.
 *
 * 2 s and 10 s hold for --timeout up to 300 s. They grow in proportion with a longer --timeout, and are never longer
 * than --timeout (but not below 1 s). A worker under a debugger (ptrace(2)) never counts as hung. Time in which the
 * caller itself did not run is not counted: a slice counts for 0.2 s at most. */
int ls_beat_suspect(ls_beat_watch *watch, const ls_segment *segment, char *text, size_t room);
/* Returns for how many seconds all remaining workers have sent no heartbeat and been stopped, and the first of them in
 * *first. Returns 0, and −1 in *first, if a worker is not stopped or is traced. */
double ls_beat_all_stopped_s(ls_beat_watch *watch, const ls_segment *segment, int *first);

#endif
