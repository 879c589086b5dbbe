/* test_exact_sum.c: exact sums against a slow integer of single bits, crafted cases of rounding, and any order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <float.h>
#include <math.h>

#include <cmocka.h>

#include "base/rng.h"
#include "numerics/exact_sum.h"

/* ---- the reference: two's complement, one bit in each byte, bit 0 is 2^−1074 ------------------------------------- */

enum { BITS = 2200 };
typedef struct slow_sum {
    unsigned char bit[BITS];
} slow_sum;

static void slow_negate(slow_sum *s) {
    int carry = 1;
    for (int i = 0; i < BITS; i++) {
        int t = !s->bit[i] + carry;
        s->bit[i] = (unsigned char)(t & 1);
        carry = t >> 1;
    }
}

static void slow_add(slow_sum *s, double x) {
    if (x == 0) return;
    slow_sum term = {{0}};
    int exponent;
    double fraction = frexp(fabs(x), &exponent);
    uint64_t digits = (uint64_t)(fraction * 0x1p53);
    for (int i = 0; i < 53; i++) {
        int place = exponent - 53 + 1074 + i;
        if (digits >> i & 1) term.bit[place] = 1;
    }
    if (x < 0) slow_negate(&term);
    int carry = 0;
    for (int i = 0; i < BITS; i++) {
        int t = s->bit[i] + term.bit[i] + carry;
        s->bit[i] = (unsigned char)(t & 1);
        carry = t >> 1;
    }
}

/* Takes bits from the top, 53 of them, and decides by the rest. */
static double slow_value(slow_sum s) {
    int negative = s.bit[BITS - 1];
    if (negative) slow_negate(&s);
    int top = BITS - 1;
    while (top >= 0 && !s.bit[top]) top--;
    if (top < 0) return 0;
    double value = 0;
    int end = top >= 52 ? top - 52 : 0;
    for (int i = top; i >= end; i--) value = 2 * value + s.bit[i];
    if (end > 0 && s.bit[end - 1]) {
        int rest = 0;
        for (int i = 0; i < end - 1; i++) rest |= s.bit[i];
        if (rest || s.bit[end]) value += 1;
    }
    value = ldexp(value, end - 1074);
    return negative ? -value : value;
}

static void same_double(double a, double b) { assert_memory_equal(&a, &b, sizeof a); }

/* ---- tests ------------------------------------------------------------------------------------------------------- */

enum { N = 400 };

/* Kinds: any finite number; numbers near one; pairs that nearly cancel; subnormal numbers. */
static void make_numbers(double *x, int kind, uint64_t seed) {
    ls_rng_key key = ls_rng_key_make(seed, 1, (uint64_t)kind);
    for (size_t i = 0; i < N; i++) {
        uint64_t bits = ls_rng_u64(key, i);
        if (kind == 1) bits = (bits & 0x803FFFFFFFFFFFFFu) | 0x3FC0000000000000u;
        if (kind == 3) bits &= 0x800FFFFFFFFFFFFFu;
        if ((bits >> 52 & 0x7FF) == 0x7FF) bits ^= UINT64_C(1) << 60;
        memcpy(&x[i], &bits, sizeof bits);
        if (kind == 2 && i % 2 == 1) x[i] = -x[i - 1] * (1 + 0x1p-50 * (double)(i % 5));
        if (!isfinite(x[i])) x[i] = DBL_MAX;
    }
}

static void test_against_slow_sum(void **state) {
    (void)state;
    double x[N];
    for (int kind = 0; kind < 4; kind++)
        for (uint64_t seed = 0; seed < 3; seed++) {
            ls_exact_sum sum;
            slow_sum slow = {{0}};
            sum = (ls_exact_sum){0};
            make_numbers(x, kind, seed);
            for (int i = 0; i < N; i++) {
                ls_exact_sum_add(&sum, x[i]);
                slow_add(&slow, x[i]);
                if (i % 7 == 0) same_double(ls_exact_sum_value(&sum), slow_value(slow));
            }
            same_double(ls_exact_sum_value(&sum), slow_value(slow));
        }
}

static double sum_of(const double *x, size_t n) {
    ls_exact_sum sum;
    sum = (ls_exact_sum){0};
    ls_exact_sum_add_many(&sum, x, n);
    return ls_exact_sum_value(&sum);
}

#define CHECK_SUM(expected, ...)                                                                                       \
    do {                                                                                                               \
        const double numbers[] = {__VA_ARGS__};                                                                        \
        same_double(sum_of(numbers, sizeof numbers / sizeof *numbers), expected);                                      \
    } while (0)

static void test_rounding(void **state) {
    (void)state;
    CHECK_SUM(0.0, -0.0);
    CHECK_SUM(0.0, 1e300, 1.0, -1e300, -1.0);
    CHECK_SUM(1.0, 1.0, 0x1p-53);
    CHECK_SUM(1.0 + 0x1p-52, 1.0, 0x1p-53, 0x1p-1074);
    CHECK_SUM(1.0, 1.0, 0x1p-53, -0x1p-1074);
    CHECK_SUM(1.0 + 0x1p-51, 1.0 + 0x1p-52, 0x1p-53);
    CHECK_SUM(-1.0 - 0x1p-52, -1.0, -0x1p-53, -0x1p-1074);
    CHECK_SUM(2.0, 2.0 - 0x1p-52, 0x1p-53);
    CHECK_SUM(0x1p-1074, 1.0, 0x1p-1074, -1.0);
    CHECK_SUM(0x1p-1022, 0x1p-1022 - 0x1p-1074, 0x1p-1074);
    CHECK_SUM(-0x1.8p-1073, -0x1p-1073, -0x1p-1074);
    CHECK_SUM(DBL_MAX, DBL_MAX, DBL_MAX, -DBL_MAX);
    CHECK_SUM(HUGE_VAL, DBL_MAX, DBL_MAX);
    CHECK_SUM(-HUGE_VAL, -DBL_MAX, -0x1p970);
    CHECK_SUM(-DBL_MAX, -DBL_MAX, -0x1p970, 0x1p-1074);
}

