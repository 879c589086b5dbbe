/* test_layout_divide.c: blocks and groups are divided as well as by any division found by trying all. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "base/status.h"
#include "model/model.h"
#include "model/shape_file.h"
#include "parallel/layout/layout.h"
#include "parallel/layout/make.h"

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

typedef struct division {
    double most, squares;
    int first[16];
} division;

/* Tries every division of blocks from `begin` on into the chunks c, c + 1, …; earlier ones larger come first. */
static void try_all(const double *cost, int n, int chunks, int c, division *now, division *best) {
    if (c == chunks) {
        if (now->first[c] != n) return;
        bool better = now->most < best->most || (now->most == best->most && now->squares < best->squares);
        if (better) *best = *now;
        return;
    }
    for (int size = n - now->first[c]; size >= 1; size--) {
        division next = *now;
        double sum = 0;
        for (int i = 0; i < size; i++) sum += cost[now->first[c] + i];
        next.first[c + 1] = now->first[c] + size;
        if (sum > next.most) next.most = sum;
        next.squares += sum * sum;
        try_all(cost, n, chunks, c + 1, &next, best);
    }
}

static void assert_best(const double *cost, int n, int chunks) {
    int first[17] = {0};
    division now = {0}, best = {.most = DBL_MAX, .squares = DBL_MAX};
    double most = 0, squares = 0;
    try_all(cost, n, chunks, 0, &now, &best);
    assert_int_equal(ls_layout_divide(LS_DIVIDE_COST, cost, n, chunks, first), LS_OK);
    assert_true(first[0] == 0 && first[chunks] == n);
    for (int c = 0; c < chunks; c++) {
        double sum = 0;
        assert_true(first[c + 1] > first[c]);
        for (int i = first[c]; i < first[c + 1]; i++) sum += cost[i];
        most = sum > most ? sum : most;
        squares += sum * sum;
    }
    assert_true(most == best.most);
    /* whole units of 2^-20 of all decide about squares */
    assert_true(fabs(squares - best.squares) <= 1e-4 * best.squares);
}

static void test_no_division_is_better(void **state) {
    (void)state;
    ls_rng_key key = ls_rng_key_make(11, 0, 0);
    uint64_t index = 0;
    for (int n = 1; n <= 10; n++)
        for (int chunks = 1; chunks <= n; chunks++)
            for (int trial = 0; trial < 12; trial++) {
                double cost[10];
                for (int i = 0; i < n; i++) {
                    uint32_t x = ls_rng_u32(key, index++);
                    /* equal, few different, zero among them, all different */
                    cost[i] = trial < 2 ? 7 : trial < 5 ? (double)(x % 3) : trial < 8 ? (double)(x % 100) : (double)x;
                }
                assert_best(cost, n, chunks);
            }
}

/* Equal costs: sizes differ by one at most, larger ones first. */
static void test_equal_costs(void **state) {
    (void)state;
    double cost[100];
    for (int i = 0; i < 100; i++) cost[i] = 123456789.0;
    for (int n = 1; n <= 100; n++)
        for (int chunks = 1; chunks <= n; chunks += chunks < 10 ? 1 : 9) {
            int first[101];
            assert_int_equal(ls_layout_divide(LS_DIVIDE_COST, cost, n, chunks, first), LS_OK);
            for (int c = 0; c < chunks; c++)
                assert_int_equal(first[c + 1] - first[c], n / chunks + (c < n % chunks ? 1 : 0));
        }
    double nothing[5] = {0};
    int first[6];
    assert_int_equal(ls_layout_divide(LS_DIVIDE_COST, nothing, 5, 3, first), LS_OK);
    assert_true(first[0] == 0 && first[1] > 0 && first[2] > first[1] && first[3] == 5);
}

