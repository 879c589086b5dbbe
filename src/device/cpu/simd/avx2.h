/* avx2.h: sixteen lanes as two AVX registers (x86-64 with AVX2 and FMA). v16 holds floats, v16i int32, v16m a mask of
 * lanes, v16d doubles; portable.h says what each name does, with the same bits on every ISA. */
#ifndef LS_DEVICE_CPU_SIMD_AVX2_H
#define LS_DEVICE_CPU_SIMD_AVX2_H
#if defined(__AVX2__) && defined(__FMA__)

#    include <immintrin.h>
#    include <stddef.h>
#    include <stdint.h>

#    define LSK_SIMD "avx2"
#    define LSK_INLINE static inline __attribute__((always_inline))

typedef struct v16 {
    __m256 lo, hi;
} v16;
typedef struct v16i {
    __m256i lo, hi;
} v16i;
typedef struct v16m {
    __m256 lo, hi;
} v16m;
typedef struct v16d {
    __m256d p0, p1, p2, p3;
} v16d;

#    define LSK_MAP1(type, f, a)                                                                                       \
        (type) { f((a).lo), f((a).hi) }
#    define LSK_MAP2(type, f, a, b)                                                                                    \
        (type) { f((a).lo, (b).lo), f((a).hi, (b).hi) }
#    define LSK_MAP3(type, f, a, b, c)                                                                                 \
        (type) { f((a).lo, (b).lo, (c).lo), f((a).hi, (b).hi, (c).hi) }

/* ---- loads and stores -------------------------------------------------------------------------------------------- */

