/* test_elementary.c: the double functions against values with 60 and more digits and against long double.
 *
 * The single values come from multiple precision, with the hard cases of large angles among them; the sweeps use the
 * long double functions of the system, which have at least eleven bits more. The hash is the same on every machine. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "numerics/elementary.h"

static uint64_t bits_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* |got - expected| in units of the last place of a double of expected's size. */
static double error_ulp(double got, long double expected) {
    int e;
    if (isinf(got)) return (double)expected == got ? 0.0 : 1e9;
    frexpl(expected, &e);
    if (e < -1021) e = -1021;
    return (double)(fabsl((long double)got - expected) / ldexpl(1.0L, e - 53));
}

typedef double (*function)(double);

static const struct {
    function f;
    double in, out;
} values[] = {
    {ls_exp_f64, 0x1p+0, 0x1.5bf0a8b145769p+1},
    {ls_exp_f64, -0x1p+0, 0x1.78b56362cef38p-2},
    {ls_exp_f64, 0x1p-1, 0x1.a61298e1e069cp+0},
    {ls_exp_f64, 0x1.b7cdfd9d7bdbbp-34, 0x1.000000006df38p+0},
    {ls_exp_f64, 0x1.44p+4, 0x1.290d76d1966a9p+29},
    {ls_exp_f64, -0x1.5e4p+9, 0x1.4ff475c68ca02p-1011},
    {ls_exp_f64, 0x1.62cp+9, 0x1.81e9b4b52d0c9p+1023},
    {ls_exp_f64, -0x1.742p+9, 0x0.0000000000001p-1022},
    {ls_exp_f64, 0x1.921fb54442d18p+1, 0x1.724046eb09339p+4},
    {ls_log_f64, 0x1p+1, 0x1.62e42fefa39efp-1},
    {ls_log_f64, 0x1.4p+3, 0x1.26bb1bbb55516p+1},
    {ls_log_f64, 0x1p-1, -0x1.62e42fefa39efp-1},
    {ls_log_f64, 0x1.56e1fc2f8f359p-997, -0x1.5963447f87fb5p+9},
    {ls_log_f64, 0x0.0000000000001p-1022, -0x1.74385446d71c3p+9},
    {ls_log_f64, 0x1.0000000000001p+0, 0x1.fffffffffffffp-53},
    {ls_log_f64, 0x1.fffffffffffffp-1, -0x1p-53},
    {ls_log_f64, 0x1.1ccf385ebc8ap+1023, 0x1.62991d5d62a5ep+9},
    {ls_log_f64, 0x1.6a09e667f3bcdp+0, 0x1.62e42fefa39fp-2},
    {ls_log_f64, 0x1.6a09e667f3bccp-1, -0x1.62e42fefa39f1p-2},
    {ls_sin_f64, 0x1p+0, 0x1.aed548f090ceep-1},
    {ls_sin_f64, 0x1p-1, 0x1.eaee8744b05fp-2},
    {ls_sin_f64, 0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53},
    {ls_sin_f64, 0x1.86ap+16, 0x1.24daa9c527e96p-5},
    {ls_sin_f64, 0x1.000008p+20, 0x1.7c2bb1d7c0924p-1},
    {ls_sin_f64, 0x1.0f0cf064dd592p+73, -0x1.b453ab76bf397p-1},
    {ls_sin_f64, 0x1.6ac5b262ca1ffp+849, 0x1p+0},
    {ls_sin_f64, 0x1.fffffffffffffp+1023, 0x1.452fc98b34e97p-8},
    {ls_sin_f64, 0x1.6ac5b262ca1ffp+849, 0x1p+0},
    {ls_sin_f64, -0x1.4p+1, -0x1.326af0dcfcab1p-1},
    {ls_sin_f64, 0x1.87e92154ef7acp-665, 0x1.87e92154ef7acp-665},
    {ls_sin_f64, 0x1.0000cp+16, 0x1.d6175810586e4p-7},
    {ls_cos_f64, 0x1p+0, 0x1.14a280fb5068cp-1},
    {ls_cos_f64, 0x1p-1, 0x1.c1528065b7d5p-1},
    {ls_cos_f64, 0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54},
    {ls_cos_f64, 0x1.86ap+16, -0x1.ffac3841b3da7p-1},
    {ls_cos_f64, 0x1.000008p+20, 0x1.56f3082d8f8a6p-1},
    {ls_cos_f64, 0x1.0f0cf064dd592p+73, 0x1.0be2cef01c8f4p-1},
    {ls_cos_f64, 0x1.6ac5b262ca1ffp+849, -0x1.14ae72e6ba22fp-61},
    {ls_cos_f64, 0x1.fffffffffffffp+1023, -0x1.fffe62ecfab75p-1},
    {ls_cos_f64, 0x1.6ac5b262ca1ffp+849, -0x1.14ae72e6ba22fp-61},
    {ls_cos_f64, -0x1.4p+1, -0x1.9a2f7ef858b7dp-1},
    {ls_cos_f64, 0x1.6p+3, 0x1.220ae41ee2fdfp-8},
    {ls_tanh_f64, 0x1p-1, 0x1.d9353d7568af3p-2},
    {ls_tanh_f64, 0x1.2p-1, 0x1.05086f2f6d4b7p-1},
    {ls_tanh_f64, 0x1p+0, 0x1.85efab514f394p-1},
    {ls_tanh_f64, 0x1.4f8b588e368f1p-17, 0x1.4f8b588e06854p-17},
    {ls_tanh_f64, 0x1.8p+1, 0x1.fd77d111a0bp-1},
    {ls_tanh_f64, -0x1p-2, -0x1.f597ea69a1c86p-3},
    {ls_tanh_f64, 0x1.38p+4, 0x1p+0},
    {ls_tanh_f64, 0x1.47ae147ae147bp-7, 0x1.47ab48ae4595ep-7},
};

