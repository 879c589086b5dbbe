/* test_gemm.c: GEMMs against the contract, bit by bit: every ISA of this CPU, forms, any number of slices,
 * continued chains, siblings (C among them), bias, operands and results of 16 bits, threads 1, 2, 3 and 7, few rows or
 * columns, odd sizes and strides, guard areas; with LS_TEST_CUDA also on a GPU, or a CPU that plays one. The reference
 * is plain C from docs/reference/arithmetic.md; accuracy is held against double. */
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
#include "device/cpu/gemm/gemm.h"
#include "device/cuda/cuda.h"
#include "device/ops.h"

#include "gemm_problem.h"

enum { KERNELS = 5, POOLS = 4 };

static ls_pool *pools[POOLS];

static int list_kernels(ls_gemm_kernels *list) {
    int n = 0;
    ls_gemm_kernels_fill_portable(&list[n++]);
    ls_gemm_kernels_fill_plain(&list[n]);
    if (list[n].micro != list[0].micro) n++;
#ifdef __aarch64__
    ls_gemm_kernels_fill_neon(&list[n++]);
#endif
#ifdef __x86_64__
    if (ls_cpu_detect()->avx2 && ls_cpu_detect()->fma) ls_gemm_kernels_fill_avx2(&list[n++]);
    if (ls_cpu_detect()->avx512f) ls_gemm_kernels_fill_avx512(&list[n++]);
#endif
    return n;
}

static void check_everywhere(problem *p) {
    if (cuda) check_on_cuda(p, (p->g.m + p->g.n) % 4);
    ls_gemm_kernels list[KERNELS];
    int n = list_kernels(list);
    for (int i = 0; i < n; i++) check_problem(&list[i], p, pools[below(POOLS)]);
}

static int open_pools(void **state) {
    (void)state;
    static const int threads[POOLS] = {1, 2, 3, 7};
    for (int i = 0; i < POOLS; i++)
        if (ls_pool_create(threads[i], NULL, &pools[i]) != LS_OK) return -1;
    return open_cuda();
}

static int close_pools(void **state) {
    (void)state;
    for (int i = 0; i < POOLS; i++) ls_pool_destroy(pools[i]);
    ls_device_destroy(cuda);
    return 0;
}

static void test_random_shapes(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 2, 3, 5, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 31, 32, 33, 64, 65, 97, 113, 193};
    enum { N = sizeof sizes / sizeof *sizes };
    for (int turn = 0; turn < 220; turn++) {
        size_t k = turn % 9 == 0 ? below(4) : turn % 7 == 0 ? 300 + below(2500) : sizes[below(N)];
        int slices = turn % 3 == 0 ? 1 : turn % 3 == 1 ? 1 << below(5) : 1 + (int)below(LS_GEMM_SLICES_MAX);
        problem p;
        open_problem(&p, (ls_gemm_form)below(3), sizes[below(N)], sizes[below(N)], k, slices,
                     (unsigned)below(ALL_OPTIONS));
        check_everywhere(&p);
        close_problem(&p);
    }
}

/* Every number of slices. */
static void test_slices(void **state) {
    (void)state;
    for (int slices = 1; slices <= LS_GEMM_SLICES_MAX; slices++)
        for (size_t m = 3; m <= 15; m += 12) {
            problem p;
            open_problem(&p, LS_GEMM_NT, m, 17, 200, slices, (unsigned)below(ALL_OPTIONS));
            check_everywhere(&p);
            close_problem(&p);
        }
}

/* Few rows or columns, long enough for several stripes and blocks. */
static void test_thin(void **state) {
    (void)state;
    for (int turn = 0; turn < 60; turn++) {
        size_t few = 1 + below(9), many = 100 + below(700), k = below(200);
        problem p;
        open_problem(&p, (ls_gemm_form)(turn % 3), turn % 2 ? few : many, turn % 2 ? many : few, k,
                     1 + (int)below(turn % 4 ? 1 : 9), (unsigned)below(ALL_OPTIONS));
        check_everywhere(&p);
        close_problem(&p);
    }
}

