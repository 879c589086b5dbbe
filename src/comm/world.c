/* world.c: opens a world; waits, wakes other workers, and reports failures. */
#include "comm/world.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/fpenv.h"
#include "base/memory.h"
#include "comm/comm.h"
#include "device/cpu/kernels.h"

/* Long enough to bridge the skew between workers in lock step: on a virtual machine waking a sleeper costs up to a
 * tenth of this, and delays its peers in turn. Only workers with cores of their own spin. */
static const uint64_t spin_default_ns = 1000000;
/* A sleeping worker checks this often, without a ring, for a lost peer and for the deadline. */
static const uint64_t sleep_slice_ns = 50000000;
/* Messages between machines ring no bell: while one is in flight, the worker checks this often. */
static const uint64_t net_slice_ns = 100000;
enum { COPY_CHUNK_BYTES = 1 << 20, COPY_TRACED_BYTES = 64 << 10 };

static void send_progress_word(void *ctx);

/* ---- life -------------------------------------------------------------------------------------------------------- */

ls_status ls_world_open(ls_world *world, const ls_workers_options *options, const int *cpus, bool crowded) {
    world->timeout_s = options->timeout_s > 0 ? options->timeout_s : 300;
    if (world->threads < 1) world->threads = 1;
    if (!world->attempt) world->place = world->local;
    world->spin_ns = crowded ? 0 : spin_default_ns;
    ls_fpenv_set();
    ls_status status;
    LS_TRY_OUT(ls_wire_open(world, options));
    if (world->segment.base) {
        ls_worker_record *mine = &world->segment.header->workers[world->local];
        mine->rank = world->rank;
        atomic_store(&mine->pid, (int)getpid());
        LS_TRY_OUT(ls_heap_init(&world->heap, &world->segment, world->local));
    }
    LS_TRY_OUT(ls_pool_create(world->threads, cpus, &world->pool));
    LS_TRY_OUT(ls_beat_begin(world));
    ls_alive_set_hook(world->transport->tell ? send_progress_word : NULL, world);
    LS_TRY_OUT(ls_comm_open_world(world, &world->comm));
out:
    return status;
}

static void free_requests(ls_request *list) {
    while (list) {
        ls_request *next = list->next;
        ls_reduce_plan_release(list->plan);
        free(list->scratch);
        free(list->bounds);
        free(list->net);
        free(list->tensors);
        free(list);
        list = next;
    }
}

void ls_world_close(ls_world *world) {
    ls_beat_end(world);
    ls_alive_set_hook(NULL, NULL);
    free_requests(world->flight_first); /* requests that a failure left unfinished */
    free_requests(world->spare);
    ls_comm_close(world->comm);
    ls_pool_destroy(world->pool);
    ls_heap_fini(&world->heap);
    ls_segment_close(&world->segment);
    free(world->machine_of);
    free(world->local_of);
    free(world->host_of);
    free(world->heard_ns);
    free(world->heard_opaque);
    free(world->heard_waits);
}

int ls_world_rank(const ls_world *world) { return world->rank; }
int ls_world_size(const ls_world *world) { return world->size; }
int ls_world_threads(const ls_world *world) { return world->threads; }
const char *ls_world_transport(const ls_world *world) { return world->transport->name; }
ls_comm *ls_world_comm(ls_world *world) { return world->comm; }

void ls_host_name_get(ls_host_name name) {
    if (gethostname(name, LS_HOST_MAX) != 0) snprintf(name, LS_HOST_MAX, "?");
    name[LS_HOST_MAX - 1] = 0;
}

const char *ls_world_host(const ls_world *world, int rank) { return world->host_of ? world->host_of[rank] : NULL; }
int ls_world_late(const ls_world *world) { return world->late - 1; }

