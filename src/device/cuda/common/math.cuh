/* math.cuh: exp, log, tanh, sigmoid and maxima for kernels, with the bits that docs/reference/elementary.md fixes and the CPU has
 * (device/cpu/simd/math.h). Results for NaN are the one NaN unless a comment says otherwise. */
#pragma once
#include "device/cuda/common/base.cuh"

/* Returns y, or the one NaN if `nan`. */
LS_DEVICE float quiet(float y, bool nan) { return nan ? __uint_as_float(0x7FC00000u) : y; }
/* Returns y with its sign flipped if x is negative. */
LS_DEVICE float with_sign(float y, float x) { return __uint_as_float(__float_as_uint(y) ^ (__float_as_uint(x) & 0x80000000u)); }
LS_DEVICE float abs_of(float x) { return __uint_as_float(__float_as_uint(x) & 0x7FFFFFFFu); }

/* Returns the larger number; NaN wins, +0 > −0. */
LS_DEVICE float max_of(float a, float b) {
    float most = a > b ? a : b;
    most = a == b ? __uint_as_float(__float_as_uint(a) & __float_as_uint(b)) : most;
    return quiet(most, a != a || b != b);
}

/* Returns the larger number; NaN wins, of two zeros any. */
LS_DEVICE float max_of_any_zero(float a, float b) {
#ifdef LS_CUDA_ON_CPU_H
    return max_of(a, b);
#else
    float most;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
    return most;
#endif
}

/* Returns 1 / x, and plain_quotient() x / y, with the bits of __frcp_rn() and __fdiv_rn(), for x and y between 2^−60 and 2^60; of smaller x the quotient
 * is only near. They have no branches for subnormal numbers, so the compiler can interleave several. */
LS_DEVICE float plain_reciprocal(float x) {
#ifdef LS_CUDA_ON_CPU_H
    return __frcp_rn(x);
#else
    float near;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(x));
    return __fmaf_rn(near, __fmaf_rn(-x, near, 1.0f), near);
#endif
}
/* Returns x / y with the bits of __fdiv_rn() for x and y between 2^−60 and 2^60; of smaller x only a near value. */
LS_DEVICE float plain_quotient(float x, float y) {
#ifdef LS_CUDA_ON_CPU_H
    return __fdiv_rn(x, y);
#else
    float r = plain_reciprocal(y), q = x * r;
    q = __fmaf_rn(r, __fmaf_rn(-y, q, x), q);
    return __fmaf_rn(r, __fmaf_rn(-y, q, x), q);
#endif
}

/* Returns 0 if x < least, else y, by a select: the compiler would branch around the computation of y. */
LS_DEVICE float zero_if_below(float y, float x, float least) {
#ifdef LS_CUDA_ON_CPU_H
    return x < least ? 0.0f : y;
#else
    float z;
    asm("{ .reg .pred p; setp.lt.f32 p, %2, %3; selp.f32 %0, 0f00000000, %1, p; }" : "=f"(z) : "f"(y), "f"(x), "f"(least));
    return z;
#endif
}

/* Returns e^x if the result is a normal number; else it is undefined. */
LS_DEVICE float exp_core(float x) {
    float z = __fmaf_rn(x, 0x1.715476p+0f, 0x1.8p23f), n = z - 0x1.8p23f;
    float r = __fmaf_rn(-n, 0x1.62e43p-1f, x);
    r = __fmaf_rn(-n, -0x1.05c61p-29f, r);
    float p = __fmaf_rn(0x1.6a241p-10f, r, 0x1.1239f8p-7f);
    p = __fmaf_rn(p, r, 0x1.5558f2p-5f);
    p = __fmaf_rn(p, r, 0x1.555492p-3f);
    p = __fmaf_rn(p, r, 0x1.fffffcp-2f);
    p = __fmaf_rn(p, r, 1.0f);
    p = __fmaf_rn(p, r, 1.0f);
    return __uint_as_float(__float_as_uint(p) + (__float_as_uint(z) << 23));
}
/* Returns e^x for any x: 0 below about −87.3, infinity above 88.7, as the contract has it. */
LS_DEVICE float exp_of(float x) {
    float y = exp_core(x);
    y = x < -0x1.5d589ep+6f ? 0.0f : y;
    y = x > 0x1.62e42ep+6f ? __uint_as_float(0x7F800000u) : y;
    return quiet(y, x != x);
}
/* Returns e^x for x ≤ 0 and NaN; undefined for larger x. */
LS_DEVICE float exp_below(float x) { return quiet(x < -0x1.5d589ep+6f ? 0.0f : exp_core(x), x != x); }
/* Returns 1 / (1 + e^−x), with the formula of the contract. */
LS_DEVICE float sigmoid_of(float x) {
    float u = -abs_of(x), e = u < -0x1.5d589ep+6f ? 0.0f : exp_core(u);
    /* For an e below 2^−25, where the quotient is only near, it does not change the result. */
    float a = x < 0.0f ? e : 1.0f, q = plain_quotient(e, 1.0f + e);
    return quiet(__fmaf_rn(-a, q, a), x != x);
}
/* Returns tanh(x); undefined for NaN. */
LS_DEVICE float tanh_number(float x) {
    float u = abs_of(x);
    u = u < 10.0f ? u : 10.0f;
    /* 2 / x is 2·(1 / x), and twice a number is exact. */
    float large = __fmaf_rn(-2.0f, plain_reciprocal(exp_core(u + u) + 1.0f), 1.0f), s = u * u;
    float p = __fmaf_rn(-0x1.95001cp-8f, s, 0x1.582fbp-6f);
    p = __fmaf_rn(p, s, -0x1.b90946p-5f);
    p = __fmaf_rn(p, s, 0x1.110c72p-3f);
    p = __fmaf_rn(p, s, -0x1.555548p-2f);
    float y = u < 0.5625f ? __fmaf_rn(u * s, p, u) : large;
    return with_sign(y, x);
}
/* Returns tanh(x), the one NaN for NaN. */
LS_DEVICE float tanh_of(float x) { return quiet(tanh_number(x), x != x); }
/* Returns the natural logarithm: −infinity for ±0, NaN for negative numbers. */
LS_DEVICE float log_of(float x) {
    bool tiny = x < 0x1p-126f;
    uint32_t bits = __float_as_uint(tiny ? x * 0x1p23f : x);
    int k = (int)(bits - 0x3F3504F3u) >> 23;
    float m = __uint_as_float(bits - ((uint32_t)k << 23)), e = (float)k - (tiny ? 23.0f : 0.0f), f = m - 1.0f, s = f * f;
    float p = __fmaf_rn(-0x1.38b59p-4f, f, 0x1.055b6ep-3f);
    p = __fmaf_rn(p, f, -0x1.0d854p-3f);
    p = __fmaf_rn(p, f, 0x1.22da1cp-3f);
    p = __fmaf_rn(p, f, -0x1.547244p-3f);
    p = __fmaf_rn(p, f, 0x1.99a008p-3f);
    p = __fmaf_rn(p, f, -0x1.000226p-2f);
    p = __fmaf_rn(p, f, 0x1.555554p-2f);
    p = __fmaf_rn(p, f, -0.5f);
    float low = __fmaf_rn(s, p, e * 0x1.7f7d1cp-20f), high = e * 0x1.62e4p-1f, sum = high + f, lost = f - (sum - high), y = sum + (lost + low);
    y = x == __uint_as_float(0x7F800000u) ? x : y;
    y = x == 0.0f ? __uint_as_float(0xFF800000u) : y;
    return quiet(y, x < 0.0f || x != x);
}
