/* test_contribution.c: what workers contribute to a step: one of ten times its length is named in every kind of layout,
 * clean steps raise no alarm, and a step that is long on all workers is none. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "run/guard/contribution.h"

enum { WORKERS_MAX = 16, STEPS = 40, FAULT_STEP = 30 };

static uint64_t drawn;
static double noise(void) {
    return 0.3 * ((double)(ls_rng_u64(ls_rng_key_make(11, 7, 0), drawn++) >> 11) * 0x1p-53 - 0.5);
}

static ls_layout layout_of(int dp, int tp, int pp) {
    ls_layout layout = {.dp = dp, .tp = tp, .pp = pp};
    for (int d = 0; d < dp; d++) layout.share[d] = 1 + d % 2;
    return layout;
}

static ls_settings settings_of(ls_outlier_action action) {
    ls_settings s = {.B = 24, .T = 64, .groups = 24};
    s.options.on_outlier = action;
    s.options.outlier_threshold = LS_OUTLIER_THRESHOLD_DEFAULT;
    return s;
}

/* Parts of the model differ by powers of 8, and replicas by the tokens they have. All grow and fall from step to step.
 */
static void give_all(ls_contribution *c, const ls_layout *layout, int step, int wrong) {
    int64_t words[WORKERS_MAX] = {0}, one[WORKERS_MAX];
    for (int r = 0; r < c->workers; r++) {
        ls_place_in_layout place = ls_layout_place(layout, r);
        double norm =
            exp(0.5 * sin(0.2 * step) + noise()) * pow(8, place.tp + 2 * place.pp) * sqrt(layout->share[place.dp]);
        if (r == wrong) norm *= 10;
        ls_contribution_give(c, r, norm * norm, one);
        for (int i = 0; i < c->workers; i++) words[i] += one[i];
    }
    ls_contribution_take(c, words);
}

static void expect_named(int dp, int tp, int pp, int wrong) {
    ls_layout layout = layout_of(dp, tp, pp);
    ls_settings s = settings_of(LS_OUTLIER_AUTO);
    ls_contribution c;
    assert_int_equal(ls_contribution_open(&c, &s, &layout), LS_OK);
    assert_int_equal(c.workers, dp * tp * pp);
    for (int step = 0; step < STEPS; step++) {
        bool is_wrong = step == FAULT_STEP;
        give_all(&c, &layout, step, is_wrong ? wrong : -1);
        size_t found = ls_contribution_judge(&c, 0.5);
        assert_int_equal(found, is_wrong ? 1 : 0);
        if (is_wrong) {
            assert_int_equal(c.of[0].worker, wrong);
            double times = c.of[0].of.norm / c.of[0].of.median;
            assert_true(times > 6 && times < 15);
        }
        ls_contribution_remember(&c);
    }
    ls_contribution_close(&c);
}

static void a_worker_of_ten_times_the_length_is_named(void **state) {
    (void)state;
    static const int layouts[][3] = {{2, 1, 1}, {4, 1, 1}, {2, 2, 1}, {2, 1, 2}, {3, 2, 2},
                                     {1, 2, 1}, {1, 1, 2}, {1, 4, 1}, {1, 2, 2}};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        for (int w = 0; w < layouts[i][0] * layouts[i][1] * layouts[i][2]; w++)
            expect_named(layouts[i][0], layouts[i][1], layouts[i][2], w);
}

/* Norms have fallen to a hundredth. A worker whose batch the model predicts badly has a norm that was usual before:
 * once is nothing, twice is a finding. */
