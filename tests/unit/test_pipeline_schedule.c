/* test_pipeline_schedule.c: the lists of pipeline schedules, for all sizes, against the judge and orders written out by
 * hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "schedule_judge.h"

/* ---- all sizes --------------------------------------------------------------------------------------------------- */

static int smaller(int a, int b) { return a < b ? a : b; }

static void check_peaks(const ls_schedule *s) {
    for (int stage = 0; stage < s->stages; stage++)
        for (int chunk = 0; chunk < s->chunks; chunk++) {
            int slots = ls_schedule_slots(s, stage, chunk), kept = ls_schedule_kept(s, stage, chunk), used = 0;
            for (int i = 0; i < s->count[stage]; i++)
                if (s->actions[stage][i].chunk == chunk && s->actions[stage][i].slot >= used)
                    used = s->actions[stage][i].slot + 1;
            assert_int_equal(slots, used);
            assert_true(s->kind == LS_SCHEDULE_ZERO_BUBBLE ? kept >= 1 && kept <= slots : kept == 0);
            if (s->kind == LS_SCHEDULE_NAIVE) assert_int_equal(slots, 1);
            if (s->kind == LS_SCHEDULE_GPIPE) assert_int_equal(slots, s->micros);
            if (s->kind == LS_SCHEDULE_1F1B || (s->kind == LS_SCHEDULE_INTERLEAVED && s->chunks == 1))
                assert_int_equal(slots, smaller(s->micros, s->stages - stage));
            if (s->kind == LS_SCHEDULE_ZERO_BUBBLE) assert_int_equal(slots, smaller(s->micros, s->stages));
        }
}

/* Units between forward and backward on a stage with several chunks. */
static void check_ahead(const ls_schedule *s) {
    for (int stage = 0; s->chunks > 1 && stage < s->stages; stage++) {
        int limit = 2 * (s->stages - stage - 1) + (s->chunks - 1) * s->stages + 1;
        if (s->kind == LS_SCHEDULE_NAIVE) limit = s->chunks;
        for (int i = 0, ahead = 0; i < s->count[stage]; i++) {
            ahead += s->actions[stage][i].kind == F ? 1 : -1;
            assert_in_range(ahead, 0, limit);
        }
    }
}

static int most_chunks(int kind) { return kind == LS_SCHEDULE_INTERLEAVED || kind == LS_SCHEDULE_NAIVE ? CHUNKS : 1; }

static void test_grid(void **state) {
    (void)state;
    for (int kind = 0; kind < LS_SCHEDULE_KINDS; kind++)
        for (int stages = 1; stages <= STAGES; stages++)
            for (int chunks = 1; chunks <= most_chunks(kind); chunks++)
                for (int micros = 1; micros <= MICROS; micros++) {
                    ls_schedule s = made((ls_schedule_kind)kind, stages, chunks, micros);
                    if (ls_schedule_check(&s) != LS_OK) fail_msg("%s", ls_status_message());
                    assert_true(judge(&s));
                    check_peaks(&s);
                    check_ahead(&s);
                    ls_schedule_free(&s);
                    assert_null(s.actions);
                }
}

/* The naive one has a single micro-batch in the pipeline: each stage alternates. */
static void test_naive_alternates(void **state) {
    (void)state;
    ls_schedule s = made(LS_SCHEDULE_NAIVE, 5, 1, 7);
    for (int stage = 0; stage < 5; stage++)
        for (int i = 0; i < 14; i++) {
            assert_int_equal(s.actions[stage][i].kind, i % 2 ? B : F);
            assert_int_equal(s.actions[stage][i].micro, i / 2);
        }
    ls_schedule_free(&s);
}

static void test_large(void **state) {
    (void)state;
    for (int kind = 0; kind < LS_SCHEDULE_KINDS; kind++) {
        ls_schedule s = made((ls_schedule_kind)kind, 64, kind == LS_SCHEDULE_INTERLEAVED ? 2 : 1, 1000);
        assert_int_equal(ls_schedule_check(&s), LS_OK);
        ls_schedule_free(&s);
    }
}

/* ---- known orders ------------------------------------------------------------------------------------------------ */

static void check_list(const ls_schedule *s, int stage, const char *expected) {
    char text[512] = "";
    size_t used = 0;
    for (int i = 0; i < s->count[stage]; i++) {
        const ls_action *a = &s->actions[stage][i];
        const char *space = i ? " " : "";
        int n = s->chunks == 1 ? snprintf(text + used, sizeof text - used, "%s%c%d", space, "FBIW"[a->kind], a -> micro)
                               : snprintf(text + used, sizeof text - used, "%s%c%d.%d", space, "FBIW"[a->kind],
                                          a -> chunk, a -> micro);
        used += (size_t)n;
        assert_true(used < sizeof text);
    }
    assert_string_equal(text, expected);
}

