/* test_attention_dropout.c: dropout of attention's weights, on every ISA: the bits of the plain loops of
 * attention_reference.h for many shapes and any division of the work; accuracy and gradients against double under the
 * same mask; the rate; and heads that are numbered over workers. */
#include "attention_sequence.h"

static void check_shape(const ls_attention_kernels *k, sequence s, size_t n, double p) {
    set_dropout(&s, p);
    check_same_bits(k, &s, n);
    release(&s);
}

static void check_shapes(const ls_attention_kernels *k) {
    static const size_t lengths[] = {1, 2, 15, 16, 17, 31, 33, 64, 100, 129}, sizes[] = {32, 48, 64, 13, 128, 1, 33};
    static const size_t heads[][2] = {{1, 1}, {4, 2}, {6, 3}};
    static const double rates[] = {0x1p-40, 0.1, 0.5, 0.99};
    for (size_t t = 0; t < 10; t++)
        for (size_t h = 0; h < 3; h++) {
            size_t T = lengths[t], d = sizes[(2 * t + 3 * h) % 7];
            if (T > 64 && h > 1) continue;
            check_shape(k, make(T, heads[h][0], heads[h][1], d, (t + h) % 3, 1), 2 + t % 5, rates[(t + h) % 4]);
        }
    /* Several blocks of keys, with sizes that fill no tile. */
    check_shape(k, make(310, 2, 1, 13, 0, 1), 3, 0.2);
    check_shape(k, make(385, 1, 1, 24, 1, 1), 3, 0.2);
    check_shape(k, make(97, 2, 2, 96, 2, 1), 3, 0.2);
}

/* Scores near ±80: some queries have one key that takes all, and it may be dropped. */
static void check_extremes(const ls_attention_kernels *k) { check_shape(k, make(70, 2, 1, 64, 3, 12), 3, 0.3); }

static void check_dropped_accuracy(const ls_attention_kernels *k) { check_accuracy(k, 0.3); }
static void check_dropped_gradients(const ls_attention_kernels *k) { check_gradients(k, 0.25); }

/* Equal scores and values of 1: an output is the mean of the factors. The rate is met, and what is kept makes up for
 * what is not: within five standard deviations. */
static void check_rates(const ls_attention_kernels *k) {
    enum { T = 400, H = 2, PAIRS = H * T * (T + 1) / 2 };
    static const double rates[] = {0.1, 0.5, 0.875};
    for (int i = 0; i < 3; i++) {
        sequence s = make(T, H, H, 1, 0, 0);
        double p = rates[i], sum = 0, values = 0;
        for (size_t t = 0; t < T; t++)
            for (size_t h = 0; h < H; h++) s.in[t * s.a.v.row_stride + (2 * H + h) * s.a.v.head_stride] = 1;
        set_dropout(&s, p);
        run_forward(k, &s, 0);
        for (size_t head = 0; head < H; head++)
            for (size_t t = 0; t < T; t++) {
                sum += (double)out_row(s.a.o, t, head)[0] * (double)(t + 1);
                /* The first query sees one key: its factor itself. */
                values += t == 0 && out_row(s.a.o, t, head)[0] != 0 && out_row(s.a.o, t, head)[0] != s.a.drop.scale;
            }
        assert_true(fabs(sum / PAIRS - 1) < 5 * sqrt(p / (1 - p) / PAIRS) && values == 0);
        release(&s);
    }
}

/* A worker with some of the heads has the bits that these have among all of them. */
static void check_some_heads(const ls_attention_kernels *k) {
    enum { T = 45, D = 20, H = 6, KV = 3, FIRST = 1 };
    sequence whole = make(T, H, KV, D, 1, 1), part = make(T, H, KV, D, 1, 1);
    set_dropout(&whole, 0.4);
    set_dropout(&part, 0.4);
    ls_attention *a = &part.a;
    size_t heads = FIRST * (H / KV);
    a->heads -= heads;
    a->kv_heads -= FIRST;
    a->drop.head0 += heads;
    a->q.at = in_from(a->q.at, heads * a->q.head_stride, LS_F32);
    a->dout.at = in_from(a->dout.at, heads * a->dout.head_stride, LS_F32);
    a->k.at = in_from(a->k.at, FIRST * a->k.head_stride, LS_F32);
    a->v.at = in_from(a->v.at, FIRST * a->v.head_stride, LS_F32);
    run(k, &whole, 1, true, 1);
    run(k, &part, 3, false, 1);
    for (size_t t = 0; t < T; t++) {
        for (size_t h = 0; h < a->heads; h++) {
            assert_rows_equal(a, a->o, t, h, &whole.a, whole.a.o, t, heads + h);
            assert_rows_equal(a, a->dq, t, h, &whole.a, whole.a.dq, t, heads + h);
        }
        for (size_t h = 0; h < a->kv_heads; h++) {
            assert_rows_equal(a, a->dk, t, h, &whole.a, whole.a.dk, t, FIRST + h);
            assert_rows_equal(a, a->dv, t, h, &whole.a, whole.a.dv, t, FIRST + h);
        }
    }
    release(&whole);
    release(&part);
}

TEST(shapes)
TEST(extremes)
TEST(dropped_accuracy)
TEST(dropped_gradients)
TEST(rates)
TEST(some_heads)

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes),
                                       cmocka_unit_test(test_extremes),
                                       cmocka_unit_test(test_dropped_accuracy),
                                       cmocka_unit_test(test_dropped_gradients),
                                       cmocka_unit_test(test_rates),
                                       cmocka_unit_test(test_some_heads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
