/* test_watch.c: outliers that are watched by default: where, that it takes no byte, and that nothing but words comes of
 * it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "run/dry_run.h"
#include "step_layouts.h"

/* The smallest model and groups for which it is worth it: two groups of 512 tokens. */
static ls_settings worthy(ls_outlier_action action) {
    ls_shape shape = tiny_gpt2();
    shape.C = 64;
    shape.H = shape.kv_heads = 2;
    shape.head_size = 32;
    shape.hidden = 256;
    shape.T = 512;
    ls_settings s = tiny_settings(&shape, adamw);
    s.groups = 2;
    s.B = 2;
    s.T = 512;
    s.options.on_outlier = action;
    s.options.outlier_threshold = 8;
    s.options.dropout = 0;
    return s;
}

static ls_layout layout_of(const ls_settings *s, layout_case c) {
    ls_model *model = NULL;
    ls_layout layout;
    if (c.micro > s->B) c.micro = s->B;
    ls_layout_request request = request_of(&c);
    assert_int_equal(ls_model_create(&s->shape, s->slices, &model), LS_OK);
    ls_layout_task task = ls_trainer_task(s, model);
    assert_int_equal(ls_layout_make(&request, &task, &layout), LS_OK);
    ls_model_destroy(model);
    return layout;
}

static ls_watch chosen(ls_settings s, layout_case c) {
    ls_layout layout = layout_of(&s, c);
    return ls_watch_choose(&s, &layout);
}

/* ---- where ------------------------------------------------------------------------------------------------------- */

static const layout_case one = {.dp = 1, .tp = 1, .pp = 1, .micro = 1};
static const layout_case two = {.dp = 2, .tp = 1, .pp = 1, .micro = 1};
static const layout_case staged = {.dp = 1, .tp = 1, .pp = 2, .micro = 1};
static const layout_case rounds = {.dp = 2, .tp = 1, .pp = 1, .zero = 2, .micro = 1};

static void it_is_chosen_where_it_costs_nothing(void **state) {
    (void)state;
    ls_settings s = worthy(LS_OUTLIER_AUTO);
    assert_int_equal(chosen(s, one), LS_WATCH_MEMORY);
    assert_int_equal(chosen(s, two), LS_WATCH_ON);
    assert_int_equal(chosen(s, rounds), LS_WATCH_ON);
    s.options.numerics = 10; /* it has the memory */
    assert_int_equal(chosen(s, one), LS_WATCH_ON);
    s = worthy(LS_OUTLIER_AUTO);
    s.T = 511;
    assert_int_equal(chosen(s, two), LS_WATCH_TIME);
    s.B = 4; /* a group of two micro-batches */
    assert_int_equal(chosen(s, one), LS_WATCH_ON);
    s.groups = 4;
    s.T = 512;
    assert_int_equal(chosen(s, two), LS_WATCH_MEMORY);
    assert_int_equal(chosen(s, rounds), LS_WATCH_TIME);
    s.shape.L = 4; /* twice the words, twice the gradients */
    assert_int_equal(chosen(s, rounds), LS_WATCH_ON);
    s.groups = 1;
    assert_int_equal(chosen(s, one), LS_WATCH_ALONE);
    s = worthy(LS_OUTLIER_AUTO);
    s.policy = (ls_policy){.act = LS_BF16, .unit = LS_UNIT_BFMMLA};
    assert_int_equal(chosen(s, two), LS_WATCH_TIME);
    s = worthy(LS_OUTLIER_AUTO);
    s.options.device = "cuda:1";
    assert_int_equal(chosen(s, two), LS_WATCH_DEVICE);
}

static void who_asks_gets_it_at_any_cost(void **state) {
    (void)state;
    assert_int_equal(chosen(worthy(LS_OUTLIER_OFF), rounds), LS_WATCH_OFF);
    assert_int_equal(chosen(worthy(LS_OUTLIER_WARN), one), LS_WATCH_ON);
    assert_int_equal(chosen(worthy(LS_OUTLIER_SKIP), one), LS_WATCH_ON);
}

