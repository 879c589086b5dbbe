/* math.h: elementary functions over sixteen floats, the same bits on every ISA; docs/reference/arithmetic.md has each
 * as a formula.
 *
 * Include it after one of the simd headers. The polynomials are from tools/minimax.py. Every function computes all its
 * branches and selects, so a lane never depends on its neighbours; only sin and cos leave the vector, for arguments
 * beyond 2^17. Every NaN that comes out is 0x7FC00000. */
#ifndef LS_DEVICE_CPU_SIMD_MATH_H
#define LS_DEVICE_CPU_SIMD_MATH_H

#ifndef LSK_SIMD
#    include "device/cpu/simd/portable.h"
#endif
#include <math.h>

#include "numerics/elementary.h"

/* Returns y, but the one NaN in the lanes of `nan`. */
LSK_INLINE v16 lsk_quiet(v16 y, v16m nan) { return v16_select(nan, v16_from_bits(v16i_set1(0x7FC00000)), y); }
/* Returns the sign bits of x. */
LSK_INLINE v16i lsk_sign(v16 x) { return v16i_and(v16_bits(x), v16i_set1(INT32_MIN)); }
/* Returns y, which is not negative, with the sign bits of `sign`. */
LSK_INLINE v16 lsk_with_sign(v16 y, v16i sign) { return v16_from_bits(v16i_xor(v16_bits(y), sign)); }
/* Computes p·x + c, one step of Horner's rule. */
LSK_INLINE v16 lsk_step(v16 p, v16 x, float c) { return v16_fma(p, x, v16_set1(c)); }
LSK_INLINE v16d lsk_step_d(v16d p, v16d x, double c) { return v16d_fma(p, x, v16d_set1(c)); }

/* ---- exp and what is made of it ---------------------------------------------------------------------------------- */

/* Returns e^x if the result is a normal number; else it is undefined. */
LSK_INLINE v16 lsk_exp_core(v16 x) {
    /* 1.5 * 2^23 leaves the nearest integer in the low bits of z. */
    v16 magic = v16_set1(0x1.8p23f);
    v16 z = v16_fma(x, v16_set1(0x1.715476p+0f), magic), n = v16_sub(z, magic);
    v16 r = v16_fnma(n, v16_set1(0x1.62e43p-1f), x);
    r = v16_fnma(n, v16_set1(-0x1.05c61p-29f), r);
    v16 p = v16_fma(v16_set1(0x1.6a241p-10f), r, v16_set1(0x1.1239f8p-7f));
    p = lsk_step(p, r, 0x1.5558f2p-5f);
    p = lsk_step(p, r, 0x1.555492p-3f);
    p = lsk_step(p, r, 0x1.fffffcp-2f);
    p = lsk_step(p, r, 1.0f);
    p = lsk_step(p, r, 1.0f);
    return v16_from_bits(v16i_add(v16_bits(p), v16i_shl(v16_bits(z), 23)));
}

/* Returns e^x; +0 where the result is below 2^-126. */
LSK_INLINE v16 v16_exp(v16 x) {
    v16 y = lsk_exp_core(x);
    y = v16_select(v16_lt(x, v16_set1(-0x1.5d589ep+6f)), v16_set1(0.0f), y);
    y = v16_select(v16_gt(x, v16_set1(0x1.62e42ep+6f)), v16_from_bits(v16i_set1(0x7F800000)), y);
    return lsk_quiet(y, v16_isnan(x));
}

/* Returns 1 / (1 + e^-x); +0 where e^x is below 2^-126. */
LSK_INLINE v16 v16_sigmoid(v16 x) {
    v16 one = v16_set1(1.0f), u = v16_neg(v16_abs(x));
    v16 e = v16_select(v16_lt(u, v16_set1(-0x1.5d589ep+6f)), v16_set1(0.0f), lsk_exp_core(u));
    /* e - e*q and 1 - q are e/(1+e) and 1/(1+e), with less of the quotient's error. */
    v16 a = v16_select(v16_lt(x, v16_set1(0.0f)), e, one), q = v16_div(e, v16_add(one, e));
    v16 y = v16_fnma(a, q, a);
    return lsk_quiet(y, v16_isnan(x));
}

