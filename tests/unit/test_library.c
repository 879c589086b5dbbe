/* test_library.c: GEMMs of the unit hgmma through cuBLASLt: used if the bits are ours and it is faster; not used if one
 * bit differs, if it is slower, if the GEMM has an epilogue, in audits, or if it is disabled. The choice is kept in a
 * file; a damaged file is replaced. The result is always that of the unit's model.
 *
 * LS_TEST_LT=plays: with the library of the tests (tests/cuda/libcublaslt.c) on a GPU that a CPU plays;
 * LS_TEST_LT=none: there is none that works. Else, with LS_TEST_CUDA, on a GPU with its own library, whatever that is
 * good for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <dirent.h>
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/log.h"
#include "device/cuda/args/compare.h"
#include "device/cuda/ops/library.h"

#include "gemm_problem.h"

static char folder[64];

static bool plays(void) { return getenv("LS_TEST_LT") && strcmp(getenv("LS_TEST_LT"), "plays") == 0; }

static void set(const char *name, const char *value) { assert_int_equal(setenv(name, value, 1), 0); }

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/test_library.XXXXXX");
    if (!mkdtemp(folder)) return -1;
    set("LS_CUBLASLT", "always");
    if (getenv("LS_TEST_VERBOSE")) ls_log_set_sink(ls_log_stderr, NULL);
    if (getenv("LS_TEST_VERBOSE")) ls_log_set_level(LS_LOG_DEBUG);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

/* Products of the library so far: the right ones, and all. */
static int asked(int *right) {
    void *library = dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_NOLOAD);
    const int *played = library ? dlsym(library, "ls_lt_played") : NULL;
    *right = played ? played[0] : 0;
    return played ? played[0] + played[1] + played[2] + played[3] : 0;
}

static void forget(void) {
    char path[96];
    static int caches;
    snprintf(path, sizeof path, "%s/cache%d", folder, caches++);
    set("XDG_CACHE_HOME", path);
}

/* Opens the GPU, makes the product `times` times, closes it. Each time it is also made as for an audit, by our own
 * kernels. Gives the products of the library in the last time, all of which are right; *all of all times. */
static int products_of(const problem *p, int times, int *all) {
    int last = 0, right, right_before, begin = asked(&right);
    assert_int_equal(ls_device_open_cuda(0, &cuda), LS_OK);
    for (int i = 0; i < times; i++) {
        int before = asked(&right_before);
        check_on_cuda(p, 0);
        last = asked(&right) - before;
        if (i == 2) assert_int_equal(right - right_before, last);
        before = asked(&right);
        check_on_cuda(p, 0); /* every other time as audits do */
        assert_int_equal(asked(&right), before);
    }
    ls_device_destroy(cuda);
    cuda = NULL;
    if (all) *all = asked(&right) - begin;
    return last;
}

static int chosen(const char *how, ls_gemm_form form, size_t m, size_t n, size_t k, int slices, unsigned options,
                  int *all) {
    problem p;
    forget();
    set("LS_LT_PLAYS", how);
    open_unit_problem(&p, LS_UNIT_HGMMA, 0, form, m, n, k, slices, options);
    int last = products_of(&p, 3, all);
    close_problem(&p);
    return last;
}

static void test_taken(void **state) {
    (void)state;
    int all;
    if (!plays()) skip();
    for (int form = LS_GEMM_NN; form <= LS_GEMM_TN; form++) {
        assert_int_equal(chosen("equal", (ls_gemm_form)form, 9, 13, 40, 1, OPERANDS_BF16 | C_BF16, &all), 1);
        assert_int_equal(chosen("equal", (ls_gemm_form)form, 7, 8, 33, 1, OPERANDS_F16 | C_F16, &all), 1);
        /* To C, and to another. */
        assert_int_equal(chosen("equal", (ls_gemm_form)form, 5, 16, 16, 1, OPERANDS_BF16, &all), 1);
        assert_int_not_equal(chosen("equal", (ls_gemm_form)form, 6, 9, 48, 2, OPERANDS_BF16, &all), 0);
        assert_int_equal(chosen("equal", (ls_gemm_form)form, 6, 9, 48, 3, OPERANDS_BF16 | BIAS | C_BF16, &all), 1);
    }
}

static void test_siblings(void **state) {
    (void)state;
    int taken = 0;
    if (!plays()) skip();
    for (int i = 0; i < 6; i++) {
        problem p;
        forget();
        set("LS_LT_PLAYS", "equal");
        open_unit_problem(&p, LS_UNIT_HGMMA, 0, LS_GEMM_TN, 9, 8, 32, 1, OPERANDS_BF16 | SIBLINGS | (i % 2 ? OWN : 0));
        int last = products_of(&p, 3, NULL);
        assert_int_equal(last, p.g.siblings == 1);
        taken += last;
        close_problem(&p);
    }
    assert_int_not_equal(taken, 0);
}