/* Larger than one chunk in every direction; slices longer than a pass; chains apart from C that outlive a chunk. */
static void test_chunks(void **state) {
    (void)state;
    static const size_t shapes[][3] = {{900, 33, 40},    {13, 1700, 30}, {9, 14, 5000},
                                       {130, 200, 2100}, {800, 9, 4096}, {9, 1600, 4096}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int slices = 1; slices <= 7; slices += 6) {
            problem p;
            open_problem(&p, (ls_gemm_form)below(3), shapes[i][0], shapes[i][1], shapes[i][2], slices,
                         (unsigned)(i == 2 ? OWN | SIBLINGS | ACCUMULATE : below(ALL_OPTIONS)));
            check_everywhere(&p);
            close_problem(&p);
        }
}

/* Around the edges of a GPU's tiles and steps, with all strides and addresses even, or all odd. */
static void test_tiles(void **state) {
    (void)state;
    static const size_t shapes[][3] = {{128, 128, 16}, {132, 124, 36}, {256, 256, 48}, {260, 252, 20}, {64, 64, 64},
                                       {60, 68, 100},  {127, 129, 31}, {4, 192, 200},  {256, 64, 132}, {513, 8, 17}};
    for (size_t i = 0; cuda && i < sizeof shapes / sizeof *shapes; i++)
        for (int form = 0; form < 3; form++)
            for (int turn = 0; turn < 2; turn++) {
                problem p;
                static const int slices[] = {1, 3, 8, 2, 64, 13};
                unsigned types[] = {0, 0, OPERANDS_BF16, OPERANDS_F16 | C_F16};
                stride_step = (i + (size_t)turn) % 3 ? 4 : 1;
                open_problem(&p, (ls_gemm_form)form, shapes[i][0], shapes[i][1], shapes[i][2],
                             turn ? slices[(i + (size_t)form) % 6] : 1,
                             types[(i + (size_t)turn) % 4] | (turn ? WILD | SIBLINGS | BIAS | OWN : ACCUMULATE));
                check_on_cuda(&p, 0);
                check_on_cuda(&p, 1);
                close_problem(&p);
            }
    stride_step = 1;
}

/* Products that take a GPU's larger tiles (the GPU that a CPU plays has four multiprocessors): aligned or not, with
 * more sums that wait in the tree than shared memory holds, and with a tile that is partly empty. */
static void test_large_tiles(void **state) {
    (void)state;
    static const struct large_case {
        size_t m, n, k;
        int slices;
        unsigned options;
    } cases[] = {
        {512, 128, 36, 1, BIAS},         {508, 124, 64, 16, WILD | BIAS}, {510, 128, 70, 1, 0},
        {510, 128, 70, 64, WILD | BIAS}, {1024, 64, 20, 1, WILD},         {1020, 60, 40, 10, BIAS},
    };
    stride_step = 4;
    for (int form = 0; cuda && form < 3; form++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            problem p;
            open_problem(&p, (ls_gemm_form)form, cases[i].m, cases[i].n, cases[i].k, cases[i].slices, cases[i].options);
            check_on_cuda(&p, 0);
            close_problem(&p);
        }
    stride_step = 1;
}

/* Few rows whose operands a GPU reads four numbers at a time: a kernel of its own. */
static void test_few_rows(void **state) {
    (void)state;
    static const size_t shapes[][3] = {{1, 300, 128}, {1, 63, 4}, {2, 130, 260}, {5, 64, 36}, {8, 65, 400}, {8, 6, 0}};
    static const unsigned options[] = {0, ACCUMULATE | BIAS | WILD, SIBLINGS | OWN | C_BF16, SIBLINGS | OWN | WILD};
    stride_step = 4;
    for (size_t i = 0; cuda && i < sizeof shapes / sizeof *shapes; i++)
        for (int turn = 0; turn < 8; turn++) {
            problem p;
            size_t n = shapes[i][1], k = shapes[i][2];
            open_problem(&p, turn % 2 ? LS_GEMM_NT : LS_GEMM_NN, shapes[i][0], turn % 2 ? n : (n + 3) / 4 * 4, k, 1,
                         options[turn / 2]);
            /* Slices end at multiples of 4, one is empty. */
            size_t bounds[] = {0, k / 8 * 4, k / 8 * 4, k};
            if (turn / 2 != 1) {
                memcpy(p.bounds, bounds, sizeof bounds);
                p.g.slices = 3, p.g.bounds = p.bounds;
                free(p.expected), free(p.c16), free(p.expected16);
                p.c16 = p.expected16 = NULL;
                expect(&p);
            }
            check_on_cuda(&p, 0);
            close_problem(&p);
        }
    stride_step = 1;
}

