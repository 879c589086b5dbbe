/* test_validate.c: errors, fitted factors and regret against values worked out here. Measured values are made from the
 * predictions, so that every figure is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "measured_rows.h"
#include "plan/published/validate.h"

enum { LAYOUTS = 10 };

/* One task under ten layouts, of two sources that differ behind the bracket alone, and a third one in the same
 * group. */
static void read_layouts(ls_rows *out) {
    static const int knobs[LAYOUTS][4] = {/* dp tp pp micro */ {8, 1, 1, 1},
                                          {8, 1, 1, 2},
                                          {4, 2, 1, 2},
                                          {4, 1, 2, 1},
                                          {2, 4, 1, 2},
                                          {2, 2, 2, 1},
                                          {1, 8, 1, 4},
                                          {2, 1, 4, 1},
                                          {1, 4, 2, 2},
                                          {1, 2, 4, 2}};
    char text[8192];
    size_t n = (size_t)snprintf(text, sizeof text, "%s", MEASURED_NAMES);
    for (int i = 0; i < LAYOUTS; i++) {
        const int *k = knobs[i];
        const char *source = i < 9 ? (i % 2 ? "a/b one (x)" : "a/b one (y; z)") : "a/b two";
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "r%d,%s,M,24,2048,16,16,8192,51200,2048,A100,8,8,%d,%d,%d,1,%d,32,1,full,0,fp16,"
                              "iteration_seconds,1,a/b\n",
                              i, source, k[0], k[1], k[2], k[3]);
    }
    assert_int_equal(ls_rows_parse("t.csv", text, n, out), LS_OK);
}

static double predicted(const ls_row *row) {
    ls_prediction p;
    assert_int_equal(ls_row_predict(row, NULL, &p), LS_OK);
    return p.seconds;
}

static void assert_near(double a, double b) {
    double d = a - b;
    if (!(d < 1e-9 && d > -1e-9)) fail_msg("%.12g is not %.12g", a, b);
}

static void test_errors_are_relative_to_what_was_measured(void **state) {
    (void)state;
    ls_rows rows;
    ls_validation v;
    read_layouts(&rows);
    for (int i = 0; i < LAYOUTS; i++) rows.row[i].value = predicted(&rows.row[i]) / (i % 2 ? 1.1 : 0.8);
    assert_int_equal(ls_validate(&rows, false, &v), LS_OK);
    assert_int_equal(v.rows, LAYOUTS);
    assert_int_equal(v.modelled, LAYOUTS);
    assert_near(v.row[0].error, -.2);
    assert_near(v.row[1].error, .1);
    /* Two sources, the group of both, all rows. */
    assert_int_equal(v.sources, 2);
    assert_string_equal(v.source[0], "a/b one");
    assert_int_equal(v.lines, 4);
    assert_string_equal(v.line[2].name, "a/b, all");
    assert_near(v.line[0].time.mae, (5 * .2 + 4 * .1) / 9);
    assert_near(v.line[0].time.bias, (-5 * .2 + 4 * .1) / 9);
    assert_near(v.line[1].time.mae, .1);
    assert_near(v.line[3].time.mae, .15);
    assert_near(v.line[3].time.bias, -.05);
    assert_int_equal(v.line[3].memory.rows, 0);
    ls_validation_free(&v);
    ls_rows_free(&rows);
}

/* All measurements are 5 % slower. Of a factor f, four rows say f/1.05 = 1 and what is known of clusters says f = 1,
 * all with the same weight: f = (1 + 4/1.05) / (1 + 4/1.05²). */
static void test_one_factor_is_fitted_on_the_first_rows(void **state) {
    (void)state;
    ls_rows rows;
    ls_validation v;
    read_layouts(&rows);
    for (int i = 0; i < LAYOUTS; i++) rows.row[i].value = predicted(&rows.row[i]) * 1.05;
    rows.row[8].value *= 2;
    const double factor = (1 + 4 / 1.05) / (1 + 4 / (1.05 * 1.05)), error = factor / 1.05 - 1;
    assert_int_equal(ls_validate(&rows, true, &v), LS_OK);
    assert_int_equal(v.cluster[0].rows, 9);
    assert_int_equal(v.cluster[0].fitted, 4);
    assert_near(v.cluster[0].factor, factor);
    assert_true(v.row[0].fitted && v.row[3].fitted && !v.row[4].fitted);
    assert_false(v.row[3].judged);
    assert_int_equal(v.line[0].time.rows, 5);
    assert_near(v.row[4].error, error);
    assert_near(v.row[8].error, factor / 2.1 - 1);
    assert_near(v.line[0].time.mae, (4 * -error + 1 - factor / 2.1) / 5);
    /* The only row of the other source cannot be fitted and judged at once. */
    assert_int_equal(v.cluster[1].fitted, 0);
    assert_int_equal(v.line[1].time.rows, 0);
    ls_validation_free(&v);
    ls_rows_free(&rows);
}

