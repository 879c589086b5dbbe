/* test_sum_orders.c: sums in other orders against sums by hand, and a training run with them against the trainer's own.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "numerics/float16.h"
#include "tiny_trainer.h"
#include "lab/verify/sum_order.h"

/* ---- by hand -----------------------------------------------------------------------------------------------------
 *
 * Beside 2^24 a single 1 is lost (a tie, to even), two at once are not, and three become 4 (a tie again). */

static const float big = 16777216;

enum { N = 4 };

/* Four gradients of four elements, all ones but for that of group g. */
static void ones_but(int g, float values[4][N], const float *grads[4]) {
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < N; k++) values[i][k] = i == g ? big : 1;
        grads[i] = values[i];
    }
}

static void assert_sums(const float *out, const float *wanted) {
    for (int k = 0; k < N; k++)
        if (ls_f32_bits(out[k]) != ls_f32_bits(wanted[k]))
            fail_msg("element %d is %a, not %a", k, (double)out[k], (double)wanted[k]);
}

static void test_running_sum(void **state) {
    (void)state;
    float values[4][N], out[N];
    const float *grads[4];
    ones_but(0, values, grads); /* ((B + 1) + 1) + 1 */
    ls_order_ring(grads, 4, 1, out, N);
    assert_sums(out, (float[]){big, big, big, big});
    ones_but(2, values, grads); /* ((1 + 1) + B) + 1 */
    ls_order_ring(grads, 4, 1, out, N);
    assert_sums(out, (float[]){big + 4, big + 4, big + 4, big + 4});
}

static void test_ring_of_two(void **state) {
    (void)state;
    float values[4][N], out[N];
    const float *grads[4];
    ones_but(0, values, grads); /* (B + 1) + (1 + 1), whichever begins */
    ls_order_ring(grads, 4, 2, out, N);
    assert_sums(out, (float[]){big + 2, big + 2, big + 2, big + 2});
}

/* One element for each chunk; w0 … w3 are the gradients. */
static void test_ring_of_four(void **state) {
    (void)state;
    float values[4][N], out[N];
    const float *grads[4];
    /* ((w1+w2)+w3)+w0, ((w2+w3)+w0)+w1, ((w3+w0)+w1)+w2, ((w0+w1)+w2)+w3 */
    ones_but(0, values, grads);
    ls_order_ring(grads, 4, 4, out, N);
    assert_sums(out, (float[]){big + 4, big + 4, big, big});
    ones_but(1, values, grads);
    ls_order_ring(grads, 4, 4, out, N);
    assert_sums(out, (float[]){big, big + 4, big + 4, big});
    ones_but(2, values, grads);
    ls_order_ring(grads, 4, 4, out, N);
    assert_sums(out, (float[]){big, big, big + 4, big + 4});
    ones_but(3, values, grads);
    ls_order_ring(grads, 4, 4, out, N);
    assert_sums(out, (float[]){big + 4, big, big, big + 4});
}

/* Three workers, five groups: runs of 1, 2 and 2; five elements: chunks of 1, 2 and 2. */
static void test_ring_of_unequal_shares(void **state) {
    (void)state;
    const float grads[5][5] = {
        {big, big, big, big, big}, {1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}, {-big, -big, -big, -big, -big}, {1, 1, 1, 1, 1}};
    const float *list[5] = {grads[0], grads[1], grads[2], grads[3], grads[4]};
    float out[5];
    ls_order_ring(list, 5, 3, out, 5);
    /* w0 = B, w1 = 2, w2 = 1 − B, which is exact. Chunk 0: (w1 + w2) + w0 = 3 − B + B; chunk 1: (w2 + w0) + w1 = 1 + 2;
     * chunk 2: (w0 + w1) + w2 = (B + 2) + (1 − B) = 3. */
    for (int k = 0; k < 5; k++) assert_true(out[k] == 3);
    const float far[5][5] = {
        {1, 1, 1, 1, 1}, {big, big, big, big, big}, {1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}};
    for (int g = 0; g < 5; g++) list[g] = far[g];
    ls_order_ring(list, 5, 3, out, 5);
    /* w0 = 1, w1 = B + 1 = B, w2 = 2. Chunk 0: (B + 2) + 1 = B + 4; chunk 1: (2 + 1) + B = B + 4; chunk 2: (1 + B) + 2.
     */
    const float wanted[5] = {big + 4, big + 4, big + 4, big + 2, big + 2};
    for (int k = 0; k < 5; k++) assert_true(out[k] == wanted[k]);
}

