/* test_workers_stop.c: SIGINT and SIGTERM that the parent of forked workers passes on: the workers end by themselves,
 * none is killed early, and a second SIGINT ends all.
 *
 * Each case forks the program under test (the "boss") into a process group of its own, as a shell does, so that a
 * terminal's Ctrl-C can be played by a signal to the group. What boss and workers do is seen in a shared page.
 *
 * Runs alone: "at once" is told from "after a second". */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/status.h"
#include "run/stop.h"

enum { WORKERS = 3 };

/* The plays a worker can follow. */
typedef enum play {
    PLAY_AGREE,   /* loop: a collective, and all stop in the same turn */
    PLAY_SLOW,    /* the same, but the last worker takes long to save */
    PLAY_ALONE,   /* loop of collectives; each stops when it notices */
    PLAY_FAIL,    /* as PLAY_AGREE, but worker 1 fails to save */
    PLAY_DEAF,    /* never ends */
    PLAY_DEFAULT, /* handles no signal */
    PLAY_MIXED,   /* worker 0 handles no signal, the others take long to save */
    PLAY_PLAIN,   /* loop of collectives without end; pass_signals is off */
} play;

typedef struct board {
    play play;
    atomic_int ready, saved, turns[WORKERS], signals[WORKERS];
    ls_status status;
    char message[LS_MESSAGE_MAX];
} board;

static board *boards, *shared; /* the one in use */

/* ---- the workers ------------------------------------------------------------------------------------------------- */

static ls_status loop_in_step(ls_world *world, int rank) {
    int64_t asked = 0, any = 0;
    while (any == 0) {
        asked = ls_stop_signal() != 0;
        const void *parts[1] = {&asked};
        LS_TRY(ls_comm_all_reduce(ls_world_comm(world), NULL, LS_I64, parts, &any, 1));
        atomic_fetch_add(&shared->turns[rank], 1);
        ls_clock_sleep_us(1000);
    }
    return LS_OK;
}

/* Longer than the second that failing workers get. */
static ls_status save(int rank) {
    if (rank == 1 && shared->play == PLAY_FAIL) return ls_fail(LS_ERR_RESOURCE, "the disk is full");
    if ((rank == WORKERS - 1 && shared->play == PLAY_SLOW) || shared->play == PLAY_MIXED) ls_clock_sleep_us(1100000);
    atomic_fetch_add(&shared->saved, 1);
    return LS_OK;
}

static ls_status worker(ls_world *world, void *arg) {
    (void)arg;
    int rank = ls_world_rank(world);
    bool deaf = shared->play == PLAY_DEFAULT || shared->play == PLAY_PLAIN || (shared->play == PLAY_MIXED && rank == 0);
    if (!deaf) LS_TRY(ls_stop_install());
    atomic_fetch_add(&shared->ready, 1);
    switch (shared->play) {
    case PLAY_AGREE:
    case PLAY_SLOW:
    case PLAY_FAIL:
        LS_TRY(loop_in_step(world, rank));
        LS_TRY(save(rank));
        break;
    case PLAY_ALONE:
        while (ls_stop_signal() == 0) LS_TRY(ls_comm_barrier(ls_world_comm(world)));
        break;
    case PLAY_MIXED:
        while (ls_stop_signal() == 0) ls_clock_sleep_us(1000);
        LS_TRY(save(rank));
        break;
    case PLAY_DEAF:
    case PLAY_DEFAULT:
        for (;;) ls_clock_sleep_us(1000000);
    case PLAY_PLAIN:
        for (;;) LS_TRY(ls_comm_barrier(ls_world_comm(world)));
    }
    atomic_store(&shared->signals[rank], ls_stop_signal());
    return ls_stop_status();
}

/* ---- the boss ---------------------------------------------------------------------------------------------------- */

static pid_t start_ignoring(play what, bool ignore_interrupts) {
    memset(shared, 0, sizeof *shared);
    shared->play = what;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)setpgid(0, 0);
        if (ignore_interrupts) (void)signal(SIGINT, SIG_IGN);
        ls_workers_options options = {
            .workers = WORKERS, .threads = 1, .timeout_s = 20, .pass_signals = what != PLAY_PLAIN};
        shared->status = ls_workers_run(&options, worker, NULL);
        strcpy(shared->message, ls_status_message());
        _exit(ls_status_exit_code(shared->status));
    }
    (void)setpgid(pid, pid);
    for (int ms = 0; atomic_load(&shared->ready) < WORKERS; ms++) {
        assert_true(ms < 10000);
        ls_clock_sleep_us(1000);
    }
    ls_clock_sleep_us(20000);
    return pid;
}

static pid_t start(play what) { return start_ignoring(what, false); }

/* The boss's exit status; it and its group are gone within the limit. */
static int end_of(pid_t pid, int limit_ms) {
    int wait_status = 0;
    uint64_t begin = ls_clock_ns();
    while (waitpid(pid, &wait_status, WNOHANG) == 0) {
        if (ls_clock_ns() - begin > (uint64_t)limit_ms * 1000000u) {
            (void)kill(-pid, SIGKILL);
            (void)waitpid(pid, &wait_status, 0);
            fail_msg("still there after %d ms", limit_ms);
        }
        ls_clock_sleep_us(1000);
    }
    assert_true(kill(-pid, 0) != 0); /* no process of the group is left */
    assert_true(WIFEXITED(wait_status));
    return WEXITSTATUS(wait_status);
}

/* ---- cases ------------------------------------------------------------------------------------------------------- */

