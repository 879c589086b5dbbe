/* test_verify.c: which layouts verify tries, and that its comparison finds the first difference, whatever it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/model.h"
#include "numerics/float16.h"
#include "lab/verify/steps.h"
#include "lab/verify/matrix.h"

/* ---- matrix ------------------------------------------------------------------------------------------------------ */

static const ls_shape shape = {.name = "odd",
                               .arch = LS_ARCH_GPT2,
                               .V = 37,
                               .C = 24,
                               .L = 7,
                               .H = 6,
                               .T = 16,
                               .kv_heads = 6,
                               .head_size = 4,
                               .hidden = 30,
                               .tied = true,
                               .eps = 1e-5,
                               .init_std = 0.02};

typedef struct made {
    ls_model *model;
    ls_layout_task task;
    ls_verify_row *rows;
    int count;
} made;

static made make(ls_verify_tier tier, int workers_min, int workers_max) {
    made m = {0};
    ls_verify_limits limits = {.workers_min = workers_min, .workers_max = workers_max};
    assert_int_equal(ls_model_create(&shape, 4, &m.model), LS_OK);
    m.task = (ls_layout_task){.model = m.model, .B = 13, .T = 11, .G = 8};
    assert_int_equal(ls_verify_matrix_make(&m.task, tier, &limits, &m.rows, &m.count), LS_OK);
    return m;
}

static void unmake(made *m) {
    free(m->rows);
    ls_model_destroy(m->model);
}

static void assert_rows_are_layouts(const made *m, int workers_min, int workers_max) {
    for (int i = 0; i < m->count; i++) {
        ls_layout layout;
        assert_int_equal(ls_verify_row_layout(&m->rows[i], &m->task, &layout), LS_OK);
        assert_in_range(ls_layout_workers(&layout), workers_min, workers_max);
        assert_int_equal(ls_layout_check(&layout, &m->task), LS_OK);
    }
}

static bool has(const made *m, int dp, int tp, int pp, int schedule, int zero) {
    for (int i = 0; i < m->count; i++) {
        const ls_verify_row *r = &m->rows[i];
        if (r->knobs.dp == dp && r->knobs.tp == tp && r->knobs.pp == pp &&
            (schedule < 0 || (int)r->knobs.schedule == schedule) && (zero < 0 || r->knobs.zero == zero))
            return true;
    }
    return false;
}

/* Written out here a second time: 9 blocks, 8 groups, 4 slices, at most 16 workers; interleaved needs two blocks for
 * every stage, and a pipeline. */
static void test_all_has_every_legal_combination(void **state) {
    (void)state;
    made m = make(LS_VERIFY_ALL, 1, 16);
    int wanted = 0;
    assert_rows_are_layouts(&m, 1, 16);
    for (int dp = 1; dp <= 8; dp++)
        for (int tp = 1; tp <= 4; tp *= 2)
            for (int pp = 1; pp <= 9 && dp * tp * pp <= 16; pp++)
                for (int schedule = 0; schedule < LS_SCHEDULE_KINDS; schedule++)
                    for (int zero = 0; zero < 4; zero++) {
                        if (schedule == LS_SCHEDULE_INTERLEAVED && (pp == 1 || 2 * pp > 9)) continue;
                        wanted++;
                        if (!has(&m, dp, tp, pp, schedule, zero))
                            fail_msg("no row for dp %d tp %d pp %d schedule %d zero %d", dp, tp, pp, schedule, zero);
                    }
    assert_in_range(m.count, wanted, wanted + wanted / 10);
    unmake(&m);
}

static void test_usual_has_every_mesh(void **state) {
    (void)state;
    made m = make(LS_VERIFY_USUAL, 1, 16);
    assert_rows_are_layouts(&m, 1, 16);
    for (int dp = 1; dp <= 8; dp++)
        for (int tp = 1; tp <= 4; tp *= 2)
            for (int pp = 1; pp <= 9 && dp * tp * pp <= 16; pp++) assert_true(has(&m, dp, tp, pp, -1, -1));
    assert_in_range(m.count, 63, 100);
    unmake(&m);
}

/* Some pairs that matter, one of every kind of choice. */
static void test_quick_has_pairs(void **state) {
    (void)state;
    made m = make(LS_VERIFY_QUICK, 1, 16);
    int dp8_unequal = 0, sequence_full = 0, mixed_zero3 = 0, whole_zero_bubble = 0, threads2_pp4 = 0;
    assert_rows_are_layouts(&m, 1, 16);
    for (int i = 0; i < m.count; i++) {
        const ls_verify_row *r = &m.rows[i];
        dp8_unequal += r->knobs.dp == 8 && r->unequal;
        sequence_full += r->knobs.sequence_parallel && r->knobs.recompute == LS_RECOMPUTE_FULL;
        mixed_zero3 += r->isa == LS_TRIAL_MIXED && r->knobs.zero == 3;
        whole_zero_bubble += r->knobs.micro == 13 && r->knobs.schedule == LS_SCHEDULE_ZERO_BUBBLE;
        threads2_pp4 += r->threads == 2 && r->knobs.pp == 4;
    }
    assert_int_equal(dp8_unequal, 0); /* eight rows have one group each */
    assert_true(sequence_full && mixed_zero3 && whole_zero_bubble && threads2_pp4);
    assert_in_range(m.count, 30, 45);
    unmake(&m);
}

