/* test_native_gpu.c: this program's layouts on GPUs whose figures were made up: files, prices of kernels, workers that
 * share a GPU or have one each, and memory, which is that of a dry run on such a GPU. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ask.h"
#include "made_machine.h"
#include "model/model.h"
#include "model/shape_file.h"
#include "parallel/layout/micro_batches.h"
#include "plan/native/native.h"
#include "plan/native/overlap.h"
#include "plan/native/price.h"
#include "run/trainer.h"

enum { B = 16, T = 64, G = 8, S = 8 };

static ls_native_machine machine, gpus;
static ls_shape tiny;
static ls_settings settings;

/* One GPU, ten times as fast as the CPU; `count` of them. */
static void make_gpus(int count) {
    ls_native_gpu *g = &machine.gpu;
    double law[4] = {FLOP / 10, 0, 0, 0};
    make_machine(&machine);
    *g = (ls_native_gpu){.count = count, .name = "NVIDIA H200", .capability = 90, .memory_bytes = 140 * 0x1p30};
    g->free_bytes = 139 * 0x1p30;
    g->matmul_flops_per_second = g->peak_flops_per_second = 10 / FLOP;
    g->unit_flops_per_second = 100 / FLOP;
    g->copy_bytes_per_second = g->to_bytes_per_second = g->from_bytes_per_second = 1e12;
    g->open_seconds = g->read_seconds = NEXT_TO_NOTHING;
    g->rates = machine.rates[0];
    g->rates.threads = 1;
    g->rates.sizes = (ls_native_sizes){{1 << 10, 1 << 20}, {64, 128}, {256, 1024, 4096}};
    fill_products(&g->rates, law);
    for (int i = 0; i < LS_NATIVE_LINK_SIZES; i++) g->link_bytes[i] = (size_t)1 << (10 + i);
    for (int op = 0; op < LS_NATIVE_OPS; op++)
        g->link[g->links++] = (ls_native_link){2, 2, (ls_native_op)op, {1e-15, 1e-15, 1e-15, 1e-15}};
    if (ls_native_on_gpus(&machine, &gpus) != LS_OK) fail_msg("%s", ls_status_message());
}

static int set_up(void **state) {
    (void)state;
    return ls_shape_preset("tiny", &tiny) == LS_OK ? 0 : -1;
}

static ls_native_task task_of(const char *device) {
    settings =
        (ls_settings){.shape = tiny, .slices = S, .groups = G, .B = B, .T = T, .options.check = LS_CHECK_REPLICAS};
    settings.options.device = device;
    return (ls_native_task){.settings = &settings};
}

static ls_layout layout_of(const ls_native_task *task, int dp, int tp, int pp) {
    ls_layout_request request = ls_layout_request_none();
    ls_model *model;
    ls_layout layout;
    ask(&request, LS_KNOB_dp, dp);
    ask(&request, LS_KNOB_tp, tp);
    ask(&request, LS_KNOB_pp, pp);
    ask(&request, LS_KNOB_micro, B / dp / pp);
    assert_int_equal(ls_model_create(&task->settings->shape, task->settings->slices, &model), LS_OK);
    ls_layout_task of = ls_trainer_task(task->settings, model);
    if (ls_layout_make(&request, &of, &layout) != LS_OK) fail_msg("%s", ls_status_message());
    ls_model_destroy(model);
    return layout;
}

static ls_prediction predict(int dp, int tp, int pp) {
    ls_native_task task = task_of("cuda");
    ls_layout layout = layout_of(&task, dp, tp, pp);
    ls_prediction p;
    if (ls_native_predict(&gpus, &task, &layout, &p) != LS_OK) fail_msg("%s", ls_status_message());
    return p;
}

