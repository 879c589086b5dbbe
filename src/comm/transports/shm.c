/* shm.c: workers as processes of this machine, forked and watched by the calling process.
 *
 * The parent does no work. It waits for its children. When the first of them is lost or fails, the parent records the
 * rank and the reason in the segment, which wakes all others from their waits; it gives them a second to leave, and
 * kills the rest. Children die with their parent (PR_SET_PDEATHSIG), and the segment disappears with the last process,
 * so nothing is left behind.
 *
 * The parent handles SIGINT and SIGTERM; children ignore SIGINT, which a terminal sends to all of them. Without
 * pass_signals the first signal fails the run and a second one kills everything at once. With pass_signals:
 *   - the parent forwards each signal as a SIGTERM that carries the signal's number, so that the worker knows which it
 *     was and never sees a SIGINT twice. SIGHUP and SIGXCPU are treated as SIGTERM; SIGUSR1 and SIGUSR2 are forwarded
 *     unchanged.
 *   - a worker that then leaves with such a status (ls_status_is_stop) has not failed, and the others take the time
 * they need. A worker that SIGTERM kills before it has a handler counts as asked to stop.
 *   - a second SIGINT kills everything at once; a second SIGTERM is forwarded like the first.
 *
 * Under a supervisor (attempt.h) a lost worker ends the attempt, not the run: workers whose state is in the segment are
 * killed at once, the others once they have copied it there, and a new set is forked. */
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
#include "comm/communicators/communicators.h"
#include "comm/transports/open.h"
#include "comm/transports/supervise.h"
#include "comm/transports/suspect.h"
#include "comm/transports/transports.h"
#include "comm/transports/grace.h"
#include "comm/launch/placement.h"
#include "comm/shm/life.h"

/* How long workers may take to leave after a failure; all must have exited within two seconds. */
static const uint64_t grace_ns = 1000000000;

double ls_workers_grace_s;
/* How long the rescue of a worker's device memory may make no progress. */
static const uint64_t rescue_ns = UINT64_C(15000000000);

typedef struct crew {
    const ls_workers_options *options;
    ls_worker_fn fn;
    void *arg;
    ls_placement placement;
    ls_segment segment;
    int workers, alive;                /* of this attempt: number, and those not yet reaped */
    const ls_supervision *supervision; /* NULL: a lost worker ends the run */
    ls_attempt attempt;
    ls_beat_watch beats;
    ls_life_watch lives;
    int lost; /* rank of the first worker that was lost in this attempt; −1: none */
    char lost_text[LS_MESSAGE_MAX];
    uint64_t rescued[LS_WORKERS_MAX], rescued_ns[LS_WORKERS_MAX]; /* by rank: progress of its rescue, and since when */
    int places[LS_WORKERS_MAX];                                   /* by rank */
    int signals, interrupts;                                      /* number of signals to stop; of SIGINTs only */
    int passed;                                                   /* the first signal that was forwarded; 0: none */
    uint64_t passed_ns;                                           /* when that signal came, monotonic */
    bool save_asked;            /* SIGUSR1 came; repeated in the next attempt, since a lost worker may not have saved */
    pid_t pids[LS_WORKERS_MAX]; /* by rank; 0: reaped */
    sigset_t waited, before;
    struct sigaction old_child;
} crew;

/* ---- the child --------------------------------------------------------------------------------------------------- */

/* Makes and opens the world of worker `rank`, in the forked process. */
static ls_status make_world(crew *c, int rank, ls_world *world) {
    *world = (ls_world){.rank = rank,
                        .size = c->workers,
                        .machines = {.local = rank, .local_size = c->workers},
                        .threads = c->placement.threads,
                        .transport = &ls_transport_shm,
                        .attempt = c->supervision ? &c->attempt : NULL,
                        .place = c->places[rank],
                        .segment = c->segment};
    world->machines.of = calloc((size_t)c->workers, sizeof(int));
    world->machines.local_of = malloc(sizeof(int) * (size_t)c->workers);
    if (!world->machines.of || !world->machines.local_of) return ls_fail(LS_ERR_RESOURCE, "out of memory for a worker");
    for (int r = 0; r < c->workers; r++) world->machines.local_of[r] = r;
    return ls_world_open(world, c->options, ls_placement_cpus(&c->placement, c->places[rank]), c->placement.crowded);
}

