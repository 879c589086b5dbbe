/* test_schedule.c: learning rates, optimizer scalars and the factor of a step.
 *
 * The references are the formulas of llm.c, PyTorch and Hugging Face, written down again in long double with the C
 * library's functions; bits are checked against values worked out by hand or in another language. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "numerics/exact_sum.h"
#include "optim/clip.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

static void check_near(double got, long double expected, double scale, const char *what) {
    if (fabsl((long double)got - expected) <= 4 * (long double)DBL_EPSILON * (long double)scale) return;
    fail_msg("%s: %.17g, expected %.20Lg", what, got, expected);
}

/* ---- learning rate ----------------------------------------------------------------------------------------------- */

/* As get_learning_rate() of llm.c has it, and transformers' get_cosine_schedule_with_warmup and its siblings. */
static long double reference_rate(const ls_lr_schedule *s, int64_t step) {
    long double peak = (long double)s->peak, low = peak * (long double)s->min_fraction,
                total = (long double)s->total_steps;
    long double begin = (long double)s->warmup_steps;
    if (step < s->warmup_steps) return peak * (long double)(step + 1) / begin;
    if (s->kind == LS_LR_CONSTANT) return peak;
    if (s->kind == LS_LR_STEP) { /* torch's MultiStepLR: γ to the number of steps that are over */
        int over = 0;
        for (int i = 0; i < s->steps.count; i++) over += step >= s->steps.at[i];
        return peak * powl((long double)s->gamma, (long double)over);
    }
    if (s->kind == LS_LR_WSD) {
        long double from = total - floorl((long double)(s->decay_fraction * (double)s->total_steps));
        begin = from > begin ? from : begin;
    }
    if (step >= s->total_steps) return low;
    long double part = ((long double)step - begin) / (total - begin);
    if (part < 0) return peak;
    long double share = s->kind == LS_LR_LINEAR   ? 1 - part
                        : s->kind == LS_LR_COSINE ? (1 + cosl(acosl(-1.0L) * part)) / 2
                                                  : 1 - sqrtl(part);
    return low + share * (peak - low);
}

static void rates_follow_the_formulas(void **state) {
    (void)state;
    static const int64_t warmups[] = {0, 1, 7, 100, 250}, totals[] = {1, 2, 10, 101, 1000};
    static const double lows[] = {0, 0.1, 0.5, 1}, decays[] = {0, 0.2, 1};
    for (int kind = 0; kind < LS_LR_KIND_COUNT; kind++)
        for (size_t i = 0; i < 5 * 5 * 4 * 3; i++) {
            ls_lr_schedule s = {.kind = (ls_lr_kind)kind,
                                .peak = 6e-4,
                                .min_fraction = lows[i % 4],
                                .decay_fraction = decays[i / 4 % 3],
                                .gamma = (lows[i % 4] + 0.1) / 1.1,
                                .steps = {1 + (int)(i % 3), {3, 8, 100}},
                                .warmup_steps = warmups[i / 12 % 5],
                                .total_steps = totals[i / 60]};
            assert_int_equal(ls_lr_schedule_check(&s), LS_OK);
            for (int64_t step = 0; step < s.total_steps + 3; step++)
                check_near(ls_lr_at(&s, step), reference_rate(&s, step), s.peak, ls_lr_kind_name(s.kind));
        }
}

