/* test_fpenv.c: a thread whose control register was changed computes by the rules again after ls_fpenv_set(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/fpenv.h"

#if defined(__x86_64__)
#    include <xmmintrin.h>
static const uint64_t spoilers[] = {1u << 15, 1u << 6, 1u << 13, 2u << 13, 3u << 13};
static const uint64_t flushing[] = {1u << 15};
static void spoil(uint64_t bits) { _mm_setcsr(_mm_getcsr() | (unsigned)bits); }
#else
static const uint64_t spoilers[] = {1u << 24, 1u << 25, 1u << 26, 1u << 22, 2u << 22, 3u << 22};
static const uint64_t flushing[] = {1u << 24};
static void spoil(uint64_t bits) {
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    fpcr |= bits;
    __asm__ volatile("msr fpcr, %0\n\tisb" : : "r"(fpcr) : "memory");
}
#endif

/* Volatile, result too, so that the arithmetic is done when the program runs, and between the changes of the register.
 */
static float half_of_smallest_normal(void) {
    volatile float x = 0x1p-126f, half = 0.5f;
    volatile float product = x * half;
    return product;
}

static float one_plus(float small) {
    volatile float one = 1.0f, s = small;
    volatile float result = one + s;
    return result;
}

static void every_spoiler_is_seen_and_undone(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof spoilers / sizeof spoilers[0]; i++) {
        ls_fpenv_set();
        assert_true(ls_fpenv_is_set());
        spoil(spoilers[i]);
        bool seen = !ls_fpenv_is_set();
        ls_fpenv_set();
        assert_true(seen);
        assert_true(ls_fpenv_is_set());
    }
}

static void subnormals_survive(void **state) {
    (void)state;
    spoil(flushing[0]);
    bool flushed = half_of_smallest_normal() == 0.0f;
    ls_fpenv_set();
    assert_true(flushed);
    assert_true(half_of_smallest_normal() == 0x1p-127f);
}

static void rounds_to_nearest_even(void **state) {
    (void)state;
    ls_fpenv_set();
    assert_true(one_plus(0x1p-24f) == 1.0f);
    assert_true(one_plus(0x1.8p-24f) == 1.0f + 0x1p-23f);
}

static void flags_of_past_operations_do_not_matter(void **state) {
    (void)state;
    ls_fpenv_set();
    volatile float zero = 0.0f, one = 1.0f, sink;
    sink = one / zero;
    sink = half_of_smallest_normal();
    (void)sink;
    assert_true(ls_fpenv_is_set());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_spoiler_is_seen_and_undone),
        cmocka_unit_test(subnormals_survive),
        cmocka_unit_test(rounds_to_nearest_even),
        cmocka_unit_test(flags_of_past_operations_do_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
