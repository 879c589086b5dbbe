/* gemm_problem.h: random products with their results, for test_gemm.c and test_gemm_unit.c: plain C from
 * docs/reference/arithmetic.md, element by element. Include it after cmocka.h. */
#ifndef LS_TESTS_GEMM_PROBLEM_H
#define LS_TESTS_GEMM_PROBLEM_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"
#include "base/rng.h"
#include "device/cpu/gemm/gemm.h"
#include "device/cuda/cuda.h"
#include "device/ops.h"

#include "contract.h"
#include "gemm_units.h"

enum { GUARD = 32 }; /* elements before and behind C */

/* What a product has beside its sizes; own: one sibling is C; many: siblings, and slices of different lengths. */
enum {
    ACCUMULATE = 1,
    SIBLINGS = 2,
    BIAS = 4,
    OPERANDS_BF16 = 8,
    WILD = 16,
    OWN = 32,
    MANY = 64,
    OPERANDS_F16 = 128,
    C_BF16 = 256,
    C_F16 = 512,
    ALL_OPTIONS = 1024
};

typedef struct problem {
    ls_gemm g;
    size_t a_elems, b_elems, c_elems;
    float *a, *b, *c, *expected, *sibling, *bias;
    int own; /* this sibling is C, −1: none */
    uint16_t *a16, *b16, *c16, *expected16;
    size_t bounds[LS_GEMM_SLICES_MAX + 1];
} problem;

/* Rows are a random multiple of so many elements longer than they need to be. */
static size_t stride_step = 1;

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

/* To nearest even: by value, not by bits. */
static uint16_t reference_f16(float x) {
    if (isnan(x)) return 0x7E00;
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    double size = fabs((double)x);
    if (size >= 65520) return sign | 0x7C00;
    int exponent = size < 0x1p-14 ? -14 : ilogb(size);
    double steps = nearbyint(ldexp(size, 10 - exponent)); /* of 2^(exponent − 10) */
    return sign | (uint16_t)((exponent + 14) * 1024 + (int)steps);
}

