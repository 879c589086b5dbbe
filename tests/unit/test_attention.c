/* test_attention.c: attention of every ISA against the plain loops of attention_reference.h: the same bits for many
 * shapes, strides with gaps, and any division of the work; accuracy and gradients against double.
 *
 * With the argument "bench", and the name of an ISA if only one shall run, it prints GFLOP/s of one thread instead,
 * without and with dropout. */
#include <time.h>

#include "attention_sequence.h"

static void check_shapes(const ls_attention_kernels *k) {
    static const size_t lengths[] = {1, 2, 15, 16, 17, 31, 33, 64, 100, 129}, sizes[] = {32, 48, 64, 80, 128, 256, 33};
    static const size_t ranges[] = {2, 3, 7};
    static const size_t heads[][2] = {{1, 1}, {4, 2}, {6, 3}, {8, 1}};
    for (size_t t = 0; t < 10; t++)
        for (size_t h = 0; h < 4; h++) {
            /* Sizes go round so that each meets long and short sequences. */
            size_t d = sizes[(2 * t + 6 * h + 5) % 7], T = lengths[t];
            if (T > 64 && h > 1) continue;
            sequence s = make(T, heads[h][0], heads[h][1], d, (t + h) % 3 * 5, 1);
            check_same_bits(k, &s, ranges[(t + h) % 3]);
            release(&s);
        }
    /* Several blocks of keys, with sizes that fill no tile. */
    static const size_t longer[][4] = {{310, 2, 1, 13}, {385, 1, 1, 24}, {97, 2, 2, 96}};
    for (size_t i = 0; i < 3; i++) {
        sequence s = make(longer[i][0], longer[i][1], longer[i][2], longer[i][3], i, 1);
        check_same_bits(k, &s, 3);
        release(&s);
    }
    for (size_t d = 1; d < 20; d++) {
        sequence s = make(1 + 7 * d % 40, 2, 1, d, d % 2, 2);
        check_same_bits(k, &s, 3);
        release(&s);
    }
}

/* Scores near ±80: most weights are 0, some queries have one key that takes all. And scores that are all equal. */
static void check_extremes(const ls_attention_kernels *k) {
    sequence s = make(70, 2, 1, 64, 3, 1);
    const ls_attention *a = &s.a;
    float *q = s.in, *keys = s.in + 2 * a->q.head_stride;
    for (size_t t = 0; t < a->T; t++)
        for (size_t i = 0; i < 64; i++) {
            q[t * a->q.row_stride + i] = 1;
            keys[t * a->k.row_stride + i] = t % 3 == 1 ? 10.0f : t % 3 == 2 ? -10.0f : 0.01f * (float)i;
        }
    check_same_bits(k, &s, 3);
    assert_true(a->m[1] == 80 && a->m[69] == 80);
    for (size_t t = 0; t < a->T; t++)
        for (size_t i = 0; i < 64; i++) q[t * a->q.row_stride + i] = 0;
    check_same_bits(k, &s, 3);
    for (size_t t = 0; t < a->T; t++) assert_true(a->m[t] == 0 && a->l[t] == (float)(t + 1));
    release(&s);
}

/* What a query does not see must not reach it: not even infinities and NaN. */
static void check_mask(const ls_attention_kernels *k) {
    enum { T = 50, D = 40 };
    for (size_t bad = 1; bad < T; bad += 5) {
        sequence clean = make(T, 1, 1, D, 0, 1), dirty = make(T, 1, 1, D, 0, 1);
        for (size_t i = 0; i < D; i++) {
            dirty.in[bad * dirty.a.q.row_stride + D + i] = i % 2 ? NAN : INFINITY;
            dirty.in[bad * dirty.a.q.row_stride + 2 * D + i] = i % 2 ? INFINITY : NAN;
        }
        run(k, &clean, 1, bad % 2, 1);
        run(k, &dirty, 1, bad % 2, 1);
        for (size_t t = 0; t < bad; t++) {
            assert_rows_equal(&dirty.a, dirty.a.o, t, 0, &clean.a, clean.a.o, t, 0);
            assert_rows_equal(&dirty.a, dirty.a.dq, t, 0, &clean.a, clean.a.dq, t, 0);
        }
        for (size_t t = bad; t < T; t++) assert_true(isnan(out_row(dirty.a.o, t, 0)[0]));
        /* dv of later keys comes from queries that see the bad one; m of these is NaN. */
        assert_true(isnan(dirty.a.m[bad]) && isnan(out_row(dirty.a.dv, bad, 0)[0]));
        release(&clean);
        release(&dirty);
    }
}

/* Windows shorter and longer than panels, tiles, blocks and the sequence. GPUs refuse them. */
static void check_windows(const ls_attention_kernels *k) {
    static const size_t shapes[][4] = {{100, 4, 2, 33}, {310, 2, 1, 13}, {385, 1, 1, 24}, {700, 1, 1, 5}};
    static const size_t windows[] = {1, 2, 5, 16, 31, 97, 290, 384};
    for (size_t i = 0; i < 4; i++)
        for (size_t w = 0; w < 8 && windows[w] < shapes[i][0]; w++) {
            sequence s = make(shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3], i, 1);
            set_window(&s, windows[w]);
            if (w % 3 == 2) set_dropout(&s, 0.2);
            if (k)
                check_same_bits(k, &s, 2 + w % 3);
            else
                assert_int_equal(
                    gpu()->ops->attention_forward(gpu(), &(ls_attention_call){.parts = &s.a, .nparts = 1, .B = 1}),
                    LS_ERR_INPUT);
            release(&s);
        }
}