/* Returns whether a worker ends because of a forwarded signal, or because it needs a worker that did. */
static bool is_stop(const crew *c, ls_status status) {
    if (!c->options->pass_signals) return false;
    if (status == LS_ERR_PEER) return atomic_load(&c->segment.header->stop.state) != 0;
    return ls_status_is_stop(status);
}

/* The main function of a forked worker: opens the world, calls the worker's function, records in the segment how it
 * ended, and exits without running the program's exit handlers. */
static _Noreturn void run_child(crew *c, int rank, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(LS_ERR_WORKER); /* the parent died before prctl() */
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
    /* _exit(), because exit handlers of the program must run in the parent only. */
    _exit(ls_status_exit_code(status));
}

/* ---- the parent -------------------------------------------------------------------------------------------------- */

/* Forks all workers of an attempt. After an error those that were forked are left to the caller. */
static ls_status fork_workers(crew *c) {
    pid_t parent = getpid();
    fflush(NULL); /* otherwise every child would print what is still buffered */
    for (int rank = 0; rank < c->workers; rank++) {
        pid_t pid = fork();
        if (pid == 0) run_child(c, rank, parent);
        if (pid < 0)
            return ls_fail_errno(LS_ERR_RESOURCE, "cannot start worker %d of %d (check the process limit, ulimit -u)",
                                 rank, c->workers);
        c->pids[rank] = pid;
        atomic_store(&c->segment.header->workers[rank].pid,
                     (int)pid); /* here, too: the worker may be stopped before it writes its pid */
        c->alive++;
    }
    return LS_OK;
}

/* Sends SIGKILL to all workers that have not been reaped. */
static void kill_all(const crew *c) {
    for (int rank = 0; rank < c->workers; rank++)
        if (c->pids[rank] > 0) kill(c->pids[rank], SIGKILL);
}

/* Returns the status with which a run ends because of this signal. */
static ls_status signal_status(int number) {
    return number == SIGINT ? LS_ERR_INTERRUPTED : number == SIGUSR2 ? LS_ERR_REQUEUED : LS_ERR_TERMINATED;
}

/* Returns the message of a run that ends because of this signal. */
static const char *signal_text(int number) {
    return number == SIGINT    ? "interrupted"
           : number == SIGUSR2 ? "stopped by signal 12, SIGUSR2, to be started again"
                               : "terminated by signal 15, SIGTERM";
}

/* Sends a signal to the workers, with its number as value: SIGUSR1 (save) to the first living worker only, SIGUSR2 as
 * it is to all, any other as SIGTERM. Records the first signal to stop. */
static void forward_signal(crew *c, int number) {
    bool as_is = number == SIGUSR1 || number == SIGUSR2;
    union sigval value = {.sival_int = number};
    if (!c->passed && number != SIGUSR1) c->passed = number, c->passed_ns = ls_clock_ns();
    for (int rank = 0; rank < c->workers; rank++) {
        if (c->pids[rank] <= 0) continue;
        (void)sigqueue(c->pids[rank], as_is ? number : SIGTERM, value); /* fails for a child that ended; it is reaped */
        if (number == SIGUSR1) return; /* one worker only: two could see it in different steps and save twice */
    }
}

/* Returns whether a worker that this signal kills counts as asked to stop, not as lost. */
static bool is_stop_signal(int number) {
    return number == SIGTERM || number == SIGHUP || number == SIGXCPU || number == SIGUSR2;
}

