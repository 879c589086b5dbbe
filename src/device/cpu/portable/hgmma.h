/* hgmma.h: the tensor cores of NVIDIA's GPUs by their formulas (docs/reference/arithmetic.md, "Matrix units"), in whole
 * numbers, so that any CPU has their bits. There are two formulas: "hgmma" here is that of the units hgmma (Hopper) and
 * blackwell, which add 16 products at once, "ampere" that of the units ampere and ada, which add 8. Shared by matmuls
 * (hgmma.c) and attention (attention_hgmma.c).
 *
 * A number is significand · 2^exponent. The unit adds `terms` products, not normalised, and c at once: all are shifted
 * to the largest exponent, where bits behind the `point`th behind the point are cut off; the sum is exact, and cut off
 * to fp32. Sixteen products are worked on together: with ampere, they are two sums of eight, one after the other. */
#ifndef LS_DEVICE_CPU_PORTABLE_HGMMA_H
#define LS_DEVICE_CPU_PORTABLE_HGMMA_H

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { TILE = 8, GRANULE = 16 }; /* TILE: rows and columns that are taken apart together; GRANULE: products */

/* Of a number that is zero: below every sum of two exponents, so that it has no say in the largest. */
enum { NO_EXPONENT = -4096 };

/* A 16-bit type in a unit: bits of its fraction, its bias, and the exponent that stands for infinity and NaN; products
 * that the unit adds at once (8 or 16), and the bits behind the point that it keeps. */
typedef struct format {
    int fraction, bias, special;
    int terms, point;
} format;
static const format format_bf16 = {7, 127, 255, 16, 25}, format_f16 = {10, 15, 31, 16, 25},
                    ampere_bf16 = {7, 127, 255, 8, 24}, ampere_f16 = {10, 15, 31, 8, 24};

typedef int32_t ints __attribute__((vector_size(4 * GRANULE)));

/* A granule of one row of A or column of B. */
typedef struct line {
    ints size; /* the significand without its sign */
    ints sign; /* 0 or −1 */
    ints exponent;
    int is_special[2]; /* an infinity or NaN among the first eight, and among the others */
} line;

/* Lanes j and j + 8 where all sixteen are one sum, then + 4, + 2, + 1. */
#define FOLD(x, combine, terms)                                                                                        \
    do {                                                                                                               \
        if ((terms) == GRANULE)                                                                                        \
            combine(x, __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));           \
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

/* Takes sixteen numbers apart. */
static inline __attribute__((always_inline)) void take_line(line *to, const uint16_t *from, format f) {
    int32_t special[2] = {0, 0};
    for (int i = 0; i < GRANULE; i++) {
        int32_t x = from[i], e = x >> f.fraction & f.special, fraction = x & ((1 << f.fraction) - 1);
        int32_t size = e ? fraction | 1 << f.fraction : fraction;
        to->size[i] = size;
        to->sign[i] = -(x >> 15);
        to->exponent[i] = size == 0 ? NO_EXPONENT : (e ? e : 1) - f.bias;
        special[i / 8] |= e == f.special;
    }
    memcpy(to->is_special, special, sizeof special);
}

/* Returns a sum with infinities or NaN among the products from `first` on or in c: their order does not matter. */
static inline float add_special(const line *a, const line *b, format f, int first, float c) {
    double sum = (double)c;
    for (int i = first; i < first + f.terms; i++) {
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

/* Returns sum · 2^(exponent − point), truncated to fp32; every zero is +0. */
static inline float to_float(int64_t sum, int32_t exponent, int point) {
    uint64_t size = sum < 0 ? (uint64_t)-sum : (uint64_t)sum;
    uint32_t bits = 0;
    if (size == 0) return 0.0f;
    int top = 63 - __builtin_clzll(size), lead = exponent - point + top;
    if (lead > 127) {
        bits = 0x7F800000u;
    } else if (lead >= -126) {
        uint64_t significand = top > 23 ? size >> (top - 23) : size << (23 - top);
        bits = (uint32_t)(lead + 127) << 23 | ((uint32_t)significand & 0x7FFFFF);
    } else {
        int shift = exponent - point + 149; /* to units of 2^−149 */
        bits = (uint32_t)(shift >= 0 ? size << shift : shift > -64 ? size >> -shift : 0);
    }
    if (sum < 0 && bits) bits |= 0x80000000u;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Returns whether an infinity or NaN is among the `terms` numbers from `first` on. */
static inline __attribute__((always_inline)) int has_special(const line *x, int first, int terms) {
    return terms == GRANULE ? x->is_special[0] | x->is_special[1] : x->is_special[first / 8];
}

/* Returns one sum of the unit: of c and the products from `first` on. `exponents` are those of all sixteen products,
 * `most` the largest among those of this sum. */
static inline __attribute__((always_inline)) float add_terms(const line *a, const line *b, format f, int first,
                                                             const ints *exponents, int32_t most, float c) {
    uint32_t bits;
    memcpy(&bits, &c, sizeof bits);
    int32_t e = (int32_t)(bits >> 23 & 255), c_size = (int32_t)(bits & 0x7FFFFF) | (e ? 1 << 23 : 0);
    if (has_special(a, first, f.terms) | has_special(b, first, f.terms) | (e == 255))
        return add_special(a, b, f, first, c);
    int32_t c_exponent = c_size == 0 ? NO_EXPONENT : (e ? e : 1) - 127;
    most = c_exponent > most ? c_exponent : most;
    ints down = most - *exponents, sign = a->sign ^ b->sign, is_near = down < 31;
    down = (down & is_near) | (31 & ~is_near);
    ints terms = a->size * b->size << (f.point - 2 * f.fraction) >> down;
    terms = (terms ^ sign) - sign; /* below 2^27 in size: sixteen fit in 32 bits, as no significand is a whole 2 */
    FOLD(terms, TAKE_SUM, f.terms);
    int32_t c_down = most - c_exponent;
    int64_t sum = c_size << (f.point - 23) >> (c_down < 31 ? c_down : 31);
    if (bits >> 31) sum = -sum;
    return to_float(sum + terms[first], most, f.point);
}

/* Returns c and the sixteen products of a and b: one sum, or two after each other. */
static inline __attribute__((always_inline)) float add_granule(const line *a, const line *b, format f, float c) {
    ints exponents = a->exponent + b->exponent, highest = exponents;
    FOLD(highest, TAKE_MOST, f.terms);
    for (int first = 0; first < GRANULE; first += f.terms) c = add_terms(a, b, f, first, &exponents, highest[first], c);
    return c;
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
