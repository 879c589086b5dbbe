/* kernels.c: rows, rounds and the peer program of `lockstep bench kernels`. */
#include "lab/bench/kernels.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "device/cpu/peak.h"

static const char *const family_names[LS_KBENCH_FAMILY_COUNT] = {
    [LS_KBENCH_GEMM] = "gemm",       [LS_KBENCH_ATTENTION] = "attention",
    [LS_KBENCH_NORM] = "norm",       [LS_KBENCH_ACT] = "act",
    [LS_KBENCH_ROPE] = "rope",       [LS_KBENCH_EMBED] = "embed",
    [LS_KBENCH_LOSS] = "loss",       [LS_KBENCH_OPTIM] = "optim",
    [LS_KBENCH_CONVERT] = "convert", [LS_KBENCH_MATH] = "math",
    [LS_KBENCH_ADD] = "add",
};

const char *ls_kbench_family_name(ls_kbench_family family) { return family_names[family]; }

ls_status ls_kbench_families_read(const char *list, bool has[LS_KBENCH_FAMILY_COUNT]) {
    const char *unknown = ls_bench_names_read(list, family_names, LS_KBENCH_FAMILY_COUNT, has);
    if (!unknown) return LS_OK;
    size_t chars = strcspn(unknown, ",");
    return ls_fail(LS_ERR_INPUT,
                   "'%.*s' is not a kernel family; choose from gemm, attention, norm, act, rope, embed, loss, optim, "
                   "convert, math and add",
                   (int)(chars > 80 ? 80 : chars), unknown);
}

/* ---- what the parts share ---------------------------------------------------------------------------------------- */

ls_status ls_kbench_row_add(ls_kbench_rows *rows, ls_kbench_family family, int threads, ls_kbench_row **out) {
    if (rows->count == LS_KBENCH_ROWS_MAX)
        return ls_fail(LS_ERR_FAILED, "more than %d measurements", LS_KBENCH_ROWS_MAX);
    *out = &rows->row[rows->count++];
    **out = (ls_kbench_row){.family = family, .threads = threads, .group = -1 - (int)family};
    return LS_OK;
}

ls_status ls_kbench_time(const ls_kbench_env *env, ls_timer_call call, void *ctx, double *seconds) {
    enum { SAMPLES = 5 };
    ls_timer timer = {
        .sample_s = env->sample_s / SAMPLES, .total_s = env->sample_s, .samples_min = 1, .samples_max = SAMPLES};
    ls_timing timing;
    LS_TRY(ls_timer_run(&timer, call, ctx, &timing));
    *seconds = ls_median(timing.seconds, (size_t)timing.samples);
    return LS_OK;
}

ls_status ls_kbench_alloc(size_t bytes, void **out) {
    *out = NULL;
    if (posix_memalign(out, 64, bytes > 0 ? bytes : 64) != 0) {
        *out = NULL;
        return ls_fail(LS_ERR_RESOURCE, "out of memory: %zu bytes needed for the measurement; try --quick", bytes);
    }
    return LS_OK;
}

double ls_kbench_fma_rate(const ls_kbench_env *env) {
    double rates[LS_CPU_PEAK_TRIES];
    bool known = ls_cpu_peak_measure(env->pool, LS_UNIT_CHAIN, env->sample_s, rates);
    return known ? ls_median(rates, LS_CPU_PEAK_TRIES) : 0;
}

/* ---- the peer ---------------------------------------------------------------------------------------------------- */

/* Rows first … end−1 and the round that the times are for. */
typedef struct reading {
    ls_kbench_row *rows;
    int first, end, round;
} reading;

/* Reads a line "NT m n k seconds" of the peer; false: not one of the rows. */
static bool read_kernel_result(void *ctx, const char *line) {
    const reading *r = ctx;
    char form[3];
    size_t m = 0, n = 0, k = 0;
    double seconds = 0;
    if (sscanf(line, "%2s %zu %zu %zu %lf", form, &m, &n, &k, &seconds) != 5) return false;
    if (!isfinite(seconds) || seconds <= 0) return false;
    for (int i = r->first; i < r->end; i++) {
        const ls_kbench_shape *s = &r->rows[i].shape;
        if (!r->rows[i].for_peer || s->m != m || s->n != n || s->k != k) continue;
        if (strcmp(ls_gemm_form_names[s->form], form) != 0) continue;
        r->rows[i].peer_seconds[r->round] = seconds;
        return true;
    }
    return false;
}

/* Checks that the peer printed a time for each of its rows. */
static ls_status check_complete(const char *path, const ls_kbench_row *rows, int first, int end, int round) {
    for (int i = first; i < end; i++)
        if (rows[i].for_peer && rows[i].peer_seconds[round] <= 0)
            return ls_fail(LS_ERR_FAILED, "%s printed no time for %s", path, rows[i].name);
    return LS_OK;
}

/* Runs `path THREADS form:MxNxK…` for the rows first … end − 1 that the peer can measure, on the CPUs of lockstep's
 * threads; without them it would inherit the single CPU of the calling thread. */