/* Returns whether all workers of this attempt have restored their state, so that the segment before is not needed. */
static bool is_whole(const crew *c) { return atomic_load(&c->segment.header->ready) == c->workers; }

/* Returns whether worker `rank` survived and must still copy its state to the segment. Before all workers have restored
 * their state there is nothing to rescue: the segment of the previous attempt still holds it. */
static bool must_rescue(const crew *c, int rank) {
    return rank != c->lost && is_whole(c) && atomic_load(&c->segment.header->workers[rank].rescues) == LS_RESCUE_NEEDED;
}

/* Kills workers that have nothing to rescue, have finished their rescue, or are stalled in it. */
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

/* Returns whether a worker has left because of a signal. Workers do so after all have agreed and the last step is
 * saved, so a worker lost after that loses no state, and the run stops as it would have without the loss:
 * if so, the stop is recorded as the run's failure, which ends the other workers. */
static bool has_stopped(crew *c) {
    const ls_failure *stop = &c->segment.header->stop;
    if (atomic_load(&stop->state) != 2) return false; /* none, or not completely written */
    ls_segment_fail(&c->segment, -1, stop->status, stop->message);
    return true;
}

/* Ends the attempt because a worker is lost: kills workers that have nothing to rescue and wakes the others, which copy
 * their state to the segment. Does nothing if a worker was lost before, or the run is stopping. */
static void lose_worker(crew *c, int rank, const char *text) {
    if (c->lost >= 0 || has_stopped(c)) return;
    c->lost = rank;
    c->attempt.seen_ns = ls_clock_ns();
    memset(c->rescued, 0, sizeof c->rescued);
    snprintf(c->lost_text, sizeof c->lost_text, "%s", text);
    end_attempt(c); /* first: workers without a rescue are killed before they can react to the loss */
    ls_segment_abandon(&c->segment);
}

/* Decides what the end of a worker means: no failure, a stop, a lost worker, or a failure of the run. */
static void judge_exit(crew *c, int rank, pid_t pid, int wait_status) {
    char text[LS_MESSAGE_MAX];
    /* Its function had returned and its failure, if any, is recorded; how the process ended does not matter. */
    if (atomic_load(&c->segment.header->workers[rank].ended)) return;
    if (WIFSIGNALED(wait_status) && is_stop_signal(WTERMSIG(wait_status)) && c->options->pass_signals) {
        /* It had no handler (yet, or any more), so it has stopped; the others may still be stopping. */
        if (!c->passed) forward_signal(c, WTERMSIG(wait_status));
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
        lose_worker(c, rank, text);
        return;
    }
    ls_segment_fail(&c->segment, -1, LS_ERR_WORKER, text);
}

/* Judges workers that a signal kills but whose memory the kernel still frees (shm/life.h). Those that exit, that a
 * signal to stop kills, or that have recorded why they end are left to reap_workers(), and so are all once one is
 * lost. */
static void judge_dying(crew *c) {
    for (int rank = 0; rank < c->lives.count; rank++) {
        int status;
        if (!atomic_load(&c->lives.of[rank].died) || c->lost >= 0 || c->pids[rank] <= 0) continue;
        if (atomic_load(&c->segment.header->workers[rank].ended)) continue;
        if (!ls_life_status(c->pids[rank], &status) || !WIFSIGNALED(status) || is_stop_signal(WTERMSIG(status)))
            continue;
        judge_exit(c, rank, c->pids[rank], status);
    }
}

/* Reaps workers that have ended, but no other children of this process. */
static void reap_workers(crew *c) {
    for (int rank = 0; rank < c->workers; rank++) {
        int wait_status;
        if (c->pids[rank] <= 0) continue;
        pid_t pid = waitpid(c->pids[rank], &wait_status, WNOHANG);
        if (pid == 0 || (pid < 0 && errno == EINTR)) continue;
        pid_t gone = c->pids[rank];
        c->pids[rank] = 0;
        atomic_store(&c->segment.header->workers[rank].pid, 0);
        c->alive--;
        if (pid > 0) judge_exit(c, rank, gone, wait_status);
    }
}