static void test_counts_what_is_not_finite(void **state) {
    (void)state;
    ls_exact_sum sum;
    sum = (ls_exact_sum){0};
    ls_exact_sum_add(&sum, 2.5);
    ls_exact_sum_add(&sum, (double)INFINITY);
    ls_exact_sum_add(&sum, (double)-INFINITY);
    ls_exact_sum_add(&sum, (double)NAN);
    assert_int_equal(ls_exact_sum_non_finite(&sum), 3);
    same_double(ls_exact_sum_value(&sum), 2.5);
}

/* The words, not only the value: shuffled, and cut among workers whose words are added as an all-reduce does. */
static void test_any_order_and_cut(void **state) {
    (void)state;
    double x[N];
    ls_rng_key key = ls_rng_key_make(5, 2, 0);
    for (int kind = 0; kind < 4; kind++) {
        ls_exact_sum whole;
        whole = (ls_exact_sum){0};
        make_numbers(x, kind, 9);
        x[11] = (double)NAN;
        ls_exact_sum_add_many(&whole, x, N);
        ls_exact_sum_settle(&whole);
        for (uint64_t turn = 0; turn < 5; turn++) {
            for (size_t i = N - 1; i > 0; i--) {
                size_t j = (size_t)ls_rng_below(key, turn * N + i, i + 1);
                double kept = x[i];
                x[i] = x[j];
                x[j] = kept;
            }
            ls_exact_sum reduced, merged;
            reduced = (ls_exact_sum){0};
            merged = (ls_exact_sum){0};
            size_t workers = 1 + (size_t)turn * 2;
            for (size_t w = 0; w < workers; w++) {
                ls_exact_sum part;
                part = (ls_exact_sum){0};
                ls_exact_sum_add_many(&part, x + w * N / workers, (w + 1) * N / workers - w * N / workers);
                ls_exact_sum_merge(&merged, &part);
                for (int i = 0; i < LS_EXACT_WORDS; i++) reduced.words[i] += part.words[i];
            }
            ls_exact_sum_settle(&reduced);
            assert_memory_equal(reduced.words, whole.words, sizeof whole.words);
            assert_memory_equal(merged.words, whole.words, sizeof whole.words);
        }
    }
}

static void test_many_carries(void **state) {
    (void)state;
    /* As many equal sums as may be added up: each limb is as full as it can be. */
    const double most = -DBL_MAX / 0x1p31, most_spread = 0x1.fffffffffffffp-3;
    for (int i = 0; i < 2; i++) {
        double x = i == 0 ? most : most_spread;
        ls_exact_sum sum;
        sum = (ls_exact_sum){0};
        ls_exact_sum_add(&sum, x);
        ls_exact_sum_settle(&sum);
        for (int w = 0; w < LS_EXACT_LIMBS; w++) sum.words[w] *= INT64_C(1) << 30;
        same_double(ls_exact_sum_value(&sum), x * 0x1p30);
    }
    /* Long enough for carries to pass through several limbs without settling in between. */
    ls_exact_sum sum;
    sum = (ls_exact_sum){0};
    for (int i = 0; i < 3000000; i++) ls_exact_sum_add(&sum, i % 3 == 2 ? -0x1.fffffffffffffp0 : 0x1.fffffffffffffp0);
    same_double(ls_exact_sum_value(&sum), 0x1.fffffffffffffp0 * 1e6);
    /* The count of unsettled numbers is what makes it settle by itself. */
    sum.unsettled = (UINT32_C(1) << 30) - 1;
    ls_exact_sum_add(&sum, 1.0);
    assert_int_equal(sum.unsettled, 0);
}

static void test_losses(void **state) {
    (void)state;
    ls_loss_sum sum = {0}, other = {0};
    ls_loss_sum_add(&sum, 0x1p-25f); /* ties to even: 0, then 2 */
    assert_int_equal(sum.total, 0);
    ls_loss_sum_add(&sum, 0x3p-25f);
    assert_int_equal(sum.total, 2);
    ls_loss_sum_add(&sum, -0x1p-24f);
    assert_int_equal(sum.total, 1);
    ls_loss_sum_add(&sum, 10.5f);
    assert_int_equal(sum.total, 1 + (INT64_C(21) << 23));
    assert_int_equal(sum.count, 4);
    ls_loss_sum_add(&sum, 0x1.fffffep30f);
    assert_int_equal(sum.total, 1 + (INT64_C(21) << 23) + (INT64_C(0xFFFFFF) << 31));
    assert_int_equal(sum.bad, 0);
    ls_loss_sum_add(&sum, 0x1p31f);
    ls_loss_sum_add(&sum, -INFINITY);
    ls_loss_sum_add(&sum, NAN);
    assert_int_equal(sum.bad, 3);
    assert_int_equal(sum.count, 5);
    same_double(ls_loss_sum_mean(&other), 0.0);
    ls_loss_sum_add(&other, 2.0f);
    ls_loss_sum_add(&other, 5.0f);
    same_double(ls_loss_sum_mean(&other), 3.5);
    ls_loss_sum_merge(&other, &sum);
    assert_int_equal(other.total, sum.total + (INT64_C(7) << 24));
    assert_int_equal(other.count, 7);
    assert_int_equal(other.bad, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_slow_sum),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_counts_what_is_not_finite),
        cmocka_unit_test(test_any_order_and_cut),
        cmocka_unit_test(test_many_carries),
        cmocka_unit_test(test_losses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
