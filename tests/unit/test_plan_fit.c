/* test_plan_fit.c: constants that made the times of rows are found again from them, rows that are left out do not take
 * part, and what no row speaks of stays where it was. RUNS=FILE in the long tier: the bars on published runs. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "measured_rows.h"
#include "plan/cost/cost_case.h"
#include "plan/published/fit.h"
#include "plan/published/validate.h"

static void read_table(ls_rows *rows) {
    static char text[16384];
    strcpy(text, MEASURED_NAMES);
    for (int i = 0; i < MEASURED_ROWS; i++) strcat(text, measured_rows[i]);
    assert_int_equal(ls_rows_parse("t.csv", text, strlen(text), rows), LS_OK);
    for (size_t i = 0; i < rows->count; i++) /* so that there are matmuls in 8 bits */
        if (rows->row[i].task.cluster.site[0].chip.peak_flops[LS_PLAN_FP8] > 0) rows->row[i].layout.type = LS_PLAN_FP8;
}

/* The seconds that the model itself has for a row, times a factor, as what was measured. */
static void measure(ls_row *row, const double *values, double factor) {
    ls_row made = ls_fit_row(row, values);
    ls_prediction p;
    if (row->metric == LS_ROW_MEMORY) return;
    assert_int_equal(ls_row_predict(&made, NULL, &p), LS_OK);
    row->metric = LS_ROW_SECONDS;
    row->value = p.seconds * factor;
}

static void make_times(ls_rows *rows, const double *values) {
    for (size_t i = 0; i < rows->count; i++) measure(&rows->row[i], values, 1);
}

static void usual_values(double *values) {
    for (int j = 0; j < LS_FITTED_ALL; j++) values[j] = ls_fitted_row_get((ls_fitted)j)->usual;
}

/* The prior pulls a little towards the usual value. */
static void test_constants_are_found_again(void **state) {
    (void)state;
    static const double factors[] = {.9, 1.08};
    const ls_fitted which = LS_FITTED_EIGHT_BIT;
    for (size_t i = 0; i < sizeof factors / sizeof factors[0]; i++) {
        ls_rows rows;
        ls_fit fit;
        double made[LS_FITTED_ALL];
        usual_values(made);
        made[which] *= factors[i];
        read_table(&rows);
        make_times(&rows, made);
        assert_int_equal(ls_fit_find(&rows, 0, false, &fit), LS_OK);
        if (fabs(fit.values[which] / made[which] - 1) > .04)
            fail_msg("%s was %g, found %g", ls_fitted_row_get(which)->name, made[which], fit.values[which]);
        assert_true(fit.within < .02 && fit.groups_within < .02);
        /* No row has a chip of this generation. */
        assert_true(fabs(fit.values[LS_FITTED_BLACKWELL] / made[LS_FITTED_BLACKWELL] - 1) < 1e-9);
        ls_fit_free(&fit);
        /* Fixed, it stays. */
        assert_int_equal(ls_fit_find(&rows, 1u << which, false, &fit), LS_OK);
        assert_true(fit.values[which] == ls_fitted_row_get(which)->usual);
        ls_fit_free(&fit);
        ls_rows_free(&rows);
    }
}

/* One group's times are half as long again: it is so far off when it is left out, and no constant knows of it then. */
static void test_a_group_left_out_is_not_seen(void **state) {
    (void)state;
    ls_rows rows;
    ls_fit fit;
    double usual[LS_FITTED_ALL];
    const double factor = 1.5;
    usual_values(usual);
    read_table(&rows);
    make_times(&rows, usual);
    size_t odd = 0;
    const char *group = "mosaicml"; /* all matmuls in 8 bits are of it */
    for (size_t i = 0; i < rows.count; i++)
        if (strcmp(rows.row[i].group, group) == 0 && rows.row[i].metric != LS_ROW_MEMORY) {
            measure(&rows.row[i], usual, factor);
            odd++;
        }
    assert_int_equal(ls_fit_find(&rows, 0, true, &fit), LS_OK);
    assert_true(fit.groups > 1);
    const ls_fit_group *left = NULL;
    for (int g = 0; g < fit.groups; g++)
        if (strcmp(fit.group[g].name, group) == 0) left = &fit.group[g];
    assert_non_null(left);
    assert_int_equal(left->rows, odd);
    assert_true(fabs(left->out - (1 - 1 / factor)) < .02);
    assert_true(left->out_bias < 0 && left->within < left->out);
    for (int j = 0; j < LS_FITTED_COUNT; j++) assert_true(fabs(left->values[j] / usual[j] - 1) < .01);
    ls_fit_free(&fit);
    ls_rows_free(&rows);
}

