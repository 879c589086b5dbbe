/* elementary.c: exp, log, sin, cos, tanh and pow in double; docs/reference/arithmetic.md has each as a formula.
 *
 * The polynomials are from tools/minimax.py. A `pair` is an unevaluated sum high + low with |low| below half an ulp of
 * high, for the places where one double is not enough: the remainder of a large angle, and log inside pow. */
#include "numerics/elementary.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define LOG2_E 0x1.71547652b82fep+0
#define LN2_HIGH 0x1.62e42fefa39efp-1
#define LN2_LOW 0x1.abc9e3b39803fp-56
/* The high part has eleven zero bits at its end, so its product with an exponent is exact. */
#define LN2_SHORT 0x1.62e42fefa3800p-1
#define LN2_REST 0x1.ef35793c76730p-45
#define TWO_OVER_PI 0x1.45f306dc9c883p-1
#define HALF_PI_1 0x1.921fb54442d18p+0
#define HALF_PI_2 0x1.1a62633145c07p-54
#define HALF_PI_3 (-0x1.f1976b7ed8fbcp-110)
/* Adding and subtracting it rounds a double to an integer. */
#define MAGIC 0x1.8p52

typedef struct pair {
    double high, low;
} pair;

/* Reinterprets a bit pattern as a double. */
static double from_bits(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Returns the bit pattern of a double. */
static uint64_t to_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Returns the one NaN of all results. */
static double quiet_nan(void) { return from_bits(0x7FF8000000000000u); }
/* Returns +infinity. */
static double infinity(void) { return from_bits(0x7FF0000000000000u); }

/* Returns a + b as a pair, exactly; |a| ≥ |b|, or a is zero. */
static pair sum_pair(double a, double b) {
    double sum = a + b;
    return (pair){sum, b - (sum - a)};
}

/* Evaluates the polynomial c[0] + c[1]*x + ... + c[n-1]*x^(n-1), one fma for each coefficient but the last. */
static double horner(const double *c, int n, double x) {
    double p = c[n - 1];
    for (int i = n - 2; i >= 0; i--) p = fma(p, x, c[i]);
    return p;
}

/* ---- exp --------------------------------------------------------------------------------------------------------- */

/* Returns e^(high + low) for a high from -746 to 710; infinity or 0 where the result leaves the range. */
static double exp_pair(double high, double low) {
    static const double c[] = {0x1p-1,
                               0x1.555555555555bp-3,
                               0x1.5555555555503p-5,
                               0x1.111111110ec53p-7,
                               0x1.6c16c16c30504p-10,
                               0x1.a01a01b3827fcp-13,
                               0x1.a01a013678767p-16,
                               0x1.71ddf015e2cf9p-19,
                               0x1.27e5b460a1346p-22,
                               0x1.af6bfb493af05p-26,
                               0x1.1e3d2199e0e74p-29};
    double n = fma(high, LOG2_E, MAGIC) - MAGIC;
    /* The first product is exact. If it cancels nearly all of `high` the pair is inexact, but then its error is
     * negligible.
     */
    pair r = sum_pair(fma(-n, LN2_HIGH, high), fma(-n, LN2_LOW, low)), top = sum_pair(1.0, r.high);
    double p = top.high + (top.low + fma(r.high * r.high, horner(c, 11, r.high), r.low));
    /* In two steps, so that neither factor overflows and a subnormal result is rounded once. */
    int whole = (int)n, half = whole / 2;
    return p * from_bits((uint64_t)(1023 + half) << 52) * from_bits((uint64_t)(1023 + whole - half) << 52);
}

double ls_exp_f64(double x) {
    if (x != x) return quiet_nan();
    if (x > 0x1.62e42fefa39efp+9) return infinity();
    if (x < -746.0) return 0.0;
    return exp_pair(x, 0.0);
}

double ls_tanh_f64(double x) {
    static const double c[] = {-0x1.555555555554bp-2,  0x1.11111111102b6p-3,  -0x1.ba1ba1b935e48p-5,
                               0x1.664f48495687ep-6,   -0x1.226e2d02628bbp-7, 0x1.d6d2479403d08p-9,
                               -0x1.7d8b95dcf58dep-10, 0x1.3460ac6004c32p-11, -0x1.e80a9221810d5p-13,
                               0x1.597260a1015dap-14,  -0x1.3d27e7a8f5cfap-16};
    double u = fabs(x), y;
    if (x != x) return quiet_nan();
    if (u > 20.0) {
        y = 1.0;
    } else if (u < 0.5625) {
        double s = u * u;
        y = fma(u * s, horner(c, 11, s), u);
    } else {
        y = 1.0 - 2.0 / (exp_pair(u + u, 0.0) + 1.0);
    }
    return copysign(y, x);
}

/* ---- log --------------------------------------------------------------------------------------------------------- */

/* Splits a positive finite x into m * 2^k; returns m, from sqrt(1/2) to sqrt(2). */
static double split_exponent(double x, double *k) {
    double shift = 0.0;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        shift = 54.0;
    }
    uint64_t bits = to_bits(x);
    int64_t exponent = ((int64_t)bits - INT64_C(0x3FE6A09E667F3BCD)) >> 52;
    *k = (double)exponent - shift;
    return from_bits(bits - ((uint64_t)exponent << 52));
}

