/* portable.h: sixteen lanes in plain C, for any CPU.
 *
 * The simd headers (portable, neon, avx2, avx512) offer one set of names over 16 lanes, the lanes of sum16 (a sum in 16
 * lanes that are then added in pairs), and give the same bits; the kernels of loops/ are written once over them. What
 * the names promise is written here, once:
 *
 * - v16 (float), v16i (int32), v16m (mask), v16d (double). add, sub, mul, div, sqrt and fma are IEEE, round to nearest
 *   even. fma(a,b,c) is a*b + c and fnma(a,b,c) is -(a*b) + c, with one rounding.
 * - max: NaN wins, as 0x7FC00000; +0 is larger than -0. Comparisons with NaN are false.
 * - The payload of a NaN that comes out of an arithmetic operation is not defined; converting writes one NaN.
 * - v16_widen_bf16 and v16_widen_f16 are v16_load_bf16 and v16_load_f16, but a NaN may keep its payload.
 * - The _n forms touch n elements only, 0 <= n <= 16; lanes behind them are `fill` (bf16 and f16: +0).
 * - v16_sum folds as sum16: lane j += lane j+8, then +4, +2, +1.
 * - v16_to_i32 rounds to nearest even; its input must fit.
 * - v16i_mul_wide multiplies unsigned numbers: the upper 32 bits come back, the lower go to *low. v16i_store_mixed
 *   writes 64 numbers: a0 b0 c0 d0 a1 b1 c1 d1 …
 * - Integer arithmetic wraps. Shift counts are constants from 0 to 31; shr brings zeros in, sar the sign. */
#ifndef LS_DEVICE_CPU_SIMD_PORTABLE_H
#define LS_DEVICE_CPU_SIMD_PORTABLE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "numerics/float16.h"

#define LSK_SIMD "portable"
/* Not forced, as it is for the other ISAs: sixteen lanes of plain code in every place take long to compile; with every
 * access to a lane checked as well, minutes. */
#if defined(__SANITIZE_ADDRESS__)
#    define LSK_INLINE static __attribute__((noinline, unused))
#else
#    define LSK_INLINE static inline
#endif

typedef struct v16 {
    float lane[16];
} v16;
typedef struct v16i {
    int32_t lane[16];
} v16i;
typedef struct v16m {
    uint32_t lane[16]; /* all ones or zero */
} v16m;
typedef struct v16d {
    double lane[16];
} v16d;

/* A function of sixteen independent lanes: `expression` may use i. */
#define LSK_LANES(type, expression)                                                                                    \
    do {                                                                                                               \
        type out_;                                                                                                     \
        for (int i = 0; i < 16; i++) out_.lane[i] = (expression);                                                      \
        return out_;                                                                                                   \
    } while (0)

/* ---- loads and stores -------------------------------------------------------------------------------------------- */

LSK_INLINE v16 v16_set1(float x) { LSK_LANES(v16, x); }
LSK_INLINE v16 v16_load(const float *from) { LSK_LANES(v16, from[i]); }
/* Loads n elements; the other lanes are `fill`. */
LSK_INLINE v16 v16_load_n(const float *from, size_t n, float fill) { LSK_LANES(v16, (size_t)i < n ? from[i] : fill); }
LSK_INLINE void v16_store(float *to, v16 x) { memcpy(to, x.lane, sizeof x.lane); }
/* Stores the first n lanes only. */
LSK_INLINE void v16_store_n(float *to, v16 x, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = x.lane[i];
}
/* Returns lane 0. */
LSK_INLINE float v16_first(v16 x) { return x.lane[0]; }

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

