/* test_sampler.c: the order of samples. Expected starts were computed from the text of sampler.h alone, by a program in
 * another language. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/status.h"
#include "data/sampler.h"

static ls_sampler make(uint64_t seed, uint64_t tokens, uint64_t length, bool shuffle) {
    ls_sampler sampler;
    assert_int_equal(ls_sampler_init(&sampler, seed, tokens, length, shuffle), LS_OK);
    return sampler;
}

static void starts_are_those_of_the_description(void **state) {
    (void)state;
    static const struct {
        uint64_t seed, tokens, length, windows, starts[7]; /* of samples 0, 1, 2, n−1, n, n+1, 5n+3 */
    } cases[] = {
        {0, 1000, 7, 142, {21, 749, 826, 385, 646, 219, 981}},
        {12345, 100, 10, 9, {60, 30, 10, 50, 3, 73, 9}},
        {UINT64_C(9223372036854775807),
         UINT64_C(1000000012345),
         1024,
         976562512,
         {UINT64_C(133781653504), UINT64_C(49355951104), UINT64_C(333689612288), UINT64_C(599179805696),
          UINT64_C(156247723051), UINT64_C(466963744811), UINT64_C(986697348110)}},
        {5, 11, 10, 1, {0, 0, 0, 0, 0, 0, 0}},
        {9, 40, 10, 3, {0, 20, 10, 10, 8, 28, 26}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_sampler sampler = make(cases[i].seed, cases[i].tokens, cases[i].length, true);
        uint64_t n = cases[i].windows, samples[7] = {0, 1, 2, n - 1, n, n + 1, 5 * n + 3};
        assert_int_equal(sampler.windows, n);
        for (size_t j = 0; j < 7; j++) assert_int_equal(ls_sampler_start(&sampler, samples[j]), cases[i].starts[j]);
    }
}

/* Each epoch has every window once, all of them inside the data. */
static void an_epoch_is_a_permutation(void **state) {
    (void)state;
    enum { LENGTH = 5, WINDOWS_MAX = 300 };
    for (uint64_t windows = 1; windows <= WINDOWS_MAX; windows++) {
        uint64_t rest = windows % LENGTH, tokens = windows * LENGTH + 1 + rest;
        ls_sampler sampler = make(windows, tokens, LENGTH, true);
        assert_int_equal(sampler.windows, windows);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            bool seen[WINDOWS_MAX] = {false};
            uint64_t shift = ls_sampler_start(&sampler, epoch * windows) % LENGTH;
            if (!epoch) assert_int_equal(shift, 0);
            assert_true(shift <= rest);
            for (uint64_t j = 0; j < windows; j++) {
                uint64_t start = ls_sampler_start(&sampler, epoch * windows + j);
                assert_int_equal(start % LENGTH, shift);
                assert_true(start + LENGTH < tokens);
                assert_false(seen[start / LENGTH]);
                seen[start / LENGTH] = true;
                assert_int_equal(ls_sampler_epoch(&sampler, epoch * windows + j), epoch);
            }
        }
    }
}

static void shifts_take_all_values(void **state) {
    (void)state;
    ls_sampler sampler = make(3, 10 * 8 + 1 + 7, 8, true);
    bool seen[8] = {false};
    for (uint64_t epoch = 1; epoch < 200; epoch++) seen[ls_sampler_start(&sampler, epoch * 10) % 8] = true;
    for (int i = 0; i < 8; i++) assert_true(seen[i]);
}

/* Over many epochs each window comes first about equally often: 20 windows, 4000 epochs, 200 each expected,
 * deviation 14. */
static void the_first_sample_is_any_window(void **state) {
    (void)state;
    ls_sampler sampler = make(77, 20 * 4 + 1, 4, true);
    int counts[20] = {0}, same = 0;
    for (uint64_t epoch = 0; epoch < 4000; epoch++) {
        counts[ls_sampler_start(&sampler, epoch * 20) / 4]++;
        same += ls_sampler_start(&sampler, epoch * 20 + 1) == ls_sampler_start(&sampler, epoch * 20) + 4;
    }
    for (int i = 0; i < 20; i++) assert_in_range(counts[i], 130, 270);
    assert_in_range(same, 130, 270); /* the neighbour follows with probability 1/20 */
}

static void seeds_differ(void **state) {
    (void)state;
    ls_sampler a = make(1, 100001, 10, true), b = make(2, 100001, 10, true);
    int same = 0;
    for (uint64_t i = 0; i < 1000; i++) same += ls_sampler_start(&a, i) == ls_sampler_start(&b, i);
    assert_true(same < 10);
}

static void without_shuffle_in_order(void **state) {
    (void)state;
    ls_sampler sampler = make(1, 57, 8, false);
    assert_int_equal(sampler.windows, 7);
    for (uint64_t i = 0; i < 30; i++) assert_int_equal(ls_sampler_start(&sampler, i), i % 7 * 8);
}

static void too_few_tokens_are_refused(void **state) {
    (void)state;
    ls_sampler sampler;
    assert_int_equal(ls_sampler_init(&sampler, 0, 8, 8, true), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "8 tokens"));
    assert_non_null(strstr(ls_status_message(), "(9)"));
    assert_int_equal(ls_sampler_init(&sampler, 0, 0, 1, true), LS_ERR_INPUT);
    assert_int_equal(ls_sampler_init(&sampler, 0, 5, UINT64_MAX, true), LS_ERR_INPUT);
    assert_int_equal(ls_sampler_init(&sampler, 0, 9, 8, true), LS_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_are_those_of_the_description),
        cmocka_unit_test(an_epoch_is_a_permutation),
        cmocka_unit_test(shifts_take_all_values),
        cmocka_unit_test(the_first_sample_is_any_window),
        cmocka_unit_test(seeds_differ),
        cmocka_unit_test(without_shuffle_in_order),
        cmocka_unit_test(too_few_tokens_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