LSK_INLINE v16 v16_set1(float x) {
    __m256 v = _mm256_set1_ps(x);
    return (v16){v, v};
}
LSK_INLINE v16 v16_load(const float *from) { return (v16){_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
LSK_INLINE void v16_store(float *to, v16 x) {
    _mm256_storeu_ps(to, x.lo);
    _mm256_storeu_ps(to + 8, x.hi);
}
/* Returns lane 0. */
LSK_INLINE float v16_first(v16 x) { return _mm256_cvtss_f32(x.lo); }

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

#    define LSK_NEG(a) _mm256_xor_ps(a, _mm256_set1_ps(-0.0f))
#    define LSK_ABS(a) _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a)

LSK_INLINE v16 v16_add(v16 a, v16 b) { return LSK_MAP2(v16, _mm256_add_ps, a, b); }
LSK_INLINE v16 v16_sub(v16 a, v16 b) { return LSK_MAP2(v16, _mm256_sub_ps, a, b); }
LSK_INLINE v16 v16_mul(v16 a, v16 b) { return LSK_MAP2(v16, _mm256_mul_ps, a, b); }
LSK_INLINE v16 v16_div(v16 a, v16 b) { return LSK_MAP2(v16, _mm256_div_ps, a, b); }
LSK_INLINE v16 v16_fma(v16 a, v16 b, v16 c) { return LSK_MAP3(v16, _mm256_fmadd_ps, a, b, c); }
/* Returns -(a*b) + c, rounded once. */
LSK_INLINE v16 v16_fnma(v16 a, v16 b, v16 c) { return LSK_MAP3(v16, _mm256_fnmadd_ps, a, b, c); }
LSK_INLINE v16 v16_sqrt(v16 a) { return LSK_MAP1(v16, _mm256_sqrt_ps, a); }
LSK_INLINE v16 v16_neg(v16 a) { return LSK_MAP1(v16, LSK_NEG, a); }
LSK_INLINE v16 v16_abs(v16 a) { return LSK_MAP1(v16, LSK_ABS, a); }

/* Returns the one NaN, 0x7FC00000, in every lane. */
LSK_INLINE __m256 lsk_nan(void) { return _mm256_castsi256_ps(_mm256_set1_epi32(0x7FC00000)); }
/* Returns the maximum; NaN wins, +0 > -0. Where the operands compare equal, `and` of both gives their value; of +0 and
 * -0 it gives +0. */
LSK_INLINE __m256 lsk_max(__m256 a, __m256 b) {
    __m256 r = _mm256_max_ps(a, b);
    r = _mm256_blendv_ps(r, _mm256_and_ps(a, b), _mm256_cmp_ps(a, b, _CMP_EQ_OQ));
    return _mm256_blendv_ps(r, lsk_nan(), _mm256_cmp_ps(a, b, _CMP_UNORD_Q));
}
/* Returns the larger of each lane; NaN wins, +0 > -0. */
LSK_INLINE v16 v16_max(v16 a, v16 b) { return LSK_MAP2(v16, lsk_max, a, b); }

/* Returns the sum of all lanes in the order of sum16: lane j += lane j+8, then +4, +2, +1. */
LSK_INLINE float v16_sum(v16 x) {
    __m256 eight = _mm256_add_ps(x.lo, x.hi);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
/* Returns the maximum of all lanes; NaN wins. */
LSK_INLINE float v16_hmax(v16 x) {
    __m256 r = lsk_max(x.lo, x.hi);
    r = lsk_max(r, _mm256_permute2f128_ps(r, r, 1));
    r = lsk_max(r, _mm256_permute_ps(r, 0x4E));
    return _mm256_cvtss_f32(lsk_max(r, _mm256_permute_ps(r, 0xB1)));
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

#    define LSK_LT(a, b) _mm256_cmp_ps(a, b, _CMP_LT_OQ)
#    define LSK_LE(a, b) _mm256_cmp_ps(a, b, _CMP_LE_OQ)
#    define LSK_EQ(a, b) _mm256_cmp_ps(a, b, _CMP_EQ_OQ)
#    define LSK_UNORD(a) _mm256_cmp_ps(a, a, _CMP_UNORD_Q)
#    define LSK_NOT(a) _mm256_xor_ps(a, _mm256_castsi256_ps(_mm256_set1_epi32(-1)))
#    define LSK_SELECT(m, yes, no) _mm256_blendv_ps(no, yes, m)

LSK_INLINE v16m v16_lt(v16 a, v16 b) { return LSK_MAP2(v16m, LSK_LT, a, b); }
LSK_INLINE v16m v16_le(v16 a, v16 b) { return LSK_MAP2(v16m, LSK_LE, a, b); }
LSK_INLINE v16m v16_gt(v16 a, v16 b) { return v16_lt(b, a); }
LSK_INLINE v16m v16_eq(v16 a, v16 b) { return LSK_MAP2(v16m, LSK_EQ, a, b); }
LSK_INLINE v16m v16_isnan(v16 a) { return LSK_MAP1(v16m, LSK_UNORD, a); }
LSK_INLINE v16m v16m_and(v16m a, v16m b) { return LSK_MAP2(v16m, _mm256_and_ps, a, b); }
LSK_INLINE v16m v16m_or(v16m a, v16m b) { return LSK_MAP2(v16m, _mm256_or_ps, a, b); }
LSK_INLINE v16m v16m_not(v16m a) { return LSK_MAP1(v16m, LSK_NOT, a); }
/* Returns whether a lane of the mask is set. */
LSK_INLINE int v16m_any(v16m a) { return _mm256_movemask_ps(_mm256_or_ps(a.lo, a.hi)) != 0; }
/* Returns `yes` in the lanes of the mask, `no` in the others. */
LSK_INLINE v16 v16_select(v16m m, v16 yes, v16 no) { return LSK_MAP3(v16, LSK_SELECT, m, yes, no); }

/* ---- integers ---------------------------------------------------------------------------------------------------- */

#    define LSK_SHL(a) _mm256_slli_epi32(a, n)
#    define LSK_SHR(a) _mm256_srli_epi32(a, n)
#    define LSK_SAR(a) _mm256_srai_epi32(a, n)
#    define LSK_IEQ(a, b) _mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b))
#    define LSK_IGT(a, b) _mm256_castsi256_ps(_mm256_cmpgt_epi32(a, b))
#    define LSK_ISELECT(m, yes, no) _mm256_blendv_epi8(no, yes, _mm256_castps_si256(m))

LSK_INLINE v16i v16i_set1(int32_t x) {
    __m256i v = _mm256_set1_epi32(x);
    return (v16i){v, v};
}
/* v16_bits() returns the bit patterns of floats, v16_from_bits() the floats with these bit patterns. */
LSK_INLINE v16i v16_bits(v16 a) { return LSK_MAP1(v16i, _mm256_castps_si256, a); }
LSK_INLINE v16 v16_from_bits(v16i a) { return LSK_MAP1(v16, _mm256_castsi256_ps, a); }
LSK_INLINE v16i v16i_add(v16i a, v16i b) { return LSK_MAP2(v16i, _mm256_add_epi32, a, b); }
LSK_INLINE v16i v16i_sub(v16i a, v16i b) { return LSK_MAP2(v16i, _mm256_sub_epi32, a, b); }
LSK_INLINE v16i v16i_and(v16i a, v16i b) { return LSK_MAP2(v16i, _mm256_and_si256, a, b); }
LSK_INLINE v16i v16i_or(v16i a, v16i b) { return LSK_MAP2(v16i, _mm256_or_si256, a, b); }
LSK_INLINE v16i v16i_xor(v16i a, v16i b) { return LSK_MAP2(v16i, _mm256_xor_si256, a, b); }
LSK_INLINE v16i v16i_shl(v16i a, int n) { return LSK_MAP1(v16i, LSK_SHL, a); }
LSK_INLINE v16i v16i_shr(v16i a, int n) { return LSK_MAP1(v16i, LSK_SHR, a); }
LSK_INLINE v16i v16i_sar(v16i a, int n) { return LSK_MAP1(v16i, LSK_SAR, a); }
LSK_INLINE v16m v16i_eq(v16i a, v16i b) { return LSK_MAP2(v16m, LSK_IEQ, a, b); }
LSK_INLINE v16m v16i_gt(v16i a, v16i b) { return LSK_MAP2(v16m, LSK_IGT, a, b); }
LSK_INLINE v16i v16i_select(v16m m, v16i yes, v16i no) { return LSK_MAP3(v16i, LSK_ISELECT, m, yes, no); }
/* Rounds to nearest even; the numbers must fit an int32. */
LSK_INLINE v16i v16_to_i32(v16 a) { return LSK_MAP1(v16i, _mm256_cvtps_epi32, a); }
LSK_INLINE v16 v16_from_i32(v16i a) { return LSK_MAP1(v16, _mm256_cvtepi32_ps, a); }

/* Loads eight integers from any address. */
LSK_INLINE __m256i lsk_load_bits(const uint32_t *from) {
    return _mm256_loadu_si256((const __m256i *)(const void *)from);
}
LSK_INLINE v16i v16i_load(const uint32_t *from) { return (v16i){lsk_load_bits(from), lsk_load_bits(from + 8)}; }
LSK_INLINE void v16i_store(uint32_t *to, v16i x) {
    __m256i *out = (__m256i *)(void *)to;
    _mm256_storeu_si256(out, x.lo);
    _mm256_storeu_si256(out + 1, x.hi);
}
/* Multiplies eight unsigned numbers: returns the upper 32 bits, *low gets the lower ones. */
LSK_INLINE __m256i lsk_mul_wide(__m256i a, __m256i b, __m256i *low) {
    __m256i even = _mm256_mul_epu32(a, b), odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
    *low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
    return _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
}
/* Multiplies unsigned numbers: returns the upper 32 bits, *low gets the lower ones. */
LSK_INLINE v16i v16i_mul_wide(v16i a, v16i b, v16i *low) {
    return (v16i){lsk_mul_wide(a.lo, b.lo, &low->lo), lsk_mul_wide(a.hi, b.hi, &low->hi)};
}
/* Stores four vectors interleaved: lane 0 of a, b, c and d, then lane 1 of each, and so on. */
LSK_INLINE void lsk_store_mixed(uint32_t *to, __m256i a, __m256i b, __m256i c, __m256i d) {
    __m256i ab_low = _mm256_unpacklo_epi32(a, b), ab_high = _mm256_unpackhi_epi32(a, b);
    __m256i cd_low = _mm256_unpacklo_epi32(c, d), cd_high = _mm256_unpackhi_epi32(c, d);
    /* Lanes 0 and 4, 1 and 5, 2 and 6, 3 and 7. */
    __m256i q0 = _mm256_unpacklo_epi64(ab_low, cd_low), q1 = _mm256_unpackhi_epi64(ab_low, cd_low);
    __m256i q2 = _mm256_unpacklo_epi64(ab_high, cd_high), q3 = _mm256_unpackhi_epi64(ab_high, cd_high);
    __m256i *out = (__m256i *)(void *)to;
    _mm256_storeu_si256(out, _mm256_permute2x128_si256(q0, q1, 0x20));
    _mm256_storeu_si256(out + 1, _mm256_permute2x128_si256(q2, q3, 0x20));
    _mm256_storeu_si256(out + 2, _mm256_permute2x128_si256(q0, q1, 0x31));
    _mm256_storeu_si256(out + 3, _mm256_permute2x128_si256(q2, q3, 0x31));
}
/* Stores 64 numbers, interleaved: a0 b0 c0 d0 a1 b1 c1 d1 and so on. */
LSK_INLINE void v16i_store_mixed(uint32_t *to, v16i a, v16i b, v16i c, v16i d) {
    lsk_store_mixed(to, a.lo, b.lo, c.lo, d.lo);
    lsk_store_mixed(to + 32, a.hi, b.hi, c.hi, d.hi);
}

/* ---- 16-bit formats ---------------------------------------------------------------------------------------------- */

/* Loads 16 numbers of 16 bits as integers. */
LSK_INLINE v16i lsk_load_u16(const uint16_t *from) {
    return (v16i){_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)from)),
                  _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(from + 8)))};
}
/* Stores the lanes, which are below 65536, as 16-bit numbers. The pack works inside 128-bit halves, hence the
 * permutation. */
