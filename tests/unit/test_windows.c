/* test_windows.c: the windows of eval score every target once. The expected windows are made one token at a time, as
 * the loop of Hugging Face's guide on perplexity makes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "data/windows.h"

enum { N_MAX = 40, T_MAX = 9 };

/* Walks the windows as the guide does. */
static void check(uint64_t N, uint64_t T, uint64_t S) {
    ls_windows windows;
    int scored[N_MAX] = {0};
    uint64_t k = 0, scored_before = 0;
    assert_int_equal(ls_windows_init(&windows, N, T, S), LS_OK);
    for (uint64_t begin = 0; scored_before < N - 1; begin += S, k++) {
        uint64_t end = begin + T < N - 1 ? begin + T : N - 1; /* the last target */
        assert_true(k < windows.count);
        ls_token_window w = ls_windows_get(&windows, k);
        assert_int_equal(w.begin, begin);
        assert_int_equal(w.length, end - begin);
        assert_int_equal(w.length - w.context, end - scored_before);
        for (uint64_t t = w.begin + 1 + w.context; t <= w.begin + w.length; t++) scored[t]++;
        scored_before = end;
    }
    assert_int_equal(windows.count, k);
    assert_int_equal(scored[0], 0);
    for (uint64_t t = 1; t < N; t++) assert_int_equal(scored[t], 1);
}

static void every_target_is_scored_once(void **state) {
    (void)state;
    for (uint64_t N = 2; N <= N_MAX; N++)
        for (uint64_t T = 1; T <= T_MAX; T++)
            for (uint64_t S = 1; S <= T; S++) check(N, T, S);
}

/* Calls take windows of one length and one context together, and all of them. */
static void alike_windows_go_together(void **state) {
    (void)state;
    for (uint64_t N = 2; N <= N_MAX; N++)
        for (uint64_t S = 1; S <= T_MAX; S++)
            for (size_t most = 1; most <= 5; most++) {
                ls_windows windows;
                assert_int_equal(ls_windows_init(&windows, N, T_MAX, S), LS_OK);
                for (uint64_t k = 0; k < windows.count;) {
                    ls_token_window first = ls_windows_get(&windows, k);
                    size_t n = ls_windows_alike(&windows, k, most);
                    assert_in_range(n, 1, most);
                    for (size_t i = 0; i < n; i++) {
                        ls_token_window w = ls_windows_get(&windows, k + i);
                        assert_int_equal(w.length, first.length);
                        assert_int_equal(w.context, first.context);
                    }
                    k += n;
                    assert_true(k <= windows.count);
                }
            }
}

static void one_token_predicts_nothing(void **state) {
    (void)state;
    ls_windows windows;
    assert_int_equal(ls_windows_init(&windows, 1, 4, 4), LS_ERR_INPUT);
    assert_int_equal(ls_windows_init(&windows, 0, 4, 4), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "0 tokens"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_target_is_scored_once),
        cmocka_unit_test(alike_windows_go_together),
        cmocka_unit_test(one_token_predicts_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