/* bf16 has eight bits: 256 + 1 is a tie, and so is 256 + 3. */
static void test_ring_of_bf16(void **state) {
    (void)state;
    float values[4][N], out[N];
    const float *grads[4];
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < N; k++) values[i][k] = i == 0 ? 256 : 1;
        grads[i] = values[i];
    }
    ls_order_ring16(grads, 4, 1, out, N); /* 259 in fp32, rounded once */
    assert_sums(out, (float[]){260, 260, 260, 260});
    ls_order_ring16(grads, 4, 2, out, N); /* 257 is rounded to 256 before it leaves */
    assert_sums(out, (float[]){258, 258, 258, 258});
    ls_order_ring16(grads, 4, 4, out, N);
    assert_sums(out, (float[]){260, 260, 256, 256});
}

static void test_in_turn(void **state) {
    (void)state;
    float values[4][N], out[N];
    const float *grads[4];
    ones_but(0, values, grads);
    ls_order_in_turn(grads, (int[]){1, 3, 2, 0}, 4, out, N);
    assert_sums(out, (float[]){big + 4, big + 4, big + 4, big + 4});
    ls_order_in_turn(grads, (int[]){1, 0, 2, 3}, 4, out, N);
    assert_sums(out, (float[]){big, big, big, big});
}

/* ---- turns and ways ---------------------------------------------------------------------------------------------- */

static void test_arrival(void **state) {
    (void)state;
    enum { G = 4, TRIES = 4000 };
    int first[G] = {0}, turn[G], again[G], other[G], same_run = 0, same_seed = 0;
    for (uint64_t step = 0; step < TRIES; step++) {
        bool seen[G] = {false};
        ls_order_arrival(5, 1, step, G, turn);
        for (int i = 0; i < G; i++) seen[turn[i]] = true;
        for (int i = 0; i < G; i++) assert_true(seen[i]);
        first[turn[0]]++;
        ls_order_arrival(5, 1, step, G, again);
        assert_memory_equal(turn, again, sizeof turn);
        ls_order_arrival(5, 2, step, G, other);
        same_run += memcmp(turn, other, sizeof turn) == 0;
        ls_order_arrival(6, 1, step, G, other);
        same_seed += memcmp(turn, other, sizeof turn) == 0;
    }
    for (int i = 0; i < G; i++) assert_in_range(first[i], TRIES / G - 150, TRIES / G + 150);
    assert_in_range(same_run, 100, 240); /* one of 24 */
    assert_in_range(same_seed, 100, 240);
}

static void test_ways(void **state) {
    (void)state;
    ls_order_way ways[LS_ORDER_WAYS_MAX];
    assert_int_equal(ls_order_ways(2, ways), 8);
    assert_int_equal(ls_order_ways(3, ways), 8);
    assert_int_equal(ls_order_ways(64, ways), 14);
    int count = ls_order_ways(8, ways);
    assert_int_equal(count, 14);
    for (int i = 0; i < count; i++) {
        const ls_order_way *base = &ways[ways[i].base];
        assert_true(ways[i].base <= i && base->base <= ways[i].base);
        if (ways[i].kind == LS_ORDER_ARRIVAL)
            assert_true(ways[i].run == 1 ? base->kind == LS_ORDER_RING && base->workers == 1 : base->run == 1);
        else
            assert_true(base->kind == ways[i].kind && base->workers == 1);
    }
    assert_true(ways[count - 1].kind == LS_ORDER_LOCKSTEP && ways[count - 1].workers == 8);
}

/* ---- differences ------------------------------------------------------------------------------------------------- */

static void test_compare(void **state) {
    (void)state;
    const float a[] = {1, 0, 4, NAN, -2, 8}, b[] = {1, -0.0f, 5, -NAN, -2, 7.5f};
    ls_order_difference d = ls_order_compare(a, b, 6);
    assert_int_equal(d.elems, 6);
    assert_int_equal(d.changed, 3);
    assert_true(d.absolute == 1 && d.relative == 0.2);
    const float c[] = {INFINITY};
    d = ls_order_compare(a, c, 1);
    assert_true(d.changed == 1 && isinf(d.absolute) && isinf(d.relative));
    d = ls_order_compare(a, a, 6);
    assert_true(d.changed == 0 && d.absolute == 0 && d.relative == 0);
}

