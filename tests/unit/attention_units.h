/* attention_units.h: sums of products as docs/reference/arithmetic.md has them, one value at a time: the chain of fp32,
 * and the granules of BFMMLA by Arm's pseudocode (BFMatMulAdd, BFDotAdd, BFMulH and BFRound, without FEAT_EBF16). And
 * rounding to the 16-bit types. */
#ifndef LS_TESTS_ATTENTION_UNITS_H
#define LS_TESTS_ATTENTION_UNITS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "contract_f32.h"
#include "device/cpu/kernels.h"
#include "gemm_units.h"

/* ---- rounding ---------------------------------------------------------------------------------------------------- */

/* To the nearest number with so many bits, even where two are as near; the smallest steps are 2^least, and what is not
 * below `end` is infinite. */
static float reference_nearest(float x, int bits, int least, double end) {
    if (isnan(x)) return contract_nan();
    if (isinf(x) || x == 0) return x;
    int exponent;
    frexp((double)x, &exponent);
    int step = exponent - bits < least ? least : exponent - bits;
    double y = ldexp(rint(ldexp((double)x, -step)), step); /* every step here is exact but rint */
    return fabs(y) >= end ? copysignf(INFINITY, x) : copysignf((float)y, x);
}

static float reference_round(float x, ls_dtype act) {
    if (act == LS_BF16) return reference_nearest(x, 8, -133, 0x1p128);
    return act == LS_F16 ? reference_nearest(x, 11, -24, 0x1p16) : x;
}

/* ---- BFMMLA ------------------------------------------------------------------------------------------------------ */

/* x cut to the 24 bits of fp32, the last of them set where something was cut off now or, as `rest` says, before (round
 * to odd); too small becomes zero. */
static float unit_odd(double x, int rest) {
    if (isnan(x)) return contract_nan();
    if (fabs(x) < 0x1p-126) return copysignf(0.0f, (float)x);
    if (fabs(x) >= 0x1p128) return copysignf(INFINITY, (float)x);
    uint64_t bits, cut = (UINT64_C(1) << 29) - 1;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits & cut) != 0 || rest ? (bits & ~cut) | (cut + 1) : bits;
    memcpy(&x, &bits, sizeof x);
    return (float)x;
}

static float unit_flush(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x; }

static float unit_mul(float a, float b) { return unit_odd((double)unit_flush(a) * (double)unit_flush(b), 0); }

/* The double sum is rounded towards zero before it is cut further: `rest` tells of the bits that it lost. */
static float unit_add(float a, float b) {
    double x = (double)unit_flush(a), y = (double)unit_flush(b), sum = x + y;
    if (isnan(sum) || isinf(sum)) return unit_odd(sum, 0);
    double large = fabs(x) > fabs(y) ? x : y, small = fabs(x) > fabs(y) ? y : x, lost = small - (sum - large);
    if (lost != 0 && (lost > 0) != (sum > 0)) sum = nextafter(sum, 0);
    return unit_odd(sum, lost != 0);
}

static float unit_granule(float sum, const float a[4], const float b[4]) {
    sum = unit_add(sum, unit_add(unit_mul(a[0], b[0]), unit_mul(a[1], b[1])));
    return unit_add(sum, unit_add(unit_mul(a[2], b[2]), unit_mul(a[3], b[3])));
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

typedef struct reference_sum {
    float value, a[16], b[16];
    size_t n;       /* products of the granule that is not full yet */
    size_t granule; /* 1: a chain */
    ls_dtype act;
} reference_sum;

static bool reference_is_hgmma(const ls_attention *a) { return a->act != LS_F32 && ls_unit_is_tensor_core(a->unit); }

static reference_sum reference_begin(const ls_attention *a) {
    bool is_unit = (a->act == LS_BF16 && a->unit == LS_UNIT_BFMMLA) || reference_is_hgmma(a);
    return (reference_sum){.granule = is_unit ? ls_unit_granule(a->unit) : 1, .act = a->act};
}

static void reference_add(reference_sum *sum, float a, float b) {
    if (sum->granule == 1) {
        sum->value = fmaf(a, b, sum->value);
        return;
    }
    sum->a[sum->n] = a;
    sum->b[sum->n++] = b;
    if (sum->n < sum->granule) return;
    sum->value = sum->granule == 4 ? unit_granule(sum->value, sum->a, sum->b)
                                   : model_granule(sum->granule == 8 ? LS_UNIT_AMPERE : LS_UNIT_HGMMA, sum->act,
                                                   sum->value, sum->a, sum->b);
    sum->n = 0;
}

/* Terms that are not there, up to the end of the granule. */
static void reference_pad(reference_sum *sum) {
    while (sum->n > 0) reference_add(sum, 0, 0);
}

/* The first `terms` are not there. */
static void reference_skip(reference_sum *sum, size_t terms) {
    for (size_t i = 0; sum->granule > 1 && i < terms % sum->granule; i++) reference_add(sum, 0, 0);
}

static float reference_end(reference_sum *sum) {
    reference_pad(sum);
    return sum->granule > 1 ? sum->value + 0.0f : sum->value;
}

#endif
