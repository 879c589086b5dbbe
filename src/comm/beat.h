/* beat.h: what the workers of a machine show of themselves, and who is to blame when one does not come.
 *
 * A thread of each worker that never computes writes a beat into its record ten times a second: that the process runs,
 * what it does, and when it last got further (base/alive.h). Whoever waits for another worker writes for whom. So a
 * worker that is waited for too long is not simply blamed: it may itself wait for another one. The chain of waits is
 * followed to its end:
 *
 *     0 waits for 2 in an all-reduce → 2 waits for 6 in a receive → 6 does not wait: it is to blame, if it gets nowhere
 *
 * Workers of different machines tell each other the same by messages, whenever they wait or do something long.
 *
 * Work that gets somewhere is no fault, however long it takes. The time in which a whole run is suspended counts for
 * nobody: who waits, and the beat itself, add up slices that have a largest length. */
#ifndef LS_COMM_BEAT_H
#define LS_COMM_BEAT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lockstep.h"

enum { LS_WAITS_FOR_NOBODY = 0, LS_WAITS_SOMEHOW = -1 };

typedef struct ls_beat {
    _Alignas(64) _Atomic uint64_t beat_ns; /* the last one; 0: none yet */
    _Atomic uint64_t moved_ns;             /* of the last beat by which it had got further */
    _Atomic uint64_t number;               /* of the collective it waits in */
    _Atomic int waits_for;                 /* rank in the world + 1, or LS_WAITS_… */
    _Atomic int kind;                      /* of the wait: ls_traffic_kind */
    _Atomic int phase;                     /* ls_phase */
    _Atomic int usual_ms;                  /* how long the phase usually takes; 0: not known */
} ls_beat;

struct ls_beating;

/* Begins and ends this worker's beat. Where the worker itself gets nowhere for --timeout in a phase that computes, and
 * waits for nobody, there may be nobody else to tell: the run ends then (LS_ERR_DEADLINE). */
ls_status ls_beat_begin(ls_world *world);
void ls_beat_end(ls_world *world);

/* That this worker waits for the request, whoever it is that has not come; and that it does no longer. */
void ls_beat_wait(ls_world *world, const ls_request *request);
void ls_beat_go_on(ls_world *world);

/* The end of the chain that begins with worker `rank`, as far as it can be followed. `through` is the
 * one before it, which waits for it; −1: none. */
int ls_beat_blame(const ls_world *world, int rank, int *through);
/* When the worker last got further; of another machine, as it has told. 0: not known. */
uint64_t ls_beat_moved_ns(const ls_world *world, int rank);
/* Whether it works, and got further within the last `within_s`. */
bool ls_beat_is_working(const ls_world *world, int rank, double within_s);
/* "computing gradients", "waiting for worker 3 in all-reduce"; of another machine "". */
void ls_beat_text(const ls_world *world, int rank, char *text, size_t room);

/* The beat of a worker, as far as this one can see it; NULL: it cannot. */
const ls_beat *ls_beat_get(const ls_world *world, int rank);
/* From now on each beat of this worker fills the page (comm/status_page.h); NULL: no more. */
struct ls_status_page;
void ls_beat_show(ls_world *world, struct ls_status_page *page);

/* ---- of the process that forked the workers ---------------------------------------------------------------------- */

struct ls_segment;

/* Zeroed but for the first: it has seen nothing yet. */
typedef struct ls_beat_watch {
    double timeout_s; /* --timeout; 0: its default */
    uint64_t last_ns;
    uint64_t beat_ns[LS_WORKERS_MAX], silent_ns[LS_WORKERS_MAX]; /* by worker: what was seen last, and since when */
    uint64_t moved_ns[LS_WORKERS_MAX], still_ns[LS_WORKERS_MAX];
} ls_beat_watch;

/* To be called some ten times a second. Returns the worker that hangs, with words on it; −1: none does. A worker hangs
 * that
 *
 *   - has shown no beat for 2 s and is stopped; or for 10 s, where the system says that it could run: a machine may be
 *     crowded. This holds where all workers are silent, too: the caller, which looks, was not suspended with them.
 *   - has got nowhere for max(2 s, three times what its phase usually takes) while another waits for it, in a phase
 *     that computes and of which this worker has finished one turn: before it, there may be kernels to compile; or
 *     for max(10 s, ten times that), where the system says that it could run.
 *
 * 2 s and 10 s hold for --timeout up to 300 s, grow in proportion with a longer one, and are never longer than it
 * (but not below 1 s). A worker that is traced (a debugger, ptrace(2)) does not hang. Time in which the caller itself
 * did not run does not count: a slice of it counts for 0.2 s at most. */
int ls_beat_suspect(ls_beat_watch *watch, const struct ls_segment *segment, char *text, size_t room);
/* Likewise: for how long all workers that are there have shown no beat and are stopped, and the first of them; 0, and
 * −1 in *first: one of them is not, or is traced. */
double ls_beat_all_stopped_s(ls_beat_watch *watch, const struct ls_segment *segment, int *first);

#endif
