/* Loss scaling: sequences worked out by hand, a second plain model of the rules, and properties of random runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "optim/loss_scale.h"

/* Runs a word of steps: '.' good, 'x' overflow. */
static ls_loss_scale_verdict run(ls_loss_scale *state, const ls_loss_scale_settings *s, const char *steps) {
    ls_loss_scale_verdict verdict = LS_LOSS_SCALE_GOOD;
    for (; *steps; steps++) verdict = ls_loss_scale_after(state, s, *steps == 'x');
    return verdict;
}

/* Of the options (docs/explain/numerics.md says why). */
static const ls_loss_scale_settings defaults = {
    .initial = 16, .floor = 0, .ceiling = LS_LOSS_SCALE_EXPONENT_MAX, .window = 1000, .hysteresis = 2};

static void check_state(const ls_loss_scale *state, int exponent, int patience, int64_t good_steps) {
    if (state->exponent == exponent && state->patience == patience && state->good_steps == good_steps) return;
    fail_msg("2^%d, patience %d, %d good; expected 2^%d, %d, %d", state->exponent, state->patience,
             (int)state->good_steps, exponent, patience, (int)good_steps);
}

static void grows_and_shrinks_as_by_hand(void **ctx) {
    (void)ctx;
    const ls_loss_scale_settings s = {.initial = 4, .floor = 2, .ceiling = 6, .window = 3, .hysteresis = 2};
    ls_loss_scale state = ls_loss_scale_start(&s);
    check_state(&state, 4, 2, 0);
    assert_int_equal(run(&state, &s, ".."), LS_LOSS_SCALE_GOOD);
    check_state(&state, 4, 2, 2);
    assert_int_equal(run(&state, &s, "."), LS_LOSS_SCALE_GOOD);
    check_state(&state, 5, 2, 0);
    assert_int_equal(run(&state, &s, "..x"), LS_LOSS_SCALE_SKIPPED); /* the first one is tolerated */
    check_state(&state, 5, 1, 0);
    assert_int_equal(run(&state, &s, ".x"), LS_LOSS_SCALE_SKIPPED); /* one good step restores nothing */
    check_state(&state, 4, 0, 0);
    assert_int_equal(run(&state, &s, "..x"), LS_LOSS_SCALE_SKIPPED); /* and the next one lowers at once */
    check_state(&state, 3, 0, 0);
    run(&state, &s, "...");
    check_state(&state, 4, 2, 0);
    run(&state, &s, "......");
    check_state(&state, 6, 2, 0);
    run(&state, &s, "x...");
    check_state(&state, 6, 2, 0); /* at the ceiling, too, a good window resets the hysteresis */
    assert_int_equal(run(&state, &s, "xxxxx"), LS_LOSS_SCALE_SKIPPED);
    check_state(&state, 2, 0, 0);
    assert_int_equal(run(&state, &s, "."), LS_LOSS_SCALE_GOOD);
    assert_int_equal(run(&state, &s, "x"), LS_LOSS_SCALE_FLOOR);
    check_state(&state, 2, 0, 0);
}

static void the_floor_is_borne_with_patience(void **ctx) {
    (void)ctx;
    const ls_loss_scale_settings s = {.initial = 0, .floor = 0, .ceiling = 24, .window = 5, .hysteresis = 3};
    ls_loss_scale state = ls_loss_scale_start(&s);
    assert_int_equal(run(&state, &s, "x"), LS_LOSS_SCALE_SKIPPED);
    assert_int_equal(run(&state, &s, "x"), LS_LOSS_SCALE_SKIPPED);
    assert_int_equal(run(&state, &s, "x"), LS_LOSS_SCALE_FLOOR);
    assert_int_equal(run(&state, &s, "x"), LS_LOSS_SCALE_FLOOR);
    check_state(&state, 0, 0, 0);
}

static void a_constant_scale_stays(void **ctx) {
    (void)ctx;
    const ls_loss_scale_settings s = {.constant = true, .initial = 10, .hysteresis = 2};
    assert_int_equal(ls_loss_scale_check(&s), LS_OK);
    ls_loss_scale state = ls_loss_scale_start(&s);
    for (int i = 0; i < 3000; i++) assert_int_equal(run(&state, &s, "."), LS_LOSS_SCALE_GOOD);
    for (int i = 0; i < 100; i++) assert_int_equal(run(&state, &s, ".x"), LS_LOSS_SCALE_SKIPPED);
    check_state(&state, 10, 1, 0);
    assert_int_equal(run(&state, &s, "x"), LS_LOSS_SCALE_FLOOR);
    check_state(&state, 10, 0, 0);
}

