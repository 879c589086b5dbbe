/* cmd_bench_kernels.c: `lockstep bench kernels` measures the kernels at the sizes they have in real models, on one
 * thread and on all, beside yardsticks taken in the same run, and products beside a peer program when one is given. The
 * two sides take turns, group by group and round by round, so that a machine which changes its speed changes both. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/fpenv.h"
#include "base/log.h"
#include "base/status.h"
#include "cli/bench/kernels.h"
#include "comm/placement.h"

static const double SAMPLES_S = 0.05, SAMPLES_QUICK_S = 0.005; /* for one measurement */

typedef struct bench {
    const ls_options *opts;
    bool has_family[LS_KBENCH_FAMILY_COUNT];
    cpu_set_t all_cpus;     /* what this process may use: a pool pins the calling thread */
    ls_placement placement; /* of the largest count; smaller ones take its first cores */
    ls_kbench_machine machine;
    ls_kbench_env env;
    bool peer_works;
    ls_kbench_rows rows;
} bench;

/* A line on the terminal that the next one replaces; no text takes it away. */
static void progress(const bench *b, const char *what) {
    if (!isatty(STDERR_FILENO)) return;
    fprintf(stderr, "\r\033[K");
    if (what != NULL)
        fprintf(stderr, "%d thread%s, round %d of %d: %s", b->env.threads, b->env.threads == 1 ? "" : "s",
                b->env.round + 1, b->machine.rounds, what);
    fflush(stderr);
}

/* ---- set-up ------------------------------------------------------------------------------------------------------ */

static ls_status check_options(bench *b) {
    const ls_options *opts = b->opts;
    char where[LS_OPTION_WHERE_MAX];
    if (ls_kbench_families_read(opts->only, b->has_family) != LS_OK) {
        ls_options_where(opts, LS_OPT_only, where);
        return ls_fail_at(LS_ERR_INPUT, "%s: ", where);
    }
    if (opts->peer != NULL && access(opts->peer, X_OK) != 0)
        return ls_options_fail(opts, LS_OPT_peer, "not found, or not executable");
    if (opts->peer != NULL && !b->has_family[LS_KBENCH_GEMM])
        return ls_options_fail(opts, LS_OPT_peer, "the peer measures gemm, which --only %s excludes", opts->only);
    if (opts->workers > 1)
        return ls_options_fail(opts, LS_OPT_workers, "bench kernels runs in one process; use --threads");
    if (opts->trace != NULL) return ls_options_fail(opts, LS_OPT_trace, "bench kernels writes no trace: omit it");
    if (ls_launcher_place().size > 1)
        return ls_fail(LS_ERR_INPUT, "bench kernels runs in one process: start it without mpirun or srun");
    return LS_OK;
}

static ls_status place_threads(bench *b) {
    ls_kbench_machine *machine = &b->machine;
    LS_TRY(ls_placement_make(1, (int)b->opts->threads, b->opts->pin, &b->placement));
    machine->pinned = b->placement.cpus != NULL;
    if (b->opts->threads == 0 && b->placement.threads > 1) machine->threads[machine->counts++] = 1;
    machine->threads[machine->counts++] = b->placement.threads;
    return LS_OK;
}

static ls_status setup(bench *b, const ls_options *opts) {
    const ls_kernels *kernels = ls_kernels_get();
    b->opts = opts;
    LS_TRY(check_options(b));
    if (sched_getaffinity(0, sizeof b->all_cpus, &b->all_cpus) != 0)
        return ls_fail_errno(LS_ERR_FAILED, "cannot determine which CPUs this process may use");
    bool one_round = opts->quick && opts->source[LS_OPT_rounds].origin == LS_ORIGIN_DEFAULT;
    b->machine = (ls_kbench_machine){
        .cpu = ls_cpu_detect()->model,
        .cores = ls_cpu_count(),
        .isa = kernels->isa,
        .gemm = kernels->gemm.name,
        .rounds = one_round ? 1 : (int)opts->rounds,
        .quick = opts->quick,
        .peer = opts->peer,
        .peer_library = "unknown CPU",
    };
    b->peer_works = opts->peer != NULL;
    b->env = (ls_kbench_env){
        .kernels = kernels, .quick = opts->quick, .sample_s = opts->quick ? SAMPLES_QUICK_S : SAMPLES_S};
    return place_threads(b);
}