static void assert_near(double value, double expected, double share) {
    if (!(fabs(value - expected) <= share * fabs(expected))) fail_msg("%.9g is not %.9g", value, expected);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void test_file_gives_it_back(void **state) {
    (void)state;
    ls_native_machine *back = malloc(sizeof *back);
    assert_non_null(back);
    make_gpus(2);
    machine.gpu.rates.pass[LS_PASS_NORM_SUM][0][0] = 0; /* a GPU that has no such pass */
    machine.gpu.rates.pass[LS_PASS_NORM_SUM][1][0] = 0;
    json_t *json = ls_native_machine_to_json(&machine);
    assert_non_null(json);
    if (ls_native_machine_from_json("test", json, back) != LS_OK) fail_msg("%s", ls_status_message());
    json_t *again = ls_native_machine_to_json(back), *gpu = json_object_get(json, "gpu");
    assert_true(json_equal(json, again));
    assert_true(back->gpu.rates.law[LS_GEMM_NT][0].known);
    assert_int_equal(back->gpu.rates.sizes.pass[1], 1 << 20);
    assert_false(ls_native_has_pass(&back->gpu.rates, LS_PASS_NORM_SUM, false));
    json_decref(again);

    json_t *sizes = json_object_get(json_object_get(gpu, "rates"), "pass_elems");
    json_array_set_new(sizes, 1, json_integer(5)); /* they ascend */
    assert_int_equal(ls_native_machine_from_json("test", json, back), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "gpu: pass_elems"));
    json_array_set_new(sizes, 1, json_integer(1 << 20));
    json_object_set_new(gpu, "free_bytes", json_real(-1));
    assert_int_equal(ls_native_machine_from_json("test", json, back), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "free_bytes"));

    /* A file of before: it reads, and has no kernels to plan with. */
    json_object_del(gpu, "rates");
    json_object_del(gpu, "links");
    json_object_del(gpu, "free_bytes");
    assert_int_equal(ls_native_machine_from_json("test", json, back), LS_OK);
    assert_int_equal(ls_native_on_gpus(back, &gpus), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "older"));
    back->gpu.count = 0;
    assert_int_equal(ls_native_on_gpus(back, &gpus), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "no GPU"));
    json_decref(json);
    free(back);
}

/* ---- prices ------------------------------------------------------------------------------------------------------ */

/* All tensors are updated by one launch. */
static void test_an_update_starts_once(void **state) {
    (void)state;
    make_gpus(1);
    gpus.rates[0].pass[LS_PASS_ADAMW][0][0] = gpus.rates[0].pass[LS_PASS_ADAMW][0][1] = 1e-3;
    assert_near(predict(1, 1, 1).time[LS_TIME_OPTIMIZER], 1e-3, 1e-3);
}

/* Between the sizes, and beyond them, a pass costs a start and so much for an element; never less than a start. */
static void test_passes_are_lines(void **state) {
    (void)state;
    ls_native_rates *r = &gpus.rates[0];
    make_gpus(1);
    r->launch_seconds = 1e-6;
    r->pass[LS_PASS_ADD][0][0] = 2e-6;
    r->pass[LS_PASS_ADD][0][1] = 2e-6 + 1e-9 * ((1 << 20) - (1 << 10));
    assert_near(ls_native_pass_seconds(r, LS_PASS_ADD, false, 1 << 19), 2e-6 + 1e-9 * ((1 << 19) - (1 << 10)), 1e-9);
    assert_near(ls_native_pass_seconds(r, LS_PASS_ADD, false, 1 << 22), 2e-6 + 1e-9 * ((1 << 22) - (1 << 10)), 1e-9);
    assert_near(ls_native_pass_seconds(r, LS_PASS_ADD, false, 1), 1e-6, .01);
}