/* Corners by hand. */
static void corners_are_exact(void **state) {
    (void)state;
    ls_lr_schedule s = {.kind = LS_LR_COSINE, .peak = 0.1, .min_fraction = 0.1, .warmup_steps = 4, .total_steps = 104};
    assert_true(ls_lr_at(&s, 0) == 0.1 * 0.25);
    assert_true(ls_lr_at(&s, 3) == 0.1);
    assert_true(ls_lr_at(&s, 4) == 0.1);
    assert_true(ls_lr_at(&s, 5) < 0.1);
    check_near(ls_lr_at(&s, 54), 0.055L, 0.1, "half-way");
    assert_true(ls_lr_at(&s, 104) == 0.1 * 0.1);
    assert_true(ls_lr_at(&s, 1000000) == 0.1 * 0.1);
    s = (ls_lr_schedule){.kind = LS_LR_WSD, .peak = 0.1, .decay_fraction = 0.25, .warmup_steps = 4, .total_steps = 100};
    assert_true(ls_lr_at(&s, 75) == 0.1);
    check_near(ls_lr_at(&s, 76), 0.1L * (1 - 0.2L), 0.1, "one of 25 steps: 1 - 1/5");
    check_near(ls_lr_at(&s, 84), 0.1L * (1 - 0.6L), 0.1, "nine of 25 steps: 1 - 3/5");
    s = (ls_lr_schedule){.kind = LS_LR_LINEAR, .peak = 1, .total_steps = 4};
    assert_true(ls_lr_at(&s, 0) == 1 && ls_lr_at(&s, 1) == 0.75 && ls_lr_at(&s, 3) == 0.25 && ls_lr_at(&s, 4) == 0);
    /* The step itself has the lower rate; the lowest share of the others plays no part, and nor does the end. */
    s = (ls_lr_schedule){.kind = LS_LR_STEP,
                         .peak = 1,
                         .min_fraction = 0.9,
                         .gamma = 0.5,
                         .steps = {3, {4, 6, 6}},
                         .warmup_steps = 2,
                         .total_steps = 5};
    static const double falls[] = {0.5, 1, 1, 1, 0.5, 0.5, 0.125, 0.125};
    for (int64_t step = 0; step < 8; step++) assert_true(ls_lr_at(&s, step) == falls[step]);
}

/* The same bits on every machine: docs/reference/arithmetic.md worked out in Python, with a cosine of fifty digits. */
static void bits_are_pinned(void **state) {
    (void)state;
    ls_lr_schedule s = {.peak = 6e-4,
                        .min_fraction = 0.1,
                        .decay_fraction = 0.2,
                        .gamma = 0.3,
                        .steps = {3, {500, 750, 900}},
                        .warmup_steps = 70,
                        .total_steps = 1000};
    static const struct {
        ls_lr_kind kind;
        int64_t step;
        double rate;
    } pinned[] = {
        {LS_LR_LINEAR, 30, 0x1.169f22acf1dfep-12},  {LS_LR_LINEAR, 333, 0x1.d50494eab49f6p-12},
        {LS_LR_LINEAR, 999, 0x1.fc2ff1e2f2030p-15}, {LS_LR_COSINE, 71, 0x1.3a926e16c5987p-11},
        {LS_LR_COSINE, 333, 0x1.0649315d24efbp-11}, {LS_LR_COSINE, 700, 0x1.888b5871dc094p-13},
        {LS_LR_COSINE, 999, 0x1.f75453be2ab10p-15}, {LS_LR_WSD, 801, 0x1.268db2ce080d0p-11},
        {LS_LR_WSD, 900, 0x1.c985037190ad8p-13},    {LS_LR_WSD, 999, 0x1.0153e09c5ac78p-14},
        {LS_LR_STEP, 500, 0x1.797cc39ffd60ep-13},   {LS_LR_STEP, 751, 0x1.c4fc1df3300ddp-15},
        {LS_LR_STEP, 2000, 0x1.0fca785eb66ebp-16},
    };
    for (size_t i = 0; i < sizeof pinned / sizeof *pinned; i++) {
        s.kind = pinned[i].kind;
        if (ls_lr_at(&s, pinned[i].step) != pinned[i].rate)
            fail_msg("%s, step %d: %a", ls_lr_kind_name(s.kind), (int)pinned[i].step, ls_lr_at(&s, pinned[i].step));
    }
}