/* Returns the hyperbolic tangent; odd, keeps -0. */
LSK_INLINE v16 v16_tanh(v16 x) {
    v16 u = v16_abs(x), one = v16_set1(1.0f), two = v16_set1(2.0f), most = v16_set1(10.0f);
    u = v16_select(v16_lt(u, most), u, most);
    v16 e = lsk_exp_core(v16_add(u, u));
    v16 large = v16_sub(one, v16_div(two, v16_add(e, one)));
    v16 s = v16_mul(u, u);
    v16 p = v16_fma(v16_set1(-0x1.95001cp-8f), s, v16_set1(0x1.582fbp-6f));
    p = lsk_step(p, s, -0x1.b90946p-5f);
    p = lsk_step(p, s, 0x1.110c72p-3f);
    p = lsk_step(p, s, -0x1.555548p-2f);
    v16 small = v16_fma(v16_mul(u, s), p, u);
    v16 y = v16_select(v16_lt(u, v16_set1(0.5625f)), small, large);
    return lsk_quiet(lsk_with_sign(y, lsk_sign(x)), v16_isnan(x));
}

/* Returns the error function; odd, keeps -0. */
LSK_INLINE v16 v16_erf(v16 x) {
    v16 u = v16_abs(x), most = v16_set1(4.0f);
    u = v16_select(v16_lt(u, most), u, most);
    v16 g = v16_fma(v16_set1(0x1.13617cp-20f), u, v16_set1(0x1.ec80d6p-18f));
    g = lsk_step(g, u, -0x1.74baeep-12f);
    g = lsk_step(g, u, 0x1.00b814p-8f);
    g = lsk_step(g, u, -0x1.93603cp-6f);
    g = lsk_step(g, u, 0x1.b8fe08p-4f);
    g = lsk_step(g, u, 0x1.448312p-1f);
    g = lsk_step(g, u, 0x1.211af6p+0f);
    g = lsk_step(g, u, -0x1.230fcep-13f);
    v16 large = v16_sub(v16_set1(1.0f), lsk_exp_core(v16_neg(g)));
    v16 s = v16_mul(u, u);
    v16 p = v16_fma(v16_set1(0x1.6bdf52p-14f), s, v16_set1(-0x1.ae7f94p-11f));
    p = lsk_step(p, s, 0x1.553abap-8f);
    p = lsk_step(p, s, -0x1.b819a6p-6f);
    p = lsk_step(p, s, 0x1.ce2e84p-4f);
    p = lsk_step(p, s, -0x1.812744p-2f);
    p = lsk_step(p, s, 0x1.06eba8p-3f);
    v16 small = v16_fma(u, p, u);
    v16 y = v16_select(v16_lt(u, v16_set1(0.875f)), small, large);
    return lsk_quiet(lsk_with_sign(y, lsk_sign(x)), v16_isnan(x));
}

/* ---- log and pow ------------------------------------------------------------------------------------------------- */

/* A number m * 2^k. */
typedef struct lsk_scaled {
    v16 m, k;
} lsk_scaled;

/* Splits a positive finite x into m * 2^k with m from sqrt(1/2) to sqrt(2); undefined for other x. */
LSK_INLINE lsk_scaled lsk_scale(v16 x) {
    v16m tiny = v16_lt(x, v16_set1(0x1p-126f));
    v16i bits = v16_bits(v16_select(tiny, v16_mul(x, v16_set1(0x1p23f)), x));
    v16i k = v16i_sar(v16i_sub(bits, v16i_set1(0x3F3504F3)), 23);
    v16 m = v16_from_bits(v16i_sub(bits, v16i_shl(k, 23)));
    v16 shift = v16_select(tiny, v16_set1(23.0f), v16_set1(0.0f));
    return (lsk_scaled){m, v16_sub(v16_from_i32(k), shift)};
}

