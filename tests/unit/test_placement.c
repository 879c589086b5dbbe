/* Cores that one run is pinned to are left alone by the next, and come back when it ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "comm/launch/claim.h"
#include "comm/launch/placement.h"

/* Another run may have the cores; then nothing can be said here. */
static void skip_where_busy(ls_placement *all) {
    assert_int_equal(ls_placement_make(1, 0, true, all), LS_OK);
    if (all->cpus != NULL) return;
    ls_placement_free(all);
    skip();
}

static void test_all_cores_are_taken_once(void **state) {
    (void)state;
    ls_placement all, next;
    skip_where_busy(&all);
    assert_int_equal(ls_placement_make(1, 1, true, &next), LS_OK);
    /* Hyperthreads beyond the cores may still be free, never one that is taken. */
    for (int c = 0; next.cpus != NULL && c < all.threads; c++) assert_int_not_equal(next.cpus[0], all.cpus[c]);
    ls_placement_free(&next);
    ls_placement_free(&all);
    skip_where_busy(&all);
    ls_placement_free(&all);
}

static void test_two_runs_have_different_cores(void **state) {
    (void)state;
    ls_placement all, one, other;
    skip_where_busy(&all);
    int cores = all.threads;
    ls_placement_free(&all);
    if (cores < 2) skip();
    assert_int_equal(ls_placement_make(1, 1, true, &one), LS_OK);
    assert_int_equal(ls_placement_make(1, 1, true, &other), LS_OK);
    if (one.cpus != NULL && other.cpus != NULL)
        assert_int_not_equal(*ls_placement_cpus(&one, 0), *ls_placement_cpus(&other, 0));
    ls_placement_free(&one);
    ls_placement_free(&other);
}

/* However the process that has a core ends. */
static void test_a_dead_run_leaves_its_cores(void **state) {
    (void)state;
    ls_placement all;
    skip_where_busy(&all);
    ls_placement_free(&all);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        ls_placement own;
        _exit(ls_placement_make(1, 0, true, &own) == LS_OK && own.cpus != NULL ? 0 : 1);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    skip_where_busy(&all);
    ls_placement_free(&all);
}

/* ---- users of the cores -------------------------------------------------------------------------------------------
 */

static int warnings, infos;
static char last[512];

static void keep_line(void *ctx, ls_log_level level, const char *line, size_t bytes) {
    (void)ctx;
    warnings += level == LS_LOG_WARN;
    infos += level == LS_LOG_INFO;
    snprintf(last, sizeof last, "%.*s", (int)bytes, line);
}

/* Sockets of this kind belong to a network namespace, so in one of its own a test is alone. */
static bool is_alone(void) { return unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0; }

/* In a process of its own, since something is told once in a process. 0: as expected; 77: not possible here. */
static void in_child(int (*check)(void)) {
    int how = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!is_alone()) _exit(77);
        ls_log_set_level(LS_LOG_INFO);
        ls_log_set_sink(keep_line, NULL);
        _exit(check());
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    if (WEXITSTATUS(how) == 77) skip();
    assert_int_equal(WEXITSTATUS(how), 0);
}

/* Every core that this process may use, hyperthreads too, claimed by a run of its own each. */
static int own_runs_have_all(void) {
    ls_placement one;
    do
        if (ls_placement_make(1, 1, true, &one) != LS_OK) return 1;
    while (one.cpus);
    if (warnings != 0 || infos != 1 || !strstr(last, "other runs are pinned to ")) return 2;
    if (ls_placement_make(1, 1, true, &one) != LS_OK || one.cpus) return 3;
    return infos == 1 ? 0 : 4; /* told once */
}

/* Sockets of these names that do not listen, as a stranger may make them: of all cores, or of all but one. */
static bool squat(bool leave_one) {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
    for (int c = 0; c < CPU_SETSIZE; c++) {
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        if (!CPU_ISSET(c, &allowed)) continue;
        if (leave_one) {
            leave_one = false;
            continue;
        }
        int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "lockstep-cpu-%d", c);
        int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
        if (fd < 0 || bind(fd, (const struct sockaddr *)&name, bytes) != 0) return false;
    }
    return true;
}

