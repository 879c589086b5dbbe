/* wait.c: launches requests and waits for them; blames a worker when the deadline passes. */
#include "comm/world/wait.h"

#include <linux/futex.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/child.h"
#include "base/meter.h"
#include "comm/world/beat.h"
#include "comm/world/words.h"

/* A sleeping worker checks this often, without a ring, for a lost peer and for the deadline. */
static const uint64_t sleep_slice_ns = 50000000;
/* Messages between machines wake no sleeping worker: while one is in flight, it checks this often. */
static const uint64_t net_slice_ns = 100000;

/* ---- deadlines --------------------------------------------------------------------------------------------------- */

/* Returns a worker's record in shared memory; NULL for a worker of another machine. */
static const ls_worker_record *record_of(const ls_world *world, int rank) {
    if (!world->segment.base || world->machines.of[rank] != world->machines.of[world->rank]) return NULL;
    return &world->segment.header->workers[world->machines.local_of[rank]];
}

/* Returns LS_ERR_DEADLINE with a message about the worker at the end of the chain of waits, which may not be the one
 * that this worker waits for, and records it as late; about this worker, recording none, if the request names no rank.
 */
static ls_status fail_deadline(ls_world *world, const ls_request *r) {
    char what[96], doing[96], waits[160] = "", gone[LS_HOST_MAX + 64];
    int through, rank = r->blocked_on < 0 ? -1 : ls_beat_blame(world, r->comm->world_rank[r->blocked_on], &through);
    if (r->number)
        snprintf(what, sizeof what, "%s (collective number %llu)", ls_traffic_kind_name(r->kind),
                 (unsigned long long)r->number);
    else
        snprintf(what, sizeof what, "%s", ls_traffic_kind_name(r->kind));
    if (rank < 0)
        return ls_fail(LS_ERR_DEADLINE, "worker %d timed out after %g s in %s", world->rank, world->timeout_s, what);
    const ls_worker_record *late = record_of(world, rank);
    int pid = late ? atomic_load(&late->pid) : 0;
    char state = pid ? ls_process_state(pid) : 0;
    const char *host = ls_world_host(world, rank);
    if (host)
        snprintf(gone, sizeof gone, "its process or its machine, %s, may be gone", host);
    else
        snprintf(gone, sizeof gone, "its process or machine may be gone");
    ls_world_set_late(world, rank);
    const char *why = state == 'T' ? "it is stopped (by SIGSTOP)"
                      : state      ? "it is alive and may just be slow; raise --timeout"
                                   : gone;
    ls_beat_text(world, rank, doing, sizeof doing);
    if (through >= 0) {
        char its[96];
        ls_beat_text(world, through, its, sizeof its);
        if (its[0]) snprintf(waits, sizeof waits, " (worker %d is %s)", through, its);
    }
    return ls_fail(LS_ERR_DEADLINE, "worker %d did not answer within %g s in %s%s%s%s: %s", rank, world->timeout_s,
                   what, waits, doing[0] ? " while " : "", doing, why);
}

/* Returns whether the worker at the end of the chain of waits made progress within --timeout (ls_beat_is_working()), or
 * is held by a debugger; false if the request names no rank. */
static bool is_worth_waiting(ls_world *world, const ls_request *r) {
    int through;
    if (r->blocked_on < 0) return false;
    ls_words_receive(world);
    int rank = ls_beat_blame(world, r->comm->world_rank[r->blocked_on], &through);
    const ls_worker_record *late = record_of(world, rank);
    int pid = late ? atomic_load(&late->pid) : 0;
    if (pid && ls_process_is_traced(pid)) return true;
    return ls_beat_is_working(world, rank, world->timeout_s);
}

/* Fails if the awaited member, of this machine, returned from its function 0.2 s ago, because it will never join the
 * collective; *seen_ns keeps when that was noticed, 0: not. If the member left because of a signal, the status is
 * LS_ERR_PEER: the signal ended the run. */
