/* shm.c: workers as processes of this machine, forked and watched over by the calling process.
 *
 * The parent does no work. It waits for its children; when the first of them is lost or fails, it notes who and why in
 * the segment, which wakes all others out of their waits, gives them a second to leave, and ends the rest. Children die
 * with their parent (PR_SET_PDEATHSIG), and the segment with the last process, so nothing can be left behind.
 *
 * SIGINT and SIGTERM are the parent's: children ignore SIGINT, which a terminal sends to all of them. Without
 * pass_signals the parent makes a failure of the first one; a second one ends everything at once. With pass_signals it
 * sends each of them on as a SIGTERM that carries the number of the signal, so that the kind is known and a SIGINT
 * never comes twice; a worker that then leaves with such a status (ls_status_is_stop) is no failure, and the others
 * take the time they need. A second SIGINT ends everything at once, another SIGTERM is sent on as the first. SIGHUP and
 * SIGXCPU are then as SIGTERM; SIGUSR1 and SIGUSR2 are sent on as they are. A worker that SIGTERM ends before it has a
 * handler has been asked to stop like the parent.
 *
 * With a supervision (attempt.h) a worker that is lost ends the attempt and not the run: the others are ended at once,
 * since what they hold is in the segment, and a new set is forked. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "comm/comm.h"
#include "comm/placement.h"

/* How long workers may take to leave by themselves after a failure; all must be gone within two seconds. */
static const uint64_t grace_ns = 1000000000;

typedef struct crew {
    const ls_workers_options *options;
    ls_worker_fn fn;
    void *arg;
    ls_placement placement;
    ls_segment segment;
    int workers, alive;
    const ls_supervision *supervision; /* NULL: a lost worker ends the run */
    ls_attempt attempt;
    ls_beat_watch beats;
    int lost; /* rank of the first worker that was lost in this attempt; −1: none */
    char lost_text[LS_MESSAGE_MAX];
    int places[LS_WORKERS_MAX]; /* by rank */
    int signals, interrupts;    /* SIGINTs and SIGTERMs that came; SIGINTs alone */
    int passed;                 /* the first signal that was passed on, 0: none */
    pid_t pids[LS_WORKERS_MAX];
    sigset_t waited, before;
    struct sigaction old_child;
} crew;

/* ---- the child --------------------------------------------------------------------------------------------------- */

static ls_status make_world(crew *c, int rank, ls_world *world) {
    *world = (ls_world){.rank = rank,
                        .size = c->workers,
                        .local = rank,
                        .local_size = c->workers,
                        .threads = c->placement.threads,
                        .transport = &ls_transport_shm,
                        .attempt = c->supervision ? &c->attempt : NULL,
                        .place = c->places[rank],
                        .segment = c->segment};
    world->machine_of = calloc((size_t)c->workers, sizeof(int));
    world->local_of = malloc(sizeof(int) * (size_t)c->workers);
    if (!world->machine_of || !world->local_of) return ls_fail(LS_ERR_RESOURCE, "out of memory for a worker");
    for (int r = 0; r < c->workers; r++) world->local_of[r] = r;
    return ls_world_open(world, c->options, ls_placement_cpus(&c->placement, c->places[rank]), c->placement.crowded);
}

/* Whether a worker ends because of a signal that was passed on, or because it needs one that did. */
static bool is_stop(const crew *c, ls_status status) {
    if (!c->options->pass_signals) return false;
    if (status == LS_ERR_PEER) return atomic_load(&c->segment.header->stop.state) != 0;
    return ls_status_is_stop(status);
}

static _Noreturn void run_child(crew *c, int rank, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(LS_ERR_WORKER); /* it died before the line above */
    signal(SIGINT, SIG_IGN);
    sigprocmask(SIG_SETMASK, &c->before, NULL);
    ls_log_set_worker(rank);
    ls_world world;
    ls_status status = make_world(c, rank, &world);
    if (status == LS_OK) status = c->fn(&world, c->arg);
    bool stopped = is_stop(c, status);
    if (atomic_load(&c->segment.header->workers[rank].ended) == LS_ENDED_TO_GO_ON && status == LS_OK) {
        fflush(NULL);
        _exit(0);
    }
    if (stopped && status != LS_ERR_PEER)
        ls_segment_stop(&c->segment, rank, status, ls_status_message());
    else if (status != LS_OK)
        ls_world_fail(&world, status);
    fflush(NULL);
    atomic_store(&c->segment.header->workers[rank].ended, stopped ? LS_ENDED_BY_SIGNAL : LS_ENDED);
    /* Handlers that the program set up for its own end are the parent's to run. */
    _exit(ls_status_exit_code(status));
}