static ls_status run_peer_once(ls_kbench *b, int first, int end, const cpu_set_t *cpus) {
    ls_kbench_row *rows = b->rows.row;
    reading r = {.rows = rows, .first = first, .end = end, .round = b->env.round};
    ls_bench_program program = {.cpus = cpus,
                                .called = b->peer.path,
                                .line_form = "NT m n k seconds",
                                .read_line = read_kernel_result,
                                .ctx = &r};
    ls_bench_program_add(&program, "%s", b->peer.path);
    ls_bench_program_add(&program, "%d", b->env.threads);
    for (int i = first; i < end; i++) {
        const ls_kbench_shape *s = &rows[i].shape;
        if (rows[i].for_peer)
            ls_bench_program_add(&program, "%s:%zux%zux%zu", ls_gemm_form_names[s->form], s->m, s->n, s->k);
    }
    LS_TRY(ls_bench_program_run(&program, b->peer.library));
    return check_complete(b->peer.path, rows, first, end, b->env.round);
}

/* Runs the peer for a group of rows, unless it has failed before or cannot measure them. A failure is a warning, and
 * the last attempt. */
static void run_peer(ls_kbench *b, int first, int end) {
    const int *cpus = ls_placement_cpus(&b->placement, 0);
    cpu_set_t set = b->all_cpus;
    if (!b->peer.path || b->peer.failed || !b->rows.row[first].for_peer) return;
    if (cpus != NULL) {
        CPU_ZERO(&set);
        for (int t = 0; t < b->env.threads; t++) CPU_SET(cpus[t], &set);
    }
    b->say(b, "peer");
    if (run_peer_once(b, first, end, &set) == LS_OK) return;
    b->say(b, NULL);
    ls_log_warn("cannot compare with the peer: %s", ls_status_message());
    b->peer.failed = true;
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

/* Adds the rows of all chosen families for env.threads. */
static ls_status list_rows(ls_kbench *b) {
    int threads = b->env.threads;
    if (b->has_family[LS_KBENCH_GEMM]) LS_TRY(ls_kbench_gemm_list(&b->rows, threads, b->quick));
    if (b->has_family[LS_KBENCH_ATTENTION]) LS_TRY(ls_kbench_attention_list(&b->rows, threads, b->quick));
    for (int f = LS_KBENCH_NORM; f < LS_KBENCH_FAMILY_COUNT; f++)
        if (b->has_family[f]) LS_TRY(ls_kbench_stream_list(&b->rows, (ls_kbench_family)f, threads, b->quick));
    return LS_OK;
}

/* Measures a row and its yardstick in this round. */
static ls_status measure_row(const ls_kbench_env *env, ls_kbench_row *row) {
    switch (row->family) {
    case LS_KBENCH_GEMM: return ls_kbench_gemm_measure(env, row);
    case LS_KBENCH_ATTENTION: return ls_kbench_attention_measure(env, row);
    default: return ls_kbench_stream_measure(env, row);
    }
}

/* Measures all rows of this count once, each group followed by the peer. */
static ls_status run_round(ls_kbench *b, int index, int first) {
    double peak = ls_cpu_peak(b->env.pool, LS_UNIT_CHAIN, b->env.sample_s), *best = &b->peak_flops_s[index];
    if (peak > *best) *best = peak;
    for (int begin = first, end = first; begin < b->rows.count; begin = end) {
        for (; end < b->rows.count && b->rows.row[end].group == b->rows.row[begin].group; end++) {
            b->say(b, b->rows.row[end].name);
            LS_TRY(measure_row(&b->env, &b->rows.row[end]));
        }
        run_peer(b, begin, end);
    }
    return LS_OK;
}

ls_status ls_kbench_run(ls_kbench *b, int index) {
    ls_status status = LS_OK;
    int first = b->rows.count;
    b->env.threads = b->count[index];
    LS_TRY(list_rows(b));
    LS_TRY(ls_pool_create(b->env.threads, ls_placement_cpus(&b->placement, 0), &b->env.pool));
    for (b->env.round = 0; b->env.round < b->rounds; b->env.round++) LS_TRY_OUT(run_round(b, index, first));
    bool has_peer = b->peer.path && !b->peer.failed;
    for (int i = first; i < b->rows.count; i++) b->rows.row[i].has_peer = has_peer && b->rows.row[i].for_peer;
    if (sched_setaffinity(0, sizeof b->all_cpus, &b->all_cpus) != 0)
        status = ls_fail_errno(LS_ERR_FAILED, "cannot reset the CPU affinity");
out:
    b->say(b, NULL);
    ls_pool_destroy(b->env.pool);
    b->env.pool = NULL;
    return status;
}

ls_status ls_kbench_open(ls_kbench *b) {
    bool streams = false;
    if (sched_getaffinity(0, sizeof b->all_cpus, &b->all_cpus) != 0)
        return ls_fail_errno(LS_ERR_FAILED, "cannot determine which CPUs this process may use");
    b->env = (ls_kbench_env){.kernels = ls_kernels_get(), .quick = b->quick, .sample_s = b->quick ? 0.005 : 0.05};
    LS_TRY(ls_placement_make(1, b->threads, b->pin, &b->placement));
    if (b->threads == 0 && b->placement.threads > 1) b->count[b->counts++] = 1;
    b->count[b->counts++] = b->placement.threads;
    for (int f = LS_KBENCH_NORM; f < LS_KBENCH_FAMILY_COUNT; f++) streams |= b->has_family[f];
    return streams ? ls_kbench_memory_open(b->quick, &b->env.memory) : LS_OK;
}

void ls_kbench_close(ls_kbench *b) {
    ls_placement_free(&b->placement);
    ls_kbench_memory_close(b->env.memory);
}
