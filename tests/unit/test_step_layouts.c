/* Decisions and measurements of steps are the same under every layout, on every worker: norms of groups, numerics of
 * blocks, skipped fp16 steps and the loss scale behind them, groups that are dropped. On one worker they are compared
 * with plain sums over what can be read of the stage. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "numerics/float16.h"
#include "sample.h"
#include "step_layouts.h"

static ls_settings settings_of(ls_policy policy) {
    ls_shape shape = tiny_gpt2();
    ls_settings s = tiny_settings(&shape, adamw);
    s.policy = policy;
    s.loss_scale = (ls_loss_scale_settings){.constant = true, .hysteresis = 1};
    return s;
}

/* The same under every `every`th layout as on one worker, which is the first of them; with LS_TEST_LONG under all. */
static void check_layouts(play *p, int first, int every) {
    run_seen *one = seen_open();
    p->seen = seen_open();
    p->layout = layout_cases[0];
    play_ok(p);
    *one = p->seen[0];
    if (getenv("LS_TEST_LONG")) first = every = 1;
    every *= sample_every(3);
    for (int i = first; i < LAYOUT_CASES; i += every) {
        p->layout = layout_cases[i];
        play_ok(p);
        expect_seen(p, one, 0);
    }
    p->seen[0] = *one;
    seen_close(one);
}

/* ---- norms of groups and numerics -------------------------------------------------------------------------------- */

/* What one worker reads of its stage around an update. */
typedef struct element_sums {
    int64_t elems, nonzero, flushed, lost;
    double grad, weight, update;
} element_sums;

static bool is_zero_in(float x, ls_dtype type) {
    if (type == LS_F32) return x == 0;
    float back = type == LS_BF16 ? ls_bf16_to_f32(ls_bf16_from_f32(x)) : ls_f16_to_f32(ls_f16_from_f32(x));
    return back == 0;
}

static void read_all(ls_trainer *t, const ls_param *param, ls_partition_tensor which, float *out) {
    assert_int_equal(ls_partition_read(t->partition, param, which, 0, ls_param_elems(param), out), LS_OK);
}

static void sum_param(ls_trainer *t, const ls_param *param, const float *before, element_sums *sums) {
    enum { MOST = 2048 };
    float w[MOST], g[MOST], m[MOST];
    size_t elems = ls_param_elems(param);
    assert_in_range(elems, 1, MOST);
    read_all(t, param, LS_TENSOR_WEIGHT, w);
    read_all(t, param, LS_TENSOR_GRAD, g);
    read_all(t, param, LS_TENSOR_MOMENT0, m);
    for (size_t i = 0; i < elems; i++) {
        double change = (double)(w[i] - before[i]);
        sums->elems++;
        sums->nonzero += g[i] != 0;
        sums->flushed += g[i] != 0 && is_zero_in(g[i], t->settings.policy.act);
        sums->lost += w[i] == before[i] && m[i] != 0;
        sums->grad += (double)g[i] * (double)g[i];
        sums->weight += (double)w[i] * (double)w[i];
        sums->update += change * change;
    }
}

static void near(double a, double b) {
    if (!(fabs(a - b) <= 1e-12 * fabs(b))) fail_msg("%.17g is not %.17g", a, b);
}

static void compare_block(ls_block_numerics *n, const element_sums *sums) {
    assert_int_equal(n->elems, sums->elems);
    assert_int_equal(n->grads[LS_COUNT_NONZERO], sums->nonzero);
    assert_int_equal(n->grads[LS_COUNT_FLUSHED], sums->flushed);
    assert_int_equal(n->lost, sums->lost);
    near(ls_exact_sum_value(&n->grad_squares), sums->grad);
    near(ls_exact_sum_value(&n->weight_squares), sums->weight);
    near(ls_exact_sum_value(&n->update_squares), sums->update);
}

/* One step, then its numbers block by block from the elements. */
static void step_and_compare(ls_trainer *t, float (*before)[2048]) {
    ls_step_result result;
    for (int i = 0; i < ls_model_params(t->model); i++)
        read_all(t, ls_model_param(t->model, i), LS_TENSOR_WEIGHT, before[i]);
    assert_int_equal(ls_trainer_step(t, 0, &result), LS_OK);
    assert_true(result.finite);
    for (int b = 0, number = 0; b < t->model->nblocks; b++) {
        element_sums sums = {0};
        for (int i = 0; i < t->model->blocks[b].nparams; i++, number++)
            sum_param(t, &t->model->blocks[b].param[i], before[number], &sums);
        compare_block(&t->guard.numerics[b], &sums);
    }
}

