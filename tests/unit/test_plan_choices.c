/* test_plan_choices.c: knobs of other programs (states on the host or in fewer bits, hybrid sharding, sequences shared
 * by chips), what a program keeps with fp8, answers that hang on it, a run with failures, shapes by size. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/model.h"
#include "model/shape_file.h"
#include "plan/answer.h"
#include "plan/cost/cost_case.h"
#include "plan/published/published_runs.h"

static ls_plan_task task_of(const char *model, const char *chip, int chips, size_t seq, size_t batch,
                            const char *stack) {
    ls_plan_task task = {.seq = seq, .global_batch = batch};
    assert_int_equal(ls_shape_preset(model, &task.shape), LS_OK);
    assert_int_equal(ls_cluster_of(chip, chips, 0, &task.cluster), LS_OK);
    assert_int_equal(ls_stack_find(stack, &task.stack), LS_OK);
    return task;
}

static const ls_knobs SHARDED = {.dp = 64,
                                 .tp = 1,
                                 .pp = 1,
                                 .virtual_stages = 1,
                                 .context = 1,
                                 .micro = 1,
                                 .zero = 3,
                                 .recompute = LS_RECOMPUTE_FULL,
                                 .type = LS_PLAN_BF16};

static ls_prediction predict(const ls_plan_task *task, const ls_knobs *layout) {
    ls_prediction p;
    if (ls_plan_check(task, layout) != LS_OK) fail_msg("%s", ls_status_message());
    assert_int_equal(ls_plan_predict(task, layout, &p), LS_OK);
    return p;
}

static bool near(double a, double b) { return fabs(a - b) <= 1e-9 * fabs(b); }

/* ---- states ------------------------------------------------------------------------------------------------------ */

/* fp32 weights and two moments: 12 bytes; 8 with moments in 16 bits, 6 in 8; none on the chip where the host has them.
 */
static void test_states_take_what_they_have(void **state) {
    (void)state;
    ls_plan_task task = task_of("llama-8b", "H100", 64, 4096, 64, "fsdp");
    ls_knobs l = SHARDED;
    ls_prediction full = predict(&task, &l), p;
    l.state_bits = 16;
    p = predict(&task, &l);
    assert_true(near(p.memory[LS_MEMORY_OPTIMIZER], full.memory[LS_MEMORY_OPTIMIZER] * 8 / 12));
    assert_true(p.time[LS_TIME_OPTIMIZER] < full.time[LS_TIME_OPTIMIZER]);
    l.state_bits = 8;
    p = predict(&task, &l);
    assert_true(near(p.memory[LS_MEMORY_OPTIMIZER], full.memory[LS_MEMORY_OPTIMIZER] * 6 / 12));
    l.state_bits = 4;
    assert_int_equal(ls_plan_check(&task, &l), LS_ERR_INPUT);
    l.state_bits = 0;
    l.offload = true;
    p = predict(&task, &l);
    assert_true(p.memory[LS_MEMORY_OPTIMIZER] == 0);
    /* The host passes over 28 bytes of each parameter and sends two back. */
    double owned = ls_model_count_params(&task.shape) / 64, least = owned * (28 / 54e9 + 2 / 48e9);
    assert_true(p.time[LS_TIME_OPTIMIZER] > .95 * least && p.time[LS_TIME_OPTIMIZER] < 1.05 * least);
    task.cluster.site[0].chip.host_link = 0;
    assert_int_equal(ls_plan_check(&task, &l), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "host_link_bytes_per_second"));
}

