/* test_clock_rng.c: the clock goes forward; the random numbers are Philox4x32-10 by its published answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/rng.h"

static void clock_goes_forward(void **state) {
    (void)state;
    uint64_t last_ns = ls_clock_ns();
    for (int i = 0; i < 10000; i++) {
        uint64_t now_ns = ls_clock_ns();
        assert_true(now_ns >= last_ns);
        last_ns = now_ns;
    }
    double seconds = ls_clock_seconds(), rounding = 1e-6;
    assert_true(seconds >= (double)last_ns * 1e-9 - rounding);
    assert_true(seconds <= (double)ls_clock_ns() * 1e-9 + rounding);
}

static volatile sig_atomic_t alarms;
static void count_alarm(int number) {
    (void)number;
    alarms++;
}

static void sleep_is_long_enough(void **state) {
    (void)state;
    struct sigaction action = {.sa_handler = count_alarm};
    struct itimerval every_ms = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &every_ms, NULL), 0);
    uint64_t start_ns = ls_clock_ns();
    ls_clock_sleep_us(20000);
    uint64_t slept_ns = ls_clock_ns() - start_ns;
    assert_int_equal(setitimer(ITIMER_REAL, &off, NULL), 0);
    assert_true(alarms > 0);
    assert_true(slept_ns >= 20000000u);
    ls_clock_sleep_us(0);
}

static void philox_gives_the_published_answers(void **state) {
    (void)state;
    /* kat_vectors of the Random123 library: philox4x32, 10 rounds. */
    static const struct {
        uint32_t counter[4], key[2], expected[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}},
        {{0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344},
         {0xA4093822, 0x299F31D0},
         {0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint32_t out[4];
        ls_rng_philox(known[i].counter, known[i].key, out);
        assert_memory_equal(out, known[i].expected, sizeof out);
    }
}

/* The third answer again, its counter split into block, step and purpose as the header says. */
static void tuple_maps_to_counter_as_documented(void **state) {
    (void)state;
    uint64_t seed = UINT64_C(0x299F31D0A4093822);
    uint64_t block = UINT64_C(0x08D3243F6A88), step = UINT64_C(0x13198A2E85A3);
    static const uint32_t expected[4] = {0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1};
    uint32_t out[4];
    ls_rng_u32x4(ls_rng_key_make(seed, 0x03707344, step), block, out);
    assert_memory_equal(out, expected, sizeof out);
}

static void numbers_are_cut_from_blocks(void **state) {
    (void)state;
    ls_rng_key key = ls_rng_key_make(0, 0, 0);
    assert_int_equal(ls_rng_u32(key, 0), 0x6627E8D5);
    assert_int_equal(ls_rng_u32(key, 3), 0x9B00DBD8);
    assert_true(ls_rng_u64(key, 0) == UINT64_C(0xE169C58D6627E8D5));
    assert_true(ls_rng_u64(key, 1) == UINT64_C(0x9B00DBD8BC57AC4C));
    assert_true(ls_rng_uniform_f32(key, 0) == (float)0x6627E8 / 16777216.0f);
    assert_true(ls_rng_below(key, 0, 1000) == 880); /* 0xE169C58D6627E8D5 · 1000 / 2^64 = 880.52… */
    assert_true(ls_rng_below(key, 0, 1) == 0);
    assert_true(ls_rng_below(key, 0, UINT64_MAX) == UINT64_C(0xE169C58D6627E8D4));
    uint32_t last[4];
    ls_rng_u32x4(key, (LS_RNG_INDEX_LIMIT - 1) / 4, last);
    assert_int_equal(ls_rng_u32(key, LS_RNG_INDEX_LIMIT - 1), last[3]);
}

static void each_part_of_the_tuple_counts(void **state) {
    (void)state;
    const uint64_t high = UINT64_C(1) << 40;
    uint64_t seen[9] = {
        ls_rng_u64(ls_rng_key_make(1, 2, 3), 4),
        ls_rng_u64(ls_rng_key_make(2, 2, 3), 4),
        ls_rng_u64(ls_rng_key_make(1, 3, 3), 4),
        ls_rng_u64(ls_rng_key_make(1, 2, 4), 4),
        ls_rng_u64(ls_rng_key_make(1, 2, 3), 5),
        ls_rng_u64(ls_rng_key_make(1 + high, 2, 3), 4),
        ls_rng_u64(ls_rng_key_make(1, 2, 3 + high), 4),
        ls_rng_u64(ls_rng_key_make(1, 2, 3), 4 + high),
        ls_rng_u64(ls_rng_key_make(1, 2 + (1u << 31), 3), 4),
    };
    for (int i = 0; i < 9; i++) {
        for (int j = 0; j < i; j++) assert_true(seen[i] != seen[j]);
    }
}

static void uniform_numbers_fill_their_range(void **state) {
    (void)state;
    enum { N = 100000, BINS = 10 };
    ls_rng_key key = ls_rng_key_make(42, 7, 1);
    int bin[BINS] = {0}, below[BINS] = {0};
    double sum = 0;
    for (uint64_t i = 0; i < N; i++) {
        float x = ls_rng_uniform_f32(key, i);
        assert_true(x >= 0.0f && x < 1.0f);
        sum += (double)x;
        bin[(int)(x * BINS)]++;
        below[ls_rng_below(key, i, BINS)]++;
    }
    assert_true(sum / N > 0.495 && sum / N < 0.505); /* five sigma is 0.0046 */
    for (int i = 0; i < BINS; i++) {
        assert_in_range(bin[i], N / BINS - 500, N / BINS + 500); /* five sigma is 474 */
        assert_in_range(below[i], N / BINS - 500, N / BINS + 500);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clock_goes_forward),
        cmocka_unit_test(sleep_is_long_enough),
        cmocka_unit_test(philox_gives_the_published_answers),
        cmocka_unit_test(tuple_maps_to_counter_as_documented),
        cmocka_unit_test(numbers_are_cut_from_blocks),
        cmocka_unit_test(each_part_of_the_tuple_counts),
        cmocka_unit_test(uniform_numbers_fill_their_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
