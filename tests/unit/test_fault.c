/* test_fault.c: the switch that slows one worker down. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/fault.h"

static void test_off(void **state) {
    (void)state;
    unsetenv("LS_FAULT_SLOW");
    assert_int_equal(ls_fault_read(0, 0, 0), LS_OK);
    assert_true(ls_fault_slow == 0 && ls_fault_slow_begin() == 0);
    ls_fault_slow_end(0); /* would never end, were it on */
}

static void test_one_rank(void **state) {
    (void)state;
    setenv("LS_FAULT_SLOW", "2:150", 1);
    assert_int_equal(ls_fault_read(1, 1, 0), LS_OK);
    assert_true(ls_fault_slow == 0);
    assert_int_equal(ls_fault_read(2, 2, 0), LS_OK);
    assert_true(ls_fault_slow == 1.5);
    double begin = ls_fault_slow_begin();
    ls_clock_sleep_us(10000);
    double worked = ls_clock_seconds() - begin;
    ls_fault_slow_end(begin);
    assert_true(ls_clock_seconds() - begin >= 2.5 * worked);
    unsetenv("LS_FAULT_SLOW");
    assert_int_equal(ls_fault_read(2, 2, 0), LS_OK);
    assert_true(ls_fault_slow == 0);
}

static void test_bad_values(void **state) {
    (void)state;
    const char *bad[] = {
        "", "1", ":", "1:", ":3", "-1:3", "1:-3", "1:3x", "x:3", "1:100001", "1:99999999999999999999", "1:3:4"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("LS_FAULT_SLOW", bad[i], 1);
        assert_int_equal(ls_fault_read(1, 1, 0), LS_ERR_INPUT);
        assert_true(ls_fault_slow == 0);
    }
    unsetenv("LS_FAULT_SLOW");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_off),
        cmocka_unit_test(test_one_rank),
        cmocka_unit_test(test_bad_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