static void test_not_taken(void **state) {
    (void)state;
    int all;
    if (!plays()) skip();
    assert_int_equal(chosen("differs", LS_GEMM_NT, 9, 13, 40, 1, OPERANDS_BF16, &all), 0);
    assert_int_not_equal(all, 0); /* it was tried */
    assert_int_equal(chosen("differs", LS_GEMM_TN, 9, 13, 40, 2, OPERANDS_BF16, &all), 0);
    set("LS_CUBLASLT", "any");
    assert_int_equal(chosen("slow", LS_GEMM_NT, 9, 13, 40, 1, OPERANDS_BF16, &all), 0);
    assert_int_not_equal(all, 0);
    set("LS_CUBLASLT", "always");
    assert_int_equal(chosen("mixed", LS_GEMM_NT, 9, 13, 40, 1, OPERANDS_BF16, &all), 1);
    stride_step = 8;
    size_t padded = 0;
    while (!padded) { /* rows of C with something behind them */
        problem p;
        forget();
        set("LS_LT_PLAYS", "gaps");
        open_unit_problem(&p, LS_UNIT_HGMMA, 0, LS_GEMM_NT, 9, 16, 40, 1, OPERANDS_BF16);
        padded = p.g.ldc - p.g.n;
        if (padded) assert_int_equal(products_of(&p, 3, &all), 0);
        close_problem(&p);
    }
    stride_step = 1;
}

static void test_not_plain(void **state) {
    (void)state;
    int all;
    if (!plays()) skip();
    chosen("equal", LS_GEMM_NT, 9, 13, 40, 1, OPERANDS_BF16 | BIAS, &all);
    assert_int_equal(all, 0);
    chosen("equal", LS_GEMM_NT, 9, 13, 40, 1, OPERANDS_BF16 | ACCUMULATE, &all);
    assert_int_equal(all, 0);
    chosen("equal", LS_GEMM_NN, 9, 13, 41, 2, OPERANDS_BF16, &all); /* slices of 20 and 21 */
    assert_int_equal(all, 0);
    problem p; /* sequences of 10: each ends a granule */
    open_unit_problem(&p, LS_UNIT_HGMMA, 10, LS_GEMM_TN, 9, 13, 40, 1, OPERANDS_BF16);
    products_of(&p, 3, &all);
    assert_int_equal(all, 0);
    close_problem(&p);
    set("LS_CUBLASLT", "no");
    chosen("equal", LS_GEMM_NT, 9, 13, 40, 1, OPERANDS_BF16, &all);
    assert_int_equal(all, 0);
    assert_int_equal(unsetenv("LS_CUBLASLT"), 0); /* too small for a trial */
    chosen("equal", LS_GEMM_NT, 9, 13, 40, 1, OPERANDS_BF16, &all);
    assert_int_equal(all, 0);
    set("LS_CUBLASLT", "always");
}

/* The one file of choices. */
static ls_path choices_path(void) {
    ls_path within = ls_path_format("%s/lockstep/cuda", getenv("XDG_CACHE_HOME")), found = {""};
    DIR *dir = opendir(within.text);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));)
        if (strncmp(e->d_name, "products-", 9) == 0) found = ls_path_in(within.text, e->d_name);
    closedir(dir);
    assert_true(found.text[0]);
    return found;
}

static void test_file(void **state) {
    (void)state;
    int all;
    problem p;
    if (!plays()) skip();
    forget();
    set("LS_LT_PLAYS", "equal");
    open_unit_problem(&p, LS_UNIT_HGMMA, 0, LS_GEMM_NT, 9, 13, 40, 1, OPERANDS_BF16);
    int taken = products_of(&p, 2, &all); /* with the second comes the trial */
    assert_int_equal(taken, all);
    assert_int_equal(all, 2);
    assert_int_equal(products_of(&p, 1, &all), 1); /* no trial any more */
    set("LS_LT_PLAYS", "slow");
    assert_int_equal(products_of(&p, 1, &all), 0); /* the one that was kept is not guessed any more */
    set("LS_LT_PLAYS", "equal");
    char *data;
    size_t bytes;
    ls_path path = choices_path();
    assert_int_equal(ls_file_read(path.text, 1 << 20, &data, &bytes), LS_OK);
    for (size_t at = 0; at < bytes; at += bytes / 7) { /* any byte that is another */
        data[at] ^= 16;
        assert_int_equal(ls_file_write_atomic(path.text, data, bytes), LS_OK);
        data[at] ^= 16;
        assert_int_equal(products_of(&p, 1, &all), 0);
    }
    assert_int_equal(ls_file_write_atomic(path.text, data, bytes / 2), LS_OK); /* half of it */
    assert_int_equal(products_of(&p, 1, &all), 0);
    assert_int_equal(products_of(&p, 2, &all), 2); /* measured again */
    assert_int_equal(products_of(&p, 1, &all), 1);
    /* Another product is added to it. */
    problem q;
    open_unit_problem(&q, LS_UNIT_HGMMA, 0, LS_GEMM_TN, 8, 8, 16, 1, OPERANDS_BF16);
    (void)products_of(&q, 2, &all);
    assert_int_equal(products_of(&p, 1, &all), 1);
    assert_int_equal(products_of(&q, 1, &all), 1);
    close_problem(&q);
    close_problem(&p);
    free(data);
}

