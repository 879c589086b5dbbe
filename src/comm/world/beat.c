/* beat.c: the heartbeat thread, the records of which worker waits for which, and the chains of such waits. Records lie
 * in memory that the workers of a machine share. */
#include "comm/world/beat.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/log.h"
#include "comm/world/request.h"

enum { STACK_BYTES = 256 << 10 };

/* A file system that syncs or a compiler shows no progress for a long time. In such phases a worker that still sends
 * beats is given this many timeouts. */
enum { OPAQUE_PATIENCE = 10 };

/* How long a runnable worker may lack a core. The heartbeats of a worker on another machine, and whether it is
 * runnable, are not visible here; so in an opaque phase it has this long between two words, however short the timeout.
 */
static const double crowded_s = 10;

typedef struct ls_beating {
    ls_world *world;
    ls_beat alone; /* its heartbeat if it shares no memory */
    ls_beat *mine;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool ends;
    void (*observe)(void *ctx, const ls_world *world); /* protected by the lock, as is `ctx`; NULL: no observer */
    void *ctx;
} ls_beating;

/* Returns a worker's heartbeat record; NULL for a worker of another machine, and for this one if its thread does not
 * run. */
static ls_beat *beat_of(const ls_world *world, int rank) {
    if (rank == world->rank) return world->beat ? world->beat->mine : NULL;
    if (!world->segment.base || world->machines.of[rank] != world->machines.of[world->rank]) return NULL;
    return &world->segment.header->workers[world->machines.local_of[rank]].beat;
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

/* Returns the time between heartbeats: 0.1 s, or a quarter of --timeout if that is shorter. */
static uint64_t interval_ns(const ls_world *world) {
    uint64_t quarter = (uint64_t)(world->timeout_s * 0.25e9);
    return quarter < 100000000u ? quarter : 100000000u;
}

/* Fails the run with LS_ERR_DEADLINE: through shared memory, or by ending this process if it is alone on its machine.
 * No other worker may notice that this one is stuck: it may be alone, or all may be stuck. */
static void fail_stuck_worker(const ls_beating *b, ls_phase phase) {
    ls_world *world = b->world;
    char text[LS_MESSAGE_MAX];
    (void)snprintf(text, sizeof text,
                   "worker %d made no progress for %g s while %s; if it is only slow, raise --timeout", world->rank,
                   world->timeout_s, ls_phase_text(phase));
    if (world->segment.base) {
        ls_segment_fail(&world->segment, world->rank, LS_ERR_DEADLINE, text);
        return;
    }
    ls_log_write(LS_LOG_ERROR, "%s", text);
    _exit(ls_status_exit_code(LS_ERR_DEADLINE));
}

/* Thread: writes a heartbeat at each interval, with the phase and whether the progress counter has moved, and calls the
 * observer; fails the run if its own worker has made no progress for --timeout (ls_beat_begin()). */
static void *run_heartbeat(void *arg) {
    ls_beating *b = arg;
    ls_beat *mine = b->mine;
    uint64_t slice = interval_ns(b->world), count = ~UINT64_C(0), last = ls_clock_ns(), stood_ns = 0;
    pthread_mutex_lock(&b->lock);
    while (!b->ends) {
        uint64_t now = ls_clock_ns(), passed = now - last, moves = atomic_load(&ls_alive_count);
        ls_phase phase = ls_phase_now();
        bool waits = atomic_load(&mine->waits_for) != LS_WAITS_FOR_NONE;
        last = now;
        stood_ns += passed < 2 * slice ? passed : 2 * slice;
        if (moves != count || waits) stood_ns = 0;
        if (moves != count) atomic_store(&mine->moved_ns, now);
        count = moves;
        atomic_store(&mine->phase, (int)phase);
        atomic_store(&mine->usual_ms, (int)(ls_phase_usual_ns(phase) / 1000000));
        atomic_store(&mine->beat_ns, now);
        if (b->observe) b->observe(b->ctx, b->world);
        if (ls_phase_computes(phase) && !b->world->device && (double)stood_ns * 1e-9 > b->world->timeout_s) {
            if (!ls_process_is_traced(getpid())) fail_stuck_worker(b, phase);
            stood_ns = 0;
        }
        uint64_t until = now + slice;
        struct timespec wake = {.tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u)};
        pthread_cond_timedwait(&b->over, &b->lock, &wake);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

/* Starts the heartbeat thread with all signals blocked, so that other threads receive them. */
static ls_status start_thread(ls_beating *b) {
    sigset_t all, before;
    pthread_attr_t small;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&b->over, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&b->lock, NULL);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    errno = pthread_create(&b->thread, &small, run_heartbeat, b);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&small);
    return errno == 0 ? LS_OK
                      : ls_fail_errno(LS_ERR_RESOURCE, "cannot start a thread (check the process limit, ulimit -u)");
}

ls_status ls_beat_begin(ls_world *world) {
    ls_beating *b = calloc(1, sizeof *b);
    if (!b) return ls_fail(LS_ERR_RESOURCE, "out of memory for a worker");
    b->world = world;
    b->mine = world->segment.base ? &world->segment.header->workers[world->machines.local].beat : &b->alone;
    atomic_store(&b->mine->moved_ns, ls_clock_ns());
    ls_status status = start_thread(b);
    if (status == LS_OK)
        world->beat = b;
    else
        free(b);
    return status;
}