/* What is one kernel is priced as one. */
static void test_fused_passes(void **state) {
    (void)state;
    ls_price *price = malloc(sizeof *price);
    ls_native_rates *r = &gpus.rates[0];
    char branch;
    ls_norm_call call = {.rows = 1 << 10, .C = 1 << 10, .act = LS_BF16, .branch = &branch};
    assert_non_null(price);
    make_gpus(1);
    r->pass[LS_PASS_NORM_SUM][1][1] = 7;
    r->pass[LS_PASS_NORM][1][1] = 5;
    r->pass[LS_PASS_ADD][1][1] = 4;
    ls_price_open(price, r, 0, NULL);
    assert_int_equal(price->device.ops->norm_forward(&price->device, &call), LS_OK);
    assert_near(ls_price_sum(price), 7, 1e-9);
    call.branch = NULL;
    ls_price_clear(price);
    assert_int_equal(price->device.ops->norm_forward(&price->device, &call), LS_OK);
    assert_near(ls_price_sum(price), 5, 1e-9);
    call.branch = &branch;
    r->pass[LS_PASS_NORM_SUM][1][0] = 0;
    ls_price_clear(price);
    assert_int_equal(price->device.ops->norm_forward(&price->device, &call), LS_OK);
    assert_near(ls_price_sum(price), 9, 1e-9);
    /* fp16 by the unit is as fast as bf16. */
    assert_int_equal(ls_native_type_of(LS_F16, LS_UNIT_HGMMA), ls_native_type_of(LS_BF16, LS_UNIT_HGMMA));
    assert_int_equal(ls_native_type_of(LS_F16, LS_UNIT_CHAIN), 1);
    free(price);
}

static double price_of_activation(ls_price *price, ls_act_fn fn, bool backward) {
    ls_act_call call = {.fn = fn, .act = LS_BF16, .n = 1 << 20};
    const ls_ops *ops = price->device.ops;
    ls_price_clear(price);
    assert_int_equal((backward ? ops->act_backward : ops->act_forward)(&price->device, &call), LS_OK);
    return ls_price_sum(price);
}

static void test_activations_have_their_own_prices(void **state) {
    (void)state;
    ls_price *price = calloc(1, sizeof *price);
    ls_native_rates *r = &gpus.rates[0];
    assert_non_null(price);
    make_gpus(1);
    r->pass[LS_PASS_GELU][1][1] = 7;
    r->pass[LS_PASS_GELU_BACK][1][1] = 8;
    r->pass[LS_PASS_GATED][1][1] = 5;
    r->pass[LS_PASS_GATED_BACK][1][1] = 6;
    r->pass[LS_PASS_SET][0][1] = 2;
    r->pass[LS_PASS_ADD][1][1] = 3;
    ls_price_open(price, r, 0, NULL);
    assert_near(price_of_activation(price, LS_ACT_GELU, false), 7, 1e-9);
    assert_near(price_of_activation(price, LS_ACT_GELU, true), 8, 1e-9);
    assert_near(price_of_activation(price, LS_ACT_SILU, false), 5, 1e-9);
    assert_near(price_of_activation(price, LS_ACT_SILU, true), 6, 1e-9);
    assert_near(price_of_activation(price, LS_ACT_SIGMOID, false), 5, 1e-9);
    assert_near(price_of_activation(price, LS_ACT_RELU, false), 2,
                1e-9); /* 2 bytes read and 2 written, as 2^20 floats */
    assert_near(price_of_activation(price, LS_ACT_RELU, true), 3, 1e-9);
    free(price);
}

static double price_of_attention(ls_price *price, size_t window) {
    ls_attention part = {.T = 256, .heads = 4, .kv_heads = 4, .head_size = 64, .mask = {window}};
    ls_attention_call call = {.parts = &part, .nparts = 1, .B = 2};
    ls_price_clear(price);
    assert_int_equal(price->device.ops->attention_forward(&price->device, &call), LS_OK);
    return ls_price_sum(price) - price->rates->launch_seconds;
}

static void test_a_window_costs_its_pairs(void **state) {
    (void)state;
    ls_price *price = calloc(1, sizeof *price);
    assert_non_null(price);
    make_gpus(1);
    ls_price_open(price, &gpus.rates[0], 0, NULL);
    double causal = price_of_attention(price, 0);
    assert_near(price_of_attention(price, 256), causal, 1e-9);
    assert_near(price_of_attention(price, 1), causal * 256 / (256 * 257 / 2), 1e-6);
    free(price);
}

