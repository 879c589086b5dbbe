/* test_beat.c: which workers count as hanging: stopped ones, by the caller's own clock even where all of them are; not
 * traced ones, nor any before the limit that --timeout gives. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/child.h"
#include "base/clock.h"
#include "comm/transports/suspect.h"
#include "comm/shm/segment.h"

enum { WORKERS = 3 };

typedef struct crew {
    ls_segment segment;
    pid_t pids[WORKERS];
} crew;

static void nap(void) { nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL); }

static int set_up(void **state) {
    static crew c;
    if (ls_segment_create(WORKERS, 1 << 20, 4096, &c.segment) != LS_OK) return 1;
    for (int w = 0; w < WORKERS; w++) {
        pid_t parent = getpid();
        c.pids[w] = fork();
        if (c.pids[w] == 0) {
            ls_child_bind(parent);
            for (;;) pause();
        }
        if (c.pids[w] < 0) return 1;
        atomic_store(&c.segment.header->workers[w].pid, (int)c.pids[w]);
        atomic_store(&c.segment.header->workers[w].beat.beat_ns, ls_clock_ns());
    }
    *state = &c;
    return 0;
}

static int tear_down(void **state) {
    crew *c = *state;
    for (int w = 0; w < WORKERS; w++) {
        (void)kill(c->pids[w], SIGKILL);
        (void)waitpid(c->pids[w], NULL, 0);
    }
    ls_segment_close(&c->segment);
    return 0;
}

static void stop_worker(const crew *c, int w) {
    assert_int_equal(kill(c->pids[w], SIGSTOP), 0);
    while (ls_process_state(c->pids[w]) != 'T') nap();
}

/* A worker that beats. */
static void beat(crew *c, int w) { atomic_store(&c->segment.header->workers[w].beat.beat_ns, ls_clock_ns()); }

/* Looks until a worker is suspected, or for so long by the watch's own account. Workers from `beating` on beat. */
static int suspect_within(crew *c, double timeout_s, double most_s, int beating, char *text, size_t room) {
    ls_beat_watch watch = {.timeout_s = timeout_s};
    int found = -1;
    while (found < 0 && (double)watch.silent_ns[0] * 1e-9 < most_s) {
        for (int w = beating; w < WORKERS; w++) beat(c, w);
        found = ls_beat_suspect(&watch, &c->segment, text, room);
        nap();
    }
    return found;
}

static void a_stopped_worker_is_suspected(void **state) {
    crew *c = *state;
    char text[512] = "";
    stop_worker(c, 0);
    assert_int_equal(suspect_within(c, 1, 1e9, 2, text, sizeof text), 0);
    assert_non_null(strstr(text, "worker 0"));
    assert_non_null(strstr(text, "it is stopped (by SIGSTOP)"));
}

static void all_stopped_workers_are_suspected(void **state) {
    crew *c = *state;
    char text[512] = "";
    int first;
    ls_beat_watch watch = {.timeout_s = 1};
    for (int w = 1; w < WORKERS; w++) stop_worker(c, w);
    for (int turn = 0; turn < 5; turn++, nap()) assert_true(ls_beat_all_stopped_s(&watch, &c->segment, &first) <= 0);
    stop_worker(c, 0);
    while (ls_beat_all_stopped_s(&watch, &c->segment, &first) <= 1) nap();
    assert_int_equal(first, 0);
    assert_int_equal(suspect_within(c, 1, 1e9, WORKERS, text, sizeof text), 0);
    assert_non_null(strstr(text, "it is stopped (by SIGSTOP)"));
}

static void a_longer_timeout_makes_the_limit_longer(void **state) {
    crew *c = *state;
    char text[512] = "";
    for (int w = 0; w < WORKERS; w++) stop_worker(c, w);
    assert_int_equal(suspect_within(c, 600, 3, WORKERS, text, sizeof text), -1);
}

static void a_traced_worker_is_spared(void **state) {
    crew *c = *state;
    char text[512] = "";
    int first;
    ls_beat_watch watch = {.timeout_s = 1};
    if (ptrace(PTRACE_SEIZE, c->pids[0], NULL, NULL) != 0) {
        print_message("ptrace is not allowed here (errno %d)\n", errno);
        skip();
    }
    assert_true(ls_process_is_traced(c->pids[0]));
    assert_false(ls_process_is_traced(c->pids[1]));
    assert_int_equal(ptrace(PTRACE_INTERRUPT, c->pids[0], NULL, NULL), 0);
    while (ls_process_state(c->pids[0]) != 't') nap();
    assert_int_equal(suspect_within(c, 1, 2.5, 1, text, sizeof text), -1);
    stop_worker(c, 1);
    stop_worker(c, 2);
    for (int turn = 0; turn < 100; turn++, nap()) assert_true(ls_beat_all_stopped_s(&watch, &c->segment, &first) <= 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_stopped_worker_is_suspected, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_stopped_workers_are_suspected, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_longer_timeout_makes_the_limit_longer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_traced_worker_is_spared, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