/* ---- the parent -------------------------------------------------------------------------------------------------- */

static ls_status start(crew *c) {
    pid_t parent = getpid();
    fflush(NULL); /* or every child would print what is still in the buffers */
    for (int rank = 0; rank < c->workers; rank++) {
        pid_t pid = fork();
        if (pid == 0) run_child(c, rank, parent);
        if (pid < 0)
            return ls_fail_errno(LS_ERR_RESOURCE, "cannot start worker %d of %d (check the process limit, ulimit -u)",
                                 rank, c->workers);
        c->pids[rank] = pid;
        c->alive++;
    }
    return LS_OK;
}

static void kill_all(const crew *c) {
    for (int rank = 0; rank < c->workers; rank++)
        if (c->pids[rank] > 0) kill(c->pids[rank], SIGKILL);
}

static ls_status signal_status(int number) {
    return number == SIGINT ? LS_ERR_INTERRUPTED : number == SIGUSR2 ? LS_ERR_REQUEUED : LS_ERR_TERMINATED;
}

static const char *signal_text(int number) {
    return number == SIGINT    ? "interrupted"
           : number == SIGUSR2 ? "stopped by signal 12, SIGUSR2, to be started again"
                               : "terminated by signal 15, SIGTERM";
}

static void pass_on(crew *c, int number) {
    bool as_is = number == SIGUSR1 || number == SIGUSR2;
    union sigval value = {.sival_int = number};
    if (!c->passed && number != SIGUSR1) c->passed = number;
    for (int rank = 0; rank < c->workers; rank++)
        if (c->pids[rank] > 0)
            (void)sigqueue(c->pids[rank], as_is ? number : SIGTERM, value); /* a child that is gone is reaped next */
}

static bool stops(int number) {
    return number == SIGTERM || number == SIGHUP || number == SIGXCPU || number == SIGUSR2;
}

/* The first that is lost ends the attempt. What the others hold lies in the segment, so none of them is asked. */
static void lose(crew *c, int rank, const char *text) {
    if (c->lost >= 0) return;
    c->lost = rank;
    c->attempt.seen_ns = ls_clock_ns();
    snprintf(c->lost_text, sizeof c->lost_text, "%s", text);
    kill_all(c);
}

/* What the end of a worker means, as a failure of the run; nothing if it simply was done. */
static void judge(crew *c, int rank, pid_t pid, int wait_status) {
    char text[LS_MESSAGE_MAX];
    if (WIFSIGNALED(wait_status) && stops(WTERMSIG(wait_status)) && c->options->pass_signals) {
        /* It had no handler, not yet or not any more: it has stopped, and the others may still be about it. */
        if (!c->passed) pass_on(c, WTERMSIG(wait_status));
        ls_segment_stop(&c->segment, rank, signal_status(c->passed), signal_text(c->passed));
        atomic_store(&c->segment.header->workers[rank].ended, LS_ENDED_BY_SIGNAL);
        return;
    }
    if (WIFSIGNALED(wait_status)) {
        int number = WTERMSIG(wait_status);
        const char *hint = number == SIGKILL
                               ? " (by another process, or by the kernel because the machine ran out of memory)"
                           : number == SIGBUS ? " (possibly out of shared memory)"
                                              : "";
        snprintf(text, sizeof text, "worker %d (process %d) was killed by signal %d, SIG%s%s", rank, (int)pid, number,
                 sigabbrev_np(number) ? sigabbrev_np(number) : "?", hint);
    } else if (!atomic_load(&c->segment.header->workers[rank].ended)) {
        snprintf(text, sizeof text, "worker %d (process %d) exited with code %d before the run was finished", rank,
                 (int)pid, WEXITSTATUS(wait_status));
    } else {
        return; /* it has reported its own failure, if any */
    }
    if (c->supervision && !ls_segment_failed(&c->segment)) {
        lose(c, rank, text);
        return;
    }
    ls_segment_fail(&c->segment, -1, LS_ERR_WORKER, text);
}