LSK_INLINE void lsk_store_u16(uint16_t *to, v16i x) {
    __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(x.lo, x.hi), 0xD8);
    _mm256_storeu_si256((__m256i *)(void *)to, packed);
}

/* Loads 16 bf16 numbers as fp32; a NaN may keep its payload. */
LSK_INLINE v16 v16_widen_bf16(const uint16_t *from) { return v16_from_bits(v16i_shl(lsk_load_u16(from), 16)); }
/* Loads 16 bf16 numbers as fp32; every NaN becomes the one NaN. */
LSK_INLINE v16 v16_load_bf16(const uint16_t *from) {
    v16 x = v16_widen_bf16(from);
    return v16_select(v16_isnan(x), (v16){lsk_nan(), lsk_nan()}, x);
}
/* Stores all lanes, rounded to bf16, to nearest even. */
LSK_INLINE void v16_store_bf16(uint16_t *to, v16 x) {
    v16i bits = v16_bits(x), odd = v16i_and(v16i_shr(bits, 16), v16i_set1(1));
    v16i rounded = v16i_shr(v16i_add(v16i_add(bits, v16i_set1(0x7FFF)), odd), 16);
    lsk_store_u16(to, v16i_select(v16_isnan(x), v16i_set1(0x7FC0), rounded));
}
/* Loads 16 fp16 numbers as fp32; every NaN becomes the one NaN. */
LSK_INLINE v16 v16_load_f16(const uint16_t *from) {
    v16i half = lsk_load_u16(from), rest = v16i_and(half, v16i_set1(0x7FFF));
    v16i normal = v16i_add(v16i_shl(rest, 13), v16i_set1(112 << 23));
    v16i small = v16_bits(v16_mul(v16_from_i32(rest), v16_set1(0x1p-24f)));
    v16i bits = v16i_select(v16i_gt(v16i_set1(0x0400), rest), small, normal);
    bits = v16i_select(v16i_gt(rest, v16i_set1(0x7BFF)), v16i_set1(0x7F800000), bits);
    bits = v16i_or(bits, v16i_shl(v16i_and(half, v16i_set1(0x8000)), 16));
    return v16_from_bits(v16i_select(v16i_gt(rest, v16i_set1(0x7C00)), v16i_set1(0x7FC00000), bits));
}
/* Loads 16 fp16 numbers as fp32; a NaN may keep its payload. */
LSK_INLINE v16 v16_widen_f16(const uint16_t *from) { return v16_load_f16(from); }
/* Stores all lanes, rounded to fp16, to nearest even. */
LSK_INLINE void v16_store_f16(uint16_t *to, v16 x) {
    v16i bits = v16_bits(x), rest = v16i_and(bits, v16i_set1(0x7FFFFFFF));
    v16i odd = v16i_and(v16i_shr(rest, 13), v16i_set1(1));
    v16i normal = v16i_shr(v16i_add(v16i_add(rest, v16i_set1(0x0FFF - (112 << 23))), odd), 13);
    /* One ulp of 0.5 is the step of the subnormals, so the addition rounds. */
    v16i small = v16i_sub(v16_bits(v16_add(v16_from_bits(rest), v16_set1(0.5f))), v16i_set1(0x3F000000));
    v16i half = v16i_select(v16i_gt(v16i_set1(0x38800000), rest), small, normal);
    half = v16i_select(v16i_gt(rest, v16i_set1(0x477FEFFF)), v16i_set1(0x7C00), half);
    half = v16i_or(half, v16i_and(v16i_shr(bits, 16), v16i_set1(0x8000)));
    lsk_store_u16(to, v16i_select(v16_isnan(x), v16i_set1(0x7E00), half));
}