/* Rounds both copies, so that the reference sees what the kernel sees. */
static uint16_t *halves(float *f, size_t n, bool is_f16) {
    uint16_t *h = room(n * sizeof *h);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        if (is_f16) {
            h[i] = reference_f16(f[i]);
            f[i] = isinf(f[i]) ? f[i] : (float)contract_f16_value(h[i]);
            continue;
        }
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

static float a_at(const problem *p, size_t i, size_t k) {
    return p->g.form == LS_GEMM_TN ? p->a[k * p->g.lda + i] : p->a[i * p->g.lda + k];
}

static float b_at(const problem *p, size_t j, size_t k) {
    return p->g.form == LS_GEMM_NT ? p->b[j * p->g.ldb + k] : p->b[k * p->g.ldb + j];
}

/* The sum from `from` to `to`, granule by granule; one ends with each sequence and with the slice. */
static float chain_of(const problem *p, size_t i, size_t j, size_t from, size_t to, float c) {
    size_t granule = ls_unit_granule(p->g.unit), period = p->g.period ? p->g.period : p->g.k + 1;
    for (size_t k = from; granule == 1 && k < to; k++) c = fmaf(a_at(p, i, k), b_at(p, j, k), c);
    for (size_t k = from; granule > 1 && k < to;) {
        float a[32] = {0}, b[32] = {0};
        size_t end = (k / period + 1) * period, n = 0;
        for (; n < granule && k < to && k < end; n++, k++) {
            a[n] = a_at(p, i, k);
            b[n] = b_at(p, j, k);
        }
        c = model_granule(p->g.unit, p->g.dtype, c, a, b);
    }
    return c;
}

static float expected_at(const problem *p, size_t i, size_t j) {
    const ls_gemm *g = &p->g;
    float slice[LS_GEMM_SLICES_MAX];
    int slices = g->slices > 1 ? g->slices : 1;
    for (int s = 0; s < slices; s++) {
        float c = g->accumulate ? p->expected[GUARD + i * g->ldc + j] : 0.0f;
        size_t from = slices > 1 ? p->bounds[s] : 0, to = slices > 1 ? p->bounds[s + 1] : g->k;
        slice[s] = chain_of(p, i, j, from, to, c);
    }
    float c = tree(slice, slices);
    for (int s = 0; s < g->siblings; s++) {
        const float *left = s == p->own ? p->c + GUARD : g->sibling[s];
        c = left[i * g->ldsibling + j] + c;
    }
    if (g->bias) c = c + g->bias[j];
    return c;
}

static void choose_bounds(problem *p, int slices, size_t k, unsigned options) {
    size_t unit = p->g.period ? p->g.period : 1, units = k / unit;
    for (int s = 0; s <= slices; s++) p->bounds[s] = (size_t)s * units / (size_t)(slices ? slices : 1) * unit;
    /* Slices of different lengths, some empty. */
    for (int s = 1; s < slices && options & MANY; s++)
        p->bounds[s] = p->bounds[s - 1] + below(units - p->bounds[s - 1] / unit + 1) / (size_t)(slices - s) * unit;
    p->g.bounds = slices > 1 ? p->bounds : NULL;
}

static void choose_types(problem *p, unsigned options) {
    if (options & (OPERANDS_BF16 | OPERANDS_F16)) {
        p->g.dtype = options & OPERANDS_BF16 ? LS_BF16 : LS_F16;
        p->a16 = halves(p->a, p->a_elems, p->g.dtype == LS_F16);
        p->b16 = halves(p->b, p->b_elems, p->g.dtype == LS_F16);
    }
    p->g.a = p->a16 ? (const void *)p->a16 : p->a;
    p->g.b = p->b16 ? (const void *)p->b16 : p->b;
    if (options & (C_BF16 | C_F16)) p->g.c_dtype = options & C_BF16 ? LS_BF16 : LS_F16;
}

static void choose_siblings(problem *p, unsigned options) {
    ls_gemm *g = &p->g;
    p->own = -1;
    if (!(options & SIBLINGS) || g->c_dtype != LS_F32) return;
    g->siblings = 1 + (int)below(options & MANY ? LS_GEMM_SIBLINGS_MAX : 2);
    g->ldsibling = g->ldc;
    for (int s = 0; s < g->siblings; s++) g->sibling[s] = p->sibling + (size_t)s * g->m * g->ldc;
    if (options & OWN) p->own = (int)below((size_t)g->siblings);
}

static void expect(problem *p) {
    const ls_gemm *g = &p->g;
    p->expected = room(p->c_elems * sizeof(float));
    memcpy(p->expected, p->c, p->c_elems * sizeof(float));
    for (size_t i = 0; i < g->m; i++)
        for (size_t j = 0; j < g->n; j++) p->expected[GUARD + i * g->ldc + j] = expected_at(p, i, j);
    if (g->c_dtype == LS_F32) return;
    p->c16 = room(p->c_elems * sizeof(uint16_t));
    p->expected16 = room(p->c_elems * sizeof(uint16_t));
    for (size_t i = 0; i < p->c_elems; i++) p->c16[i] = p->expected16[i] = (uint16_t)draw();
    for (size_t i = 0; i < g->m; i++)
        for (size_t j = 0; j < g->n; j++) {
            size_t at = GUARD + i * g->ldc + j;
            float c = p->expected[at];
            p->expected16[at] = g->c_dtype == LS_BF16 ? contract_bf16(c) : reference_f16(c);
        }
}

static void open_unit_problem(problem *p, ls_unit unit, size_t period, ls_gemm_form form, size_t m, size_t n, size_t k,
                              int slices, unsigned options) {
    memset(p, 0, sizeof *p);
    ls_gemm *g = &p->g;
    size_t rows_a = form == LS_GEMM_TN ? k : m, rows_b = form == LS_GEMM_NT ? n : k;
    *g = (ls_gemm){.form = form, .unit = unit, .period = period, .m = m, .n = n, .k = k, .slices = slices};
    g->lda = (form == LS_GEMM_TN ? m : k) + stride_step * below(4);
    g->ldb = (form == LS_GEMM_NT ? k : n) + stride_step * below(4);
    g->ldc = n + stride_step * below(5);
    int wild = options & WILD ? 1 : 0;
    p->a_elems = rows_a * g->lda;
    p->b_elems = rows_b * g->ldb;
    p->c_elems = m * g->ldc + 2 * GUARD;
    p->a = floats(p->a_elems, wild);
    p->b = floats(p->b_elems, wild);
    p->c = floats(p->c_elems, 0);
    p->sibling = floats(LS_GEMM_SIBLINGS_MAX * m * g->ldc, 0);
    p->bias = floats(n, 0);
    choose_types(p, options);
    g->accumulate = slices <= 1 && options & ACCUMULATE && g->c_dtype == LS_F32;
    choose_siblings(p, options);
    if (options & BIAS) g->bias = p->bias;
    choose_bounds(p, slices, k, options);
    expect(p);
}

static inline void open_problem(problem *p, ls_gemm_form form, size_t m, size_t n, size_t k, int slices,
                                unsigned options) {
    open_unit_problem(p, LS_UNIT_CHAIN, 0, form, m, n, k, slices, options);
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
    free(p->c16);
    free(p->expected16);
}

/* Equal bits, any NaN for any NaN. */
static int same(const float *a, const float *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], 4) != 0 && !(isnan(a[i]) && isnan(b[i]))) return 0;
    return 1;
}

