/* gemm_problem.h: random products with their results, for test_gemm.c: plain C from docs/arithmetic.md, element by
 * element. Include it after cmocka.h. */
#ifndef LS_TESTS_GEMM_PROBLEM_H
#define LS_TESTS_GEMM_PROBLEM_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "kernels/gemm.h"

enum { GUARD = 32 }; /* elements before and behind C */

typedef struct problem {
    ls_gemm g;
    size_t a_elems, b_elems, c_elems;
    float *a, *b, *c, *expected, *sibling, *bias;
    int own; /* this sibling is C, −1: none */
    uint16_t *a16, *b16;
    size_t bounds[LS_GEMM_SLICES_MAX + 1];
} problem;

static uint64_t draws;
static uint64_t draw(void) { return ls_rng_u64(ls_rng_key_make(11, 1, 0), draws++); }
static size_t below(size_t n) { return (size_t)(draw() % n); }

static void *room(size_t bytes) {
    void *memory = malloc(bytes ? bytes : 1);
    assert_non_null(memory);
    return memory;
}

/* Mixed magnitudes; now and then a zero, a subnormal or an infinity. */
static float value(int wild) {
    uint64_t bits = draw();
    float x = (float)(int32_t)(bits & 0xFFFFFF) * 0x1p-23f - 1.0f;
    if (wild && (bits >> 32 & 1023) == 1) return INFINITY;
    if (wild && (bits >> 32 & 63) == 2) return -0.0f;
    if (wild && (bits >> 32 & 63) == 3) return x * 0x1p-130f;
    return x;
}

static float *floats(size_t n, int wild) {
    float *f = room(n * sizeof *f);
    for (size_t i = 0; i < n; i++) f[i] = value(wild);
    return f;
}

/* Rounds both copies, so that the reference sees what the kernel sees. */
static uint16_t *halves(float *f, size_t n) {
    uint16_t *h = room(n * sizeof *h);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &f[i], 4);
        h[i] = (uint16_t)(bits >> 16);
        bits &= 0xFFFF0000u;
        memcpy(&f[i], &bits, 4);
    }
    return h;
}

static float tree(const float *leaves, int n) {
    if (n == 1) return leaves[0];
    int left = 1;
    while (2 * left < n) left *= 2;
    return tree(leaves, left) + tree(leaves + left, n - left);
}

static float expected_at(const problem *p, size_t i, size_t j) {
    const ls_gemm *g = &p->g;
    float slice[LS_GEMM_SLICES_MAX];
    int slices = g->slices > 1 ? g->slices : 1;
    for (int s = 0; s < slices; s++) {
        float c = g->accumulate ? p->expected[GUARD + i * g->ldc + j] : 0.0f;
        size_t from = slices > 1 ? p->bounds[s] : 0, to = slices > 1 ? p->bounds[s + 1] : g->k;
        for (size_t k = from; k < to; k++) {
            float a = g->form == LS_GEMM_TN ? p->a[k * g->lda + i] : p->a[i * g->lda + k];
            float b = g->form == LS_GEMM_NT ? p->b[j * g->ldb + k] : p->b[k * g->ldb + j];
            c = fmaf(a, b, c);
        }
        slice[s] = c;
    }
    float c = tree(slice, slices);
    for (int s = 0; s < g->siblings; s++) {
        const float *left = s == p->own ? p->c + GUARD : g->sibling[s];
        c = left[i * g->ldsibling + j] + c;
    }
    if (g->bias) c = c + g->bias[j];
    return c;
}

static void open_problem(problem *p, ls_gemm_form form, size_t m, size_t n, size_t k, int slices, unsigned options) {
    memset(p, 0, sizeof *p);
    ls_gemm *g = &p->g;
    size_t rows_a = form == LS_GEMM_TN ? k : m, rows_b = form == LS_GEMM_NT ? n : k;
    *g = (ls_gemm){.form = form, .m = m, .n = n, .k = k, .slices = slices};
    g->lda = (form == LS_GEMM_TN ? m : k) + below(4);
    g->ldb = (form == LS_GEMM_NT ? k : n) + below(4);
    g->ldc = n + below(5);
    int wild = options & 16 ? 1 : 0;
    p->a_elems = rows_a * g->lda;
    p->b_elems = rows_b * g->ldb;
    p->c_elems = m * g->ldc + 2 * GUARD;
    p->a = floats(p->a_elems, wild);
    p->b = floats(p->b_elems, wild);
    p->c = floats(p->c_elems, 0);
    p->sibling = floats(LS_GEMM_SIBLINGS_MAX * m * g->ldc, 0);
    p->bias = floats(n, 0);
    if (options & 8) {
        p->a16 = halves(p->a, p->a_elems);
        p->b16 = halves(p->b, p->b_elems);
        g->dtype = LS_BF16;
    }
    g->a = p->a16 ? (const void *)p->a16 : p->a;
    g->b = p->b16 ? (const void *)p->b16 : p->b;
    g->accumulate = slices <= 1 && options & 1;
    p->own = -1;
    if (options & 2) {
        g->siblings = 1 + (int)below(options & 64 ? LS_GEMM_SIBLINGS_MAX : 2);
        g->ldsibling = g->ldc;
        for (int s = 0; s < g->siblings; s++) g->sibling[s] = p->sibling + (size_t)s * m * g->ldc;
        if (options & 32) p->own = (int)below((size_t)g->siblings);
    }
    if (options & 4) g->bias = p->bias;
    for (int s = 0; s <= slices; s++) p->bounds[s] = (size_t)s * k / (size_t)(slices ? slices : 1);
    /* Slices of different lengths, some empty. */
    for (int s = 1; s < slices && options & 64; s++)
        p->bounds[s] = p->bounds[s - 1] + below(k - p->bounds[s - 1] + 1) / (size_t)(slices - s);
    g->bounds = slices > 1 ? p->bounds : NULL;
    p->expected = room(p->c_elems * sizeof(float));
    memcpy(p->expected, p->c, p->c_elems * sizeof(float));
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) p->expected[GUARD + i * g->ldc + j] = expected_at(p, i, j);
}

static void close_problem(problem *p) {
    free(p->a);
    free(p->b);
    free(p->c);
    free(p->expected);
    free(p->sibling);
    free(p->bias);
    free(p->a16);
    free(p->b16);
}

#endif
