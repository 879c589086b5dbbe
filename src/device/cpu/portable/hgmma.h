/* hgmma.h: the matrix unit of Hopper GPUs by its formula (docs/arithmetic.md, "Matrix units"), in whole numbers, so that
 * any CPU has its bits. Shared by matmuls (hgmma.c) and attention (attention_hgmma.c).
 *
 * A number is significand · 2^exponent, and 17 of them are added at once: 16 products, not normalised, and c. All are
 * shifted to the largest exponent, where bits behind the 25th behind the point are cut off; the sum is exact. */
#ifndef LS_DEVICE_CPU_PORTABLE_HGMMA_H
#define LS_DEVICE_CPU_PORTABLE_HGMMA_H

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { TILE = 8, GRANULE = 16, POINT = 25 }; /* TILE: rows and columns that are taken apart together */

/* Of a number that is zero: below every sum of two exponents, so that it has no say in the largest. */
enum { NO_EXPONENT = -4096 };

/* A 16-bit type: bits of its fraction, its bias, and the exponent that stands for infinity and NaN. */
typedef struct format {
    int fraction, bias, special;
} format;
static const format format_bf16 = {7, 127, 255}, format_f16 = {10, 15, 31};

/* A granule of one row of A or column of B. */
typedef struct line {
    int32_t size[GRANULE]; /* the significand without its sign */
    int32_t sign[GRANULE]; /* 0 or −1 */
    int32_t exponent[GRANULE];
    int is_special; /* an infinity or NaN among them */
} line;

static inline __attribute__((always_inline)) void take_line(line *to, const uint16_t *from, format f) {
    int32_t special = 0;
    for (int i = 0; i < GRANULE; i++) {
        int32_t x = from[i], e = x >> f.fraction & f.special, fraction = x & ((1 << f.fraction) - 1);
        int32_t size = e ? fraction | 1 << f.fraction : fraction;
        to->size[i] = size;
        to->sign[i] = -(x >> 15);
        to->exponent[i] = size == 0 ? NO_EXPONENT : (e ? e : 1) - f.bias;
        special |= e == f.special;
    }
    to->is_special = special;
}

/* Infinities and NaN: what any order of addition gives. */
static inline float add_special(const line *a, const line *b, format f, float c) {
    double sum = c;
    for (int i = 0; i < GRANULE; i++) {
        double x[2];
        const line *lines[2] = {a, b};
        for (int j = 0; j < 2; j++) {
            int32_t size = lines[j]->size[i];
            int is_special = lines[j]->exponent[i] == f.special - f.bias;
            double value = !is_special ? ldexp(size, lines[j]->exponent[i] - f.fraction)
                           : size == 1 << f.fraction ? (double)INFINITY
                                                     : (double)NAN;
            x[j] = lines[j]->sign[i] ? -value : value;
        }
        sum += x[0] * x[1];
    }
    return (float)sum;
}

/* sum · 2^(exponent − POINT), cut off to fp32; every zero is +0. */
static inline float to_float(int64_t sum, int32_t exponent) {
    uint64_t size = sum < 0 ? (uint64_t)-sum : (uint64_t)sum;
    uint32_t bits = 0;
    if (size == 0) return 0.0f;
    int top = 63 - __builtin_clzll(size), lead = exponent - POINT + top;
    if (lead > 127) {
        bits = 0x7F800000u;
    } else if (lead >= -126) {
        uint64_t significand = top > 23 ? size >> (top - 23) : size << (23 - top);
        bits = (uint32_t)(lead + 127) << 23 | ((uint32_t)significand & 0x7FFFFF);
    } else {
        int shift = exponent - POINT + 149; /* to units of 2^−149 */
        bits = (uint32_t)(shift >= 0 ? size << shift : shift > -64 ? size >> -shift : 0);
    }
    if (sum < 0 && bits) bits |= 0x80000000u;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline __attribute__((always_inline)) float add_granule(const line *a, const line *b, format f, float c) {
    uint32_t bits;
    memcpy(&bits, &c, sizeof bits);
    int32_t e = (int32_t)(bits >> 23 & 255), c_size = (int32_t)(bits & 0x7FFFFF) | (e ? 1 << 23 : 0);
    if (a->is_special | b->is_special | (e == 255)) return add_special(a, b, f, c);
    int32_t c_exponent = c_size == 0 ? NO_EXPONENT : (e ? e : 1) - 127, most = c_exponent;
    int32_t exponents[GRANULE], terms[GRANULE];
    for (int i = 0; i < GRANULE; i++) {
        exponents[i] = a->exponent[i] + b->exponent[i];
        most = exponents[i] > most ? exponents[i] : most;
    }
    for (int i = 0; i < GRANULE; i++) {
        int32_t down = most - exponents[i], sign = a->sign[i] ^ b->sign[i];
        int32_t size = a->size[i] * b->size[i] << (POINT - 2 * f.fraction) >> (down < 31 ? down : 31);
        terms[i] = (size ^ sign) - sign;
    }
    int32_t c_down = most - c_exponent;
    int64_t sum = c_size << (POINT - 23) >> (c_down < 31 ? c_down : 31);
    if (bits >> 31) sum = -sum;
    for (int i = 0; i < GRANULE; i++) sum += terms[i];
    return to_float(sum, most);
}

/* c[i][j] gets one granule more, row i of a with row j of b; ld numbers from one row of c to the next. */
static inline __attribute__((always_inline)) void add_granules(float *c, size_t ld, const uint16_t *a,
                                                               const uint16_t *b, format f) {
    line x[TILE], y[TILE];
    for (int i = 0; i < TILE; i++) take_line(&x[i], a + i * GRANULE, f);
    for (int j = 0; j < TILE; j++) take_line(&y[j], b + j * GRANULE, f);
    for (size_t i = 0; i < TILE; i++)
        for (size_t j = 0; j < TILE; j++) c[i * ld + j] = add_granule(&x[i], &y[j], f, c[i * ld + j]);
}

#endif
