/* What doctor says of learning rates that are too high, where the loss does not rise. */
#include "diagnose_case.h"

enum { RATE_STEPS = 240 };

typedef struct rate_form {
    double lr;
    int still;    /* steps from step 30 on in which the loss stands still; it falls again then */
    double ratio; /* length of updates from step `from` on, every `every` steps, 0.6 of that between; 0: not recorded */
    int from, every;
    bool jumps; /* of the loss, for five steps each */
} rate_form;

/* The rate falls to half of its peak at step 150. */
static void rate_run(rate_form r) {
    for (int s = 1; s <= RATE_STEPS; s++) {
        int done = s < 30 ? s : s < 30 + r.still ? 30 : s - r.still;
        double jump = r.jumps && (s % 40 > 34) && s > 60 && s < 160 ? 0.8 : 0;
        double ratio = r.ratio * (s % r.every == 0 ? 1 : 0.6) * (s < r.from || s > 150 ? 0.1 : 1);
        line("{\"step\":%d,\"loss\":%.6f,\"norm\":0.5,\"lr\":%g,\"ms\":100}", s,
             calm(done) + 0.01 * sin(7.7 * s) + jump, r.lr * (s <= 150 ? 1 - 0.5 * s / 150 : 0.2));
        if (r.ratio > 0 && s % 10 == 0)
            line("{\"step\":%d,\"numerics\":\"blocks.0\",\"grad_norm\":0.3,\"weight_norm\":20,\"update_norm\":%g,"
                 "\"grad_flushed\":0,\"grad_high\":0,\"lost\":0}",
                 s, 20 * ratio);
    }
    diagnose();
}

/* A loss that stands still is the rate's doing where updates are long; or, where that is not known, for a rate of AdamW
 * that is out of question. */
static void test_plateau(void **state) {
    (void)state;
    static const struct {
        double lr;
        int still;
        double ratio;
        const char *optimizer;
        bool named;
    } forms[] = {
        {0.03, 70, 0.036, "adamw", true},   {0.03, 70, 0.028, "adamw", false}, {0.03, 20, 0.036, "adamw", false},
        {0.001, 70, 0.004, "adamw", false}, {0.03, 70, 0, "adamw", true},      {0.03, 20, 0, "adamw", false},
        {0.003, 70, 0, "adamw", false},     {0.03, 70, 0, "sgd", false},       {0.5, 70, 0, "adamw", true},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char text[64];
        begin(NULL);
        snprintf(text, sizeof text, "{\"optimizer\":\"%s\",\"lr\":%g}", forms[i].optimizer, forms[i].lr);
        options(text);
        rate_run((rate_form){.lr = forms[i].lr, .still = forms[i].still, .ratio = forms[i].ratio, .every = 40});
        if (!forms[i].named && d.verdict != LS_VERDICT_CLEAN) fail_msg("form %zu: %s", i, d.finding[0].title);
        if (forms[i].named) {
            const ls_finding *f = first_is(LS_CAUSE_LR);
            assert_non_null(strstr(f->title, "is stuck at"));
            assert_in_range(f->step, 20, 50);
            assert_in_range(f->last_step, 90, 110);
            /* A fraction of it where that is bearable; not one that is too high again. */
            if (forms[i].lr == .5) assert_non_null(strstr(f->action, "--lr 0.001 instead of 0.5"));
        }
        end(NULL);
    }
}

/* Rather long updates at a third of the measurements near the peak, whatever the loss does. */
static void test_often_long(void **state) {
    (void)state;
    rate_run((rate_form){.lr = 0.03, .ratio = 0.049, .every = 20}); /* 0.049 and 0.029 by turns */
    assert_non_null(strstr(first_is(LS_CAUSE_LR)->title, "each update is 5 %"));
    end(NULL);
    begin(NULL);
    rate_run((rate_form){.lr = 0.03, .ratio = 0.029, .every = 20});
    assert_int_equal(d.verdict, LS_VERDICT_CLEAN);
}

/* Where updates are long, jumps of the loss are theirs, even those before; without, they are of the data. */
static void test_jumps_of_long_updates(void **state) {
    (void)state;
    rate_run((rate_form){.lr = 0.03, .ratio = 0.05, .from = 110, .every = 10, .jumps = true});
    assert_true(first_is(LS_CAUSE_LR) && d.cause_count == 2 && d.finding[1].cause == LS_CAUSE_BAD_DATA);
    end(NULL);
    begin(NULL);
    rate_run((rate_form){.lr = 0.001, .ratio = 0.004, .every = 10, .jumps = true});
    first_is(LS_CAUSE_BAD_DATA);
}

/* Jumps that are too small for the level of the steps before, but not beside their neighbours: bad data, unless as many
 * go down, or they are few. */
static void test_lone_steps(void **state) {
    (void)state;
    for (int form = 0; form < 3; form++) {
        begin(NULL);
        for (int s = 1; s <= 240; s++) {
            bool jumps = s > 40 && s % (form == 2 ? 60 : 10) == 0, down = form == 1 && s % 20 == 0;
            double loss = jumps ? 2 + 3 * exp(-s / 30.0) + (down ? -.078 : .078) : calm(s);
            line("{\"step\":%d,\"loss\":%.6f,\"norm\":0.7,\"lr\":0.001,\"ms\":100}", s, loss);
        }
        diagnose();
        if (form == 0)
            assert_non_null(strstr(first_is(LS_CAUSE_BAD_DATA)->title, "single steps stands out"));
        else if (d.verdict != LS_VERDICT_CLEAN)
            fail_msg("form %d: %s", form, d.finding[0].title);
        end(NULL);
    }
    begin(NULL);
}

/* A run that goes on from another one's checkpoint knows something: its first step may have been an easy one. */
static void test_fork_begins_low(void **state) {
    (void)state;
    for (int form = 0; form < 2; form++) {
        begin(NULL);
        for (int s = 501; s <= 700; s++)
            line("{\"step\":%d,\"loss\":%.6f,\"norm\":0.7,\"lr\":0.001,\"ms\":100}", s,
                 2.4 + .06 * (sin(12.9898 * s) + sin(4.1 * s * s)) + (s == 501 ? -.105 : 0) +
                     (form && s > 501 ? .4 : 0));
        diagnose();
        if (form)
            first_is(LS_CAUSE_LR);
        else if (d.verdict != LS_VERDICT_CLEAN)
            fail_msg("form %d: %s", form, d.finding[0].title);
        end(NULL);
    }
    begin(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_plateau),
        TEST(test_lone_steps),
        TEST(test_fork_begins_low),
        TEST(test_often_long),
        TEST(test_jumps_of_long_updates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
