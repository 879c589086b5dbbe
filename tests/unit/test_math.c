/* test_math.c: the elementary functions over arrays: error against double, special values, the same bits on every ISA.
 *
 * Two million inputs from all of the range stand for all four thousand million; the bounds were measured over all of
 * them. The hashes are the same on ARM64 and x86-64. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "base/hash.h"
#include "device/cpu/kernels.h"

enum { N = 1 << 21 };
static float in[N], out[N], again[N];

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double sigmoid(double x) { return x >= 0.0 ? 1.0 / (1.0 + exp(-x)) : exp(x) / (1.0 + exp(x)); }
static double power_of_x;
static double power(double x) { return pow(x, power_of_x); }

typedef struct function {
    const char *name;
    size_t offset; /* of the field in the table */
    double (*reference)(double);
    double bound_ulp;
    double limit; /* |x| up to which the bound holds */
    int flushes;  /* results below 2^-126 are +0 */
    const char *hash;
} function;

static const function functions[] = {
    {"exp", offsetof(ls_math_kernels, exp), exp, 0.90, HUGE_VAL, 1, "1ec262920060c844704fcdd085e92e02"},
    {"log", offsetof(ls_math_kernels, log), log, 0.88, HUGE_VAL, 0, "921db6ed3219fb72427bbd203f7a37ae"},
    {"tanh", offsetof(ls_math_kernels, tanh), tanh, 1.51, HUGE_VAL, 0, "4e2bd28ce7d32b2ace5a86132cdb08bf"},
    {"sigmoid", offsetof(ls_math_kernels, sigmoid), sigmoid, 1.65, HUGE_VAL, 1, "77b3cdd44c7ccdc1eaa55c0272a3d975"},
    {"erf", offsetof(ls_math_kernels, erf), erf, 1.17, HUGE_VAL, 0, "b797d74ed57400214f158717f8a50926"},
    {"sin", offsetof(ls_math_kernels, sin), sin, 1.50, 0x1p17, 0, "da1efc0bc575c4e3eaa053b9c14d72a8"},
    {"cos", offsetof(ls_math_kernels, cos), cos, 1.50, 0x1p17, 0, "830e8b7d882fbc15c739881fec1ec135"},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static ls_math_fn get(const ls_math_kernels *t, const function *f) {
    ls_math_fn fn;
    memcpy(&fn, (const char *)t + f->offset, sizeof fn);
    return fn;
}

/* |got - expected| in units of the last place of a float of expected's size; 1e9 for a wrong special value. */
static double error_ulp(float got, double expected, int flushes) {
    if (expected != expected) return bits_of(got) == 0x7FC00000u ? 0.0 : 1e9;
    if (flushes && fabs(expected) < 0x1p-126) return bits_of(got) == 0 ? 0.0 : 1e9;
    if (isinf(got) || isinf((float)expected)) return got == (float)expected ? 0.0 : 1e9;
    if (expected == 0.0) return bits_of(got) == bits_of((float)expected) ? 0.0 : 1e9;
    int e;
    frexp(expected, &e);
    if (e < -125) e = -125;
    return fabs((double)got - expected) / ldexp(1.0, e - 24);
}

static double worst_of(const float *y, const function *f) {
    double worst = 0.0;
    for (size_t i = 0; i < N; i++) {
        /* Beyond the limit sin and cos are done in double and rounded once. */
        int beyond = fabs((double)in[i]) > f->limit;
        double error = error_ulp(y[i], f->reference((double)in[i]), f->flushes);
        if (beyond && error > 0.501) error += 1e9;
        if (error > worst) worst = error;
    }
    return worst;
}

static int isas(ls_math_kernels tables[4]) {
    int n = 0;
    for (int id = 0; id < LS_ISA_COUNT; id++)
        if (ls_cpu_use((ls_isa)id)) {
            ls_kernels kernels;
            ls_kernels_fill(&kernels, 1u << id);
            tables[n++] = kernels.math;
        }
    return n;
}

static void assert_hash(const float *values, const char *expected) {
    char text[LS_HASH_TEXT_BYTES];
    ls_hash_text(ls_hash_f32(values, N), text);
    assert_string_equal(text, expected);
}

static void test_error(void **state) {
    (void)state;
    ls_math_kernels tables[4];
    int n_isas = isas(tables);
    for (uint32_t i = 0; i < N; i++) in[i] = float_of(i * 2047u);
    for (const function *f = functions; f < functions + FUNCTIONS; f++) {
        get(&tables[0], f)(out, in, N);
        double worst = worst_of(out, f);
        print_message("%s: %.3f ulp\n", f->name, worst);
        assert_true(worst <= f->bound_ulp);
        assert_hash(out, f->hash);
        for (int t = 1; t < n_isas; t++) {
            get(&tables[t], f)(again, in, N);
            assert_memory_equal(again, out, sizeof out);
        }
    }
}

static void test_error_pow(void **state) {
    (void)state;
    static const float powers[] = {0.5f, -0.5f, 2.0f, 3.0f, -1.0f, 1.0f, 0.1f, 25.3f, -0.75f, 1e-3f, 100.0f, -1e4f};
    enum { POWERS = sizeof powers / sizeof *powers, PART = N / 16 };
    ls_math_kernels tables[4];
    int n_isas = isas(tables);
    function f = {.reference = power, .limit = HUGE_VAL};
    double worst = 0.0;
    for (size_t i = 0; i < N; i++) in[i] = 0.0f, out[i] = 0.0f;
    for (size_t p = 0; p < POWERS; p++) {
        for (uint32_t i = 0; i < PART; i++) in[p * PART + i] = float_of(i * 16253u); /* up to infinity */
        tables[0].pow(out + p * PART, in + p * PART, powers[p], PART);
        for (int t = 1; t < n_isas; t++) {
            tables[t].pow(again, in + p * PART, powers[p], PART);
            assert_memory_equal(again, out + p * PART, PART * sizeof(float));
        }
        power_of_x = (double)powers[p];
        for (size_t i = p * PART; i < (p + 1) * PART; i++) {
            double error = error_ulp(out[i], f.reference((double)in[i]), 0);
            if (error > worst) worst = error;
        }
        for (size_t i = 0; i < PART && powers[p] == 1.0f; i++) assert_true(out[p * PART + i] == in[p * PART + i]);
    }
    print_message("pow: %.3f ulp\n", worst);
    assert_true(worst <= 0.76);
    assert_hash(out, "a5525d23a856d0e2050d4876b371206c");
}

typedef struct special {
    int function; /* in `functions` */
    uint32_t in, out;
} special;

#define INF 0x7F800000u
#define QNAN 0x7FC00000u
#define ONE 0x3F800000u
#define MINUS 0x80000000u

static const special specials[] = {
    {0, 0, ONE},
    {0, MINUS, ONE},
    {0, INF, INF},
    {0, MINUS | INF, 0},
    {0, 0xFFC12345, QNAN},
    {0, 1, ONE},
    /* the last finite result and the first infinite one; the last normal result and the first that is flushed */
    {0, 0x42B17217, 0x7F7FFF84},
    {0, 0x42B17218, INF},
    {0, 0xC2AEAC4F, 0x00800026},
    {0, 0xC2AEAC50, 0},
    {1, ONE, 0},
    {1, 0, MINUS | INF},
    {1, MINUS, MINUS | INF},
    {1, MINUS | ONE, QNAN},
    {1, INF, INF},
    {1, MINUS | INF, QNAN},
    {1, 0x7F800001, QNAN},
    {1, 1, 0xC2CE8ED0},
    {1, 0x80000001, QNAN},
    {2, 0, 0},
    {2, MINUS, MINUS},
    {2, INF, ONE},
    {2, MINUS | INF, MINUS | ONE},
    {2, 0x7FFFFFFF, QNAN},
    {2, 1, 1},
    {2, 0x80000001, 0x80000001},
    {2, 0x41200000, ONE},
    {2, 0xC1A00000, MINUS | ONE},
    {3, 0, 0x3F000000},
    {3, MINUS, 0x3F000000},
    {3, INF, ONE},
    {3, MINUS | INF, 0},
    {3, 0xFF800001, QNAN},
    {3, 0xC2AEAC50, 0},
    {3, 0x42AEAC50, ONE},
    {4, 0, 0},
    {4, MINUS, MINUS},
    {4, INF, ONE},
    {4, MINUS | INF, MINUS | ONE},
    {4, QNAN, QNAN},
    {4, 0x40800000, ONE},
    {5, 0, 0},
    {5, MINUS, MINUS},
    {5, INF, QNAN},
    {5, MINUS | INF, QNAN},
    {5, QNAN, QNAN},
    {5, 0x80000001, 0x80000001},
    {6, 0, ONE},
    {6, MINUS, ONE},
    {6, INF, QNAN},
    {6, MINUS | INF, QNAN},
    {6, 0xFFC00000, QNAN},
    {6, 1, ONE},
};

static void test_special(void **state) {
    (void)state;
    ls_math_kernels tables[4];
    int n_isas = isas(tables);
    for (int t = 0; t < n_isas; t++)
        for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
            const function *f = &functions[specials[i].function];
            float x = float_of(specials[i].in), y;
            get(&tables[t], f)(&y, &x, 1);
            if (bits_of(y) != specials[i].out) fail_msg("%s(%08x) = %08x", f->name, specials[i].in, bits_of(y));
        }
}

