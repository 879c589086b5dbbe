/* layers.h: what the tests of the layers' kernels share: arrays with guard areas and gaps, cuts as threads make them,
 * and every ISA that this CPU has. */
#ifndef LS_TESTS_LAYERS_H
#define LS_TESTS_LAYERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "base/rng.h"
#include "contract.h"
#include "device/cpu/kernels.h"

/* check(&kernels of the family), for every ISA that this CPU has. */
#define CHECK_EVERY_ISA(family, check)                                                                                 \
    for (int id = 0; id < LS_ISA_COUNT; id++)                                                                          \
        if (ls_cpu_use((ls_isa)id)) {                                                                                  \
            ls_kernels kernels_of_isa;                                                                                 \
            ls_kernels_fill(&kernels_of_isa, 1u << id);                                                                \
            print_message(#family ": %s\n", kernels_of_isa.isa);                                                       \
            check(&kernels_of_isa.family);                                                                             \
        }

static const size_t sizes[] = {1, 2, 3, 15, 16, 17, 31, 33, 64, 100, 257, 768};
enum { N_SIZES = sizeof sizes / sizeof *sizes };
/* Threads, as the work is cut among them. */
static const size_t parts[] = {1, 2, 3, 7};
enum { N_PARTS = sizeof parts / sizeof *parts, MOST_PARTS = 7 };

/* PLAIN: −4 … 4. WILD: any bits, with zeros, subnormals, infinities and NaN among them. */
typedef enum kind { PLAIN, WILD } kind;

static inline float random_float(ls_rng_key key, uint64_t index, kind of) {
    uint32_t bits = ls_rng_u32(key, index);
    float x;
    if (of == PLAIN) return ((float)(bits >> 8) * 0x1p-24f - 0.5f) * 8.0f;
    if (index % 11 == 3) bits &= 0x807FFFFFu;
    if (index % 13 == 5) bits &= 0x80000000u;
    /* Most within the range where functions do something. */
    if (index % 3 != 0) bits = (bits & 0x81FFFFFFu) | 0x3E000000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* rows × C, a gap behind each row and a guard area at both ends; all of it random. Starts at an odd element. */
typedef struct grid {
    float *memory, *at;
    size_t rows, C, stride, elems;
} grid;

enum { GUARD = 19 };

static inline grid grid_make(size_t rows, size_t C, size_t gap, uint32_t purpose, kind of) {
    grid g = {.rows = rows, .C = C, .stride = C + gap, .elems = rows * (C + gap) + 2 * GUARD};
    g.memory = malloc(g.elems * sizeof *g.memory);
    assert_non_null(g.memory);
    g.at = g.memory + GUARD;
    ls_rng_key key = ls_rng_key_make(7, purpose, rows * 4096 + C);
    for (size_t i = 0; i < g.elems; i++) g.memory[i] = random_float(key, i, of);
    return g;
}

static inline grid grid_copy(const grid *from) {
    grid g = *from;
    g.memory = malloc(g.elems * sizeof *g.memory);
    assert_non_null(g.memory);
    memcpy(g.memory, from->memory, g.elems * sizeof *g.memory);
    g.at = g.memory + GUARD;
    return g;
}

static inline void grid_set(grid *to, const grid *from) {
    assert_true(to->elems == from->elems);
    memcpy(to->memory, from->memory, to->elems * sizeof *to->memory);
}

static inline void grid_free(grid *g) { free(g->memory); }

static inline float *row_of(const grid *g, size_t r) { return g->at + r * g->stride; }

static inline uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The payload of a NaN is not part of the contract. */
static inline int same_bits(float a, float b) { return bits_of(a) == bits_of(b) || (isnan(a) && isnan(b)); }

static inline void check_same(const float *got, const float *expected, size_t n, const char *what) {
    for (size_t i = 0; i < n; i++)
        if (!same_bits(got[i], expected[i]))
            fail_msg("%s: element %zu of %zu is %a, should be %a", what, i, n, (double)got[i], (double)expected[i]);
}

/* Also the gaps and the guard areas. */
static inline void check_grid(const grid *got, const grid *expected, const char *what) {
    assert_true(got->elems == expected->elems);
    for (size_t i = 0; i < got->elems; i++)
        if (!same_bits(got->memory[i], expected->memory[i]))
            fail_msg("%s, %zu rows of %zu (stride %zu): element %zd is %a, should be %a", what, got->rows, got->C,
                     got->stride, (ssize_t)i - GUARD, (double)got->memory[i], (double)expected->memory[i]);
}

/* cuts[0] = 0 ≤ … ≤ cuts[n_parts] = n, at random points. */
static inline void make_cuts(size_t *cuts, size_t n_parts, size_t n, uint64_t seed) {
    ls_rng_key key = ls_rng_key_make(seed, 77, n);
    cuts[0] = 0;
    cuts[n_parts] = n;
    for (size_t i = 1; i < n_parts; i++) {
        size_t at = (size_t)ls_rng_below(key, i, n + 1), j = i;
        for (; j > 1 && cuts[j - 1] > at; j--) cuts[j] = cuts[j - 1];
        cuts[j] = at;
    }
}

#endif