/* Returns the recorded failure as this process's status; without a failure, that of a stop. */
static ls_status report_failure(const crew *c) {
    const ls_segment_header *header = c->segment.header;
    const ls_failure *failure = &header->failure, *stop = &header->stop;
    if (atomic_load(&failure->state) == 0)
        return atomic_load(&stop->state) == 0 ? LS_OK : ls_fail(stop->status, "%s", stop->message);
    bool alone = c->supervision && c->workers == 1; /* the user did not ask for workers, so no rank is named */
    if (failure->rank < 0 || failure->status == LS_ERR_DEADLINE || alone)
        return ls_fail(failure->status, "%s", failure->message);
    return ls_fail(failure->status, "worker %d: %s", failure->rank, failure->message);
}

/* Handles a signal to this process: forwards it, or fails the run, and kills all workers at the second one
 * (pass_signals: the second SIGINT). */
static void handle_signal(crew *c, int number) {
    bool pass = c->options->pass_signals;
    if (number == SIGUSR1) {
        c->save_asked = true;
        forward_signal(c, number);
        return;
    }
    c->signals++;
    if (number == SIGINT) c->interrupts++;
    bool again = (pass ? c->interrupts : c->signals) > 1;
    if (pass && !again) {
        forward_signal(c, number);
        return;
    }
    ls_segment_fail(&c->segment, -1, signal_status(number), signal_text(number));
    if (again) kill_all(c);
}

/* Returns the lowest rank still running that waits for no other; if all wait, the highest; −1: none runs. */
static int find_late_worker(const crew *c) {
    int late = -1;
    for (int rank = c->workers - 1; rank >= 0; rank--) {
        const ls_worker_record *record = &c->segment.header->workers[rank];
        if (c->pids[rank] <= 0 || atomic_load(&record->ended)) continue;
        bool waits = atomic_load(&record->beat.waits_for) != LS_WAITS_FOR_NONE;
        if (late < 0 || !waits) late = rank;
    }
    return late;
}

/* Fails the run and kills all workers once --grace has passed since a signal to stop came to this process or to a
 * worker. */
static void enforce_grace(crew *c) {
    const ls_segment_header *header = c->segment.header;
    int asked = atomic_load(&header->asked);
    uint64_t since = c->passed ? c->passed_ns : asked ? atomic_load(&header->asked_ns) : 0, now = ls_clock_ns();
    if (!(ls_workers_grace_s > 0) || since == 0 || now <= since || ls_segment_failed(&c->segment)) return;
    if ((double)(now - since) * 1e-9 <= ls_workers_grace_s) return;
    int signal = c->passed ? c->passed : asked, late = find_late_worker(c);
    if (late < 0) return;
    char text[LS_MESSAGE_MAX];
    snprintf(text, sizeof text,
             "%s; worker %d was still %s after %g s (--grace) and was killed; the newest checkpoint is unchanged",
             signal_text(signal), late, ls_phase_text((ls_phase)atomic_load(&header->workers[late].beat.phase)),
             ls_workers_grace_s);
    ls_segment_fail(&c->segment, -1, signal_status(signal), text);
    kill_all(c);
}

/* Treats a worker that hangs as lost, so that it is killed and replaced; one whose function has returned is only
 * killed. Under a supervisor; does nothing once a worker is lost or the run has failed. */
static void end_suspect(crew *c) {
    char text[LS_MESSAGE_MAX];
    int rank = c->lost < 0 && !ls_segment_failed(&c->segment)
                   ? ls_beat_suspect(&c->beats, &c->segment, text, sizeof text)
                   : -1;
    if (rank < 0) return;
    if (atomic_load(&c->segment.header->workers[rank].ended))
        kill(c->pids[rank], SIGKILL); /* its work is done */
    else
        lose_worker(c, rank, text);
}

