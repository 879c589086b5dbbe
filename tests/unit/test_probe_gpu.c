/* test_probe_gpu.c: how the probe times calls of a GPU: not those that load a kernel or try algorithms out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "device/device.h"
#include "lab/probe/gpu.h"

/* How many calls were made, and how many of the first take a second each. */
typedef struct callee {
    int calls, slow;
} callee;

static ls_status call(void *ctx) {
    callee *c = ctx;
    if (c->calls++ < c->slow) nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    return LS_OK;
}

static double seconds_of(callee *c, bool is_slow) {
    ls_probe_gpu_bench b = {.is_slow = is_slow};
    double seconds = -1;
    if (ls_device_open_cpu(1, NULL, NULL, &b.device) != LS_OK || ls_probe_gpu_time(&b, call, c, &seconds) != LS_OK)
        fail_msg("%s", ls_status_message());
    ls_device_destroy(b.device);
    return seconds;
}

static void test_first_calls_do_not_count(void **state) {
    (void)state;
    callee c = {.slow = 2};
    double seconds = seconds_of(&c, false);
    assert_true(seconds > 0 && seconds < .5);
    assert_true(c.calls > 3);
}

static void test_a_long_call_is_made_three_times(void **state) {
    (void)state;
    callee c = {.slow = 3};
    assert_true(seconds_of(&c, false) > .5);
    assert_int_equal(c.calls, 3);
}

static void test_a_played_gpu_is_asked_twice(void **state) {
    (void)state;
    callee c = {.slow = 1};
    assert_true(seconds_of(&c, true) < .5);
    assert_int_equal(c.calls, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_calls_do_not_count),
        cmocka_unit_test(test_a_long_call_is_made_three_times),
        cmocka_unit_test(test_a_played_gpu_is_asked_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
