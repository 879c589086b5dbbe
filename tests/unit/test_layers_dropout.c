/* test_layers_dropout.c: dropout of every ISA against the contract, one element at a time from base/rng.h: shapes,
 * gaps, places in a block, counters that carry, cuts among threads, in place. */
#include "layers.h"

#include "device/cpu/kernels.h"

static const double rates[] = {0, 0.1, 0.5, 0.875, 1 - 0x1p-40};

typedef struct dropout_case {
    size_t rows, C, x_gap, y_gap;
    uint64_t index0;
    double p;
    int residual;
} dropout_case;

static ls_rng_key key_of(const dropout_case *c) {
    return ls_rng_key_make(0x0123456789ABCDEF + c->C, 0xC0FFEE, 0x123456789AB + c->rows);
}

static float expect_one(const dropout_case *c, size_t row, size_t column, float x, float residual) {
    uint32_t number = ls_rng_u32(key_of(c), (c->index0 + row) * c->C + column);
    int dropped = (double)number < floor(c->p * 4294967296.0);
    float d = dropped ? 0.0f : x * (float)(1 / (1 - c->p));
    return c->residual ? residual + d : d;
}

static void expect(const dropout_case *c, grid *y, const grid *x, const grid *residual) {
    for (size_t r = 0; r < c->rows; r++)
        for (size_t i = 0; i < c->C; i++)
            row_of(y, r)[i] = expect_one(c, r, i, row_of(x, r)[i], row_of(residual, r)[i]);
}

static void call_rows(const ls_dropout_kernels *k, const dropout_case *c, grid *y, const grid *x, const grid *residual,
                      size_t first, size_t end) {
    ls_dropout_call call = {.rows = end - first,
                            .columns = c->C,
                            .drop.key = key_of(c),
                            .drop.first = c->index0 + first,
                            .x = row_of(x, first),
                            .x_stride = x->stride,
                            .residual = c->residual ? row_of(residual, first) : NULL,
                            .residual_stride = residual->stride,
                            .y = row_of(y, first),
                            .y_stride = y->stride};
    ls_drop_set_rate(&call.drop, c->p);
    k->dropout_add(&call);
}

static void check_case(const ls_dropout_kernels *k, const dropout_case *c, kind of) {
    grid x = grid_make(c->rows, c->C, c->x_gap, 1, of), residual = grid_make(c->rows, c->C, c->y_gap, 2, of);
    grid got = grid_make(c->rows, c->C, c->y_gap, 3, PLAIN), expected = grid_copy(&got),
         in_place = grid_copy(&residual);
    expect(c, &expected, &x, &residual);
    size_t cuts[MOST_PARTS + 1], n_parts = parts[(c->rows + c->C) % N_PARTS];
    make_cuts(cuts, n_parts, c->rows, c->C);
    for (size_t p = 0; p < n_parts; p++) call_rows(k, c, &got, &x, &residual, cuts[p], cuts[p + 1]);
    check_grid(&got, &expected, "dropout");
    call_rows(k, c, &in_place, &x, &in_place, 0, c->rows);
    for (size_t r = 0; r < c->rows; r++)
        check_same(row_of(&in_place, r), row_of(&expected, r), c->C, "dropout in place of the residual");
    if (c->x_gap == c->y_gap) {
        grid over_x = grid_copy(&x);
        call_rows(k, c, &over_x, &over_x, &residual, 0, c->rows);
        for (size_t r = 0; r < c->rows; r++)
            check_same(row_of(&over_x, r), row_of(&expected, r), c->C, "dropout in place of x");
        grid_free(&over_x);
    }
    grid_free(&x);
    grid_free(&residual);
    grid_free(&got);
    grid_free(&expected);
    grid_free(&in_place);
}

static void check_dropout(const ls_dropout_kernels *k) {
    static const size_t wide[] = {1021, 1024, 1025, 2500};
    for (size_t i = 0; i < N_SIZES; i++)
        for (size_t rows = 1; rows < 20; rows += 6) {
            dropout_case c = {
                rows, sizes[i], rows % 2, i % 3, i * 1000003, rates[(i + rows) % 5], (int)(i + rows / 6) % 2};
            check_case(k, &c, i % 2 ? PLAIN : WILD);
            c.x_gap = c.y_gap = 0;
            check_case(k, &c, PLAIN);
        }
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        dropout_case c = {3, wide[i], i % 2, 0, 17, 0.2, 1};
        check_case(k, &c, PLAIN);
    }
    /* Blocks around 2^32, and the last ones. */
    for (uint64_t at = (UINT64_C(1) << 34) - 100; at < (UINT64_C(1) << 34) + 40; at += 7)
        check_case(k, &(dropout_case){2, 1, 1, 0, at, 0.4, 0}, PLAIN);
    check_case(k, &(dropout_case){300, 1, 0, 0, (UINT64_C(1) << 34) - 150, 0.4, 0}, PLAIN);
    check_case(k, &(dropout_case){300, 1, 0, 0, LS_RNG_INDEX_LIMIT - 300, 0.4, 0}, PLAIN);
}

static void test_dropout(void **state) {
    (void)state;
    CHECK_EVERY_ISA(dropout, check_dropout);
}

/* The rate is met, and what is kept makes up for what is not: within five standard deviations. */
static void check_rates(const ls_dropout_kernels *k) {
    enum { N = 100000 };
    static float x[N], y[N];
    for (int i = 0; i < N; i++) x[i] = 1.0f;
    for (int i = 1; i < 4; i++) {
        ls_dropout_call call = {
            .rows = 1, .columns = N, .drop.key = ls_rng_key_make(1, 2, (uint64_t)i), .x = x, .y = y};
        ls_drop_set_rate(&call.drop, rates[i]);
        k->dropout_add(&call);
        double dropped = 0, sum = 0, p = rates[i];
        for (int j = 0; j < N; j++) {
            dropped += y[j] == 0.0f;
            sum += (double)y[j];
        }
        assert_true(fabs(dropped - N * p) < 5 * sqrt(N * p * (1 - p)));
        assert_true(fabs(sum / N - 1) < 5 * sqrt(p / (1 - p) / N));
    }
}

static void test_rates(void **state) {
    (void)state;
    CHECK_EVERY_ISA(dropout, check_rates);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_dropout), cmocka_unit_test(test_rates)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