ls_status ls_world_alloc(ls_world *world, size_t bytes, void **out) {
    if (world->segment.base) return ls_heap_alloc(&world->heap, bytes, false, out);
    *out = NULL;
    LS_TRY(ls_memory_check(bytes));
    size_t rounded = (bytes / 64 + 1) * 64;
    *out = aligned_alloc(64, rounded);
    if (!*out) return ls_fail(LS_ERR_RESOURCE, "out of memory: %zu MiB requested", bytes >> 20);
    memset(*out, 0, rounded);
    return LS_OK;
}

void ls_world_free(ls_world *world, void *memory) {
    if (!world->segment.base) {
        free(memory);
        return;
    }
    ls_heap_free(&world->heap, memory);
    ls_heap_trim(&world->heap);
}

/* ---- attempts ---------------------------------------------------------------------------------------------------- */

const ls_attempt *ls_world_attempt(const ls_world *world) { return world->attempt; }

void ls_world_keep(ls_world *world, const void *memory) {
    atomic_store_explicit(&world->segment.header->workers[world->local].kept,
                          ls_segment_offset(&world->segment, memory), memory_order_release);
}

void ls_world_ready(ls_world *world) {
    if (!world->attempt) return;
    atomic_fetch_add(&world->segment.header->ready, 1);
    ls_segment_close(&world->attempt->before); /* this process's mapping only */
}

static ls_worker_record *own_record(const ls_world *world) { return &world->segment.header->workers[world->local]; }

void ls_world_rescues(ls_world *world) {
    if (world->attempt) atomic_store(&own_record(world)->rescues, LS_RESCUE_NEEDED);
}

bool ls_world_is_abandoned(const ls_world *world) { return world->attempt && ls_segment_is_abandoned(&world->segment); }

void ls_world_rescuing(ls_world *world) {
    if (world->attempt) atomic_fetch_add(&own_record(world)->rescued, 1);
}

void ls_world_rescued(ls_world *world) {
    if (world->attempt) atomic_store(&own_record(world)->rescues, LS_RESCUE_DONE);
}

bool ls_world_should_leave(const ls_world *world) {
    return world->attempt && atomic_load(&world->segment.header->leave) != 0;
}

void ls_world_go_on(ls_world *world) {
    world->goes_on = world->attempt != NULL; /* published at the end, because the rest may still need the others */
}

/* ---- bells ------------------------------------------------------------------------------------------------------- */

static void ring_if_asleep(ls_worker_record *peer) {
    if (atomic_load_explicit(&peer->sleeping, memory_order_relaxed)) ls_segment_ring(peer);
}

/* The fence orders the caller's publication before the read of `sleeping`; sleep_once() has the other half. */
void ls_world_ring(ls_comm *comm) {
    atomic_thread_fence(memory_order_seq_cst);
    for (int l = 0; l < comm->local_size; l++) ring_if_asleep(comm->records[l]);
}

void ls_world_ring_member(ls_comm *comm, int local) {
    atomic_thread_fence(memory_order_seq_cst);
    ring_if_asleep(comm->records[local]);
}

static void sleep_for(ls_worker_record *mine, uint32_t bell, uint64_t ns) {
    struct timespec slice = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    syscall(SYS_futex, &mine->bell, FUTEX_WAIT, bell, &slice, NULL, 0);
}

static void relax(void) {
#ifdef __aarch64__
    __asm__ volatile("isb" ::: "memory");
#else
    __builtin_ia32_pause();
#endif
}

/* ---- words between machines -------------------------------------------------------------------------------------- */

/* Receives the words that workers of other machines have sent since the last call. */
static void receive_words(ls_world *world) {
    ls_net_word word;
    while (world->transport->hear && world->transport->hear(&word)) {
        uint64_t now = ls_clock_ns(), age = (uint64_t)word.value * 1000000;
        if (word.from < 0 || word.from >= world->size) continue;
        switch (word.kind) {
        case LS_NET_OPAQUE:
        case LS_NET_WORKS:
            world->heard_ns[word.from] = now > age ? now - age : 1;
            world->heard_opaque[word.from] = word.kind == LS_NET_OPAQUE;
            world->heard_waits[word.from] = LS_WAITS_FOR_NOBODY;
            break;
        case LS_NET_WAITS: world->heard_waits[word.from] = word.value + 1; break;
        default:
            if (world->heard_asked == 0) world->heard_asked_ns = now;
            if (world->heard_asked == 0) world->heard_asked = word.value;
        }
    }
}

