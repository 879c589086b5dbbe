/* contract_f32.h: the elementary functions in fp32, one value at a time, written from docs/reference/arithmetic.md,
 * "Elementary functions, fp32". Shares nothing with the library. */
#ifndef LS_TESTS_CONTRACT_F32_H
#define LS_TESTS_CONTRACT_F32_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "contract_f64.h"

static inline uint32_t contract_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float contract_from_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* P(x; c0 … cn) of the contract. */
static inline float contract_horner(float x, const float *c, int count) {
    float p = c[count - 1];
    for (int i = count - 2; i >= 0; i--) p = fmaf(p, x, c[i]);
    return p;
}
#define CONTRACT_P(x, ...)                                                                                             \
    contract_horner((x), (const float[]){__VA_ARGS__}, sizeof((const float[]){__VA_ARGS__}) / sizeof(float))

static inline float contract_nan(void) { return contract_from_bits(0x7FC00000u); }
static inline float contract_infinity(void) { return contract_from_bits(0x7F800000u); }
static inline float contract_with_sign(float y, float x) { return signbit(x) ? -y : y; }

/* ---- exp, sigmoid, tanh, erf ------------------------------------------------------------------------------------- */

static inline float contract_core(float x) {
    const float M = 0x1.8p23f;
    float z = fmaf(x, 0x1.715476p+0f, M);
    float n = z - M;
    float r = fmaf(-n, 0x1.62e43p-1f, x);
    r = fmaf(-n, -0x1.05c61p-29f, r);
    float p = CONTRACT_P(r, 1.0f, 1.0f, 0x1.fffffcp-2f, 0x1.555492p-3f, 0x1.5558f2p-5f, 0x1.1239f8p-7f, 0x1.6a241p-10f);
    return contract_from_bits(contract_bits(p) + (contract_bits(z) << 23));
}

static inline float contract_exp(float x) {
    if (isnan(x)) return contract_nan();
    if (x < -0x1.5d589ep+6f) return 0.0f;
    if (x > 0x1.62e42ep+6f) return contract_infinity();
    return contract_core(x);
}

static inline float contract_sigmoid(float x) {
    if (isnan(x)) return contract_nan();
    float u = -fabsf(x);
    float e = u < -0x1.5d589ep+6f ? 0.0f : contract_core(u);
    float q = e / (1.0f + e);
    float a = x < 0.0f ? e : 1.0f;
    return fmaf(-a, q, a);
}

static inline float contract_tanh(float x) {
    if (isnan(x)) return contract_nan();
    float u = fabsf(x) < 10.0f ? fabsf(x) : 10.0f, y;
    if (u < 0.5625f) {
        float s = u * u;
        float p = CONTRACT_P(s, -0x1.555548p-2f, 0x1.110c72p-3f, -0x1.b90946p-5f, 0x1.582fbp-6f, -0x1.95001cp-8f);
        float cube = u * s;
        y = fmaf(cube, p, u);
    } else {
        float e = contract_core(u + u);
        float part = 2.0f / (e + 1.0f);
        y = 1.0f - part;
    }
    return contract_with_sign(y, x);
}

static inline float contract_erf(float x) {
    if (isnan(x)) return contract_nan();
    float u = fabsf(x) < 4.0f ? fabsf(x) : 4.0f, y;
    if (u < 0.875f) {
        float s = u * u;
        float p = CONTRACT_P(s, 0x1.06eba8p-3f, -0x1.812744p-2f, 0x1.ce2e84p-4f, -0x1.b819a6p-6f, 0x1.553abap-8f,
                             -0x1.ae7f94p-11f, 0x1.6bdf52p-14f);
        y = fmaf(u, p, u);
    } else {
        float g = CONTRACT_P(u, -0x1.230fcep-13f, 0x1.211af6p+0f, 0x1.448312p-1f, 0x1.b8fe08p-4f, -0x1.93603cp-6f,
                             0x1.00b814p-8f, -0x1.74baeep-12f, 0x1.ec80d6p-18f, 0x1.13617cp-20f);
        y = 1.0f - contract_core(-g);
    }
    return contract_with_sign(y, x);
}

/* ---- log, pow ---------------------------------------------------------------------------------------------------- */

static inline float contract_scale(float x, float *k) {
    int32_t j = 0;
    if (x < 0x1p-126f) {
        x = x * 0x1p23f;
        j = 23;
    }
    uint32_t bits = contract_bits(x);
    int32_t above = (int32_t)(bits - 0x3F3504F3u);
    int32_t i = above >> 23;
    *k = (float)i - (float)j;
    return contract_from_bits(bits - ((uint32_t)i << 23));
}