static ls_status open_memory(bench *b) {
    for (int f = LS_KBENCH_NORM; f < LS_KBENCH_FAMILY_COUNT; f++)
        if (b->has_family[f]) return ls_kbench_memory_open(b->opts->quick, &b->env.memory);
    return LS_OK;
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static ls_status list_rows(bench *b, int threads) {
    bool quick = b->opts->quick;
    if (b->has_family[LS_KBENCH_GEMM]) LS_TRY(ls_kbench_gemm_list(&b->rows, threads, quick));
    if (b->has_family[LS_KBENCH_ATTENTION]) LS_TRY(ls_kbench_attention_list(&b->rows, threads, quick));
    for (int f = LS_KBENCH_NORM; f < LS_KBENCH_FAMILY_COUNT; f++)
        if (b->has_family[f]) LS_TRY(ls_kbench_stream_list(&b->rows, (ls_kbench_family)f, threads, quick));
    return LS_OK;
}

static ls_status measure_row(const ls_kbench_env *env, ls_kbench_row *row) {
    switch (row->family) {
    case LS_KBENCH_GEMM: return ls_kbench_gemm_measure(env, row);
    case LS_KBENCH_ATTENTION: return ls_kbench_attention_measure(env, row);
    default: ls_kbench_stream_measure(env, row); return LS_OK;
    }
}

/* A peer that fails is not asked again. */
static void run_peer(bench *b, int first, int end) {
    const int *cpus = ls_placement_cpus(&b->placement, 0);
    cpu_set_t set = b->all_cpus;
    if (!b->peer_works || !b->rows.row[first].for_peer) return;
    if (cpus != NULL) {
        CPU_ZERO(&set);
        for (int t = 0; t < b->env.threads; t++) CPU_SET(cpus[t], &set);
    }
    progress(b, "peer");
    if (ls_kbench_peer_run(b->opts->peer, &set, b->rows.row, first, end, b->env.round, b->machine.peer_library) ==
        LS_OK)
        return;
    progress(b, NULL);
    ls_log_warn("cannot compare with the peer: %s", ls_status_message());
    b->peer_works = false;
}

static ls_status run_round(bench *b, int count_index, int first) {
    double peak = ls_kbench_peak(&b->env), *best = &b->machine.peak_flops_s[count_index];
    if (peak > *best) *best = peak;
    for (int begin = first, end = first; begin < b->rows.count; begin = end) {
        for (; end < b->rows.count && b->rows.row[end].group == b->rows.row[begin].group; end++) {
            progress(b, b->rows.row[end].name);
            LS_TRY(measure_row(&b->env, &b->rows.row[end]));
        }
        run_peer(b, begin, end);
    }
    return LS_OK;
}

static ls_status run_count(bench *b, int count_index) {
    ls_status status = LS_OK;
    int first = b->rows.count;
    b->env.threads = b->machine.threads[count_index];
    LS_TRY(list_rows(b, b->env.threads));
    LS_TRY(ls_pool_create(b->env.threads, ls_placement_cpus(&b->placement, 0), &b->env.pool));
    for (b->env.round = 0; b->env.round < b->machine.rounds; b->env.round++)
        LS_TRY_OUT(run_round(b, count_index, first));
    for (int i = first; i < b->rows.count; i++) b->rows.row[i].has_peer = b->peer_works && b->rows.row[i].for_peer;
    if (sched_setaffinity(0, sizeof b->all_cpus, &b->all_cpus) != 0)
        status = ls_fail_errno(LS_ERR_FAILED, "cannot reset the CPU affinity");
out:
    progress(b, NULL);
    ls_pool_destroy(b->env.pool);
    b->env.pool = NULL;
    return status;
}

ls_status ls_cmd_bench_kernels(const ls_options *opts) {
    ls_status status = LS_OK;
    bench *b = calloc(1, sizeof *b);
    if (b == NULL) return ls_fail(LS_ERR_RESOURCE, "out of memory for %zu bytes of results", sizeof *b);
    ls_fpenv_set();
    LS_TRY_OUT(setup(b, opts));
    LS_TRY_OUT(open_memory(b));
    if (!opts->json) ls_kbench_print_header(&b->machine);
    for (int c = 0; c < b->machine.counts; c++) {
        LS_TRY_OUT(run_count(b, c));
        if (!opts->json) ls_kbench_print_rows(&b->machine, c, &b->rows);
    }
    if (opts->json)
        status = ls_kbench_print_json(&b->machine, &b->rows);
    else
        ls_kbench_print_ratios(&b->machine, &b->rows);
out:
    ls_placement_free(&b->placement);
    ls_kbench_memory_close(b->env.memory);
    free(b);
    return status;
}
