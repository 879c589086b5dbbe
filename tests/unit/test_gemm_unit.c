/* test_gemm_unit.c: matrix units against their models (gemm_units.h), bit by bit, where the CPU has them: forms, types,
 * slices, siblings, bias, odd sizes, threads; sequences that fit no granule; cuts of k into calls; rows and columns
 * alone; special values. What a unit needs of the loops around it (panels, padding, tiles) runs on every CPU, with
 * micro-kernels in plain C that take panels as the unit's do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "device/cpu/kernels.h"
#include "device/cuda/launch.h"
#include "device/cuda/ops/gemm.h"
#include "device/cuda/ops/hgmma.h"

#include "device/cpu/portable/hgmma.h"
#include "gemm_problem.h"

enum { POOLS = 3 };

static ls_pool *pools[POOLS];
static ls_gemm_kernels portable;

static int open_pools(void **state) {
    (void)state;
    static const int threads[POOLS] = {1, 2, 5};
    ls_gemm_kernels_fill_portable(&portable);
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

/* The next unit that is here, from *unit on. */
static bool next_unit(int *unit) {
    for (; *unit < LS_UNITS; ++*unit) {
        if (ls_unit_is_here((ls_unit)*unit)) return true;
        printf("skipped: %s, which this CPU has not\n", ls_unit_name((ls_unit)*unit));
    }
    return false;
}

/* A C of 16 bits hides most differences: it has one in four. */
static unsigned some_options(ls_unit unit) {
    unsigned options = (unsigned)below(ALL_OPTIONS) & ~(unsigned)(OPERANDS_BF16 | OPERANDS_F16);
    if (below(4) > 0) options &= ~(unsigned)(C_BF16 | C_F16);
    return options | (ls_unit_takes(unit, LS_F16) && below(2) ? OPERANDS_F16 : OPERANDS_BF16);
}

/* ---- units in plain C, behind the same panels -------------------------------------------------------------------- */

enum { EMULATED_MOST = 32 };

static ls_gemm_kernels emulated; /* one at a time */
static ls_unit emulated_unit;
static int begun;

