/* hgmma.h: the matrix unit of Hopper GPUs by its formula (docs/reference/arithmetic.md, "Matrix units"), in whole
 * numbers, so that any CPU has its bits. Shared by matmuls (hgmma.c) and attention (attention_hgmma.c).
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

typedef int32_t ints __attribute__((vector_size(4 * GRANULE)));

/* A granule of one row of A or column of B. */
typedef struct line {
    ints size; /* the significand without its sign */
    ints sign; /* 0 or −1 */
    ints exponent;
    int is_special; /* an infinity or NaN among them */
} line;

/* Lanes j and j + 8, then + 4, + 2, + 1. */
#define FOLD(x, combine)                                                                                               \
    do {                                                                                                               \
        combine(x, __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));               \
        combine(x, __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));               \
        combine(x, __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));               \
        combine(x, __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));               \
    } while (0)
#define TAKE_SUM(x, other) x += other
#define TAKE_MOST(x, other)                                                                                            \
    do {                                                                                                               \
        ints other_ = other, less_ = x < other_;                                                                       \
        x = (other_ & less_) | (x & ~less_);                                                                           \
    } while (0)

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
    double sum = (double)c;
    for (int i = 0; i < GRANULE; i++) {
        double x[2];
        const line *lines[2] = {a, b};
        for (int j = 0; j < 2; j++) {
            int32_t size = lines[j]->size[i];
            int is_special = lines[j]->exponent[i] == f.special - f.bias;
            double value = !is_special               ? ldexp(size, lines[j]->exponent[i] - f.fraction)
                           : size == 1 << f.fraction ? (double)INFINITY
                                                     : (double)NAN;
            x[j] = lines[j]->sign[i] ? -value : value;
        }
        sum += x[0] * x[1];
    }
    return (float)sum;
}

/* Returns sum · 2^(exponent − POINT), truncated to fp32; every zero is +0. */
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
    ints exponents = a->exponent + b->exponent, highest = exponents;
    FOLD(highest, TAKE_MOST);
    most = highest[0] > most ? highest[0] : most;
    ints down = most - exponents, sign = a->sign ^ b->sign, is_near = down < 31;
    down = (down & is_near) | (31 & ~is_near);
    ints terms = a->size * b->size << (POINT - 2 * f.fraction) >> down;
    terms = (terms ^ sign) - sign; /* below 2^27 in size: sixteen fit in 32 bits, as no significand is a whole 2 */
    FOLD(terms, TAKE_SUM);
    int32_t c_down = most - c_exponent;
    int64_t sum = c_size << (POINT - 23) >> (c_down < 31 ? c_down : 31);
    if (bits >> 31) sum = -sum;
    return to_float(sum + terms[0], most);
}

/* Adds one granule to c[i][j], row i of a with row j of b; ld numbers from one row of c to the next. */
static inline __attribute__((always_inline)) void add_granules(float *c, size_t ld, const uint16_t *a,
                                                               const uint16_t *b, format f) {
    line x[TILE], y[TILE];
    for (int i = 0; i < TILE; i++) take_line(&x[i], a + i * GRANULE, f);
    for (int j = 0; j < TILE; j++) take_line(&y[j], b + j * GRANULE, f);
    for (size_t i = 0; i < TILE; i++)
        for (size_t j = 0; j < TILE; j++) c[i * ld + j] = add_granule(&x[i], &y[j], f, c[i * ld + j]);
}

#endif
