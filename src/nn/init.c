/* init.c: the formulas are in docs/reference/arithmetic.md, "Initial values" and "Rotary embedding". */
#include "nn/param.h"

#include "base/rng.h"
#include "device/cpu/kernels.h"
#include "numerics/elementary.h"

enum { PURPOSE_INIT = 0x494e4954, CHUNK = 1024 };

/* Computes normal numbers first_pair, … in pairs, with the Box–Muller transform. Elements 2j and 2j + 1 share the
 * random numbers 2j (for the radius) and 2j + 1 (for the angle). */
static void fill_normal(ls_rng_key key, size_t first_pair, size_t pairs, float std, float *out) {
    const ls_math_kernels *math = &ls_kernels_get()->math;
    float u[CHUNK], angle[CHUNK], radius[CHUNK], c[CHUNK], s[CHUNK];
    for (size_t i = 0; i < pairs; i++) {
        uint32_t words[4];
        size_t pair = first_pair + i;
        ls_rng_u32x4(key, pair / 2, words);
        const uint32_t *two = words + 2 * (pair % 2);
        u[i] = (float)(2 * (two[0] >> 9) + 1) * 0x1p-24F;
        angle[i] = (float)(two[1] >> 8) * 0x1.921fb6p-22F; /* 2π·2^−24 */
    }
    math->log(radius, u, pairs);
    math->cos(c, angle, pairs);
    math->sin(s, angle, pairs);
    for (size_t i = 0; i < pairs; i++) {
        float r = std * __builtin_sqrtf(-2.0F * radius[i]);
        out[2 * i] = r * c[i];
        out[2 * i + 1] = r * s[i];
    }
}

/* Computes normal initial values of canonical elements first … first + count − 1, which may begin or end in the
 * middle of a pair. */
static void normal(const ls_param *param, uint64_t seed, size_t first, size_t count, float *out) {
    ls_rng_key key = ls_rng_key_make(seed, PURPOSE_INIT, param->number);
    float std = (float)param->init_std, piece[2 * CHUNK];
    for (size_t i = 0; i < count;) {
        size_t at = first + i, skip = at % 2, pairs = (count - i + skip + 1) / 2;
        if (pairs > CHUNK) pairs = CHUNK;
        fill_normal(key, at / 2, pairs, std, piece);
        for (size_t j = skip; j < 2 * pairs && i < count; j++) out[i++] = piece[j];
    }
}

void ls_init_param(const ls_param *param, uint64_t seed, size_t first, size_t count, float *out) {
    if (param->init == LS_INIT_NORMAL) {
        normal(param, seed, first, count, out);
        return;
    }
    for (size_t i = 0; i < count; i++) out[i] = param->init == LS_INIT_ONES ? 1.0F : 0.0F;
}

/* Scales a frequency as Llama 3.1 does: divides those of long waves, keeps those of short ones, and interpolates
 * linearly in 1/wave length between. */
static double scaled_frequency(const ls_rope_shape *rope, double frequency) {
    double wave = 0x1.921fb54442d18p+2 / frequency, original = (double)rope->original_T;
    if (wave < original / rope->high_factor) return frequency;
    if (wave > original / rope->low_factor) return frequency / rope->factor;
    double share = (original / wave - rope->low_factor) / (rope->high_factor - rope->low_factor);
    return (1 - share) * (frequency / rope->factor) + share * frequency;
}

void ls_init_rope(const ls_shape *shape, size_t layer, size_t T, float *cos, float *sin) {
    ls_rope_shape rope = ls_layer(shape, layer).rope;
    size_t columns = ls_shape_rotated(shape), half = columns / 2;
    for (size_t i = 0; i < half; i++) {
        double frequency = 1 / ls_pow_f64(rope.base, 2 * (double)i / (double)columns);
        if (rope.scaled) frequency = scaled_frequency(&rope, frequency);
        for (size_t t = 0; t < T; t++) {
            double angle = (double)t * frequency;
            cos[t * half + i] = (float)ls_cos_f64(angle);
            sin[t * half + i] = (float)ls_sin_f64(angle);
        }
    }
}