/* ---- workers ----------------------------------------------------------------------------------------------------- */

/* Two workers of one GPU take turns at it; each with a GPU of its own, they need half the time. */
static void test_workers_share_a_gpu(void **state) {
    (void)state;
    make_gpus(1);
    double alone = predict(1, 1, 1).seconds, together = predict(2, 1, 1).seconds;
    assert_near(together, alone, .02);
    make_gpus(2);
    assert_near(predict(2, 1, 1).seconds, alone / 2, .02);
    assert_near(predict(1, 1, 1).seconds, alone, 1e-9);
}

/* ---- collectives behind computing -------------------------------------------------------------------------------- */

/* Two micro-batches through three blocks: backward of the last one takes from 6 to 10. */
static void test_reductions_follow_blocks(void **state) {
    (void)state;
    double made[] = {1, .75, .25}, elems[] = {1, 2, 5}, begin[] = {0, 2, 4, 6}, end[] = {2, 4, 6, 10};
    const ls_native_grads grads = {made, elems};
    ls_micro of_rounds[] = {{0, 1, 0, true}, {1, 2, 1, true}};
    const ls_micro_list micros = {.count = 2, .rounds = 2, .most = 1, .micro = of_rounds};
    ls_layout layout = {.dp = 2, .tp = 1, .pp = 1, .virtual_stages = 1, .chunk_first = {0, 3}};
    ls_schedule schedule;
    assert_int_equal(ls_schedule_make(LS_SCHEDULE_GPIPE, 1, 1, 2, &schedule), LS_OK);
    assert_int_equal(schedule.count[0], 4);
    /* Made at 7, 9 and 10. Short ones: only that of block 0, an eighth, is left at the end. */
    assert_near(ls_native_reduce_end(&layout, &schedule, 0, &micros, &grads, .8, begin, end), 10.1, 1e-12);
    /* Of the head 5 from 7 on, then 2 and 1 without a pause. */
    assert_near(ls_native_reduce_end(&layout, &schedule, 0, &micros, &grads, 8, begin, end), 15, 1e-12);
    /* Between: the head's ends at 8.5, block 1's goes from 9 to 9.6, block 0's begins at 10. */
    assert_near(ls_native_reduce_end(&layout, &schedule, 0, &micros, &grads, 2.4, begin, end), 10.3, 1e-12);
    assert_near(ls_native_reduce_end(&layout, &schedule, 0, &micros, &grads, 0, begin, end), 10, 1e-12);
    /* By rounds, of half as much each: those of the first, made at 4.5, 5.5 and 6, are over when the second begins. */
    layout.zero = 2;
    assert_near(ls_native_reduce_end(&layout, &schedule, 0, &micros, &grads, 1.6, begin, end), 10.1, 1e-12);
    /* 16: 5 from 4.5, 2 and 1 without a pause, and the same again. */
    assert_near(ls_native_reduce_end(&layout, &schedule, 0, &micros, &grads, 16, begin, end), 20.5, 1e-12);
    ls_schedule_free(&schedule);
}

static void test_gathers_are_ahead(void **state) {
    (void)state;
    assert_near(ls_native_gather_seen(4, 4, 100), 1, 1e-12); /* the first block's alone */
    assert_near(ls_native_gather_seen(4, 4, 2), 1 + 3 - 1.5, 1e-12);
    assert_near(ls_native_gather_seen(1, 4, 100), 4, 1e-12);
    assert_near(ls_native_gather_seen(4, 0, 100), 0, 1e-12);
}