static float panel_at(const uint16_t *panel, size_t width, size_t group, size_t lane, size_t k) {
    uint32_t bits = (uint32_t)panel[(k / group * width + lane) * group + k % group] << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static float granules(size_t k, const void *a, const void *b, size_t i, size_t j, float c) {
    const ls_gemm_kernels *t = &emulated;
    for (size_t at = 0; at < k; at += t->granule) {
        float x[EMULATED_MOST], y[EMULATED_MOST];
        for (size_t q = 0; q < t->granule; q++) {
            x[q] = panel_at(a, t->mr, t->group_a, i, at + q);
            y[q] = panel_at(b, t->nr, t->group_b, j, at + q);
        }
        c = model_granule(emulated_unit, LS_BF16, c, x, y);
    }
    return c;
}

static void emulated_micro(size_t k, const void *a, const void *b, const ls_gemm_tile *tile) {
    static _Thread_local float out[EMULATED_MOST][EMULATED_MOST]; /* C may be read as start and as addend */
    assert_int_equal(k % emulated.granule, 0);
    for (size_t i = 0; i < emulated.mr; i++)
        for (size_t j = 0; j < emulated.nr; j++) {
            float c = granules(k, a, b, i, j, tile->start ? tile->start[i * tile->ldstart + j] : 0.0f);
            for (int s = 0; s < tile->addends; s++) c = tile->addend[s].at[i * tile->addend[s].ld + j] + c;
            out[i][j] = tile->bias ? c + tile->bias[j] : c;
        }
    for (size_t i = 0; i < emulated.mr; i++)
        for (size_t j = 0; j < emulated.nr; j++) {
            if (tile->halves)
                tile->halves[i * tile->ldhalves + j] = contract_bf16(out[i][j]);
            else
                tile->out[i * tile->ldout + j] = out[i][j];
        }
}

static void emulated_begin(void) { __atomic_add_fetch(&begun, 1, __ATOMIC_RELAXED); }
static void emulated_end(void) { __atomic_sub_fetch(&begun, 1, __ATOMIC_RELAXED); }

static void emulate(ls_unit unit) {
    static const size_t shape[LS_UNITS][4] = {
        /* mr, nr, groups of A and B */
        [LS_UNIT_BFMMLA] = {8, 12, 4, 4},     [LS_UNIT_AVX512_BF16] = {14, 32, 2, 2}, [LS_UNIT_AMX] = {32, 32, 32, 2},
        [LS_UNIT_HGMMA] = {8, 16, 16, 16},    [LS_UNIT_AMPERE] = {8, 16, 8, 8},       [LS_UNIT_ADA] = {8, 16, 8, 8},
        [LS_UNIT_BLACKWELL] = {8, 16, 16, 16}};
    emulated_unit = unit;
    emulated = portable;
    emulated.name = "emulated";
    emulated.micro = emulated_micro;
    emulated.mr = shape[unit][0];
    emulated.nr = shape[unit][1];
    emulated.kc = 64;
    emulated.mb = 2 * emulated.mr;
    emulated.nb = 2 * emulated.nr;
    emulated.granule = ls_unit_granule(unit);
    emulated.group_a = shape[unit][2];
    emulated.group_b = shape[unit][3];
    emulated.rate = 4;
    emulated.rounds_bf16 = unit != LS_UNIT_AVX512_BF16;
    emulated.begin = emulated_begin;
    emulated.end = emulated_end;
}

/* The loops take the table as it is for a product of chains, if it is not thin. */
static void check_emulated(problem *p, ls_pool *pool) {
    emulate(p->g.unit);
    p->g.unit = LS_UNIT_CHAIN;
    check_problem(&emulated, p, pool);
    assert_int_equal(begun, 0);
}

static void test_loops(void **state) {
    (void)state;
    for (int turn = 0; turn < 120; turn++) {
        ls_unit unit = (ls_unit)(1 + turn % (LS_UNITS - 1));
        ls_gemm_form form = (ls_gemm_form)(turn / 3 % 3);
        size_t period = form == LS_GEMM_TN && turn % 4 ? 1 + below(40) : 0;
        size_t k = period ? period * (1 + below(4)) : below(150);
        problem p;
        open_unit_problem(&p, unit, period, form, 9 + below(40), 9 + below(40), k, 1 + (int)below(5),
                          some_options(LS_UNIT_BFMMLA)); /* panels of bf16 */
        check_emulated(&p, pools[below(POOLS)]);
        close_problem(&p);
    }
}

/* The tensor cores of the GPU, which may be one that is played (LS_CUDA_CAPABILITY). */
static ls_unit unit_of_cuda(void) {
    for (int u = 0; u < LS_UNITS; u++)
        if (ls_unit_is_tensor_core((ls_unit)u) && ls_cuda_check_unit(cuda, (ls_unit)u) == LS_OK) return (ls_unit)u;
    return LS_UNIT_CHAIN;
}

/* On this CPU, and on a GPU where it has the unit. */
static void check_here(problem *p, ls_pool *pool) {
    check_problem(&portable, p, pool);
    if (cuda && (p->g.unit == unit_of_cuda() || p->g.unit == LS_UNIT_CHAIN)) check_on_cuda(p, (p->g.m + p->g.n) % 4);
}

/* ---- the units of this CPU --------------------------------------------------------------------------------------- */

static void test_shapes(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 15, 16, 17, 24, 31, 32, 33, 64, 65, 97};
    enum { N = sizeof sizes / sizeof *sizes };
    for (int unit = 1; next_unit(&unit); unit++)
        for (int turn = 0; turn < 150; turn++) {
            size_t k = turn % 9 == 0 ? below(5) : turn % 25 == 0 ? 4000 + below(600) : sizes[below(N)];
            int slices = turn % 3 == 0 ? 1 : turn % 3 == 1 ? 1 << below(5) : 1 + (int)below(LS_GEMM_SLICES_MAX);
            size_t m = sizes[below(k > 1000 ? 8 : N)], n = sizes[below(k > 1000 ? 8 : N)];
            problem p;
            open_unit_problem(&p, (ls_unit)unit, 0, (ls_gemm_form)below(3), m, n, k, slices,
                              some_options((ls_unit)unit));
            check_here(&p, pools[below(POOLS)]);
            close_problem(&p);
        }
}