#    include "device/cpu/simd/first_n_loops.h"

/* ---- doubles ----------------------------------------------------------------------------------------------------- */

#    define LSK_WIDEN_LOW(a) _mm256_cvtps_pd(_mm256_castps256_ps128(a))
#    define LSK_WIDEN_HIGH(a) _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1))
#    define LSK_NARROW(low, high) _mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low))
#    define LSK_MAP2_D(f, a, b)                                                                                        \
        (v16d) { f((a).p0, (b).p0), f((a).p1, (b).p1), f((a).p2, (b).p2), f((a).p3, (b).p3) }

LSK_INLINE v16d v16d_set1(double x) {
    __m256d p = _mm256_set1_pd(x);
    return (v16d){p, p, p, p};
}
LSK_INLINE v16d v16d_widen(v16 a) {
    return (v16d){LSK_WIDEN_LOW(a.lo), LSK_WIDEN_HIGH(a.lo), LSK_WIDEN_LOW(a.hi), LSK_WIDEN_HIGH(a.hi)};
}
LSK_INLINE v16 v16d_narrow(v16d a) { return (v16){LSK_NARROW(a.p0, a.p1), LSK_NARROW(a.p2, a.p3)}; }
LSK_INLINE v16d v16d_add(v16d a, v16d b) { return LSK_MAP2_D(_mm256_add_pd, a, b); }
LSK_INLINE v16d v16d_sub(v16d a, v16d b) { return LSK_MAP2_D(_mm256_sub_pd, a, b); }
LSK_INLINE v16d v16d_mul(v16d a, v16d b) { return LSK_MAP2_D(_mm256_mul_pd, a, b); }
LSK_INLINE v16d v16d_div(v16d a, v16d b) { return LSK_MAP2_D(_mm256_div_pd, a, b); }
LSK_INLINE v16d v16d_fma(v16d a, v16d b, v16d c) {
    return (v16d){_mm256_fmadd_pd(a.p0, b.p0, c.p0), _mm256_fmadd_pd(a.p1, b.p1, c.p1),
                  _mm256_fmadd_pd(a.p2, b.p2, c.p2), _mm256_fmadd_pd(a.p3, b.p3, c.p3)};
}
/* Returns the sum of all lanes: lane j += lane j+8, then +4, +2, +1. */
LSK_INLINE double v16d_sum(v16d x) {
    __m256d four = _mm256_add_pd(_mm256_add_pd(x.p0, x.p2), _mm256_add_pd(x.p1, x.p3));
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

#endif
#endif