LSK_INLINE v16 v16_add(v16 a, v16 b) { LSK_LANES(v16, a.lane[i] + b.lane[i]); }
LSK_INLINE v16 v16_sub(v16 a, v16 b) { LSK_LANES(v16, a.lane[i] - b.lane[i]); }
LSK_INLINE v16 v16_mul(v16 a, v16 b) { LSK_LANES(v16, a.lane[i] * b.lane[i]); }
LSK_INLINE v16 v16_div(v16 a, v16 b) { LSK_LANES(v16, a.lane[i] / b.lane[i]); }
LSK_INLINE v16 v16_fma(v16 a, v16 b, v16 c) { LSK_LANES(v16, fmaf(a.lane[i], b.lane[i], c.lane[i])); }
/* Returns -(a*b) + c, rounded once. */
LSK_INLINE v16 v16_fnma(v16 a, v16 b, v16 c) { LSK_LANES(v16, fmaf(-a.lane[i], b.lane[i], c.lane[i])); }
LSK_INLINE v16 v16_sqrt(v16 a) { LSK_LANES(v16, sqrtf(a.lane[i])); }
LSK_INLINE v16 v16_neg(v16 a) { LSK_LANES(v16, -a.lane[i]); }
LSK_INLINE v16 v16_abs(v16 a) { LSK_LANES(v16, fabsf(a.lane[i])); }

/* Returns the larger number; NaN wins, as 0x7FC00000, and +0 > -0. */
static inline float lsk_max(float a, float b) {
    if (a != a || b != b) return ls_f32_from_bits(LS_NAN_BITS);
    if (a == b) return ls_f32_from_bits(ls_f32_bits(a) & ls_f32_bits(b));
    return a > b ? a : b;
}
/* Returns the larger of each lane; NaN wins, +0 > -0. */
LSK_INLINE v16 v16_max(v16 a, v16 b) { LSK_LANES(v16, lsk_max(a.lane[i], b.lane[i])); }

/* Returns the sum of all lanes in the order of sum16: lane j += lane j+8, then +4, +2, +1. */
LSK_INLINE float v16_sum(v16 x) {
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++) x.lane[i] += x.lane[i + half];
    return x.lane[0];
}
/* Returns the maximum of all lanes; NaN wins. */
LSK_INLINE float v16_hmax(v16 x) {
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++) x.lane[i] = lsk_max(x.lane[i], x.lane[i + half]);
    return x.lane[0];
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

LSK_INLINE v16m v16_lt(v16 a, v16 b) { LSK_LANES(v16m, a.lane[i] < b.lane[i] ? UINT32_MAX : 0); }
LSK_INLINE v16m v16_le(v16 a, v16 b) { LSK_LANES(v16m, a.lane[i] <= b.lane[i] ? UINT32_MAX : 0); }
LSK_INLINE v16m v16_gt(v16 a, v16 b) { LSK_LANES(v16m, a.lane[i] > b.lane[i] ? UINT32_MAX : 0); }
LSK_INLINE v16m v16_eq(v16 a, v16 b) { LSK_LANES(v16m, a.lane[i] == b.lane[i] ? UINT32_MAX : 0); }
LSK_INLINE v16m v16_isnan(v16 a) { LSK_LANES(v16m, a.lane[i] != a.lane[i] ? UINT32_MAX : 0); }
LSK_INLINE v16m v16m_and(v16m a, v16m b) { LSK_LANES(v16m, a.lane[i] & b.lane[i]); }
LSK_INLINE v16m v16m_or(v16m a, v16m b) { LSK_LANES(v16m, a.lane[i] | b.lane[i]); }
LSK_INLINE v16m v16m_not(v16m a) { LSK_LANES(v16m, ~a.lane[i]); }
/* Returns whether a lane of the mask is set. */
LSK_INLINE int v16m_any(v16m a) {
    uint32_t any = 0;
    for (int i = 0; i < 16; i++) any |= a.lane[i];
    return any != 0;
}
/* Returns `yes` in the lanes of the mask, `no` in the others. */
LSK_INLINE v16 v16_select(v16m m, v16 yes, v16 no) { LSK_LANES(v16, m.lane[i] != 0 ? yes.lane[i] : no.lane[i]); }

/* ---- integers ---------------------------------------------------------------------------------------------------- */