static void send_word(ls_world *world, ls_net_word_kind kind, int value) {
    if (world->transport->tell)
        world->transport->tell(world, (ls_net_word){.kind = (int)kind, .from = world->rank, .value = value});
}

/* Hook of base/alive.h: this worker is busy with something that the other machines cannot see. */
static void send_progress_word(void *ctx) {
    send_word(ctx, ls_phase_is_opaque(ls_phase_now()) ? LS_NET_OPAQUE : LS_NET_WORKS, 0);
}

void ls_world_ask(ls_world *world, int signal, uint64_t ns) {
    ls_segment_header *header = world->segment.base ? world->segment.header : NULL;
    int none = 0;
    if (!world->has_asked) send_word(world, LS_NET_ASKS, signal);
    world->has_asked = true;
    if (!header || atomic_load(&header->asked) != 0) return;
    atomic_store(&header->asked_ns, ns);
    (void)atomic_compare_exchange_strong(&header->asked, &none, signal);
}

int ls_world_asked(ls_world *world, uint64_t *ns) {
    const ls_segment_header *header = world->segment.base ? world->segment.header : NULL;
    int signal = header ? atomic_load(&header->asked) : 0;
    if (signal) {
        *ns = atomic_load(&header->asked_ns);
        return signal;
    }
    receive_words(world);
    if (world->heard_asked) *ns = world->heard_asked_ns;
    return world->heard_asked;
}

/* ---- failure ----------------------------------------------------------------------------------------------------- */

void ls_world_fail(ls_world *world, ls_status status) {
    if (!world->failed && status != LS_ERR_PEER) {
        world->cause = status;
        (void)snprintf(world->cause_text, sizeof world->cause_text, "%s", ls_status_message());
    }
    world->failed = true;
    if (world->segment.base && status != LS_ERR_PEER)
        ls_segment_fail(&world->segment, world->rank, status, ls_status_message());
}

ls_status ls_world_check(ls_world *world) {
    if (!world->segment.base) return LS_OK;
    bool failed = ls_segment_failed(&world->segment);
    if (!failed && !ls_segment_is_abandoned(&world->segment)) return LS_OK;
    world->failed = true;
    return ls_fail(LS_ERR_PEER, "another worker %s", failed ? "failed" : "is lost");
}

static ls_worker_record *record_of(const ls_world *world, int rank) {
    if (!world->segment.base || world->machine_of[rank] != world->machine_of[world->rank]) return NULL;
    return &world->segment.header->workers[world->local_of[rank]];
}

/* Blames the worker at the end of the chain of waits, which may not be the one that this worker waits for. */
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
    world->late = rank + 1;
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

/* Returns whether the worker at the end of the chain of waits makes progress, or is held by a debugger. */
static bool is_worth_waiting(ls_world *world, const ls_request *r) {
    int through;
    if (r->blocked_on < 0) return false;
    receive_words(world);
    int rank = ls_beat_blame(world, r->comm->world_rank[r->blocked_on], &through);
    const ls_worker_record *late = record_of(world, rank);
    int pid = late ? atomic_load(&late->pid) : 0;
    if (pid && ls_process_is_traced(pid)) return true;
    return ls_beat_is_working(world, rank, world->timeout_s);
}

/* Workers of other machines do not see this worker's beats. So twice a second it sends them a word: either that the
 * worker it waits for makes progress, or which worker that is. */