static void test_shards_inside_a_node(void **state) {
    (void)state;
    ls_plan_task task = task_of("llama-8b", "H100", 64, 4096, 256, "fsdp");
    assert_int_equal(ls_link_find("25gbe", &task.cluster.site[0].between), LS_OK);
    ls_knobs l = SHARDED;
    ls_prediction all = predict(&task, &l), node;
    l.shard_group = 8;
    node = predict(&task, &l);
    /* Eight times the states; weights come from the node alone; an eighth of the gradients crosses nodes, once. */
    assert_true(near(node.memory[LS_MEMORY_OPTIMIZER], 8 * all.memory[LS_MEMORY_OPTIMIZER]));
    assert_true(node.time[LS_TIME_GATHER] < all.time[LS_TIME_GATHER] / 2);
    assert_true(node.link_dp > 0 && all.link_dp == 0 && node.seconds < all.seconds);
    l.shard_group = 64;
    node = predict(&task, &l);
    assert_true(near(node.seconds, all.seconds) && near(node.memory_bytes, all.memory_bytes));
    l.shard_group = 7;
    assert_int_equal(ls_plan_check(&task, &l), LS_ERR_INPUT);
    l.shard_group = 8;
    l.zero = 2;
    assert_int_equal(ls_plan_check(&task, &l), LS_ERR_INPUT);
    /* The search has it. */
    ls_layout_request request = ls_layout_request_none();
    ls_plan_choice best;
    ls_plan_task slow = task_of("llama-13b", "A100", 32, 2048, 128, "fsdp");
    assert_int_equal(ls_link_find("10gbe", &slow.cluster.site[0].between), LS_OK);
    assert_int_equal(ls_plan_fastest(&slow, &request, 0, &best), LS_OK);
    ls_knob_give(&request, LS_KNOB_shard_group, 0);
    ls_plan_choice without;
    assert_int_equal(ls_plan_fastest(&slow, &request, 0, &without), LS_OK);
    assert_true(without.layout.shard_group == 0 && best.prediction.seconds <= without.prediction.seconds);
}

/* Keys arrive over the link: its time is exposed if it is slow, overlapped with attention if it is fast. */
static void test_chips_share_a_sequence(void **state) {
    (void)state;
    ls_plan_task task = task_of("llama-8b", "H100", 16, 65536, 1, "megatron");
    ls_knobs l = SHARDED;
    l.dp = 1;
    l.context = 16;
    l.zero = 1;
    ls_prediction fast = predict(&task, &l);
    ls_plan_task slow = task;
    assert_int_equal(ls_link_find("1gbe", &slow.cluster.site[0].between), LS_OK);
    ls_prediction p = predict(&slow, &l);
    assert_true(p.time[LS_TIME_ATTENTION] > 2 * fast.time[LS_TIME_ATTENTION]);
    /* One sequence cannot be divided among replicas: long ones are shared. */
    ls_layout_request request = ls_layout_request_none();
    ls_plan_choice best;
    assert_int_equal(ls_plan_fastest(&task, &request, 0, &best), LS_OK);
    assert_true(best.prediction.seconds > 0 && best.layout.context > 1);
    ls_knob_give(&request, LS_KNOB_context, 1);
    ls_plan_choice one;
    assert_int_equal(ls_plan_fastest(&task, &request, 0, &one), LS_OK);
    assert_true(one.prediction.seconds == 0 || one.prediction.seconds > best.prediction.seconds);
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

/* GPT-3 20B on 64 H100 (NVIDIA NeMo's performance summary of 24.07): it ran; recomputation is not published. */
static void test_fp8_runs_need_no_recomputation(void **state) {
    (void)state;
    static const char text[] =
        "id,layers,hidden,heads,kv_heads,ffn_hidden,vocab,seq_len,gpu_type,n_gpus,gpus_per_node,dp,tp,pp,interleave_v,"
        "micro_batch,global_batch_seqs,zero_stage,recompute,sequence_parallel,precision,measured_metric,value,program,"
        "attention\n"
        "g,44,6144,48,48,24576,51200,2048,H100,64,8,32,2,1,1,2,256,,,,fp8,tokens_per_s_per_gpu,5851,megatron,flash\n"
        "b,44,6144,48,48,24576,51200,2048,H100,64,8,32,2,1,1,2,256,,,,bf16,tokens_per_s_per_gpu,,megatron,flash\n";
    ls_rows rows;
    ls_knobs chosen;
    ls_prediction p, wide;
    assert_int_equal(ls_rows_parse("t.csv", text, strlen(text), &rows), LS_OK);
    assert_int_equal(ls_row_predict(&rows.row[0], &chosen, &p), LS_OK);
    assert_int_equal(chosen.recompute, LS_RECOMPUTE_NONE);
    assert_true(chosen.sequence_parallel && p.memory_bytes < p.capacity_bytes);
    assert_true(fabs(p.seconds / ls_row_measured(&rows.row[0]) - 1) < .1);
    /* In bf16 gradients are in fp32, and inputs of matmuls are whole. */
    ls_knobs same = chosen;
    same.type = LS_PLAN_BF16;
    assert_int_equal(ls_plan_predict(&rows.row[1].task, &same, &wide), LS_OK);
    assert_true(near(wide.memory[LS_MEMORY_GRADIENTS], 2 * p.memory[LS_MEMORY_GRADIENTS]));
    assert_true(wide.memory[LS_MEMORY_ACTIVATIONS] > 1.1 * p.memory[LS_MEMORY_ACTIVATIONS]);
    ls_rows_free(&rows);
}

/* 30B on 8 A100 and 70B on 16 H100 hang on what the program keeps, and say so; 8B on 8 H100 does not. */
static void test_answers_that_hang_on_the_program(void **state) {
    (void)state;
    static const struct {
        const char *model, *chip;
        int chips, habits;
        bool fits;
    } rows[] = {
        {"llama-30b", "A100", 8, 2, true}, {"llama-70b", "H100", 16, 2, false}, {"llama-1b", "H200", 8, 0, true}};
    ls_plan_answer *a = malloc(sizeof *a);
    assert_non_null(a);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_plan_question q = {.task = task_of(rows[i].model, rows[i].chip, rows[i].chips, 2048, 1024, "megatron")};
        q.request = ls_layout_request_none();
        q.request.memory_bytes = .95 * q.task.cluster.site[0].chip.memory_bytes;
        if (!rows[i].fits) q.task.seq = 4096;
        assert_int_equal(ls_plan_answer_find(&q, a), LS_OK);
        assert_int_equal(a->best != NULL, rows[i].fits);
        assert_int_equal(a->habits, rows[i].habits);
        for (int h = 0; h < a->habits; h++) assert_true(a->habit[h].best.prediction.seconds > 0);
        if (!rows[i].fits) assert_true(a->remedy.is_offloaded && a->remedy.offloaded.layout.offload);
    }
    free(a);
}

