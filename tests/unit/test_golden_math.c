/* test_golden_math.c: every elementary function against the one written from docs/reference/arithmetic.md, bit for bit,
 * on every ISA: random patterns from all of the range and from where the functions do something, special values,
 * subnormals, and what lies around each bound that the page names. LS_TEST_LONG takes a hundred times as many. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "base/rng.h"
#include "contract_f32.h"
#include "device/cpu/kernels.h"
#include "numerics/elementary.h"
#include "sample.h"

enum { BLOCK = 1 << 12, BLOCKS = 400, BLOCKS_LONG = 40000, NEAR = 40, ISAS_MAX = 4 };

static int blocks(void) { return (getenv("LS_TEST_LONG") ? BLOCKS_LONG : BLOCKS) / sample_every(4); }

typedef struct function {
    const char *name;
    size_t offset; /* in ls_math_kernels */
    float (*contract)(float);
} function;

static const function functions[] = {
    {"exp", offsetof(ls_math_kernels, exp), contract_exp},
    {"log", offsetof(ls_math_kernels, log), contract_log},
    {"tanh", offsetof(ls_math_kernels, tanh), contract_tanh},
    {"sigmoid", offsetof(ls_math_kernels, sigmoid), contract_sigmoid},
    {"erf", offsetof(ls_math_kernels, erf), contract_erf},
    {"sin", offsetof(ls_math_kernels, sin), contract_sin},
    {"cos", offsetof(ls_math_kernels, cos), contract_cos},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

typedef struct isa {
    const char *name;
    ls_math_kernels table;
} isa;

static int find_isas(isa found[ISAS_MAX]) {
    int n = 0;
    for (int id = 0; id < LS_ISA_COUNT; id++)
        if (ls_cpu_use((ls_isa)id)) {
            ls_kernels kernels;
            ls_kernels_fill(&kernels, 1u << id);
            found[n++] = (isa){kernels.isa, kernels.math};
        }
    return n;
}

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

/* Half of them any pattern, a quarter 2^−13 … 2^9, an eighth of subnormals. */
static float input(ls_rng_key key, uint64_t i) {
    uint32_t bits = ls_rng_u32(key, i);
    if (i % 4 == 1) bits = (bits & 0x807FFFFFu) | (114u + (bits >> 23) % 22) << 23;
    if (i % 8 == 2) bits &= 0x807FFFFFu;
    return contract_from_bits(bits);
}

static double input_f64(ls_rng_key key, uint64_t i) {
    uint64_t bits = ls_rng_u64(key, i);
    if (i % 4 == 1) bits = (bits & 0x800FFFFFFFFFFFFFu) | (1000u + (bits >> 52) % 46) << 52;
    if (i % 16 == 2) bits &= 0x800FFFFFFFFFFFFFu;
    return contract_from_bits_f64(bits);
}

/* Zeros, the ends of the subnormals, the largest numbers, infinities and NaN: those are around these. */
static const uint32_t edges[] = {0,          0x00800000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000,
                                 0x7FFFFFFF, 0x3F800000, 0x3F000000, 0x3F3504F3, 0x3FB504F3};
static const float bounds[] = {0x1.5d589ep+6f, 0x1.62e42ep+6f, 10.0f,          0.5625f,        4.0f,
                               0.875f,         0x1p17f,        0x1.921fb6p+0f, 0x1.921fb6p-1f, 0x1p-23f};
static const double bounds_f64[] = {0x1.62e42fefa39efp+9, 746.0, 20.0, 0.5625,   0x1p20, 0x1.921fb54442d18p+0, 709.0,
                                    0x1.6a09e667f3bcdp-1, 1.0,   0.5,  0x1p-1022};

enum { N_EDGES = sizeof edges / sizeof *edges, N_BOUNDS = sizeof bounds / sizeof *bounds };
_Static_assert((N_EDGES + (int)N_BOUNDS) * (2 * NEAR + 1) * 2 <= BLOCK, "all of `around` is one block");

static size_t around(float *out) {
    size_t n = 0;
    for (int b = 0; b < N_EDGES + (int)N_BOUNDS; b++)
        for (int step = -NEAR; step <= NEAR; step++) {
            uint32_t bits = (b < N_EDGES ? edges[b] : contract_bits(bounds[b - N_EDGES])) + (uint32_t)step;
            out[n++] = contract_from_bits(bits);
            out[n++] = contract_from_bits(bits ^ 0x80000000u);
        }
    return n;
}

/* ---- fp32 -------------------------------------------------------------------------------------------------------- */

static void check_block(const isa *with, const function *f, const float *x, const float *expected, size_t n) {
    static float got[BLOCK];
    ls_math_fn fn;
    memcpy(&fn, (const char *)&with->table + f->offset, sizeof fn);
    fn(got, x, n);
    for (size_t i = 0; i < n; i++)
        if (contract_bits(got[i]) != contract_bits(expected[i]))
            fail_msg("%s: %s(%08x) = %08x, the contract says %08x", with->name, f->name, contract_bits(x[i]),
                     contract_bits(got[i]), contract_bits(expected[i]));
}

static void check_inputs(const isa *with, int n_isas, const float *x, size_t n) {
    static float expected[BLOCK];
    for (const function *f = functions; f < functions + FUNCTIONS; f++) {
        for (size_t i = 0; i < n; i++) expected[i] = f->contract(x[i]);
        for (int t = 0; t < n_isas; t++) check_block(&with[t], f, x, expected, n);
    }
}

static void test_functions(void **state) {
    (void)state;
    static float x[BLOCK];
    isa with[ISAS_MAX];
    int n_isas = find_isas(with);
    check_inputs(with, n_isas, x, around(x));
    ls_rng_key key = ls_rng_key_make(11, 1, 0);
    for (int b = 0; b < blocks(); b++) {
        for (uint64_t i = 0; i < BLOCK; i++) x[i] = input(key, (uint64_t)b * BLOCK + i);
        check_inputs(with, n_isas, x, BLOCK);
    }
}

static void check_pow(const isa *with, int n_isas, const float *x, float y, size_t n) {
    static float got[BLOCK], expected[BLOCK];
    for (size_t i = 0; i < n; i++) expected[i] = contract_pow(x[i], y);
    for (int t = 0; t < n_isas; t++) {
        with[t].table.pow(got, x, y, n);
        for (size_t i = 0; i < n; i++)
            if (contract_bits(got[i]) != contract_bits(expected[i]))
                fail_msg("%s: pow(%08x, %08x) = %08x, the contract says %08x", with[t].name, contract_bits(x[i]),
                         contract_bits(y), contract_bits(got[i]), contract_bits(expected[i]));
    }
}

static void test_pow(void **state) {
    (void)state;
    enum { ROW = 64 };
    static const float powers[] = {0.5f, -0.5f, 2.0f, 3.0f, -1.0f, 1.0f, 1e-3f, 25.3f, 100.0f, -1e4f, 127.99999f};
    static float x[BLOCK];
    isa with[ISAS_MAX];
    int n_isas = find_isas(with);
    size_t n = around(x);
    for (size_t p = 0; p < sizeof powers / sizeof *powers; p++) check_pow(with, n_isas, x, powers[p], n);
    for (int e = 0; e < N_EDGES; e++) check_pow(with, n_isas, x, contract_from_bits(edges[e]), n);
    ls_rng_key keys[2] = {ls_rng_key_make(11, 2, 0), ls_rng_key_make(11, 3, 0)};
    for (uint64_t row = 0; row < (uint64_t)blocks() * (BLOCK / ROW); row++) {
        /* x is below zero in half of the cases, where nothing happens: only now and then. */
        for (uint64_t i = 0; i < ROW; i++) {
            x[i] = input(keys[0], row * ROW + i);
            if (i % 16 != 0) x[i] = fabsf(x[i]);
        }
        check_pow(with, n_isas, x, input(keys[1], row), ROW);
    }
}

/* ---- double ------------------------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    double (*got)(double), (*contract)(double);
} functions_f64[] = {
    {"exp", ls_exp_f64, contract_exp_f64},    {"log", ls_log_f64, contract_log_f64},
    {"tanh", ls_tanh_f64, contract_tanh_f64}, {"sin", ls_sin_f64, contract_sin_f64},
    {"cos", ls_cos_f64, contract_cos_f64},
};

static void check_one_f64(double x) {
    for (size_t f = 0; f < sizeof functions_f64 / sizeof *functions_f64; f++) {
        double got = functions_f64[f].got(x), expected = functions_f64[f].contract(x);
        if (contract_bits_f64(got) != contract_bits_f64(expected))
            fail_msg("%s(%a) = %a, the contract says %a", functions_f64[f].name, x, got, expected);
    }
}

static void check_pow_f64(double x, double y) {
    double got = ls_pow_f64(x, y), expected = contract_pow_f64(x, y);
    if (contract_bits_f64(got) != contract_bits_f64(expected))
        fail_msg("pow(%a, %a) = %a, the contract says %a", x, y, got, expected);
}

static void test_functions_f64(void **state) {
    (void)state;
    static const uint64_t wide_edges[] = {0, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0x7FF8000000000000};
    for (size_t b = 0; b < sizeof bounds_f64 / sizeof *bounds_f64 + 4; b++)
        for (int step = -NEAR; step <= NEAR; step++) {
            uint64_t bits = (b < 4 ? wide_edges[b] : contract_bits_f64(bounds_f64[b - 4])) + (uint64_t)(int64_t)step;
            for (uint64_t sign = 0; sign < 2; sign++) check_one_f64(contract_from_bits_f64(bits ^ sign << 63));
            for (int e = 0; e < N_EDGES; e++)
                check_pow_f64(contract_from_bits_f64(bits), (double)contract_from_bits(edges[e]));
        }
    ls_rng_key key = ls_rng_key_make(11, 4, 0);
    for (uint64_t i = 0; i < (uint64_t)blocks() * BLOCK; i++) check_one_f64(input_f64(key, i));
}

static void test_pow_f64(void **state) {
    (void)state;
    ls_rng_key key = ls_rng_key_make(11, 5, 0), powers = ls_rng_key_make(11, 6, 0);
    for (uint64_t i = 0; i < (uint64_t)blocks() * BLOCK; i++) {
        double x = input_f64(key, i), y = input_f64(powers, i * 5 + 1);
        check_pow_f64(i % 16 == 0 ? x : fabs(x), y);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_pow),
        cmocka_unit_test(test_functions_f64),
        cmocka_unit_test(test_pow_f64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
