/* pack_unit.c: packing for matrix units: 16-bit numbers as they are, in groups of 2, 4, 16 (tensor cores) or 32
 * neighbours in k, with +0 where K is padded (k.h) and where the last panel has no line.
 *
 *     panel[group of k][line][k inside the group] */
#include <stdint.h>
#include <string.h>

#include "device/cpu/gemm/four_floats.h"
#include "device/cpu/gemm/pack.h"

typedef uint16_t half8 __attribute__((vector_size(16)));
typedef uint16_t half4 __attribute__((vector_size(8)));
typedef uint64_t long2 __attribute__((vector_size(16)));

/* Where to pack: a place in a panel of `width` lines, in groups of `group` values of k. */
typedef struct part {
    uint16_t *to;
    size_t width, group;
} part;

static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }

/* Packs groups of four, 64 bits that move together, of two lines at a time. */
static void along_fours(part p, const uint16_t *from, size_t ld, size_t lines, size_t groups) {
    size_t row = 4 * p.width, l = 0;
    for (; l + 2 <= lines; l += 2) {
        const uint16_t *x = from + l * ld, *y = x + ld;
        uint16_t *to = p.to + 4 * l;
        size_t g = 0;
        for (; g + 2 <= groups; g += 2, x += 8, y += 8, to += 2 * row) {
            long2 a, b;
            memcpy(&a, x, sizeof a);
            memcpy(&b, y, sizeof b);
            long2 first = __builtin_shufflevector(a, b, 0, 2), second = __builtin_shufflevector(a, b, 1, 3);
            memcpy(to, &first, sizeof first);
            memcpy(to + row, &second, sizeof second);
        }
        if (g == groups) continue;
        memcpy(to, x, 8);
        memcpy(to + 4, y, 8);
    }
    for (; l < lines; l++)
        for (size_t g = 0; g < groups; g++) memcpy(p.to + g * row + 4 * l, from + l * ld + 4 * g, 8);
}

/* Packs four lines along k in pairs, transposed. */
static void four_lines_of_pairs(part p, const uint16_t *from, size_t ld, size_t pairs) {
    size_t row = 2 * p.width, g = 0;
    for (const uint16_t *x = from; g + 4 <= pairs; g += 4, x += 8) /* a pair moves as a float */
        transpose4((float *)(void *)(p.to + g * row), p.width, load4(x), load4(x + ld), load4(x + 2 * ld),
                   load4(x + 3 * ld));
    for (; g < pairs; g++)
        for (size_t l = 0; l < 4; l++) memcpy(p.to + g * row + 2 * l, from + l * ld + 2 * g, 4);
}

/* Packs lines along k in groups of two, which move as one fp32: by the ISA's transpose if lines begin at whole
 * pairs. */
static void along_pairs(const ls_gemm_kernels *kernels, part p, const uint16_t *from, size_t ld, size_t lines,
                        size_t pairs) {
    for (size_t l = 0; l < lines;) {
        part to = {p.to + 2 * l, p.width, 2};
        const uint16_t *x = from + l * ld;
        size_t done = 0;
        if (kernels->transpose && ld % 2 == 0)
            done = kernels->transpose((float *)(void *)to.to, p.width, x, LS_F32, ld / 2, lines - l, pairs);
        if (done == 0 && lines - l >= 4) {
            four_lines_of_pairs(to, x, ld, pairs);
            done = 4;
        }
        if (done == 0) {
            for (size_t g = 0; g < pairs; g++) memcpy(to.to + g * 2 * p.width, x + 2 * g, 4);
            done = 1;
        }
        l += done;
    }
}

/* Packs lines along k group by group; for a constant `group` a copy is a move or two. */
static inline __attribute__((always_inline)) void along_lines(part p, const uint16_t *from, size_t ld, size_t lines,
                                                              size_t groups, size_t group) {
    for (size_t l = 0; l < lines; l++)
        for (size_t g = 0; g < groups; g++)
            memcpy(p.to + (g * p.width + l) * group, from + l * ld + g * group, group * sizeof *from);
}

/* Packs `values` values of lines stored along k; values behind the last whole group are packed too, without padding. */
static void along(const ls_gemm_kernels *kernels, part p, ls_gemm_lines from, size_t lines, size_t values) {
    const uint16_t *x = from.at;
    size_t groups = values / p.group, rest = values % p.group;
    if (p.group == 4)
        along_fours(p, x, from.ld, lines, groups);
    else if (p.group == 2)
        along_pairs(kernels, p, x, from.ld, lines, groups);
    else if (p.group == 32)
        along_lines(p, x, from.ld, lines, groups, 32);
    else
        along_lines(p, x, from.ld, lines, groups, p.group);
    for (size_t l = 0; l < lines && rest; l++)
        memcpy(p.to + (groups * p.width + l) * p.group, x + l * from.ld + groups * p.group, rest * sizeof *x);
}

#define LOW8(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH8(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)

/* Loads eight 16-bit values from any address. */
static inline half8 load8(const uint16_t *from) {
    half8 x;
    memcpy(&x, from, sizeof x);
    return x;
}

/* Loads four 16-bit values from any address, twice: the upper half repeats the lower. */
static inline half8 load_four(const uint16_t *from) {
    half4 x;
    memcpy(&x, from, sizeof x);
    return __builtin_shufflevector(x, x, 0, 1, 2, 3, 0, 1, 2, 3);
}

/* Stores eight 16-bit values to any address. */
static inline void store8(uint16_t *to, half8 x) { memcpy(to, &x, sizeof x); }

