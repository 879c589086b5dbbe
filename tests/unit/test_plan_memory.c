/* test_plan_memory.c: bytes of a stage against sums worked out here, and what must hold for every layout. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "plan/plan.h"

static ls_plan_task task_of(const char *stack, const char *chip, int chips, bool llama) {
    ls_plan_task t = {.seq = 2048, .global_batch = 256};
    t.shape = (ls_shape){.arch = llama ? LS_ARCH_LLAMA : LS_ARCH_GPT2, .V = 51200, .C = 4096, .L = 32, .H = 32};
    t.shape.T = t.seq;
    t.shape.head_size = 128;
    t.shape.kv_heads = llama ? 8 : 32;
    t.shape.hidden = llama ? 14336 : 16384;
    t.shape.tied = !llama;
    assert_int_equal(ls_stack_find(stack, &t.stack), LS_OK);
    assert_int_equal(ls_cluster_of(chip, chips, 8, &t.cluster), LS_OK);
    return t;
}

static ls_knobs layout_of(int dp, int tp, int pp, size_t micro, int zero, ls_recompute recompute) {
    return (ls_knobs){.dp = dp,
                      .tp = tp,
                      .pp = pp,
                      .virtual_stages = 1,
                      .context = 1,
                      .micro = micro,
                      .schedule = LS_SCHEDULE_1F1B,
                      .zero = zero,
                      .recompute = recompute,
                      .type = LS_PLAN_BF16};
}

static ls_prediction predict(const ls_plan_task *t, const ls_knobs *l) {
    ls_prediction p;
    assert_int_equal(ls_plan_check(t, l), LS_OK);
    assert_int_equal(ls_plan_predict(t, l, &p), LS_OK);
    return p;
}

static void assert_bytes(double got, double want) {
    if (!(got > want * (1 - 1e-9) && got < want * (1 + 1e-9))) fail_msg("%.0f bytes are not %.0f", got, want);
}

static double state_bytes(const ls_prediction *p) {
    return p->memory[LS_MEMORY_WEIGHTS] + p->memory[LS_MEMORY_GRADIENTS] + p->memory[LS_MEMORY_OPTIMIZER];
}

/* 32 layers of 12·4096² + 4·4096 weights and the table, 2 + 4 + 12 bytes each. */
static void test_states_of_one_chip(void **state) {
    (void)state;
    ls_plan_task t = task_of("megatron", "H100", 1, false);
    ls_knobs l = layout_of(1, 1, 1, 1, 0, LS_RECOMPUTE_NONE);
    ls_prediction p = predict(&t, &l);
    double params = 32 * (12.0 * 4096 * 4096 + 4 * 4096) + 51200.0 * 4096;
    assert_bytes(p.memory[LS_MEMORY_WEIGHTS], 2 * params);
    assert_bytes(state_bytes(&p), 18 * params);
}

/* Flash attention, no dropout: 4 norms + 2 + 2 inputs + 6 qkv + 2 heads + 16 MLP = 32 times the stream's elements. */
static void test_activations_of_a_layer(void **state) {
    (void)state;
    ls_plan_task t = task_of("megatron", "H100", 1, false);
    ls_knobs l = layout_of(1, 1, 1, 2, 0, LS_RECOMPUTE_NONE);
    ls_prediction p = predict(&t, &l);
    assert_bytes(p.memory[LS_MEMORY_ACTIVATIONS], 32.0 * 32 * 2 * 2048 * 4096);
    l.recompute = LS_RECOMPUTE_FULL;
    p = predict(&t, &l);
    assert_bytes(p.memory[LS_MEMORY_ACTIVATIONS], 32.0 * 2 * 2 * 2048 * 4096);
}