static void test_first_steps(void **state) {
    (void)state;
    const double a[] = {5, 4.00001, 3, (double)NAN}, b[] = {5, 4.00002, 3.0002, (double)NAN};
    assert_int_equal(ls_order_first_bits(a, b, 4), 2);
    assert_int_equal(ls_order_first_seen(a, b, 4), 3);
    assert_int_equal(ls_order_first_seen(a, b, 2), 0);
    assert_int_equal(ls_order_first_bits(a, a, 4), 0);
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

static void train(fixture *f, ls_order_way way, ls_order_record *record) {
    ls_model *model = NULL;
    assert_int_equal(ls_model_create(&f->settings.shape, f->settings.slices, &model), LS_OK);
    ls_layout_task task = {.model = model, .B = f->settings.B, .T = f->settings.T, .G = f->settings.groups};
    ls_order_task order = {.way = way, .record = record};
    ls_trial trial = {.settings = &f->settings,
                      .data = {.corpus = f->corpus},
                      .layout = ls_layout_one(&task, f->settings.B),
                      .steps = ls_order_steps,
                      .ctx = &order};
    assert_int_equal(ls_order_record_open(STEPS, ls_model_elems(model), record), LS_OK);
    assert_int_equal(ls_trial_work(&trial, NULL, f->device), LS_OK);
    ls_model_destroy(model);
}

/* With three groups the tree is the running sum, and with one slice and untied tables a group's gradient has nothing
 * left to be joined later: the run with sums from outside is the trainer's own, to the last bit. */
static void test_running_sum_of_three_is_the_trainer(void **state) {
    (void)state;
    fixture f;
    ls_order_record own, other;
    ls_shape shape = tiny_llama();
    ls_settings settings = tiny_settings(&shape, adamw);
    settings.slices = 1;
    settings.groups = 3;
    put_tokens(shape.V);
    assert_int_equal(fixture_open(&f, &settings), LS_OK);
    train(&f, (ls_order_way){.kind = LS_ORDER_LOCKSTEP, .workers = 1}, &own);
    train(&f, (ls_order_way){.kind = LS_ORDER_RING, .workers = 1}, &other);
    assert_int_equal(ls_order_compare(own.grad, other.grad, own.elems).changed, 0);
    assert_int_equal(ls_order_compare(own.weight, other.weight, own.elems).changed, 0);
    assert_memory_equal(own.loss, other.loss, STEPS * sizeof(double));
    assert_string_equal(own.weights->text, other.weights->text);
    assert_true(own.loss[STEPS - 1] != own.loss[0]);
    ls_order_record_close(&own);
    ls_order_record_close(&other);
    fixture_close(&f);
}

/* Gradients, weights and losses of two runs in order of arrival are near each other, and not the same. */
static void test_arrival_changes_a_run(void **state) {
    (void)state;
    fixture f;
    ls_order_record one, two;
    ls_shape shape = tiny_gpt2();
    ls_settings settings = tiny_settings(&shape, adamw);
    settings.options.seed = 12; /* the first orders are 0 3 2 1 and 1 0 3 2 */
    put_tokens(shape.V);
    assert_int_equal(fixture_open(&f, &settings), LS_OK);
    train(&f, (ls_order_way){.kind = LS_ORDER_ARRIVAL, .workers = 4, .run = 1}, &one);
    train(&f, (ls_order_way){.kind = LS_ORDER_ARRIVAL, .workers = 4, .run = 2}, &two);
    ls_order_difference grad = ls_order_compare(one.grad, two.grad, one.elems);
    ls_order_difference weight = ls_order_compare(one.weight, two.weight, one.elems);
    assert_in_range(grad.changed, one.elems / 50, one.elems);
    assert_in_range(weight.changed, one.elems / 50, one.elems);
    assert_true(grad.absolute < 1e-5);
    assert_true(one.loss[0] == two.loss[0]); /* before any update */
    assert_true(ls_order_first_bits(one.loss, two.loss, STEPS) > 1);
    assert_string_not_equal(one.weights->text, two.weights->text);
    ls_order_record_close(&one);
    ls_order_record_close(&two);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_running_sum),
        cmocka_unit_test(test_ring_of_two),
        cmocka_unit_test(test_ring_of_four),
        cmocka_unit_test(test_ring_of_unequal_shares),
        cmocka_unit_test(test_ring_of_bf16),
        cmocka_unit_test(test_in_turn),
        cmocka_unit_test(test_arrival),
        cmocka_unit_test(test_ways),
        cmocka_unit_test(test_compare),
        cmocka_unit_test(test_first_steps),
        cmocka_unit_test(test_running_sum_of_three_is_the_trainer),
        cmocka_unit_test(test_arrival_changes_a_run),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
