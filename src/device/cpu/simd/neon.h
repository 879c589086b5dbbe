/* neon.h: sixteen lanes as four NEON registers (ARM64). v16 holds floats, v16i int32, v16m a mask of
 * lanes, v16d doubles; portable.h says what each name does, with the same bits on every ISA.
 *
 * Members have names, and nothing loops over them, so that the compiler keeps a v16 in registers. */
#ifndef LS_DEVICE_CPU_SIMD_NEON_H
#define LS_DEVICE_CPU_SIMD_NEON_H
#ifdef __aarch64__

#    include <arm_neon.h>
#    include <stddef.h>
#    include <stdint.h>
#    include <string.h>

#    define LSK_SIMD "neon"
#    define LSK_INLINE static inline __attribute__((always_inline))

typedef struct v16 {
    float32x4_t q0, q1, q2, q3;
} v16;
typedef struct v16i {
    int32x4_t q0, q1, q2, q3;
} v16i;
typedef struct v16m {
    uint32x4_t q0, q1, q2, q3;
} v16m;
typedef struct v16d {
    float64x2_t p0, p1, p2, p3, p4, p5, p6, p7;
} v16d;

#    define LSK_MAP1(type, f, a)                                                                                       \
        (type) { f((a).q0), f((a).q1), f((a).q2), f((a).q3) }
#    define LSK_MAP2(type, f, a, b)                                                                                    \
        (type) { f((a).q0, (b).q0), f((a).q1, (b).q1), f((a).q2, (b).q2), f((a).q3, (b).q3) }
#    define LSK_MAP3(type, f, a, b, c)                                                                                 \
        (type) {                                                                                                       \
            f((a).q0, (b).q0, (c).q0), f((a).q1, (b).q1, (c).q1), f((a).q2, (b).q2, (c).q2), f((a).q3, (b).q3, (c).q3) \
        }

/* ---- loads and stores -------------------------------------------------------------------------------------------- */

LSK_INLINE v16 v16_set1(float x) {
    float32x4_t q = vdupq_n_f32(x);
    return (v16){q, q, q, q};
}
LSK_INLINE v16 v16_load(const float *from) {
    return (v16){vld1q_f32(from), vld1q_f32(from + 4), vld1q_f32(from + 8), vld1q_f32(from + 12)};
}
LSK_INLINE void v16_store(float *to, v16 x) {
    vst1q_f32(to, x.q0);
    vst1q_f32(to + 4, x.q1);
    vst1q_f32(to + 8, x.q2);
    vst1q_f32(to + 12, x.q3);
}
/* Returns lane 0. */
LSK_INLINE float v16_first(v16 x) { return vgetq_lane_f32(x.q0, 0); }

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

#    define LSK_FMA(a, b, c) vfmaq_f32(c, a, b)
#    define LSK_FNMA(a, b, c) vfmsq_f32(c, a, b)

LSK_INLINE v16 v16_add(v16 a, v16 b) { return LSK_MAP2(v16, vaddq_f32, a, b); }
LSK_INLINE v16 v16_sub(v16 a, v16 b) { return LSK_MAP2(v16, vsubq_f32, a, b); }
LSK_INLINE v16 v16_mul(v16 a, v16 b) { return LSK_MAP2(v16, vmulq_f32, a, b); }
LSK_INLINE v16 v16_div(v16 a, v16 b) { return LSK_MAP2(v16, vdivq_f32, a, b); }
LSK_INLINE v16 v16_fma(v16 a, v16 b, v16 c) { return LSK_MAP3(v16, LSK_FMA, a, b, c); }
/* Returns -(a*b) + c, rounded once. */
LSK_INLINE v16 v16_fnma(v16 a, v16 b, v16 c) { return LSK_MAP3(v16, LSK_FNMA, a, b, c); }
LSK_INLINE v16 v16_sqrt(v16 a) { return LSK_MAP1(v16, vsqrtq_f32, a); }
LSK_INLINE v16 v16_neg(v16 a) { return LSK_MAP1(v16, vnegq_f32, a); }
LSK_INLINE v16 v16_abs(v16 a) { return LSK_MAP1(v16, vabsq_f32, a); }