static void a_trained_model_has_a_bad_batch(void **state) {
    (void)state;
    enum { FIRST = 60, SECOND = 65, THIRD = 68, FOURTH = 70, LAST = 76 };
    ls_layout layout = layout_of(4, 1, 1);
    ls_settings s = settings_of(LS_OUTLIER_AUTO);
    ls_contribution c;
    assert_int_equal(ls_contribution_open(&c, &s, &layout), LS_OK);
    for (int step = 0; step <= LAST; step++) {
        int64_t words[4] = {0}, one[4];
        for (int r = 0; r < c.workers; r++) {
            double norm = exp(noise()) * sqrt(layout.share[r]) * (step < FIRST / 2 ? 1 : 0.01);
            if (r == 2 && (step == FIRST || step == SECOND || step == THIRD || step == FOURTH || step == LAST))
                norm *= 50;
            ls_contribution_give(&c, r, norm * norm, one);
            for (int i = 0; i < 4; i++) words[i] += one[i];
        }
        ls_contribution_take(&c, words);
        size_t found = ls_contribution_judge(&c, 1);
        assert_int_equal(found, step == FOURTH ? 1 : 0);
        if (found) assert_int_equal(c.of[0].worker, 2);
        ls_contribution_remember(&c);
    }
    ls_contribution_close(&c);
}

/* With one replica a change that stays is what is usual after a few steps. */
static void a_change_that_stays_is_told_for_some_steps(void **state) {
    (void)state;
    ls_layout layout = layout_of(1, 1, 2);
    ls_settings s = settings_of(LS_OUTLIER_AUTO);
    ls_contribution c;
    size_t told = 0;
    assert_int_equal(ls_contribution_open(&c, &s, &layout), LS_OK);
    for (int step = 0; step < STEPS; step++) {
        give_all(&c, &layout, step, step >= FAULT_STEP ? 1 : -1);
        size_t found = ls_contribution_judge(&c, 1);
        if (step < FAULT_STEP || step > FAULT_STEP + LS_CONTRIBUTION_LEVELS) assert_int_equal(found, 0);
        if (step == FAULT_STEP) assert_int_equal(found, 1);
        told += found;
        ls_contribution_remember(&c);
    }
    assert_in_range(told, 1, LS_CONTRIBUTION_LEVELS);
    ls_contribution_close(&c);
}

static void what_is_not_finite_is_no_number(void **state) {
    (void)state;
    ls_layout layout = layout_of(4, 1, 1);
    ls_settings s = settings_of(LS_OUTLIER_AUTO);
    ls_contribution c;
    int64_t words[4] = {0}, one[4];
    assert_int_equal(ls_contribution_open(&c, &s, &layout), LS_OK);
    for (int r = 0; r < 4; r++) {
        ls_contribution_give(&c, r, r == 2 ? (double)NAN : 1, one);
        for (int i = 0; i < 4; i++) words[i] += one[i];
    }
    ls_contribution_take(&c, words);
    assert_int_equal(ls_contribution_judge(&c, 1), 0);
    ls_contribution_close(&c);
}

static void one_worker_is_not_compared_and_off_is_off(void **state) {
    (void)state;
    ls_layout one = layout_of(1, 1, 1), two = layout_of(2, 1, 1);
    ls_settings automatic = settings_of(LS_OUTLIER_AUTO), off = settings_of(LS_OUTLIER_OFF);
    assert_false(ls_contribution_is_watched(&automatic, &one));
    assert_true(ls_contribution_is_watched(&automatic, &two));
    assert_false(ls_contribution_is_watched(&off, &two));
}

/* Beside 2,048 tokens all elements; beside fewer, as large a share. */
static void few_tokens_have_a_share_measured(void **state) {
    (void)state;
    ls_settings s = settings_of(LS_OUTLIER_AUTO);
    ls_layout layout = layout_of(2, 1, 1);
    assert_true(ls_contribution_share(&s, &layout) == 1.0 * 64 / 2048);
    layout.share[0] = 32;
    layout.share[1] = 40;
    assert_true(ls_contribution_share(&s, &layout) == 1);
    layout.zero = 2; /* group by group */
    assert_true(ls_contribution_share(&s, &layout) == 1.0 * 64 / 2048);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_of_ten_times_the_length_is_named),
        cmocka_unit_test(a_trained_model_has_a_bad_batch),
        cmocka_unit_test(a_change_that_stays_is_told_for_some_steps),
        cmocka_unit_test(what_is_not_finite_is_no_number),
        cmocka_unit_test(one_worker_is_not_compared_and_off_is_off),
        cmocka_unit_test(few_tokens_have_a_share_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
