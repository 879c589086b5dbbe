/* test_events.c: spans nest, keep their order, drop the oldest, and come out as JSON that another parser reads. */
#include <jansson.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/events.h"

/* The fragment in brackets, parsed. */
static json_t *events_now(int worker) {
    char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(ls_events_json(worker, &text, &bytes), LS_OK);
    assert_int_equal(strlen(text), bytes);
    char *whole = malloc(bytes + 3);
    assert_non_null(whole);
    snprintf(whole, bytes + 3, "[%s]", text);
    json_error_t error;
    json_t *array = json_loads(whole, JSON_REJECT_DUPLICATES, &error);
    if (!array) fail_msg("%s in %s", error.text, whole);
    free(whole);
    free(text);
    return array;
}

static const char *text_of(const json_t *event, const char *key) {
    const char *text = json_string_value(json_object_get(event, key));
    return text ? text : "";
}

static double number_of(const json_t *event, const char *key) { return json_number_value(json_object_get(event, key)); }

static int64_t arg_of(const json_t *event, const char *key) {
    return json_integer_value(json_object_get(json_object_get(event, "args"), key));
}

/* Event number n of those with this phase ("X" or "M") and, if given, this name; NULL past the end. */
static json_t *pick(json_t *array, const char *phase, const char *name, size_t n) {
    size_t i;
    json_t *event;
    json_array_foreach(array, i, event) {
        if (strcmp(text_of(event, "ph"), phase) != 0) continue;
        if (name && strcmp(text_of(event, "name"), name) != 0) continue;
        if (n-- == 0) return event;
    }
    return NULL;
}

static void off_records_nothing(void **state) {
    (void)state;
    ls_span span = ls_span_begin("test", "early");
    assert_true(span.start_ns == 0);
    ls_span_end(span, 1);
    assert_int_equal(ls_events_enable(0), LS_ERR_INPUT);
    assert_int_equal(ls_events_enable(10), LS_OK);
    ls_span_end(span, 1); /* began while it was off */
    ls_span cut = ls_span_begin("test", "cut");
    ls_events_disable();
    ls_span_end(cut, 1);
    json_t *array = events_now(0);
    assert_null(pick(array, "X", NULL, 0));
    assert_string_equal(text_of(pick(array, "M", NULL, 0), "name"), "process_name");
    json_decref(array);
}

static void spans_nest_in_order(void **state) {
    (void)state;
    assert_int_equal(ls_events_enable(10), LS_OK);
    uint64_t before_ns = ls_clock_ns();
    ls_span outer = ls_span_begin("step", "outer");
    ls_span first = ls_span_begin("comm", "first");
    ls_clock_sleep_us(1000);
    ls_span_end(first, 11);
    ls_span second = ls_span_begin("comm", "second \"\\\n\"");
    ls_span_end(second, -22);
    ls_span_end(outer, INT64_MAX);
    uint64_t after_ns = ls_clock_ns();
    ls_events_disable();

    json_t *array = events_now(3);
    json_t *o = pick(array, "X", NULL, 0), *f = pick(array, "X", NULL, 1), *s = pick(array, "X", NULL, 2);
    assert_non_null(s);
    assert_null(pick(array, "X", NULL, 3));
    assert_string_equal(text_of(o, "name"), "outer");
    assert_string_equal(text_of(o, "cat"), "step");
    assert_string_equal(text_of(f, "name"), "first");
    assert_string_equal(text_of(s, "name"), "second \"\\\n\"");
    assert_true(arg_of(f, "n") == 11 && arg_of(s, "n") == -22 && arg_of(o, "n") == INT64_MAX);
    assert_true(number_of(o, "pid") == 3.0);
    assert_true(number_of(o, "tid") == number_of(f, "tid"));

    double o_start = number_of(o, "ts"), o_end = o_start + number_of(o, "dur");
    double f_start = number_of(f, "ts"), f_end = f_start + number_of(f, "dur");
    double s_start = number_of(s, "ts"), s_end = s_start + number_of(s, "dur");
    const double slack = 0.01; /* doubles of this size round to less */
    assert_true(o_start + slack >= (double)before_ns * 1e-3 && o_end <= (double)after_ns * 1e-3 + slack);
    assert_true(o_start <= f_start + slack && f_end <= s_start + slack && s_end <= o_end + slack);
    assert_true(number_of(f, "dur") >= 1000.0);
    json_decref(array);
}