/* Several chunks of K, and chains that live in C between them. */
static void test_long(void **state) {
    (void)state;
    for (int unit = 1; next_unit(&unit); unit++)
        for (unsigned turn = 0; turn < 6; turn++) {
            problem p;
            open_unit_problem(&p, (ls_unit)unit, 0, (ls_gemm_form)(turn % 3), 9, 13, 4101 + below(5000), 1,
                              OPERANDS_BF16 | (turn < 3 ? ACCUMULATE : C_BF16));
            check_here(&p, pools[below(POOLS)]);
            close_problem(&p);
        }
}

static void test_sequences(void **state) {
    (void)state;
    static const size_t periods[] = {1, 2, 3, 5, 31, 32, 33, 63, 64, 65, 100};
    enum { N = sizeof periods / sizeof *periods };
    for (int unit = 1; next_unit(&unit); unit++)
        for (int turn = 0; turn < 60; turn++) {
            size_t period = periods[below(N)], sequences = 1 + below(9);
            problem p;
            open_unit_problem(&p, (ls_unit)unit, period, LS_GEMM_TN, 1 + below(40), 1 + below(40), period * sequences,
                              1 + (int)below(sequences), some_options((ls_unit)unit));
            check_here(&p, pools[below(POOLS)]);
            close_problem(&p);
        }
}

/* The part of `whole` from k on, `take` of it, added to c. */
static void run_cut(const ls_gemm *whole, float *c, size_t k, size_t take) {
    ls_gemm g = *whole;
    g.k = take;
    g.a = (const uint16_t *)g.a + (g.form == LS_GEMM_TN ? k * g.lda : k);
    g.b = (const uint16_t *)g.b + (g.form == LS_GEMM_NT ? k : k * g.ldb);
    g.c = c;
    g.accumulate = k > 0;
    void *scratch = aligned_alloc(64, (ls_gemm_scratch_bytes(&portable, &g) / 64 + 1) * 64);
    assert_non_null(scratch);
    ls_gemm_run(&portable, &g, NULL, scratch);
    free(scratch);
}

/* Calls that end with a sequence, or with a granule, give the bits of one call: the micro-batch is free. */
static void test_cuts(void **state) {
    (void)state;
    enum { PERIOD = 63, SEQUENCES = 12, K = PERIOD * SEQUENCES, M = 21, N = 26 };
    for (int unit = 1; next_unit(&unit); unit++)
        for (int turn = 0; turn < 6; turn++) {
            bool by_sequence = turn % 2 == 0;
            size_t step = by_sequence ? PERIOD : ls_unit_granule((ls_unit)unit);
            problem p;
            open_unit_problem(&p, (ls_unit)unit, by_sequence ? PERIOD : 0,
                              by_sequence ? LS_GEMM_TN : (ls_gemm_form)(turn / 2), M, N, K, 1, OPERANDS_BF16);
            float *c = room(p.c_elems * sizeof *c);
            memcpy(c, p.c, p.c_elems * sizeof *c);
            for (size_t k = 0, take; k < K; k += take) {
                take = step * (1 + below(turn < 4 ? 3 : 9));
                if (take > K - k) take = K - k;
                run_cut(&p.g, c + GUARD, k, take);
            }
            assert_true(same(c, p.expected, p.c_elems));
            free(c);
            close_problem(&p);
        }
}

/* Without padding at the ends of sequences the cut would show: the test above can fail. */
static void test_cuts_matter(void **state) {
    (void)state;
    enum { PERIOD = 63, K = 2 * PERIOD };
    for (int unit = 1; next_unit(&unit); unit++) {
        problem p;
        open_unit_problem(&p, (ls_unit)unit, 0, LS_GEMM_TN, 40, 40, K, 1, OPERANDS_BF16);
        float *c = room(p.c_elems * sizeof *c);
        memcpy(c, p.c, p.c_elems * sizeof *c);
        run_cut(&p.g, c + GUARD, 0, PERIOD);
        run_cut(&p.g, c + GUARD, PERIOD, PERIOD);
        assert_false(same(c, p.expected, p.c_elems));
        free(c);
        close_problem(&p);
    }
}

