/* test_native.c: this program's own layouts on a machine whose figures were made up, so that every time can be counted
 * by hand: memory is that of a dry run, products cost what their operations cost, workers take turns at the cores. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ask.h"
#include "device/cpu/kernels.h"
#include "made_machine.h"
#include "model/model.h"
#include "model/shape_file.h"
#include "parallel/schedule/predict.h"
#include "plan/native/native.h"
#include "run/trainer.h"

enum { B = 16, T = 64, G = 8, S = 8 };

static ls_native_machine machine;
static ls_shape tiny;

static int set_up(void **state) {
    (void)state;
    make_machine(&machine);
    return ls_shape_preset("tiny", &tiny) == LS_OK ? 0 : -1;
}

static ls_settings settings;

static ls_native_task plain(void) {
    settings =
        (ls_settings){.shape = tiny, .slices = S, .groups = G, .B = B, .T = T, .options.check = LS_CHECK_REPLICAS};
    return (ls_native_task){.settings = &settings};
}

static ls_layout make(const ls_native_task *task, ls_layout_request request) {
    ls_model *model;
    ls_layout layout;
    assert_int_equal(ls_model_create(&task->settings->shape, task->settings->slices, &model), LS_OK);
    ls_layout_task of = ls_trainer_task(task->settings, model);
    if (ls_layout_make(&request, &of, &layout) != LS_OK) fail_msg("%s", ls_status_message());
    ls_model_destroy(model);
    return layout;
}

static ls_layout_request request_of(int dp, int tp, int pp, int zero, size_t micro) {
    ls_layout_request request = ls_layout_request_none();
    ask(&request, LS_KNOB_dp, dp);
    ask(&request, LS_KNOB_tp, tp);
    ask(&request, LS_KNOB_pp, pp);
    ask(&request, LS_KNOB_zero, zero);
    ask(&request, LS_KNOB_micro, micro);
    return request;
}

static ls_prediction predict_task(const ls_native_task *task, ls_layout_request request) {
    ls_layout layout = make(task, request);
    ls_prediction p;
    if (ls_native_predict(&machine, task, &layout, &p) != LS_OK) fail_msg("%s", ls_status_message());
    double sum = 0;
    for (int k = 0; k < LS_TIME_KINDS; k++) {
        assert_true(p.time[k] >= 0);
        sum += p.time[k];
    }
    assert_true(fabs(sum - p.seconds) <= 1e-9 * sum);
    return p;
}

static ls_prediction predict(ls_layout_request request) {
    ls_native_task task = plain();
    return predict_task(&task, request);
}

static void assert_near(double value, double expected, double share) {
    if (!(fabs(value - expected) <= share * fabs(expected))) fail_msg("%.9g is not %.9g", value, expected);
}

/* Of the products of a forward pass: two for each weight and token. */
static double layer_flops(double tokens) { return 2 * tokens * 6 * (384.0 * 128 + 128 * 128 + 2 * 128 * 512); }
static double head_flops(double tokens) { return 2 * tokens * 256 * 128; }
static double step_flops(double tokens) { return 3 * (layer_flops(tokens) + head_flops(tokens)); }

/* ---- curves ------------------------------------------------------------------------------------------------------ */

static void test_law_is_found_again(void **state) {
    (void)state;
    ls_native_rates *r = calloc(1, sizeof *r);
    double law[4] = {2e-11, 3e-10, 5e-10, 4e-10};
    assert_non_null(r);
    fill_products(r, law);
    for (int form = 0; form < 3; form++) {
        double m = 200, n = 300, k = 150, slices = 4;
        double expected = law[0] * 2 * m * n * k + law[1] * m * k + law[2] * n * k + law[3] * m * n * slices;
        assert_near(ls_native_matmul_seconds(r, (ls_gemm_form)form, 0, 200, 300, 150, 4), expected, .02);
    }
    /* A type that was not measured is priced as fp32. */
    assert_near(ls_native_matmul_seconds(r, LS_GEMM_NT, 3, 200, 300, 150, 4),
                ls_native_matmul_seconds(r, LS_GEMM_NT, 0, 200, 300, 150, 4), 0);
    free(r);
}

