/* test_attention_dropout.c: dropout of attention's weights, on every ISA: the bits of the plain loops of
 * attention_reference.h for many shapes and any division of the work; accuracy and gradients against double under the
 * same mask; the rate; heads that are numbered over workers; and what a GPU writes down of it for its kernels. */
#include "attention_sequence.h"
#include "device/cuda/args/attention_hgmma.h"
#include "device/cuda/launch.h"

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

/* Lines of both kinds, of two parts and two sequences; pairs of a query begin at any number. head0 is the second
 * part's. */
static void check_masks(size_t T, uint64_t head0, bool across) {
    enum { B = 2, HEADS = 3, IN_FIRST = 2 };
    const size_t lines = (T + LS_CUDA_HGMMA_STAT_STEP - 1) / LS_CUDA_HGMMA_STAT_STEP * LS_CUDA_HGMMA_STAT_STEP;
    const size_t elems = B * HEADS * lines * lines / 16, tiles = lines / LS_CUDA_HGMMA_MASK_TILE;
    const ls_rng_key key = ls_rng_key_make(77, 5, 0x123456789AB);
    const uint32_t threshold = ls_dropout_threshold(0.3);
    ls_cuda_attention_part parts[2] = {0};
    for (int p = 0; p < 2; p++) {
        parts[p].heads = p ? HEADS - IN_FIRST : IN_FIRST;
        parts[p].drop_threshold = threshold;
        parts[p].drop_scale = 2;
        parts[p].drop_key = (ls_cuda_rng){key.seed, key.step, key.purpose};
        parts[p].drop_head0 = p ? head0 : 3;
        parts[p].drop_heads = 7;
    }
    uint16_t *masks = calloc(elems, sizeof *masks);
    gpu_copy list = copy_to_gpu(parts, sizeof parts, 0), made = copy_to_gpu(masks, elems * sizeof *masks, 0);
    const ls_cuda_attention_hgmma args = {.a = {.parts = (void *)list.at, .T = (int)T},
                                          .stat_rows = lines,
                                          .B = B,
                                          .heads = HEADS,
                                          .all_heads = HEADS,
                                          .masks = (void *)made.at,
                                          .masks_across = across};
    assert_int_equal(ls_cuda_launch(gpu(), LS_CUDA_attention_hgmma_masks, (ls_cuda_grid){tiles * tiles, HEADS, B},
                                    LS_CUDA_HGMMA_MASK_THREADS, 0, &args),
                     LS_OK);
    close_copy(&list);
    close_copy(&made);
    for (size_t b = 0; b < B; b++)
        for (size_t h = 0; h < HEADS; h++) {
            const uint64_t head = h < IN_FIRST ? 3 + b * 7 + h : head0 + b * 7 + h - IN_FIRST;
            for (size_t q = 0; q < T; q++)
                for (size_t k = 0; k <= q; k++) {
                    const size_t line = across ? k : q, column = across ? q : k;
                    const size_t at =
                        (((b * HEADS + h) * (lines / 64) + column / 64) * lines + line) * 4 + column % 8 / 2;
                    const bool kept = masks[at] >> (column % 64 / 8 * 2 + column % 2) & 1;
                    if (kept != (ls_rng_u32(key, (head * T + q) * T + k) >= threshold))
                        fail_msg("sequence %zu, head %zu, query %zu, key %zu of %zu", b, h, q, k, T);
                }
        }
    free(masks);
}

static void test_masks(void **state) {
    (void)state;
    /* Heads in which pair number 2^34·n, where the lower half of a run's number is 0 again, is one of a query and a key
     * before it. */
    static const struct {
        size_t T;
        uint64_t head0;
    } cases[] = {{8, 0xFFFFFFFF}, {65, 12198723}, {128, 5}, {130, 3049680}, {300, 954437}};
    if (!getenv("LS_TEST_CUDA")) skip();
    for (int i = 0; i < 10; i++) check_masks(cases[i / 2].T, cases[i / 2].head0, i % 2);
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
                                       cmocka_unit_test(test_some_heads),
                                       cmocka_unit_test(test_masks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