static void check_numerics(ls_policy policy, double lr) {
    static float before[64][2048];
    ls_layout_request request = request_of(&layout_cases[1]);
    ls_settings s = settings_of(policy);
    ls_trainer *t = NULL;
    fixture f;
    s.options.numerics = 1;
    s.lr.peak = lr;
    assert_int_equal(fixture_open(&f, &s), LS_OK);
    assert_int_equal(trainer_open(&f, NULL, &request, &t), LS_OK);
    assert_int_equal(ls_run_start_seed(t), LS_OK);
    assert_in_range(ls_model_params(t->model), 1, 64);
    for (int i = 0; i < 2; i++) step_and_compare(t, before);
    ls_trainer_destroy(t);
    fixture_close(&f);
}

static void numerics_are_sums_over_elements(void **state) {
    (void)state;
    check_numerics((ls_policy){.act = LS_F32}, 0.01);
    check_numerics((ls_policy){.act = LS_F16}, 0.01);
    /* Of weights that are bf16 most such updates are lost. */
    check_numerics((ls_policy){.act = LS_BF16, .no_master = true}, 1e-5);
}

/* Every number of every block and the norms of groups, in three steps. */
static void numerics_do_not_depend_on_layouts(void **state) {
    (void)state;
    const ls_policy policies[] = {{.act = LS_F32}, {.act = LS_F16}, {.act = LS_BF16, .reduce = LS_BF16}};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        play p = {.settings = settings_of(policies[i]), .steps = 3};
        p.settings.options.numerics = 1;
        check_layouts(&p, 1 + (int)i, 3);
        const step_seen *last = &p.seen[0].step[2];
        assert_true(last->whole_squares > 0 && last->blocks[1].grad_squares > 0 && last->blocks[3].update_squares > 0);
        double loss = 0; /* that of the step is the mean of its sequences */
        for (int g = 0; g < 4; g++) {
            size_t B = p.settings.B, count = ls_slice_begin(B, 4, g + 1) - ls_slice_begin(B, 4, g);
            assert_true(last->squares[g] > 0 && last->losses[g] > 0);
            loss += last->losses[g] * (double)count / (double)B;
        }
        assert_true(fabs(loss - last->loss) <= 1e-12 * loss);
        assert_int_equal(last->blocks[1].acts_elems > 0, policies[i].act != LS_F32);
        seen_close(p.seen);
    }
}

/* ---- leaves ------------------------------------------------------------------------------------------------------ */

typedef struct leaf_count {
    int of[64][2][4]; /* by parameter, use and group */
    double squares[4];
} leaf_count;

static ls_status count_leaf(void *ctx, const ls_param *param, bool is_lookup, int group, float *leaf, size_t elems) {
    leaf_count *count = ctx;
    count->of[param->number][is_lookup][group]++;
    for (size_t i = 0; i < elems; i++) count->squares[group] += (double)leaf[i] * (double)leaf[i];
    return LS_OK;
}

/* Into the page of this worker, by way of a pass of its own. */
static ls_status watch_leaves(const play *p, ls_trainer *t) {
    leaf_count *counts = (leaf_count *)(uintptr_t)p->ctx;
    ls_partition_feed feed = ls_trainer_feed(t);
    ls_partition_watch(t->partition, (ls_leaf_watch){.leaf = count_leaf, .ctx = &counts[t->rank]});
    LS_TRY(ls_partition_step(t->partition, 0, ls_trainer_backward_start(t), &feed));
    ls_partition_watch(t->partition, (ls_leaf_watch){.leaf = NULL});
    return LS_OK;
}

/* All rows of workers together see the leaf of each parameter (both of a tied table) and group once; each member of a
 * tp row its part of it. */
