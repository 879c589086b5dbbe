/* beat.h: heartbeats of the workers of a machine, and which worker is to blame for a wait.
 *
 * Each worker has a heartbeat thread that does no other work. Ten times a second it writes a beat into the worker's
 * record: the process runs, its phase, and when it last made progress (base/alive.h). A worker that waits records the
 * rank that it waits for. A late worker is not blamed at once, because it may itself wait for another; the chain of
 * waits is followed to its end:
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

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lockstep.h"

/* Values of `waits_for` other than a rank; SOMEHOW: for a worker that is not known. */
enum { LS_WAITS_FOR_NOBODY = 0, LS_WAITS_SOMEHOW = -1 };

typedef struct ls_beat {
    _Alignas(64) _Atomic uint64_t beat_ns; /* time of the last beat; 0: none yet */
    _Atomic uint64_t moved_ns;             /* time of the last beat that saw progress */
    _Atomic uint64_t number;               /* of the collective it waits in */
    _Atomic int waits_for;                 /* rank in the world + 1, or LS_WAITS_… */
    _Atomic int kind;                      /* of the wait: ls_traffic_kind */
    _Atomic int phase;                     /* ls_phase */
    _Atomic int usual_ms;                  /* how long the phase usually takes; 0: not known */
} ls_beat;

struct ls_beating;

/* Starts this worker's heartbeat thread. The thread also watches its own worker: after --timeout without progress in a
 * phase that computes, and without a wait, it fails the run with LS_ERR_DEADLINE, because no other worker may notice.
 */
ls_status ls_beat_begin(ls_world *world);
void ls_beat_end(ls_world *world);

/* Records that this worker waits for the request, and for which rank; and that the wait is over. */
void ls_beat_wait(ls_world *world, const ls_request *request);
void ls_beat_go_on(ls_world *world);

/* Returns the last rank of the chain of waits that begins with worker `rank`, as far as it can be followed. `through`
 * is the rank before it, which waits for it; −1: none. */
int ls_beat_blame(const ls_world *world, int rank, int *through);
/* Returns when the worker last made progress; for a worker of another machine, by its last message. 0: not known, or it
 * waits for another worker. */
uint64_t ls_beat_moved_ns(const ls_world *world, int rank);
/* Returns whether the worker runs, waits for no other, and made progress within the last `within_s` seconds. */
bool ls_beat_is_working(const ls_world *world, int rank, double within_s);
/* Writes "computing gradients" or "waiting for worker 3 in all-reduce"; "" for a worker of another machine. */
void ls_beat_text(const ls_world *world, int rank, char *text, size_t room);

/* Returns a worker's beat; NULL for a worker of another machine, whose record is not visible here. */
const ls_beat *ls_beat_get(const ls_world *world, int rank);
/* Makes each beat of this worker fill the page (comm/status_page.h) from now on; NULL stops that. */
struct ls_status_page;
void ls_beat_show(ls_world *world, struct ls_status_page *page);

/* ---- called by the process that forked the workers --------------------------------------------------------------- */

struct ls_segment;

/* State between two calls; starts as zeros but for timeout_s. */
typedef struct ls_beat_watch {
    double timeout_s; /* --timeout; 0: its default */
    uint64_t last_ns;
    uint64_t beat_ns[LS_WORKERS_MAX], silent_ns[LS_WORKERS_MAX]; /* by worker: last value seen, unchanged for so long */
    uint64_t moved_ns[LS_WORKERS_MAX], still_ns[LS_WORKERS_MAX];
} ls_beat_watch;

/* Returns a worker that hangs, and describes it in `text`; −1: none does. To be called about ten times a second. A
 * worker hangs if
 *
 *   - it has sent no beat for 2 s and its process is stopped, or for 10 s although its process is runnable, which
 *     allows for a crowded machine. This also holds if all workers are silent, because the caller still runs.
 *   - it has made no progress for max(2 s, three times the usual time of its phase) while another worker waits for it,
 *     in a phase that computes and that it has completed once (the first turn may compile kernels); or for
 *     max(10 s, ten times the usual time) although it is runnable.
 *
 * 2 s and 10 s hold for --timeout up to 300 s. They grow in proportion with a longer --timeout, and are never longer
 * than --timeout (but not below 1 s). A worker under a debugger (ptrace(2)) never counts as hung. Time in which the
 * caller itself did not run is not counted: a slice counts for 0.2 s at most. */
int ls_beat_suspect(ls_beat_watch *watch, const struct ls_segment *segment, char *text, size_t room);
/* Returns for how many seconds all remaining workers have sent no beat and been stopped, and the first of them in
 * *first. Returns 0, and −1 in *first, if a worker is not stopped or is traced. */
double ls_beat_all_stopped_s(ls_beat_watch *watch, const struct ls_segment *segment, int *first);

#endif
