/* Outlying gradient groups: cases by hand, lasting outliers, and the words of a checkpoint. */
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

/* ---- by hand ----------------------------------------------------------------------------------------------------- */

/* Squares of groups with the given logarithms of norms, one token each. */
static ls_outlier_step step_of(run *r, const double *logs, size_t groups) {
    for (size_t g = 0; g < groups; g++) {
        r->tokens[g] = 1;
        r->squares[g] = exp(2 * logs[g]);
    }
    return (ls_outlier_step){.squares = r->squares, .tokens = r->tokens, .scale = 1};
}

/* Five groups, of which group 4 deviates by `largest`, the others by nothing or less. */
static void remember_one(ls_outlier *o, double largest) {
    run r;
    ls_outlier_finding found[GROUPS_MAX];
    ls_outlier_step step = step_of(&r, (const double[]){0, 0, 0, -0.05, largest}, 5);
    assert_int_equal(ls_outlier_judge(o, &step, found), 0);
    ls_outlier_remember(o);
}

static void near_to(double got, double expected) {
    if (!(fabs(got - expected) <= 1e-12 * fabs(expected))) fail_msg("%.17g, expected %.17g", got, expected);
}

static void scores_are_as_by_hand(void **state) {
    (void)state;
    run r;
    ls_outlier *o;
    ls_outlier_finding found[GROUPS_MAX];
    assert_int_equal(ls_outlier_create(5, 5, &o), LS_OK);
    /* Ten steps: median (0.5 + 0.6)/2, distances above it 0.05, 0.15, 0.25, 0.35, 0.45: b = 0.25. */
    static const double largest[] = {0.7, 0.2, 0.9, 0.5, 1.0, 0.1, 0.8, 0.3, 0.4, 0.6};
    for (size_t i = 0; i < 10; i++) remember_one(o, largest[i]);
    double spread = 0.25 + 0.55 / 5, bound = 5 * spread;
    assert_true(bound > 1.799 && bound < 1.801);
    ls_outlier_step step = step_of(&r, (const double[]){1, 1, 1 + 1.79, 1.2, 0.8}, 5);
    assert_int_equal(ls_outlier_judge(o, &step, found), 0);
    step = step_of(&r, (const double[]){1, 1, 1 + 1.81, 1.2, 0.8}, 5);
    assert_int_equal(ls_outlier_judge(o, &step, found), 1);
    assert_true(found[0].group == 2 && found[0].finite);
    near_to(found[0].norm, exp(2.81));
    near_to(found[0].median, exp(1));
    near_to(found[0].spread, spread);
    near_to(found[0].score, 1.81 / spread);
    /* An even number of peers: their median lies between 1 and 1.2. */
    r.tokens[0] = 0;
    assert_int_equal(ls_outlier_judge(o, &step, found), 1);
    near_to(found[0].median, exp(1));
    r.tokens[4] = 0;
    r.tokens[0] = 1;
    r.squares[0] = exp(2 * 1.2);
    assert_int_equal(ls_outlier_judge(o, &step, found), 0);
    r.squares[2] = exp(2 * (1.2 + 1.81));
    assert_int_equal(ls_outlier_judge(o, &step, found), 1);
    near_to(found[0].median, exp(1.2));
    ls_outlier_destroy(o);
}

/* Equal groups have no spread of their own; then e^(0.225·8) = 6.05 times the peers is the bound. */
static void the_least_ratio_holds(void **state) {
    (void)state;
    run r;
    ls_outlier *o;
    ls_outlier_finding found[GROUPS_MAX];
    assert_int_equal(ls_outlier_create(5, LS_OUTLIER_THRESHOLD_DEFAULT, &o), LS_OK);
    for (int i = 0; i < 10; i++) remember_one(o, 0);
    ls_outlier_step step = step_of(&r, (const double[]){2, 2, 2, 2, 2 + log(6)}, 5);
    assert_int_equal(ls_outlier_judge(o, &step, found), 0);
    step = step_of(&r, (const double[]){2, 2, 2, 2, 2 + log(6.1)}, 5);
    assert_int_equal(ls_outlier_judge(o, &step, found), 1);
    near_to(found[0].spread, 0.225);
    near_to(found[0].score, log(6.1) / 0.225);
    ls_outlier_destroy(o);
}