/* Packs one group of four rows. */
static void across_four(uint16_t *to, const uint16_t *from, size_t ld, size_t lines) {
    size_t l = 0;
    for (; l + 8 <= lines; l += 8) {
        half8 r0 = load8(from + l), r1 = load8(from + ld + l), r2 = load8(from + 2 * ld + l);
        half8 r3 = load8(from + 3 * ld + l);
        half8 even = LOW8(r0, r2), odd = LOW8(r1, r3), even_high = HIGH8(r0, r2), odd_high = HIGH8(r1, r3);
        store8(to + 4 * l, LOW8(even, odd));
        store8(to + 4 * l + 8, HIGH8(even, odd));
        store8(to + 4 * l + 16, LOW8(even_high, odd_high));
        store8(to + 4 * l + 24, HIGH8(even_high, odd_high));
    }
    for (; l + 4 <= lines; l += 4) {
        half8 even = LOW8(load_four(from + l), load_four(from + 2 * ld + l));
        half8 odd = LOW8(load_four(from + ld + l), load_four(from + 3 * ld + l));
        store8(to + 4 * l, LOW8(even, odd));
        store8(to + 4 * l + 8, HIGH8(even, odd));
    }
    for (; l < lines; l++)
        for (size_t q = 0; q < 4; q++) to[4 * l + q] = from[q * ld + l];
}

/* Packs one group of two rows. */
static void across_two(uint16_t *to, const uint16_t *from, size_t ld, size_t lines) {
    size_t l = 0;
    for (; l + 8 <= lines; l += 8) {
        half8 r0 = load8(from + l), r1 = load8(from + ld + l);
        store8(to + 2 * l, LOW8(r0, r1));
        store8(to + 2 * l + 8, HIGH8(r0, r1));
    }
    for (; l < lines; l++)
        for (size_t q = 0; q < 2; q++) to[2 * l + q] = from[q * ld + l];
}

/* Transposes eight rows of eight lines to lines `row` apart, by interleaving rows i and i+4 three times. */
static void turn_eight(uint16_t *to, size_t row, const uint16_t *from, size_t ld) {
    half8 r[8], t[8];
    for (size_t q = 0; q < 8; q++) r[q] = load8(from + q * ld);
    for (int turn = 0; turn < 3; turn++) {
        for (size_t q = 0; q < 4; q++) {
            t[2 * q] = LOW8(r[q], r[q + 4]);
            t[2 * q + 1] = HIGH8(r[q], r[q + 4]);
        }
        memcpy(r, t, sizeof r);
    }
    for (size_t q = 0; q < 8; q++) store8(to + q * row, r[q]);
}

/* Packs one group of rows, or fewer rows than a group has. */
static void across_many(uint16_t *to, size_t group, const uint16_t *from, size_t ld, size_t lines, size_t rows) {
    size_t whole = lines / 8 * 8, q = 0;
    for (; q + 8 <= rows; q += 8)
        for (size_t l = 0; l < whole; l += 8) turn_eight(to + l * group + q, group, from + q * ld + l, ld);
    for (size_t i = 0; i < rows; i++)
        for (size_t l = i < q ? whole : 0; l < lines; l++) to[l * group + i] = from[i * ld + l];
}

/* Packs `values` rows of lines stored across k; the last group may have fewer rows. */
static void across(part p, ls_gemm_lines from, size_t lines, size_t values) {
    const uint16_t *x = from.at;
    for (size_t i = 0; i < values; i += p.group, x += p.group * from.ld) {
        size_t rows = min_size(p.group, values - i);
        uint16_t *to = p.to + i * p.width;
        if (rows == 4 && p.group == 4)
            across_four(to, x, from.ld, lines);
        else if (rows == 2 && p.group == 2)
            across_two(to, x, from.ld, lines);
        else
            across_many(to, p.group, x, from.ld, lines, rows);
    }
}

/* Some k at a time: what is written or read again stays in the first cache. A multiple of every granule. */
enum { K_ALONG = 512, K_ACROSS = 32 };

/* Packs `lines` lines of one panel: `values` values at `positions` positions, of which those without a value become +0,
 * as do lines that the panel lacks. */
static void pack_part(const ls_gemm_kernels *kernels, part p, ls_gemm_lines from, size_t lines, size_t values,
                      size_t positions) {
    size_t whole = values / p.group * p.group;
    if (whole < positions) memset(p.to + whole * p.width, 0, (positions - whole) * p.width * sizeof *p.to);
    if (from.along_k)
        along(kernels, p, from, lines, values);
    else
        across(p, from, lines, values);
    for (size_t i = 0; i < whole && lines < p.width; i += p.group)
        memset(p.to + i * p.width + lines * p.group, 0, (p.width - lines) * p.group * sizeof *p.to);
}

void ls_gemm_pack_unit(const ls_gemm_kernels *kernels, uint16_t *panel, size_t width, size_t group, ls_gemm_lines from,
                       size_t lines, const ls_gemm_k *x, size_t at, size_t n) {
    size_t some = from.along_k ? K_ALONG : K_ACROSS;
    for (size_t i = 0; i < n;) {
        ls_gemm_stretch s = ls_gemm_k_stretch(x, at + i, at + min_size(n, i + some));
        for (size_t l = 0; l < lines; l += width) {
            part p = {panel + l * n + i * width, width, group};
            pack_part(kernels, p, ls_gemm_lines_from(from, l, s.k), min_size(width, lines - l), s.values, s.positions);
        }
        i += s.positions;
    }
}
