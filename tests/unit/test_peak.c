/* test_peak.c: the rates that MFU is told against: each unit has its own, and what is not here has none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device/cpu/peak.h"

/* The best of some: other programs may be at work. */
static double rate_of(ls_pool *pool, ls_unit unit) {
    double best = 0;
    for (int i = 0; i < 3; i++) {
        double rate = ls_cpu_peak(pool, unit, 0.02);
        if (rate > best) best = rate;
    }
    return best;
}

/* How much more a unit does than fp32 is printed, not asserted: other programs may be at work. */
static void units_have_peaks_of_their_own(void **state) {
    (void)state;
    ls_pool *pool = NULL;
    assert_int_equal(ls_pool_create(1, NULL, &pool), LS_OK);
    double fp32 = rate_of(pool, LS_UNIT_CHAIN);
    assert_true(fp32 > 0);
    print_message("chain %.1f GFLOP/s\n", fp32 / 1e9);
    for (int u = LS_UNIT_CHAIN + 1; u < LS_UNITS; u++) {
        double rate = rate_of(pool, (ls_unit)u);
        print_message("%s %.1f GFLOP/s\n", ls_unit_name((ls_unit)u), rate / 1e9);
        if (!ls_unit_is_fast_here((ls_unit)u))
            assert_true(rate == 0);
        else
            assert_true(rate > 0);
    }
    ls_pool_destroy(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(units_have_peaks_of_their_own)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