/* From the default start the floor is reached after 2 + 15 overflows; the next one ends the run. */
static void an_endless_overflow_ends_the_run(void **ctx) {
    (void)ctx;
    ls_loss_scale_settings s = defaults;
    assert_int_equal(ls_loss_scale_check(&s), LS_OK);
    ls_loss_scale state = ls_loss_scale_start(&s);
    assert_int_equal(state.exponent, 16);
    int steps = 1;
    while (run(&state, &s, "x") != LS_LOSS_SCALE_FLOOR) steps++;
    assert_int_equal(steps, 18);
}

/* ---- properties -------------------------------------------------------------------------------------------------- */

static int pick(ls_rng_key key, uint64_t index, int low, int high) {
    return low + (int)ls_rng_below(key, index, (uint64_t)(high - low + 1));
}

static ls_loss_scale_settings any_settings(ls_rng_key key) {
    ls_loss_scale_settings s = {.floor = pick(key, 0, -14, 24), .window = pick(key, 1, 1, 12)};
    s.ceiling = pick(key, 2, s.floor, 24);
    s.initial = pick(key, 3, s.floor, s.ceiling);
    s.hysteresis = pick(key, 4, 1, 5);
    s.constant = pick(key, 5, 0, 9) == 0;
    return s;
}

/* The rules again, as a scale that is multiplied and counters that are looked up in the past, not kept. */
typedef struct model {
    double scale;
    int since_change, overflows; /* good steps in a row; overflows since the hysteresis was reset */
} model;

static ls_loss_scale_verdict model_after(model *m, const ls_loss_scale_settings *s, bool overflow) {
    if (!overflow) {
        m->since_change++;
        if (s->constant) m->overflows = 0;
        if (!s->constant && m->since_change % s->window == 0) {
            m->overflows = 0;
            m->scale = fmin(m->scale * 2, exp2(s->ceiling));
        }
        return LS_LOSS_SCALE_GOOD;
    }
    m->since_change = 0;
    if (++m->overflows < s->hysteresis) return LS_LOSS_SCALE_SKIPPED;
    if (s->constant || m->scale <= exp2(s->floor)) return LS_LOSS_SCALE_FLOOR;
    m->scale /= 2;
    return LS_LOSS_SCALE_SKIPPED;
}

static void random_runs_keep_the_rules(void **ctx) {
    (void)ctx;
    int floors = 0, grown = 0, shrunk = 0;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        ls_rng_key key = ls_rng_key_make(seed, 1, 0), answers = ls_rng_key_make(seed, 2, 0);
        ls_loss_scale_settings s = any_settings(key);
        assert_int_equal(ls_loss_scale_check(&s), LS_OK);
        ls_loss_scale state = ls_loss_scale_start(&s), twin = state;
        model m = {.scale = exp2(s.initial)};
        float share = 0.6f * ls_rng_uniform_f32(key, 100);
        for (uint64_t i = 0; i < 200; i++) {
            bool overflow = ls_rng_uniform_f32(answers, i) < share;
            int before = state.exponent;
            ls_loss_scale_verdict verdict = ls_loss_scale_after(&state, &s, overflow);
            assert_int_equal(verdict, model_after(&m, &s, overflow));
            assert_true(exp2(state.exponent) == m.scale);
            assert_int_equal(verdict == LS_LOSS_SCALE_GOOD, !overflow);
            if (!s.constant) assert_in_range(state.exponent + 14, s.floor + 14, s.ceiling + 14);
            if (s.constant) assert_int_equal(state.exponent, s.initial);
            grown += state.exponent > before;
            shrunk += state.exponent < before;
            floors += verdict == LS_LOSS_SCALE_FLOOR;
            /* A twin that is saved and restored after every step. */
            int64_t words[LS_LOSS_SCALE_WORDS];
            ls_loss_scale_save(&twin, words);
            twin = (ls_loss_scale){.exponent = 99, .patience = 99, .good_steps = 99};
            assert_int_equal(ls_loss_scale_restore(&twin, &s, words), LS_OK);
            assert_int_equal(ls_loss_scale_after(&twin, &s, overflow), verdict);
            check_state(&twin, state.exponent, state.patience, state.good_steps);
        }
    }
    assert_true(floors > 1000 && grown > 1000 && shrunk > 1000);
}

/* ---- input ------------------------------------------------------------------------------------------------------- */

