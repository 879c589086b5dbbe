/* test_cpu.c: features, the choice of ISA, and the number of cores under masks and quotas. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/cpu.h"
#include "base/log.h"
#include "scratch.h"

static void detects_what_the_compiler_assumes(void **state) {
    (void)state;
    const ls_cpu *cpu = ls_cpu_detect();
    assert_ptr_equal(cpu, ls_cpu_detect());
    assert_true(strlen(cpu->model) > 0);
#if defined(__aarch64__)
    assert_true(cpu->neon);
    assert_false(cpu->avx2 || cpu->avx512f || cpu->amx_tile);
#else
    assert_false(cpu->neon || cpu->sve);
    assert_int_equal(cpu->avx2, __builtin_cpu_supports("avx2") != 0);
    assert_int_equal(cpu->fma, __builtin_cpu_supports("fma") != 0);
    assert_int_equal(cpu->avx512f, __builtin_cpu_supports("avx512f") != 0);
    assert_int_equal(cpu->avx512bw, __builtin_cpu_supports("avx512bw") != 0);
    assert_int_equal(cpu->avx512dq, __builtin_cpu_supports("avx512dq") != 0);
    assert_int_equal(cpu->avx512vl, __builtin_cpu_supports("avx512vl") != 0);
#endif
}

static ls_status set_isa(const char *name) {
    ls_isa isa;
    LS_TRY(ls_isa_parse(name, &isa));
    return ls_cpu_set_isa(isa);
}

static void isa_is_chosen_by_name(void **state) {
    (void)state;
    assert_int_equal(set_isa("portable"), LS_OK);
    assert_int_equal(ls_cpu_isa_mask(), 1u << LS_ISA_PORTABLE);
    for (int isa = LS_ISA_NEON; isa < LS_ISA_COUNT; isa++) assert_false(ls_cpu_use((ls_isa)isa));
#if defined(__aarch64__)
    assert_int_equal(set_isa("neon"), LS_OK);
    assert_true(ls_cpu_use(LS_ISA_NEON) && ls_cpu_use(LS_ISA_PORTABLE));
    assert_false(ls_cpu_use(LS_ISA_AVX2));
    const char *absent = "avx2";
#else
    if (set_isa("avx512") == LS_OK) assert_true(ls_cpu_use(LS_ISA_AVX2) && ls_cpu_use(LS_ISA_AVX512));
    if (set_isa("avx2") == LS_OK) assert_false(ls_cpu_use(LS_ISA_AVX512));
    const char *absent = "neon";
#endif
    unsigned before = ls_cpu_isa_mask();
    assert_int_equal(set_isa(absent), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), absent));
    assert_non_null(strstr(ls_status_message(), "auto, portable"));
    assert_int_equal(set_isa("mmx"), LS_ERR_INPUT);
    assert_int_equal(set_isa(""), LS_ERR_INPUT);
    assert_int_equal(ls_cpu_isa_mask(), before);
    assert_int_equal(set_isa("auto"), LS_OK);
    assert_true(ls_cpu_use(LS_ISA_PORTABLE));
    assert_int_equal(ls_cpu_use(LS_ISA_NEON), ls_cpu_detect()->neon);
}

static void names_cover_all(void **state) {
    (void)state;
    assert_string_equal(ls_isa_name(LS_ISA_AVX512), "avx512");
    assert_string_equal(ls_isa_name((ls_isa)77), "unknown");
}

static int lines_seen;
static void count_line(void *ctx, ls_log_level level, const char *line, size_t bytes) {
    (void)ctx, (void)level, (void)line, (void)bytes;
    lines_seen++;
}

/* Runs before anything asked for the ISA, in a process of its own each time. */
static int child_mask(const char *variable) {
    pid_t child = fork();
    if (child == 0) {
        ls_log_set_sink(count_line, NULL);
        if (variable)
            setenv("LS_ISA", variable, 1);
        else
            unsetenv("LS_ISA");
        unsigned mask = ls_cpu_isa_mask();
        _exit((int)(mask | (lines_seen > 0 ? 128u : 0u)));
    }
    int result = 0;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    return WEXITSTATUS(result);
}

static void environment_gives_the_default(void **state) {
    (void)state;
    int all = child_mask(NULL);
    assert_int_equal(child_mask("auto"), all);
    assert_int_equal(child_mask(""), all);
    assert_int_equal(child_mask("portable"), 1u << LS_ISA_PORTABLE);
    assert_int_equal(child_mask("nonsense"), all | 128);
}

/* ---- cores ------------------------------------------------------------------------------------------------------- */

static void put(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s", in_folder(name));
    for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        (void)mkdir(path, 0777);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int quota_now(void) { return ls_cpu_quota(in_folder("sys"), in_folder("self")); }

static void quota_of_version_2(void **state) {
    (void)state;
    assert_int_equal(quota_now(), 0); /* no file at all */
    put("self", "0::/a/b\n");
    put("sys/cpu.max", "max 100000\n");
    assert_int_equal(quota_now(), 0);
    put("sys/a/cpu.max", "250000 100000\n");
    assert_int_equal(quota_now(), 3);
    put("sys/a/b/cpu.max", "400000 100000\n");
    assert_int_equal(quota_now(), 3); /* the parent is stricter */
    put("sys/a/b/cpu.max", "10000 100000\n");
    assert_int_equal(quota_now(), 1);
    put("self", "0::/not/mounted/here\n");
    put("sys/cpu.max", "200000 100000\n");
    assert_int_equal(quota_now(), 2);
    put("self", "0::/\n");
    assert_int_equal(quota_now(), 2);
}

static void quota_of_version_1(void **state) {
    (void)state;
    put("self", "5:cpuset:/box\n4:cpu,cpuacct:/box\n1:name=systemd:/box\n");
    put("sys/cpuset/box/cpu.cfs_quota_us", "100000\n");
    put("sys/cpuset/box/cpu.cfs_period_us", "100000\n");
    assert_int_equal(quota_now(), 0); /* not the CPU controller */
    put("sys/cpu,cpuacct/box/cpu.cfs_quota_us", "-1\n");
    put("sys/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
    assert_int_equal(quota_now(), 0);
    put("sys/cpu,cpuacct/box/cpu.cfs_quota_us", "150000\n");
    assert_int_equal(quota_now(), 2);
    put("self", "garbage\n\n4:cpu\n");
    assert_int_equal(quota_now(), 0);
}

static void mask_limits_the_count(void **state) {
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_true(ls_cpu_count() >= 1);
    assert_true(ls_cpu_count() <= CPU_COUNT(&before));
    int cpu = 0;
    while (!CPU_ISSET(cpu, &before)) cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    int count = ls_cpu_count();
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(count, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(environment_gives_the_default),
        cmocka_unit_test(detects_what_the_compiler_assumes),
        cmocka_unit_test(isa_is_chosen_by_name),
        cmocka_unit_test(names_cover_all),
        cmocka_unit_test_setup_teardown(quota_of_version_2, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(quota_of_version_1, make_folder, remove_folder),
        cmocka_unit_test(mask_limits_the_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