/* What the law misses at a measured size is made good there, and hardly far away. */
static void test_points_correct_the_law(void **state) {
    (void)state;
    ls_native_rates *r = malloc(sizeof *r);
    assert_non_null(r);
    *r = machine.rates[0];
    ls_native_matmul *odd = &r->matmul[0];
    double before = ls_native_matmul_seconds(r, odd->form, 0, 64, 64, 64, 1);
    double far = ls_native_matmul_seconds(r, odd->form, 0, 4096, 4096, 4096, 1);
    odd->seconds *= 2; /* the law stays */
    assert_near(ls_native_matmul_seconds(r, odd->form, 0, 64, 64, 64, 1), 2 * before, .02);
    assert_near(ls_native_matmul_seconds(r, odd->form, 0, 4096, 4096, 4096, 1), far, .02);
    free(r);
}

static void test_passes_and_links_between_points(void **state) {
    (void)state;
    ls_native_rates *r = calloc(1, sizeof *r);
    ls_native_machine *m = calloc(1, sizeof *m);
    assert_true(r && m);
    r->launch_seconds = 1e-6;
    r->pass[LS_PASS_ADD][0][0] = 1e-5;
    r->pass[LS_PASS_ADD][0][1] = 1e-5 * (LS_NATIVE_PASS_LARGE / LS_NATIVE_PASS_SMALL);
    double small = LS_NATIVE_PASS_SMALL, large = LS_NATIVE_PASS_LARGE;
    assert_near(ls_native_pass_seconds(r, LS_PASS_ADD, false, small), 1e-5, 1e-9);
    assert_near(ls_native_pass_seconds(r, LS_PASS_ADD, false, 4 * small), 4e-5, 1e-9);
    assert_near(ls_native_pass_seconds(r, LS_PASS_ADD, true, 2 * large), 2 * r->pass[LS_PASS_ADD][0][1], 1e-9);
    assert_near(ls_native_pass_seconds(r, LS_PASS_ADD, false, 1), 1e-6, .01);
    m->cores = 4;
    m->links = 2;
    m->link[0] = (ls_native_link){4, 2, LS_NATIVE_ALL_REDUCE, {1e-6, 2e-6, 1e-5, 1e-3}};
    m->link[1] = (ls_native_link){4, 4, LS_NATIVE_ALL_REDUCE, {9e-6, 9e-6, 9e-5, 9e-3}};
    assert_near(ls_native_link_seconds(m, LS_NATIVE_ALL_REDUCE, 4, 2, 0), 1e-6, 1e-9);
    assert_near(ls_native_link_seconds(m, LS_NATIVE_ALL_REDUCE, 4, 2, (double)(16 << 20)), 2e-3, 1e-9);
    assert_near(ls_native_link_seconds(m, LS_NATIVE_ALL_REDUCE, 8, 4, (double)(8 << 20)), 9e-3, 1e-9);
    assert_true(ls_native_link_seconds(m, LS_NATIVE_SEND, 4, 2, 100) == 0);
    free(r);
    free(m);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void test_file_gives_it_back(void **state) {
    (void)state;
    ls_native_machine *back = malloc(sizeof *back);
    json_t *json = ls_native_machine_to_json(&machine), *again;
    assert_true(back && json);
    if (ls_native_machine_from_json("test", json, back) != LS_OK) fail_msg("%s", ls_status_message());
    again = ls_native_machine_to_json(back);
    assert_true(json_equal(json, again));
    assert_int_equal(back->rates[1].law[0][0].known, true);
    json_decref(again);

    /* Files of before do not say what dropout costs. */
    json_t *rates = json_object_get(json, "rates"), *first = json_array_get(rates, 0);
    json_object_del(first, "attention_dropout_pair_seconds");
    assert_int_equal(ls_native_machine_from_json("test", json, back), LS_OK);
    json_object_set_new(first, "attention_dropout_pair_seconds", json_pack("{s:[f, f]}", "fp32", 1e-9, 2e-9));
    assert_int_equal(ls_native_machine_from_json("test", json, back), LS_OK);
    assert_true(back->rates[0].dropped[0][0] == 1e-9 && back->rates[0].dropped[1][0] == 2e-9);
    again = ls_native_machine_to_json(back);
    assert_true(json_equal(json, again));
    json_decref(again);
    json_object_set_new(first, "attention_dropout_pair_seconds", json_pack("{s:[f]}", "fp32", 1e-9));
    assert_int_equal(ls_native_machine_from_json("test", json, back), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "attention_dropout_pair_seconds"));
    json_object_del(first, "attention_dropout_pair_seconds");
    json_object_set_new(first, "launch_seconds", json_real(-1));
    assert_int_equal(ls_native_machine_from_json("test", json, back), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "launch_seconds"));
    json_object_set_new(first, "launch_seconds", json_real(1));
    json_array_append_new(json_object_get(first, "products_seconds"),
                          json_pack("[s, s, i, i, i, i, f]", "NT", "fp32", 0, 1, 1, 1, 1.0));
    assert_int_equal(ls_native_machine_from_json("test", json, back), LS_ERR_INPUT);
    json_object_del(first, "products_seconds");
    assert_int_equal(ls_native_machine_from_json("test", json, back), LS_ERR_INPUT);
    json_array_clear(rates);
    assert_int_equal(ls_native_machine_from_json("test", json, back), LS_ERR_INPUT);
    json_object_del(json, "rates");
    assert_int_equal(ls_native_machine_from_json("test", json, back), LS_ERR_INPUT);
    json_decref(json);
    json = json_array();
    assert_int_equal(ls_native_machine_from_json("test", json, back), LS_ERR_INPUT);
    json_decref(json);
    free(back);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void assert_same_memory(const ls_native_task *task, ls_layout_request request) {
    const ls_settings *s = task->settings;
    ls_layout layout = make(task, request);
    ls_model *model;
    double heaviest = 0;
    ls_prediction p;
    assert_int_equal(ls_model_create(&s->shape, s->slices, &model), LS_OK);
    ls_layout_task of = ls_trainer_task(s, model);
    for (int rank = 0; rank < ls_layout_workers(&layout); rank++) {
        ls_arena arena;
        ls_dry_worker own;
        ls_partition_setup setup = ls_trainer_setup(s, &layout, rank);
        assert_int_equal(ls_partition_measure(model, &setup, &arena), LS_OK);
        assert_int_equal(ls_dry_measure(s, &layout, rank, &own), LS_OK);
        assert_int_equal(own.arena, arena.peak);
        size_t outside =
            ls_predict_outside_bytes(&of, &layout, ls_layout_place(&layout, rank), &ls_kernels_get()->gemm);
        assert_int_equal(own.outside, outside);
        if ((double)(own.arena + outside) > heaviest) heaviest = (double)(own.arena + outside);
    }
    assert_int_equal(ls_native_predict(&machine, task, &layout, &p), LS_OK);
    assert_true(p.memory_bytes == heaviest);
    double kinds = 0;
    for (int k = 0; k < LS_MEMORY_KINDS; k++) kinds += p.memory[k];
    if (s->policy.act == LS_F32) assert_true(kinds >= p.memory_bytes);
    ls_model_destroy(model);
}