static void test_deep_models(void **state) {
    (void)state;
    enum { N = 1024 };
    static double cost[N];
    static int first[N + 1];
    for (int i = 0; i < N; i++) cost[i] = 1;
    assert_int_equal(ls_layout_divide(LS_DIVIDE_COST, cost, N, 500, first), LS_OK);
    assert_int_equal(first[500], N);
    assert_int_equal(first[24], 72);
    assert_int_equal(ls_layout_divide(LS_DIVIDE_COST, cost, N, N, first), LS_OK);
    assert_int_equal(first[N], N);
}

/* The largest vocabulary of GPT-2 makes the head as costly as five layers. */
static void test_a_costly_head(void **state) {
    (void)state;
    ls_shape shape;
    ls_model *model;
    ls_layout layout;
    ls_layout_request request = ls_layout_request_none();
    ls_knob_give(&request, LS_KNOB_pp, 4);
    assert_int_equal(ls_shape_preset("gpt2-124m", &shape), LS_OK);
    assert_int_equal(ls_model_create(&shape, 4, &model), LS_OK);
    ls_layout_task gpt2 = {.model = model, .B = 8, .T = 64, .G = 8};
    assert_int_equal(ls_layout_make(&request, &gpt2, &layout), LS_OK);
    static const int first[] = {0, 5, 9, 13, 14};
    assert_memory_equal(layout.chunk_first, first, sizeof first);
    ls_model_destroy(model);
}

/* As other programs divide: equal numbers of layers, the rest where there is least to do, the ends at their ends. */
static void test_layers_in_equal_numbers(void **state) {
    (void)state;
    static const struct {
        int n, chunks;
        double cost[3];
        int first[6];
    } rows[] = {
        {14, 4, {1, 10, 5}, {0, 4, 7, 10, 14}},     /* 12 layers */
        {14, 5, {1, 10, 15}, {0, 3, 5, 8, 11, 14}}, /* the head is worth more than a layer; later chunks come first */
        {14, 5, {35, 10, 5}, {0, 3, 5, 8, 11, 14}},
        {13, 4, {1, 10, 100}, {0, 4, 7, 10, 13}},
        {5, 3, {0, 1, 0}, {0, 2, 3, 5}},
        {9, 1, {3, 1, 4}, {0, 9}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int first[LS_CHUNKS_MAX + 1];
        assert_int_equal(ls_layout_divide(LS_DIVIDE_LAYERS, rows[i].cost, rows[i].n, rows[i].chunks, first), LS_OK);
        assert_memory_equal(first, rows[i].first, (size_t)(rows[i].chunks + 1) * sizeof *first);
    }
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

static double slowest(const double *speeds, const int *share, int rows) {
    double most = 0;
    for (int d = 0; d < rows; d++)
        if (share[d] / speeds[d] > most) most = share[d] / speeds[d];
    return most;
}

/* Beside all divisions of up to 12 groups among 3 rows. */
static void test_no_shares_are_faster(void **state) {
    (void)state;
    ls_rng_key key = ls_rng_key_make(12, 0, 0);
    for (uint64_t trial = 0; trial < 500; trial++) {
        double speeds[3], best = DBL_MAX;
        int share[3], n = 3 + (int)(trial % 10);
        for (uint64_t d = 0; d < 3; d++) speeds[d] = 1 + ls_rng_u32(key, 3 * trial + d) % 20;
        for (int a = 1; a <= n - 2; a++)
            for (int b = 1; b <= n - 1 - a; b++) {
                double time = slowest(speeds, (int[]){a, b, n - a - b}, 3);
                if (time < best) best = time;
            }
        ls_layout_share_by_speed(speeds, 3, n, share);
        assert_int_equal(share[0] + share[1] + share[2], n);
        assert_true(share[0] >= 1 && share[1] >= 1 && share[2] >= 1);
        assert_true(slowest(speeds, share, 3) == best);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_division_is_better),
        cmocka_unit_test(test_equal_costs),
        cmocka_unit_test(test_deep_models),
        cmocka_unit_test(test_a_costly_head),
        cmocka_unit_test(test_layers_in_equal_numbers),
        cmocka_unit_test(test_no_shares_are_faster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