static void test_special_pow(void **state) {
    (void)state;
    static const struct {
        float x, y;
        uint32_t out;
    } cases[] = {
        {0.0f, 2.0f, 0},
        {0.0f, -2.0f, INF},
        {-0.0f, 3.0f, 0},
        {-0.0f, -3.0f, INF},
        {0.0f, INFINITY, 0},
        {0.0f, -INFINITY, INF},
        {INFINITY, 0.5f, INF},
        {INFINITY, -0.5f, 0},
        {INFINITY, INFINITY, INF},
        {INFINITY, -INFINITY, 0},
        {2.0f, INFINITY, INF},
        {2.0f, -INFINITY, 0},
        {0.5f, INFINITY, 0},
        {0.5f, -INFINITY, INF},
        {1.0f, INFINITY, ONE},
        {1.0f, NAN, ONE},
        {NAN, 0.0f, ONE},
        {-5.0f, 0.0f, ONE},
        {-2.0f, 2.0f, QNAN},
        {-INFINITY, 1.0f, QNAN},
        {NAN, 1.0f, QNAN},
        {2.0f, NAN, QNAN},
        {2.0f, -149.0f, 1},
        {2.0f, -150.0f, 0},
        {2.0f, 127.0f, 0x7F000000},
        {2.0f, 128.0f, INF},
        {0x1p-149f, 1.0f, 1},
        {3.0f, 1e30f, INF},
        {3.0f, -1e30f, 0},
        {9.0f, 0.5f, 0x40400000},
        {10.0f, -1.0f, 0x3DCCCCCD},
        {0x1p-149f, -1.0f, INF},
    };
    ls_math_kernels tables[4];
    int n_isas = isas(tables);
    for (int t = 0; t < n_isas; t++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            float y;
            tables[t].pow(&y, &cases[i].x, cases[i].y, 1);
            if (bits_of(y) != cases[i].out)
                fail_msg("pow(%g, %g) = %08x", (double)cases[i].x, (double)cases[i].y, bits_of(y));
        }
}

/* Any length, in place, nothing beyond the end, and a lane does not depend on its place. */
static void test_lengths(void **state) {
    (void)state;
    ls_math_kernels tables[4];
    int n_isas = isas(tables);
    float x[80], y[80], single;
    for (int t = 0; t < n_isas; t++)
        for (size_t n = 0; n < 70; n++)
            for (const function *f = functions; f < functions + FUNCTIONS; f++) {
                for (size_t i = 0; i < 80; i++) x[i] = y[i] = (float)(i * 37 % 80) * 0.21f - 3.0f;
                x[7] = y[7] = 1e9f;
                get(&tables[t], f)(y + 3, y + 3, n);
                for (size_t i = 0; i < 80; i++) {
                    single = x[i];
                    if (i >= 3 && i < 3 + n) get(&tables[0], f)(&single, &single, 1);
                    assert_true(bits_of(y[i]) == bits_of(single));
                }
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_special), cmocka_unit_test(test_special_pow), cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_error),   cmocka_unit_test(test_error_pow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