static void scales_are_read(void **ctx) {
    (void)ctx;
    static const struct {
        const char *text;
        int exponent;
    } good[] = {{"1", 0},         {"65536", 16}, {"65536.0", 16}, {"0.5", -1}, {"6.103515625e-05", -14},
                {"16777216", 24}, {"2^16", 16},  {"2^-14", -14},  {"2^0", 0},  {"2^24", 24}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int exponent = 99;
        assert_int_equal(ls_loss_scale_parse(good[i].text, &exponent), LS_OK);
        assert_int_equal(exponent, good[i].exponent);
    }
    static const char *const bad[] = {"",
                                      "0",
                                      "-1",
                                      "3",
                                      "65535",
                                      "33554432",
                                      "2^25",
                                      "2^-15",
                                      "2^",
                                      "2^1x",
                                      "1e99",
                                      "nan",
                                      "inf",
                                      "2^ 4",
                                      "auto",
                                      " 4",
                                      "0x10",
                                      "3.0517578125e-05",
                                      "2^99999999999999999999",
                                      "65536.00000001"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int exponent = 99;
        if (ls_loss_scale_parse(bad[i], &exponent) != LS_ERR_INPUT) fail_msg("'%s' was taken", bad[i]);
        assert_int_equal(exponent, 99);
    }
    int exponent = 99;
    assert_int_equal(ls_loss_scale_parse("3000", &exponent), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "3000 is not a power of two between 2^-14 and 2^24"));
    assert_int_equal(ls_loss_scale_exponent((double)NAN, &exponent), LS_ERR_INPUT);
    assert_int_equal(ls_loss_scale_exponent((double)INFINITY, &exponent), LS_ERR_INPUT);
    assert_int_equal(exponent, 99);
}

static void bad_settings_are_refused(void **ctx) {
    (void)ctx;
    ls_loss_scale_settings bad[10];
    for (size_t i = 0; i < 10; i++) bad[i] = defaults;
    bad[0].initial = 25;
    bad[1].initial = -15;
    bad[2].floor = 17;
    bad[3].ceiling = 15;
    bad[4].floor = -15;
    bad[5].ceiling = 25;
    bad[6].window = 0;
    bad[7].window = INT64_MAX;
    bad[8].hysteresis = 0;
    bad[9].hysteresis = LS_LOSS_SCALE_HYSTERESIS_MAX + 1;
    for (size_t i = 0; i < 10; i++) assert_int_equal(ls_loss_scale_check(&bad[i]), LS_ERR_INPUT);
    ls_loss_scale_check(&bad[2]);
    assert_string_equal(
        ls_status_message(),
        "the initial loss scale, 2^16, is below the minimum, 2^17; raise the former or lower the latter");
}

static void words_are_checked(void **ctx) {
    (void)ctx;
    const ls_loss_scale_settings s = {.initial = 4, .floor = 2, .ceiling = 6, .window = 3, .hysteresis = 2};
    const ls_loss_scale_settings constant = {.constant = true, .initial = 4, .hysteresis = 2};
    static const int64_t good[][3] = {{2, 0, 0}, {6, 2, 2}, {4, 1, 1}};
    static const int64_t bad[][3] = {
        {1, 0, 0},  {7, 0, 0},         {4, -1, 0},        {4, 3, 0},         {4, 0, 3},
        {4, 0, -1}, {INT64_MIN, 0, 0}, {4, INT64_MAX, 0}, {4, 0, INT64_MAX}, {INT64_C(4) + (INT64_C(1) << 32), 0, 0}};
    ls_loss_scale state = ls_loss_scale_start(&s);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(ls_loss_scale_restore(&state, &s, good[i]), LS_OK);
        check_state(&state, (int)good[i][0], (int)good[i][1], good[i][2]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(ls_loss_scale_restore(&state, &s, bad[i]), LS_ERR_INPUT);
        check_state(&state, 4, 1, 1);
    }
    assert_int_equal(ls_loss_scale_restore(&state, &constant, (const int64_t[]){5, 2, 0}), LS_ERR_INPUT);
    assert_int_equal(ls_loss_scale_restore(&state, &constant, (const int64_t[]){4, 2, 1}), LS_ERR_INPUT);
    assert_int_equal(ls_loss_scale_restore(&state, &constant, (const int64_t[]){4, 2, 0}), LS_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows_and_shrinks_as_by_hand), cmocka_unit_test(the_floor_is_borne_with_patience),
        cmocka_unit_test(a_constant_scale_stays),       cmocka_unit_test(an_endless_overflow_ends_the_run),
        cmocka_unit_test(random_runs_keep_the_rules),   cmocka_unit_test(scales_are_read),
        cmocka_unit_test(bad_settings_are_refused),     cmocka_unit_test(words_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