/* Collects workers that have ended; other children of this process are not ours to collect. */
static void reap(crew *c) {
    for (int rank = 0; rank < c->workers; rank++) {
        int wait_status;
        if (c->pids[rank] <= 0) continue;
        pid_t pid = waitpid(c->pids[rank], &wait_status, WNOHANG);
        if (pid == 0 || (pid < 0 && errno == EINTR)) continue;
        pid_t gone = c->pids[rank];
        c->pids[rank] = 0;
        c->alive--;
        if (pid > 0) judge(c, rank, gone, wait_status);
    }
}

/* The failure as this process's status; without one, that of a stop. */
static ls_status report(const crew *c) {
    const ls_segment_header *header = c->segment.header;
    const ls_failure *failure = &header->failure, *stop = &header->stop;
    if (atomic_load(&failure->state) == 0)
        return atomic_load(&stop->state) == 0 ? LS_OK : ls_fail(stop->status, "%s", stop->message);
    bool alone = c->supervision && c->workers == 1; /* nobody knows that it is a worker */
    if (failure->rank < 0 || failure->status == LS_ERR_DEADLINE || alone)
        return ls_fail(failure->status, "%s", failure->message);
    return ls_fail(failure->status, "worker %d: %s", failure->rank, failure->message);
}

static void on_signal(crew *c, int number) {
    bool pass = c->options->pass_signals;
    if (number == SIGUSR1) {
        pass_on(c, number);
        return;
    }
    c->signals++;
    if (number == SIGINT) c->interrupts++;
    bool again = (pass ? c->interrupts : c->signals) > 1;
    if (pass && !again) {
        pass_on(c, number);
        return;
    }
    ls_segment_fail(&c->segment, -1, signal_status(number), signal_text(number));
    if (again) kill_all(c);
}

/* All workers of this attempt have the state: what the one before left is not needed any more. */
static bool is_whole(const crew *c) { return atomic_load(&c->segment.header->ready) == c->workers; }

/* One that hangs is lost: it is ended with the others, and replaced. */
static void end_suspect(crew *c) {
    char text[LS_MESSAGE_MAX];
    int rank = c->lost < 0 && !ls_segment_failed(&c->segment)
                   ? ls_beat_suspect(&c->beats, &c->segment, text, sizeof text)
                   : -1;
    if (rank >= 0) lose(c, rank, text);
}

static void look_after(crew *c) {
    if (!c->supervision) return;
    end_suspect(c);
    if (c->attempt.before.base && is_whole(c)) ls_segment_close(&c->attempt.before);
    if (is_whole(c) && c->supervision->wants_change && c->supervision->wants_change(c->supervision->ctx))
        atomic_store(&c->segment.header->leave, 1);
}

/* Until the last child is gone. */
static void watch(crew *c) {
    uint64_t failed_ns = 0;
    reap(c);
    while (c->alive > 0) {
        bool failing = ls_segment_failed(&c->segment);
        if (failing && !failed_ns) failed_ns = ls_clock_ns();
        if (failing && ls_clock_ns() - failed_ns > grace_ns) kill_all(c);
        look_after(c);
        /* A worker may fail without ending: then nothing but this look at the segment tells. */
        struct timespec slice = {.tv_nsec = failing ? 10000000 : 100000000};
        int number = sigtimedwait(&c->waited, NULL, &slice);
        if (number > 0 && number != SIGCHLD) on_signal(c, number);
        reap(c);
    }
}

/* What is ignored (nohup, a job in the background) stays ignored: blocked, it would be kept for us all the same. */
static void wait_for(crew *c, int number) {
    struct sigaction action;
    if (sigaction(number, NULL, &action) == 0 && (action.sa_flags & SA_SIGINFO || action.sa_handler != SIG_IGN))
        sigaddset(&c->waited, number);
}

/* SIGCHLD and the signals that end a run are taken with sigtimedwait, so they are blocked meanwhile. */
static void take_signals(crew *c) {
    sigemptyset(&c->waited);
    sigaddset(&c->waited, SIGCHLD);
    wait_for(c, SIGINT);
    wait_for(c, SIGTERM);
    static const int passed[] = {SIGHUP, SIGXCPU, SIGUSR1, SIGUSR2};
    for (size_t i = 0; c->options->pass_signals && i < sizeof passed / sizeof *passed; i++) wait_for(c, passed[i]);
    sigprocmask(SIG_BLOCK, &c->waited, &c->before);
    /* A program that ignores SIGCHLD would not learn how its workers ended. */
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigaction(SIGCHLD, &plain, &c->old_child);
}