static ls_prediction predict_with_links(double seconds, int dp, int pp, int zero) {
    ls_native_task task = task_of("cuda");
    make_gpus(4);
    for (int i = 0; i < gpus.links; i++)
        for (int k = 0; k < LS_NATIVE_LINK_SIZES; k++) gpus.link[i].seconds[k] = seconds;
    ls_layout layout = layout_of(&task, dp, 1, pp);
    layout.zero = zero;
    ls_prediction p;
    if (ls_native_predict(&gpus, &task, &layout, &p) != LS_OK) fail_msg("%s", ls_status_message());
    return p;
}

/* What is hidden and what is waited for are the whole; a step never gets shorter by slower links, and hides at most
 * what it computes. */
static void test_reductions_are_hidden(void **state) {
    (void)state;
    for (int zero = 0; zero < 4; zero++)
        for (int pp = 1; pp <= 2; pp++) {
            double before = 0, alone = predict_with_links(1e-15, 2, pp, zero).seconds;
            for (double seconds = 1e-6; seconds < 100; seconds *= 10) {
                ls_prediction p = predict_with_links(seconds, 2, pp, zero);
                double sum = 0;
                for (int k = 0; k < LS_TIME_KINDS; k++) sum += p.time[k];
                assert_near(sum, p.seconds, 1e-9);
                assert_near(p.time[LS_TIME_DP] + p.hidden_dp, p.link_dp, 1e-9);
                assert_true(p.link_dp > 0 && p.hidden_dp >= 0 && p.time[LS_TIME_DP] > 0);
                assert_true(p.hidden_dp <= alone + pp * p.time[LS_TIME_P2P] + p.time[LS_TIME_GATHER]);
                assert_true(p.seconds >= before);
                before = p.seconds;
            }
        }
    /* A CPU's cores compute or move data. */
    ls_native_task task = task_of("cpu");
    ls_layout layout = layout_of(&task, 2, 1, 1);
    ls_prediction p;
    assert_int_equal(ls_native_predict(&machine, &task, &layout, &p), LS_OK);
    assert_true(p.hidden_dp == 0 && p.link_dp == p.time[LS_TIME_DP]);
}

static void test_search_takes_the_gpus(void **state) {
    (void)state;
    ls_layout_request request = ls_layout_request_none();
    ls_native_found *found = malloc(sizeof *found);
    ls_native_task task = task_of("cuda");
    assert_non_null(found);
    make_gpus(2);
    assert_int_equal(ls_native_search(&gpus, &task, &request, 0, found), LS_OK);
    assert_int_equal(ls_layout_workers(&found->fits[0].layout), 2);
    /* What workers cost each other is not known: one. */
    gpus.links = 0;
    assert_int_equal(ls_native_search(&gpus, &task, &request, 0, found), LS_OK);
    assert_int_equal(ls_layout_workers(&found->fits[0].layout), 1);
    free(found);
}

/* It is about the slices of a worker, on tensor cores. */
static void test_slices_are_warned_of(void **state) {
    (void)state;
    const ls_policy fp32 = {.act = LS_F32, .unit = LS_UNIT_HGMMA}, unit = {.act = LS_BF16, .unit = LS_UNIT_HGMMA},
                    chain = {.act = LS_BF16};
    char text[256];
    assert_false(ls_native_warn_slices(&unit, 2, 1, text, sizeof text));
    assert_false(ls_native_warn_slices(&unit, 8, 4, text, sizeof text));
    assert_false(ls_native_warn_slices(&chain, 8, 1, text, sizeof text));
    assert_false(ls_native_warn_slices(&fp32, 8, 1, text, sizeof text));
    assert_true(ls_native_warn_slices(&unit, 8, 2, text, sizeof text));
    assert_non_null(strstr(text, "adds up 4 slices"));
    assert_non_null(strstr(text, " 8 % longer with 4"));
    assert_true(ls_native_warn_slices(&unit, 64, 1, text, sizeof text));
    assert_non_null(strstr(text, "--slices 64"));
    assert_non_null(strstr(text, " 21 % longer with 8"));
    assert_true(strlen(text) < sizeof text - 1);
}