static void each_leaf_is_seen_once(void **state) {
    (void)state;
    size_t bytes = RUN_WORKERS_MAX * sizeof(leaf_count);
    leaf_count *counts = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(counts != MAP_FAILED);
    play p = {.settings = settings_of((ls_policy){.act = LS_BF16}), .before = watch_leaves, .ctx = counts};
    p.settings.options.on_outlier = LS_OUTLIER_WARN;
    p.settings.options.outlier_threshold = 8;
    p.seen = seen_open();
    enum { PARAMS = 2 + 2 * 12 + 2 };
    for (int i = 0; i < LAYOUT_CASES; i++) {
        p.layout = layout_cases[i];
        memset(counts, 0, bytes);
        play_ok(&p);
        for (int t = 0; t < p.layout.tp; t++)
            for (int n = 0; n < PARAMS; n++)
                for (int use = 0; use < 2; use++)
                    for (int g = 0; g < 4; g++) {
                        /* The table has two uses. On several stages the embedding's is the plain one on the first, and
                         * the head's on the last. */
                        int want = n > 0 ? use == 0 : p.layout.pp == 1 ? 1 : 2 * (use == 0), found = 0;
                        for (int r = t; r < play_workers(&p); r += p.layout.tp) found += counts[r].of[n][use][g];
                        if (found != want)
                            fail_msg("%s: parameter %d, use %d, group %d: %d times", play_name(&p), n, use, g, found);
                    }
    }
    seen_close(p.seen);
    munmap(counts, bytes);
}

/* ---- fp16 that overflows ----------------------------------------------------------------------------------------- */

static ls_settings overflowing(void) {
    ls_settings s = settings_of((ls_policy){.act = LS_F16});
    s.loss_scale = (ls_loss_scale_settings){.initial = 24, .floor = 0, .ceiling = 24, .window = 3, .hysteresis = 2};
    return s;
}

enum { FP16_STEPS = 16 };

/* The scale as the rules of optim/loss_scale.h have it, from the answers alone. */
static void check_scales(const run_seen *seen) {
    int e = 24, patience = 2, good = 0, skipped = 0, grown = 0;
    for (int i = 0; i < FP16_STEPS; i++) {
        const step_seen *s = &seen->step[i];
        assert_int_equal(s->scale, e);
        assert_int_equal(s->skipped, !s->finite);
        good = s->skipped ? 0 : good + 1;
        if (s->skipped) {
            skipped++;
            if (patience > 0) patience--;
            if (patience == 0) e--;
        } else if (good == 3) {
            good = 0;
            patience = 2;
            e++;
            grown++;
        }
        assert_int_equal(s->after.exponent, e);
    }
    assert_true(skipped >= 3 && skipped < FP16_STEPS - 3 && grown >= 1);
    assert_int_equal(seen->updates, FP16_STEPS - skipped);
    assert_int_equal(seen->events, skipped);
    for (int i = 0; i < seen->events; i++) {
        const ls_train_event *event = &seen->event[i];
        assert_int_equal(event->kind, LS_EVENT_OVERFLOW);
        assert_int_equal(event->scale, seen->step[event->step - 1].scale);
        assert_int_equal(event->next_scale, seen->step[event->step - 1].after.exponent);
        assert_true(event->tensor[0] && event->block[0]);
    }
}

static void overflows_are_skipped_by_all_workers_alike(void **state) {
    (void)state;
    play p = {.settings = overflowing(), .steps = FP16_STEPS};
    check_layouts(&p, 1, 1);
    check_scales(&p.seen[0]);
    seen_close(p.seen);
}

/* Gradients that are 2^10 times as large on their way make the same steps, but for what small ones lost without. */
static void a_loss_scale_is_undone(void **state) {
    (void)state;
    run_seen *plain = seen_open();
    play p = {.settings = settings_of((ls_policy){.act = LS_F16}), .steps = 3, .layout = layout_cases[0]};
    p.seen = plain;
    play_ok(&p);
    p.seen = seen_open();
    p.settings.loss_scale.initial = 10;
    play_ok(&p);
    for (int i = 0; i < 3; i++) {
        const step_seen *a = &plain->step[i], *b = &p.seen[0].step[i];
        assert_true(b->scale == 10 && a->scale == 0);
        assert_true(fabs(a->norm - b->norm) < 0.01 * a->norm);
        assert_true(fabs((double)b->factor * 0x1p10 / (double)a->factor - 1) < 0.01);
        assert_true(fabs(a->loss - b->loss) < 0.01 * a->loss);
    }
    seen_close(plain);
    seen_close(p.seen);
}

