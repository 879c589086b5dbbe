/* contract_f64.h: the elementary functions in double, one value at a time, written from docs/reference/arithmetic.md,
 * "Elementary functions, double". Shares nothing with the library. */
#ifndef LS_TESTS_CONTRACT_F64_H
#define LS_TESTS_CONTRACT_F64_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t contract_bits_f64(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double contract_from_bits_f64(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* P(x; c0 … cn) of the contract. */
static inline double contract_horner_f64(double x, const double *c, int count) {
    double p = c[count - 1];
    for (int i = count - 2; i >= 0; i--) p = fma(p, x, c[i]);
    return p;
}
#define CONTRACT_P_F64(x, ...)                                                                                         \
    contract_horner_f64((x), (const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

typedef struct contract_pair {
    double h, l;
} contract_pair;

static inline contract_pair contract_two(double a, double b) {
    double h = a + b;
    double taken = h - a;
    return (contract_pair){h, b - taken};
}

static inline double contract_nan_f64(void) { return contract_from_bits_f64(0x7FF8000000000000u); }
static inline double contract_infinity_f64(void) { return contract_from_bits_f64(0x7FF0000000000000u); }

/* 2^n of a normal number. */
static inline double contract_two_to_f64(int n) { return contract_from_bits_f64((uint64_t)(n + 1023) << 52); }

/* ---- exp, tanh, log ---------------------------------------------------------------------------------------------- */

static inline double contract_core_f64(double x, double y) {
    const double M = 0x1.8p52;
    double z = fma(x, 0x1.71547652b82fep+0, M);
    double n = z - M;
    double a = fma(-n, 0x1.62e42fefa39efp-1, x), b = fma(-n, 0x1.abc9e3b39803fp-56, y);
    contract_pair r = contract_two(a, b), t = contract_two(1.0, r.h);
    double q =
        CONTRACT_P_F64(r.h, 0x1p-1, 0x1.555555555555bp-3, 0x1.5555555555503p-5, 0x1.111111110ec53p-7,
                       0x1.6c16c16c30504p-10, 0x1.a01a01b3827fcp-13, 0x1.a01a013678767p-16, 0x1.71ddf015e2cf9p-19,
                       0x1.27e5b460a1346p-22, 0x1.af6bfb493af05p-26, 0x1.1e3d2199e0e74p-29);
    double square = r.h * r.h;
    double low = t.l + fma(square, q, r.l);
    double p = t.h + low;
    int whole = (int)n, half = whole / 2;
    p = p * contract_two_to_f64(half);
    return p * contract_two_to_f64(whole - half);
}

static inline double contract_exp_f64(double x) {
    if (isnan(x)) return contract_nan_f64();
    if (x > 0x1.62e42fefa39efp+9) return contract_infinity_f64();
    if (x < -746.0) return 0.0;
    return contract_core_f64(x, 0.0);
}

static inline double contract_tanh_f64(double x) {
    if (isnan(x)) return contract_nan_f64();
    double u = fabs(x), y;
    if (u > 20.0) {
        y = 1.0;
    } else if (u < 0.5625) {
        double s = u * u;
        double p =
            CONTRACT_P_F64(s, -0x1.555555555554bp-2, 0x1.11111111102b6p-3, -0x1.ba1ba1b935e48p-5, 0x1.664f48495687ep-6,
                           -0x1.226e2d02628bbp-7, 0x1.d6d2479403d08p-9, -0x1.7d8b95dcf58dep-10, 0x1.3460ac6004c32p-11,
                           -0x1.e80a9221810d5p-13, 0x1.597260a1015dap-14, -0x1.3d27e7a8f5cfap-16);
        double cube = u * s;
        y = fma(cube, p, u);
    } else {
        double e = contract_core_f64(u + u, 0.0);
        double part = 2.0 / (e + 1.0);
        y = 1.0 - part;
    }
    return signbit(x) ? -y : y;
}

static inline double contract_scale_f64(double x, double *k) {
    int64_t j = 0;
    if (x < 0x1p-1022) {
        x = x * 0x1p54;
        j = 54;
    }
    uint64_t bits = contract_bits_f64(x);
    int64_t above = (int64_t)(bits - 0x3FE6A09E667F3BCDu);
    int64_t i = above >> 52;
    *k = (double)(i - j);
    return contract_from_bits_f64(bits - ((uint64_t)i << 52));
}

static inline double contract_log_f64(double x) {
    double k;
    if (isnan(x) || x < 0.0) return contract_nan_f64();
    if (x == 0.0) return -contract_infinity_f64();
    if (isinf(x)) return x;
    double m = contract_scale_f64(x, &k);
    double f = m - 1.0;
    double s = f / (2.0 + f);
    double z = s * s;
    double R =
        z * CONTRACT_P_F64(z, 0x1.5555555555555p-1, 0x1.9999999999dffp-2, 0x1.249249242b426p-2, 0x1.c71c725902a1ap-3,
                           0x1.745cde32613d3p-3, 0x1.3b20ac5d81cfap-3, 0x1.0f5cb1e979563p-3, 0x1.0f640c1363e27p-3);
    double k_low = k * 0x1.ef35793c7673p-45, k_high = k * 0x1.62e42fefa38p-1;
    double low = fma(-s, f - R, k_low);
    contract_pair h = contract_two(k_high, f);
    return h.h + (h.l + low);
}

/* ---- pow --------------------------------------------------------------------------------------------------------- */

/* log(x) in two parts, for finite x > 0. */
static inline contract_pair contract_log_pair(double x) {
    double k, m = contract_scale_f64(x, &k);
    double f = m - 1.0;
    contract_pair d = m >= 1.0 ? contract_two(m, 1.0) : contract_two(1.0, m);
    double s = f / d.h;
    double s_by_low = s * d.l;
    double s2 = (fma(-s, d.h, f) - s_by_low) / d.h;
    double z = s * s;
    double twice = (2.0 * s) * s2;
    double z2 = fma(s, s, -z) + twice;
    double p = CONTRACT_P_F64(z, 0x1.999999999999ap-2, 0x1.249249249246fp-2, 0x1.c71c71c72276fp-3, 0x1.745d17417ee97p-3,
                              0x1.3b13b311d28f2p-3, 0x1.11109444a053bp-3, 0x1.e20b84efd4c98p-4, 0x1.aaeb82bca7aa5p-4,
                              0x1.c31f43a721ae8p-4);
    double zp = z * p;
    contract_pair t = contract_two(0x1.5555555555555p-1, zp);
    t.l = t.l + 0x1.5555555555555p-55;
    double v = z * t.h;
    double v_a = z * t.l, v_b = z2 * t.h;
    double v2 = fma(z, t.h, -v) + (v_a + v_b);
    contract_pair w = contract_two(2.0, v);
    w.l = w.l + v2;
    double l = s * w.h;
    double l_a = s * w.l, l_b = s2 * w.h;
    double l2 = fma(s, w.h, -l) + (l_a + l_b);
    double k_high = k * 0x1.62e42fefa38p-1, k_low = k * 0x1.ef35793c7673p-45;
    contract_pair g = contract_two(k_high, l);
    g.l = g.l + (l2 + k_low);
    return g;
}

static inline double contract_pow_f64(double x, double y) {
    if (y == 0.0 || x == 1.0) return 1.0;
    if (isnan(x) || isnan(y) || x < 0.0) return contract_nan_f64();
    if (x == 0.0) return y > 0.0 ? 0.0 : contract_infinity_f64();
    if (isinf(x)) return y > 0.0 ? x : 0.0;
    contract_pair g = contract_log_pair(x);
    double e = y * g.h;
    if (e > 710.0) return contract_infinity_f64();
    if (e < -746.0) return 0.0;
    double y_low = y * g.l;
    return contract_core_f64(e, fma(y, g.h, -e) + y_low);
}

/* ---- sin, cos ---------------------------------------------------------------------------------------------------- */

static const double contract_pi1 = 0x1.921fb54442d18p+0, contract_pi2 = 0x1.1a62633145c07p-54,
                    contract_pi3 = -0x1.f1976b7ed8fbcp-110;

static inline contract_pair contract_reduce_small(double u, uint32_t *q) {
    const double M = 0x1.8p52;
    double z = fma(u, 0x1.45f306dc9c883p-1, M);
    double n = z - M;
    *q = (uint32_t)n;
    double a = fma(-n, contract_pi1, u);
    double b = n * contract_pi2;
    double b2 = fma(n, contract_pi2, -b);
    double c = a - b;
    double d = c - a;
    double e = (a - (c - d)) - (b + d);
    return contract_two(c, e - fma(n, contract_pi3, b2));
}

/* The bit of 2/π that has the weight 2^−j, from the digits of the number: 16·arctan(1/5) − 4·arctan(1/239) is π. */
static inline unsigned contract_two_over_pi(int j) {
    static const uint64_t digits[] = {0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561,
                                      0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484,
                                      0xE99C7026B45F7E41, 0x3991D639835339F4, 0x9C845F8BBDF9283B, 0x1FF897FFDE05980F,
                                      0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D, 0x7527BAC7EBE5F17B,
                                      0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB};
    if (j < 1) return 0;
    return (unsigned)(digits[(j - 1) / 64] >> (63 - (j - 1) % 64) & 1);
}

/* An integer of 192 bits as single bits, the first one of the highest weight: slow, and easy to see through. */
enum { CONTRACT_WIDE = 192 };

/* The 53 bits from `first` on. */
static inline double contract_wide_part(const unsigned *bit, int first) {
    uint64_t part = 0;
    for (int i = first; i < first + 53; i++) part = part * 2 + (i < CONTRACT_WIDE ? bit[i] : 0);
    return (double)part;
}

static inline contract_pair contract_reduce_large(double u, uint32_t *q) {
    uint64_t bits = contract_bits_f64(u), m = (bits & 0xFFFFFFFFFFFFFu) | 1ull << 52, carry = 0;
    int E = (int)(bits >> 52) - 1075;
    unsigned N[CONTRACT_WIDE], F[CONTRACT_WIDE];
    for (int i = CONTRACT_WIDE - 1; i >= 0; i--) { /* N = m·W, from the lowest bit */
        carry = carry + (contract_two_over_pi(E - 1 + i) ? m : 0);
        N[i] = (unsigned)(carry & 1);
        carry = carry / 2;
    }
    *q = N[0] * 2 + N[1];
    for (int i = 0; i < CONTRACT_WIDE; i++) F[i] = i + 2 < CONTRACT_WIDE ? N[i + 2] : 0;
    int turned = F[0] == 1;
    for (int i = 0; i < CONTRACT_WIDE && turned; i++) F[i] = 1 - F[i];
    if (turned) *q = *q + 1;
    int Z = 0;
    while (Z < 63 && F[Z] == 0) Z++;
    double a = contract_wide_part(F, Z) * contract_two_to_f64(-53 - Z);
    double b = contract_wide_part(F, Z + 53) * contract_two_to_f64(-106 - Z);
    double c = a * contract_pi1;
    double b_pi = b * contract_pi1;
    contract_pair r = contract_two(c, fma(a, contract_pi1, -c) + fma(a, contract_pi2, b_pi));
    return turned ? (contract_pair){-r.h, -r.l} : r;
}

static inline double contract_sine_part(double r, double l) {
    double s = r * r;
    double p =
        CONTRACT_P_F64(s, -0x1.5555555555555p-3, 0x1.111111111110bp-7, -0x1.a01a01a018a5fp-13, 0x1.71de3a532f6cep-19,
                       -0x1.ae64528c03199p-26, 0x1.61208b5279e9p-33, -0x1.aaa1cba606851p-41);
    double cube = r * s, low = l * fma(-0.5, s, 1.0);
    return r + fma(cube, p, low);
}

static inline double contract_cosine_part(double r, double l) {
    double s = r * r;
    double p = CONTRACT_P_F64(s, 0x1.555555555554bp-5, -0x1.6c16c16c14f7fp-10, 0x1.a01a019c827e9p-16,
                              -0x1.27e4f7e96c21cp-22, 0x1.1ee9d6c4dcd36p-29, -0x1.8fa41ada9d8b8p-37);
    double half = 0.5 * s, square = s * s, low = r * l;
    contract_pair t = contract_two(1.0, -half);
    return t.h + (t.l + fma(square, p, -low));
}

/* quarter 0 for sin, 1 for cos. */
static inline double contract_turn_f64(double x, uint32_t quarter) {
    uint32_t q;
    if (isnan(x) || isinf(x)) return contract_nan_f64();
    double u = fabs(x);
    contract_pair r = u < 0x1p20 ? contract_reduce_small(u, &q) : contract_reduce_large(u, &q);
    q = q + quarter;
    double y = q % 2 == 0 ? contract_sine_part(r.h, r.l) : contract_cosine_part(r.h, r.l);
    if (q & 2) y = -y;
    return quarter == 0 && signbit(x) ? -y : y;
}

static inline double contract_sin_f64(double x) { return contract_turn_f64(x, 0); }
static inline double contract_cos_f64(double x) { return contract_turn_f64(x, 1); }

#endif
