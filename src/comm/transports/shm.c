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
 * With a supervision (attempt.h) a worker that is lost ends the attempt and not the run: the others are ended at once
 * where what they hold is in the segment, else when they have brought it there; and a new set is forked. */
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

#include "base/alive.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "comm/comm.h"
#include "comm/grace.h"
#include "comm/placement.h"

/* How long workers may take to leave by themselves after a failure; all must be gone within two seconds. */
static const uint64_t grace_ns = 1000000000;

double ls_workers_grace_s;
/* How long a worker may bring nothing of its device's memory into the segment. */
static const uint64_t rescue_ns = UINT64_C(15000000000);

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
    ls_life_watch lives;
    int lost; /* rank of the first worker that was lost in this attempt; −1: none */
    char lost_text[LS_MESSAGE_MAX];
    uint64_t rescued[LS_WORKERS_MAX], rescued_ns[LS_WORKERS_MAX]; /* then, by rank: how far it is, and since when */
    int places[LS_WORKERS_MAX];                                   /* by rank */
    int signals, interrupts;                                      /* SIGINTs and SIGTERMs that came; SIGINTs alone */
    int passed;                                                   /* the first signal that was passed on, 0: none */
    uint64_t passed_ns;
    bool save_asked; /* SIGUSR1 came: workers that are lost before they have saved take that with them */
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
    if (c->supervision) ls_life_hold(&c->segment.header->workers[rank].life);
    signal(SIGINT, SIG_IGN);
    sigprocmask(SIG_SETMASK, &c->before, NULL);
    ls_log_set_worker(rank);
    ls_world world;
    ls_status status = make_world(c, rank, &world);
    if (status == LS_OK) status = c->fn(&world, c->arg);
    bool stopped = is_stop(c, status);
    bool goes_on = world.goes_on && status == LS_OK;
    if (stopped) ls_fault_point(LS_POINT_STOPPED);
    if (stopped && status != LS_ERR_PEER)
        ls_segment_stop(&c->segment, rank, status, ls_status_message());
    else if (status != LS_OK)
        ls_world_fail(&world, status);
    fflush(NULL);
    atomic_store(&c->segment.header->workers[rank].ended, goes_on   ? LS_ENDED_TO_GO_ON
                                                          : stopped ? LS_ENDED_BY_SIGNAL
                                                                    : LS_ENDED);
    ls_fault_point(goes_on ? LS_POINT_LEAVE : LS_POINT_END);
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
        atomic_store(&c->segment.header->workers[rank].pid, (int)pid); /* it may be stopped before it says so itself */
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
    if (!c->passed && number != SIGUSR1) c->passed = number, c->passed_ns = ls_clock_ns();
    for (int rank = 0; rank < c->workers; rank++) {
        if (c->pids[rank] <= 0) continue;
        (void)sigqueue(c->pids[rank], as_is ? number : SIGTERM, value); /* a child that is gone is reaped next */
        if (number == SIGUSR1) return; /* of two that hear of it in different steps each would have one saved */
    }
}

static bool stops(int number) {
    return number == SIGTERM || number == SIGHUP || number == SIGXCPU || number == SIGUSR2;
}

/* All workers of this attempt have the state: what the one before left is not needed any more. */
static bool is_whole(const crew *c) { return atomic_load(&c->segment.header->ready) == c->workers; }

static bool must_rescue(const crew *c, int rank) {
    return rank != c->lost && is_whole(c) && atomic_load(&c->segment.header->workers[rank].rescues) == LS_RESCUE_NEEDED;
}

/* Ends those who have nothing to bring into the segment, or are done with it, or do not get on with it. */
static void end_attempt(crew *c) {
    uint64_t now = ls_clock_ns();
    for (int rank = 0; rank < c->workers; rank++) {
        uint64_t rescued = atomic_load(&c->segment.header->workers[rank].rescued) + 1;
        if (c->rescued[rank] != rescued) c->rescued_ns[rank] = now;
        c->rescued[rank] = rescued;
        bool waits = must_rescue(c, rank) && now - c->rescued_ns[rank] < rescue_ns;
        if (!waits && c->pids[rank] > 0) kill(c->pids[rank], SIGKILL);
    }
}

/* A worker leaves for a signal when all have agreed on it and the last step is saved: one that is lost after that takes
 * nothing with it, and the run is stopped as it would be without the loss. */
static bool has_stopped(crew *c) {
    const ls_failure *stop = &c->segment.header->stop;
    if (atomic_load(&stop->state) != 2) return false; /* not, or not wholly written */
    ls_segment_fail(&c->segment, -1, stop->status, stop->message);
    return true;
}