static const struct {
    double x, y, out;
} powers[] = {
    {0x1.388p+13, -0x1p-6, 0x1.bb5fad00ab22cp-1},
    {0x1.388p+13, 0x1.f8p-1, 0x1.0e9d2557a873fp+13},
    {0x1.e848p+18, 0x1.7ae147ae147aep-2, 0x1.00d4f4c9bd67ep+7},
    {0x1p+1, 0x1p-1, 0x1.6a09e667f3bcdp+0},
    {0x1.000001ad7f29bp+0, 0x1.dcd65p+29, 0x1.349445c228792p+144},
    {0x1.ff7ced916872bp-1, -0x1.55ccp+19, 0x1.4fe1adafddae2p+1010},
    {0x1p-1, 0x1.0c8p+10, 0x0.0000000000001p-1022},
    {0x0.012688b70e62bp-1022, 0x1.999999999999ap-4, 0x1.039d66589686cp-103},
    {0x1.8p+1, -0x1p+1, 0x1.c71c71c71c71cp-4},
    {0x1.8p+0, 0x1p+0, 0x1.8p+0},
    {0x1.cp+2, 0x1.2cp+8, 0x1.2763cf89c12d4p+842},
    {0x1.ccccccccccccdp-1, 0x1.77p+12, 0x1.f97485fa5701p-913},
};

static void test_values(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        double got = values[i].f(values[i].in);
        if (error_ulp(got, (long double)values[i].out) > 1.0)
            fail_msg("value %zu: f(%a) = %a, expected %a", i, values[i].in, got, values[i].out);
    }
    for (size_t i = 0; i < sizeof powers / sizeof *powers; i++) {
        double got = ls_pow_f64(powers[i].x, powers[i].y);
        if (error_ulp(got, (long double)powers[i].out) > 1.0)
            fail_msg("pow(%a, %a) = %a, expected %a", powers[i].x, powers[i].y, got, powers[i].out);
    }
}

static uint64_t random_seed;
static double random_from(double low, double high) {
    random_seed = random_seed * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(random_seed >> 11) * 0x1p-53;
}

typedef struct sweep {
    const char *name;
    function f;
    long double (*reference)(long double);
    double low, high, bound_ulp;
} sweep;

static const sweep sweeps[] = {
    {"exp", ls_exp_f64, expl, -1.0, 1.0, 0.9},
    {"exp, all", ls_exp_f64, expl, -745.0, 709.7, 0.9},
    {"log, near 1", ls_log_f64, logl, 0.5, 2.0, 0.9},
    {"log", ls_log_f64, logl, 0.0, 1e6, 0.9},
    {"sin", ls_sin_f64, sinl, -7.0, 7.0, 0.9},
    {"sin, positions", ls_sin_f64, sinl, -1e6, 1e6, 0.9},
    {"sin, large", ls_sin_f64, sinl, -1e15, 1e15, 0.9},
    {"cos", ls_cos_f64, cosl, -7.0, 7.0, 0.9},
    {"cos, positions", ls_cos_f64, cosl, -1e6, 1e6, 0.9},
    {"cos, large", ls_cos_f64, cosl, -1e15, 1e15, 0.9},
    {"tanh", ls_tanh_f64, tanhl, -1.0, 1.0, 1.6},
    {"tanh, all", ls_tanh_f64, tanhl, -22.0, 22.0, 1.6},
};

enum { SAMPLES = 10000 };

