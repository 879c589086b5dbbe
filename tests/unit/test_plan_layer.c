/* test_plan_layer.c: what a layer costs beside its products: the host that starts its kernels, sums of gradients, heads
 * of odd sizes. Values are worked out from parts of the same case. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "plan/cost/cost_case.h"

static const ls_knobs ONE = {
    .dp = 2, .tp = 1, .pp = 1, .virtual_stages = 1, .context = 1, .micro = 2, .zero = 1, .type = LS_PLAN_FP16};

static void near_to(const char *what, double got, double expected) {
    if (!(fabs(got - expected) <= 1e-9 * fabs(expected))) fail_msg("%s: %.12g, expected %.12g", what, got, expected);
}

static ls_plan_task task_of(const char *stack, size_t heads) {
    ls_plan_task task = {.seq = 1024, .global_batch = 64};
    task.shape = (ls_shape){.arch = LS_ARCH_GPT2,
                            .L = 12,
                            .C = 1536,
                            .H = heads,
                            .kv_heads = heads,
                            .head_size = 1536 / heads,
                            .hidden = 4 * 1536,
                            .V = 51200,
                            .T = 1024,
                            .tied = true};
    if (ls_cluster_of("A100", 2, 8, &task.cluster) != LS_OK) fail_msg("%s", ls_status_message());
    if (ls_stack_find(stack, &task.stack) != LS_OK) fail_msg("%s", ls_status_message());
    return task;
}

static ls_layer_time layer_of(const ls_plan_task *task, const ls_knobs *layout) {
    ls_plan_case c = ls_plan_case_of(task, layout);
    return ls_plan_layer(&c);
}

/* The chip's own time s, and a host that needs part or a multiple of it. */
static void test_host(void **state) {
    (void)state;
    static const double rows[][2] = {{0, 1}, {.5, 1.01875}, {1, 1.15}, {2, 2.0375}, {1000, 1000 + .15e-6}};
    ls_plan_task task = task_of("megatron-2021", 12);
    task.stack.layer_host_seconds = 0;
    ls_layer_time free_host = layer_of(&task, &ONE);
    double alone = ls_pass_sum(&free_host.forward);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        task.stack.layer_host_seconds = rows[i][0] * alone;
        ls_layer_time layer = layer_of(&task, &ONE);
        near_to("a forward pass", ls_pass_sum(&layer.forward), rows[i][1] * alone);
        near_to("its products", layer.forward.matmuls, free_host.forward.matmuls);
    }
}

/* A longer host never makes a layer faster, near the point where both are the same either. */
static void test_host_is_monotone(void **state) {
    (void)state;
    ls_plan_task task = task_of("megatron-2021", 12);
    double before = 0;
    for (int i = 0; i <= 400; i++) {
        task.stack.layer_host_seconds = i * 1e-5;
        ls_layer_time layer = layer_of(&task, &ONE);
        double now = ls_pass_sum(&layer.forward) + ls_pass_sum(&layer.backward);
        assert_true(now >= before);
        before = now;
    }
}

/* 16-bit sums: read and written, instead of written. fp32 sums: 4 + 4 instead of 2. Divided ones are not there. */
static void test_sums_of_gradients(void **state) {
    (void)state;
    static const struct {
        const char *stack;
        double bytes;
    } rows[] = {{"megatron-2021", 2}, {"megatron", 6}};
    for (size_t i = 0; i < 2; i++) {
        ls_plan_task task = task_of(rows[i].stack, 12);
        task.stack.layer_host_seconds = 0;
        ls_knobs whole = ONE, divided = ONE;
        divided.zero = 2;
        ls_plan_case c = ls_plan_case_of(&task, &whole);
        double expected = rows[i].bytes * ls_plan_layer_params(&c) / (2039e9 * c.site->chip.bandwidth_share);
        ls_layer_time a = layer_of(&task, &whole), b = layer_of(&task, &divided);
        near_to("sums of a layer", a.backward.small - b.backward.small, expected);
        near_to("forward", ls_pass_sum(&a.forward), ls_pass_sum(&b.forward));
    }
}

/* Heads of 96 instead of 128: the two products take 4/3 of their time, the passes over the scores do not. */
static void test_odd_heads(void **state) {
    (void)state;
    ls_plan_task task = task_of("megatron-2021", 16);
    task.stack.layer_host_seconds = 0;
    const ls_chip *chip = &task.cluster.site[0].chip;
    ls_layer_time layer = layer_of(&task, &ONE);
    double heads = 2 * 16, scores = 2. * 1024 * 1024 * 16;
    double both = ls_plan_matmul_seconds(chip, LS_PLAN_FP16, 1024, 1024, 96, heads) +
                  ls_plan_matmul_seconds(chip, LS_PLAN_FP16, 1024, 96, 1024, heads);
    near_to("forward", layer.forward.attention, both / .75 + ls_plan_pass_seconds(chip, 8 * scores));
    near_to("backward", layer.backward.attention, 2 * both / .75 + ls_plan_pass_seconds(chip, 10 * scores));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_host_is_monotone),
        cmocka_unit_test(test_sums_of_gradients),
        cmocka_unit_test(test_odd_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