/* Two groups: one that is long beside the other, and beside what was; never one whose peer is short, never both. */
static void two_groups_are_told_apart_by_history(void **state) {
    (void)state;
    run r;
    ls_outlier *o;
    ls_outlier_finding found[GROUPS_MAX];
    assert_int_equal(ls_outlier_create(2, LS_OUTLIER_THRESHOLD_DEFAULT, &o), LS_OK);
    for (int i = 0; i < 12; i++) {
        ls_outlier_step step = step_of(&r, (const double[]){i % 2 * 0.1, 0}, 2);
        assert_int_equal(ls_outlier_judge(o, &step, found), 0);
        ls_outlier_remember(o);
    }
    ls_outlier_step step = step_of(&r, (const double[]){log(10), 0}, 2);
    assert_int_equal(ls_outlier_judge(o, &step, found), 1);
    assert_int_equal(found[0].group, 0);
    near_to(found[0].median, 1);
    near_to(found[0].score, (log(10) - 0.05) / 0.225); /* from the level: the medians of five steps are 0 and 0.05 */
    step = step_of(&r, (const double[]){0, -log(10)}, 2);
    assert_int_equal(ls_outlier_judge(o, &step, found), 0);
    step = step_of(&r, (const double[]){log(10), log(8)}, 2);
    assert_int_equal(ls_outlier_judge(o, &step, found), 0);
    ls_outlier_destroy(o);
}

static void what_is_not_finite_is_found_at_once(void **state) {
    (void)state;
    run r;
    ls_outlier *o;
    ls_outlier_finding found[GROUPS_MAX];
    assert_int_equal(ls_outlier_create(4, LS_OUTLIER_THRESHOLD_DEFAULT, &o), LS_OK);
    ls_outlier_step step = step_of(&r, (const double[]){1, 1, 1, 1}, 4);
    r.squares[1] = (double)NAN;
    r.squares[3] = (double)INFINITY;
    assert_int_equal(ls_outlier_judge(o, &step, found), 2);
    assert_true(found[0].group == 1 && found[1].group == 3 && !found[0].finite && !found[1].finite);
    assert_true(isinf(found[0].score) && isnan(found[0].norm) && isnan(found[0].spread));
    near_to(found[0].median, exp(1));
    r.tokens[1] = r.tokens[3] = 0; /* absent, whatever stands there */
    assert_int_equal(ls_outlier_judge(o, &step, found), 0);
    r.tokens[1] = r.tokens[3] = 1;
    for (size_t g = 0; g < 4; g++) r.squares[g] = (double)NAN;
    assert_int_equal(ls_outlier_judge(o, &step, found), 4);
    assert_true(isnan(found[0].median));
    ls_outlier_remember(o);
    int64_t words[LS_OUTLIER_WORDS];
    ls_outlier_save(o, words);
    assert_int_equal(words[0], 0); /* nothing worth remembering */
    ls_outlier_destroy(o);
    /* One group has no peers. */
    assert_int_equal(ls_outlier_create(1, LS_OUTLIER_THRESHOLD_DEFAULT, &o), LS_OK);
    for (int i = 0; i < 50; i++) {
        step = step_of(&r, (const double[]){i % 2 ? 0 : 20}, 1);
        assert_int_equal(ls_outlier_judge(o, &step, found), 0);
        ls_outlier_remember(o);
    }
    r.squares[0] = (double)INFINITY;
    assert_int_equal(ls_outlier_judge(o, &step, found), 1);
    ls_outlier_destroy(o);
}

static void a_group_without_gradient_is_no_peer(void **state) {
    (void)state;
    run r;
    ls_outlier *o;
    ls_outlier_finding found[GROUPS_MAX];
    assert_int_equal(ls_outlier_create(5, LS_OUTLIER_THRESHOLD_DEFAULT, &o), LS_OK);
    for (int i = 0; i < 10; i++) remember_one(o, 0);
    ls_outlier_step step = step_of(&r, (const double[]){1, 1, 1, 1, 1}, 5);
    r.squares[0] = r.squares[1] = r.squares[2] = 0;
    assert_int_equal(ls_outlier_judge(o, &step, found), 0);
    ls_outlier_destroy(o);
}

