/* test_gemm.c: matrix products against the contract, bit by bit: every ISA of this CPU, forms, any number of slices,
 * continued chains, siblings (C among them), bias, bf16, threads 1, 2, 3 and 7, few rows or columns, odd sizes and
 * strides, guard areas. The reference is plain C from docs/arithmetic.md; accuracy is held against double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "base/hash.h"
#include "base/rng.h"
#include "kernels/gemm.h"

enum { GUARD = 32, KERNELS = 4 };

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

/* Equal bits, any NaN for any NaN. */
static int same(const float *a, const float *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], 4) != 0 && !(isnan(a[i]) && isnan(b[i]))) return 0;
    return 1;
}

static void run_with(const ls_gemm_kernels *kernels, problem *p, ls_pool *pool) {
    float *c = room(p->c_elems * sizeof(float));
    memcpy(c, p->c, p->c_elems * sizeof(float));
    p->g.c = c + GUARD;
    if (p->own >= 0) p->g.sibling[p->own] = p->g.c;
    size_t bytes = ls_gemm_scratch_bytes(kernels, &p->g);
    char *scratch = aligned_alloc(64, (bytes / 64 + 2) * 64);
    assert_non_null(scratch);
    memset(scratch + bytes, 0x5A, 64);
    ls_gemm_run(kernels, &p->g, pool, scratch);
    for (int i = 0; i < 64; i++) assert_int_equal(scratch[bytes + (size_t)i], 0x5A);
    if (!same(c, p->expected, p->c_elems))
        fail_msg("%s: form %d, %zu x %zu x %zu, %d slices, %d siblings, dtype %d, threads %d differs", kernels->name,
                 (int)p->g.form, p->g.m, p->g.n, p->g.k, p->g.slices, p->g.siblings, (int)p->g.dtype,
                 ls_pool_threads(pool));
    free(scratch);
    free(c);
}

static int list_kernels(ls_gemm_kernels *list) {
    int n = 0;
    ls_gemm_kernels_fill_portable(&list[n++]);
#ifdef __aarch64__
    ls_gemm_kernels_fill_neon(&list[n++]);
#endif
#ifdef __x86_64__
    if (ls_cpu_detect()->avx2 && ls_cpu_detect()->fma) ls_gemm_kernels_fill_avx2(&list[n++]);
    if (ls_cpu_detect()->avx512f) ls_gemm_kernels_fill_avx512(&list[n++]);
#endif
    return n;
}

static void check_everywhere(problem *p, ls_pool *const *pools, int n_pools) {
    ls_gemm_kernels list[KERNELS];
    int n = list_kernels(list);
    for (int i = 0; i < n; i++) run_with(&list[i], p, pools[below((size_t)n_pools)]);
}

static void open_pools(ls_pool *pools[4]) {
    static const int threads[4] = {1, 2, 3, 7};
    for (int i = 0; i < 4; i++) assert_int_equal(ls_pool_create(threads[i], NULL, &pools[i]), LS_OK);
}

static void test_random_shapes(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 2, 3, 5, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 31, 32, 33, 64, 65, 97, 113, 193};
    enum { N = sizeof sizes / sizeof *sizes };
    ls_pool *pools[4];
    open_pools(pools);
    for (int turn = 0; turn < 220; turn++) {
        size_t k = turn % 9 == 0 ? below(4) : turn % 7 == 0 ? 300 + below(2500) : sizes[below(N)];
        int slices = turn % 3 == 0 ? 1 : turn % 3 == 1 ? 1 << below(5) : 1 + (int)below(LS_GEMM_SLICES_MAX);
        problem p;
        open_problem(&p, (ls_gemm_form)below(3), sizes[below(N)], sizes[below(N)], k, slices, (unsigned)below(128));
        check_everywhere(&p, pools, 4);
        close_problem(&p);
    }
    for (int i = 0; i < 4; i++) ls_pool_destroy(pools[i]);
}