static void send_wait_word(ls_world *world, const ls_request *r, uint64_t now) {
    int through;
    if (!world->transport->tell || r->blocked_on < 0 || now - world->told_ns < 500000000u) return;
    world->told_ns = now;
    receive_words(world);
    int rank = ls_beat_blame(world, r->comm->world_rank[r->blocked_on], &through);
    uint64_t moved = ls_beat_moved_ns(world, rank);
    if (moved && now - moved < 1000000000u)
        send_word(world, LS_NET_WORKS, (int)((now - moved) / 1000000));
    else
        send_word(world, LS_NET_WAITS, rank);
}

ls_status ls_world_check_stopped(const ls_world *world, double waited_s) {
    for (int l = 0; world->segment.base && l < world->local_size; l++) {
        const ls_worker_record *record = &world->segment.header->workers[l];
        int pid = atomic_load(&record->pid);
        if (pid && ls_process_state(pid) == 'T' && !ls_process_is_traced(pid))
            return ls_fail(LS_ERR_DEADLINE, "worker %d did not answer within %g s: it is stopped (by SIGSTOP)",
                           record->rank, waited_s);
    }
    return LS_OK;
}

/* Fails if the awaited member's function has returned, because it will never join the collective. If the member left
 * because of a signal, the status is LS_ERR_PEER: the signal ended the run. */
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
    for (ls_request *r = world->flight_first; r; r = r->next) {
        if (r->done) continue;
        ls_status status = ls_request_step(r);
        if (status != LS_OK) {
            ls_world_fail(world, status);
            return status;
        }
    }
    return LS_OK;
}

/* Announces the sleep, checks once more for progress, then sleeps. */
static ls_status sleep_once(ls_world *world, ls_request *request) {
    uint64_t slice = world->net_pending ? net_slice_ns : sleep_slice_ns;
    if (!world->segment.base) {
        ls_clock_sleep_us(slice / 1000);
        return LS_OK;
    }
    ls_worker_record *mine = &world->segment.header->workers[world->local];
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

/* Adds up waiting time slice by slice, and counts no slice for more than twice its length, so that a suspended run
 * (Ctrl-Z, a closed laptop) is not taken for a lost worker. */
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
        if (waited_ns > 500000000u) send_wait_word(world, request, now);
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

ls_status ls_world_wait(ls_world *world, ls_request *request) {
    ls_status status = wait_for(world, request);
    ls_beat_go_on(world);
    ls_alive_moved();
    return status;
}

/* ---- copying ----------------------------------------------------------------------------------------------------- */

typedef struct copy_job {
    char *to;
    const char *from;
    size_t bytes;
    bool stream;
} copy_job;

static void copy_chunk(void *context, size_t task, int thread) {
    (void)thread;
    const copy_job *job = context;
    size_t at = task * COPY_CHUNK_BYTES;
    size_t bytes = job->bytes - at < COPY_CHUNK_BYTES ? job->bytes - at : COPY_CHUNK_BYTES;
    if (job->stream) {
        const ls_add_kernels *kernels = &ls_kernels_get()->add;
        kernels->copy_stream(job->to + at, job->from + at, bytes);
        kernels->fence_stream();
    } else {
        memcpy(job->to + at, job->from + at, bytes);
    }
}

void ls_world_copy(ls_world *world, void *to, const void *from, size_t bytes, bool stream) {
    if (bytes == 0 || to == from) return;
    copy_job job = {to, from, bytes, stream};
    size_t chunks = (bytes + COPY_CHUNK_BYTES - 1) / COPY_CHUNK_BYTES;
    ls_span span = bytes < COPY_TRACED_BYTES ? (ls_span){0} : ls_span_begin("comm", "copy");
    if (world->threads > 1 && chunks > 2)
        ls_pool_run(world->pool, chunks, copy_chunk, &job);
    else
        for (size_t i = 0; i < chunks; i++) copy_chunk(&job, i, 0);
    ls_span_end(span, (int64_t)bytes);
}