/* Returns the natural logarithm; NaN below zero, -inf of either zero. */
LSK_INLINE v16 v16_log(v16 x) {
    lsk_scaled a = lsk_scale(x);
    v16 f = v16_sub(a.m, v16_set1(1.0f)), s = v16_mul(f, f);
    v16 p = v16_fma(v16_set1(-0x1.38b59p-4f), f, v16_set1(0x1.055b6ep-3f));
    p = lsk_step(p, f, -0x1.0d854p-3f);
    p = lsk_step(p, f, 0x1.22da1cp-3f);
    p = lsk_step(p, f, -0x1.547244p-3f);
    p = lsk_step(p, f, 0x1.99a008p-3f);
    p = lsk_step(p, f, -0x1.000226p-2f);
    p = lsk_step(p, f, 0x1.555554p-2f);
    p = lsk_step(p, f, -0.5f);
    v16 low = v16_fma(s, p, v16_mul(a.k, v16_set1(0x1.7f7d1cp-20f)));
    /* k * ln2 is exact here, and so is what the sum with f loses. */
    v16 high = v16_mul(a.k, v16_set1(0x1.62e4p-1f)), sum = v16_add(high, f);
    v16 lost = v16_sub(f, v16_sub(sum, high));
    v16 y = v16_add(sum, v16_add(lost, low));
    v16 zero = v16_set1(0.0f), inf = v16_from_bits(v16i_set1(0x7F800000));
    y = v16_select(v16_eq(x, inf), inf, y);
    y = v16_select(v16_eq(x, zero), v16_neg(inf), y);
    return lsk_quiet(y, v16m_or(v16_lt(x, zero), v16_isnan(x)));
}

/* Returns p * 2^n for an integer n from -252 to 252; two steps, so that a subnormal result is rounded once. */
LSK_INLINE v16 lsk_scale_by(v16 p, v16 n) {
    v16i whole = v16_to_i32(n), half = v16i_sar(whole, 1), rest = v16i_sub(whole, half), bias = v16i_set1(127);
    p = v16_mul(p, v16_from_bits(v16i_shl(v16i_add(half, bias), 23)));
    return v16_mul(p, v16_from_bits(v16i_shl(v16i_add(rest, bias), 23)));
}

/* Returns x^y for x >= 0, NaN below zero; x^0 and 1^y are 1, even for NaN. Computes in double, because y * log(x) needs
 * more digits than a float has. */
LSK_INLINE v16 v16_pow(v16 x, v16 y) {
    lsk_scaled a = lsk_scale(x);
    v16d m = v16d_widen(a.m), one = v16d_set1(1.0), magic = v16d_set1(0x1.8p52);
    v16d s = v16d_div(v16d_sub(m, one), v16d_add(m, one)), z = v16d_mul(s, s);
    v16d q = v16d_fma(v16d_set1(0x1.5879746aca92ap-3), z, v16d_set1(0x1.732c030205df9p-3));
    q = lsk_step_d(q, z, 0x1.c72278ea5c13ep-3);
    q = lsk_step_d(q, z, 0x1.24924176ae493p-2);
    q = lsk_step_d(q, z, 0x1.999999a294488p-2);
    q = lsk_step_d(q, z, 0x1.5555555553965p-1);
    q = lsk_step_d(q, z, 2.0);
    v16d log2_x = v16d_fma(v16d_mul(s, q), v16d_set1(0x1.71547652b82fep+0), v16d_widen(a.k));
    v16d t = v16d_mul(v16d_widen(y), log2_x), n = v16d_sub(v16d_add(t, magic), magic), f = v16d_sub(t, n);
    v16d p = v16d_fma(v16d_set1(0x1.61c4f393b5476p-20), f, v16d_set1(0x1.00d8533a5f323p-16));
    p = lsk_step_d(p, f, 0x1.430aa8802817cp-13);
    p = lsk_step_d(p, f, 0x1.5d874d0705654p-10);
    p = lsk_step_d(p, f, 0x1.3b2ab5ed713f7p-7);
    p = lsk_step_d(p, f, 0x1.c6b08dced357cp-5);
    p = lsk_step_d(p, f, 0x1.ebfbdff8ede74p-3);
    p = lsk_step_d(p, f, 0x1.62e42fef89d1ep-1);
    p = lsk_step_d(p, f, 1.0);
    v16 most = v16_set1(200.0f), least = v16_set1(-200.0f), zero = v16_set1(0.0f), n32 = v16d_narrow(n);
    v16 inf = v16_from_bits(v16i_set1(0x7F800000)), t32 = v16d_narrow(t);
    n32 = v16_select(v16_gt(n32, least), v16_select(v16_lt(n32, most), n32, most), least);
    v16 out = lsk_scale_by(v16d_narrow(p), n32);
    v16m up = v16_gt(y, zero), down = v16_lt(y, zero), none = v16_eq(x, zero), all = v16_eq(x, inf);
    v16m to_inf = v16m_or(v16m_and(none, down), v16m_and(all, up));
    v16m to_zero = v16m_or(v16m_and(none, up), v16m_and(all, down));
    v16m inside = v16m_not(v16m_or(none, all));
    out = v16_select(v16m_or(v16m_and(v16_gt(t32, most), inside), to_inf), inf, out);
    out = v16_select(v16m_or(v16m_and(v16_lt(t32, least), inside), to_zero), zero, out);
    out = lsk_quiet(out, v16m_or(v16_lt(x, zero), v16m_or(v16_isnan(x), v16_isnan(y))));
    return v16_select(v16m_or(v16_eq(y, zero), v16_eq(x, v16_set1(1.0f))), v16_set1(1.0f), out);
}

