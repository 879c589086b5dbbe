/* test_status.c: codes, names, exit statuses and the message of each thread. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/status.h"

static void names_and_exit_codes(void **state) {
    (void)state;
    assert_string_equal(ls_status_name(LS_OK), "LS_OK");
    assert_string_equal(ls_status_name(LS_ERR_INPUT), "LS_ERR_INPUT");
    assert_string_equal(ls_status_name((ls_status)99), "unknown status");
    assert_int_equal(ls_status_exit_code(LS_OK), 0);
    assert_int_equal(ls_status_exit_code(LS_ERR_INPUT), 2);
    assert_int_equal(ls_status_exit_code(LS_ERR_RESOURCE), 5);
    assert_int_equal(ls_status_exit_code(LS_ERR_INTERRUPTED), 130);
    assert_int_equal(ls_status_exit_code(LS_ERR_TERMINATED), 143);
    assert_int_equal(ls_status_exit_code(LS_ERR_REQUEUED), 75);
    assert_int_equal(ls_status_exit_code((ls_status)99), 1);
}

static void message_is_formatted(void **state) {
    (void)state;
    assert_int_equal(ls_fail(LS_ERR_INPUT, "%d workers; use %s", 0, "1"), LS_ERR_INPUT);
    assert_string_equal(ls_status_message(), "0 workers; use 1");
    assert_int_equal(ls_fail(LS_ERR_FAILED, "again: %s", ls_status_message()), LS_ERR_FAILED);
    assert_string_equal(ls_status_message(), "again: 0 workers; use 1");
}

static void errno_is_appended_and_sorted(void **state) {
    (void)state;
    errno = ENOENT;
    assert_int_equal(ls_fail_errno(LS_ERR_INPUT, "cannot open %s", "x"), LS_ERR_INPUT);
    assert_string_equal(ls_status_message(), "cannot open x: No such file or directory");
    static const int limits[] = {ENOMEM, ENOSPC, EMFILE, ENFILE, EAGAIN, EDQUOT, EFBIG};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        errno = limits[i];
        assert_int_equal(ls_fail_errno(LS_ERR_FAILED, "x"), LS_ERR_RESOURCE);
    }
}

static void place_goes_in_front(void **state) {
    (void)state;
    (void)ls_fail(LS_ERR_INPUT, "bad value 7");
    assert_int_equal(ls_fail_at(LS_ERR_INPUT, "%s:%d: ", "run.yaml", 3), LS_ERR_INPUT);
    assert_string_equal(ls_status_message(), "run.yaml:3: bad value 7");
}

static void what_a_machine_lacks_is_marked(void **state) {
    (void)state;
    assert_int_equal(ls_fail_here(LS_ERR_INPUT, "no unit %s", "x"), LS_ERR_INPUT);
    assert_string_equal(ls_status_message(), "no unit x");
    assert_true(ls_fail_is_here());
    (void)ls_fail_at(LS_ERR_INPUT, "--unit: ");
    assert_true(ls_fail_is_here());
    (void)ls_fail(LS_ERR_INPUT, "bad value 7");
    assert_false(ls_fail_is_here());
    (void)ls_fail_here(LS_ERR_INPUT, "x");
    (void)ls_fail_errno(LS_ERR_INPUT, "y");
    assert_false(ls_fail_is_here());
}

static void long_messages_are_cut(void **state) {
    (void)state;
    char text[2 * LS_MESSAGE_MAX];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    (void)ls_fail(LS_ERR_FAILED, "%s", text);
    assert_int_equal(strlen(ls_status_message()), LS_MESSAGE_MAX - 1);
    errno = EIO;
    (void)ls_fail_errno(LS_ERR_FAILED, "%s", text);
    (void)ls_fail_at(LS_ERR_FAILED, "%s", text);
    assert_int_equal(strlen(ls_status_message()), LS_MESSAGE_MAX - 1);
}

static void *fail_in_thread(void *arg) {
    *(int *)arg = strcmp(ls_status_message(), "") == 0;
    (void)ls_fail(LS_ERR_FAILED, "of the other thread");
    return NULL;
}

static void message_belongs_to_the_thread(void **state) {
    (void)state;
    pthread_t thread;
    int started_empty = 0;
    (void)ls_fail(LS_ERR_FAILED, "mine");
    assert_int_equal(pthread_create(&thread, NULL, fail_in_thread, &started_empty), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(started_empty);
    assert_string_equal(ls_status_message(), "mine");
}

static ls_status try_twice(int *reached) {
    LS_TRY(LS_OK);
    *reached = 1;
    LS_TRY(ls_fail(LS_ERR_DEADLINE, "late"));
    *reached = 2;
    return LS_OK;
}

static void try_returns_the_failure(void **state) {
    (void)state;
    int reached = 0;
    assert_int_equal(try_twice(&reached), LS_ERR_DEADLINE);
    assert_int_equal(reached, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_exit_codes),           cmocka_unit_test(message_is_formatted),
        cmocka_unit_test(errno_is_appended_and_sorted),   cmocka_unit_test(place_goes_in_front),
        cmocka_unit_test(what_a_machine_lacks_is_marked), cmocka_unit_test(long_messages_are_cut),
        cmocka_unit_test(message_belongs_to_the_thread),  cmocka_unit_test(try_returns_the_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