/* The first that is lost ends the attempt. What others hold lies in the segment, or is brought there now. */
static void lose(crew *c, int rank, const char *text) {
    if (c->lost >= 0 || has_stopped(c)) return;
    c->lost = rank;
    c->attempt.seen_ns = ls_clock_ns();
    memset(c->rescued, 0, sizeof c->rescued);
    snprintf(c->lost_text, sizeof c->lost_text, "%s", text);
    end_attempt(c); /* who is not asked for anything does not learn of it, and does nothing about it */
    ls_segment_abandon(&c->segment);
}

/* What the end of a worker means, as a failure of the run; nothing if it simply was done. */
static void judge(crew *c, int rank, pid_t pid, int wait_status) {
    char text[LS_MESSAGE_MAX];
    /* It had left, and reported its own failure, if any, whatever became of the process after that. */
    if (atomic_load(&c->segment.header->workers[rank].ended)) return;
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
    } else {
        snprintf(text, sizeof text, "worker %d (process %d) exited with code %d before the run was finished", rank,
                 (int)pid, WEXITSTATUS(wait_status));
    }
    if (ls_segment_failed(&c->segment) || has_stopped(c)) return;
    if (c->supervision) {
        lose(c, rank, text);
        return;
    }
    ls_segment_fail(&c->segment, -1, LS_ERR_WORKER, text);
}

/* Those that are ending, and whose memory may keep the kernel busy for a while. One that a signal to stop ends, or that
 * has said why it ends, is left to reap(). */