/* Returns the maximum; NaN wins, +0 > -0. FMAX does so, but keeps the payload of a NaN. */
LSK_INLINE float32x4_t lsk_max(float32x4_t a, float32x4_t b) {
    float32x4_t r = vmaxq_f32(a, b);
    return vbslq_f32(vceqq_f32(r, r), r, vreinterpretq_f32_u32(vdupq_n_u32(0x7FC00000u)));
}
/* Returns the larger of each lane; NaN wins, +0 > -0. */
LSK_INLINE v16 v16_max(v16 a, v16 b) { return LSK_MAP2(v16, lsk_max, a, b); }

/* Returns the sum of all lanes in the order of sum16: lane j += lane j+8, then +4, +2, +1. */
LSK_INLINE float v16_sum(v16 x) {
    float32x4_t four = vaddq_f32(vaddq_f32(x.q0, x.q2), vaddq_f32(x.q1, x.q3));
    float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
/* Returns the maximum of all lanes; NaN wins. */
LSK_INLINE float v16_hmax(v16 x) {
    float32x4_t four = vmaxq_f32(vmaxq_f32(x.q0, x.q2), vmaxq_f32(x.q1, x.q3));
    four = vmaxq_f32(four, vextq_f32(four, four, 2));
    return vgetq_lane_f32(lsk_max(four, vextq_f32(four, four, 1)), 0);
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

LSK_INLINE v16m v16_lt(v16 a, v16 b) { return LSK_MAP2(v16m, vcltq_f32, a, b); }
LSK_INLINE v16m v16_le(v16 a, v16 b) { return LSK_MAP2(v16m, vcleq_f32, a, b); }
LSK_INLINE v16m v16_gt(v16 a, v16 b) { return LSK_MAP2(v16m, vcgtq_f32, a, b); }
LSK_INLINE v16m v16_eq(v16 a, v16 b) { return LSK_MAP2(v16m, vceqq_f32, a, b); }
LSK_INLINE v16m v16m_and(v16m a, v16m b) { return LSK_MAP2(v16m, vandq_u32, a, b); }
LSK_INLINE v16m v16m_or(v16m a, v16m b) { return LSK_MAP2(v16m, vorrq_u32, a, b); }
LSK_INLINE v16m v16m_not(v16m a) { return LSK_MAP1(v16m, vmvnq_u32, a); }
LSK_INLINE v16m v16_isnan(v16 a) { return v16m_not(v16_eq(a, a)); }
/* Returns whether a lane of the mask is set. */
LSK_INLINE int v16m_any(v16m a) { return vmaxvq_u32(vorrq_u32(vorrq_u32(a.q0, a.q1), vorrq_u32(a.q2, a.q3))) != 0; }
/* Returns `yes` in the lanes of the mask, `no` in the others. */
LSK_INLINE v16 v16_select(v16m m, v16 yes, v16 no) { return LSK_MAP3(v16, vbslq_f32, m, yes, no); }

/* ---- integers ---------------------------------------------------------------------------------------------------- */

/* Unsigned inside, because the compiler's own header adds with +, which must not overflow in signed numbers. */
#    define LSK_IADD(a, b) vreinterpretq_s32_u32(vaddq_u32(vreinterpretq_u32_s32(a), vreinterpretq_u32_s32(b)))
#    define LSK_ISUB(a, b) vreinterpretq_s32_u32(vsubq_u32(vreinterpretq_u32_s32(a), vreinterpretq_u32_s32(b)))
#    define LSK_SHL(a) vreinterpretq_s32_u32(vreinterpretq_u32_s32(a) << n)
#    define LSK_SHR(a) vreinterpretq_s32_u32(vreinterpretq_u32_s32(a) >> n)
#    define LSK_SAR(a) ((a) >> n)

LSK_INLINE v16i v16i_set1(int32_t x) {
    int32x4_t q = vdupq_n_s32(x);
    return (v16i){q, q, q, q};
}
/* v16_bits() returns the bit patterns of floats, v16_from_bits() the floats with these bit patterns. */
LSK_INLINE v16i v16_bits(v16 a) { return LSK_MAP1(v16i, vreinterpretq_s32_f32, a); }
LSK_INLINE v16 v16_from_bits(v16i a) { return LSK_MAP1(v16, vreinterpretq_f32_s32, a); }
LSK_INLINE v16i v16i_add(v16i a, v16i b) { return LSK_MAP2(v16i, LSK_IADD, a, b); }
LSK_INLINE v16i v16i_sub(v16i a, v16i b) { return LSK_MAP2(v16i, LSK_ISUB, a, b); }
LSK_INLINE v16i v16i_and(v16i a, v16i b) { return LSK_MAP2(v16i, vandq_s32, a, b); }
LSK_INLINE v16i v16i_or(v16i a, v16i b) { return LSK_MAP2(v16i, vorrq_s32, a, b); }
LSK_INLINE v16i v16i_xor(v16i a, v16i b) { return LSK_MAP2(v16i, veorq_s32, a, b); }
LSK_INLINE v16i v16i_shl(v16i a, int n) { return LSK_MAP1(v16i, LSK_SHL, a); }
LSK_INLINE v16i v16i_shr(v16i a, int n) { return LSK_MAP1(v16i, LSK_SHR, a); }
LSK_INLINE v16i v16i_sar(v16i a, int n) { return LSK_MAP1(v16i, LSK_SAR, a); }
LSK_INLINE v16m v16i_eq(v16i a, v16i b) { return LSK_MAP2(v16m, vceqq_s32, a, b); }
LSK_INLINE v16m v16i_gt(v16i a, v16i b) { return LSK_MAP2(v16m, vcgtq_s32, a, b); }
LSK_INLINE v16i v16i_select(v16m m, v16i yes, v16i no) { return LSK_MAP3(v16i, vbslq_s32, m, yes, no); }
/* Rounds to nearest even; the numbers must fit an int32. */
LSK_INLINE v16i v16_to_i32(v16 a) { return LSK_MAP1(v16i, vcvtnq_s32_f32, a); }
LSK_INLINE v16 v16_from_i32(v16i a) { return LSK_MAP1(v16, vcvtq_f32_s32, a); }

/* Loads four integers from any address. */
LSK_INLINE int32x4_t lsk_load_bits(const uint32_t *from) { return vreinterpretq_s32_u32(vld1q_u32(from)); }
LSK_INLINE v16i v16i_load(const uint32_t *from) {
    return (v16i){lsk_load_bits(from), lsk_load_bits(from + 4), lsk_load_bits(from + 8), lsk_load_bits(from + 12)};
}
LSK_INLINE void v16i_store(uint32_t *to, v16i x) {
    vst1q_u32(to, vreinterpretq_u32_s32(x.q0));
    vst1q_u32(to + 4, vreinterpretq_u32_s32(x.q1));
    vst1q_u32(to + 8, vreinterpretq_u32_s32(x.q2));
    vst1q_u32(to + 12, vreinterpretq_u32_s32(x.q3));
}
/* Multiplies four unsigned numbers: returns the upper 32 bits, *low gets the lower ones. */
LSK_INLINE int32x4_t lsk_mul_wide(int32x4_t a, int32x4_t b, int32x4_t *low) {
    uint32x4_t x = vreinterpretq_u32_s32(a), y = vreinterpretq_u32_s32(b);
    uint32x4_t first = vreinterpretq_u32_u64(vmull_u32(vget_low_u32(x), vget_low_u32(y)));
    uint32x4_t last = vreinterpretq_u32_u64(vmull_high_u32(x, y));
    *low = vreinterpretq_s32_u32(vuzp1q_u32(first, last));
    return vreinterpretq_s32_u32(vuzp2q_u32(first, last));
}
/* Multiplies unsigned numbers: returns the upper 32 bits, *low gets the lower ones. */
LSK_INLINE v16i v16i_mul_wide(v16i a, v16i b, v16i *low) {
    return (v16i){lsk_mul_wide(a.q0, b.q0, &low->q0), lsk_mul_wide(a.q1, b.q1, &low->q1),
                  lsk_mul_wide(a.q2, b.q2, &low->q2), lsk_mul_wide(a.q3, b.q3, &low->q3)};
}
/* Stores four vectors interleaved: lane 0 of a, b, c and d, then lane 1 of each, and so on. */
LSK_INLINE void lsk_store_mixed(uint32_t *to, int32x4_t a, int32x4_t b, int32x4_t c, int32x4_t d) {
    uint32x4x4_t four = {
        {vreinterpretq_u32_s32(a), vreinterpretq_u32_s32(b), vreinterpretq_u32_s32(c), vreinterpretq_u32_s32(d)}};
    vst4q_u32(to, four);
}
/* Stores 64 numbers, interleaved: a0 b0 c0 d0 a1 b1 c1 d1 and so on. */
LSK_INLINE void v16i_store_mixed(uint32_t *to, v16i a, v16i b, v16i c, v16i d) {
    lsk_store_mixed(to, a.q0, b.q0, c.q0, d.q0);
    lsk_store_mixed(to + 16, a.q1, b.q1, c.q1, d.q1);
    lsk_store_mixed(to + 32, a.q2, b.q2, c.q2, d.q2);
    lsk_store_mixed(to + 48, a.q3, b.q3, c.q3, d.q3);
}

/* ---- 16-bit formats ---------------------------------------------------------------------------------------------- */

/* Replaces every NaN of eight 16-bit numbers, those above `infinity` without their sign, by `nan`; as fp32 they would
 * take twice the registers. */
LSK_INLINE uint16x8_t lsk_one_nan(uint16x8_t half, uint16_t infinity, uint16_t nan) {
    uint16x8_t rest = vandq_u16(half, vdupq_n_u16(0x7FFF));
    return vbslq_u16(vcgtq_u16(rest, vdupq_n_u16(infinity)), vdupq_n_u16(nan), half);
}
/* Rounds eight numbers to bf16: 1 is added if the upper half is odd; the upper half of its sum with 0x7FFF is then the
 * result. NaN is tested before. Uses no shifts, which fewer units execute; BFCVTN with a repaired NaN is no faster. */
LSK_INLINE uint16x8_t lsk_bf16_from_f32(float32x4_t a, float32x4_t b) {
    uint32x4_t x = vreinterpretq_u32_f32(a), y = vreinterpretq_u32_f32(b);
    uint32x4_t half_ulp = vdupq_n_u32(0x7FFF), odd = vdupq_n_u32(0x10000);
    uint32x4_t x_up = vsubq_u32(x, vtstq_u32(x, odd)), y_up = vsubq_u32(y, vtstq_u32(y, odd));
    uint16x8_t rounded = vaddhn_high_u32(vaddhn_u32(x_up, half_ulp), y_up, half_ulp);
    uint16x8_t number = vuzp1q_u16(vreinterpretq_u16_u32(vceqq_f32(a, a)), vreinterpretq_u16_u32(vceqq_f32(b, b)));
    return vbslq_u16(number, rounded, vdupq_n_u16(0x7FC0));
}
/* Rounds eight numbers to fp16. The conversion instructions are IEEE, with subnormals and infinities; only their NaN is
 * replaced. */
LSK_INLINE uint16x8_t lsk_f16_from_f32(float32x4_t a, float32x4_t b) {
    float16x8_t half = vcvt_high_f16_f32(vcvt_f16_f32(a), b);
    return lsk_one_nan(vreinterpretq_u16_f16(half), 0x7C00, 0x7E00);
}

/* Widens 16 bf16 numbers; a NaN keeps its payload. */
LSK_INLINE v16 lsk_f32_from_bf16(uint16x8_t low, uint16x8_t high) {
    uint16x8_t zero = vdupq_n_u16(0);
    return (v16){vreinterpretq_f32_u16(vzip1q_u16(zero, low)), vreinterpretq_f32_u16(vzip2q_u16(zero, low)),
                 vreinterpretq_f32_u16(vzip1q_u16(zero, high)), vreinterpretq_f32_u16(vzip2q_u16(zero, high))};
}
/* Widens 16 fp16 numbers; a NaN keeps its payload. */
LSK_INLINE v16 lsk_f32_from_f16(uint16x8_t a, uint16x8_t b) {
    float16x8_t low = vreinterpretq_f16_u16(a), high = vreinterpretq_f16_u16(b);
    return (v16){vcvt_f32_f16(vget_low_f16(low)), vcvt_high_f32_f16(low), vcvt_f32_f16(vget_low_f16(high)),
                 vcvt_high_f32_f16(high)};
}
/* Loads 16 bf16 numbers as fp32; a NaN may keep its payload. */
LSK_INLINE v16 v16_widen_bf16(const uint16_t *from) { return lsk_f32_from_bf16(vld1q_u16(from), vld1q_u16(from + 8)); }
/* Loads 16 fp16 numbers as fp32; a NaN may keep its payload. */
LSK_INLINE v16 v16_widen_f16(const uint16_t *from) { return lsk_f32_from_f16(vld1q_u16(from), vld1q_u16(from + 8)); }
/* Loads 16 bf16 numbers as fp32; every NaN becomes the one NaN. */
LSK_INLINE v16 v16_load_bf16(const uint16_t *from) {
    return lsk_f32_from_bf16(lsk_one_nan(vld1q_u16(from), 0x7F80, 0x7FC0),
                             lsk_one_nan(vld1q_u16(from + 8), 0x7F80, 0x7FC0));
}
/* Loads 16 fp16 numbers as fp32; every NaN becomes the one NaN. */
LSK_INLINE v16 v16_load_f16(const uint16_t *from) {
    return lsk_f32_from_f16(lsk_one_nan(vld1q_u16(from), 0x7C00, 0x7E00),
                            lsk_one_nan(vld1q_u16(from + 8), 0x7C00, 0x7E00));
}
/* Stores all lanes, rounded to bf16, to nearest even. */
LSK_INLINE void v16_store_bf16(uint16_t *to, v16 x) {
    vst1q_u16(to, lsk_bf16_from_f32(x.q0, x.q1));
    vst1q_u16(to + 8, lsk_bf16_from_f32(x.q2, x.q3));
}
/* Stores all lanes, rounded to fp16, to nearest even. */
LSK_INLINE void v16_store_f16(uint16_t *to, v16 x) {
    vst1q_u16(to, lsk_f16_from_f32(x.q0, x.q1));
    vst1q_u16(to + 8, lsk_f16_from_f32(x.q2, x.q3));
}

#    include "device/cpu/simd/first_n_loops.h"

/* ---- doubles ----------------------------------------------------------------------------------------------------- */

#    define LSK_WIDEN_LOW(q) vcvt_f64_f32(vget_low_f32(q))
#    define LSK_NARROW(low, high) vcvt_high_f32_f64(vcvt_f32_f64(low), high)
#    define LSK_MAP_D(f)                                                                                               \
        (v16d) { f(p0), f(p1), f(p2), f(p3), f(p4), f(p5), f(p6), f(p7) }
#    define LSK_D_ADD(p) vaddq_f64(a.p, b.p)
#    define LSK_D_SUB(p) vsubq_f64(a.p, b.p)
#    define LSK_D_MUL(p) vmulq_f64(a.p, b.p)
#    define LSK_D_DIV(p) vdivq_f64(a.p, b.p)
#    define LSK_D_FMA(p) vfmaq_f64(c.p, a.p, b.p)

LSK_INLINE v16d v16d_set1(double x) {
    float64x2_t p = vdupq_n_f64(x);
    return (v16d){p, p, p, p, p, p, p, p};
}
LSK_INLINE v16d v16d_widen(v16 a) {
    return (v16d){LSK_WIDEN_LOW(a.q0), vcvt_high_f64_f32(a.q0), LSK_WIDEN_LOW(a.q1), vcvt_high_f64_f32(a.q1),
                  LSK_WIDEN_LOW(a.q2), vcvt_high_f64_f32(a.q2), LSK_WIDEN_LOW(a.q3), vcvt_high_f64_f32(a.q3)};
}
LSK_INLINE v16 v16d_narrow(v16d a) {
    return (v16){LSK_NARROW(a.p0, a.p1), LSK_NARROW(a.p2, a.p3), LSK_NARROW(a.p4, a.p5), LSK_NARROW(a.p6, a.p7)};
}
LSK_INLINE v16d v16d_add(v16d a, v16d b) { return LSK_MAP_D(LSK_D_ADD); }
LSK_INLINE v16d v16d_sub(v16d a, v16d b) { return LSK_MAP_D(LSK_D_SUB); }
LSK_INLINE v16d v16d_mul(v16d a, v16d b) { return LSK_MAP_D(LSK_D_MUL); }
LSK_INLINE v16d v16d_div(v16d a, v16d b) { return LSK_MAP_D(LSK_D_DIV); }
LSK_INLINE v16d v16d_fma(v16d a, v16d b, v16d c) { return LSK_MAP_D(LSK_D_FMA); }
/* Returns the sum of all lanes: lane j += lane j+8, then +4, +2, +1. */
LSK_INLINE double v16d_sum(v16d x) {
    float64x2_t a = vaddq_f64(vaddq_f64(x.p0, x.p4), vaddq_f64(x.p2, x.p6));
    float64x2_t b = vaddq_f64(vaddq_f64(x.p1, x.p5), vaddq_f64(x.p3, x.p7));
    float64x2_t two = vaddq_f64(a, b);
    return vgetq_lane_f64(two, 0) + vgetq_lane_f64(two, 1);
}

#endif
#endif
