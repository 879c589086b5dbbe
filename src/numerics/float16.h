/* float16.h: conversions of single bf16 and fp16 numbers, held as uint16_t, for portable kernels, tails of
 * vector loops and other code that converts few numbers; the fast ones for arrays are ls_convert_kernels
 * (device/cpu/gemm/gemm.h). Conversions to fp32 are exact, those from it round to nearest even and to infinity beyond
 * the largest number; subnormal numbers are kept; every NaN becomes the one NaN of the format, whose fp32 pattern is
 * LS_NAN_BITS. */
#ifndef LS_NUMERICS_FLOAT16_H
#define LS_NUMERICS_FLOAT16_H

#include <stdint.h>
#include <string.h>

#define LS_NAN_BITS 0x7FC00000u /* the one NaN of results: quiet, positive */

/* Reinterprets a bit pattern as a float; a NaN keeps its bits. */
static inline float ls_f32_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Returns the bit pattern of a float; a NaN keeps its bits. */
static inline uint32_t ls_f32_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Widens a bf16 number; exact. */
static inline float ls_bf16_to_f32(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    return ls_f32_from_bits((bits & 0x7FFFFFFFu) > 0x7F800000u ? LS_NAN_BITS : bits);
}

/* Rounds to bf16, to nearest even. */
static inline uint16_t ls_bf16_from_f32(float value) {
    uint32_t bits = ls_f32_bits(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (uint16_t)(LS_NAN_BITS >> 16);
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

/* Widens an fp16 number; exact, subnormals too. */
static inline float ls_f16_to_f32(uint16_t half) {
    uint32_t sign = (half & 0x8000u) << 16, rest = half & 0x7FFFu;
    if (rest > 0x7C00u) return ls_f32_from_bits(LS_NAN_BITS);
    if (rest == 0x7C00u) return ls_f32_from_bits(sign | 0x7F800000u);
    if (rest >= 0x0400u) return ls_f32_from_bits(sign | ((rest << 13) + (112u << 23)));
    return ls_f32_from_bits(sign | ls_f32_bits((float)rest * 0x1p-24f));
}

/* Rounds to fp16, to nearest even: infinity from 65520 on, subnormals below 2^−14. */
static inline uint16_t ls_f16_from_f32(float value) {
    uint32_t bits = ls_f32_bits(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7FFFFFFFu;
    if (rest > 0x7F800000u) return 0x7E00u;
    if (rest >= 0x477FF000u) return (uint16_t)(sign | 0x7C00u);
    /* A subnormal result: one ulp of 0.5 is the spacing of the subnormals, so the addition rounds. */
    if (rest < 0x38800000u) return (uint16_t)(sign | (ls_f32_bits(ls_f32_from_bits(rest) + 0.5f) - 0x3F000000u));
    return (uint16_t)(sign | ((rest - (112u << 23) + 0x0FFFu + (rest >> 13 & 1u)) >> 13));
}

#endif