static void test_rows_of_a_launcher(void **state) {
    (void)state;
    made m = make(LS_VERIFY_QUICK, 6, 6);
    assert_true(m.count > 10);
    assert_rows_are_layouts(&m, 6, 6);
    unmake(&m);
    m = make(LS_VERIFY_QUICK, 13, 13); /* a prime above the groups, the slices and the blocks */
    assert_int_equal(m.count, 0);
    unmake(&m);
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

enum { STEPS = 3, PARAMS = 4 };

static ls_verify_record record_of(void) {
    ls_verify_record r;
    assert_int_equal(ls_verify_record_open(STEPS, PARAMS, &r), LS_OK);
    for (int s = 0; s < STEPS; s++) r.loss[s] = 5.5 - s;
    for (int i = 0; i < STEPS * PARAMS; i++) snprintf(r.grad[i].text, sizeof r.grad[i].text, "%032d", i);
    for (int i = 0; i < PARAMS; i++) snprintf(r.weight[i].text, sizeof r.weight[i].text, "%032d", 100 + i);
    r.totals->validation = 5.25;
    return r;
}

static void assert_finds(void (*change)(ls_verify_record *), ls_verify_kind kind, int64_t step, int param, int params) {
    ls_verify_record a = record_of(), b = record_of();
    assert_int_equal(ls_verify_compare(&a, &b).kind, LS_VERIFY_EQUAL);
    change(&b);
    ls_verify_difference d = ls_verify_compare(&a, &b);
    assert_int_equal(d.kind, kind);
    assert_int_equal(d.step, step);
    if (params > 0) assert_int_equal(d.param, param);
    assert_int_equal(d.params, params);
    ls_verify_record_close(&a);
    ls_verify_record_close(&b);
}

static void change_gradients(ls_verify_record *r) {
    r->grad[1 * PARAMS + 2].text[31] = 'x';
    r->grad[1 * PARAMS + 3].text[0] = 'x';
    r->grad[2 * PARAMS + 0].text[0] = 'x';
    r->loss[1] = 1;
    r->weight[0].text[0] = 'x';
}
static void change_loss(ls_verify_record *r) { r->loss[2] = 3.5000000000000004; }
static void change_weight(ls_verify_record *r) { r->weight[3].text[0] = 'x'; }
static void change_validation(ls_verify_record *r) { r->totals->validation = -5.25; }

static void test_compare(void **state) {
    (void)state;
    assert_finds(change_gradients, LS_VERIFY_GRADIENT, 2, 2, 2);
    assert_finds(change_loss, LS_VERIFY_LOSS, 3, 0, 0);
    assert_finds(change_weight, LS_VERIFY_WEIGHT, 3, 3, 1);
    assert_finds(change_validation, LS_VERIFY_VALIDATION, 3, 0, 0);
}

static void test_first_element(void **state) {
    (void)state;
    float nan1 = ls_f32_from_bits(0x7FC00000), nan2 = ls_f32_from_bits(0xFFC01234);
    float a[] = {1, nan1, 0.0f, 2}, b[] = {1, nan2, 0.0f, 2};
    assert_int_equal(ls_verify_first_element(a, b, 4), 4);
    b[3] = ls_f32_from_bits(0x40000001);
    assert_int_equal(ls_verify_first_element(a, b, 4), 3);
    b[2] = -0.0f;
    assert_int_equal(ls_verify_first_element(a, b, 4), 2);
}

static void test_fault(void **state) {
    (void)state;
    ls_verify_fault fault;
    assert_int_equal(ls_verify_fault_parse("3:17:blocks.0.attn.qkv.weight", &fault), LS_OK);
    assert_int_equal(fault.rank, 3);
    assert_int_equal(fault.step, 17);
    assert_string_equal(fault.tensor, "blocks.0.attn.qkv.weight");
    static const char *const bad[] = {"",
                                      "1",
                                      "1:2",
                                      "1:2:",
                                      ":2:x",
                                      "1::x",
                                      "-1:2:x",
                                      "1:0:x",
                                      "a:2:x",
                                      "512:1:x",
                                      "99999999999999999999999999999:1:x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(ls_verify_fault_parse(bad[i], &fault), LS_ERR_INPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_has_every_legal_combination),
        cmocka_unit_test(test_usual_has_every_mesh),
        cmocka_unit_test(test_quick_has_pairs),
        cmocka_unit_test(test_rows_of_a_launcher),
        cmocka_unit_test(test_compare),
        cmocka_unit_test(test_first_element),
        cmocka_unit_test(test_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