/* Reinterprets 32 bits as a signed number. */
static inline int32_t lsk_i32(uint32_t bits) {
    int32_t value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

LSK_INLINE v16i v16i_set1(int32_t x) { LSK_LANES(v16i, x); }
/* v16_bits() returns the bit patterns of floats, v16_from_bits() the floats with these bit patterns. */
LSK_INLINE v16i v16_bits(v16 a) { LSK_LANES(v16i, lsk_i32(ls_f32_bits(a.lane[i]))); }
LSK_INLINE v16 v16_from_bits(v16i a) { LSK_LANES(v16, ls_f32_from_bits((uint32_t)a.lane[i])); }
LSK_INLINE v16i v16i_add(v16i a, v16i b) { LSK_LANES(v16i, lsk_i32((uint32_t)a.lane[i] + (uint32_t)b.lane[i])); }
LSK_INLINE v16i v16i_sub(v16i a, v16i b) { LSK_LANES(v16i, lsk_i32((uint32_t)a.lane[i] - (uint32_t)b.lane[i])); }
LSK_INLINE v16i v16i_and(v16i a, v16i b) { LSK_LANES(v16i, a.lane[i] & b.lane[i]); }
LSK_INLINE v16i v16i_or(v16i a, v16i b) { LSK_LANES(v16i, a.lane[i] | b.lane[i]); }
LSK_INLINE v16i v16i_xor(v16i a, v16i b) { LSK_LANES(v16i, a.lane[i] ^ b.lane[i]); }
LSK_INLINE v16i v16i_shl(v16i a, int n) { LSK_LANES(v16i, lsk_i32((uint32_t)a.lane[i] << n)); }
LSK_INLINE v16i v16i_shr(v16i a, int n) { LSK_LANES(v16i, lsk_i32((uint32_t)a.lane[i] >> n)); }
LSK_INLINE v16i v16i_sar(v16i a, int n) { LSK_LANES(v16i, a.lane[i] >> n); }
LSK_INLINE v16m v16i_eq(v16i a, v16i b) { LSK_LANES(v16m, a.lane[i] == b.lane[i] ? UINT32_MAX : 0); }
LSK_INLINE v16m v16i_gt(v16i a, v16i b) { LSK_LANES(v16m, a.lane[i] > b.lane[i] ? UINT32_MAX : 0); }
LSK_INLINE v16i v16i_select(v16m m, v16i yes, v16i no) { LSK_LANES(v16i, m.lane[i] != 0 ? yes.lane[i] : no.lane[i]); }
/* Rounds to nearest even; the numbers must fit an int32. */
LSK_INLINE v16i v16_to_i32(v16 a) { LSK_LANES(v16i, (int32_t)rintf(a.lane[i])); }
LSK_INLINE v16 v16_from_i32(v16i a) { LSK_LANES(v16, (float)a.lane[i]); }

LSK_INLINE v16i v16i_load(const uint32_t *from) { LSK_LANES(v16i, lsk_i32(from[i])); }
LSK_INLINE void v16i_store(uint32_t *to, v16i x) {
    for (int i = 0; i < 16; i++) to[i] = (uint32_t)x.lane[i];
}
/* Multiplies unsigned numbers: returns the upper 32 bits, *low gets the lower ones. */
LSK_INLINE v16i v16i_mul_wide(v16i a, v16i b, v16i *low) {
    v16i high;
    for (int i = 0; i < 16; i++) {
        uint64_t product = (uint64_t)(uint32_t)a.lane[i] * (uint32_t)b.lane[i];
        low->lane[i] = lsk_i32((uint32_t)product);
        high.lane[i] = lsk_i32((uint32_t)(product >> 32));
    }
    return high;
}
/* Stores 64 numbers, interleaved: a0 b0 c0 d0 a1 b1 c1 d1 and so on. */
LSK_INLINE void v16i_store_mixed(uint32_t *to, v16i a, v16i b, v16i c, v16i d) {
    for (int i = 0; i < 16; i++) {
        const uint32_t four[4] = {(uint32_t)a.lane[i], (uint32_t)b.lane[i], (uint32_t)c.lane[i], (uint32_t)d.lane[i]};
        memcpy(to + 4 * i, four, sizeof four);
    }
}

/* ---- 16-bit formats ---------------------------------------------------------------------------------------------- */

/* Loads 16 bf16 numbers as fp32; every NaN becomes the one NaN. */
LSK_INLINE v16 v16_load_bf16(const uint16_t *from) { LSK_LANES(v16, ls_bf16_to_f32(from[i])); }
/* Loads n bf16 numbers as fp32; the other lanes are +0. */
LSK_INLINE v16 v16_load_bf16_n(const uint16_t *from, size_t n) {
    LSK_LANES(v16, (size_t)i < n ? ls_bf16_to_f32(from[i]) : 0.0f);
}
/* Stores the first n lanes, rounded to bf16. */
LSK_INLINE void v16_store_bf16_n(uint16_t *to, v16 x, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = ls_bf16_from_f32(x.lane[i]);
}
/* Stores all lanes, rounded to bf16, to nearest even. */
LSK_INLINE void v16_store_bf16(uint16_t *to, v16 x) { v16_store_bf16_n(to, x, 16); }
/* Loads 16 fp16 numbers as fp32; every NaN becomes the one NaN. */
LSK_INLINE v16 v16_load_f16(const uint16_t *from) { LSK_LANES(v16, ls_f16_to_f32(from[i])); }
/* Loads n fp16 numbers as fp32; the other lanes are +0. */
LSK_INLINE v16 v16_load_f16_n(const uint16_t *from, size_t n) {
    LSK_LANES(v16, (size_t)i < n ? ls_f16_to_f32(from[i]) : 0.0f);
}
/* Stores the first n lanes, rounded to fp16. */
LSK_INLINE void v16_store_f16_n(uint16_t *to, v16 x, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = ls_f16_from_f32(x.lane[i]);
}
/* Stores all lanes, rounded to fp16, to nearest even. */
LSK_INLINE void v16_store_f16(uint16_t *to, v16 x) { v16_store_f16_n(to, x, 16); }
/* Loads 16 bf16 numbers as fp32; a NaN may keep its payload. */
LSK_INLINE v16 v16_widen_bf16(const uint16_t *from) { return v16_load_bf16(from); }
/* Loads 16 fp16 numbers as fp32; a NaN may keep its payload. */
LSK_INLINE v16 v16_widen_f16(const uint16_t *from) { return v16_load_f16(from); }

/* ---- doubles ----------------------------------------------------------------------------------------------------- */

LSK_INLINE v16d v16d_set1(double x) { LSK_LANES(v16d, x); }
LSK_INLINE v16d v16d_widen(v16 a) { LSK_LANES(v16d, (double)a.lane[i]); }
LSK_INLINE v16 v16d_narrow(v16d a) { LSK_LANES(v16, (float)a.lane[i]); }
LSK_INLINE v16d v16d_add(v16d a, v16d b) { LSK_LANES(v16d, a.lane[i] + b.lane[i]); }
LSK_INLINE v16d v16d_sub(v16d a, v16d b) { LSK_LANES(v16d, a.lane[i] - b.lane[i]); }
LSK_INLINE v16d v16d_mul(v16d a, v16d b) { LSK_LANES(v16d, a.lane[i] * b.lane[i]); }
LSK_INLINE v16d v16d_div(v16d a, v16d b) { LSK_LANES(v16d, a.lane[i] / b.lane[i]); }
LSK_INLINE v16d v16d_fma(v16d a, v16d b, v16d c) { LSK_LANES(v16d, fma(a.lane[i], b.lane[i], c.lane[i])); }
/* Returns the sum of all lanes: lane j += lane j+8, then +4, +2, +1. */
LSK_INLINE double v16d_sum(v16d x) {
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++) x.lane[i] += x.lane[i + half];
    return x.lane[0];
}

#endif
