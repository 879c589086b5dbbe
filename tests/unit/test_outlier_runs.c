/* Outlying gradient groups in long simulated runs: clean ones, and ones with a tenfold group. LS_TEST_LONG takes twenty
 * times as many clean steps. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "outlier_run.h"

typedef struct tally {
    int64_t steps, alarms, tenfold, caught, wrong;
} tally;

/* Every step is judged as it is, and once more with one group ten times as long. */
static void simulate(run r, int64_t steps, bool inject, tally *t) {
    ls_outlier *o;
    ls_outlier_finding found[GROUPS_MAX];
    assert_int_equal(ls_outlier_create(r.groups, LS_OUTLIER_THRESHOLD_DEFAULT, &o), LS_OK);
    for (int64_t i = 0; i < steps; i++) {
        ls_outlier_step step = next_step(&r);
        size_t bad = (size_t)(uniform(&r) * (double)r.groups);
        if (inject && i >= LS_OUTLIER_WARMUP) {
            double was = r.squares[bad];
            r.squares[bad] *= 100;
            size_t count = ls_outlier_judge(o, &step, found);
            t->tenfold++;
            for (size_t k = 0; k < count; k++) {
                t->caught += found[k].group == bad;
                t->wrong += found[k].group != bad;
            }
            r.squares[bad] = was;
        }
        t->steps++;
        t->alarms += (int64_t)ls_outlier_judge(o, &step, found);
        ls_outlier_remember(o);
    }
    ls_outlier_destroy(o);
}

typedef struct clean_case {
    size_t groups;
    double sigma, skew;
} clean_case;

static uint64_t seeds(void) { return getenv("LS_TEST_LONG") ? 20 : 1; }

static tally run_clean(const clean_case *cases, size_t count) {
    tally t = {0};
    for (size_t i = 0; i < count; i++)
        for (uint64_t seed = 0; seed < seeds(); seed++)
            simulate(
                (run){
                    .seed = 100 * seed + i, .groups = cases[i].groups, .sigma = cases[i].sigma, .skew = cases[i].skew},
                10000, false, &t);
    print_message("%d alarms in %d clean steps\n", (int)t.alarms, (int)t.steps);
    return t;
}

static void clean_runs_raise_no_alarm(void **state) {
    (void)state;
    static const clean_case cases[] = {{2, 0.1, 0}, {3, 0.15, 0}, {4, 0.2, 0}, {8, 0.25, 0}, {8, 0.1, 0.05}};
    assert_int_equal(run_clean(cases, sizeof cases / sizeof *cases).alarms, 0);
}

/* An exponential tail reaches any bound once: docs/explain/numerics.md has rates. */
static void skewed_runs_raise_hardly_any(void **state) {
    (void)state;
    static const clean_case cases[] = {{4, 0.15, 0.1}, {8, 0.15, 0.15}, {16, 0.1, 0.15}};
    tally t = run_clean(cases, sizeof cases / sizeof *cases);
    assert_true((double)t.alarms <= 1 + 0.3 * (double)t.steps / 10000);
}

/* At the start all is different from run to run, so many short ones. */
static void the_start_of_training_raises_no_alarm(void **state) {
    (void)state;
    static const size_t groups[] = {2, 3, 4, 8};
    for (size_t i = 0; i < 4; i++) {
        tally t = {0};
        for (uint64_t seed = 0; seed < 100; seed++)
            simulate((run){.seed = seed, .groups = groups[i], .sigma = 0.15, .skew = 0.1}, 60, false, &t);
        assert_int_equal(t.alarms, 0);
        assert_int_equal(t.steps, 6000);
    }
}

static void a_tenfold_group_is_caught(void **state) {
    (void)state;
    static const struct {
        size_t groups;
        double sigma, share; /* to be caught, at least */
    } runs[] = {{2, 0.05, 1},   {3, 0.05, 1}, {2, 0.15, 0.99}, {3, 0.15, 0.99}, {4, 0.1, 1},    {4, 0.15, 0.995},
                {4, 0.2, 0.97}, {8, 0.1, 1},  {8, 0.2, 0.98},  {32, 0.1, 1},    {32, 0.2, 0.98}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        tally t = {0};
        int64_t steps = runs[i].groups > 8 ? 300 : 1000;
        for (uint64_t seed = 0; seed < 2; seed++)
            simulate((run){.seed = 1000 + seed, .groups = runs[i].groups, .sigma = runs[i].sigma}, steps, true, &t);
        if (t.alarms != 0 || t.wrong != 0 || (double)t.caught < runs[i].share * (double)t.tenfold)
            fail_msg("%zu groups, sigma %g: %d of %d caught, %d wrong, %d alarms", runs[i].groups, runs[i].sigma,
                     (int)t.caught, (int)t.tenfold, (int)t.wrong, (int)t.alarms);
    }
}

/* From the first step after the warm-up on. */
static void a_tenfold_group_is_caught_early(void **state) {
    (void)state;
    static const size_t groups[] = {2, 3, 4, 8};
    for (size_t i = 0; i < 4; i++) {
        tally t = {0};
        for (uint64_t seed = 0; seed < 50; seed++)
            simulate((run){.seed = 2000 + seed, .groups = groups[i], .sigma = 0.1}, LS_OUTLIER_WARMUP + 10, true, &t);
        assert_int_equal(t.tenfold, 500);
        assert_int_equal(t.alarms + t.wrong, 0);
        if (t.caught < (groups[i] < 4 ? 490 : 500)) fail_msg("%zu groups: %d of 500 caught", groups[i], (int)t.caught);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clean_runs_raise_no_alarm),
        cmocka_unit_test(skewed_runs_raise_hardly_any),
        cmocka_unit_test(the_start_of_training_raises_no_alarm),
        cmocka_unit_test(a_tenfold_group_is_caught),
        cmocka_unit_test(a_tenfold_group_is_caught_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