/* Groups of two and of one sequence, both of noise: norms as √tokens; and the part of the mean loss is what is told. */
static void tokens_and_scale_are_taken_out(void **state) {
    (void)state;
    run r;
    ls_outlier *o;
    ls_outlier_finding found[GROUPS_MAX];
    assert_int_equal(ls_outlier_create(5, LS_OUTLIER_THRESHOLD_DEFAULT, &o), LS_OK);
    for (int i = 0; i < 10; i++) remember_one(o, 0);
    ls_outlier_step step = step_of(&r, (const double[]){0, 0, 0, 0, 0}, 5);
    for (size_t g = 0; g < 5; g++) {
        r.tokens[g] = g % 2 ? 128 : 64;
        r.squares[g] = (double)r.tokens[g] * 0x1p20;
    }
    step.scale = 0x1p-13;
    r.squares[1] *= 64;
    assert_int_equal(ls_outlier_judge(o, &step, found), 1);
    near_to(found[0].norm, 8 * sqrt(128) * 0x1p-3);
    near_to(found[0].median, sqrt(128) * 0x1p-3);
    near_to(found[0].score, log(8) / 0.225);
    ls_outlier_destroy(o);
    /* A change of the loss scale changes nothing where the level is compared. */
    assert_int_equal(ls_outlier_create(2, LS_OUTLIER_THRESHOLD_DEFAULT, &o), LS_OK);
    for (int i = 0; i < 40; i++) {
        step = step_of(&r, (const double[]){0.1 * (i % 3), 0.1 * (i % 2)}, 2);
        step.scale = i < 20 ? 1 : 0x1p-16;
        for (size_t g = 0; g < 2; g++) r.squares[g] *= i < 20 ? 1 : 0x1p32;
        assert_int_equal(ls_outlier_judge(o, &step, found), 0);
        ls_outlier_remember(o);
        r.squares[1] *= 100;
        assert_int_equal(ls_outlier_judge(o, &step, found), i >= LS_OUTLIER_WARMUP - 1);
    }
    ls_outlier_destroy(o);
}

/* Also while the level falls, which is then known from the other groups alone. */
static void a_lasting_outlier_is_reported_each_time(void **state) {
    (void)state;
    static const size_t groups[] = {2, 3, 4, 8};
    for (size_t k = 0; k < 4; k++) {
        run r = {.seed = 5, .groups = groups[k], .sigma = 0.05};
        ls_outlier *o;
        ls_outlier_finding found[GROUPS_MAX];
        assert_int_equal(ls_outlier_create(groups[k], LS_OUTLIER_THRESHOLD_DEFAULT, &o), LS_OK);
        for (int i = 0; i < 400; i++) {
            ls_outlier_step step = next_step(&r);
            if (i >= 20) r.squares[1] *= 100;
            assert_int_equal(ls_outlier_judge(o, &step, found), i >= 20);
            if (i >= 20) assert_int_equal(found[0].group, 1);
            ls_outlier_remember(o);
        }
        ls_outlier_destroy(o);
    }
}