static void names_are_read(void **state) {
    (void)state;
    int kind = -1;
    for (int k = 0; k < LS_LR_KIND_COUNT; k++) {
        assert_true(ls_choice_find(LS_CHOICES(LS_LR_KINDS), ls_lr_kind_name((ls_lr_kind)k), &kind));
        assert_int_equal(kind, k);
    }
    kind = LS_LR_WSD;
    assert_false(ls_choice_find(LS_CHOICES(LS_LR_KINDS), "cosinus", &kind));
    assert_int_equal(kind, LS_LR_WSD);
}

static void bad_schedules_are_refused(void **state) {
    (void)state;
    const ls_lr_schedule good = {.kind = LS_LR_WSD, .peak = 1, .decay_fraction = 0.2, .total_steps = 10};
    assert_int_equal(ls_lr_schedule_check(&good), LS_OK);
    const ls_lr_schedule falling = {.kind = LS_LR_STEP, .peak = 1, .gamma = 1, .steps = {2, {0, 0}}, .total_steps = 10};
    assert_int_equal(ls_lr_schedule_check(&falling), LS_OK);
    ls_lr_schedule bad[17];
    for (size_t i = 0; i < 17; i++) bad[i] = i < 10 ? good : falling;
    bad[0].peak = -1;
    bad[1].peak = (double)NAN;
    bad[2].peak = (double)INFINITY;
    bad[3].min_fraction = 1.5;
    bad[4].min_fraction = (double)NAN;
    bad[5].decay_fraction = -0.1;
    bad[6].warmup_steps = -1;
    bad[7].total_steps = -1;
    bad[8].total_steps = INT64_MAX;
    bad[9].kind = LS_LR_KIND_COUNT;
    bad[10].gamma = 0;
    bad[11].gamma = 1.5;
    bad[12].gamma = (double)NAN;
    bad[13].steps.count = 0;
    bad[14].steps.count = LS_LR_STEPS_MAX + 1;
    bad[15].steps.at[0] = 1;
    bad[16].steps.at[0] = -1;
    for (size_t i = 0; i < 17; i++) assert_int_equal(ls_lr_schedule_check(&bad[i]), LS_ERR_INPUT);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static void steps_are_read(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t total;
        const char *steps;
    } cases[] = {{"0.5,0.75", 1000, "500,750"},
                 {"0.29", 100, "29"},
                 {"0.5,0.75", 10, "5,8"},
                 {"0.5,0.75", 1, "1,1"},
                 {"0.5,0.75", 0, "0,0"},
                 {"3000,4500", 100, "3000,4500"},
                 {"1", 9, "1"},
                 {"5e-1", 8, "4"},
                 {"0.99999999999999994", 9, "9"},
                 {"1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", 9, "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_lr_steps steps;
        char text[LS_LR_STEPS_TEXT_MAX];
        if (ls_lr_steps_parse(cases[i].text, cases[i].total, &steps) != LS_OK)
            fail_msg("%s: %s", cases[i].text, ls_status_message());
        ls_lr_steps_text(&steps, text);
        assert_string_equal(text, cases[i].steps);
    }
}

static void bad_steps_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "'' is neither a step number, e.g. 3000, nor a fraction of all steps, e.g. 0.5"},
        {"0.5,", "'' is neither"},
        {",0.5", "'' is neither"},
        {"0", "'0' is neither"},
        {"-3", "'-3' is neither"},
        {"1.0", "'1.0' is neither"},
        {"1.5", "'1.5' is neither"},
        {"0.5, 0.75", "' 0.75' is neither"},
        {"nan", "'nan' is neither"},
        {"99999999999999999999", "'99999999999999999999' is neither"},
        {"0.50000000000000000000000000000000000000", "'0.500000000000000000000000000000' is neither"},
        {"0.5,70", "use one or the other"},
        {"70,0.5", "use one or the other"},
        {"0.5,0.5", "must be in ascending order"},
        {"20,10", "must be in ascending order"},
        {"1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "has more than 16 entries"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_lr_steps steps = {.count = 3};
        assert_int_equal(ls_lr_steps_parse(cases[i].text, 100, &steps), LS_ERR_INPUT);
        if (!strstr(ls_status_message(), cases[i].message)) fail_msg("%s: %s", cases[i].text, ls_status_message());
        assert_int_equal(steps.count, 3);
    }
}

