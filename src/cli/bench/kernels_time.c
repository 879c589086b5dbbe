/* kernels_time.c: what the parts of `lockstep bench kernels` share: names, rows, clock and memory. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "cli/bench/comm.h"
#include "cli/bench/kernels.h"

enum { SAMPLES = 5, REPEATS_MAX = 20000 };

static const char *const family_names[LS_KBENCH_FAMILY_COUNT] = {
    [LS_KBENCH_GEMM] = "gemm",       [LS_KBENCH_ATTENTION] = "attention",
    [LS_KBENCH_NORM] = "norm",       [LS_KBENCH_ACT] = "act",
    [LS_KBENCH_ROPE] = "rope",       [LS_KBENCH_EMBED] = "embed",
    [LS_KBENCH_LOSS] = "loss",       [LS_KBENCH_OPTIM] = "optim",
    [LS_KBENCH_CONVERT] = "convert", [LS_KBENCH_MATH] = "math",
    [LS_KBENCH_ADD] = "add",
};

const char *ls_kbench_family_name(ls_kbench_family family) { return family_names[family]; }

static int find_family(const char *name, size_t chars) {
    int f = 0;
    while (f < LS_KBENCH_FAMILY_COUNT &&
           (strlen(family_names[f]) != chars || memcmp(family_names[f], name, chars) != 0))
        f++;
    return f;
}

ls_status ls_kbench_families_read(const char *list, bool has[LS_KBENCH_FAMILY_COUNT]) {
    bool all = list == NULL || list[0] == '\0' || strcmp(list, "all") == 0;
    for (int f = 0; f < LS_KBENCH_FAMILY_COUNT; f++) has[f] = all;
    if (all) return LS_OK;
    for (const char *name = list;; name++) {
        size_t chars = strcspn(name, ",");
        int f = find_family(name, chars);
        if (f == LS_KBENCH_FAMILY_COUNT)
            return ls_fail(LS_ERR_INPUT,
                           "'%.*s' is not a kernel family; choose from gemm, attention, norm, act, rope, embed, loss, "
                           "optim, convert, math and add",
                           (int)(chars > 80 ? 80 : chars), name);
        has[f] = true;
        name += chars;
        if (*name == '\0') return LS_OK;
    }
}

ls_kbench_row *ls_kbench_row_add(ls_kbench_rows *rows, ls_kbench_family family, int threads) {
    if (rows->count == LS_KBENCH_ROWS_MAX) return NULL;
    ls_kbench_row *row = &rows->row[rows->count++];
    *row = (ls_kbench_row){.family = family, .threads = threads, .group = -1 - (int)family};
    return row;
}

static double time_batch(void (*call)(void *ctx), void *ctx, int repeats) {
    double start = ls_clock_seconds();
    for (int i = 0; i < repeats; i++) call(ctx);
    return (ls_clock_seconds() - start) / repeats;
}

double ls_kbench_time(const ls_kbench_env *env, void (*call)(void *ctx), void *ctx) {
    double times[SAMPLES], once = time_batch(call, ctx, 1);
    if (once < 1e-9) once = 1e-9;
    double fit = env->sample_s / once; /* calls that fit, if they are no faster than the first */
    double each = fit / SAMPLES;
    int samples = fit < 1 ? 1 : fit < SAMPLES ? (int)fit : SAMPLES;
    int repeats = each < 1 ? 1 : each > REPEATS_MAX ? REPEATS_MAX : (int)each;
    for (int s = 0; s < samples; s++) times[s] = time_batch(call, ctx, repeats);
    return ls_bench_median(times, samples);
}

ls_status ls_kbench_alloc(size_t bytes, void **out) {
    *out = NULL;
    if (posix_memalign(out, 64, bytes > 0 ? bytes : 64) != 0) {
        *out = NULL;
        return ls_fail(LS_ERR_RESOURCE, "out of memory: %zu bytes needed for the measurement; try --quick", bytes);
    }
    return LS_OK;
}

float ls_kbench_value(size_t i) { return (float)((uint32_t)i * 2654435761u >> 22) / 512.0f - 1.0f; }