static void test_sweeps(void **state) {
    (void)state;
    static double results[SAMPLES];
    ls_hash128 hashes[sizeof sweeps / sizeof *sweeps];
    for (size_t s = 0; s < sizeof sweeps / sizeof *sweeps; s++) {
        double worst = 0.0;
        for (int i = 0; i < SAMPLES; i++) {
            double x = random_from(sweeps[s].low, sweeps[s].high);
            results[i] = sweeps[s].f(x);
            double error = error_ulp(results[i], sweeps[s].reference((long double)x));
            if (error > worst) worst = error;
        }
        print_message("%s: %.3f ulp\n", sweeps[s].name, worst);
        assert_true(worst <= sweeps[s].bound_ulp);
        hashes[s] = ls_hash_bytes(results, sizeof results);
    }
    char text[LS_HASH_TEXT_BYTES];
    ls_hash_text(ls_hash_combine(hashes, sizeof sweeps / sizeof *sweeps), text);
    assert_string_equal(text, "a7c2b62aa88002df44cbbfa5a184b38c");
}

static void test_sweep_pow(void **state) {
    (void)state;
    double worst = 0.0;
    for (int i = 0; i < SAMPLES; i++) {
        /* results over all of the range, from bases near 1 and far from it */
        double x = i % 2 ? random_from(0.5, 2.0) : random_from(0.0, 1e6), y = random_from(-300.0, 300.0);
        double got = ls_pow_f64(x, y);
        long double expected = powl((long double)x, (long double)y);
        if (expected < 0x1p-1022L || expected > 0x1p1023L) continue;
        double error = error_ulp(got, expected);
        if (error > worst) worst = error;
    }
    print_message("pow: %.3f ulp\n", worst);
    assert_true(worst <= 1.1);
}

static void test_special(void **state) {
    (void)state;
    const uint64_t nan = 0x7FF8000000000000u, one = 0x3FF0000000000000u, minus = 0x8000000000000000u;
    const double inf = (double)INFINITY, any_nan = -(double)NAN;
    function all[] = {ls_exp_f64, ls_log_f64, ls_sin_f64, ls_cos_f64, ls_tanh_f64};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) assert_true(bits_of(all[i](any_nan)) == nan);
    assert_true(bits_of(ls_exp_f64(0.0)) == one && bits_of(ls_exp_f64(-0.0)) == one);
    assert_true(ls_exp_f64(inf) == inf && bits_of(ls_exp_f64(-inf)) == 0 && bits_of(ls_exp_f64(-746.0)) == 0);
    assert_true(ls_exp_f64(709.79) == inf && ls_exp_f64(0x1.62e42fefa39efp+9) < inf);
    assert_true(ls_exp_f64(-745.0) == 0x1p-1074);
    assert_true(bits_of(ls_log_f64(1.0)) == 0 && ls_log_f64(0.0) == -inf && ls_log_f64(-0.0) == -inf);
    assert_true(ls_log_f64(inf) == inf && bits_of(ls_log_f64(-1.0)) == nan && bits_of(ls_log_f64(-inf)) == nan);
    assert_true(bits_of(ls_sin_f64(-0.0)) == minus && bits_of(ls_sin_f64(0.0)) == 0);
    assert_true(bits_of(ls_sin_f64(inf)) == nan && bits_of(ls_cos_f64(-inf)) == nan);
    assert_true(bits_of(ls_cos_f64(0.0)) == one && bits_of(ls_cos_f64(-0.0)) == one);
    assert_true(bits_of(ls_tanh_f64(-0.0)) == minus && ls_tanh_f64(inf) == 1.0 && ls_tanh_f64(-inf) == -1.0);
    assert_true(bits_of(ls_tanh_f64(0x1p-1074)) == 1 && bits_of(ls_sin_f64(0x1p-1074)) == 1);
    assert_true(ls_pow_f64(0.0, 2.0) == 0.0 && ls_pow_f64(-0.0, -1.0) == inf && ls_pow_f64(inf, -2.0) == 0.0);
    assert_true(ls_pow_f64(inf, 0.5) == inf && ls_pow_f64(2.0, inf) == inf && ls_pow_f64(2.0, -inf) == 0.0);
    assert_true(ls_pow_f64(0.5, inf) == 0.0 && ls_pow_f64(1.0, any_nan) == 1.0 && ls_pow_f64(any_nan, 0.0) == 1.0);
    assert_true(bits_of(ls_pow_f64(-1.0, 2.0)) == nan && bits_of(ls_pow_f64(2.0, any_nan)) == nan);
    assert_true(ls_pow_f64(2.0, 1023.0) == 0x1p1023 && ls_pow_f64(2.0, 1024.0) == inf);
    assert_true(ls_pow_f64(3.0, 1e300) == inf && ls_pow_f64(3.0, -1e300) == 0.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_special),
                                       cmocka_unit_test(test_sweeps), cmocka_unit_test(test_sweep_pow)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