/* Into a new copy of C, guards and all. */
static void *run_problem(const ls_gemm_kernels *kernels, problem *p, ls_pool *pool) {
    size_t elem_bytes = p->c16 ? 2 : 4;
    char *c = room(p->c_elems * elem_bytes);
    memcpy(c, p->c16 ? (const void *)p->c16 : p->c, p->c_elems * elem_bytes);
    p->g.c = c + GUARD * elem_bytes;
    if (p->own >= 0) p->g.sibling[p->own] = p->g.c;
    size_t bytes = ls_gemm_scratch_bytes(kernels, &p->g);
    char *scratch = aligned_alloc(64, (bytes / 64 + 2) * 64);
    assert_non_null(scratch);
    memset(scratch, 0xFF, bytes); /* NaN: what is read without having been written is found */
    memset(scratch + bytes, 0x5A, 64);
    ls_gemm_run(kernels, &p->g, pool, scratch);
    for (int i = 0; i < 64; i++) assert_int_equal(scratch[bytes + (size_t)i], 0x5A);
    free(scratch);
    return c;
}

static inline void check_problem(const ls_gemm_kernels *kernels, problem *p, ls_pool *pool) {
    void *c = run_problem(kernels, p, pool);
    bool equal = p->c16 ? memcmp(c, p->expected16, p->c_elems * 2) == 0 : same(c, p->expected, p->c_elems);
    if (!equal)
        fail_msg(
            "%s: form %d, %zu x %zu x %zu, unit %s, period %zu, %d slices, %d siblings, dtype %d to %d, threads %d "
            "differs",
            kernels->name, (int)p->g.form, p->g.m, p->g.n, p->g.k, ls_unit_name(p->g.unit), p->g.period, p->g.slices,
            p->g.siblings, (int)p->g.dtype, (int)p->g.c_dtype, ls_pool_threads(pool));
    free(c);
}

/* ---- on a GPU, or a CPU that plays one --------------------------------------------------------------------------- */

static ls_device *cuda; /* NULL: there is none */

static inline int open_cuda(void) { return getenv("LS_TEST_CUDA") && ls_device_open_cuda(0, &cuda) != LS_OK ? -1 : 0; }

/* A copy on the GPU that begins `shift` elements behind a boundary; *base is to be freed. */
static void *on_cuda(const void *host, size_t elems, size_t elem_bytes, size_t shift, void **base) {
    assert_int_equal(ls_device_alloc(cuda, (elems + shift) * elem_bytes, base), LS_OK);
    void *at = (char *)*base + shift * elem_bytes;
    assert_int_equal(ls_device_copy_in(cuda, at, host, elems * elem_bytes), LS_OK);
    return at;
}

static void check_on_cuda(const problem *p, size_t shift) {
    size_t bytes = p->a16 ? 2 : 4, c_bytes = p->c16 ? 2 : 4, sibling_elems = LS_GEMM_SIBLINGS_MAX * p->g.m * p->g.ldc;
    void *bases[5], *c = room(p->c_elems * c_bytes);
    ls_gemm g = p->g;
    g.a = on_cuda(p->g.a, p->a_elems, bytes, shift, &bases[0]);
    g.b = on_cuda(p->g.b, p->b_elems, bytes, shift, &bases[1]);
    char *all = on_cuda(p->c16 ? (const void *)p->c16 : p->c, p->c_elems, c_bytes, shift, &bases[2]);
    const float *siblings = on_cuda(p->sibling, sibling_elems, 4, shift, &bases[3]);
    const float *bias = on_cuda(p->bias, g.n, 4, shift, &bases[4]);
    g.c = all + GUARD * c_bytes;
    g.bias = g.bias ? bias : NULL;
    for (int s = 0; s < g.siblings; s++) g.sibling[s] = s == p->own ? g.c : siblings + (p->g.sibling[s] - p->sibling);
    /* Every other time as audits compute a second time. */
    static unsigned turn;
    assert_int_equal(ls_device_compute_otherwise(cuda, turn++ % 2), LS_OK);
    if (cuda->ops->gemm(cuda, &g) != LS_OK) fail_msg("%s", ls_status_message());
    assert_int_equal(ls_device_copy_out(cuda, c, all, p->c_elems * c_bytes), LS_OK);
    if (p->c16 ? memcmp(c, p->expected16, p->c_elems * 2) != 0 : !same(c, p->expected, p->c_elems))
        fail_msg("cuda: form %d, %zu x %zu x %zu, %d slices, %d siblings, dtype %d to %d, strides %zu %zu %zu differs",
                 (int)g.form, g.m, g.n, g.k, g.slices, g.siblings, (int)g.dtype, (int)g.c_dtype, g.lda, g.ldb, g.ldc);
    for (int i = 0; i < 5; i++) ls_device_free(cuda, bases[i]);
    free(c);
}

#endif
