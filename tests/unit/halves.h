/* halves.h: 16-bit tensors for the tests of a device's operations, with roundings of their own.
 *
 * A result has to be the fp32 operation of the widened inputs, rounded once. The numbers of both formats are made here
 * from their definition, in double, and share nothing with the code under test. */
#ifndef LS_TESTS_HALVES_H
#define LS_TESTS_HALVES_H

#include <math.h>

#include "ops.h"

/* Significant bits, the exponent of the smallest number, the largest finite number, infinity and NaN as bits. */
typedef struct half_format {
    int bits, lowest;
    double largest;
    uint16_t infinity, nan;
} half_format;

static inline half_format format_of(ls_dtype dtype) {
    if (dtype == LS_BF16) return (half_format){8, -133, 0x1.FEp127, 0x7F80, 0x7FC0};
    return (half_format){11, -24, 65504.0, 0x7C00, 0x7E00};
}

static inline float widen_one(uint16_t half, ls_dtype dtype) {
    half_format f = format_of(dtype);
    int fraction_bits = f.bits - 1, exponent = (half & 0x7FFF) >> fraction_bits;
    double fraction = half & ((1 << fraction_bits) - 1), sign = half & 0x8000 ? -1 : 1;
    if ((half & 0x7FFF) > f.infinity) return NAN;
    if ((half & 0x7FFF) == f.infinity) return (float)(sign * (double)INFINITY);
    if (exponent == 0) return (float)(sign * ldexp(fraction, f.lowest));
    return (float)(sign * ldexp(fraction + (1 << fraction_bits), f.lowest + exponent - 1));
}

/* In steps of the format at this size; rint() takes ties to even. */
static inline uint16_t round_one(float x, ls_dtype dtype) {
    half_format f = format_of(dtype);
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    if (isnan(x)) return f.nan;
    if (isinf(x)) return sign | f.infinity;
    int exponent = x == 0 ? 0 : ilogb((double)fabsf(x)), step = exponent - (f.bits - 1);
    if (x == 0 || step < f.lowest) step = f.lowest;
    double rounded = ldexp(rint(ldexp((double)fabsf(x), -step)), step);
    if (rounded > f.largest) return sign | f.infinity;
    if (rounded == 0) return sign;
    exponent = ilogb(rounded);
    if (exponent - (f.bits - 1) < f.lowest) return (uint16_t)(sign | (uint16_t)ldexp(rounded, -f.lowest));
    int fraction = (int)ldexp(rounded, f.bits - 1 - exponent) - (1 << (f.bits - 1));
    return (uint16_t)(sign | (uint16_t)((exponent - (f.bits - 1) - f.lowest + 1) << (f.bits - 1) | fraction));
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static const ls_dtype half_types[2] = {LS_BF16, LS_F16};

typedef struct half {
    twin t;
    float *wide; /* what it holds, as fp32 */
    ls_dtype dtype;
} half;

enum { WIDE_ELEMS = 1 << 20 };
static float wide_memory[WIDE_ELEMS];
static size_t wide_used;

/* Until the end of the case. */
static inline float *scratch_of(size_t elems) {
    assert_true(wide_used + elems <= WIDE_ELEMS);
    wide_used += elems;
    return wide_memory + wide_used - elems;
}

/* Every number of a format, and some between −2 and 2: made once. */
enum { PATTERNS = 1 << 16, SOME = 4093 };
static float every_wide[2][PATTERNS];
static uint16_t some_halves[2][SOME];

static inline void make_tables(int t) {
    if (every_wide[t][1] != 0) return;
    for (int i = 0; i < PATTERNS; i++) every_wide[t][i] = widen_one((uint16_t)i, half_types[t]);
    for (int i = 0; i < SOME; i++)
        some_halves[t][i] =
            round_one(4 * ls_rng_uniform_f32(ls_rng_key_make(11, 0, 0), (uint64_t)i) - 2, half_types[t]);
}

/* Numbers in −2 … 2; in the last eighth some that are special. */
static inline half make_half(size_t elems, ls_dtype dtype) {
    static const uint16_t special[8] = {0x0000, 0x8000, 0x0001, 0x807F, 0x7F7F, 0xFFFF, 0x7F80, 0x7F81};
    half h = {make((elems + 1) / 2), scratch_of(elems), dtype};
    uint16_t *halves = halves_of(h.t.ref);
    int t = dtype == LS_F16;
    make_tables(t);
    for (size_t i = 0; i < elems; i++) {
        halves[i] = some_halves[t][(i + 131 * (size_t)n_twins) % SOME];
        if (i >= elems - elems / 8 && i % 5 == 0) halves[i] = special[i / 5 % 8];
        if (dtype == LS_F16 && halves[i] == 0x7F80) halves[i] = 0xFC00; /* an infinity here too */
        h.wide[i] = every_wide[t][halves[i]];
    }
    ok(ls_device_copy_in(device, h.t.dev, halves, elems * sizeof *halves));
    return h;
}

/* What a half should hold from `at` on. */
static inline void expect(half h, size_t at, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++) halves_of(h.t.ref)[at + i] = round_one(x[i], h.dtype);
}

static inline void expect_rows(half h, size_t stride, const float *x, size_t x_stride, size_t rows, size_t n) {
    for (size_t r = 0; r < rows; r++) expect(h, r * stride, x + r * x_stride, n);
}

/* An fp32 tensor that holds the same. */
static inline twin widened(half h, size_t elems) {
    twin t = make(elems);
    memcpy(t.ref, h.wide, elems * sizeof(float));
    ok(ls_device_copy_in(device, t.dev, t.ref, elems * sizeof(float)));
    return t;
}

/* The payload of a NaN in fp32 is not defined: makes it one on both sides. */
static inline void one_nan(twin t) {
    float *got = malloc(t.elems * sizeof *got + 1);
    assert_non_null(got);
    ok(ls_device_copy_out(device, got, t.dev, t.elems * sizeof *got));
    for (size_t i = 0; i < t.elems; i++) {
        if (isnan(got[i])) got[i] = NAN;
        if (isnan(t.ref[i])) t.ref[i] = NAN;
    }
    ok(ls_device_copy_in(device, t.dev, got, t.elems * sizeof *got));
    free(got);
}

static inline void check_halves(const char *what, size_t a, size_t b) {
    check(what, a, b);
    wide_used = 0;
}

#endif