double ls_log_f64(double x) {
    static const double c[] = {0x1.5555555555555p-1, 0x1.9999999999dffp-2, 0x1.249249242b426p-2, 0x1.c71c725902a1ap-3,
                               0x1.745cde32613d3p-3, 0x1.3b20ac5d81cfap-3, 0x1.0f5cb1e979563p-3, 0x1.0f640c1363e27p-3};
    if (x != x || x < 0.0) return quiet_nan();
    if (x == 0.0) return -infinity();
    if (x == infinity()) return x;
    double k, f = split_exponent(x, &k) - 1.0;
    double s = f / (2.0 + f), z = s * s;
    double low = fma(-s, f - z * horner(c, 8, z), k * LN2_REST);
    pair sum = sum_pair(k * LN2_SHORT, f);
    return sum.high + (sum.low + low);
}

/* Returns log(x) with about 64 bits, for positive finite x: k*ln2 + s*(2 + z*(2/3 + z*p(z))), s = (m-1)/(m+1), z = s^2.
 */
static pair log_pair(double x) {
    static const double c[] = {0x1.999999999999ap-2, 0x1.249249249246fp-2, 0x1.c71c71c72276fp-3,
                               0x1.745d17417ee97p-3, 0x1.3b13b311d28f2p-3, 0x1.11109444a053bp-3,
                               0x1.e20b84efd4c98p-4, 0x1.aaeb82bca7aa5p-4, 0x1.c31f43a721ae8p-4};
    double k, m = split_exponent(x, &k), f = m - 1.0;
    pair d = m > 1.0 ? sum_pair(m, 1.0) : sum_pair(1.0, m);
    double s = f / d.high, s_low = (fma(-s, d.high, f) - s * d.low) / d.high;
    double z = s * s, z_low = fma(s, s, -z) + 2.0 * s * s_low;
    pair t = sum_pair(0x1.5555555555555p-1, z * horner(c, 9, z));
    t.low += 0x1.5555555555555p-55;
    double v = z * t.high, v_low = fma(z, t.high, -v) + (z * t.low + z_low * t.high);
    pair w = sum_pair(2.0, v);
    w.low += v_low;
    double l = s * w.high, l_low = fma(s, w.high, -l) + (s * w.low + s_low * w.high);
    pair sum = sum_pair(k * LN2_SHORT, l);
    sum.low += l_low + k * LN2_REST;
    return sum;
}

double ls_pow_f64(double x, double y) {
    if (y == 0.0 || x == 1.0) return 1.0;
    if (x != x || y != y || x < 0.0) return quiet_nan();
    if (x == 0.0) return y > 0.0 ? 0.0 : infinity();
    if (x == infinity()) return y > 0.0 ? x : 0.0;
    pair log_x = log_pair(x);
    double product = y * log_x.high;
    if (product > 710.0) return infinity();
    if (product < -746.0) return 0.0;
    return exp_pair(product, fma(y, log_x.high, -product) + y * log_x.low);
}

/* ---- sin and cos ------------------------------------------------------------------------------------------------- */

/* 64 zero bits, then 2/pi behind the binary point. */
static const uint64_t two_over_pi[] = {
    0x0000000000000000u, 0xA2F9836E4E441529u, 0xFC2757D1F534DDC0u, 0xDB6295993C439041u, 0xFE5163ABDEBBC561u,
    0xB7246E3A424DD2E0u, 0x06492EEA09D1921Cu, 0xFE1DEB1CB129A73Eu, 0xE88235F52EBB4484u, 0xE99C7026B45F7E41u,
    0x3991D639835339F4u, 0x9C845F8BBDF9283Bu, 0x1FF897FFDE05980Fu, 0xEF2F118B5A0A6D1Fu, 0x6D367ECF27CB09B7u,
    0x4F463F669E5FEA2Du, 0x7527BAC7EBE5F17Bu, 0x3D0739F78A5292EAu, 0x6BFB5FB11F8D5D08u, 0x56033046FC7B6BABu,
};

__extension__ typedef unsigned __int128 wide;

/* Returns 64 bits of 2/pi, the first of weight 2^-(at - 63), for at >= 0; the table covers the exponents of all
 * doubles. */
static uint64_t bits_of_two_over_pi(int at) {
    int word = at / 64, shift = at % 64;
    if (shift == 0) return two_over_pi[word];
    return two_over_pi[word] << shift | two_over_pi[word + 1] >> (64 - shift);
}