/* Every program says what it keeps and where that comes from. */
static void test_memory_of_programs_has_a_source(void **state) {
    (void)state;
    for (int i = 0; ls_stack_row(i); i++) assert_non_null(ls_stack_row(i)->memory_source);
    ls_plan_task megatron = task_of("llama-8b", "H100", 64, 4096, 64, "megatron");
    ls_plan_task fsdp = task_of("llama-8b", "H100", 64, 4096, 64, "fsdp");
    ls_prediction m = predict(&megatron, &SHARDED), f = predict(&fsdp, &SHARDED);
    double params = m.memory[LS_MEMORY_OPTIMIZER] / 12;
    assert_true(near(m.memory[LS_MEMORY_WEIGHTS], 2 * params) && f.memory[LS_MEMORY_WEIGHTS] == 0);
}

/* ---- the end of a run -------------------------------------------------------------------------------------------- */

static void test_the_best_interval_is_best(void **state) {
    (void)state;
    const double day = 86400, restart = 600;
    ls_course c = ls_course_of(30 * day, 4 * 3600, 1e12, 20e9, restart);
    assert_true(near(c.save_seconds, 50) && c.seconds > c.work_seconds && near(c.goodput, c.work_seconds / c.seconds));
    for (double factor = .5; factor < 2; factor += .1)
        assert_true(ls_course_seconds(&c, factor * c.interval_seconds, restart) >= c.seconds * (1 - 1e-12));
    /* By hand: M = 14400, d = 50: t = sqrt(2500 + 100 · 13775) − 50. */
    assert_true(fabs(c.interval_seconds - (sqrt(2500 + 100 * 13775.0) - 50)) < 1e-6);
    assert_true(near(c.failures, c.seconds / 14400));
    /* Young's interval where failures are rare. */
    c = ls_course_of(30 * day, 1e7, 1e12, 20e9, restart);
    assert_true(fabs(c.interval_seconds / sqrt(2 * 50 * 1e7) - 1) < .01 && c.goodput > .99);
    /* Failures faster than restarts: it never ends. */
    c = ls_course_of(30 * day, 500, 1e12, 20e9, restart);
    assert_true(c.seconds == 0 && c.goodput == 0);
}