/* An output depends on its row and its column alone: any rectangle, by itself, has the same bits. */
static void test_rectangles(void **state) {
    (void)state;
    enum { M = 50, N = 70, K = 100 };
    for (int unit = 1; next_unit(&unit); unit++)
        for (int turn = 0; turn < 30; turn++) {
            problem p;
            open_unit_problem(&p, (ls_unit)unit, 0, LS_GEMM_NT, M, N, K, 1, OPERANDS_BF16);
            size_t row = below(M), column = below(N), rows = turn % 3 ? 1 + below(M - row) : 1,
                   columns = turn % 4 ? 1 + below(N - column) : 1;
            float c[M * N];
            ls_gemm g = p.g;
            g.m = rows;
            g.n = columns;
            g.a = p.a16 + row * g.lda;
            g.b = p.b16 + column * g.ldb;
            g.c = c;
            g.ldc = columns;
            void *scratch = aligned_alloc(64, (ls_gemm_scratch_bytes(&portable, &g) / 64 + 1) * 64);
            ls_gemm_run(&portable, &g, pools[below(POOLS)], scratch);
            free(scratch);
            for (size_t i = 0; i < rows; i++)
                assert_true(same(c + i * columns, p.expected + GUARD + (row + i) * p.g.ldc + column, columns));
            close_problem(&p);
        }
}

/* Values at the ends of the range, in every pairing. */
static void test_special(void **state) {
    (void)state;
    static const uint16_t values[] = {0x0000, 0x8000, 0x0001, 0x807F, 0x0080, 0x8081, 0x0040, 0x1F80, 0x2000, 0x9FFF,
                                      0x3F80, 0xBF81, 0x5F80, 0x5F7F, 0xDF80, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC0,
                                      0x3FFF, 0x4380, 0xC37F, 0x3380, 0xB37F, 0x0C00, 0x8C01, 0x7F00, 0xFEFF, 0x3F81};
    enum { COUNT = sizeof values / sizeof *values, M = 24, K = 8 };
    for (int unit = 1; next_unit(&unit); unit++)
        for (int turn = 0; turn < 40; turn++) {
            problem p;
            open_unit_problem(&p, (ls_unit)unit, 0, LS_GEMM_NT, M, M, K, 1,
                              OPERANDS_BF16 | (turn % 2 ? ACCUMULATE : 0));
            for (size_t i = 0; i < p.a_elems; i++) {
                uint16_t h[2] = {values[below(COUNT)], values[below(COUNT)]};
                uint32_t wide[2] = {(uint32_t)h[0] << 16, (uint32_t)h[1] << 16};
                if (i >= p.b_elems) break;
                p.a16[i] = h[0];
                p.b16[i] = h[1];
                memcpy(&p.a[i], &wide[0], 4);
                memcpy(&p.b[i], &wide[1], 4);
            }
            for (size_t i = 0; i < p.c_elems; i++) p.c[i] = ldexpf(p.c[i], (int)below(280) - 150);
            free(p.expected);
            expect(&p);
            check_here(&p, NULL);
            close_problem(&p);
        }
}

/* A C of 16 bits has one NaN, whatever the NaN that came in, in whole tiles and at edges. */
static void test_one_nan(void **state) {
    (void)state;
    static const uint32_t nans[] = {0xFFFFFFFF, 0x7F800001, 0xFFC12345, 0x7FFFFFFF};
    for (int unit = 0; next_unit(&unit); unit++)
        for (unsigned turn = 0; turn < 4; turn++) {
            problem p;
            open_unit_problem(&p, (ls_unit)unit, 0, LS_GEMM_NT, 40, 70, 20, 1 + (int)turn,
                              OPERANDS_BF16 | BIAS | (turn % 2 ? C_F16 : C_BF16));
            for (size_t j = turn; j < 70; j += 7) memcpy(&p.bias[j], &nans[j % 4], 4);
            free(p.expected);
            free(p.c16);
            free(p.expected16);
            expect(&p);
            check_here(&p, NULL);
            close_problem(&p);
        }
}

