/* test_step_reads.c: how often a step waits for what the device has computed. Each read drains the queue of a GPU, so
 * their number is part of what docs/explain/gpu.md promises; it depends neither on micro-batches nor on the size of the
 * model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../fake/fake.h"
#include "tiny_trainer.h"

typedef struct task {
    ls_settings settings;
    int64_t micro; /* sequences of a micro-batch */
    uint64_t reads;
} task;

static ls_settings plain(void) {
    ls_shape shape = tiny_gpt2();
    return tiny_settings(&shape, adamw);
}

/* Reads of a step behind the first; the same in every step. */
static void expect_reads(task t) {
    fixture f;
    ls_trainer *trainer;
    ls_layout_request request = ls_layout_request_none();
    ls_knob_give(&request, LS_KNOB_micro, t.micro);
    put_tokens(t.settings.shape.V);
    assert_int_equal(fixture_open(&f, &t.settings), LS_OK);
    ls_device_destroy(f.device);
    assert_int_equal(ls_device_open_fake(&f.device), LS_OK);
    assert_int_equal(trainer_open(&f, NULL, &request, &trainer), LS_OK);
    assert_int_equal(ls_partition_init_weights(trainer->partition, 7), LS_OK);
    assert_int_equal(trainer_run(trainer, 1), LS_OK);
    for (int64_t step = 2; step <= STEPS; step++) {
        uint64_t before = f.device->reads;
        assert_int_equal(trainer_run(trainer, step), LS_OK);
        assert_int_equal(f.device->reads - before, t.reads);
    }
    ls_trainer_destroy(trainer);
    fixture_close(&f);
}

static void a_step_reads_once(void **state) {
    (void)state;
    for (int64_t micro = 1; micro <= 5; micro += 2) expect_reads((task){plain(), micro, 1});
    ls_shape llama = tiny_llama();
    expect_reads((task){tiny_settings(&llama, adamw), 2, 1});
}

static void watching_groups_costs_no_read(void **state) {
    (void)state;
    task t = {plain(), 1, 1};
    t.settings.options.on_outlier = LS_OUTLIER_WARN;
    t.settings.options.outlier_threshold = 1000;
    expect_reads(t);
}

/* What is counted in backward and in the update comes together. */
static void numerics_cost_one_read(void **state) {
    (void)state;
    task t = {plain(), 2, 2};
    t.settings.options.numerics = 1;
    expect_reads(t);
    t.settings.policy = (ls_policy){.act = LS_BF16};
    expect_reads(t);
}

/* Sums before the update; those that it makes come with the next losses. Copies are hashed before and after. */
static void checking_state_costs_one_read(void **state) {
    (void)state;
    task t = {plain(), 2, 2};
    t.settings.options.check = LS_CHECK_STATE;
    expect_reads(t);
    t.settings.policy = (ls_policy){.act = LS_BF16};
    t.reads = 4;
    expect_reads(t);
}

static void an_evaluation_reads_once(void **state) {
    (void)state;
    enum { COUNT = 7, T = 9 };
    int32_t ids[COUNT * T], targets[COUNT * T];
    ls_shape shape = tiny_gpt2();
    ls_partition_setup setup = {.train = false, .B = COUNT, .T = T, .G = 1, .layout = {.micro = 2}};
    tiny t;
    tiny_open(&t, &shape, 2, 1, &setup);
    tiny_ids(ids, COUNT * T, shape.V, 1);
    tiny_ids(targets, COUNT * T, shape.V, 2);
    tiny_tokens tokens = {ids, targets, T};
    ls_partition_feed feed = {.read = tiny_read, .ctx = &tokens};
    ls_loss_sum loss = {0};
    int64_t right = 0;
    uint64_t before = t.device->reads;
    assert_int_equal(ls_partition_evaluate(t.partition, COUNT, T, &feed, &loss, &right), LS_OK);
    assert_int_equal(t.device->reads - before, 1);
    assert_int_equal(loss.count, COUNT * T);
    assert_in_range(right, 0, COUNT * T);
    tiny_close(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_reads_once), cmocka_unit_test(watching_groups_costs_no_read),
        cmocka_unit_test(numerics_cost_one_read), cmocka_unit_test(checking_state_costs_one_read),
        cmocka_unit_test(an_evaluation_reads_once)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