/* By hand: 1 s of 3 h, and half of a step of 2 s, or of every fourth; saves hold it up by 1 %. */
static void test_a_run_that_mends_itself(void **state) {
    (void)state;
    ls_mending m = {
        .seen_seconds = .01, .restart_seconds = .59, .slower_seconds = .4, .step_seconds = 2, .again_share = 1};
    double aside, whole;
    ls_mending_goodput(&m, 10800, &aside, &whole);
    assert_true(near(aside, 1 - 1 / 10800.0) && near(whole, 1 - 2 / 10800.0) && aside > .999);
    m.save_share = .01;
    ls_mending_goodput(&m, 10800, &aside, &whole);
    assert_true(near(whole, (1 - 2 / 10800.0) / 1.01));
    m.again_share = .25;
    ls_mending_goodput(&m, 10800, &aside, &whole);
    assert_true(near(whole, (1 - 1.25 / 10800.0) / 1.01));
    m.again_share = 1;
    ls_mending_goodput(&m, 1.5, &aside, &whole); /* a failure before the step is done: it never ends */
    assert_true(aside > 0 && whole == 0);
}

static void test_a_run_with_failures(void **state) {
    (void)state;
    ls_plan_question q = {.task = task_of("llama-8b", "H100", 64, 4096, 64, "fsdp"), .tokens = 1e12};
    ls_plan_choice choice = {.layout = SHARDED, .prediction = predict(&q.task, &SHARDED)};
    assert_true(ls_plan_course_of(&q, &q.task, &choice).mtbf_seconds == 0);
    q.failures = (ls_plan_failures){.node_seconds = 8e5, .bytes_per_second = 8e9, .restart_seconds = 600};
    ls_course c = ls_plan_course_of(&q, &q.task, &choice);
    assert_true(near(c.mtbf_seconds, 1e5)); /* of eight nodes */
    assert_true(near(c.checkpoint_bytes, 14 * ls_model_count_params(&q.task.shape)));
    assert_true(near(c.work_seconds, 1e12 / (64 * 4096 / choice.prediction.seconds)));
}

/* ---- shapes by size ---------------------------------------------------------------------------------------------- */

static void test_shapes_by_size(void **state) {
    (void)state;
    static const struct {
        const char *family;
        double params;
        size_t heads;
    } rows[] = {{"llama", 7e9, 32}, {"llama", 13e9, 40}, {"llama", 70e9, 72}, {"gpt3", 6.7e9, 32},
                {"gpt3", 13e9, 40}, {"gpt3", 175e9, 96}, {"llama", 1e9, 16},  {"gpt3", 1e12, 168}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_shape s;
        assert_int_equal(ls_shape_of_size(rows[i].family, rows[i].params, &s), LS_OK);
        assert_int_equal(ls_shape_check(&s), LS_OK);
        double off = ls_model_count_params(&s) / rows[i].params - 1;
        if (fabs(off) > .05) fail_msg("%s is %g parameters", s.name, ls_model_count_params(&s));
        if (s.H > rows[i].heads + 8 || s.H + 8 < rows[i].heads) fail_msg("%s has %zu heads", s.name, s.H);
        assert_true(s.H % 4 == 0 && s.C == 128 * s.H);
    }
    ls_shape s;
    assert_int_equal(ls_shape_of_size("llama", 10, &s), LS_ERR_INPUT);
    assert_int_equal(ls_shape_of_size("bert", 1e9, &s), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "llama or gpt3"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states_take_what_they_have),
        cmocka_unit_test(test_shards_inside_a_node),
        cmocka_unit_test(test_chips_share_a_sequence),
        cmocka_unit_test(test_fp8_runs_need_no_recomputation),
        cmocka_unit_test(test_answers_that_hang_on_the_program),
        cmocka_unit_test(test_memory_of_programs_has_a_source),
        cmocka_unit_test(test_the_best_interval_is_best),
        cmocka_unit_test(test_a_run_that_mends_itself),
        cmocka_unit_test(test_a_run_with_failures),
        cmocka_unit_test(test_shapes_by_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