/* An outlier among the steps of the warm-up cannot be known as one, but does not make blind. */
static void an_outlier_in_the_warm_up_is_got_over(void **state) {
    (void)state;
    run r = {.seed = 6, .groups = 8, .sigma = 0.05};
    ls_outlier *o;
    ls_outlier_finding found[GROUPS_MAX];
    assert_int_equal(ls_outlier_create(8, LS_OUTLIER_THRESHOLD_DEFAULT, &o), LS_OK);
    for (int i = 0; i < 40; i++) {
        ls_outlier_step step = next_step(&r);
        if (i == 4) r.squares[3] *= 1e8;
        assert_int_equal(ls_outlier_judge(o, &step, found), 0);
        ls_outlier_remember(o);
        r.squares[2] *= 100;
        if (i >= 30) assert_int_equal(ls_outlier_judge(o, &step, found), 1);
    }
    ls_outlier_destroy(o);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Any number of groups, in any order, with equal ones among them: the median of the others by plain sorting. */
static void medians_of_peers_are_right(void **state) {
    (void)state;
    for (size_t groups = 2; groups <= GROUPS_MAX; groups++) {
        run r = {.seed = groups, .groups = groups};
        ls_outlier *o;
        ls_outlier_finding found[GROUPS_MAX];
        double peers[GROUPS_MAX];
        assert_int_equal(ls_outlier_create(groups, LS_OUTLIER_THRESHOLD_DEFAULT, &o), LS_OK);
        for (int i = 0; i < 20; i++) {
            for (size_t g = 0; g < groups; g++) r.tokens[g] = 1, r.squares[g] = floor(1 + 6 * uniform(&r));
            ls_outlier_step step = {.squares = r.squares, .tokens = r.tokens, .scale = 1};
            if (i < 15) {
                ls_outlier_judge(o, &step, found);
                ls_outlier_remember(o);
                continue;
            }
            size_t bad = (size_t)(uniform(&r) * (double)groups), n = 0;
            r.squares[bad] = 1e40;
            for (size_t g = 0; g < groups; g++)
                if (g != bad) peers[n++] = log(sqrt(r.squares[g]));
            qsort(peers, n, sizeof *peers, compare);
            assert_int_equal(ls_outlier_judge(o, &step, found), 1);
            assert_int_equal(found[0].group, bad);
            near_to(found[0].median, exp((peers[(n - 1) / 2] + peers[n / 2]) / 2));
        }
        ls_outlier_destroy(o);
    }
}

/* ---- losses ------------------------------------------------------------------------------------------------------ */

/* Five groups: norms and losses by group, one token each. */
static size_t judge_both(ls_outlier *o, const double *logs, const double *losses, ls_outlier_finding *found) {
    run r;
    ls_outlier_step step = step_of(&r, logs, 5);
    step.losses = losses;
    return ls_outlier_judge(o, &step, found);
}

static void remember_both(ls_outlier *o, double norm, double loss) {
    ls_outlier_finding found[GROUPS_MAX];
    assert_int_equal(
        judge_both(o, (const double[]){0, 0, 0, -0.05, norm}, (const double[]){2, 2, 2, 1.9, 2 + loss}, found), 0);
    ls_outlier_remember(o);
}

/* Ten steps in which one group's norm deviates by `norm`, and one's loss by 0.1 to 1.0: m = 0.55, b = 0.25. */
static ls_outlier *with_losses(double norm) {
    static const double largest[] = {0.7, 0.2, 0.9, 0.5, 1.0, 0.1, 0.8, 0.3, 0.4, 0.6};
    ls_outlier *o;
    assert_int_equal(ls_outlier_create(5, 8, &o), LS_OK);
    for (size_t i = 0; i < 10; i++) remember_both(o, norm, largest[i]);
    return o;
}

/* A loss that stands out needs a gradient that is twice as long as the others', and longer than is usual. */
static void a_loss_needs_a_long_gradient(void **state) {
    (void)state;
    ls_outlier_finding found[GROUPS_MAX];
    const double high[] = {2, 2.1, 2 + 2.56, 2, 1.9}, nearly[] = {2, 2.1, 2 + 2.54, 2, 1.9};
    const double lone[] = {1, 1, 1 + log(2.1), 1, 1}, weak[] = {1, 1, 1 + log(1.9), 1, 1};
    ls_outlier *o = with_losses(0.1);
    double spread = 0.25 + 0.55 / 8;
    assert_int_equal(judge_both(o, weak, high, found), 0);
    assert_int_equal(judge_both(o, lone, nearly, found), 0);
    assert_int_equal(judge_both(o, lone, high, found), 1);
    assert_true(found[0].group == 2 && found[0].finite);
    near_to(found[0].loss, 4.56);
    near_to(found[0].loss_median, 2);
    near_to(found[0].loss_score, 2.56 / spread);
    near_to(found[0].score, log(2.1) / 0.225);
    /* Another group has the long gradient: neither is an outlier. */
    assert_int_equal(judge_both(o, (const double[]){1, 1, 1, 1 + log(2.1), 1}, high, found), 0);
    /* A norm alone is enough, whatever the loss; the loss is told. */
    assert_int_equal(judge_both(o, (const double[]){1, 1, 1, 4, 1}, high, found), 1);
    assert_int_equal(found[0].group, 3);
    near_to(found[0].loss_score, -0.05 / spread);
    ls_outlier_destroy(o);
    o = with_losses(0.8); /* where norms of 2.2 times the peers' are usual, 2.1 is not long, and 2.3 is */
    assert_int_equal(judge_both(o, lone, high, found), 0);
    assert_int_equal(judge_both(o, (const double[]){1, 1, 1 + log(2.3), 1, 1}, high, found), 1);
    ls_outlier_destroy(o);
}

/* Equal losses have no spread: then one nat for each token is the bound at the default. Unknown losses say nothing. */
static void the_least_loss_holds(void **state) {
    (void)state;
    ls_outlier *o;
    ls_outlier_finding found[GROUPS_MAX];
    const double lone[] = {1, 1, 1, 1, 1 + log(2.1)};
    assert_int_equal(ls_outlier_create(5, LS_OUTLIER_THRESHOLD_DEFAULT, &o), LS_OK);
    for (int i = 0; i < 10; i++) remember_both(o, 0, 0);
    assert_int_equal(judge_both(o, lone, (const double[]){2, 2, 2, 2, 2.99}, found), 0);
    assert_int_equal(judge_both(o, lone, (const double[]){2, 2, 2, 2, 3.01}, found), 1);
    assert_int_equal(judge_both(o, lone, (const double[]){2, 2, (double)NAN, 2, 3.01}, found), 1);
    assert_int_equal(judge_both(o, lone, (const double[]){2, 2, 2, 2, (double)NAN}, found), 0);
    assert_int_equal(judge_both(o, lone, NULL, found), 0);
    ls_outlier_destroy(o);
}

/* Garbage in every third step, at first with short gradients, does not become what is usual. */
static void garbage_is_not_learned(void **state) {
    (void)state;
    ls_outlier *o;
    ls_outlier_finding found[GROUPS_MAX];
    assert_int_equal(ls_outlier_create(5, LS_OUTLIER_THRESHOLD_DEFAULT, &o), LS_OK);
    for (int i = 0; i < 200; i++) remember_both(o, -0.5, i >= 10 && i % 3 == 0 ? 3 : 0.1 * (i % 2));
    const double lone[] = {1, 1, 1, 1, 1 + log(2.1)};
    assert_int_equal(judge_both(o, lone, (const double[]){2, 2, 2, 2, 3.2}, found), 1);
    ls_outlier_destroy(o);
}

/* ---- checkpoint -------------------------------------------------------------------------------------------------- */

static void saved_and_restored_goes_on_equally(void **state) {
    (void)state;
    run r = {.seed = 9, .groups = 3, .sigma = 0.2, .skew = 0.3};
    ls_outlier *a, *b;
    ls_outlier_finding in_a[GROUPS_MAX], in_b[GROUPS_MAX];
    int64_t words[LS_OUTLIER_WORDS];
    size_t all = 0;
    assert_int_equal(ls_outlier_create(3, 3, &a), LS_OK);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(ls_outlier_create(3, 3, &b), LS_OK);
        ls_outlier_save(a, words);
        assert_int_equal(words[0], i < LS_OUTLIER_HISTORY ? i : LS_OUTLIER_HISTORY);
        assert_int_equal(ls_outlier_restore(b, words), LS_OK);
        ls_outlier_destroy(a);
        ls_outlier_step step = next_step(&r);
        double losses[3];
        for (size_t g = 0; g < 3; g++) losses[g] = 2 + 0.3 * normal(&r);
        step.losses = losses;
        assert_int_equal(ls_outlier_create(3, 3, &a), LS_OK);
        assert_int_equal(ls_outlier_restore(a, words), LS_OK);
        ls_outlier_judge(a, &step, in_a); /* twice: judging remembers nothing */
        size_t count = ls_outlier_judge(a, &step, in_a);
        assert_int_equal(ls_outlier_judge(b, &step, in_b), count);
        for (size_t k = 0; k < count; k++)
            assert_true(in_a[k].score == in_b[k].score && in_a[k].loss_score == in_b[k].loss_score);
        ls_outlier_remember(a);
        ls_outlier_remember(a);
        ls_outlier_destroy(b);
        all += count;
    }
    assert_true(all > 0);
    ls_outlier_destroy(a);
    ls_outlier_destroy(NULL);
}

