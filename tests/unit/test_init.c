/* Initial values: pieces of any size give the same numbers, the numbers are normal, rotary tables are right, and the
 * bits are those of docs/reference/arithmetic.md, computed here once more in plain code. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/rng.h"
#include "nn/param.h"

#include "contract_f32.h"

enum { N = 20011 };

static ls_param param_of(double std, uint32_t number) {
    ls_param p = ls_param_matrix("w", N, 1, std);
    p.number = number;
    return p;
}

static void test_pieces(void **state) {
    (void)state;
    static float whole[N], parts[N];
    ls_param p = param_of(0.02, 7);
    ls_init_param(&p, 42, 0, N, whole);
    for (size_t step = 1; step < 6000; step = 3 * step + 1) {
        for (size_t at = 0; at < N; at += step) ls_init_param(&p, 42, at, N - at < step ? N - at : step, parts + at);
        assert_memory_equal(whole, parts, sizeof whole);
    }
}

static void test_formula(void **state) {
    (void)state;
    static float got[N];
    ls_param p = param_of(0.125, 3);
    ls_init_param(&p, UINT64_C(0x123456789), 0, N, got);
    ls_rng_key key = ls_rng_key_make(UINT64_C(0x123456789), 0x494E4954, 3);
    for (size_t i = 0; i < N; i++) {
        uint32_t a = ls_rng_u32(key, i - i % 2), b = ls_rng_u32(key, i - i % 2 + 1);
        float u = (float)(2 * (a >> 9) + 1) * 0x1p-24F, t = (float)(b >> 8) * 0x1.921fb6p-22F;
        float r = 0.125F * sqrtf(-2.0F * contract_log(u));
        float want = i % 2 ? r * contract_sin(t) : r * contract_cos(t);
        assert_memory_equal(&got[i], &want, sizeof want);
    }
}

static void test_distribution(void **state) {
    (void)state;
    static float x[N];
    double sum = 0, squares = 0, fourth = 0, product = 0;
    int beyond = 0;
    ls_param p = param_of(1.0, 0);
    ls_init_param(&p, 1, 0, N, x);
    for (size_t i = 0; i < N; i++) {
        double v = (double)x[i];
        sum += v;
        squares += v * v;
        fourth += v * v * v * v;
        if (i > 0) product += v * (double)x[i - 1];
        if (fabs(v) > 1.959963985) beyond++;
    }
    double error = 1 / sqrt((double)N);
    assert_true(fabs(sum / N) < 4 * error);
    assert_true(fabs(squares / N - 1) < 4 * sqrt(2.0) * error);
    assert_true(fabs(fourth / N - 3) < 4 * sqrt(96.0) * error);
    assert_true(fabs(product / N) < 4 * error);
    assert_true(fabs((double)beyond / N - 0.05) < 4 * sqrt(0.05 * 0.95) * error);
}

static void test_seeds_and_numbers_differ(void **state) {
    (void)state;
    float a[8], b[8];
    ls_param p = param_of(1.0, 0), q = param_of(1.0, 1);
    ls_init_param(&p, 1, 0, 8, a);
    ls_init_param(&q, 1, 0, 8, b);
    assert_memory_not_equal(a, b, sizeof a);
    ls_init_param(&p, 2, 0, 8, b);
    assert_memory_not_equal(a, b, sizeof a);
}

static void test_constants(void **state) {
    (void)state;
    float x[5];
    ls_param ones = ls_param_vector("w", 5, LS_INIT_ONES), zeros = ls_param_vector("b", 5, LS_INIT_ZEROS);
    ls_init_param(&ones, 1, 0, 5, x);
    for (int i = 0; i < 5; i++) assert_true(x[i] == 1.0F);
    ls_init_param(&zeros, 1, 0, 5, x);
    for (int i = 0; i < 5; i++) assert_true(x[i] == 0.0F && !signbit(x[i]));
}

static long double frequency(const ls_rope_shape *rope, size_t i, size_t d) {
    long double f = powl((long double)rope->base, -2.0L * (long double)i / (long double)d);
    if (!rope->scaled) return f;
    long double wave = 2 * 3.14159265358979323846264338327950288L / f, T = (long double)rope->original_T;
    if (wave < T / (long double)rope->high_factor) return f;
    if (wave > T / (long double)rope->low_factor) return f / (long double)rope->factor;
    long double s = (T / wave - (long double)rope->low_factor) / (long double)(rope->high_factor - rope->low_factor);
    return (1 - s) * f / (long double)rope->factor + s * f;
}

static void check_rope(ls_rope_shape rope) {
    enum { T = 300, D = 64 };
    static float c[T * D / 2], s[T * D / 2];
    ls_shape shape = {.arch = LS_ARCH_LLAMA, .head_size = D, .rope = rope};
    ls_init_rope(&shape, 0, T, c, s);
    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < D / 2; i++) {
            long double angle = (long double)t * frequency(&rope, i, D);
            assert_true(fabsl((long double)c[t * D / 2 + i] - cosl(angle)) < 4e-8L);
            assert_true(fabsl((long double)s[t * D / 2 + i] - sinl(angle)) < 4e-8L);
        }
}

static void test_rope(void **state) {
    (void)state;
    check_rope((ls_rope_shape){.base = 10000});
    check_rope((ls_rope_shape){
        .base = 500000, .scaled = true, .factor = 32, .low_factor = 1, .high_factor = 4, .original_T = 8192});
    check_rope((ls_rope_shape){
        .base = 500000, .scaled = true, .factor = 8, .low_factor = 1, .high_factor = 4, .original_T = 128});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),       cmocka_unit_test(test_formula),
        cmocka_unit_test(test_distribution), cmocka_unit_test(test_seeds_and_numbers_differ),
        cmocka_unit_test(test_constants),    cmocka_unit_test(test_rope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