/* All ended the same turn, saved, and knew the signal. */
static void expect_orderly(int number) {
    assert_int_equal(atomic_load(&shared->saved), WORKERS);
    for (int rank = 0; rank < WORKERS; rank++) {
        assert_int_equal(atomic_load(&shared->turns[rank]), atomic_load(&shared->turns[0]));
        assert_int_equal(atomic_load(&shared->signals[rank]), number);
    }
}

/* Beside it, on a board of its own, a run one of whose workers is killed by the signal: the others save all the same.
 */
static void terminate_stops_in_order(void **state) {
    (void)state;
    shared = boards + 1;
    pid_t mixed = start(PLAY_MIXED);
    assert_int_equal(kill(mixed, SIGINT), 0);
    shared = boards;
    pid_t pid = start(PLAY_SLOW);
    assert_int_equal(kill(pid, SIGTERM), 0);
    for (int i = 0; i < 3; i++) { /* while they save */
        ls_clock_sleep_us(100000);
        assert_int_equal(kill(pid, SIGTERM), 0);
    }
    assert_int_equal(end_of(pid, 5000), 143);
    expect_orderly(SIGTERM);
    assert_int_equal(shared->status, LS_ERR_TERMINATED);
    assert_string_equal(shared->message, "terminated by signal 15, SIGTERM");
    assert_int_equal(end_of(mixed, 3000), 130);
    assert_int_equal(atomic_load(&boards[1].saved), WORKERS - 1);
}

static void a_terminal_interrupts_in_order(void **state) {
    (void)state;
    pid_t pid = start(PLAY_AGREE);
    assert_int_equal(kill(-pid, SIGINT), 0);
    assert_int_equal(end_of(pid, 5000), 130);
    expect_orderly(SIGINT);
    assert_int_equal(shared->status, LS_ERR_INTERRUPTED);
    assert_string_equal(shared->message, "interrupted");
}

/* A scheduler may send SIGTERM to every process: once from it and once from the boss do no harm. */
static void a_group_is_terminated_in_order(void **state) {
    (void)state;
    pid_t pid = start(PLAY_AGREE);
    assert_int_equal(kill(-pid, SIGTERM), 0);
    assert_int_equal(end_of(pid, 5000), 143);
    expect_orderly(SIGTERM);
}

static void a_second_interrupt_ends_all(void **state) {
    (void)state;
    for (int group = 0; group < 2; group++) {
        pid_t pid = start(PLAY_DEAF);
        assert_int_equal(kill(pid, SIGTERM), 0); /* does not count */
        ls_clock_sleep_us(50000);
        assert_int_equal(kill(group ? -pid : pid, SIGINT), 0);
        ls_clock_sleep_us(100000);
        assert_int_equal(waitpid(pid, &(int){0}, WNOHANG), 0); /* patient so far */
        assert_int_equal(kill(group ? -pid : pid, SIGINT), 0);
        assert_int_equal(end_of(pid, 900), 130); /* at once: not after the second that failing workers get */
        assert_string_equal(shared->message, "interrupted");
    }
}

/* A worker that waits for one that has stopped leaves too, and the stop remains the reason. */
static void stopping_without_agreement(void **state) {
    (void)state;
    pid_t pid = start(PLAY_ALONE);
    assert_int_equal(kill(pid, SIGTERM), 0);
    assert_int_equal(end_of(pid, 3000), 143);
    assert_string_equal(shared->message, "terminated by signal 15, SIGTERM");
}

static void a_failure_outranks_the_stop(void **state) {
    (void)state;
    pid_t pid = start(PLAY_FAIL);
    assert_int_equal(kill(pid, SIGINT), 0);
    assert_int_equal(end_of(pid, 3000), 5);
    assert_string_equal(shared->message, "worker 1: the disk is full");
}

static void workers_without_handlers_end(void **state) {
    (void)state;
    pid_t pid = start(PLAY_DEFAULT);
    assert_int_equal(kill(pid, SIGINT), 0);
    assert_int_equal(end_of(pid, 2000), 130);
    assert_int_equal(shared->status, LS_ERR_INTERRUPTED);
    pid = start(PLAY_DEFAULT);
    assert_int_equal(kill(pid, SIGTERM), 0);
    assert_int_equal(end_of(pid, 2000), 143);
}

static void without_the_option_signals_end_all(void **state) {
    (void)state;
    pid_t pid = start(PLAY_PLAIN);
    assert_int_equal(kill(-pid, SIGINT), 0);
    assert_int_equal(end_of(pid, 2000), 130);
}

static void an_ignored_interrupt_stays_ignored(void **state) {
    (void)state;
    pid_t pid = start_ignoring(PLAY_DEAF, true);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kill(-pid, SIGINT), 0);
        ls_clock_sleep_us(50000);
        assert_int_equal(waitpid(pid, &(int){0}, WNOHANG), 0);
    }
    assert_int_equal(kill(-pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &(int){0}, 0), pid);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(terminate_stops_in_order),           cmocka_unit_test(a_terminal_interrupts_in_order),
        cmocka_unit_test(a_group_is_terminated_in_order),     cmocka_unit_test(a_second_interrupt_ends_all),
        cmocka_unit_test(stopping_without_agreement),         cmocka_unit_test(a_failure_outranks_the_stop),
        cmocka_unit_test(workers_without_handlers_end),       cmocka_unit_test(without_the_option_signals_end_all),
        cmocka_unit_test(an_ignored_interrupt_stays_ignored),
    };
    shared = boards = mmap(NULL, 2 * sizeof *boards, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (boards == MAP_FAILED) return 1;
    /* A script that runs tests in the background has them ignore SIGINT. */
    if (signal(SIGINT, SIG_DFL) == SIG_ERR || signal(SIGTERM, SIG_DFL) == SIG_ERR) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