/* ---- scaling with the batch -------------------------------------------------------------------------------------- */

static void rates_follow_the_batch(void **state) {
    (void)state;
    static const double batches[] = {1, 3, 7, 32, 256, 1000, 1024, 16777216};
    for (size_t i = 0; i < 8 * 8; i++) {
        double batch = batches[i / 8], base = batches[i % 8];
        long double k = (long double)batch / (long double)base;
        assert_true(ls_lr_scaling_factor(LS_LR_SCALING_NONE, batch, base) == 1);
        check_near(ls_lr_scaling_factor(LS_LR_SCALING_LINEAR, batch, base), k, (double)k / 4, "linear");
        check_near(ls_lr_scaling_factor(LS_LR_SCALING_SQRT, batch, base), sqrtl(k), (double)sqrtl(k) / 4, "sqrt");
    }
    assert_true(ls_lr_scaling_factor(LS_LR_SCALING_LINEAR, 1024, 256) == 4);
    assert_true(ls_lr_scaling_factor(LS_LR_SCALING_SQRT, 1024, 256) == 2);
    assert_true(ls_lr_scaling_factor(LS_LR_SCALING_SQRT, 64, 256) == 0.5);
    /* Bits, from Python. */
    assert_true(ls_lr_scaling_factor(LS_LR_SCALING_LINEAR, 7, 3) == 0x1.2aaaaaaaaaaabp+1);
    assert_true(ls_lr_scaling_factor(LS_LR_SCALING_SQRT, 7, 3) == 0x1.870be4c1c28b2p+0);
}

static void totals_matter_where_they_do(void **state) {
    (void)state;
    assert_false(ls_lr_depends_on_total(LS_LR_CONSTANT));
    assert_true(ls_lr_depends_on_total(LS_LR_LINEAR));
    assert_true(ls_lr_depends_on_total(LS_LR_COSINE));
    assert_true(ls_lr_depends_on_total(LS_LR_WSD));
    assert_false(ls_lr_depends_on_total(LS_LR_STEP)); /* its steps are numbers by then */
}

/* ---- optimizer steps --------------------------------------------------------------------------------------------- */

/* torch.optim.AdamW: step_size = lr / (1 - beta1**t), denominator = sqrt(v) / sqrt(1 - beta2**t) + eps. */
static void adamw_follows_pytorch(void **state) {
    (void)state;
    const ls_adamw_options o = {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8};
    ls_adamw_powers powers = {0};
    for (int64_t t = 1; t <= 3000; t++) {
        ls_adamw_powers_move(&powers, &o, t);
        ls_update_step s = ls_adamw_scalars(&powers, &o, 6e-4, 0.1, 0.25f);
        long double a = 6e-4L / (1 - powl(0.9L, (long double)t)), r = 1 / sqrtl(1 - powl(0.95L, (long double)t));
        assert_true(fabsl((long double)s.rate - a) <= a * (long double)FLT_EPSILON * 0.5000001L);
        assert_true(fabsl((long double)s.root - r) <= r * (long double)FLT_EPSILON * 0.5000001L);
        assert_true(s.factor == 0.25f && s.beta1 == 0.9f && s.beta2 == 0.95f && s.epsilon == 1e-8f);
        assert_true(s.beta1_rest == 0.1f && s.beta2_rest == 0.05f);
        assert_true(s.decay == 0.99994f);
    }
    /* Not 1 − 0.9f, which is 0.100000024. */
    ls_update_step first =
        ls_adamw_scalars(&(ls_adamw_powers){1, 0.9, 0.999}, &(ls_adamw_options){0.9, 0.999, 1e-8}, 1e-3, 0, 1);
    assert_true(first.beta1_rest == 0x1.99999ap-4f && first.decay == 1.0f);
    assert_true(first.rate == 0x1.47ae14p-7f); /* 0.001 / (1 − 0.9) = 0.01 */
    assert_true(first.root == 0x1.f9f6e4p+4f); /* 1 / √0.001 = 31.6227766… */
}

