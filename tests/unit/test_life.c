/* test_life.c: a death is seen by the lock that the dead process held, with its status, before it is collected. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "comm/shm/life.h"

enum { WORKERS = 3, VICTIM = 1 };

static pid_t start_worker(ls_segment *segment, int local) {
    pid_t pid = fork();
    if (pid != 0) return pid;
    ls_life_hold(&segment->header->workers[local].life);
    atomic_fetch_add(&segment->header->ready, 1);
    for (;;) pause();
}

static void await_ready(const ls_segment *segment) {
    while (atomic_load(&segment->header->ready) < WORKERS) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void test_death(void **state) {
    (void)state;
    ls_segment segment;
    ls_life_watch watch = {.count = 0};
    pid_t pids[WORKERS];
    sigset_t child, before;
    int status = 0;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    assert_int_equal(sigprocmask(SIG_BLOCK, &child, &before), 0);
    assert_int_equal(ls_segment_create(WORKERS, 1 << 20, 4096, &segment), LS_OK);
    ls_life_init(&segment);
    for (int l = 0; l < WORKERS; l++) assert_true((pids[l] = start_worker(&segment, l)) > 0);
    await_ready(&segment);
    ls_life_watch_begin(&watch, &segment);
    assert_int_equal(watch.count, WORKERS);
    assert_false(ls_life_status(pids[VICTIM], &status)); /* it lives */

    assert_int_equal(kill(pids[VICTIM], SIGKILL), 0);
    while (!atomic_load(&watch.of[VICTIM].died))
        assert_true(sigtimedwait(&child, NULL, &(struct timespec){.tv_sec = 30}) > 0);
    assert_true(ls_life_status(pids[VICTIM], &status) && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    for (int l = 0; l < WORKERS; l++)
        if (l != VICTIM) assert_false(atomic_load(&watch.of[l].died));

    for (int l = 0; l < WORKERS; l++) {
        (void)kill(pids[l], SIGKILL);
        assert_int_equal(waitpid(pids[l], &status, 0), pids[l]);
    }
    ls_life_watch_end(&watch);
    for (int l = 0; l < WORKERS; l++) assert_true(atomic_load(&watch.of[l].died));
    ls_segment_close(&segment);
    while (sigtimedwait(&child, NULL, &(struct timespec){.tv_nsec = 0}) > 0) continue;
    assert_int_equal(sigprocmask(SIG_SETMASK, &before, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_death)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
