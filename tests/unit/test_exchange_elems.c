/* test_exchange_elems.c: fp16 and bf16 as files have them, against the definition of the formats. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "interop/elems.h"

/* By the definition of the format, with the C library's arithmetic. */
static double half_value(unsigned half) {
    int exponent = (int)(half >> 10 & 31), fraction = (int)(half & 1023);
    double size = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
                  : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                 : ldexp(fraction, -24);
    return half & 0x8000 ? -size : size;
}

static void test_every_half_is_exact(void **state) {
    (void)state;
    for (unsigned half = 0; half < 65536; half++) {
        uint16_t raw = (uint16_t)half, back;
        float value;
        ls_elems_to_f32(LS_F16, &raw, 1, &value);
        double want = half_value(half);
        if (isnan(want)) {
            assert_true(isnan(value));
            continue;
        }
        assert_true((double)value == want && !signbit(value) == !(half & 0x8000));
        assert_true(ls_elems_from_f32(LS_F16, &value, 1, &back));
        assert_int_equal(back, half);
    }
}

/* Between two neighbours: below, at and above the middle. */
static void test_halves_round_to_nearest_even(void **state) {
    (void)state;
    for (unsigned half = 0; half < 0x7BFF; half++) {
        double low = half_value(half), high = half_value(half + 1);
        float middle = (float)((low + high) / 2);
        float cases[3] = {nextafterf(middle, 0), middle, nextafterf(middle, INFINITY)};
        uint16_t got[3], want[3] = {(uint16_t)half, (uint16_t)(half & 1 ? half + 1 : half), (uint16_t)(half + 1)};
        assert_true(ls_elems_from_f32(LS_F16, cases, 3, got));
        assert_memory_equal(got, want, sizeof got);
    }
}

static void test_values_too_large_are_told(void **state) {
    (void)state;
    uint16_t raw[2];
    float fits[2] = {65504, -65519.996F}, large[2] = {1, 65520}, huge = 3.4e38F, infinite = INFINITY;
    assert_true(ls_elems_from_f32(LS_F16, fits, 2, raw));
    assert_false(ls_elems_from_f32(LS_F16, large, 2, raw));
    assert_int_equal(raw[1], 0x7C00);
    assert_true(ls_elems_from_f32(LS_BF16, large, 2, raw));
    assert_false(ls_elems_from_f32(LS_BF16, &huge, 1, raw));
    assert_true(ls_elems_from_f32(LS_BF16, &infinite, 1, raw));
    assert_true(ls_elems_from_f32(LS_F16, &infinite, 1, raw));
    float nan = NAN;
    assert_true(ls_elems_from_f32(LS_F16, &nan, 1, raw));
    assert_true((raw[0] & 0x7C00) == 0x7C00 && (raw[0] & 0x3FF) != 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_half_is_exact),
        cmocka_unit_test(test_halves_round_to_nearest_even),
        cmocka_unit_test(test_values_too_large_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