/* Two numbers, and a subject, only where they are given. */
static void spans_carry_what_is_given(void **state) {
    (void)state;
    assert_int_equal(ls_events_enable(10), LS_OK);
    ls_span_end2(ls_span_begin("stage", "forward"), 2, 17);
    ls_span_end2(ls_span_begin("stage", "backward"), INT64_MIN, 0);
    ls_span wait = ls_span_begin("comm", "wait");
    wait.of = "all_reduce";
    ls_span_end(wait, 9);
    ls_events_disable();
    ls_span_end2(ls_span_begin("stage", "off"), 1, 1);
    json_t *array = events_now(0);
    json_t *f = pick(array, "X", "forward", 0), *b = pick(array, "X", "backward", 0), *w = pick(array, "X", "wait", 0);
    assert_true(arg_of(f, "n") == 2 && arg_of(f, "micro") == 17);
    assert_true(arg_of(b, "n") == INT64_MIN && arg_of(b, "micro") == 0);
    assert_int_equal(json_object_size(json_object_get(b, "args")), 2);
    assert_string_equal(text_of(json_object_get(w, "args"), "of"), "all_reduce");
    assert_int_equal(json_object_size(json_object_get(w, "args")), 2);
    assert_null(pick(array, "X", "off", 0));
    json_decref(array);
}

/* A lane has a name, its spans are those that it was given, and what was lost is counted with it. */
static void lanes_stand_beside_threads(void **state) {
    (void)state;
    ls_lane *lane = ls_events_lane("queue");
    assert_non_null(lane);
    ls_events_add(lane, (ls_span){.category = "gpu", .name = "early", .start_ns = 1}, 1, 1);
    assert_int_equal(ls_events_enable(10), LS_OK);
    ls_span_end(ls_span_begin("test", "host"), 0);
    ls_span second = {.category = "gpu norms", .name = "second", .of = ls_events_word("2x3"), .start_ns = 7000};
    ls_span first = {.category = "gpu loss", .name = "first", .start_ns = 2000};
    assert_ptr_equal(second.of, ls_events_word("2x3"));
    assert_ptr_not_equal(second.of, ls_events_word("2x34"));
    ls_events_add(lane, second, 500, 3);
    ls_events_add(lane, first, 1500, 4);
    ls_events_lose(lane, 5);
    ls_events_disable();
    ls_events_add(lane, first, 1, 1);
    json_t *array = events_now(2);
    json_t *name = pick(array, "M", "thread_name", 0), *f = pick(array, "X", "first", 0);
    json_t *s = pick(array, "X", "second", 0);
    assert_null(pick(array, "X", "first", 1));
    assert_null(pick(array, "X", "early", 0));
    assert_string_equal(text_of(json_object_get(name, "args"), "name"), "queue");
    assert_true(number_of(name, "tid") == number_of(f, "tid"));
    assert_true(number_of(f, "tid") == number_of(s, "tid"));
    assert_true(number_of(f, "tid") != number_of(pick(array, "X", "host", 0), "tid"));
    assert_true(number_of(f, "ts") == 2.0 && number_of(f, "dur") == 1.5 && arg_of(f, "n") == 4);
    assert_string_equal(text_of(json_object_get(s, "args"), "of"), "2x3");
    int64_t lost = 0;
    for (size_t i = 0; pick(array, "M", "dropped_events", i); i++)
        lost += arg_of(pick(array, "M", "dropped_events", i), "dropped");
    assert_int_equal(lost, 5);
    json_decref(array);
}