static void test_peak(void **state) {
    (void)state;
    make_gpus(2);
    ls_policy fp32 = {.act = LS_F32}, unit = {.act = LS_BF16, .unit = LS_UNIT_HGMMA}, chain = {.act = LS_BF16};
    assert_near(ls_native_peak(&gpus, &fp32), 20 / FLOP, 1e-12);
    assert_near(ls_native_peak(&gpus, &unit), 200 / FLOP, 1e-12);
    assert_near(ls_native_peak(&gpus, &chain), 20 / FLOP, 1e-12);
    assert_true(ls_native_peak(&machine, &unit) == 0);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void test_memory_is_that_of_a_dry_run(void **state) {
    (void)state;
    static const int meshes[][3] = {{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {1, 1, 2}};
    make_gpus(2);
    for (size_t i = 0; i < sizeof meshes / sizeof *meshes; i++) {
        const int *m = meshes[i];
        ls_prediction p = predict(m[0], m[1], m[2]);
        ls_native_task task = task_of("cuda"), cpu = task;
        ls_layout layout = layout_of(&task, m[0], m[1], m[2]);
        double heaviest = 0, of_cpu = 0;
        for (int rank = 0; rank < ls_layout_workers(&layout); rank++) {
            ls_dry_worker worker;
            assert_int_equal(ls_dry_measure(task.settings, &layout, rank, &worker), LS_OK);
            if ((double)worker.arena > heaviest) heaviest = (double)worker.arena;
        }
        assert_true(p.memory_bytes == heaviest);
        /* It is another number than a CPU's: scratch of kernels is in it. */
        cpu = task_of("cpu");
        ls_dry_worker worker;
        assert_int_equal(ls_dry_measure(cpu.settings, &layout, 0, &worker), LS_OK);
        of_cpu = (double)worker.arena;
        assert_true(of_cpu != heaviest);
    }
}

/* Workers of one GPU share what it has beside their contexts; those of two do not share. */
static void test_room(void **state) {
    (void)state;
    make_gpus(1);
    double one = ls_native_gpu_room(&machine.gpu, 1), two = ls_native_gpu_room(&machine.gpu, 2);
    assert_true(one < machine.gpu.free_bytes && two < one);
    assert_near(predict(1, 1, 1).capacity_bytes, one, 1e-12);
    assert_near(predict(2, 1, 1).capacity_bytes, two / 2, 1e-4); /* by their bytes: one has a checksum more */
    make_gpus(2);
    assert_near(predict(2, 1, 1).capacity_bytes, one, 1e-12);

    /* A GPU that is full: nothing fits, and it says which memory. */
    ls_layout_request request = ls_layout_request_none();
    ls_native_found *found = malloc(sizeof *found);
    ls_native_task task = task_of("cuda");
    assert_non_null(found);
    gpus.gpu.free_bytes = 50 * 0x1p20;
    assert_int_equal(ls_native_complete(&gpus, task.settings, &request, found), LS_ERR_RESOURCE);
    assert_non_null(strstr(ls_status_message(), "GPU"));
    free(found);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file_gives_it_back),
        cmocka_unit_test(test_an_update_starts_once),
        cmocka_unit_test(test_passes_are_lines),
        cmocka_unit_test(test_fused_passes),
        cmocka_unit_test(test_activations_have_their_own_prices),
        cmocka_unit_test(test_a_window_costs_its_pairs),
        cmocka_unit_test(test_workers_share_a_gpu),
        cmocka_unit_test(test_reductions_follow_blocks),
        cmocka_unit_test(test_gathers_are_ahead),
        cmocka_unit_test(test_reductions_are_hidden),
        cmocka_unit_test(test_search_takes_the_gpus),
        cmocka_unit_test(test_slices_are_warned_of),
        cmocka_unit_test(test_peak),
        cmocka_unit_test(test_memory_is_that_of_a_dry_run),
        cmocka_unit_test(test_room),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