/* A trial launches one by one, with graphs too: they would be made while it takes times, and what the GPU refuses would
 * be an error of the run. */
static int refused, noted;
static ls_status launch_too_much(ls_device *device, const ls_gemm *g, ls_cuda_way way) {
    ls_cuda_compare args = {0};
    (void)g, (void)way;
    ls_status status = ls_cuda_launch(device, LS_CUDA_compare, (ls_cuda_grid){1, 1, 1}, 1 << 20, 0, &args);
    refused += status != LS_OK;
    noted += status == LS_OK;
    return LS_OK;
}

static void test_one_by_one(void **state) {
    (void)state;
    problem p;
    const ls_cuda_gemm args = {0}; /* not read where the product has one slice */
    bool is_done;
    if (!plays()) skip();
    forget();
    set("LS_LT_PLAYS", "equal");
    open_unit_problem(&p, LS_UNIT_HGMMA, 0, LS_GEMM_NT, 9, 13, 40, 1, OPERANDS_BF16);
    assert_int_equal(ls_device_open_cuda(0, &cuda), LS_OK);
    assert_int_equal(ls_device_use_graphs(cuda, LS_GRAPHS_ON), LS_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(ls_cuda_library_run(cuda, &p.g, &args, launch_too_much, &is_done), LS_OK);
    assert_int_not_equal(refused, 0);
    assert_int_equal(noted, 0);
    assert_int_equal(launch_too_much(cuda, NULL, LS_CUDA_OWN), LS_OK); /* after the trial it is as before */
    assert_int_equal(noted, 1);
    assert_int_not_equal(ls_device_finish(cuda), LS_OK);
    ls_device_destroy(cuda);
    cuda = NULL;
    close_problem(&p);
}

/* Without a library that works. */
static void test_none(void **state) {
    (void)state;
    int all;
    if (!getenv("LS_TEST_LT") || plays()) skip();
    chosen("equal", LS_GEMM_NT, 9, 13, 40, 1, OPERANDS_BF16, &all);
    assert_int_equal(all, 0);
}

/* On a GPU with whatever library there is. */
static void test_here(void **state) {
    (void)state;
    static const struct {
        ls_gemm_form form;
        size_t m, n, k;
        int slices;
        unsigned options;
    } cases[] = {
        {LS_GEMM_NT, 264, 328, 512, 1, C_BF16},
        {LS_GEMM_NN, 256, 200, 1000, 1, C_BF16},
        {LS_GEMM_TN, 264, 136, 2048, 1, 0},
        {LS_GEMM_TN, 128, 136, 4096, 2, 0},
        {LS_GEMM_TN, 128, 136, 4096, 8, 0},
        {LS_GEMM_NN, 256, 200, 1024, 2, C_BF16},
        {LS_GEMM_TN, 136, 264, 1024, 1, SIBLINGS},
        {LS_GEMM_NT, 129, 257, 513, 1, 0},
        {LS_GEMM_TN, 136, 264, 1024, 1, SIBLINGS | OWN},
    };
    if (!getenv("LS_TEST_CUDA") || getenv("LS_TEST_LT")) skip();
    stride_step = 8;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (unsigned type = 0; type < 2; type++) {
            problem p;
            unsigned options = cases[i].options | (type ? OPERANDS_F16 : OPERANDS_BF16);
            if (type && options & C_BF16) options ^= C_BF16 | C_F16;
            forget();
            open_unit_problem(&p, LS_UNIT_HGMMA, 0, cases[i].form, cases[i].m, cases[i].n, cases[i].k, cases[i].slices,
                              options);
            (void)products_of(&p, 3, NULL);
            close_problem(&p);
        }
    stride_step = 1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_taken),     cmocka_unit_test(test_siblings), cmocka_unit_test(test_not_taken),
        cmocka_unit_test(test_not_plain), cmocka_unit_test(test_file),     cmocka_unit_test(test_one_by_one),
        cmocka_unit_test(test_none),      cmocka_unit_test(test_here),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
