/* test_ops_sums.c: exact sums of squares and losses, and right answers, against the host's own sums; on every number of
 * threads. */
#include <math.h>

#include "ops.h"

static int64_t *words_of(float *p) { return (int64_t *)(void *)p; }

static twin make_words(size_t count, int64_t first) {
    twin t = make(2 * count);
    for (size_t i = 0; i < count; i++) words_of(t.ref)[i] = first + (int64_t)i;
    ok(ls_device_copy_in(device, t.dev, t.ref, count * sizeof(int64_t)));
    return t;
}

/* Of every size, from subnormal to the largest; `bad`: some are not finite. */
static float some_number(size_t i, bool bad) {
    static const float special[] = {0x1p-149f, 0x1.FFFFFEp127f, -0.0f, 0.0f, -0x1.8p-140f, INFINITY, NAN};
    uint32_t bits = ls_rng_u32(ls_rng_key_make(19, 0, 0), i);
    float x;
    if (i % 5 == 0) return special[i / 5 % (bad ? 7 : 5)];
    memcpy(&x, &bits, sizeof x);
    return isfinite(x) || bad ? x : 1.0f;
}

/* The sum goes on from what is there, words that are not settled too. */
static void check_squares(size_t n, bool bad, bool cut) {
    twin x = make_shifted(n, n % 2), out = make_words(LS_EXACT_WORDS, -3);
    size_t blocks = (n + LS_SQUARE_BLOCK - 1) / LS_SQUARE_BLOCK;
    double *sums = calloc(blocks + 1, sizeof *sums);
    assert_non_null(sums);
    ls_exact_sum sum = {.unsettled = 0};
    for (size_t i = 0; i < n; i++) x.ref[i] = some_number(i, bad);
    ok(ls_device_copy_in(device, x.dev, x.ref, n * sizeof(float)));
    ls_square_piece pieces[400];
    size_t parts = 0, at = 0;
    for (size_t most = cut ? 1 : n; at < n || parts == 0; at += pieces[parts++].n, most = most % 2047 + 700)
        pieces[parts] = (ls_square_piece){x.dev + at, n - at < most ? n - at : most};
    ok(ops->square_sums(device, &(ls_square_sums_call){words_of(out.dev), pieces, (int)parts}));
    for (size_t i = 0, begin = 0; i < parts; begin += pieces[i++].n) {
        portable.optim.square_sums(sums, x.ref + begin, pieces[i].n);
        ls_exact_sum_add_many(&sum, sums, (pieces[i].n + LS_SQUARE_BLOCK - 1) / LS_SQUARE_BLOCK);
    }
    for (int i = 0; i < LS_EXACT_WORDS; i++) words_of(out.ref)[i] += sum.words[i];
    free(sums);
    check("squares", n, bad);
}

static void check_losses(size_t sequences, size_t T, size_t context) {
    static const float special[] = {0x1p31f,  -0x1p31f,  0x1.FFFFFEp30f, -0x1.FFFFFEp30f,
                                    0x1p-25f, -0x1p-25f, 0x1.8p-24f,     0x1.8p-25f,
                                    NAN,      -INFINITY, 0.0f,           -0.0f};
    size_t n = sequences * T;
    twin x = make(n), out = make_words(3, 5);
    ls_loss_sum sum = {0}, before;
    for (size_t i = 0; i < n; i++)
        x.ref[i] = i % 7 == 0 ? special[i / 7 % (sizeof special / sizeof *special)] : 12 * fabsf(x.ref[i]);
    ok(ls_device_copy_in(device, x.dev, x.ref, n * sizeof(float)));
    words_of(out.ref)[0] = INT64_MAX - 1; /* what is added wraps */
    ok(ls_device_copy_in(device, out.dev, out.ref, 3 * sizeof(int64_t)));
    ok(ops->add_losses(device, &(ls_add_losses_call){(ls_loss_sum *)(void *)out.dev, x.dev, sequences, T, context}));
    for (size_t i = 0; i < n; i++)
        if (i % T >= context) ls_loss_sum_add(&sum, x.ref[i]);
    memcpy(&before, out.ref, sizeof before);
    ls_loss_sum_merge(&before, &sum);
    memcpy(out.ref, &before, sizeof before);
    check("losses", n, context);
}

/* Equal largest numbers, zeros of both signs, NaNs in front and inside, infinities. */
static void check_right(size_t rows, size_t columns) {
    size_t stride = columns + 3;
    twin z = make(rows * stride), targets = make_ids(rows, columns, 0), out = make_words(1, 40);
    for (size_t r = 0; r < rows; r++) {
        float *row = z.ref + r * stride;
        size_t a = ls_rng_below(ls_rng_key_make(5, 0, r), 0, columns), b = (a + columns / 2) % columns;
        if (r % 4 == 1) row[a] = row[b] = 3;
        if (r % 4 == 2) row[a] = r % 8 == 2 ? NAN : INFINITY;
        if (r % 4 == 3)
            for (size_t i = 0; i < columns; i++) row[i] = i % 2 ? 0.0f : -0.0f;
        if (r % 7 == 6) row[0] = NAN;
        size_t best = 0;
        for (size_t i = 1; i < columns; i++)
            if (row[i] > row[best]) best = i;
        int32_t *ids = (int32_t *)(void *)targets.ref;
        if (r % 3) ids[r] = (int32_t)best;
        words_of(out.ref)[0] += ids[r] == (int32_t)best;
    }
    ok(ls_device_copy_in(device, z.dev, z.ref, rows * stride * sizeof(float)));
    ok(ls_device_copy_in(device, targets.dev, targets.ref, rows * sizeof(float)));
    ok(ops->count_right(device,
                        &(ls_count_right_call){words_of(out.dev), z.dev, stride, rows, columns, ids_of(targets.dev)}));
    check("right", rows, columns);
}

static void all_sums(void) {
    static const size_t sizes[] = {0, 1, 15, 16, 1023, 1024, 1025, 16 * 1024 + 1, 70001};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int how = 0; how < 4; how++) check_squares(sizes[i], how % 2, how / 2);
    check_losses(0, 5, 0);
    check_losses(1, 1, 0);
    check_losses(3, 50, 0);
    check_losses(7, 301, 17);
    check_losses(2, 20000, 1);
    check_right(1, 1);
    check_right(50, 10);
    check_right(9, 33);
    check_right(17, 1000);
}

static void test_sums(void **state) {
    (void)state;
    on_every_device(all_sums);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