static void test_known_orders(void **state) {
    (void)state;
    ls_schedule s = made(LS_SCHEDULE_GPIPE, 2, 1, 3);
    check_list(&s, 0, "F0 F1 F2 B0 B1 B2");
    check_list(&s, 1, "F0 F1 F2 B0 B1 B2");
    ls_schedule_free(&s);

    s = made(LS_SCHEDULE_1F1B, 3, 1, 5);
    check_list(&s, 0, "F0 F1 F2 B0 F3 B1 F4 B2 B3 B4");
    check_list(&s, 1, "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4");
    check_list(&s, 2, "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4");
    ls_schedule_free(&s);

    /* Warm-up of 2·(stages − s − 1) + (chunks − 1)·stages units, then forward and backward in turn. */
    s = made(LS_SCHEDULE_INTERLEAVED, 2, 2, 4);
    check_list(&s, 0, "F0.0 F0.1 F1.0 F1.1 F0.2 B1.0 F0.3 B1.1 F1.2 B0.0 F1.3 B0.1 B1.2 B1.3 B0.2 B0.3");
    check_list(&s, 1, "F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 F0.2 B0.0 F0.3 B0.1 F1.2 B1.2 F1.3 B1.3 B0.2 B0.3");
    ls_schedule_free(&s);

    /* The last group is one micro-batch: its second forward comes back to stage 0 at tick 10, while B1.1 is under way.
     */
    s = made(LS_SCHEDULE_INTERLEAVED, 2, 2, 3);
    check_list(&s, 0, "F0.0 F0.1 F1.0 F1.1 F0.2 B1.0 B1.1 F1.2 B0.0 B0.1 B1.2 B0.2");
    ls_schedule_free(&s);

    s = made(LS_SCHEDULE_ZERO_BUBBLE, 2, 1, 4);
    check_list(&s, 0, "F0 F1 I0 W0 F2 I1 W1 F3 I2 W2 I3 W3");
    check_list(&s, 1, "F0 I0 F1 I1 W0 F2 I2 W1 F3 I3 W2 W3");
    ls_schedule_free(&s);
}

/* 1f1b on the first of 3 stages: slots go round. */
static void test_known_slots(void **state) {
    (void)state;
    static const int slots[] = {0, 1, 2, 0, 0, 1, 1, 2, 0, 1};
    ls_schedule s = made(LS_SCHEDULE_1F1B, 3, 1, 5);
    for (int i = 0; i < 10; i++) assert_int_equal(s.actions[0][i].slot, slots[i]);
    ls_schedule_free(&s);
}

/* ---- bad input --------------------------------------------------------------------------------------------------- */

static void test_bad_input(void **state) {
    (void)state;
    static const int bad[][4] = {
        {LS_SCHEDULE_1F1B, 0, 1, 4},
        {LS_SCHEDULE_1F1B, -1, 1, 4},
        {LS_SCHEDULE_1F1B, 2, 0, 4},
        {LS_SCHEDULE_1F1B, 2, 1, 0},
        {LS_SCHEDULE_1F1B, 2, 1, -7},
        {LS_SCHEDULE_1F1B, 2, 2, 4},
        {LS_SCHEDULE_GPIPE, 2, 3, 4},
        {LS_SCHEDULE_ZERO_BUBBLE, 2, 2, 4},
        {LS_SCHEDULE_INTERLEAVED, 2, -2, 4},
        {LS_SCHEDULE_KINDS, 2, 1, 4},
        {-1, 2, 1, 4},
        {LS_SCHEDULE_1F1B, 1 << 30, 1, 4},
        {LS_SCHEDULE_1F1B, 1, 1, INT32_MAX},
        {LS_SCHEDULE_1F1B, 2, 1, (1 << 21) + 1},
        {LS_SCHEDULE_INTERLEAVED, 1 << 16, 1 << 16, 1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ls_schedule s = {.stages = 77};
        assert_int_equal(ls_schedule_make((ls_schedule_kind)bad[i][0], bad[i][1], bad[i][2], bad[i][3], &s),
                         LS_ERR_INPUT);
        assert_int_equal(s.stages, 0);
        assert_null(s.actions);
        assert_int_equal(ls_schedule_check(&s), LS_ERR_FAILED);
        ls_schedule_free(&s);
    }
    ls_schedule_free(NULL);
}

static void test_names(void **state) {
    (void)state;
    static const char *const names[] = {"naive", "gpipe", "1f1b", "interleaved", "zero-bubble"};
    for (int kind = 0; kind < LS_SCHEDULE_KINDS; kind++) {
        int got = LS_SCHEDULE_KINDS;
        assert_string_equal(ls_schedule_kind_name((ls_schedule_kind)kind), names[kind]);
        assert_true(ls_choice_find(LS_CHOICES(LS_SCHEDULE_LIST), names[kind], &got));
        assert_int_equal(got, kind);
    }
    int kept = LS_SCHEDULE_GPIPE;
    assert_false(ls_choice_find(LS_CHOICES(LS_SCHEDULE_LIST), "1F1B", &kept));
    assert_false(ls_choice_find(LS_CHOICES(LS_SCHEDULE_LIST), "", &kept));
    assert_int_equal(kept, LS_SCHEDULE_GPIPE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grid),         cmocka_unit_test(test_naive_alternates), cmocka_unit_test(test_large),
        cmocka_unit_test(test_known_orders), cmocka_unit_test(test_known_slots),      cmocka_unit_test(test_bad_input),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
