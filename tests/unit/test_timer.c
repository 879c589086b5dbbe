/* test_timer.c: how many calls the timer makes, and what it takes of their times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>

#include <cmocka.h>

#include "lab/timer.h"

static ls_status count_calls(void *ctx) {
    ++*(int *)ctx;
    return LS_OK;
}

static ls_status fail_at_three(void *ctx) { return ++*(int *)ctx == 3 ? ls_fail(LS_ERR_FAILED, "the third") : LS_OK; }

/* Samples of no length are of one call each, behind a warm-up of one. */
static void test_calls(void **state) {
    (void)state;
    ls_timer timer = {.samples_min = 3, .samples_max = 7};
    ls_timing timing;
    int calls = 0;
    assert_int_equal(ls_timer_run(&timer, count_calls, &calls, &timing), LS_OK);
    assert_int_equal(timing.samples, 3);
    assert_int_equal(calls, 1 + 3);
    timer.total_s = 1e9; /* more than any call lasts */
    calls = 0;
    assert_int_equal(ls_timer_run(&timer, count_calls, &calls, &timing), LS_OK);
    assert_int_equal(timing.samples, 7);
    assert_int_equal(calls, 1 + 7);
    for (int i = 0; i < timing.samples; i++) assert_true(timing.seconds[i] >= 0);
}

/* A call never lasts this long: the warm-up ends at its limit, and so do the calls of a sample. */
static void test_limits(void **state) {
    (void)state;
    ls_timer timer = {.sample_s = 1e9, .samples_min = 2, .samples_max = 2};
    ls_timing timing;
    int calls = 0;
    assert_int_equal(ls_timer_run(&timer, count_calls, &calls, &timing), LS_OK);
    assert_int_equal(calls, 21845 + 2 * 20000); /* 1 + 4 + … + 16384, then two samples of the most calls */
}

static void test_failure(void **state) {
    (void)state;
    ls_timer timer = {.samples_min = 5, .samples_max = 5};
    ls_timing timing;
    int calls = 0;
    assert_int_equal(ls_timer_run(&timer, fail_at_three, &calls, &timing), LS_ERR_FAILED);
    assert_int_equal(calls, 3);
}

static void test_statistics(void **state) {
    (void)state;
    double odd[] = {5, 1, 3}, even[] = {4, 1, 3, 2}, nine[] = {9, 8, 7, 6, 5, 4, 3, 2, 1}, many[100];
    for (int i = 0; i < 100; i++) many[i] = (i * 37) % 100;
    assert_true(ls_median(odd, 3) == 3 && ls_median(even, 4) == 2.5);
    assert_true(ls_lower_quartile(nine, 9) == 3 && ls_lower_quartile(odd, 1) == 1 && ls_lower_quartile(even, 4) == 1);
    assert_true(ls_median(many, 100) == 49.5 && ls_lower_quartile(many, 100) == 24);
    assert_true(isnan(ls_median(odd, 0)) && isnan(ls_lower_quartile(odd, 0)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_failure),
        cmocka_unit_test(test_statistics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
