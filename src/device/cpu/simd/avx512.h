/* avx512.h: sixteen lanes as one AVX-512 register (x86-64 with AVX-512 F, BW, DQ and VL). v16 holds floats, v16i int32,
 * v16m a mask of lanes, v16d doubles; portable.h says what each name does, with the same bits on every ISA. */
#ifndef LS_DEVICE_CPU_SIMD_AVX512_H
#define LS_DEVICE_CPU_SIMD_AVX512_H
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)

#    include <immintrin.h>
#    include <stddef.h>
#    include <stdint.h>

#    define LSK_SIMD "avx512"
#    define LSK_INLINE static inline __attribute__((always_inline))

typedef __m512 v16;
typedef __m512i v16i;
typedef __mmask16 v16m;
typedef struct v16d {
    __m512d lo, hi;
} v16d;

/* Returns the mask of the first n lanes. */
LSK_INLINE __mmask16 lsk_first(size_t n) { return (__mmask16)((1u << n) - 1u); }

/* ---- loads and stores -------------------------------------------------------------------------------------------- */

LSK_INLINE v16 v16_set1(float x) { return _mm512_set1_ps(x); }
LSK_INLINE v16 v16_load(const float *from) { return _mm512_loadu_ps(from); }
/* Loads n elements; the other lanes are `fill`. */
LSK_INLINE v16 v16_load_n(const float *from, size_t n, float fill) {
    return _mm512_mask_loadu_ps(_mm512_set1_ps(fill), lsk_first(n), from);
}
LSK_INLINE void v16_store(float *to, v16 x) { _mm512_storeu_ps(to, x); }
/* Stores the first n lanes only. */
LSK_INLINE void v16_store_n(float *to, v16 x, size_t n) { _mm512_mask_storeu_ps(to, lsk_first(n), x); }
/* Returns lane 0. */
LSK_INLINE float v16_first(v16 x) { return _mm512_cvtss_f32(x); }

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

LSK_INLINE v16 v16_add(v16 a, v16 b) { return _mm512_add_ps(a, b); }
LSK_INLINE v16 v16_sub(v16 a, v16 b) { return _mm512_sub_ps(a, b); }
LSK_INLINE v16 v16_mul(v16 a, v16 b) { return _mm512_mul_ps(a, b); }
LSK_INLINE v16 v16_div(v16 a, v16 b) { return _mm512_div_ps(a, b); }
LSK_INLINE v16 v16_fma(v16 a, v16 b, v16 c) { return _mm512_fmadd_ps(a, b, c); }
/* Returns -(a*b) + c, rounded once. */
LSK_INLINE v16 v16_fnma(v16 a, v16 b, v16 c) { return _mm512_fnmadd_ps(a, b, c); }
LSK_INLINE v16 v16_sqrt(v16 a) { return _mm512_sqrt_ps(a); }
LSK_INLINE v16 v16_neg(v16 a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f)); }
LSK_INLINE v16 v16_abs(v16 a) { return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), a); }

/* Returns the one NaN, 0x7FC00000, in every lane. */
LSK_INLINE v16 lsk_nan(void) { return _mm512_castsi512_ps(_mm512_set1_epi32(0x7FC00000)); }
/* Returns the maximum; NaN wins, +0 > -0. For equal numbers `and` keeps the bits, and makes +0 of two zeros unless both
 * are -0. */
LSK_INLINE v16 v16_max(v16 a, v16 b) {
    v16 r = _mm512_mask_and_ps(_mm512_max_ps(a, b), _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ), a, b);
    return _mm512_mask_mov_ps(r, _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q), lsk_nan());
}

