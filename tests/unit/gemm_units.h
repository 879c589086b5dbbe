/* gemm_units.h: the matrix units in plain C, from docs/reference/arithmetic.md, "Matrix units": one granule for one
 * output.
 *
 * Nothing here knows panels or tiles. */
#ifndef LS_TESTS_GEMM_UNITS_H
#define LS_TESTS_GEMM_UNITS_H

#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "device/unit.h"

static inline float model_flush(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x; }

/* ---- BFMMLA: round to odd, subnormals are zero ------------------------------------------------------------------- */

/* The fp32 next to x in the direction of zero, with an odd last bit unless x is one; `x` is odd in the same sense. */
static inline float model_odd(double x) {
    if (isnan(x) || isinf(x) || x == 0) return (float)x;
    if (fabs(x) >= 0x1p128) return copysignf(INFINITY, (float)copysign(1.0, x));
    if (fabs(x) < 0x1p-126) return copysignf(0.0f, (float)copysign(1.0, x));
    uint64_t bits;
    memcpy(&bits, &x, 8);
    uint64_t rest = bits & 0x1FFFFFFFu;
    bits -= rest;
    if (rest) bits |= 0x20000000u;
    memcpy(&x, &bits, 8);
    return (float)x;
}

static inline float model_odd_add(float a, float b) {
    double x = (double)model_flush(a), y = (double)model_flush(b), sum = x + y;
    if (isnan(sum) || isinf(sum) || sum == 0) return (float)sum;
    /* What the double lost, exactly; then the double itself is made odd. */
    double part = sum - x, lost = (x - (sum - part)) + (y - part);
    if (lost != 0) {
        uint64_t bits;
        memcpy(&bits, &sum, 8);
        if ((lost > 0) != (sum > 0)) bits--;
        bits |= 1;
        memcpy(&sum, &bits, 8);
    }
    return model_odd(sum);
}

static inline float model_odd_multiply(float a, float b) {
    return model_odd((double)model_flush(a) * (double)model_flush(b));
}

static inline float model_bfmmla(float c, const float *a, const float *b) {
    for (int pair = 0; pair < 4; pair += 2) {
        float first = model_odd_multiply(a[pair], b[pair]), second = model_odd_multiply(a[pair + 1], b[pair + 1]);
        c = model_odd_add(c, model_odd_add(first, second));
    }
    return c;
}

/* ---- x86-64: round to nearest even, subnormals are zero ---------------------------------------------------------- */

static inline float model_fma(float a, float b, float c) {
    return model_flush(fmaf(model_flush(a), model_flush(b), model_flush(c)));
}

static inline float model_add(float a, float b) { return model_flush(model_flush(a) + model_flush(b)); }

static inline float model_avx512_bf16(float c, const float *a, const float *b) {
    c = model_fma(a[1], b[1], c);
    return model_fma(a[0], b[0], c);
}

static inline float model_amx(float c, const float *a, const float *b) {
    float even = 0, odd = 0;
    for (int k = 0; k < 32; k += 2) {
        even = model_fma(a[k], b[k], even);
        odd = model_fma(a[k + 1], b[k + 1], odd);
    }
    return model_add(c, model_add(even, odd));
}

/* ---- tensor cores: one sum of all terms, cut off ----------------------------------------------------------------- */

/* Of so many products and c, `point` bits behind the point; in doubles, which hold every term and, cut off, every sum.
 */
static inline float model_tensor_core(ls_dtype dtype, int terms, int point, float c, const float *a, const float *b) {
    int least = dtype == LS_F16 ? -14 : -126, most = INT_MIN, exponent[17];
    double term[17], sum = 0;
    for (int i = 0; i <= terms; i++) {
        term[i] = i < terms ? (double)a[i] * (double)b[i] : (double)c;
        sum += term[i];
        if (term[i] == 0 || !isfinite(term[i])) continue;
        int x = i < terms ? ilogbf(a[i]) : ilogbf(c), y = i < terms ? ilogbf(b[i]) : 0,
            floor = i < terms ? least : -126;
        exponent[i] = (x > floor ? x : floor) + (i == terms ? 0 : y > least ? y : least);
        if (exponent[i] > most) most = exponent[i];
    }
    if (!isfinite(sum)) return (float)sum; /* doubles of finite terms do not overflow */
    if (most == INT_MIN) return 0.0f;
    sum = 0;
    for (int i = 0; i <= terms; i++) sum += trunc(ldexp(term[i], point - most));
    if (sum == 0) return 0.0f;
    /* sum · 2^(most − point) to fp32 in the direction of zero; its last place is 2^−149 or 24 bits below its first. */
    int last = ilogb(sum) - 23 > point - most - 149 ? ilogb(sum) - 23 : point - most - 149;
    sum = last >= 64 ? 0 : ldexp(trunc(ldexp(sum, -last)), last);
    if (sum == 0) return 0.0f;
    sum = ilogb(sum) + most - point > 127 ? copysign((double)INFINITY, sum) : ldexp(sum, most - point);
    return (float)sum;
}

/* One granule more. */
static inline float model_granule(ls_unit unit, ls_dtype dtype, float c, const float *a, const float *b) {
    switch (unit) {
    case LS_UNIT_HGMMA:
    case LS_UNIT_BLACKWELL: return model_tensor_core(dtype, 16, 25, c, a, b);
    case LS_UNIT_AMPERE:
    case LS_UNIT_ADA: return model_tensor_core(dtype, 8, 24, c, a, b);
    case LS_UNIT_BFMMLA: return model_bfmmla(c, a, b);
    case LS_UNIT_AVX512_BF16: return model_avx512_bf16(c, a, b);
    case LS_UNIT_AMX: return model_amx(c, a, b);
    default: return fmaf(*a, *b, c);
    }
}

#endif