static void test_memory_is_that_of_a_run(void **state) {
    (void)state;
    ls_native_task task = plain();
    for (int precision = 0; precision < 2; precision++) {
        settings.policy = (ls_policy){.act = precision ? LS_BF16 : LS_F32};
        for (int zero = 0; zero < 4; zero++) {
            ls_layout_request request = request_of(2, 2, 1, zero, 2);
            assert_same_memory(&task, request);
            ls_knob_give(&request, LS_KNOB_sequence_parallel, 1);
            assert_same_memory(&task, request);
            request = request_of(2, 1, 2, zero, 1);
            ls_knob_give(&request, LS_KNOB_recompute, LS_RECOMPUTE_FULL);
            assert_same_memory(&task, request);
        }
        ls_layout_request request = request_of(1, 1, 3, 0, 2);
        ls_knob_give(&request, LS_KNOB_schedule, LS_SCHEDULE_ZERO_BUBBLE);
        assert_same_memory(&task, request);
        request = request_of(1, 2, 2, 0, 2);
        ls_knob_give(&request, LS_KNOB_schedule, LS_SCHEDULE_INTERLEAVED);
        ls_knob_give(&request, LS_KNOB_recompute, LS_RECOMPUTE_SELECTIVE);
        assert_same_memory(&task, request);
        assert_same_memory(&task, request_of(1, 1, 1, 0, 16));
    }
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

static void test_products_are_counted(void **state) {
    (void)state;
    double tokens = B * T, one = FLOP / 2; /* two threads */
    ls_prediction p = predict(request_of(1, 1, 1, 0, 16));
    assert_near(p.seconds, step_flops(tokens) * one, 1e-3);
    assert_near(p.time[LS_TIME_ENDS], 3 * head_flops(tokens) * one, 1e-3);
    assert_near(predict(request_of(1, 1, 1, 0, 2)).seconds, p.seconds, 1e-3);
    /* Two workers have a thread each and half of the work. */
    for (int zero = 0; zero < 4; zero++)
        assert_near(predict(request_of(2, 1, 1, zero, 2)).seconds, step_flops(tokens / 2) * FLOP, 1e-3);
    assert_near(predict(request_of(1, 2, 1, 0, 4)).seconds, step_flops(tokens) / 2 * FLOP, 1e-3);
    /* Four take turns at two cores. */
    assert_near(predict(request_of(4, 1, 1, 1, 2)).seconds, step_flops(tokens / 4) * FLOP * 2, 1e-3);
    assert_near(predict(request_of(2, 2, 1, 1, 2)).seconds, step_flops(tokens / 4) * FLOP * 2, 1e-3);
}

static void test_recomputation_is_forward_again(void **state) {
    (void)state;
    double tokens = B * T, one = FLOP / 2, out = 2 * tokens * 6 * 128 * 512;
    ls_layout_request request = request_of(1, 1, 1, 0, 4);
    ls_knob_give(&request, LS_KNOB_recompute, LS_RECOMPUTE_FULL);
    ls_prediction p = predict(request);
    assert_near(p.time[LS_TIME_RECOMPUTE], (layer_flops(tokens) - out) * one, 1e-3);
    assert_near(p.seconds, (step_flops(tokens) + layer_flops(tokens) - out) * one, 1e-3);
    ls_knob_give(&request, LS_KNOB_recompute, LS_RECOMPUTE_SELECTIVE);
    assert_near(predict(request).time[LS_TIME_RECOMPUTE], out * one, 1e-3);
}

static void test_pipelines_wait_and_share_cores(void **state) {
    (void)state;
    double tokens = B * T, all = step_flops(tokens) * FLOP;
    /* One micro-batch is nowhere at the same time. */
    assert_near(predict(request_of(1, 1, 2, 0, 16)).seconds, all, 1e-3);
    ls_prediction p = predict(request_of(1, 1, 2, 0, 1));
    assert_true(p.seconds > .5 * all && p.seconds < .62 * all);
    assert_true(p.time[LS_TIME_BUBBLE] > 0);
    /* Stages that wait leave their cores to others: four on two cores lose nothing against the work there is. */
    p = predict(request_of(1, 1, 4, 0, 1));
    assert_true(p.seconds >= .5 * all * (1 - 1e-6) && p.seconds < .62 * all);
    assert_near(predict(request_of(1, 1, 4, 0, 16)).seconds, all, 1e-3);
}

static void test_traffic_costs_time(void **state) {
    (void)state;
    double before = predict(request_of(2, 1, 1, 1, 2)).seconds, tp = predict(request_of(1, 2, 1, 0, 4)).seconds;
    for (int i = 0; i < machine.links; i++)
        for (int s = 0; s < LS_NATIVE_LINK_SIZES; s++) machine.link[i].seconds[s] = 1e-3;
    ls_prediction p = predict(request_of(2, 1, 1, 1, 2));
    assert_near(p.seconds - before, p.time[LS_TIME_DP] + p.time[LS_TIME_OTHER], 1e-6);
    assert_true(p.time[LS_TIME_DP] > 8e-3);
    /* 4 micro-batches, 6 layers of 4 sums, and one each in embedding and head, which has two gathers; once a step
     * the hashes of replicas. */
    p = predict(request_of(1, 2, 1, 0, 4));
    assert_near(p.time[LS_TIME_TP], (4 * (6 * 4 + 2 + 2) + 1) * 1e-3, 1e-6);
    assert_near(p.seconds - tp, p.time[LS_TIME_TP] + p.time[LS_TIME_OTHER], 1e-6);
    for (int i = 0; i < machine.links; i++)
        for (int s = 0; s < LS_NATIVE_LINK_SIZES; s++) machine.link[i].seconds[s] = 1e-15;
}

static void test_attention_and_passes_are_counted(void **state) {
    (void)state;
    ls_native_rates *r = &machine.rates[0];
    double params = 256 * 128 + 256 * 128 + 6 * (384 * 129 + 128 * 129 + 512 * 129 + 128 * 513 + 4 * 128) + 2 * 128;
    for (int d = 0; d < LS_NATIVE_HEADS; d++)
        for (int t = 0; t < LS_NATIVE_LENGTHS; t++) {
            r->attention[0][0][d][t] = 1e-3;
            r->attention[1][0][d][t] = 2e-3;
        }
    r->pass[LS_PASS_ADAMW][0][0] = LS_NATIVE_PASS_SMALL * 1e-6;
    r->pass[LS_PASS_ADAMW][0][1] = LS_NATIVE_PASS_LARGE * 1e-6;
    for (size_t micro = 1; micro <= B; micro *= 4) {
        ls_prediction p = predict(request_of(1, 1, 1, 0, micro));
        assert_near(p.time[LS_TIME_ATTENTION], B * 6 * 8 * 3e-3, 1e-6);
        assert_near(p.time[LS_TIME_OPTIMIZER], params * 1e-6, 1e-3);
    }
    /* Weights that are dropped, of each pair of a query and a key that it sees. */
    r->dropped[0][0] = 1e-6, r->dropped[1][0] = 2e-6;
    assert_near(predict(request_of(1, 1, 1, 0, 4)).time[LS_TIME_ATTENTION], B * 6 * 8 * 3e-3, 1e-6);
    ls_native_task dropping = plain();
    settings.options.dropout = 0.1;
    ls_prediction more = predict_task(&dropping, request_of(1, 1, 1, 0, 4));
    assert_near(more.time[LS_TIME_ATTENTION], B * 6 * 8 * (3e-3 + T * (T + 1) / 2 * 3e-6), 1e-6);
    r->dropped[0][0] = r->dropped[1][0] = 0;
    for (int d = 0; d < LS_NATIVE_HEADS; d++)
        for (int t = 0; t < LS_NATIVE_LENGTHS; t++)
            r->attention[0][0][d][t] = r->attention[1][0][d][t] = NEXT_TO_NOTHING;
    r->pass[LS_PASS_ADAMW][0][0] = r->pass[LS_PASS_ADAMW][0][1] = NEXT_TO_NOTHING;
}

/* ---- search ------------------------------------------------------------------------------------------------------ */

static void test_search_keeps_the_fastest(void **state) {
    (void)state;
    ls_native_task task = plain();
    ls_native_found *found = malloc(sizeof *found);
    assert_non_null(found);
    ls_layout_request request = ls_layout_request_none();
    assert_int_equal(ls_native_search(&machine, &task, &request, 0, found), LS_OK);
    assert_true(found->fitting > 1 && found->missing == 0 && found->tried > 20);
    for (int i = 1; i < found->fitting; i++)
        assert_true(found->fits[i].prediction.seconds >= found->fits[i - 1].prediction.seconds);
    assert_near(found->one_seconds, step_flops(B * T) * FLOP / 2, 1e-3);
    /* What is given stays. */
    request = request_of(0, 2, 0, -1, 4);
    assert_int_equal(ls_native_search(&machine, &task, &request, 4, found), LS_OK);
    for (int i = 0; i < found->fitting; i++)
        assert_true(found->fits[i].layout.tp == 2 && found->fits[i].layout.micro == 4);
    request = request_of(0, 3, 0, -1, 0);
    assert_int_equal(ls_native_search(&machine, &task, &request, 0, found), LS_ERR_INPUT);
    /* Recomputation where memory asks for it, and the nearest where nothing fits. */
    request = request_of(1, 1, 1, 0, 16);
    assert_int_equal(ls_native_search(&machine, &task, &request, 0, found), LS_OK);
    task.memory_bytes = found->fits[0].prediction.memory_bytes - 1;
    assert_int_equal(ls_native_search(&machine, &task, &request, 0, found), LS_OK);
    assert_int_equal(found->fitting, 1);
    assert_int_equal(found->fits[0].layout.recompute, LS_RECOMPUTE_SELECTIVE);
    task.memory_bytes = 1e6;
    assert_int_equal(ls_native_search(&machine, &task, &request, 0, found), LS_OK);
    assert_int_equal(found->fitting, 0);
    assert_int_equal(found->lacks.layout.recompute, LS_RECOMPUTE_FULL);
    free(found);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_law_is_found_again),
        cmocka_unit_test(test_points_correct_the_law),
        cmocka_unit_test(test_passes_and_links_between_points),
        cmocka_unit_test(test_file_gives_it_back),
        cmocka_unit_test(test_memory_is_that_of_a_run),
        cmocka_unit_test(test_products_are_counted),
        cmocka_unit_test(test_recomputation_is_forward_again),
        cmocka_unit_test(test_pipelines_wait_and_share_cores),
        cmocka_unit_test(test_traffic_costs_time),
        cmocka_unit_test(test_attention_and_passes_are_counted),
        cmocka_unit_test(test_search_keeps_the_fastest),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