/* Every other product of a Llama layer is kept: its input, q, v, the heads, the gate, the last one's result. */
static void test_activations_of_selective_recomputation(void **state) {
    (void)state;
    ls_plan_task t = task_of("fsdp", "H100", 8, true);
    ls_knobs l = layout_of(8, 1, 1, 2, 3, LS_RECOMPUTE_SELECTIVE);
    ls_prediction p = predict(&t, &l);
    assert_bytes(p.memory[LS_MEMORY_ACTIVATIONS], 32.0 * 2 * 2 * 2048 * (4096 + 4096 + 1024 + 4096 + 14336 + 4096));
    double params = 32 * (4096.0 * (4096 + 2048) + 4096.0 * 4096 + 3 * 4096.0 * 14336 + 4 * 4096) + 2 * 51200.0 * 4096;
    assert_bytes(state_bytes(&p), 16 * params / 8);
}

/* With large tables the loss is the peak: three copies in fp32. */
static void test_logits_can_be_the_peak(void **state) {
    (void)state;
    ls_plan_task t = task_of("fsdp", "H100", 8, true);
    ls_knobs l = layout_of(8, 1, 1, 2, 3, LS_RECOMPUTE_FULL);
    t.shape.V = 256 * 1024;
    ls_prediction p = predict(&t, &l);
    assert_bytes(p.memory[LS_MEMORY_WORK], 2.0 * 2048 * (12.0 * 256 * 1024 + 2 * 2 * 4096));
}

static void test_memory_grows_with_the_micro_batch(void **state) {
    (void)state;
    for (int i = 0; ls_stack_row(i); i++) {
        for (int kind = 0; kind < 24; kind++) {
            int tp = kind & 1 ? 4 : 1, pp = kind & 2 ? 4 : 1, recompute = kind / 8;
            ls_plan_task t = task_of(ls_stack_row(i)->name, "A100", 32, kind & 4);
            double before = 0;
            for (size_t micro = 1; micro * (size_t)(32 / tp / pp) <= t.global_batch; micro *= 2) {
                ls_knobs l = layout_of(32 / tp / pp, tp, pp, micro, 1, (ls_recompute)recompute);
                ls_prediction p = predict(&t, &l);
                assert_true(p.memory_bytes > before);
                before = p.memory_bytes;
            }
        }
    }
}

static void test_sharding_more_never_needs_more_state(void **state) {
    (void)state;
    for (int i = 0; ls_stack_row(i); i++) {
        for (int kind = 0; kind < 16; kind++) {
            int tp = kind & 1 ? 2 : 1, pp = kind & 2 ? 4 : 1;
            ls_plan_task t = task_of(ls_stack_row(i)->name, "A100", 32, kind & 4);
            double before = 1e300;
            for (int zero = 0; zero <= 3; zero++) {
                ls_knobs l = layout_of(32 / tp / pp, tp, pp, 1, zero, LS_RECOMPUTE_NONE);
                l.type = kind & 8 ? LS_PLAN_FP16 : LS_PLAN_BF16;
                ls_prediction p = predict(&t, &l);
                assert_true(state_bytes(&p) <= before * (1 + 1e-12));
                before = state_bytes(&p);
            }
        }
    }
}

static void test_the_kinds_add_up(void **state) {
    (void)state;
    ls_plan_task t = task_of("megatron-2021", "A100", 64, false);
    ls_knobs l = layout_of(4, 4, 4, 2, 1, LS_RECOMPUTE_FULL);
    ls_prediction p = predict(&t, &l);
    double memory = 0, time = 0;
    for (int k = 0; k < LS_MEMORY_KINDS; k++) memory += p.memory[k];
    for (int k = 0; k < LS_TIME_KINDS; k++) {
        assert_true(p.time[k] >= 0);
        time += p.time[k];
    }
    assert_bytes(memory, p.memory_bytes);
    assert_bytes(time, p.seconds);
    assert_int_equal(p.heaviest_stage, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states_of_one_chip),
        cmocka_unit_test(test_activations_of_a_layer),
        cmocka_unit_test(test_activations_of_selective_recomputation),
        cmocka_unit_test(test_logits_can_be_the_peak),
        cmocka_unit_test(test_memory_grows_with_the_micro_batch),
        cmocka_unit_test(test_sharding_more_never_needs_more_state),
        cmocka_unit_test(test_the_kinds_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
