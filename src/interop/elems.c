/* elems.c: converts elements of files to fp32 and back. */
#include "interop/elems.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "numerics/float16.h"

bool ls_elems_can(ls_dtype dtype) { return dtype == LS_F32 || dtype == LS_BF16 || dtype == LS_F16; }

/* ---- fp16: 1 bit of sign, 5 of exponent (bias 15), 10 of fraction ------------------------------------------------ */

/* Converts fp16 to fp32, exactly. Every NaN becomes the canonical one (LS_NAN_BITS). */
static float f16_to_f32(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = half >> 10 & 31u, fraction = half & 0x3FFu;
    if (exponent == 31) return ls_f32_from_bits(fraction ? LS_NAN_BITS : sign | 0x7F800000u);
    if (exponent == 0) {
        float value = (float)fraction * 0x1p-24F; /* exact: a subnormal fp16 is a normal fp32 */
        return sign ? -value : value;
    }
    return ls_f32_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

/* Divides by 2^bits; rounds to nearest, ties to even. */
static uint32_t round_off(uint32_t value, int bits) {
    uint32_t half = 1u << (bits - 1), kept = value >> bits, rest = value & ((1u << bits) - 1);
    return kept + (rest > half || (rest == half && (kept & 1u)));
}

/* Rounds to nearest, ties to even; values that are too large become infinite, every NaN 0x7E00. */
static uint16_t f16_from_f32(float value) {
    uint32_t bits = ls_f32_bits(value), sign = bits >> 16 & 0x8000u, size = bits & 0x7FFFFFFFu;
    if (size > 0x7F800000u) return 0x7E00u;
    if (size >= 0x47800000u) return (uint16_t)(sign | 0x7C00u);                            /* 2^16 and above */
    if (size >= 0x38800000u) return (uint16_t)(sign | round_off(size - (112u << 23), 13)); /* 2^−14 and above */
    if (size < 0x33000000u) return (uint16_t)sign;                                         /* below 2^−25 */
    int exponent = (int)(size >> 23);
    return (uint16_t)(sign | round_off((size & 0x7FFFFFu) | 0x800000u, 126 - exponent));
}

/* ---- rows of elements -------------------------------------------------------------------------------------------- */

void ls_elems_to_f32(ls_dtype dtype, const void *raw, size_t elems, float *out) {
    assert(ls_elems_can(dtype));
    const unsigned char *bytes = raw;
    if (dtype == LS_F32) {
        memmove(out, raw, elems * sizeof *out);
        return;
    }
    for (size_t i = 0; i < elems; i++) {
        uint16_t half;
        memcpy(&half, bytes + 2 * i, sizeof half);
        float value = dtype == LS_BF16 ? ls_bf16_to_f32(half) : f16_to_f32(half);
        memcpy(out + i, &value, sizeof value);
    }
}

bool ls_elems_from_f32(ls_dtype dtype, const float *values, size_t elems, void *raw) {
    assert(ls_elems_can(dtype));
    unsigned char *bytes = raw;
    bool fits = true;
    if (dtype == LS_F32) {
        memcpy(raw, values, elems * sizeof *values);
        return true;
    }
    for (size_t i = 0; i < elems; i++) {
        uint16_t half = dtype == LS_BF16 ? ls_bf16_from_f32(values[i]) : f16_from_f32(values[i]);
        uint16_t infinity = dtype == LS_BF16 ? 0x7F80u : 0x7C00u;
        if ((half & 0x7FFFu) == infinity && isfinite(values[i])) fits = false;
        memcpy(bytes + 2 * i, &half, sizeof half);
    }
    return fits;
}