static inline float contract_log(float x) {
    float k;
    if (isnan(x) || x < 0.0f) return contract_nan();
    if (x == 0.0f) return -contract_infinity();
    if (isinf(x)) return x;
    float m = contract_scale(x, &k);
    float f = m - 1.0f;
    float s = f * f;
    float p = CONTRACT_P(f, -0.5f, 0x1.555554p-2f, -0x1.000226p-2f, 0x1.99a008p-3f, -0x1.547244p-3f, 0x1.22da1cp-3f,
                         -0x1.0d854p-3f, 0x1.055b6ep-3f, -0x1.38b59p-4f);
    float k_low = k * 0x1.7f7d1cp-20f;
    float low = fmaf(s, p, k_low);
    float h = k * 0x1.62e4p-1f;
    float t = h + f;
    float lost = f - (t - h);
    return t + (lost + low);
}

/* 2^t for −200 ≤ t ≤ 200. */
static inline float contract_power_of_two(double t) {
    double n = (t + 0x1.8p52) - 0x1.8p52;
    double f = t - n;
    float p = (float)CONTRACT_P_F64(f, 1.0, 0x1.62e42fef89d1ep-1, 0x1.ebfbdff8ede74p-3, 0x1.c6b08dced357cp-5,
                                    0x1.3b2ab5ed713f7p-7, 0x1.5d874d0705654p-10, 0x1.430aa8802817cp-13,
                                    0x1.00d8533a5f323p-16, 0x1.61c4f393b5476p-20);
    int whole = (int)n, half = whole >> 1;
    p = p * (float)contract_two_to_f64(half);
    return p * (float)contract_two_to_f64(whole - half);
}

static inline float contract_pow(float x, float y) {
    float k;
    if (y == 0.0f || x == 1.0f) return 1.0f;
    if (isnan(x) || isnan(y) || x < 0.0f) return contract_nan();
    if (x == 0.0f) return y > 0.0f ? 0.0f : contract_infinity();
    if (isinf(x)) return y > 0.0f ? x : 0.0f;
    double m = (double)contract_scale(x, &k);
    double s = (m - 1.0) / (m + 1.0);
    double z = s * s;
    double q = CONTRACT_P_F64(z, 2.0, 0x1.5555555553965p-1, 0x1.999999a294488p-2, 0x1.24924176ae493p-2,
                              0x1.c72278ea5c13ep-3, 0x1.732c030205df9p-3, 0x1.5879746aca92ap-3);
    double sq = s * q;
    double t = (double)y * fma(sq, 0x1.71547652b82fep+0, (double)k);
    if ((float)t > 200.0f) return contract_infinity();
    if ((float)t < -200.0f) return 0.0f;
    return contract_power_of_two(t);
}

/* ---- sin, cos ---------------------------------------------------------------------------------------------------- */

/* quarter 0 for sin, 1 for cos. */
static inline float contract_turn(float x, uint32_t quarter) {
    const float M = 0x1.8p23f;
    if (isnan(x) || isinf(x)) return contract_nan();
    if (fabsf(x) > 0x1p17f) return (float)contract_turn_f64((double)x, quarter);
    float u = fabsf(x), y;
    float z = fmaf(u, 0x1.45f306p-1f, M);
    float n = z - M;
    float r = fmaf(-n, 0x1.921fb6p+0f, u);
    r = fmaf(-n, -0x1.777a5cp-25f, r);
    r = fmaf(-n, -0x1.ee59dap-50f, r);
    float s = r * r;
    uint32_t q = contract_bits(z) + quarter;
    if (q % 2 == 0) {
        float cube = r * s;
        y = fmaf(cube, CONTRACT_P(s, -0x1.555556p-3f, 0x1.111108p-7f, -0x1.a00f7cp-13f, 0x1.6cd152p-19f), r);
    } else {
        y = CONTRACT_P(s, 1.0f, -0.5f, 0x1.55554ap-5f, -0x1.6c0c3p-10f, 0x1.99ead4p-16f);
    }
    if (q & 2) y = -y;
    return quarter == 0 && signbit(x) ? -y : y;
}

static inline float contract_sin(float x) { return contract_turn(x, 0); }
static inline float contract_cos(float x) { return contract_turn(x, 1); }

#endif