static void the_header_says_which_flag_turns_it_on(void **state) {
    (void)state;
    ls_settings s = worthy(LS_OUTLIER_AUTO);
    char text[LS_WATCH_TEXT_MAX];
    ls_layout alone = layout_of(&s, one), replicas = layout_of(&s, two), stages = layout_of(&s, staged);
    ls_watch_text(LS_WATCH_ON, &s, &alone, text);
    assert_string_equal(text, "gradient-outlier detection is on for gradient groups (--on-outlier auto)");
    ls_watch_text(LS_WATCH_ON, &s, &replicas, text);
    assert_string_equal(
        text, "gradient-outlier detection is on for gradient groups, and each worker's gradient is compared with the "
              "other replicas (--on-outlier auto)");
    for (ls_watch w = LS_WATCH_MEMORY; w <= LS_WATCH_DEVICE; w++) {
        ls_watch_text(w, &s, &alone, text);
        assert_ptr_equal(strstr(text, "gradient-outlier detection is off ("), text);
        assert_non_null(strstr(text, "--on-outlier warn"));
        ls_watch_text(w, &s, &replicas, text);
        assert_ptr_equal(
            strstr(text, "gradient-outlier detection: each worker's gradient is compared with the other replicas"),
            text);
        assert_non_null(strstr(text, "; off for single groups ("));
        assert_non_null(strstr(text, "--on-outlier warn"));
        ls_watch_text(w, &s, &stages, text);
        assert_ptr_equal(
            strstr(text,
                   "gradient-outlier detection: each worker's part of the gradient is compared with its last steps"),
            text);
    }
    s.options.on_outlier = LS_OUTLIER_OFF;
    ls_watch_text(LS_WATCH_OFF, &s, &replicas, text);
    assert_string_equal(text, "gradient-outlier detection is off (--on-outlier off)");
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Of all workers. */
static size_t arenas_of(ls_settings s, layout_case c, ls_outlier_action action) {
    s.options.on_outlier = action;
    ls_layout layout = layout_of(&s, c);
    size_t all = 0;
    for (int rank = 0; rank < ls_layout_workers(&layout); rank++) {
        ls_dry_worker worker;
        assert_int_equal(ls_dry_measure(&s, &layout, rank, &worker), LS_OK);
        all += worker.arena;
    }
    return all;
}

/* To the byte; and where memory is why not, it is a gradient of all matrices at least. */
static void it_takes_no_byte(void **state) {
    (void)state;
    size_t gradient = (size_t)4 * 2 * 64 * 768;
    int on = 0, memory = 0;
    for (int i = 0; i < LAYOUT_CASES * 9; i++) {
        int groups = 2 << i % 3, sequences = 1 << 2 * (i / 3 % 3);
        ls_settings s = worthy(LS_OUTLIER_AUTO);
        layout_case c = layout_cases[i / 9];
        s.groups = groups;
        s.B = (size_t)(groups * sequences);
        s.T = 1024 / (size_t)sequences;
        s.shape.L = 8;
        s.shape.T = s.T;
        if (c.dp > groups || i / 9 == 8 /* fewer micro-batches than stages, sometimes */) continue;
        ls_watch watch = chosen(s, c);
        size_t without = arenas_of(s, c, LS_OUTLIER_OFF);
        assert_int_equal(arenas_of(s, c, LS_OUTLIER_AUTO), without);
        on += watch == LS_WATCH_ON;
        if (watch != LS_WATCH_MEMORY) continue;
        memory++;
        assert_true(arenas_of(s, c, LS_OUTLIER_WARN) >= without + gradient);
    }
    assert_true(on >= 16 && memory >= 16);
}

/* ---- what comes of it -------------------------------------------------------------------------------------------- */

enum { WATCH_STEPS = 12, COMPARED = 2 };

static void play_as(play *p, ls_outlier_action action, double threshold, layout_case c, int steps) {
    p->settings = worthy(action);
    p->settings.options.outlier_threshold = threshold;
    p->layout = c;
    p->steps = steps;
    play_ok(p);
}

/* With the lowest threshold groups stand out after ten steps. They are told, once each, and the bits are those of a run
 * that does not look; norms and losses of groups are those of one worker that was asked for them. */
static void nothing_but_words_comes_of_it(void **state) {
    (void)state;
    play p = {.seen = seen_open()};
    run_seen *asked = seen_open(), *plain = seen_open();
    play_as(&p, LS_OUTLIER_WARN, 1000, one, COMPARED);
    *asked = p.seen[0];
    play_as(&p, LS_OUTLIER_OFF, 8, rounds, WATCH_STEPS);
    *plain = p.seen[0];
    assert_int_equal(plain->events, 0);
    for (int i = 0; i < (getenv("LS_TEST_LONG") ? 2 : 1); i++) {
        play_as(&p, LS_OUTLIER_AUTO, 1, i == 0 ? rounds : two, WATCH_STEPS);
        for (int r = 0; r < 2; r++) {
            const run_seen *seen = &p.seen[r];
            assert_string_equal(seen->weights, plain->weights);
            assert_string_equal(seen->moments, plain->moments);
            assert_in_range(seen->events, 1, WATCH_STEPS);
            for (int e = 0; e < seen->events; e++)
                assert_true(seen->event[e].action == LS_OUTLIER_AUTO && !seen->event[e].again);
            for (int k = 0; k < COMPARED; k++)
                for (int g = 0; g < 2; g++) {
                    assert_true(seen->step[k].squares[g] == asked->step[k].squares[g]);
                    assert_true(seen->step[k].losses[g] == asked->step[k].losses[g]);
                    assert_true(seen->step[k].squares[g] > 0);
                }
        }
    }
    seen_close(plain);
    seen_close(asked);
    seen_close(p.seen);
}

static int setup(void **state) {
    if (make_folder(state) != 0) return -1;
    /* Sequences of one token only, among others. */
    static uint16_t ids[16 * 512];
    size_t V = tiny_gpt2().V, count = sizeof ids / sizeof *ids;
    for (size_t i = 0; i < count; i++)
        ids[i] = (uint16_t)(i / 512 % 8 == 5 ? 3 : ls_rng_below(ls_rng_key_make(2, 2, 0), i, V));
    (void)put_file("ids.bin", ids, sizeof ids);
    return 0;
}

int main(void) {
    ls_log_set_level(LS_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_chosen_where_it_costs_nothing),    cmocka_unit_test(who_asks_gets_it_at_any_cost),
        cmocka_unit_test(the_header_says_which_flag_turns_it_on), cmocka_unit_test(it_takes_no_byte),
        cmocka_unit_test(nothing_but_words_comes_of_it),
    };
    return cmocka_run_group_tests(tests, setup, remove_folder);
}