/* Returns the remainder of u >= 2^20 by pi/2, from -pi/4 to pi/4, and sets *quarter to the quotient modulo 4. Only the
 * bits of u * 2/pi of weight 2 and below matter; 192 of them leave an error below 2^-137, and no double comes closer to
 * a multiple of pi/2 than 2^-62. */
static pair remainder_wide(double u, unsigned *quarter) {
    uint64_t bits = to_bits(u), mantissa = (bits & 0xFFFFFFFFFFFFFu) | 0x10000000000000u;
    int at = (int)(bits >> 52) - 1075 + 62;
    wide part = (wide)mantissa * bits_of_two_over_pi(at + 128);
    uint64_t low = (uint64_t)part;
    part = (wide)mantissa * bits_of_two_over_pi(at + 64) + (uint64_t)(part >> 64);
    uint64_t middle = (uint64_t)part;
    uint64_t high = mantissa * bits_of_two_over_pi(at) + (uint64_t)(part >> 64);
    *quarter = (unsigned)(high >> 62);
    high = high << 2 | middle >> 62;
    middle = middle << 2 | low >> 62;
    low <<= 2;
    /* The three words are now the fraction; above one half it counts down from the next quarter. */
    int down = high >> 63 != 0;
    if (down) {
        *quarter += 1;
        high = ~high;
        middle = ~middle;
        low = ~low;
    }
    int zeros = high != 0 ? __builtin_clzll(high) : 63;
    if (zeros != 0) {
        high = high << zeros | middle >> (64 - zeros);
        middle = middle << zeros | low >> (64 - zeros);
    }
    double a = ldexp((double)(high >> 11), -53 - zeros);
    double b = ldexp((double)((high & 0x7FFu) << 42 | middle >> 22), -106 - zeros);
    double r = a * HALF_PI_1, r_low = fma(a, HALF_PI_1, -r) + fma(a, HALF_PI_2, b * HALF_PI_1);
    pair out = sum_pair(r, r_low);
    return down ? (pair){-out.high, -out.low} : out;
}

/* Returns the remainder of any u >= 0 by pi/2; *quarter is right modulo 4. Below 2^20 three parts of pi/2 are enough,
 * because the quotient has at most 20 bits. */
static pair remainder_of(double u, unsigned *quarter) {
    if (u >= 0x1p20) return remainder_wide(u, quarter);
    double n = fma(u, TWO_OVER_PI, MAGIC) - MAGIC;
    *quarter = (unsigned)n;
    double a = fma(-n, HALF_PI_1, u), b = n * HALF_PI_2, b_low = fma(n, HALF_PI_2, -b);
    double r = a - b, back = r - a, lost = (a - (r - back)) - (b + back);
    return sum_pair(r, lost - fma(n, HALF_PI_3, b_low));
}

/* Returns the sine of high + low, an angle from -pi/4 to pi/4. */
static double sin_of(pair r) {
    static const double c[] = {-0x1.5555555555555p-3, 0x1.111111111110bp-7,   -0x1.a01a01a018a5fp-13,
                               0x1.71de3a532f6cep-19, -0x1.ae64528c03199p-26, 0x1.61208b5279e90p-33,
                               -0x1.aaa1cba606851p-41};
    double s = r.high * r.high;
    return r.high + fma(r.high * s, horner(c, 7, s), r.low * fma(-0.5, s, 1.0));
}

/* Returns the cosine of high + low, an angle from -pi/4 to pi/4. */
static double cos_of(pair r) {
    static const double c[] = {0x1.555555555554bp-5,   -0x1.6c16c16c14f7fp-10, 0x1.a01a019c827e9p-16,
                               -0x1.27e4f7e96c21cp-22, 0x1.1ee9d6c4dcd36p-29,  -0x1.8fa41ada9d8b8p-37};
    double s = r.high * r.high, half = 0.5 * s;
    pair top = sum_pair(1.0, -half);
    return top.high + (top.low + fma(s * s, horner(c, 6, s), -(r.high * r.low)));
}

/* Returns the sine of r + quarter * pi/2. */
static double sin_of_quarter(pair r, unsigned quarter) {
    double y = quarter & 1u ? cos_of(r) : sin_of(r);
    return quarter & 2u ? -y : y;
}

double ls_sin_f64(double x) {
    double u = fabs(x);
    if (!(u < infinity())) return quiet_nan();
    unsigned quarter;
    pair r = remainder_of(u, &quarter);
    double y = sin_of_quarter(r, quarter);
    return signbit(x) ? -y : y;
}

double ls_cos_f64(double x) {
    double u = fabs(x);
    if (!(u < infinity())) return quiet_nan();
    unsigned quarter;
    pair r = remainder_of(u, &quarter);
    return sin_of_quarter(r, quarter + 1);
}
