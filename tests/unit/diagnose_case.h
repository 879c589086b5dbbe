/* case.h: a run that a test makes up line by line, and what doctor says of it. */
#ifndef LS_TESTS_DIAGNOSE_CASE_H
#define LS_TESTS_DIAGNOSE_CASE_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "observe/diagnose/diagnose.h"

static ls_run_log run;
static ls_diagnosis d;

static inline int begin(void **state) {
    (void)state;
    ls_run_log_init(&run);
    d = (ls_diagnosis){0};
    return 0;
}

static inline int end(void **state) {
    (void)state;
    ls_diagnosis_free(&d);
    ls_run_log_free(&run);
    return 0;
}

static inline void line(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline void line(const char *format, ...) {
    char text[4096];
    va_list list;
    va_start(list, format);
    int bytes = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    int64_t damaged = run.damaged_lines, unknown = run.unknown_lines;
    assert_int_equal(ls_run_log_add_line(&run, text, (size_t)bytes), LS_OK);
    assert_true(run.damaged_lines == damaged && run.unknown_lines == unknown);
}

static inline void layout(const char *text) {
    assert_int_equal(ls_run_log_add_layout(&run, text, strlen(text)), LS_OK);
}
static inline void options(const char *text) {
    assert_int_equal(ls_run_log_add_options(&run, text, strlen(text)), LS_OK);
}

/* A loss that falls and scatters by about 0.02, the same every time. */
static inline double calm(int step) {
    return 2 + 3 * exp(-step / 30.0) + 0.02 * (sin(12.9898 * step) + sin(4.1 * step * step));
}

static inline void steps(int first, int last) {
    for (int s = first; s <= last; s++)
        line("{\"step\":%d,\"loss\":%.6f,\"norm\":%.3f,\"lr\":0.001,\"ms\":100}", s, calm(s), 0.7 + 0.1 * sin(3.3 * s));
}

static inline void diagnose(void) { assert_int_equal(ls_diagnose(&run, &d), LS_OK); }

static inline const ls_finding *first_is(ls_cause cause) {
    assert_int_equal(d.verdict, LS_VERDICT_CAUSE);
    assert_string_equal(ls_cause_name(d.finding[0].cause), ls_cause_name(cause));
    assert_true(d.finding[0].action[0] != '\0');
    return &d.finding[0];
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

#endif