/* Every number of slices. */
static void test_slices(void **state) {
    (void)state;
    ls_pool *pools[4];
    open_pools(pools);
    for (int slices = 1; slices <= LS_GEMM_SLICES_MAX; slices++)
        for (size_t m = 3; m <= 15; m += 12) {
            problem p;
            open_problem(&p, LS_GEMM_NT, m, 17, 200, slices, (unsigned)below(128));
            check_everywhere(&p, pools, 4);
            close_problem(&p);
        }
    for (int i = 0; i < 4; i++) ls_pool_destroy(pools[i]);
}

/* Few rows or columns, long enough for several stripes and blocks. */
static void test_thin(void **state) {
    (void)state;
    ls_pool *pools[4];
    open_pools(pools);
    for (int turn = 0; turn < 60; turn++) {
        size_t few = 1 + below(9), many = 100 + below(700), k = below(200);
        problem p;
        open_problem(&p, (ls_gemm_form)(turn % 3), turn % 2 ? few : many, turn % 2 ? many : few, k,
                     1 + (int)below(turn % 4 ? 1 : 9), (unsigned)below(128));
        check_everywhere(&p, pools, 4);
        close_problem(&p);
    }
    for (int i = 0; i < 4; i++) ls_pool_destroy(pools[i]);
}

/* Larger than one chunk in every direction; slices longer than a pass; chains apart from C that outlive a chunk. */
static void test_chunks(void **state) {
    (void)state;
    ls_pool *pools[4];
    open_pools(pools);
    static const size_t shapes[][3] = {{900, 33, 40}, {13, 1700, 30}, {9, 14, 5000}, {130, 200, 2100}, {780, 20, 2050}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int slices = 1; slices <= 7; slices += 6) {
            problem p;
            open_problem(&p, (ls_gemm_form)below(3), shapes[i][0], shapes[i][1], shapes[i][2], slices,
                         (unsigned)(i == 2 ? 32 | 2 | 1 : below(8)));
            check_everywhere(&p, pools, 4);
            close_problem(&p);
        }
    for (int i = 0; i < 4; i++) ls_pool_destroy(pools[i]);
}

/* A chain cut into calls is the chain: any cut of K gives the bits of one call. */
static void test_continued_chain(void **state) {
    (void)state;
    problem p;
    open_problem(&p, LS_GEMM_TN, 50, 60, 777, 1, 0);
    ls_gemm_kernels list[KERNELS];
    int n = list_kernels(list);
    for (int i = 0; i < n; i++) {
        float *c = room(p.c_elems * sizeof(float));
        memcpy(c, p.c, p.c_elems * sizeof(float));
        for (size_t k = 0; k < 777;) {
            size_t take = 1 + below(200);
            if (take > 777 - k) take = 777 - k;
            ls_gemm g = p.g;
            g.k = take;
            g.a = p.a + k * g.lda;
            g.b = p.b + k * g.ldb;
            g.c = c + GUARD;
            g.accumulate = k > 0;
            void *scratch = aligned_alloc(64, (ls_gemm_scratch_bytes(&list[i], &g) / 64 + 1) * 64);
            ls_gemm_run(&list[i], &g, NULL, scratch);
            free(scratch);
            k += take;
        }
        assert_true(same(c, p.expected, p.c_elems));
        free(c);
    }
    close_problem(&p);
}

typedef struct seen {
    int rows[70];
    float *c;
    size_t ldc;
} seen;

static void note_row(void *ctx, float *c, size_t row, size_t column, size_t columns) {
    seen *s = ctx;
    assert_ptr_equal(c, s->c + row * s->ldc + column);
    __atomic_fetch_add(&s->rows[row], (int)columns, __ATOMIC_RELAXED);
    for (size_t i = 0; i < columns; i++) c[i] *= 2.0f;
}