/* Calls that the GPU does not support yet, and calls that no device supports. */
static void test_refused_by_cuda(void **state) {
    (void)state;
    if (!cuda) return;
    ls_gemm g = {.form = LS_GEMM_NN, .dtype = LS_BF16, .unit = LS_UNIT_BFMMLA, .m = 1, .n = 1, .k = 1};
    assert_int_equal(cuda->ops->gemm(cuda, &g), LS_ERR_INPUT);
    g = (ls_gemm){.form = LS_GEMM_NN, .dtype = LS_I64, .m = 1, .n = 1, .k = 1};
    assert_int_equal(cuda->ops->gemm(cuda, &g), LS_ERR_INPUT);
    g = (ls_gemm){.m = 0, .n = 3, .k = 4};
    assert_int_equal(cuda->ops->gemm(cuda, &g), LS_OK);
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
    static const size_t shapes[][3] = {{20, 40, 30}, {20, 40, 2500}, {5, 40, 300}, {40, 5, 300}, {20, 40, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        problem p;
        open_problem(&p, (ls_gemm_form)(i % 3), shapes[i][0], shapes[i][1], shapes[i][2], 1,
                     ACCUMULATE | SIBLINGS | BIAS | OWN | MANY);
        assert_true(p.g.accumulate && p.g.siblings > 0 && p.own >= 0 && p.g.bias);
        check_everywhere(&p);
        close_problem(&p);
    }
}

/* Every type of operands with every type of C, in every form. */
static void test_types(void **state) {
    (void)state;
    static const unsigned from[] = {0, OPERANDS_BF16, OPERANDS_F16}, to[] = {0, C_BF16, C_F16};
    for (int form = 0; form < 3; form++)
        for (int types = 0; types < 9; types++)
            for (int slices = 1; slices <= 3; slices += 2) {
                problem p;
                open_problem(&p, (ls_gemm_form)form, 1 + below(60), 1 + below(60), types == 4 ? 2500 : 1 + below(300),
                             slices, from[types / 3] | to[types % 3] | (unsigned)below(8) | WILD);
                check_everywhere(&p);
                close_problem(&p);
            }
}

/* No rows or no columns: nothing is touched. */
static void test_nothing(void **state) {
    (void)state;
    ls_gemm_kernels list[KERNELS];
    int n = list_kernels(list);
    float c = 5.0f;
    for (int i = 0; i < n; i++) {
        ls_gemm no_rows = {.m = 0, .n = 9, .k = 3, .c = &c}, no_columns = {.m = 9, .n = 0, .k = 3, .c = &c};
        ls_gemm_run(&list[i], &no_rows, NULL, NULL);
        ls_gemm_run(&list[i], &no_columns, NULL, NULL);
    }
    assert_true(c == 5.0f);
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
        cmocka_unit_test(test_random_shapes), cmocka_unit_test(test_slices),
        cmocka_unit_test(test_thin),          cmocka_unit_test(test_all_together),
        cmocka_unit_test(test_chunks),        cmocka_unit_test(test_continued_chain),
        cmocka_unit_test(test_types),         cmocka_unit_test(test_accuracy),
        cmocka_unit_test(test_nothing),       cmocka_unit_test(test_golden),
        cmocka_unit_test(test_tiles),         cmocka_unit_test(test_few_rows),
        cmocka_unit_test(test_large_tiles),   cmocka_unit_test(test_refused_by_cuda),
    };
    return cmocka_run_group_tests(tests, open_pools, close_pools);
}