static ls_status check_ended(const ls_world *world, const ls_request *r, uint64_t *seen_ns) {
    if (r->blocked_on < 0) return LS_OK;
    int rank = r->comm->world_rank[r->blocked_on];
    const ls_worker_record *peer = record_of(world, rank);
    int ended = peer ? atomic_load(&peer->ended) : 0;
    if (!ended || ended == LS_ENDED_TO_GO_ON) { /* with the latter all workers are about to leave */
        *seen_ns = 0;                           /* it was the time of another member's end */
        return LS_OK;
    }
    /* The member may have ended right after doing its part, so the request gets 0.2 s to see that part. */
    uint64_t now = ls_clock_ns();
    if (!*seen_ns) *seen_ns = now;
    if (now - *seen_ns < 200000000u) return LS_OK;
    return ls_fail(ended == LS_ENDED_BY_SIGNAL ? LS_ERR_PEER : LS_ERR_FAILED,
                   "worker %d exited and will never join %s (collective number %llu)", rank,
                   ls_traffic_kind_name(r->kind), (unsigned long long)r->number);
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

ls_status ls_world_progress(ls_world *world) {
    LS_TRY(ls_world_check(world));
    world->wire.wake_ns = LS_WIRE_NEVER;
    for (ls_request *r = world->flight.first; r; r = r->next) {
        if (r->done) continue;
        ls_status status = ls_request_step(r);
        if (status != LS_OK) {
            ls_world_fail(world, status);
            return status;
        }
    }
    return LS_OK;
}

/* Sleeps until this worker's bell rings, at most `ns`; returns at once if it has rung since `bell` was read. */
static void sleep_for(ls_worker_record *mine, uint32_t bell, uint64_t ns) {
    struct timespec slice = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    syscall(SYS_futex, &mine->bell, FUTEX_WAIT, bell, &slice, NULL, 0);
}

/* Pauses the core for some cycles in a spin loop. */
static void relax(void) {
#ifdef __aarch64__
    __asm__ volatile("isb" ::: "memory");
#else
    __builtin_ia32_pause();
#endif
}

/* Announces the sleep, advances all requests once more, then sleeps until the bell rings, 50 ms at most (0.1 ms while
 * messages between machines are in flight). Does not sleep if there was progress. A worker without shared memory has no
 * bell: it sleeps for that time and advances nothing. */
static ls_status sleep_once(ls_world *world, ls_request *request) {
    uint64_t slice = world->requests.net_pending ? net_slice_ns : sleep_slice_ns;
    if (!world->segment.base) {
        ls_clock_sleep_us(slice / 1000);
        return LS_OK;
    }
    ls_worker_record *mine = &world->segment.header->workers[world->machines.local];
    uint32_t bell = atomic_load_explicit(&mine->bell, memory_order_acquire);
    atomic_store_explicit(&mine->sleeping, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    uint64_t moves = world->moves;
    ls_status status = ls_world_progress(world);
    slice = ls_wire_nap_ns(world, slice);
    if (status == LS_OK && !request->done && world->moves == moves && slice > 0) sleep_for(mine, bell, slice);
    atomic_store_explicit(&mine->sleeping, 0, memory_order_relaxed);
    return status;
}

/* Waits until the request is done; advances all requests meanwhile, spins at first, then sleeps. Fails after --timeout
 * in which no request advanced, unless the worker to blame makes progress; if the awaited member has exited; or with
 * LS_ERR_PEER if another worker failed. Adds up waiting time slice by slice,
 * and counts no slice for more than twice its length, so that a suspended run (Ctrl-Z, a closed laptop) is not taken
 * for a lost worker. */
static ls_status wait_for(ls_world *world, ls_request *request) {
    uint64_t waited_ns = 0, late_ns = 0, last_ns = 0, ended_ns = 0, moves = world->moves - 1;
    for (unsigned turn = 0;; turn++) {
        LS_TRY(ls_world_progress(world));
        if (request->done) return LS_OK;
        if (world->moves != moves) {
            moves = world->moves;
            waited_ns = late_ns = last_ns = 0;
            continue;
        }
        bool spinning = world->wire.wake_ns == LS_WIRE_NEVER
                            ? waited_ns < world->spin_ns && !ls_pool_is_crowded(world->pool)
                            : ls_wire_nap_ns(world, sleep_slice_ns) == 0;
        if (spinning) {
            relax();
            if (turn % 16) continue;
        } else {
            LS_TRY(sleep_once(world, request));
        }
        uint64_t now = ls_clock_ns();
        uint64_t slept = last_ns ? now - last_ns : 1;
        last_ns = now;
        slept = slept < 2 * sleep_slice_ns ? slept : 2 * sleep_slice_ns;
        waited_ns += slept;
        late_ns = ls_wire_is_busy(world, now) ? 0 : late_ns + slept;
        if (spinning) continue;
        ls_beat_wait(world, request);
        if (waited_ns > 500000000u) ls_words_tell_wait(world, request, now);
        ls_status status = check_ended(world, request, &ended_ns);
        bool is_late = (double)late_ns * 1e-9 > world->timeout_s;
        if (status == LS_OK && is_late) {
            /* Recent progress extends the deadline: a worker that was busy until now may for a moment wait for this
             * one. */
            if (is_worth_waiting(world, request))
                late_ns = (uint64_t)(world->timeout_s * 0.5e9);
            else
                status = fail_deadline(world, request);
        }
        if (status != LS_OK) {
            ls_world_fail(world, status);
            return status;
        }
    }
}

/* Waits, then tells the heartbeat that the wait is over and counts it as progress. */
static ls_status wait_and_record(ls_world *world, ls_request *request) {
    ls_status status = wait_for(world, request);
    ls_beat_go_on(world);
    ls_alive_moved();
    return status;
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

/* Removes the request from the list of requests in flight. */
static void leave_flight(ls_world *world, ls_request *r) {
    ls_request *before = NULL;
    for (ls_request *x = world->flight.first; x; before = x, x = x->next) {
        if (x != r) continue;
        if (before)
            before->next = x->next;
        else
            world->flight.first = x->next;
        if (world->flight.last == x) world->flight.last = before;
        return;
    }
}

/* Adds the request to the communicator's traffic counters and begins its trace span; skips the internal wait at a
 * communicator's end. */
static void count_traffic(ls_request *r) {
    if (r->kind == LS_TRAFFIC_KINDS) return;
    ls_traffic *traffic = &r->comm->traffic[r->kind];
    traffic->calls++;
    traffic->bytes += r->traffic_bytes;
    r->span = ls_span_begin("comm", ls_request_trace_name(r));
    r->span.of = r->comm->axis;
}

ls_status ls_request_drop(ls_request *r, ls_status status, ls_request **out) {
    ls_world_fail(r->comm->world, status);
    ls_request_release(r);
    *out = NULL;
    return status;
}

ls_status ls_request_launch(ls_request *r, ls_request **out) {
    ls_world *world = r->comm->world;
    count_traffic(r);
    if (world->flight.last)
        world->flight.last->next = r;
    else
        world->flight.first = r;
    world->flight.last = r;
    ls_meter_mark mark = ls_meter_begin();
    ls_status status = ls_request_step(r);
    ls_meter_communicated(mark, (int)r->kind, 0);
    if (status != LS_OK) {
        leave_flight(world, r);
        return ls_request_drop(r, status, out);
    }
    *out = r;
    return status;
}

/* Ends a request on device memory: copies a staged result to the device, or makes later work of the current queue wait
 * for the request's own work and for the other members that read or write its tensors. */
static ls_status end_on_device(const ls_staging *t) {
    if (t->to) return ls_device_copy_in(t->device, t->to, t->from, t->bytes);
    if (t->event.number) LS_TRY(ls_device_follow(t->device, t->event));
    for (int i = 0; i < t->counts; i++) LS_TRY(ls_device_await(t->device, t->counted[i].counter, t->counted[i].value));
    return LS_OK;
}

/* Takes the request out of flight, ends its part on the device if it has one, and releases it. Returns `status`, or the
 * device's error. */
static ls_status finish_request(ls_request *r, ls_status status) {
    leave_flight(r->comm->world, r);
    if (status == LS_OK && r->tensors) status = end_on_device(r->tensors);
    ls_request_release(r);
    return status;
}

/* Returns the part of a wait, in ns, in which bytes were in flight: it begins when the last member has started the
 * collective. If that time is not known, the whole wait counts. 0 for a sender, which waits for the receiver, not for
 * bytes. */
static uint64_t transfer_part(const ls_request *r, uint64_t begin_ns, uint64_t end_ns) {
    if (r->kind == LS_TRAFFIC_SEND) return 0;
    if (r->ready_ns <= begin_ns) return end_ns - begin_ns;
    return r->ready_ns < end_ns ? end_ns - r->ready_ns : 0;
}

ls_status ls_request_wait(ls_request *r) {
    if (!r) return LS_OK;
    if (r->done) return finish_request(r, LS_OK);
    ls_span span = ls_span_begin("comm", "wait");
    span.of = ls_request_trace_name(r);
    int64_t bytes = (int64_t)r->traffic_bytes;
    ls_world *world = r->comm->world;
    uint64_t begin_ns = ls_clock_ns();
    ls_meter_mark mark = ls_meter_begin();
    ls_status status = wait_and_record(world, r);
    ls_meter_communicated(mark, (int)r->kind, r->ready_ns);
    world->flight.net_ns += transfer_part(r, begin_ns, ls_clock_ns());
    status = finish_request(r, status);
    world->flight.waited_ns += ls_clock_ns() - begin_ns;
    ls_span_end(span, bytes);
    return status;
}

ls_status ls_request_test(ls_request *r, int *done) {
    ls_meter_mark mark = ls_meter_begin();
    ls_status status = r->done ? LS_OK : ls_world_progress(r->comm->world);
    ls_meter_communicated(mark, (int)r->kind, 0);
    *done = r->done || status != LS_OK;
    return *done ? finish_request(r, status) : LS_OK;
}