static int a_stranger_has_all(void) {
    ls_placement one;
    if (!squat(false) || ls_placement_make(1, 1, true, &one) != LS_OK || one.cpus) return 1;
    if (warnings != 1 || infos != 0) return 2;
    if (!strstr(last, " claimed by another program: this run is not pinned") || !strstr(last, "--no-pin")) return 3;
    if (ls_placement_make(1, 1, true, &one) != LS_OK || warnings != 1) return 4;
    return 0;
}

/* A worker that is not pinned, or finds a free core, gets no warning. */
static int a_stranger_does_not_matter(void) {
    ls_placement one;
    if (!squat(true) || ls_placement_make(1, 1, true, &one) != LS_OK || !one.cpus) return 1;
    if (ls_placement_make(1, 1, false, &one) != LS_OK || one.cpus) return 2;
    return warnings + infos;
}

/* Another user's run, for which this test must be root. */
static int another_user_has_all(void) {
    enum { NOBODY = 65534 };
    int ready[2], done[2];
    char byte = 0;
    if (geteuid() != 0 || pipe(ready) != 0 || pipe(done) != 0) return 77;
    pid_t child = fork();
    if (child == 0) {
        ls_placement one;
        close(done[1]);
        if (setuid(NOBODY) != 0) _exit(77);
        do
            if (ls_placement_make(1, 1, true, &one) != LS_OK) _exit(1);
        while (one.cpus);
        if (write(ready[1], "x", 1) != 1) _exit(1);
        _exit(read(done[0], &byte, 1) < 0);
    }
    close(ready[1]);
    ls_placement one;
    int how, result = 1;
    if (child < 0 || read(ready[0], &byte, 1) != 1) return 77; /* may not change its user */
    if (ls_placement_make(1, 1, true, &one) == LS_OK && !one.cpus)
        result = warnings == 1 && strstr(last, " claimed by another user (uid 65534): ") ? 0 : 2;
    close(done[1]);
    if (waitpid(child, &how, 0) != child) return 3;
    return result;
}

static void test_own_runs_are_no_warning(void **state) {
    (void)state;
    in_child(own_runs_have_all);
}

static void test_a_stranger_is_named_once(void **state) {
    (void)state;
    in_child(a_stranger_has_all);
}

static void test_a_stranger_beside_free_cores_is_not(void **state) {
    (void)state;
    in_child(a_stranger_does_not_matter);
}

static void test_another_user_is_named(void **state) {
    (void)state;
    in_child(another_user_has_all);
}

static void test_lists_of_cores(void **state) {
    (void)state;
    char text[24];
    const int some[] = {0, 1, 2, 5, 7, 8}, many[] = {10, 12, 14, 16, 18, 20, 22};
    ls_claim_list(some, 6, text, sizeof text);
    assert_string_equal(text, "0-2, 5, 7-8");
    ls_claim_list(some + 3, 1, text, sizeof text);
    assert_string_equal(text, "5");
    ls_claim_list(many, 7, text, sizeof text);
    assert_string_equal(text, "10, 12, 14, 16, 18 \xE2\x80\xA6");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        /* These first: what is told once has not been told yet. */
        cmocka_unit_test(test_own_runs_are_no_warning),
        cmocka_unit_test(test_a_stranger_is_named_once),
        cmocka_unit_test(test_a_stranger_beside_free_cores_is_not),
        cmocka_unit_test(test_another_user_is_named),
        cmocka_unit_test(test_lists_of_cores),
        cmocka_unit_test(test_all_cores_are_taken_once),
        cmocka_unit_test(test_two_runs_have_different_cores),
        cmocka_unit_test(test_a_dead_run_leaves_its_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
