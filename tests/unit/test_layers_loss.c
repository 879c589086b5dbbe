/* test_layers_loss.c: softmax cross-entropy of every ISA against the contract, to the bit, and against double. */
#include "layers.h"

#include "device/cpu/kernels.h"

enum { MOST_SLICES = 8 };

/* Slice i of n: ⌊i·n/S⌋ … */
static void even_bounds(size_t *bounds, size_t n, size_t slices) {
    for (size_t i = 0; i <= slices; i++) bounds[i] = i * n / slices;
}

static void check_pieces(const ls_loss_kernels *k, const grid *z, size_t target, float g) {
    size_t n = z->C;
    float m = contract_row_max(z->at, n), l = contract_slice_sum(z->at, n, m);
    assert_true(same_bits(k->slice_max(z->at, n), m));
    assert_true(same_bits(k->slice_sum(z->at, n, m), l));
    assert_true(same_bits(k->value(z->at[target], m, l), contract_loss(z->at[target], m, l)));
    grid expected = grid_copy(z), got = grid_copy(z);
    for (size_t j = 0; j < n; j++) expected.at[j] = contract_dz(z->at[j], m, l, 0, g);
    k->slice_grad(got.at, got.at, n, m, l, LS_LOSS_NO_TARGET, g);
    check_grid(&got, &expected, "gradient without target");
    expected.at[target] = contract_dz(z->at[target], m, l, 1, g);
    k->slice_grad(got.at, z->at, n, m, l, target, g);
    check_grid(&got, &expected, "gradient with target");
    grid_free(&expected);
    grid_free(&got);
}

/* The whole row in one call, in place and not, and slice by slice as tensor-parallel workers do it. */
static void check_row(const ls_loss_kernels *k, const grid *z, const size_t *bounds, size_t slices, size_t target,
                      float g) {
    size_t n = z->C;
    float m = contract_row_max(z->at, n), l = contract_row_sum(z->at, bounds, slices, m), sums[MOST_SLICES];
    grid expected = grid_copy(z), got = grid_copy(z), sliced = grid_copy(z);
    for (size_t j = 0; j < n; j++) expected.at[j] = contract_dz(z->at[j], m, l, j == target, g);
    ls_loss_row row = k->row(NULL, z->at, bounds, slices, target, g);
    assert_true(same_bits(row.m, m) && same_bits(row.l, l));
    assert_true(same_bits(row.loss, contract_loss(z->at[target], m, l)));
    row = k->row(got.at, got.at, bounds, slices, target, g);
    assert_true(same_bits(row.m, m) && same_bits(row.l, l));
    assert_true(same_bits(row.loss, contract_loss(z->at[target], m, l)));
    check_grid(&got, &expected, "row in place");
    for (size_t i = 0; i < slices; i++) sums[i] = k->slice_sum(z->at + bounds[i], bounds[i + 1] - bounds[i], m);
    assert_true(same_bits(contract_tree(sums, slices), l));
    for (size_t i = 0; i < slices; i++) {
        int here = target >= bounds[i] && target < bounds[i + 1];
        k->slice_grad(sliced.at + bounds[i], z->at + bounds[i], bounds[i + 1] - bounds[i], m, l,
                      here ? target - bounds[i] : LS_LOSS_NO_TARGET, g);
    }
    check_grid(&sliced, &expected, "row by slices");
    grid_free(&expected);
    grid_free(&got);
    grid_free(&sliced);
}

/* What the logits of a row look like. */
enum { NORMAL, FLAT, FAR, LARGE, ONE_INFINITE, ALL_LOW, ONE_NAN, SHAPES };

static void shape_logits(grid *z, int shape) {
    for (size_t j = 0; j < z->C; j++) {
        if (shape == FLAT) z->at[j] = j % 2 ? -0.0f : 0.0f;
        if (shape == FAR) z->at[j] *= 25.0f; /* many exponentials are +0 */
        if (shape == LARGE) z->at[j] = z->at[j] * 1e37f;
        if (shape == ALL_LOW) z->at[j] = -INFINITY;
    }
    if (shape == ONE_INFINITE) z->at[z->C / 2] = INFINITY;
    if (shape == ONE_NAN) z->at[z->C - 1] = NAN;
}

static void check_all(const ls_loss_kernels *k) {
    static const size_t vocabularies[] = {1, 2, 3, 15, 16, 17, 31, 33, 64, 100, 257, 768, 5003};
    for (size_t v = 0; v < sizeof vocabularies / sizeof *vocabularies; v++)
        for (int shape = 0; shape < SHAPES; shape++) {
            size_t n = vocabularies[v], bounds[MOST_SLICES + 1];
            grid z = grid_make(1, n, 0, 1, PLAIN);
            shape_logits(&z, shape);
            ls_rng_key key = ls_rng_key_make(n, 5, (uint64_t)shape);
            for (uint64_t turn = 0; turn < 3; turn++) {
                size_t target = turn == 0 ? n - 1 : (size_t)ls_rng_below(key, turn, n);
                check_pieces(k, &z, target, 0x1p-10f);
                /* 3, 5, 6 and 7 are no numbers of slices that a run has, but the tree is defined for them. */
                for (size_t slices = 1; slices <= MOST_SLICES; slices++) {
                    even_bounds(bounds, n, slices);
                    check_row(k, &z, bounds, slices, target, 0x1p-7f);
                }
            }
            grid_free(&z);
        }
    assert_true(k->slice_max(NULL, 0) == -INFINITY);
}

static void test_every_isa(void **state) {
    (void)state;
    CHECK_EVERY_ISA(loss, check_all);
}

static void test_maximum(void **state) {
    (void)state;
    ls_kernels table;
    ls_kernels_fill(&table, 0);
    ls_loss_kernels k = table.loss;
    const float zeros[] = {-0.0f, 0.0f, -0.0f}, with_nan[] = {1.0f, NAN, INFINITY};
    assert_int_equal(bits_of(k.slice_max(zeros, 3)), 0);
    assert_int_equal(bits_of(k.slice_max(zeros, 1)), 0x80000000u);
    assert_int_equal(bits_of(k.slice_max(with_nan, 3)), 0x7FC00000u);
}

static void check_accuracy(const ls_loss_kernels *k) {
    enum { V = 5003 };
    size_t bounds[MOST_SLICES + 1];
    even_bounds(bounds, V, MOST_SLICES);
    grid z = grid_make(1, V, 0, 1, PLAIN), dz = grid_copy(&z);
    double sum = 0, total = 0;
    for (size_t j = 0; j < V; j++) sum += exp((double)z.at[j]);
    ls_loss_row row = k->row(dz.at, z.at, bounds, MOST_SLICES, 77, 1.0f);
    assert_true(fabs((double)row.loss - (log(sum) - (double)z.at[77])) < 4e-6);
    for (size_t j = 0; j < V; j++) {
        double p = exp((double)z.at[j]) / sum;
        assert_true(fabs((double)dz.at[j] - (p - (j == 77))) < 1e-6 * p + 1e-7 * (j == 77));
        total += (double)dz.at[j];
    }
    assert_true(fabs(total) < 1e-6);
    grid_free(&z);
    grid_free(&dz);
}

static void test_accuracy(void **state) {
    (void)state;
    CHECK_EVERY_ISA(loss, check_accuracy);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_isa),
        cmocka_unit_test(test_maximum),
        cmocka_unit_test(test_accuracy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