/* Chips of a generation have its shares, whatever runs there are; less power means less of the rate. */
static void test_chips_take_the_shares_of_their_generation(void **state) {
    (void)state;
    ls_chip a, b, pcie, small;
    assert_int_equal(ls_chip_find("B200", &a), LS_OK);
    assert_int_equal(ls_chip_find("GB300", &b), LS_OK);
    assert_true(a.share[LS_PLAN_BF16] < b.share[LS_PLAN_BF16] && a.bandwidth_share == b.bandwidth_share);
    assert_int_equal(ls_chip_find("A100 PCIe", &pcie), LS_OK);
    assert_int_equal(ls_chip_find("A100", &a), LS_OK);
    assert_int_equal(ls_chip_find("A100-40GB", &small), LS_OK);
    assert_true(small.share[LS_PLAN_BF16] == a.share[LS_PLAN_BF16]);
    double lost = ls_fitted_values()[LS_FITTED_POWER] * .25;
    assert_true(fabs(pcie.share[LS_PLAN_BF16] / a.share[LS_PLAN_BF16] - (1 - lost)) < 1e-12);
    for (int j = 0; j < LS_FITTED_ALL; j++) {
        const ls_fitted_row *row = ls_fitted_row_get((ls_fitted)j);
        double value = ls_fitted_values()[j];
        assert_true(row->name && row->meaning && row->source && row->min <= row->usual && row->usual <= row->max);
        assert_true(value >= row->min && value <= row->max);
        if (j >= LS_FITTED_COUNT) assert_true(fabs(value / row->usual - 1) < 1e-9);
    }
}

static void test_nothing_to_fit(void **state) {
    (void)state;
    ls_rows rows;
    ls_fit fit;
    read_table(&rows);
    for (size_t i = 0; i < rows.count; i++) rows.row[i].value = 0;
    assert_int_equal(ls_fit_find(&rows, 0, false, &fit), LS_ERR_INPUT);
    ls_rows_free(&rows);
}

/* Groups left out 12 %, rows within 9 %, regret 2 %. */
static void test_bars_on_published_runs(void **state) {
    (void)state;
    const char *path = getenv("RUNS"), *tier = getenv("TIER");
    ls_rows rows;
    ls_fit fit;
    ls_validation v;
    if (!path || !*path || !tier || strcmp(tier, "long") != 0) skip();
    assert_int_equal(ls_rows_read(path, &rows), LS_OK);
    assert_int_equal(ls_fit_find(&rows, 0, true, &fit), LS_OK);
    if (fit.groups > 5 && (fit.groups_out > .12 || fit.within > .09))
        fail_msg("groups left out %.3f, rows within %.3f", fit.groups_out, fit.within);
    ls_fit_free(&fit);
    assert_int_equal(ls_validate(&rows, false, &v), LS_OK);
    const ls_validate_line *all = &v.line[v.lines - 1];
    if (all->time.mae > .09 || all->regret > .02) fail_msg("error %.3f, regret %.3f", all->time.mae, all->regret);
    ls_validation_free(&v);
    ls_rows_free(&rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constants_are_found_again),
        cmocka_unit_test(test_a_group_left_out_is_not_seen),
        cmocka_unit_test(test_chips_take_the_shares_of_their_generation),
        cmocka_unit_test(test_nothing_to_fit),
        cmocka_unit_test(test_bars_on_published_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