void ls_beat_end(ls_world *world) {
    ls_beating *b = world->beat;
    if (!b) return;
    pthread_mutex_lock(&b->lock);
    b->ends = true;
    pthread_cond_signal(&b->over);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
    world->beat = NULL;
    free(b);
}

const ls_beat *ls_beat_get(const ls_world *world, int rank) { return beat_of(world, rank); }

void ls_beat_observe(ls_world *world, void (*observe)(void *ctx, const ls_world *world), void *ctx) {
    ls_beating *b = world->beat;
    if (!b) return;
    pthread_mutex_lock(&b->lock);
    b->observe = observe;
    b->ctx = ctx;
    pthread_mutex_unlock(&b->lock);
}

/* ---- waits ------------------------------------------------------------------------------------------------------- */

/* Returns the request to blame for a wait: the first one that waits for a known rank. A collective that cannot begin
 * before an earlier one of this worker has ended waits for the same rank as that one. */
static const ls_request *find_blocked_request(const ls_world *world, const ls_request *request) {
    if (request->blocked_on >= 0) return request;
    for (const ls_request *r = world->flight.first; r; r = r->next)
        if (!r->done && r->blocked_on >= 0) return r;
    return request;
}

void ls_beat_wait(ls_world *world, const ls_request *request) {
    ls_beat *mine = world->beat ? world->beat->mine : NULL;
    const ls_request *cause = find_blocked_request(world, request);
    if (!mine) return;
    atomic_store_explicit(&mine->kind, (int)cause->kind, memory_order_relaxed);
    atomic_store_explicit(&mine->number, cause->number, memory_order_relaxed);
    atomic_store_explicit(&mine->waits_for,
                          cause->blocked_on < 0 ? LS_WAITS_SOMEHOW : cause->comm->world_rank[cause->blocked_on] + 1,
                          memory_order_release);
}

void ls_beat_go_on(ls_world *world) {
    ls_beat *mine = world->beat ? world->beat->mine : NULL;
    if (mine) atomic_store_explicit(&mine->waits_for, LS_WAITS_FOR_NONE, memory_order_release);
}

/* ---- blame ------------------------------------------------------------------------------------------------------- */

/* Returns whether a worker has sent no heartbeat for a second (or half the timeout, if that is less) while this
 * worker's continued: it is stopped, and its record is stale. */
static bool is_silent(const ls_world *world, const ls_beat *beat) {
    uint64_t own = atomic_load(&world->beat->mine->beat_ns), its = atomic_load(&beat->beat_ns);
    double after_s = world->timeout_s < 2 ? world->timeout_s / 2 : 1;
    return its != 0 && own > its && (double)(own - its) * 1e-9 > after_s;
}

/* In a cycle all workers wait for each other; the search ends after one round. */
int ls_beat_blame(const ls_world *world, int rank, int *through) {
    *through = -1;
    for (int hops = 0; hops < world->size; hops++) {
        const ls_beat *beat = beat_of(world, rank);
        int next = beat                 ? atomic_load_explicit(&beat->waits_for, memory_order_acquire) - 1
                   : world->words.heard ? world->words.heard[rank].waits_for - 1
                                        : -1;
        if (next < 0 || next == world->rank || next == rank || (beat && is_silent(world, beat))) break;
        *through = rank;
        rank = next;
    }
    return rank;
}

uint64_t ls_beat_moved_ns(const ls_world *world, int rank) {
    const ls_beat *beat = beat_of(world, rank);
    if (!beat) return world->words.heard ? world->words.heard[rank].moved_ns : 0;
    return atomic_load(&beat->waits_for) == LS_WAITS_FOR_NONE ? atomic_load(&beat->moved_ns) : 0;
}

bool ls_beat_is_working(const ls_world *world, int rank, double within_s) {
    const ls_beat *beat = beat_of(world, rank);
    uint64_t now = ls_clock_ns(), beat_ns, moved_ns;
    if (!beat) {
        uint64_t heard = ls_beat_moved_ns(world, rank);
        if (heard && world->words.heard[rank].is_opaque && within_s < crowded_s) within_s = crowded_s;
        return heard != 0 && (double)(now - heard) * 1e-9 < within_s;
    }
    beat_ns = atomic_load(&beat->beat_ns);
    moved_ns = atomic_load(&beat->moved_ns);
    if (beat_ns == 0 || atomic_load(&beat->waits_for) != LS_WAITS_FOR_NONE) return false;
    bool beats = beat_ns > now || (double)(now - beat_ns) * 1e-9 < within_s;
    if (beats && ls_phase_is_opaque((ls_phase)atomic_load(&beat->phase))) within_s *= OPAQUE_PATIENCE;
    return beats && (moved_ns > now || (double)(now - moved_ns) * 1e-9 < within_s);
}

void ls_beat_text(const ls_world *world, int rank, char *text, size_t room) {
    const ls_beat *beat = beat_of(world, rank);
    int waits = beat ? atomic_load(&beat->waits_for) : 0;
    text[0] = '\0';
    if (!beat || atomic_load(&beat->beat_ns) == 0) return;
    if (waits > 0)
        (void)snprintf(text, room, "waiting for worker %d in %s", waits - 1,
                       ls_traffic_kind_name((ls_traffic_kind)atomic_load(&beat->kind)));
    else
        (void)snprintf(text, room, "%s", ls_phase_text((ls_phase)atomic_load(&beat->phase)));
}