/* ---- sin and cos ------------------------------------------------------------------------------------------------- */

/* Replaces the lanes of y whose x is finite and beyond 2^17 by the sine, or cosine, in double. */
static inline v16 lsk_sin_wide(v16 y, v16 x, int cosine) {
    float in[16], out[16];
    v16_store(in, x);
    v16_store(out, y);
    for (int i = 0; i < 16; i++) {
        double value = (double)in[i];
        if (!(fabs(value) > 0x1p17 && fabs(value) < 0x1p128)) continue;
        out[i] = (float)(cosine ? ls_cos_f64(value) : ls_sin_f64(value));
    }
    return v16_load(out);
}

/* Returns the sine of |x| + quarters * pi/2 for |x| up to 2^17; the caller applies the sign of x. */
LSK_INLINE v16 lsk_sin_core(v16 x, int quarters) {
    v16 u = v16_abs(x), magic = v16_set1(0x1.8p23f);
    v16 z = v16_fma(u, v16_set1(0x1.45f306p-1f), magic), n = v16_sub(z, magic);
    v16 r = v16_fnma(n, v16_set1(0x1.921fb6p+0f), u);
    r = v16_fnma(n, v16_set1(-0x1.777a5cp-25f), r);
    r = v16_fnma(n, v16_set1(-0x1.ee59dap-50f), r);
    v16 s = v16_mul(r, r);
    v16 p = v16_fma(v16_set1(0x1.6cd152p-19f), s, v16_set1(-0x1.a00f7cp-13f));
    p = lsk_step(p, s, 0x1.111108p-7f);
    p = lsk_step(p, s, -0x1.555556p-3f);
    v16 sine = v16_fma(v16_mul(r, s), p, r);
    v16 c = v16_fma(v16_set1(0x1.99ead4p-16f), s, v16_set1(-0x1.6c0c3p-10f));
    c = lsk_step(c, s, 0x1.55554ap-5f);
    c = lsk_step(c, s, -0.5f);
    c = lsk_step(c, s, 1.0f);
    v16i quarter = v16i_add(v16_bits(z), v16i_set1(quarters));
    v16m even = v16i_eq(v16i_and(quarter, v16i_set1(1)), v16i_set1(0));
    return lsk_with_sign(v16_select(even, sine, c), v16i_shl(v16i_and(quarter, v16i_set1(2)), 30));
}

/* Returns the sine of x in radians. Odd, also for −0; an infinity gives NaN. */
LSK_INLINE v16 v16_sin(v16 x) {
    v16 y = lsk_with_sign(lsk_sin_core(x, 0), lsk_sign(x));
    if (v16m_any(v16_gt(v16_abs(x), v16_set1(0x1p17f)))) y = lsk_sin_wide(y, x, 0);
    return lsk_quiet(y, v16_isnan(y));
}

/* Returns the cosine; NaN of infinities. */
LSK_INLINE v16 v16_cos(v16 x) {
    v16 y = lsk_sin_core(x, 1);
    if (v16m_any(v16_gt(v16_abs(x), v16_set1(0x1p17f)))) y = lsk_sin_wide(y, x, 1);
    return lsk_quiet(y, v16_isnan(y));
}

#endif