/* One query alone: generation. */
static void check_window_of_a_query(const ls_attention_kernels *k) {
    if (!k) return;
    for (size_t window = 1; window < 140; window += 23) {
        sequence s = make(140, 2, 1, 33, 1, 1);
        set_window(&s, window);
        reference_forward(&s.ref);
        for (size_t t = 0; t < 140; t++) {
            k->forward(&s.a, 0, 2, t, t + 1, s.scratch);
            for (size_t h = 0; h < 2; h++) assert_rows_equal(&s.a, s.a.o, t, h, &s.ref, s.ref.o, t, h);
        }
        release(&s);
    }
}

static void check_generation(const ls_attention_kernels *k) {
    check_last_rows(k, LS_F32, LS_UNIT_CHAIN, 1, 16);
    check_last_rows(k, LS_F32, LS_UNIT_CHAIN, 64, 33);
    check_last_rows(k, LS_F32, LS_UNIT_CHAIN, 75, 48);
    check_last_rows(k, LS_F32, LS_UNIT_CHAIN, 130, 13);
}

/* So many keys that they are not all packed at once: the first, the last and some queries between. */
static void check_long(const ls_attention_kernels *k) {
    if (!k) return;
    enum { D = 256, T = LS_ATTENTION_KEPT / D + 9, MIDDLE = 4000 };
    sequence s = make(T, 1, 1, D, 0, 1);
    float p[T];
    static const size_t ranges[3][2] = {{0, 3}, {MIDDLE, MIDDLE + 2}, {T - 2, T}};
    for (int i = 0; i < 3; i++) {
        k->forward(&s.a, 0, 1, ranges[i][0], ranges[i][1], s.scratch);
        for (size_t t = ranges[i][0]; t < ranges[i][1]; t++) {
            reference_forward_query(&s.ref, 0, t, p);
            assert_rows_equal(&s.a, s.a.o, t, 0, &s.ref, s.ref.o, t, 0);
            assert_true(s.a.m[t] == s.ref.m[t] && s.a.l[t] == s.ref.l[t]);
        }
    }
    release(&s);
}

static void check_plain_accuracy(const ls_attention_kernels *k) { check_accuracy(k, 0); }
static void check_plain_gradients(const ls_attention_kernels *k) { check_gradients(k, 0); }

TEST(shapes)
TEST(extremes)
TEST(mask)
TEST(windows)
TEST(window_of_a_query)
TEST(generation)
TEST(long)
TEST(plain_accuracy)
TEST(plain_gradients)

/* CPU time of this thread, which a busy machine disturbs less. */
static double cpu_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Best of five; flops are those of the products of seen pairs, each counted once: 2 forward, 5 backward. */
static void bench(const isa *one, ls_dtype act, ls_unit unit, double p) {
    enum { T = 1024, D = 64, H = 12 };
    ls_attention_kernels k = one->kernels;
    sequence s = make_of(act, unit, T, H, H, D, 0, 1);
    if (p > 0) set_dropout(&s, p);
    double forward_s = HUGE_VAL, backward_s = HUGE_VAL, pair_flops = 2.0 * D * H * (T * (T + 1.0) / 2);
    for (int round = 0; round < 5; round++) {
        double t0 = cpu_seconds();
        k.forward(&s.a, 0, H, 0, T, s.scratch);
        double t1 = cpu_seconds();
        k.backward_dots(&s.a, 0, H, 0, T);
        for (size_t kv = 0; kv < H; kv++) k.backward(&s.a, kv, s.scratch);
        double t2 = cpu_seconds();
        if (t1 - t0 < forward_s) forward_s = t1 - t0;
        if (t2 - t1 < backward_s) backward_s = t2 - t1;
    }
    printf("%s, %zu bytes: T=%d d=%d H=%d p=%g forward %.1f GFLOP/s, backward %.1f GFLOP/s, both %.1f GFLOP/s\n",
           one->name, ls_dtype_bytes(act), T, D, H, p, 2e-9 * pair_flops / forward_s, 5e-9 * pair_flops / backward_s,
           7e-9 * pair_flops / (forward_s + backward_s));
    release(&s);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "bench") == 0) {
        isa list[LS_ISA_COUNT];
        size_t n = list_isas(list);
        for (size_t i = 0; i < n; i++)
            for (int drop = 0; drop < 4 && (argc == 2 || strcmp(argv[2], list[i].name) == 0); drop++)
                bench(&list[i], drop < 2 ? LS_F32 : LS_BF16, LS_UNIT_CHAIN, 0.1 * (drop % 2));
#ifdef __aarch64__
        isa unit = {.name = "bfmmla"};
        ls_attention_kernels_fill_bfmmla(&unit.kernels);
        for (int drop = 0; drop < 2 && ls_cpu_detect()->bf16 && (argc == 2 || strcmp(argv[2], unit.name) == 0); drop++)
            bench(&unit, LS_BF16, LS_UNIT_BFMMLA, 0.1 * drop);
#endif
        return 0;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes),         cmocka_unit_test(test_extremes),
                                       cmocka_unit_test(test_mask),           cmocka_unit_test(test_generation),
                                       cmocka_unit_test(test_windows),        cmocka_unit_test(test_window_of_a_query),
                                       cmocka_unit_test(test_long),           cmocka_unit_test(test_plain_accuracy),
                                       cmocka_unit_test(test_plain_gradients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