/* By a CPU, thousands of times slower (tests/cuda). */
static bool is_played(void) { return getenv("LS_CUDA_WGMMA") != NULL; }

/* Operands as the TMA of a GPU takes them: around the edges of tiles and steps of k; slices that end with
 * steps, that are alike, and neither; sequences. */
static void test_aligned(void **state) {
    (void)state;
    static const size_t m[] = {8, 64, 72, 128, 136, 200}, n[] = {8, 24, 120, 128, 136, 192, 200, 256, 264};
    static const size_t k[] = {8, 16, 24, 64, 72, 128, 136, 320};
    if (!cuda) skip();
    stride_step = 8;
    for (int turn = 0; turn < (is_played() ? 24 : ls_cuda_has_wgmma(cuda) ? 90 : 3); turn++) {
        ls_gemm_form form = (ls_gemm_form)(turn % 3);
        size_t period = form == LS_GEMM_TN && turn % 2 ? 8 + 8 * below(12) : 0;
        size_t length = period ? period * (1 + below(6)) : k[below(sizeof k / sizeof *k)];
        int slices = turn % 4 == 0 ? 1 : (int)(1 + below(4));
        size_t rows = m[below(sizeof m / sizeof *m)], columns = n[below(sizeof n / sizeof *n)];
        if (turn % 8 == 7)
            rows = 200, columns = 456; /* wide tiles of mma_gemm.cu, if four multiprocessors are played */
        problem p;
        open_unit_problem(&p, unit_of_cuda(), period, form, rows, columns, length, slices, some_options(LS_UNIT_HGMMA));
        check_on_cuda(&p, 0);
        close_problem(&p);
    }
    stride_step = 1;
}

/* Each way that a trial may choose gives these bytes; a GPU that is played has time for those alone that no estimate
 * chooses. */
static int check_ways(ls_gemm *g, const float *c, const void *expected, size_t bytes) {
    void *begin = g->c, *base, *made = room(bytes);
    int ways = 0;
    g->c = on_cuda(c, g->m * g->n, sizeof *c, 0, &base);
    for (ls_cuda_way way = is_played() ? LS_CUDA_WIDE : LS_CUDA_OWN_SECOND; way < LS_CUDA_LIBRARY && !g->accumulate;
         way++) {
        if (!ls_cuda_hgmma_has_way(cuda, g, way)) continue;
        assert_int_equal(ls_device_copy_in(cuda, g->c, c, g->m * g->n * sizeof *c), LS_OK);
        assert_int_equal(ls_cuda_gemm_run_own(cuda, g, way), LS_OK);
        assert_int_equal(ls_device_copy_out(cuda, made, g->c, bytes), LS_OK);
        if (memcmp(made, expected, bytes) != 0)
            fail_msg("way %d of form %d, %zu x %zu x %zu, %d slices", (int)way, (int)g->form, g->m, g->n, g->k,
                     g->slices);
        ways |= 1 << way;
    }
    ls_device_free(cuda, base);
    free(made);
    g->c = begin;
    return ways;
}

/* As many tiles as a GPU has multiprocessors and more, against the kernels for any alignment; one that is played has
 * few of both. */