/* One of the four is measured twice as slow as the others: the factor follows it by less than a tenth. */
static void test_rows_that_stand_out_count_less(void **state) {
    (void)state;
    ls_rows rows;
    ls_validation v;
    read_layouts(&rows);
    for (int i = 0; i < LAYOUTS; i++) rows.row[i].value = predicted(&rows.row[i]) * (i == 1 ? 2 : 1);
    assert_int_equal(ls_validate(&rows, true, &v), LS_OK);
    assert_true(v.cluster[0].factor > 1 && v.cluster[0].factor < 1.05);
    ls_validation_free(&v);
    ls_rows_free(&rows);
}

/* The layout that is predicted to be fastest is measured 30 % slower than the best. */
static void test_regret_is_of_the_first_choice(void **state) {
    (void)state;
    ls_rows rows;
    ls_validation v;
    int first = 0;
    read_layouts(&rows);
    for (int i = 1; i < LAYOUTS - 1; i++)
        if (predicted(&rows.row[i]) < predicted(&rows.row[first])) first = i;
    for (int i = 0; i < LAYOUTS; i++) rows.row[i].value = 2 + .1 * i;
    int best = first == 3 ? 4 : 3;
    rows.row[first].value = 1.3;
    rows.row[best].value = 1;
    rows.row[9].value = .5; /* of another source */
    for (int calibrated = 0; calibrated < 2; calibrated++) {
        assert_int_equal(ls_validate(&rows, calibrated, &v), LS_OK);
        assert_int_equal(v.regrets, 1);
        assert_int_equal(v.regret[0].layouts, 9);
        assert_ptr_equal(v.regret[0].chosen->row, &rows.row[first]);
        assert_ptr_equal(v.regret[0].best->row, &rows.row[best]);
        assert_near(v.regret[0].regret, .3);
        assert_near(v.line[v.lines - 1].regret, .3);
        ls_validation_free(&v);
    }
    /* Another global batch is another task; two layouts are too few. */
    for (int i = 0; i < LAYOUTS; i++) rows.row[i].task.global_batch = 32 + 8 * (size_t)(i / 2);
    assert_int_equal(ls_validate(&rows, false, &v), LS_OK);
    assert_int_equal(v.regrets, 0);
    ls_validation_free(&v);
    ls_rows_free(&rows);
}

/* Every row at 40 % of the peak with recomputation counted: the baseline is exact; with one at 20 % it is not. */
static void test_the_baseline_is_one_share_of_the_peak(void **state) {
    (void)state;
    ls_rows rows;
    ls_validation v;
    read_layouts(&rows);
    double n = 32.0 * 2048, flops = n * 24 * 2048 * 2048 * (96 + 16.0 * 2048 / 2048) + 6 * n * 51200 * 2048;
    for (int i = 0; i < LAYOUTS; i++) rows.row[i].value = flops / (.4 * 312e12 * 8);
    assert_int_equal(ls_validate(&rows, false, &v), LS_OK);
    assert_near(v.cluster[0].baseline_efficiency, .4);
    assert_near(v.line[0].baseline.mae, 0);
    ls_validation_free(&v);
    for (int i = 0; i < 9; i++) rows.row[i].value *= i == 4 ? 2 : 1;
    assert_int_equal(ls_validate(&rows, false, &v), LS_OK);
    double mean = (8 * .4 + .2) / 9;
    assert_near(v.cluster[0].baseline_efficiency, mean);
    assert_near(v.line[0].baseline.mae, (8 * (.4 / mean - 1) + (1 - .2 / mean)) / 9);
    ls_validation_free(&v);
    ls_rows_free(&rows);
}

static void test_memory_and_what_cannot_be_modelled_stand_apart(void **state) {
    (void)state;
    ls_rows rows;
    ls_validation v;
    ls_prediction p;
    read_layouts(&rows);
    rows.row[0].metric = LS_ROW_MEMORY;
    assert_int_equal(ls_row_predict(&rows.row[0], NULL, &p), LS_OK);
    rows.row[0].value = (p.memory_bytes - p.memory[LS_MEMORY_RESERVED]) / 1.6 / 1073741824;
    strcpy(rows.row[1].reason, "as a test");
    for (int i = 2; i < LAYOUTS; i++) rows.row[i].value = predicted(&rows.row[i]);
    assert_int_equal(ls_validate(&rows, false, &v), LS_OK);
    assert_int_equal(v.modelled, LAYOUTS - 1);
    assert_false(v.row[1].modelled);
    const ls_validate_line *all = &v.line[v.lines - 1];
    assert_int_equal(all->time.rows, LAYOUTS - 2);
    assert_near(all->time.mae, 0);
    assert_int_equal(all->memory.rows, 1);
    assert_near(all->memory.mae, .6);
    ls_validation_free(&v);
    ls_rows_free(&rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_are_relative_to_what_was_measured),
        cmocka_unit_test(test_one_factor_is_fitted_on_the_first_rows),
        cmocka_unit_test(test_rows_that_stand_out_count_less),
        cmocka_unit_test(test_regret_is_of_the_first_choice),
        cmocka_unit_test(test_the_baseline_is_one_share_of_the_peak),
        cmocka_unit_test(test_memory_and_what_cannot_be_modelled_stand_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