static void words_are_checked(void **state) {
    (void)state;
    ls_outlier *o;
    int64_t good[LS_OUTLIER_WORDS], words[LS_OUTLIER_WORDS];
    assert_int_equal(ls_outlier_create(5, LS_OUTLIER_THRESHOLD_DEFAULT, &o), LS_OK);
    for (int i = 0; i < 3; i++) remember_both(o, 0.25, 0.25);
    ls_outlier_save(o, good);
    static const double bad[] = {(double)NAN, (double)INFINITY, -1e4, 1e300};
    for (size_t i = 0; i < 4; i++)
        for (size_t at = 1; at <= 6; at++) {
            memcpy(words, good, sizeof words);
            memcpy(&words[at], &bad[i], sizeof bad[i]);
            assert_int_equal(ls_outlier_restore(o, words), LS_ERR_INPUT);
        }
    memcpy(words, good, sizeof words); /* losses of a run that has gone wrong may be as large */
    memcpy(&words[LS_TRACK_WORDS + 1], &(double){1e6}, sizeof(double));
    assert_int_equal(ls_outlier_restore(o, words), LS_OK);
    memcpy(&words[LS_TRACK_WORDS + 1], &(double){1e10}, sizeof(double));
    assert_int_equal(ls_outlier_restore(o, words), LS_ERR_INPUT);
    assert_int_equal(ls_outlier_restore(o, good), LS_OK);
    static const int64_t counts[] = {-1, LS_OUTLIER_HISTORY + 1, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < 4; i++) {
        memcpy(words, good, sizeof words);
        words[i % 2 ? LS_TRACK_WORDS : 0] = counts[i];
        words[1] = 0; /* and nothing of the other half is taken */
        assert_int_equal(ls_outlier_restore(o, words), LS_ERR_INPUT);
    }
    ls_outlier_save(o, words);
    assert_memory_equal(words, good, sizeof good);
    ls_outlier_destroy(o);
}