static void powers_depend_on_the_count_alone(void **state) {
    (void)state;
    const ls_adamw_options o = {.beta1 = 0.9, .beta2 = 0.999};
    ls_adamw_powers steps = {0}, jump = {0}, back = {0};
    double b1 = 1, b2 = 1;
    for (int64_t t = 1; t <= 20000; t++) {
        ls_adamw_powers_move(&steps, &o, t);
        b1 *= 0.9;
        b2 *= 0.999;
        assert_true(steps.beta1 == b1 && steps.beta2 == b2 && steps.updates == t);
    }
    ls_adamw_powers_move(&jump, &o, 20000);
    ls_adamw_powers_move(&back, &o, 30000);
    ls_adamw_powers_move(&back, &o, 20000);
    assert_memory_equal(&jump, &steps, sizeof steps);
    assert_memory_equal(&back, &steps, sizeof steps);
    ls_adamw_powers_move(&back, &o, 0);
    assert_true(back.updates == 0 && back.beta1 == 1 && back.beta2 == 1);
}

static void options_of_optimizers_are_checked(void **state) {
    (void)state;
    assert_int_equal(ls_adamw_options_check(&(ls_adamw_options){0, 0.999, LS_ADAMW_EPSILON_MIN}), LS_OK);
    assert_int_equal(ls_adamw_options_check(&(ls_adamw_options){0.9, 0.999, 0}), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "epsilon"));
    assert_int_equal(ls_adamw_options_check(&(ls_adamw_options){1, 0.999, 1e-8}), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "beta1"));
    assert_int_equal(ls_adamw_options_check(&(ls_adamw_options){0.9, -0.1, 1e-8}), LS_ERR_INPUT);
    assert_int_equal(ls_adamw_options_check(&(ls_adamw_options){0.9, (double)NAN, 1e-8}), LS_ERR_INPUT);
    assert_int_equal(ls_adamw_options_check(&(ls_adamw_options){0.9, 0.999, (double)INFINITY}), LS_ERR_INPUT);
    assert_int_equal(ls_sgd_options_check(&(ls_sgd_options){0.9, true}), LS_OK);
    assert_int_equal(ls_sgd_options_check(&(ls_sgd_options){0, false}), LS_OK);
    assert_int_equal(ls_sgd_options_check(&(ls_sgd_options){0, true}), LS_ERR_INPUT);
    assert_int_equal(ls_sgd_options_check(&(ls_sgd_options){1, false}), LS_ERR_INPUT);
    ls_update_step s = ls_sgd_scalars(&(ls_sgd_options){0.9, true}, 0.1, 1e-4, 0.5f);
    assert_true(s.factor == 0.5f && s.rate == 0.1f && s.momentum == 0.9f && s.weight_decay == 1e-4f && s.nesterov);
}

/* ---- factor ------------------------------------------------------------------------------------------------------ */

static void scale_undoes_the_start_of_backward(void **state) {
    (void)state;
    static const int64_t tokens[] = {1, 2, 3, 4, 5, 255, 256, 257, 65536, 524288, 500000, INT64_C(1) << 48};
    static const int log2s[] = {0, 1, 2, 2, 3, 8, 8, 9, 16, 19, 19, 48};
    static const int exponents[] = {0, 16, -3, 64, -64};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        for (size_t e = 0; e < 5; e++) {
            float start = ls_clip_backward_start(tokens[i], exponents[e]);
            double scale = ls_clip_token_scale(tokens[i], exponents[e]);
            assert_true((double)start == exp2(exponents[e] - log2s[i]));
            check_near(scale * (double)start * (double)tokens[i], 1, 1, "start times scale times tokens");
            assert_true(scale * (double)start == 1.0 / (double)tokens[i]);
        }
    /* Without a loss scale the factor lies in [1, 2), so it costs no range. */
    assert_true(ls_clip_token_scale(3, 0) == 4.0 / 3.0 && ls_clip_token_scale(256, 0) == 1);
}