/* Returns the sum of all lanes in the order of sum16: lane j += lane j+8, then +4, +2, +1. */
LSK_INLINE float v16_sum(v16 x) {
    __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
/* Returns the maximum of all lanes; NaN wins. */
LSK_INLINE float v16_hmax(v16 x) {
    x = v16_max(x, _mm512_shuffle_f32x4(x, x, 0x4E));
    x = v16_max(x, _mm512_shuffle_f32x4(x, x, 0xB1));
    x = v16_max(x, _mm512_permute_ps(x, 0x4E));
    return _mm512_cvtss_f32(v16_max(x, _mm512_permute_ps(x, 0xB1)));
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

LSK_INLINE v16m v16_lt(v16 a, v16 b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
LSK_INLINE v16m v16_le(v16 a, v16 b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
LSK_INLINE v16m v16_gt(v16 a, v16 b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
LSK_INLINE v16m v16_eq(v16 a, v16 b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
LSK_INLINE v16m v16_isnan(v16 a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
LSK_INLINE v16m v16m_and(v16m a, v16m b) { return (v16m)(a & b); }
LSK_INLINE v16m v16m_or(v16m a, v16m b) { return (v16m)(a | b); }
LSK_INLINE v16m v16m_not(v16m a) { return (v16m)~a; }
/* Returns whether a lane of the mask is set. */
LSK_INLINE int v16m_any(v16m a) { return a != 0; }
/* Returns `yes` in the lanes of the mask, `no` in the others. */
LSK_INLINE v16 v16_select(v16m m, v16 yes, v16 no) { return _mm512_mask_blend_ps(m, no, yes); }

/* ---- integers ---------------------------------------------------------------------------------------------------- */

LSK_INLINE v16i v16i_set1(int32_t x) { return _mm512_set1_epi32(x); }
/* v16_bits() returns the bit patterns of floats, v16_from_bits() the floats with these bit patterns. */
LSK_INLINE v16i v16_bits(v16 a) { return _mm512_castps_si512(a); }
LSK_INLINE v16 v16_from_bits(v16i a) { return _mm512_castsi512_ps(a); }
LSK_INLINE v16i v16i_add(v16i a, v16i b) { return _mm512_add_epi32(a, b); }
LSK_INLINE v16i v16i_sub(v16i a, v16i b) { return _mm512_sub_epi32(a, b); }
LSK_INLINE v16i v16i_and(v16i a, v16i b) { return _mm512_and_si512(a, b); }
LSK_INLINE v16i v16i_or(v16i a, v16i b) { return _mm512_or_si512(a, b); }
LSK_INLINE v16i v16i_xor(v16i a, v16i b) { return _mm512_xor_si512(a, b); }
/* Operators on vectors, because the intrinsics want a literal count. */
LSK_INLINE v16i v16i_shl(v16i a, int n) { return (v16i)((__v16su)a << n); }
LSK_INLINE v16i v16i_shr(v16i a, int n) { return (v16i)((__v16su)a >> n); }
LSK_INLINE v16i v16i_sar(v16i a, int n) { return (v16i)((__v16si)a >> n); }
LSK_INLINE v16m v16i_eq(v16i a, v16i b) { return _mm512_cmpeq_epi32_mask(a, b); }
LSK_INLINE v16m v16i_gt(v16i a, v16i b) { return _mm512_cmpgt_epi32_mask(a, b); }
LSK_INLINE v16i v16i_select(v16m m, v16i yes, v16i no) { return _mm512_mask_blend_epi32(m, no, yes); }
/* Rounds to nearest even; the numbers must fit an int32. */
LSK_INLINE v16i v16_to_i32(v16 a) { return _mm512_cvtps_epi32(a); }
LSK_INLINE v16 v16_from_i32(v16i a) { return _mm512_cvtepi32_ps(a); }

LSK_INLINE v16i v16i_load(const uint32_t *from) { return _mm512_loadu_si512(from); }
LSK_INLINE void v16i_store(uint32_t *to, v16i x) { _mm512_storeu_si512(to, x); }
/* Multiplies unsigned numbers: returns the upper 32 bits, *low gets the lower ones. */
LSK_INLINE v16i v16i_mul_wide(v16i a, v16i b, v16i *low) {
    v16i even = _mm512_mul_epu32(a, b), odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32));
    *low = _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
    return _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
}
/* Stores 64 numbers, interleaved: a0 b0 c0 d0 a1 b1 c1 d1 and so on. */
LSK_INLINE void v16i_store_mixed(uint32_t *to, v16i a, v16i b, v16i c, v16i d) {
    v16i ab_low = _mm512_unpacklo_epi32(a, b), ab_high = _mm512_unpackhi_epi32(a, b);
    v16i cd_low = _mm512_unpacklo_epi32(c, d), cd_high = _mm512_unpackhi_epi32(c, d);
    /* Lanes 0, 4, 8, 12; then 1, 5, 9, 13; and so on. */
    v16i q0 = _mm512_unpacklo_epi64(ab_low, cd_low), q1 = _mm512_unpackhi_epi64(ab_low, cd_low);
    v16i q2 = _mm512_unpacklo_epi64(ab_high, cd_high), q3 = _mm512_unpackhi_epi64(ab_high, cd_high);
    /* Lanes 0, 4, 1, 5; 2, 6, 3, 7; and those 8 further on. */
    v16i t0 = _mm512_shuffle_i32x4(q0, q1, 0x44), t1 = _mm512_shuffle_i32x4(q2, q3, 0x44);
    v16i t2 = _mm512_shuffle_i32x4(q0, q1, 0xEE), t3 = _mm512_shuffle_i32x4(q2, q3, 0xEE);
    _mm512_storeu_si512(to, _mm512_shuffle_i32x4(t0, t1, 0x88));
    _mm512_storeu_si512(to + 16, _mm512_shuffle_i32x4(t0, t1, 0xDD));
    _mm512_storeu_si512(to + 32, _mm512_shuffle_i32x4(t2, t3, 0x88));
    _mm512_storeu_si512(to + 48, _mm512_shuffle_i32x4(t2, t3, 0xDD));
}

/* ---- 16-bit formats ---------------------------------------------------------------------------------------------- */

/* Replaces every NaN by the one NaN. */
LSK_INLINE v16 lsk_one_nan(v16 x) { return _mm512_mask_mov_ps(x, v16_isnan(x), lsk_nan()); }
/* Widens 16 bf16 numbers; a NaN may keep its payload. */
LSK_INLINE v16 lsk_bf16_widen(__m256i half) { return v16_from_bits(v16i_shl(_mm512_cvtepu16_epi32(half), 16)); }
/* Widens 16 bf16 numbers; every NaN becomes the one NaN. */
LSK_INLINE v16 lsk_bf16_to_f32(__m256i half) { return lsk_one_nan(lsk_bf16_widen(half)); }
/* Rounds 16 numbers to bf16, to nearest even. */
LSK_INLINE __m256i lsk_bf16_from_f32(v16 x) {
    v16i bits = v16_bits(x), odd = v16i_and(v16i_shr(bits, 16), v16i_set1(1));
    v16i rounded = v16i_shr(v16i_add(v16i_add(bits, v16i_set1(0x7FFF)), odd), 16);
    return _mm512_cvtepi32_epi16(v16i_select(v16_isnan(x), v16i_set1(0x7FC0), rounded));
}
/* Widens 16 fp16 numbers. The conversion instructions are IEEE, with subnormals and infinities; only their NaN is
 * replaced. */
LSK_INLINE v16 lsk_f16_to_f32(__m256i half) { return lsk_one_nan(_mm512_cvtph_ps(half)); }
/* Rounds 16 numbers to fp16, to nearest even. */
LSK_INLINE __m256i lsk_f16_from_f32(v16 x) {
    __m256i half = _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    return _mm256_mask_mov_epi16(half, v16_isnan(x), _mm256_set1_epi16(0x7E00));
}

/* Loads 16 bf16 numbers as fp32; a NaN may keep its payload. */
LSK_INLINE v16 v16_widen_bf16(const uint16_t *from) {
    return lsk_bf16_widen(_mm256_loadu_si256((const __m256i *)(const void *)from));
}
/* Loads 16 fp16 numbers as fp32; a NaN may keep its payload. */
LSK_INLINE v16 v16_widen_f16(const uint16_t *from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from));
}
/* Loads 16 bf16 numbers as fp32; every NaN becomes the one NaN. */
LSK_INLINE v16 v16_load_bf16(const uint16_t *from) {
    return lsk_bf16_to_f32(_mm256_loadu_si256((const __m256i *)(const void *)from));
}
/* Loads n bf16 numbers as fp32; the other lanes are +0. */
LSK_INLINE v16 v16_load_bf16_n(const uint16_t *from, size_t n) {
    return lsk_bf16_to_f32(_mm256_maskz_loadu_epi16(lsk_first(n), from));
}
/* Stores all lanes, rounded to bf16, to nearest even. */
LSK_INLINE void v16_store_bf16(uint16_t *to, v16 x) {
    _mm256_storeu_si256((__m256i *)(void *)to, lsk_bf16_from_f32(x));
}
/* Stores the first n lanes, rounded to bf16. */
LSK_INLINE void v16_store_bf16_n(uint16_t *to, v16 x, size_t n) {
    _mm256_mask_storeu_epi16(to, lsk_first(n), lsk_bf16_from_f32(x));
}
/* Loads 16 fp16 numbers as fp32; every NaN becomes the one NaN. */
LSK_INLINE v16 v16_load_f16(const uint16_t *from) {
    return lsk_f16_to_f32(_mm256_loadu_si256((const __m256i *)(const void *)from));
}
/* Loads n fp16 numbers as fp32; the other lanes are +0. */
LSK_INLINE v16 v16_load_f16_n(const uint16_t *from, size_t n) {
    return lsk_f16_to_f32(_mm256_maskz_loadu_epi16(lsk_first(n), from));
}
/* Stores all lanes, rounded to fp16, to nearest even. */
LSK_INLINE void v16_store_f16(uint16_t *to, v16 x) { _mm256_storeu_si256((__m256i *)(void *)to, lsk_f16_from_f32(x)); }
/* Stores the first n lanes, rounded to fp16. */
LSK_INLINE void v16_store_f16_n(uint16_t *to, v16 x, size_t n) {
    _mm256_mask_storeu_epi16(to, lsk_first(n), lsk_f16_from_f32(x));
}

/* ---- doubles ----------------------------------------------------------------------------------------------------- */

LSK_INLINE v16d v16d_set1(double x) { return (v16d){_mm512_set1_pd(x), _mm512_set1_pd(x)}; }
LSK_INLINE v16d v16d_widen(v16 a) {
    return (v16d){_mm512_cvtps_pd(_mm512_castps512_ps256(a)), _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1))};
}
LSK_INLINE v16 v16d_narrow(v16d a) {
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(a.lo)), _mm512_cvtpd_ps(a.hi), 1);
}
LSK_INLINE v16d v16d_add(v16d a, v16d b) { return (v16d){_mm512_add_pd(a.lo, b.lo), _mm512_add_pd(a.hi, b.hi)}; }
LSK_INLINE v16d v16d_sub(v16d a, v16d b) { return (v16d){_mm512_sub_pd(a.lo, b.lo), _mm512_sub_pd(a.hi, b.hi)}; }
LSK_INLINE v16d v16d_mul(v16d a, v16d b) { return (v16d){_mm512_mul_pd(a.lo, b.lo), _mm512_mul_pd(a.hi, b.hi)}; }
LSK_INLINE v16d v16d_div(v16d a, v16d b) { return (v16d){_mm512_div_pd(a.lo, b.lo), _mm512_div_pd(a.hi, b.hi)}; }
LSK_INLINE v16d v16d_fma(v16d a, v16d b, v16d c) {
    return (v16d){_mm512_fmadd_pd(a.lo, b.lo, c.lo), _mm512_fmadd_pd(a.hi, b.hi, c.hi)};
}
/* Returns the sum of all lanes: lane j += lane j+8, then +4, +2, +1. */
LSK_INLINE double v16d_sum(v16d x) {
    __m512d eight = _mm512_add_pd(x.lo, x.hi);
    __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd(eight, 1));
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

#endif
#endif