static void bad_settings_are_refused(void **state) {
    (void)state;
    ls_outlier *o;
    static const double bad[] = {0, -8, 0.99, 1001, (double)NAN, (double)INFINITY};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(ls_outlier_create(8, bad[i], &o), LS_ERR_INPUT);
        assert_null(o);
    }
    assert_int_equal(ls_outlier_create(0, 8, &o), LS_ERR_INPUT);
    assert_int_equal(ls_outlier_create((size_t)LS_OUTLIER_GROUPS_MAX + 1, 8, &o), LS_ERR_INPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_are_as_by_hand),
        cmocka_unit_test(the_least_ratio_holds),
        cmocka_unit_test(two_groups_are_told_apart_by_history),
        cmocka_unit_test(what_is_not_finite_is_found_at_once),
        cmocka_unit_test(a_group_without_gradient_is_no_peer),
        cmocka_unit_test(tokens_and_scale_are_taken_out),
        cmocka_unit_test(a_lasting_outlier_is_reported_each_time),
        cmocka_unit_test(an_outlier_in_the_warm_up_is_got_over),
        cmocka_unit_test(medians_of_peers_are_right),
        cmocka_unit_test(a_loss_needs_a_long_gradient),
        cmocka_unit_test(the_least_loss_holds),
        cmocka_unit_test(garbage_is_not_learned),
        cmocka_unit_test(saved_and_restored_goes_on_equally),
        cmocka_unit_test(words_are_checked),
        cmocka_unit_test(bad_settings_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