static void test_many_tiles(void **state) {
    (void)state;
    static const struct {
        ls_gemm_form form;
        size_t m, n, k;
        int slices;
        bool accumulate, has_bias;
        ls_dtype c_dtype;
    } cases[] = {
        /* a tile of 192 goes out while the next is multiplied */
        {LS_GEMM_NT, 5120, 1160, 768, 1, false, true, LS_BF16},
        {LS_GEMM_NN, 5128, 1152, 400, 1, false, false, LS_BF16},
        {LS_GEMM_NT, 5120, 1152, 768, 1, false, true, LS_F32},
        {LS_GEMM_NN, 5120, 1160, 800, 2, false, true, LS_BF16},
        {LS_GEMM_NN, 5128, 1152, 1024, 2, false, false, LS_BF16},
        {LS_GEMM_NT, 5120, 1152, 1024, 2, false, false, LS_F32},
        {LS_GEMM_TN, 5120, 1152, 1024, 2, false, false, LS_F32},
        {LS_GEMM_NT, 2000, 3000, 256, 1, false, false, LS_F32},
        {LS_GEMM_NT, 2560, 4096, 72, 1, true, false, LS_F32},
        {LS_GEMM_NN, 2048, 3200, 640, 2, false, false, LS_F32},
        {LS_GEMM_NN, 1920, 2400, 800, 2, false, false, LS_F32},
        {LS_GEMM_NN, 4096, 1600, 320, 5, false, false, LS_F32},
        {LS_GEMM_NN, 5120, 1600, 784, 2, false, true, LS_BF16}, /* the last tile has 64 columns; slices end within a
                                                                   step */
        {LS_GEMM_NT, 3000, 4104, 2048, 2, false, false, LS_F16},
        {LS_GEMM_TN, 1536, 768, 4096, 8, false, false, LS_F32},
        {LS_GEMM_TN, 768, 768, 8000, 8, false, false, LS_F32},
        {LS_GEMM_TN, 2304, 3000, 1024, 1, true, false, LS_F32},
    };
    if (!cuda || !ls_cuda_has_wgmma(cuda)) skip();
    int ways = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int otherwise = 0; otherwise < (is_played() ? 1 : 2); otherwise++) {
            size_t bounds[LS_GEMM_SLICES_MAX + 1], few = is_played() ? 16 : 1,
                                                   k = cases[i].k / (few > 1 && cases[i].k > 2000 ? 4 : 1);
            size_t m = cases[i].m / few & ~(size_t)7, n = cases[i].n / (few > 1 ? 5 : 1) & ~(size_t)7;
            int slices = cases[i].slices;
            for (int s = 0; s <= slices; s++) bounds[s] = (size_t)s * (k / (size_t)slices);
            bounds[slices] = k;
            float *a = floats(m * k, 0), *b = floats(n * k, 0), *c = floats(m * n, 0), *bias = floats(n, 0), *made[2];
            size_t bytes = m * n * ls_dtype_bytes(cases[i].c_dtype);
            uint16_t *a16 = halves(a, m * k, false), *b16 = halves(b, n * k, false);
            for (int odd = 1; odd >= 0; odd--) {
                void *bases[4];
                ls_gemm g = {.form = cases[i].form, .dtype = LS_BF16, .unit = LS_UNIT_HGMMA, .m = m, .n = n, .k = k};
                g.a = on_cuda(a16, m * k, 2, (size_t)odd, &bases[0]);
                g.b = on_cuda(b16, n * k, 2, (size_t)odd, &bases[1]);
                g.c = on_cuda(c, m * n, 4, 0, &bases[2]);
                g.c_dtype = cases[i].c_dtype;
                g.bias = on_cuda(bias, n, 4, (size_t)odd, &bases[3]);
                if (!cases[i].has_bias) g.bias = NULL;
                g.lda = g.form == LS_GEMM_TN ? m : k;
                g.ldb = g.form == LS_GEMM_NT ? k : n;
                g.ldc = n;
                g.slices = slices;
                g.bounds = slices > 1 ? bounds : NULL;
                g.accumulate = cases[i].accumulate;
                made[odd] = room(bytes);
                assert_int_equal(ls_device_compute_otherwise(cuda, otherwise), LS_OK);
                if (cuda->ops->gemm(cuda, &g) != LS_OK) fail_msg("%s", ls_status_message());
                assert_int_equal(ls_device_copy_out(cuda, made[odd], g.c, bytes), LS_OK);
                if (!odd && !otherwise) ways |= check_ways(&g, c, made[1], bytes);
                for (int j = 0; j < 4; j++) ls_device_free(cuda, bases[j]);
            }
            if (memcmp(made[0], made[1], bytes) != 0) fail_msg("case %zu, %d", i, otherwise);
            free(made[0]);
            free(made[1]);
            free(a);
            free(b);
            free(c);
            free(bias);
            free(a16);
            free(b16);
        }
    assert_true(ways & 1 << LS_CUDA_WIDE && ways & 1 << LS_CUDA_WIDE_CUT); /* compared for some shape */
}