static void look_at_dying(crew *c) {
    for (int rank = 0; rank < c->lives.count; rank++) {
        int status;
        if (!atomic_load(&c->lives.of[rank].died) || c->lost >= 0 || c->pids[rank] <= 0) continue;
        if (atomic_load(&c->segment.header->workers[rank].ended)) continue;
        if (!ls_life_status(c->pids[rank], &status) || !WIFSIGNALED(status) || stops(WTERMSIG(status))) continue;
        judge(c, rank, c->pids[rank], status);
    }
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
        atomic_store(&c->segment.header->workers[rank].pid, 0);
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
        c->save_asked = true;
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

/* The first worker that is still there and waits for nobody; else the first that is there. */
static int late_worker(const crew *c) {
    int late = -1;
    for (int rank = c->workers - 1; rank >= 0; rank--) {
        const ls_worker_record *record = &c->segment.header->workers[rank];
        if (c->pids[rank] <= 0 || atomic_load(&record->ended)) continue;
        bool waits = atomic_load(&record->beat.waits_for) != LS_WAITS_FOR_NOBODY;
        if (late < 0 || !waits) late = rank;
    }
    return late;
}

/* The signal came to this process, or to one of the workers. */
static void keep_grace(crew *c) {
    const ls_segment_header *header = c->segment.header;
    int asked = atomic_load(&header->asked);
    uint64_t since = c->passed ? c->passed_ns : asked ? atomic_load(&header->asked_ns) : 0, now = ls_clock_ns();
    if (!(ls_workers_grace_s > 0) || since == 0 || now <= since || ls_segment_failed(&c->segment)) return;
    if ((double)(now - since) * 1e-9 <= ls_workers_grace_s) return;
    int signal = c->passed ? c->passed : asked, late = late_worker(c);
    if (late < 0) return;
    char text[LS_MESSAGE_MAX];
    snprintf(text, sizeof text,
             "%s; worker %d was still %s after %g s (--grace), and was ended: the newest checkpoint is as it was",
             signal_text(signal), late, ls_phase_text((ls_phase)atomic_load(&header->workers[late].beat.phase)),
             ls_workers_grace_s);
    ls_segment_fail(&c->segment, -1, signal_status(signal), text);
    kill_all(c);
}

/* One that hangs is lost: it is ended with the others, and replaced. */
static void end_suspect(crew *c) {
    char text[LS_MESSAGE_MAX];
    int rank = c->lost < 0 && !ls_segment_failed(&c->segment)
                   ? ls_beat_suspect(&c->beats, &c->segment, text, sizeof text)
                   : -1;
    if (rank < 0) return;
    if (atomic_load(&c->segment.header->workers[rank].ended))
        kill(c->pids[rank], SIGKILL); /* nothing is lost with it */
    else
        lose(c, rank, text);
}

/* Without a supervision workers find out by themselves that one of them is late, unless all of them are stopped. */
static void end_stopped(crew *c) {
    int stopped;
    double silence_s = ls_beat_all_stopped_s(&c->beats, &c->segment, &stopped);
    double limit_s = c->beats.timeout_s > 0 ? c->beats.timeout_s : 300;
    if (stopped < 0 || silence_s <= limit_s || ls_segment_failed(&c->segment)) return;
    char text[LS_MESSAGE_MAX];
    snprintf(
        text, sizeof text,
        "all workers have been stopped (by SIGSTOP) for %.0f s, the first of them worker %d (process %d), and were "
        "ended (--timeout)",
        silence_s, stopped, (int)c->pids[stopped]);
    ls_segment_fail(&c->segment, -1, LS_ERR_DEADLINE, text);
    kill_all(c);
}

static void look_after(crew *c) {
    if (!c->supervision) {
        end_stopped(c);
        return;
    }
    end_suspect(c);
    if (c->lives.count == 0 && is_whole(c)) ls_life_watch_begin(&c->lives, &c->segment);
    if (c->attempt.before.base && is_whole(c)) ls_segment_close(&c->attempt.before);
    bool leave = c->supervision->wants_change && c->supervision->wants_change(c->supervision->ctx);
    if (leave && is_whole(c)) atomic_store(&c->segment.header->leave, 1);
}

/* Until the last child is gone. */
static void watch(crew *c) {
    uint64_t failed_ns = 0;
    reap(c);
    while (c->alive > 0) {
        bool failing = ls_segment_failed(&c->segment);
        if (failing && !failed_ns) failed_ns = ls_clock_ns();
        if (failing && ls_clock_ns() - failed_ns > grace_ns) kill_all(c);
        if (c->options->pass_signals) keep_grace(c);
        look_after(c);
        if (c->lost >= 0) end_attempt(c);
        /* A worker may fail without ending: then nothing but this look at the segment tells. */
        struct timespec slice = {.tv_nsec = c->lost >= 0 ? 1000000 : failing ? 10000000 : 100000000};
        int number = sigtimedwait(&c->waited, NULL, &slice);
        if (number > 0 && number != SIGCHLD) on_signal(c, number);
        look_at_dying(c);
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
    LS_TRY(ls_segment_create(c->workers, c->options->heap_bytes, ls_comm_control_bytes(c->workers), &c->segment));
    if (c->supervision) ls_life_init(&c->segment);
    return LS_OK;
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

/* A signal that came to a worker alone goes to the next attempt's, as one that came to this process does. */
static void keep_asked(crew *c) {
    const ls_segment_header *header = c->segment.header;
    int asked = atomic_load(&header->asked);
    if (c->passed || asked == 0) return;
    c->passed = asked;
    c->passed_ns = atomic_load(&header->asked_ns);
}

/* From the attempt that ended to the next one. */
static ls_status begin_anew(crew *c) {
    ls_attempt_end end = {.rank = c->lost, .whole = is_whole(c), .placement = &c->placement, .wrong_place = -1};
    int workers = c->workers;
    keep_asked(c);
    if (end.whole) {
        ls_segment_close(&c->attempt.before);
        c->attempt.before = c->segment;
        c->segment = (ls_segment){.fd = -1};
    } else {
        ls_segment_close(&c->segment);
    }
    end.segment = &c->attempt.before;
    snprintf(end.text, sizeof end.text, "%s", c->lost_text);
    if (end.rank < 0) c->attempt.seen_ns = ls_clock_ns();
    LS_TRY(c->supervision->next(c->supervision->ctx, &end, &workers, c->places));
    if (end.wrong_place >= 0) ls_placement_leave_out(&c->placement, end.wrong_place);
    c->workers = workers;
    c->attempt.number++;
    if (c->lost < 0) c->attempt.seen_ns = 0;
    c->lost = -1;
    c->lost_text[0] = '\0';
    c->beats = (ls_beat_watch){.timeout_s = c->options->timeout_s};
    if (end.shares_out > 0) LS_TRY(place_workers(c, end.shares_out));
    return make_segment(c);
}

/* From the fork to the end of the last worker. */
static ls_status run_attempt(crew *c) {
    c->attempt.begun_ns = ls_clock_ns();
    ls_status status = start(c);
    if (status != LS_OK) ls_segment_fail(&c->segment, -1, status, ls_status_message());
    if (c->passed) pass_on(c, c->passed);
    if (c->save_asked && c->attempt.number > 0) pass_on(c, SIGUSR1);
    watch(c);
    ls_life_watch_end(&c->lives);
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
    c->beats.timeout_s = options->timeout_s;
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
