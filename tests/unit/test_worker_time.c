/* test_worker_time.c: busy and waiting time of workers, by a world whose waiting the test makes up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "run/worker_time.h"

enum { WORKERS_MAX = 40 };

/* Computes and waits for that long, as far as the watch can tell. At least: the test may be held up. */
static void spend(ls_world *world, uint64_t busy_ms, uint64_t wait_ms) {
    ls_clock_sleep_us((busy_ms + wait_ms) * 1000);
    world->flight.waited_ns += wait_ms * 1000000;
}

static void about(double found_ms, double at_least_ms) {
    assert_true(found_ms >= at_least_ms);
    assert_true(found_ms < at_least_ms + 60000);
}

/* A step tells what came before its sum, and after the sum of the step before; nothing from between the steps. */
static void test_step(void **state) {
    (void)state;
    ls_world world = {.rank = 1, .size = 3};
    ls_worker_time time;
    int64_t words[3 * LS_TRAFFIC_TIME_NUMBERS];
    assert_int_equal(ls_worker_time_open(&time, &world), LS_OK);
    ls_worker_time_begin(&time);
    spend(&world, 4, 8);
    ls_worker_time_give(&time, words);
    assert_true(words[0] == 0 && words[3] != 0 && words[6] == 0);
    words[7] = INT64_C(5000) << 32 | 2000; /* network, and input */
    words[6] = INT64_C(7000) << 32 | 9000; /* that of another worker */
    ls_worker_time_take(&time, words);
    spend(&world, 16, 2);
    ls_worker_time_end(&time);
    assert_true(time.due);
    about(time.ms[LS_WORKER_BUSY][1], 4);
    assert_true(time.ms[LS_WORKER_WAIT][0] == 0 && time.ms[LS_WORKER_BUSY][0] == 0);
    assert_true(time.ms[LS_WORKER_WAIT][1] == 8 && time.ms[LS_WORKER_BUSY][2] == 7 && time.ms[LS_WORKER_WAIT][2] == 9);
    assert_true(time.ms[LS_WORKER_NET][2] == 5 && time.ms[LS_WORKER_INPUT][2] == 2 && time.ms[LS_WORKER_NET][1] == 0);

    spend(&world, 600, 600); /* an evaluation */
    ls_worker_time_begin(&time);
    assert_false(time.due);
    ls_worker_time_give(&time, words);
    ls_worker_time_take(&time, words);
    spend(&world, 0, 1);
    ls_worker_time_give(&time, words); /* a step that is made again has two sums */
    ls_worker_time_take(&time, words);
    ls_worker_time_end(&time);
    about(time.ms[LS_WORKER_BUSY][1], 16);
    assert_true(time.ms[LS_WORKER_WAIT][1] == 3 && time.ms[LS_WORKER_BUSY][2] == 0);
    ls_worker_time_close(&time);
}

static void test_mean(void **state) {
    (void)state;
    ls_world world = {.rank = 0, .size = WORKERS_MAX};
    ls_worker_time time;
    int64_t words[WORKERS_MAX * LS_TRAFFIC_TIME_NUMBERS];
    assert_int_equal(ls_worker_time_open(&time, &world), LS_OK);
    for (int step = 1; step <= 6; step++) {
        ls_worker_time_begin(&time);
        ls_worker_time_give(&time, words);
        words[39 * LS_TRAFFIC_TIME_NUMBERS] = INT64_C(1000) * step << 32 | 500;
        ls_worker_time_take(&time, words);
        ls_worker_time_end(&time);
        assert_int_equal(time.due, step % 3 == 0);
        if (time.due) assert_true(time.ms[LS_WORKER_BUSY][39] == step - 1 && time.ms[LS_WORKER_WAIT][39] == 0.5);
    }
    ls_worker_time_close(&time);
}

/* Hours of a debugger do not run over into the other half. */
static void test_long(void **state) {
    (void)state;
    ls_world world = {.rank = 0, .size = 2};
    ls_worker_time time;
    int64_t words[2 * LS_TRAFFIC_TIME_NUMBERS];
    assert_int_equal(ls_worker_time_open(&time, &world), LS_OK);
    ls_worker_time_begin(&time);
    world.flight.waited_ns = UINT64_C(36000) * 1000000000;
    ls_worker_time_give(&time, words);
    assert_true(words[0] > 0 && words[0] >> 32 == 0 && (words[0] & UINT32_MAX) == INT32_MAX);
    ls_worker_time_close(&time);
}

static void test_alone(void **state) {
    (void)state;
    ls_worker_time time;
    assert_int_equal(ls_worker_time_open(&time, NULL), LS_OK);
    ls_worker_time_begin(&time);
    ls_worker_time_give(&time, NULL);
    ls_worker_time_take(&time, NULL);
    ls_worker_time_end(&time);
    assert_true(time.due && time.workers == 1 && time.ms[LS_WORKER_WAIT][0] == 0);
    about(time.ms[LS_WORKER_BUSY][0], 0);
    assert_int_equal(ls_worker_time_words(&time), 0);
    ls_worker_time_close(&time);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step),
        cmocka_unit_test(test_mean),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