/* The models by hand, on every CPU: 2^24 + 1, where fp32 has steps of 2. */
static void test_models(void **state) {
    (void)state;
    const float big = 0x1p12f;
    float a[32] = {big, 1, 1, 0}, b[32] = {big, 1, 1, 0};
    /* 2^24 + 1 lies between 2^24 and 2^24 + 2, of which the latter is odd; so does that + 1. */
    assert_true(model_bfmmla(0, a, b) == 0x1p24f + 2);
    /* odd first: 1, then 2^24 + 1 to even. */
    assert_true(model_avx512_bf16(0, a, b) == 0x1p24f);
    assert_true(model_avx512_bf16(2, a, b) == 0x1p24f + 4);
    /* even: 2^24 + 1 to even is 2^24; odd: 1; their sum to even. */
    assert_true(model_amx(0, a, b) == 0x1p24f);
    assert_true(model_amx(3, a, b) == 0x1p24f + 4);
    /* All at once, and cut off: 2^24 + 2; ones that are 2^−25 of the largest term count, smaller ones do not. */
    assert_true(model_granule(LS_UNIT_HGMMA, LS_BF16, 0, a, b) == 0x1p24f + 2);
    float many[32], unit_ones[32];
    for (int i = 0; i < 16; i++) many[i] = unit_ones[i] = 1;
    many[0] = 0x1p13f, unit_ones[0] = 0x1p12f;
    assert_true(model_granule(LS_UNIT_HGMMA, LS_BF16, 0, many, unit_ones) == 0x1p25f + 12);
    many[0] = -0x1p13f;
    assert_true(model_granule(LS_UNIT_HGMMA, LS_BF16, 0, many, unit_ones) == -0x1p25f + 16);
    unit_ones[0] = 0x1p13f;
    assert_true(model_granule(LS_UNIT_HGMMA, LS_BF16, 0, many, unit_ones) == -0x1p26f);
    /* Eight at once, and a bit less: ones that are 2^−25 of the largest term do not count. */
    assert_true(model_granule(LS_UNIT_AMPERE, LS_BF16, 0, many, unit_ones) == -0x1p26f);
    unit_ones[0] = 0x1p12f;
    assert_true(model_granule(LS_UNIT_AMPERE, LS_BF16, 0, many, unit_ones) == -0x1p25f);
    many[0] = 0x1p12f;
    assert_true(model_granule(LS_UNIT_AMPERE, LS_BF16, 0, many, unit_ones) == 0x1p24f + 6);
    float tiny[32] = {0x1p-100f, 0x1p-130f}, one[32] = {0x1p-30f, 0x1p30f};
    assert_true(model_bfmmla(0, tiny, one) == 0 && model_avx512_bf16(0, tiny, one) == 0 &&
                model_amx(0, tiny, one) == 0);
}

/* What may not be asked for is refused with its reason, and touches nothing. */
static void test_refused(void **state) {
    (void)state;
    ls_gemm g = {.dtype = LS_F32, .unit = LS_UNIT_BFMMLA};
    assert_int_equal(ls_gemm_check(&g), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "bf16 only"));
    g = (ls_gemm){.dtype = LS_BF16, .c_dtype = LS_BF16, .accumulate = true};
    assert_int_equal(ls_gemm_check(&g), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "fp32"));
    g = (ls_gemm){.dtype = LS_BF16, .c_dtype = LS_F16, .siblings = 1};
    assert_int_equal(ls_gemm_check(&g), LS_ERR_INPUT);
    g = (ls_gemm){.dtype = LS_I64};
    assert_int_equal(ls_gemm_check(&g), LS_ERR_INPUT);
    g = (ls_gemm){.dtype = LS_F16, .c_dtype = LS_F16};
    assert_int_equal(ls_gemm_check(&g), LS_OK);
    for (int unit = 0; unit < LS_UNITS; unit++) {
        g = (ls_gemm){.dtype = LS_BF16, .unit = (ls_unit)unit};
        assert_int_equal(ls_gemm_check(&g), ls_unit_is_here((ls_unit)unit) ? LS_OK : LS_ERR_INPUT);
        if (!ls_unit_is_here((ls_unit)unit)) assert_non_null(strstr(ls_status_message(), "it has: chain"));
    }
}

