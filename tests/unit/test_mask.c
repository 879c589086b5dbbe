/* test_mask.c: what mask.h says about ranges of keys and queries, against every single pair. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device/mask.h"

enum { T = 23 };

static bool sees(size_t window, size_t query, size_t key) {
    return key <= query && (window == 0 || key + window > query);
}

static bool is_in(size_t x, ls_positions range) { return x >= range.begin && x < range.end; }

/* Every block of queries and every block of keys. */
static void check_blocks(ls_mask m, ls_positions queries, ls_positions keys) {
    const ls_positions some = ls_mask_keys(m, queries), all = ls_mask_shared_keys(m, queries);
    const ls_positions one = ls_mask_queries(m, keys, T), every = ls_mask_shared_queries(m, keys, T);
    size_t seen = 0, pairs = (queries.end - queries.begin) * (keys.end - keys.begin);
    for (size_t k = 0; k < T; k++) {
        size_t n = 0;
        for (size_t q = queries.begin; q < queries.end; q++) n += sees(m.window, q, k);
        assert_int_equal(is_in(k, some), n > 0);
        assert_int_equal(is_in(k, all), n == queries.end - queries.begin);
        if (is_in(k, keys)) seen += n;
    }
    for (size_t q = 0; q < T; q++) {
        size_t n = 0;
        for (size_t k = keys.begin; k < keys.end; k++) n += sees(m.window, q, k);
        assert_int_equal(is_in(q, one), n > 0);
        assert_int_equal(is_in(q, every), n == keys.end - keys.begin);
    }
    assert_int_equal(ls_mask_cover_of(m, queries, keys), seen == 0       ? LS_MASK_EMPTY
                                                         : seen == pairs ? LS_MASK_FULL
                                                                         : LS_MASK_PARTIAL);
}

static void test_ranges(void **state) {
    (void)state;
    for (size_t window = 0; window <= T + 2; window++)
        for (size_t q = 0; q < T; q += 3)
            for (size_t qs = 1; q + qs <= T; qs += 4)
                for (size_t k = 0; k < T; k += 2)
                    for (size_t ks = 1; k + ks <= T; ks += 5)
                        check_blocks((ls_mask){window}, (ls_positions){q, q + qs}, (ls_positions){k, k + ks});
}

static void test_pairs(void **state) {
    (void)state;
    for (size_t window = 0; window <= T + 2; window++) {
        size_t pairs = 0;
        for (size_t q = 0; q < T; q++)
            for (size_t k = 0; k < T; k++) {
                assert_int_equal(ls_mask_sees((ls_mask){window}, q, k), sees(window, q, k));
                pairs += sees(window, q, k);
            }
        assert_true(ls_mask_pairs((ls_mask){window}, T) == (double)pairs);
    }
    assert_true(ls_mask_is_causal((ls_mask){0}) && !ls_mask_is_causal((ls_mask){1}));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ranges), cmocka_unit_test(test_pairs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