/* Stopped among the skipped steps and later, and gone on with under another layout. */
static void a_resumed_run_skips_the_same_steps(void **state) {
    (void)state;
    static const int cuts[] = {1, 3, 9}, from[] = {0, 5, 9}, to[] = {9, 6, 0};
    run_seen *whole = seen_open();
    play p = {.settings = overflowing(), .steps = FP16_STEPS, .seen = seen_open(), .layout = layout_cases[0]};
    play_ok(&p);
    *whole = p.seen[0];
    for (int i = 0; i < 3; i++) {
        char dir[64];
        snprintf(dir, sizeof dir, "%.40s/cut-%d", folder, i);
        play first = {.settings = overflowing(), .steps = cuts[i], .layout = layout_cases[from[i]], .seen = p.seen};
        first.save = dir;
        play_ok(&first);
        char name[16];
        snprintf(name, sizeof name, "cut-%d", i);
        play second = {.settings = overflowing(), .steps = FP16_STEPS, .layout = layout_cases[to[i]], .seen = p.seen};
        second.load = step_folder(name, cuts[i]);
        play_ok(&second);
        expect_seen(&second, whole, cuts[i]);
    }
    seen_close(whole);
    seen_close(p.seen);
}

/* A constant scale that is too high, and a floor: the run stops, all of it, and names the tensor. */
static void the_floor_stops_the_run(void **state) {
    (void)state;
    for (int constant = 0; constant < 2; constant++) {
        play p = {.settings = overflowing(), .steps = FP16_STEPS, .seen = seen_open()};
        p.settings.loss_scale.constant = constant;
        p.settings.loss_scale.floor = 23;
        p.settings.loss_scale.hysteresis = 1;
        for (int i = constant; i < LAYOUT_CASES; i += 5) {
            p.layout = layout_cases[i];
            assert_int_equal(play_run(&p), LS_ERR_FAILED);
            const char *said = ls_status_message();
            if (!strstr(said, constant ? "step 1: " : "step 2: ") || !strstr(said, constant ? "2^24" : "2^23"))
                fail_msg("%s", said);
            if (!strstr(said, constant ? "--loss-scale dynamic" : "--loss-scale-min")) fail_msg("%s", said);
            const ls_train_event *last = &p.seen[0].event[p.seen[0].events - 1];
            assert_int_equal(last->kind, LS_EVENT_FLOOR);
            assert_string_equal(last->phase, "backward");
            assert_string_equal(last->block, "head");
        }
        seen_close(p.seen);
    }
}

/* ---- dropped groups ---------------------------------------------------------------------------------------------- */

enum { DROP_STEPS = 16 };

/* With the lowest threshold some group always stands out after the first ten steps. */
static void groups_are_dropped_by_all_workers_alike(void **state) {
    (void)state;
    const ls_policy policies[] = {{.act = LS_F32}, {.act = LS_BF16, .reduce = LS_BF16}};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        play p = {.settings = settings_of(policies[i]), .steps = DROP_STEPS};
        int dropped = 0;
        p.settings.options.on_outlier = LS_OUTLIER_SKIP;
        p.settings.options.outlier_threshold = 1;
        p.settings.options.dropout = 0;
        check_layouts(&p, 1 + (int)i, 2);
        for (int k = 0; k < DROP_STEPS; k++) {
            const step_seen *s = &p.seen[0].step[k];
            assert_int_equal(__builtin_popcount(s->absent), s->dropped);
            dropped += s->dropped;
        }
        assert_in_range(dropped, 1, 2 * DROP_STEPS);
        assert_int_equal(p.seen[0].events, dropped);
        seen_close(p.seen);
    }
}

static int setup(void **state) {
    if (make_folder(state) != 0) return -1;
    put_tokens(tiny_gpt2().V);
    return 0;
}

int main(void) {
    ls_log_set_level(LS_LOG_ERROR); /* more workers than cores are meant */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numerics_are_sums_over_elements),
        cmocka_unit_test(numerics_do_not_depend_on_layouts),
        cmocka_unit_test(each_leaf_is_seen_once),
        cmocka_unit_test(a_loss_scale_is_undone),
        cmocka_unit_test(overflows_are_skipped_by_all_workers_alike),
        cmocka_unit_test(a_resumed_run_skips_the_same_steps),
        cmocka_unit_test(the_floor_stops_the_run),
        cmocka_unit_test(groups_are_dropped_by_all_workers_alike),
    };
    return cmocka_run_group_tests(tests, setup, remove_folder);
}