static void give_signals_back(crew *c) {
    struct timespec none = {0};
    while (sigtimedwait(&c->waited, NULL, &none) > 0) continue; /* they were dealt with */
    sigaction(SIGCHLD, &c->old_child, NULL);
    sigprocmask(SIG_SETMASK, &c->before, NULL);
}

static void warn_crowded(const crew *c) {
    if (c->placement.crowded)
        ls_log_warn("%d workers with %d thread%s on %d core%s: more threads than cores, expect no speed-up", c->workers,
                    c->placement.threads, c->placement.threads == 1 ? "" : "s", c->placement.cores,
                    c->placement.cores == 1 ? "" : "s");
}

static ls_status make_segment(crew *c) {
    return ls_segment_create(c->workers, c->options->heap_bytes, ls_comm_control_bytes(c->workers), &c->segment);
}

static ls_status place_workers(crew *c, int places) {
    ls_placement_free(&c->placement);
    return ls_placement_make(places, c->options->threads, !c->options->no_pin, &c->placement);
}

/* Whether the attempt ended and the run did not. */
static bool goes_on(const crew *c) {
    if (!c->supervision || ls_segment_failed(&c->segment)) return false;
    return c->lost >= 0 || atomic_load(&c->segment.header->workers[0].ended) == LS_ENDED_TO_GO_ON;
}

/* From the attempt that ended to the next one. */
static ls_status begin_anew(crew *c) {
    ls_attempt_end end = {.rank = c->lost, .whole = is_whole(c)};
    int workers = c->workers;
    if (end.whole) {
        ls_segment_close(&c->attempt.before);
        c->attempt.before = c->segment;
        c->segment = (ls_segment){.fd = -1};
    } else {
        ls_segment_close(&c->segment);
    }
    end.segment = &c->attempt.before;
    snprintf(end.text, sizeof end.text, "%s", c->lost_text);
    LS_TRY(c->supervision->next(c->supervision->ctx, &end, &workers, c->places));
    c->workers = workers;
    c->attempt.number++;
    c->lost = -1;
    c->lost_text[0] = '\0';
    c->beats = (ls_beat_watch){0};
    if (end.rank < 0 || workers > c->placement.workers) LS_TRY(place_workers(c, workers));
    return make_segment(c);
}

/* From the fork to the end of the last worker. */
static ls_status run_attempt(crew *c) {
    ls_status status = start(c);
    if (status != LS_OK) ls_segment_fail(&c->segment, -1, status, ls_status_message());
    if (c->passed) pass_on(c, c->passed);
    watch(c);
    return goes_on(c) ? LS_OK : report(c);
}

static ls_status run_all(crew *c) {
    ls_status status;
    for (;;) {
        status = run_attempt(c);
        if (!goes_on(c)) return status;
        LS_TRY(begin_anew(c));
    }
}

static ls_status run_crew(const ls_workers_options *options, const ls_supervision *supervision, ls_worker_fn fn,
                          void *arg) {
    crew *c = calloc(1, sizeof *c);
    if (!c) return ls_fail(LS_ERR_RESOURCE, "out of memory for %d workers", options->workers);
    c->options = options;
    c->supervision = supervision;
    c->fn = fn;
    c->arg = arg;
    c->workers = options->workers;
    c->segment.fd = c->attempt.before.fd = c->lost = -1;
    for (int rank = 0; rank < c->workers; rank++) c->places[rank] = rank;
    ls_status status;
    LS_TRY_OUT(place_workers(c, supervision && supervision->places > c->workers ? supervision->places : c->workers));
    LS_TRY_OUT(make_segment(c));
    warn_crowded(c);
    take_signals(c);
    status = run_all(c);
    give_signals_back(c);
out:
    ls_segment_close(&c->segment);
    ls_segment_close(&c->attempt.before);
    ls_placement_free(&c->placement);
    free(c);
    return status;
}

static ls_status run(const ls_workers_options *options, ls_worker_fn fn, void *arg) {
    return run_crew(options, NULL, fn, arg);
}

ls_status ls_workers_supervise(const ls_workers_options *options, const ls_supervision *supervision, ls_worker_fn fn,
                               void *arg) {
    return run_crew(options, supervision, fn, arg);
}

const ls_transport ls_transport_shm = {.name = "shm", .run = run};