/* Fails the run and kills all workers if all of them have been stopped (SIGSTOP) for longer than --timeout. Without a
 * supervisor the workers themselves detect any other late worker. */
static void end_stopped(crew *c) {
    int stopped;
    double silence_s = ls_beat_all_stopped_s(&c->beats, &c->segment, &stopped);
    double limit_s = c->beats.timeout_s > 0 ? c->beats.timeout_s : 300;
    if (stopped < 0 || silence_s <= limit_s || ls_segment_failed(&c->segment)) return;
    char text[LS_MESSAGE_MAX];
    snprintf(
        text, sizeof text,
        "all workers have been stopped (by SIGSTOP) for %.0f s, the first of them worker %d (process %d), and were "
        "killed (--timeout)",
        silence_s, stopped, (int)c->pids[stopped]);
    ls_segment_fail(&c->segment, -1, LS_ERR_DEADLINE, text);
    kill_all(c);
}

/* Looks for workers that hang, at least ten times a second; under a supervisor also watches their lives, releases the
 * segment of the attempt before once it is not needed, and passes on a request to leave. */
static void watch_workers(crew *c) {
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

/* Watches the workers until the last one has ended. */
static void supervise(crew *c) {
    uint64_t failed_ns = 0;
    reap_workers(c);
    while (c->alive > 0) {
        bool failing = ls_segment_failed(&c->segment);
        if (failing && !failed_ns) failed_ns = ls_clock_ns();
        if (failing && ls_clock_ns() - failed_ns > grace_ns) kill_all(c);
        if (c->options->pass_signals) enforce_grace(c);
        watch_workers(c);
        if (c->lost >= 0) end_attempt(c);
        /* A worker may fail without ending, which only the segment shows; so the wait for signals is short. */
        struct timespec slice = {.tv_nsec = c->lost >= 0 ? 1000000 : failing ? 10000000 : 100000000};
        int number = sigtimedwait(&c->waited, NULL, &slice);
        if (number > 0 && number != SIGCHLD) handle_signal(c, number);
        judge_dying(c);
        reap_workers(c);
    }
}

/* Adds a signal to the set that the parent waits for, unless it is ignored (nohup, a background job): once blocked, it
 * would be delivered all the same. */
static void add_waited_signal(crew *c, int number) {
    struct sigaction action;
    if (sigaction(number, NULL, &action) == 0 && (action.sa_flags & SA_SIGINFO || action.sa_handler != SIG_IGN))
        sigaddset(&c->waited, number);
}

/* Blocks SIGCHLD and the signals that the parent handles, unless they are ignored, because sigtimedwait() receives
 * them; gives SIGCHLD its default action. */
static void take_signals(crew *c) {
    sigemptyset(&c->waited);
    sigaddset(&c->waited, SIGCHLD);
    add_waited_signal(c, SIGINT);
    add_waited_signal(c, SIGTERM);
    static const int passed[] = {SIGHUP, SIGXCPU, SIGUSR1, SIGUSR2};
    for (size_t i = 0; c->options->pass_signals && i < sizeof passed / sizeof *passed; i++)
        add_waited_signal(c, passed[i]);
    sigprocmask(SIG_BLOCK, &c->waited, &c->before);
    /* A program that ignores SIGCHLD would not learn how its workers ended. */
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigaction(SIGCHLD, &plain, &c->old_child);
}

/* Restores the signal mask and the handler of SIGCHLD, after dropping signals that are still pending. */
static void restore_signals(crew *c) {
    struct timespec none = {0};
    while (sigtimedwait(&c->waited, NULL, &none) > 0) continue; /* drops signals that came after the end */
    sigaction(SIGCHLD, &c->old_child, NULL);
    sigprocmask(SIG_SETMASK, &c->before, NULL);
}

static void warn_crowded(const crew *c) {
    if (c->placement.crowded)
        ls_log_warn("%d workers with %d thread%s on %d core%s: more threads than cores, expect no speed-up", c->workers,
                    c->placement.threads, c->placement.threads == 1 ? "" : "s", c->placement.cores,
                    c->placement.cores == 1 ? "" : "s");
}

/* Creates the segment of an attempt, with the mutexes by which the supervisor notices deaths. */
static ls_status make_segment(crew *c) {
    LS_TRY(ls_segment_create(c->workers, c->options->heap_bytes, ls_comm_control_bytes(c->workers), &c->segment));
    if (c->supervision) ls_life_init(&c->segment);
    return LS_OK;
}

/* Shares the cores out among so many places (sets of cores), and releases the placement before. */
static ls_status place_workers(crew *c, int places) {
    ls_placement_free(&c->placement);
    return ls_placement_make(places, c->options->threads, !c->options->no_pin, &c->placement);
}

/* Returns whether the attempt ended but the run did not: no failure is recorded, and a worker was lost or worker 0 left
 * to go on. Only under a supervisor. */
static bool goes_on(const crew *c) {
    if (!c->supervision || ls_segment_failed(&c->segment)) return false;
    return c->lost >= 0 || atomic_load(&c->segment.header->workers[0].ended) == LS_ENDED_TO_GO_ON;
}

/* Keeps a signal that came to one worker only for the next attempt, as one that came to this process. */
static void keep_asked_signal(crew *c) {
    const ls_segment_header *header = c->segment.header;
    int asked = atomic_load(&header->asked);
    if (c->passed || asked == 0) return;
    c->passed = asked;
    c->passed_ns = atomic_load(&header->asked_ns);
}

/* Prepares the next attempt: keeps the segment if its state is complete, asks next() for workers and places, and
 * creates a new segment. An error ends the run. */
static ls_status prepare_attempt(crew *c) {
    ls_attempt_end end = {.rank = c->lost, .whole = is_whole(c), .placement = &c->placement, .wrong_place = -1};
    int workers = c->workers;
    keep_asked_signal(c);
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

/* Forks the workers and watches them until the last one has ended. Returns LS_OK if another attempt follows, else the
 * run's status. */
static ls_status run_attempt(crew *c) {
    c->attempt.begun_ns = ls_clock_ns();
    ls_status status = fork_workers(c);
    if (status != LS_OK) ls_segment_fail(&c->segment, -1, status, ls_status_message());
    if (c->passed) forward_signal(c, c->passed);
    if (c->save_asked && c->attempt.number > 0) forward_signal(c, SIGUSR1);
    supervise(c);
    ls_life_watch_end(&c->lives);
    return goes_on(c) ? LS_OK : report_failure(c);
}

/* Runs attempts until the run ends, and returns its status. */
static ls_status run_all(crew *c) {
    ls_status status;
    for (;;) {
        status = run_attempt(c);
        if (!goes_on(c)) return status;
        LS_TRY(prepare_attempt(c));
    }
}

/* Runs forked workers, with a supervisor unless `supervision` is NULL, and releases all that the parent holds. Blocks
 * signals meanwhile. */
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
    restore_signals(c);
out:
    ls_segment_close(&c->segment);
    ls_segment_close(&c->attempt.before);
    ls_placement_free(&c->placement);
    free(c);
    return status;
}

/* Runs forked workers without a supervisor; ls_transport.run. */
static ls_status run_forked(const ls_workers_options *options, ls_worker_fn fn, void *arg) {
    return run_crew(options, NULL, fn, arg);
}

ls_status ls_workers_supervise(const ls_workers_options *options, const ls_supervision *supervision, ls_worker_fn fn,
                               void *arg) {
    return run_crew(options, supervision, fn, arg);
}

const ls_transport ls_transport_shm = {.name = "shm", .run = run_forked};
