/* test_signals.c: signals that are held come later, whichever thread the system chooses for them. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "comm/launch/signals.h"

static void *idle(void *arg) {
    for (;;) (void)pause();
    return arg;
}

static void keep(int number) { (void)number; }

/* A child with a second thread that holds, gets a signal, goes on, and lets go; then it ends with 7. What `own` says of
 * the signal is there before. */
static _Noreturn void held_child(int number, void (*own)(int), int out) {
    pthread_t other;
    sigset_t mine;
    ls_held_signals held;
    struct sigaction now;
    (void)sigemptyset(&mine);
    (void)sigaddset(&mine, number);
    if (signal(number, own) == SIG_ERR || pthread_create(&other, NULL, idle, NULL) != 0) _exit(1);
    ls_signals_hold(&held, 0);
    /* It is for the other thread, as a mask of this one would have it. */
    if (pthread_sigmask(SIG_BLOCK, &mine, NULL) != 0 || kill(getpid(), number) != 0) _exit(2);
    (void)usleep(50000);
    if (pthread_sigmask(SIG_UNBLOCK, &mine, NULL) != 0) _exit(3);
    if (ls_signals_came() != (own == SIG_DFL ? number : 0) || write(out, "x", 1) != 1) _exit(4);
    ls_signals_let_go(&held);
    _exit(sigaction(number, NULL, &now) == 0 && now.sa_handler == own ? 7 : 5);
}

static int end_of(int number, void (*own)(int)) {
    int pair[2], wait_status;
    char byte = 0;
    assert_int_equal(pipe(pair), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) held_child(number, own, pair[1]);
    (void)close(pair[1]);
    assert_int_equal(read(pair[0], &byte, 1), 1); /* it went on */
    (void)close(pair[0]);
    assert_int_equal(waitpid(pid, &wait_status, 0), pid);
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

static void signals_come_when_they_are_let_go(void **state) {
    (void)state;
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGXCPU};
    for (int i = 0; i < LS_SIGNALS_HELD; i++) assert_int_equal(end_of(numbers[i], SIG_DFL), 128 + numbers[i]);
}

static void what_the_program_handles_is_its_own(void **state) {
    (void)state;
    assert_int_equal(end_of(SIGTERM, SIG_IGN), 7);
    assert_int_equal(end_of(SIGTERM, keep), 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_come_when_they_are_let_go),
        cmocka_unit_test(what_the_program_handles_is_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