/* Pairs: the same id, one behind the other, from the start of the one to its end whatever lies between. */
static void overlapping_spans_are_pairs(void **state) {
    (void)state;
    assert_int_equal(ls_events_enable(10), LS_OK);
    ls_span first = ls_span_begin("comm", "first"), second = ls_span_begin("comm", "second");
    ls_clock_sleep_us(1000);
    ls_span_end_overlapping(first, 1);
    ls_span_end_overlapping(second, 2);
    ls_events_disable();
    json_t *array = events_now(5);
    size_t i, at = 0;
    json_t *event, *of[4] = {NULL};
    json_array_foreach(array, i, event) if (strcmp(text_of(event, "ph"), "M") != 0) {
        assert_true(at < 4);
        of[at++] = event;
    }
    assert_int_equal(at, 4);
    for (size_t k = 0; k < 4; k++) {
        assert_string_equal(text_of(of[k], "ph"), k % 2 ? "e" : "b");
        assert_string_equal(text_of(of[k], "name"), k < 2 ? "first" : "second");
        assert_string_equal(text_of(of[k], "id"), text_of(of[k / 2 * 2], "id"));
        assert_true(number_of(of[k], "pid") == 5.0);
    }
    assert_string_not_equal(text_of(of[0], "id"), text_of(of[2], "id"));
    assert_true(arg_of(of[0], "n") == 1 && arg_of(of[2], "n") == 2);
    assert_true(number_of(of[1], "ts") - number_of(of[0], "ts") >= 999.9);
    assert_true(number_of(of[2], "ts") < number_of(of[1], "ts")); /* they overlap */
    json_decref(array);
}

static void oldest_are_dropped_and_counted(void **state) {
    (void)state;
    assert_int_equal(ls_events_enable(4), LS_OK);
    for (int i = 0; i < 10; i++) ls_span_end(ls_span_begin("test", "loop"), i);
    json_t *array = events_now(0);
    for (size_t i = 0; i < 4; i++) assert_true(arg_of(pick(array, "X", "loop", i), "n") == 6 + (int64_t)i);
    assert_null(pick(array, "X", "loop", 4));
    assert_true(arg_of(pick(array, "M", "dropped_events", 0), "dropped") == 6);
    json_decref(array);
    assert_int_equal(ls_events_enable(4), LS_OK); /* starts empty */
    array = events_now(0);
    assert_null(pick(array, "X", NULL, 0));
    json_decref(array);
    ls_events_disable();
}

enum { THREADS = 4, EVENTS = 2000 };

static void *record_many(void *arg) {
    for (int i = 0; i < EVENTS; i++) ls_span_end(ls_span_begin("test", arg), i);
    return NULL;
}

static void threads_have_their_own_rings(void **state) {
    (void)state;
    static char names[THREADS][8] = {"a", "b", "c", "d"};
    pthread_t threads[THREADS];
    assert_int_equal(ls_events_enable(EVENTS), LS_OK);
    for (int t = 0; t < THREADS; t++) assert_int_equal(pthread_create(&threads[t], NULL, record_many, names[t]), 0);
    json_decref(events_now(0)); /* reading beside the writers is allowed */
    for (int t = 0; t < THREADS; t++) assert_int_equal(pthread_join(threads[t], NULL), 0);
    ls_events_disable();
    json_t *array = events_now(0), *event;
    int count[THREADS] = {0};
    double tid[THREADS];
    size_t i;
    json_array_foreach(array, i, event) {
        int t = text_of(event, "name")[0] - 'a';
        if (strcmp(text_of(event, "ph"), "X") != 0) continue;
        assert_in_range(t, 0, THREADS - 1);
        if (count[t] == 0) tid[t] = number_of(event, "tid");
        assert_true(number_of(event, "tid") == tid[t]);
        assert_true(arg_of(event, "n") == count[t]);
        count[t]++;
    }
    for (int t = 0; t < THREADS; t++) {
        assert_int_equal(count[t], EVENTS);
        for (int u = 0; u < t; u++) assert_true(tid[t] != tid[u]);
    }
    json_decref(array);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(off_records_nothing),          cmocka_unit_test(spans_nest_in_order),
        cmocka_unit_test(spans_carry_what_is_given),    cmocka_unit_test(overlapping_spans_are_pairs),
        cmocka_unit_test(lanes_stand_beside_threads),   cmocka_unit_test(oldest_are_dropped_and_counted),
        cmocka_unit_test(threads_have_their_own_rings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