/* torch.nn.utils.clip_grad_norm_: coefficient min(1, max_norm / norm). */
static void clipping_bounds_the_norm(void **state) {
    (void)state;
    double scale = ls_clip_token_scale(100, 10);
    for (double raw = 1e-3; raw < 1e9; raw *= 1.7) {
        long double true_norm = (long double)raw * 128 / 1024 / 100;
        ls_clip c = ls_clip_factor(raw * raw, 0, scale, 1.0);
        assert_true(c.finite && c.clipped == (true_norm > 1));
        check_near(c.norm, true_norm, (double)true_norm, "norm");
        long double factor = (long double)scale * (true_norm > 1 ? 1 / true_norm : 1);
        assert_true(fabsl((long double)c.factor - factor) <= factor * (long double)FLT_EPSILON * 0.5000001L);
        if (c.clipped) assert_true(fabsl((long double)c.factor * (long double)raw - 1) < 1e-7L);
        ls_clip free_step = ls_clip_factor(raw * raw, 0, scale, 0);
        assert_true(!free_step.clipped && free_step.factor == (float)scale && free_step.norm == c.norm);
    }
    /* At the threshold nothing is clipped, and 3-4-5. */
    ls_clip c = ls_clip_factor(25, 0, 1, 5);
    assert_true(!c.clipped && c.factor == 1 && c.norm == 5);
    c = ls_clip_factor(25, 0, 1, 2.5);
    assert_true(c.clipped && c.factor == 0.5f && c.norm == 5);
    c = ls_clip_factor(0, 0, 1, 1);
    assert_true(c.finite && !c.clipped && c.factor == 1 && c.norm == 0);
}

static void a_norm_that_is_no_number_is_reported(void **state) {
    (void)state;
    static ls_exact_sum sum;
    ls_exact_sum_add(&sum, 4);
    ls_clip c = ls_clip_factor(ls_exact_sum_value(&sum), ls_exact_sum_non_finite(&sum), 1, 1);
    assert_true(c.finite && c.norm == 2);
    ls_exact_sum_add(&sum, (double)INFINITY);
    c = ls_clip_factor(ls_exact_sum_value(&sum), ls_exact_sum_non_finite(&sum), 1, 1);
    assert_true(!c.finite && !c.clipped && isnan(c.norm) && isnan(c.factor));
    assert_false(ls_clip_factor((double)INFINITY, 0, 1, 0).finite);
    assert_false(ls_clip_factor((double)NAN, 0, 1, 0).finite);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_follow_the_formulas),
        cmocka_unit_test(corners_are_exact),
        cmocka_unit_test(bits_are_pinned),
        cmocka_unit_test(names_are_read),
        cmocka_unit_test(bad_schedules_are_refused),
        cmocka_unit_test(steps_are_read),
        cmocka_unit_test(bad_steps_are_refused),
        cmocka_unit_test(rates_follow_the_batch),
        cmocka_unit_test(totals_matter_where_they_do),
        cmocka_unit_test(adamw_follows_pytorch),
        cmocka_unit_test(powers_depend_on_the_count_alone),
        cmocka_unit_test(options_of_optimizers_are_checked),
        cmocka_unit_test(scale_undoes_the_start_of_backward),
        cmocka_unit_test(clipping_bounds_the_norm),
        cmocka_unit_test(a_norm_that_is_no_number_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