static void test_finish(void **state) {
    (void)state;
    ls_pool *pools[4];
    open_pools(pools);
    problem p;
    open_problem(&p, LS_GEMM_NT, 70, 215, 100, 4, 6);
    float *c = room(p.c_elems * sizeof(float));
    memcpy(c, p.c, p.c_elems * sizeof(float));
    seen s = {.c = c + GUARD, .ldc = p.g.ldc};
    ls_gemm_kernels list[KERNELS];
    ls_gemm_kernels *best = &list[list_kernels(list) - 1];
    p.g.c = c + GUARD;
    p.g.finish = note_row;
    p.g.finish_ctx = &s;
    void *scratch = aligned_alloc(64, (ls_gemm_scratch_bytes(best, &p.g) / 64 + 1) * 64);
    ls_gemm_run(best, &p.g, pools[2], scratch);
    for (size_t i = 0; i < 70; i++) {
        assert_int_equal(s.rows[i], 215);
        for (size_t j = 0; j < 215; j++) p.expected[GUARD + i * p.g.ldc + j] *= 2.0f;
    }
    assert_true(same(c, p.expected, p.c_elems));
    free(scratch);
    free(c);
    close_problem(&p);
    for (int i = 0; i < 4; i++) ls_pool_destroy(pools[i]);
}

/* Against double: the error of a chain of n roundings grows like √n; 4·√k·2^−24 relative to Σ|a·b|, generously. */
static void test_accuracy(void **state) {
    (void)state;
    problem p;
    open_problem(&p, LS_GEMM_NN, 30, 30, 1500, 8, 0);
    for (size_t i = 0; i < 30; i++)
        for (size_t j = 0; j < 30; j++) {
            double exact = 0, size = 0;
            for (size_t k = 0; k < 1500; k++) {
                double term = (double)p.a[i * p.g.lda + k] * (double)p.b[k * p.g.ldb + j];
                exact += term;
                size += fabs(term);
            }
            assert_true(fabs((double)p.expected[GUARD + i * p.g.ldc + j] - exact) <= 4 * sqrt(1500) * 0x1p-24 * size);
        }
    close_problem(&p);
}

/* One slice with all that may come together: the chain goes on from C, which is a sibling too, behind a chunk of K. */
static void test_all_together(void **state) {
    (void)state;
    ls_pool *pools[4];
    open_pools(pools);
    static const size_t shapes[][3] = {{20, 40, 30}, {20, 40, 2500}, {5, 40, 300}, {40, 5, 300}, {20, 40, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        problem p;
        open_problem(&p, (ls_gemm_form)(i % 3), shapes[i][0], shapes[i][1], shapes[i][2], 1, 1 | 2 | 4 | 32 | 64);
        assert_true(p.g.accumulate && p.g.siblings > 0 && p.own >= 0 && p.g.bias);
        check_everywhere(&p, pools, 4);
        close_problem(&p);
    }
    for (int i = 0; i < 4; i++) ls_pool_destroy(pools[i]);
}

/* The same on ARM64 and x86-64. */
static void test_golden(void **state) {
    (void)state;
    enum { M = 37, N = 61, K = 300 };
    static float a[M * K], b[N * K], c[M * N];
    ls_rng_key key = ls_rng_key_make(5, 5, 5);
    for (size_t i = 0; i < M * K; i++) a[i] = ls_rng_uniform_f32(key, i) - 0.5f;
    for (size_t i = 0; i < N * K; i++) b[i] = ls_rng_uniform_f32(key, i + M * K) - 0.5f;
    const size_t bounds[5] = {0, 75, 150, 225, 300};
    ls_gemm g = {.form = LS_GEMM_NT,
                 .m = M,
                 .n = N,
                 .k = K,
                 .a = a,
                 .b = b,
                 .lda = K,
                 .ldb = K,
                 .c = c,
                 .ldc = N,
                 .slices = 4,
                 .bounds = bounds};
    ls_gemm_kernels list[KERNELS];
    int n = list_kernels(list);
    for (int i = 0; i < n; i++) {
        char text[33];
        void *scratch = aligned_alloc(64, (ls_gemm_scratch_bytes(&list[i], &g) / 64 + 1) * 64);
        ls_gemm_run(&list[i], &g, NULL, scratch);
        ls_hash_text(ls_hash_f32(c, M * N), text);
        assert_string_equal(text, "1a38c50ad175f29a58b3fa775f228384");
        free(scratch);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_shapes), cmocka_unit_test(test_slices),   cmocka_unit_test(test_thin),
        cmocka_unit_test(test_all_together),  cmocka_unit_test(test_chunks),   cmocka_unit_test(test_continued_chain),
        cmocka_unit_test(test_finish),        cmocka_unit_test(test_accuracy), cmocka_unit_test(test_golden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