static void test_names(void **state) {
    (void)state;
    static const size_t granule[LS_UNITS] = {1, 4, 2, 32, 16, 8, 8, 16};
    ls_unit found = LS_UNITS;
    for (int unit = 0; unit < LS_UNITS; unit++) {
        assert_int_equal(ls_unit_parse(ls_unit_name((ls_unit)unit), &found), LS_OK);
        assert_int_equal(found, unit);
        assert_int_equal(ls_unit_granule(found), granule[unit]);
    }
    assert_int_equal(ls_unit_parse("tensor", &found), LS_ERR_INPUT);
    assert_string_equal(ls_status_message(),
                        "unknown matrix unit 'tensor'; choose one of: chain, bfmmla, avx512-bf16, amx, hgmma, "
                        "ampere, ada, blackwell");
    assert_string_equal(ls_unit_name(LS_UNITS), "unknown");
    assert_true(ls_unit_is_here(LS_UNIT_CHAIN) && !ls_unit_is_here(LS_UNITS));
}

/* The formula as any CPU computes it, here, and the kernel that was chosen for this one. */
static void test_tensor_core_twins(void **state) {
    (void)state;
    for (int turn = 0; turn < 400; turn++) {
        ls_gemm_kernels chosen;
        uint16_t a[TILE][GRANULE], b[TILE][GRANULE];
        float plain[TILE][TILE], other[TILE][TILE];
        /* Exponents near each other, near one end or anywhere, infinities and NaN too. */
        const uint16_t mask = turn / 4 % 4 == 0 ? 0xFFFF : turn / 4 % 4 == 1 ? 0x83FF : 0xBFFF;
        for (int i = 0; i < TILE; i++)
            for (int k = 0; k < GRANULE; k++) {
                a[i][k] = (uint16_t)below(65536) & mask;
                b[i][k] = (uint16_t)below(65536) & mask;
            }
        for (int i = 0; i < TILE; i++)
            for (int j = 0; j < TILE; j++)
                plain[i][j] = other[i][j] = ldexpf((float)below(1000) - 500, (int)below(40) - 20);
        const format formats[2][2] = {{format_bf16, format_f16}, {ampere_bf16, ampere_f16}};
        const int is_ampere = turn / 2 % 2, is_f16 = turn % 2;
        ls_gemm_kernels_fill_tensor_core(&chosen, is_ampere ? LS_UNIT_AMPERE : LS_UNIT_HGMMA,
                                         is_f16 ? LS_F16 : LS_BF16);
        add_granules(plain[0], TILE, a[0], b[0], formats[is_ampere][is_f16]);
        chosen.micro(GRANULE, a, b,
                     &(ls_gemm_tile){.start = other[0], .ldstart = TILE, .out = other[0], .ldout = TILE});
        for (int i = 0; i < TILE; i++)
            for (int j = 0; j < TILE; j++)
                if (!isnan(plain[i][j]) || !isnan(other[i][j]))
                    assert_memory_equal(&plain[i][j], &other[i][j], sizeof(float));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),     cmocka_unit_test(test_models),     cmocka_unit_test(test_refused),
        cmocka_unit_test(test_loops),     cmocka_unit_test(test_shapes),     cmocka_unit_test(test_special),
        cmocka_unit_test(test_sequences), cmocka_unit_test(test_cuts),       cmocka_unit_test(test_cuts_matter),
        cmocka_unit_test(test_aligned),   cmocka_unit_test(test_many_tiles), cmocka_unit_test(test_rectangles),
        cmocka_unit_test(test_one_nan),   cmocka_unit_test(test_long),       cmocka_unit_test(test_tensor_core_twins),
    };
    return cmocka_run_group_tests(tests, open_pools, close_pools);
}
