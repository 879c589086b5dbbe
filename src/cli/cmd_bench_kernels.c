/* cmd_bench_kernels.c: `lockstep bench kernels` measures the kernels at the sizes they have in real models, on one
 * thread and on all, beside yardsticks taken in the same run, and matmuls beside a peer program when one is given. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/fpenv.h"
#include "base/status.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "lab/bench/kernels.h"
#include "numerics/elementary.h"

/* ---- figures ----------------------------------------------------------------------------------------------------- */

/* Returns the median of the first `count` values, one per round; leaves them as they are. */
static double median_of(const double *values, int count) {
    double sorted[LS_KBENCH_ROUNDS_MAX];
    memcpy(sorted, values, sizeof *values * (size_t)count);
    return ls_median(sorted, (size_t)count);
}

/* The medians of one row over the rounds: rate in work per second (FLOP or bytes), share: of the yardstick's rate,
 * ratio: the peer's time over lockstep's. */
typedef struct figures {
    double seconds, rate, share, peer_seconds, ratio, scaling; /* 0: not measured */
} figures;

/* Returns the measured peak of multiply-adds for this number of threads, in FLOP/s; 0: not measured. */
static double peak_of(const ls_kbench *b, int threads) {
    for (int c = 0; c < b->counts; c++)
        if (b->count[c] == threads) return b->peak_flops_s[c];
    return 0;
}

/* Computes the figures of a row. A row without a yardstick of its own is compared with the peak of its threads. */
static figures figures_of(const ls_kbench *b, const ls_kbench_row *row) {
    figures f = {.seconds = median_of(row->seconds, b->rounds)};
    double yard_rate = median_of(row->yard_rate, b->rounds);
    if (yard_rate <= 0) yard_rate = peak_of(b, row->threads);
    f.rate = row->work / f.seconds;
    f.scaling = median_of(row->scaling, b->rounds);
    if (yard_rate > 0) f.share = f.rate / yard_rate;
    if (row->has_peer) {
        f.peer_seconds = median_of(row->peer_seconds, b->rounds);
        f.ratio = f.peer_seconds / f.seconds;
    }
    return f;
}

/* ---- table ------------------------------------------------------------------------------------------------------- */

/* Prints what is measured and what the columns mean. */
static void print_header(const ls_kbench *b) {
    printf("lockstep %s bench kernels: %s, %d cores, %s, matmuls %s, threads %s, median of %d round%s%s\n", LS_VERSION,
           ls_cpu_detect()->model, ls_cpu_count(), b->env.kernels->isa, b->env.kernels->gemm.name,
           b->placement.cpus != NULL ? "pinned" : "not pinned", b->rounds, b->rounds == 1 ? "" : "s",
           b->quick ? ", quick" : "");
    printf("gemm/FORM/MxNxK: C has M rows and N columns, sums have K terms; NN, NT and TN say which operand is "
           "transposed.\nof peak: rate / peak rate of multiply-adds in registers on the same threads.\nof plain: rate "
           "/ rate of the same matmul in fp32 with one slice.\nof gemm: rate / rate of a matmul as large as the "
           "adjacent layer; operations masked by causality do not count.\nof loop: rate / rate of a plain loop "
           "over as many streams; GB/s: bytes that must be read and written once, 10^9 bytes.\nscaling: rate / rate of "
           "one thread, relative to the same for multiply-adds in registers on the same CPUs.\n");
    if (b->peer.path != NULL) printf("ratio: the peer's time / lockstep's; above 1 lockstep is faster.\n");
    fflush(stdout);
}

/* Prints a row of the table. peer_column: other rows have a peer, so this one prints dashes if it has none. */
static void print_kernel_row(const ls_kbench *b, const ls_kbench_row *row, bool peer_column) {
    figures f = figures_of(b, row);
    char share[24] = "-", each[24] = "-";
    if (f.share > 0) snprintf(share, sizeof share, "%.0f %% of %s", 100 * f.share, row->yardstick);
    if (row->elems > 0) snprintf(each, sizeof each, "%.3f", 1e9 * f.seconds / row->elems);
    printf("%-45s %12.2f %9.2f %-7s %8s %15s", row->name, 1e6 * f.seconds, 1e-9 * f.rate,
           row->is_flops ? "GFLOP/s" : "GB/s", each, share);
    if (row->has_peer) printf(" %12.2f %7.2f", 1e6 * f.peer_seconds, f.ratio);
    if (!row->has_peer && peer_column) printf(" %12s %7s", "-", "-");
    putchar('\n');
}

/* Prints the table of thread count number `index`. */
static void print_rows(const ls_kbench *b, int index) {
    const ls_kbench_rows *rows = &b->rows;
    int threads = b->count[index];
    bool peer_column = false;
    for (int i = 0; i < rows->count; i++) peer_column |= rows->row[i].threads == threads && rows->row[i].has_peer;
    double peak = b->peak_flops_s[index];
    printf("\n%d thread%s, peak ", threads, threads == 1 ? "" : "s");
    if (peak > 0)
        printf("%.1f GFLOP/s", 1e-9 * peak);
    else
        printf("unknown");
    if (peer_column) printf(", peer %s", b->peer.library);
    printf("\n%-45s %12s %9s %-7s %8s %15s", "kernel", "time us", "rate", "", "ns/elem", "share");
    if (peer_column) printf(" %12s %7s", "peer us", "ratio");
    putchar('\n');
    for (int i = 0; i < rows->count; i++)
        if (rows->row[i].threads == threads) print_kernel_row(b, &rows->row[i], peer_column);
    fflush(stdout);
}

/* Returns the geometric mean of the ratios to the peer, over all rows with this number of threads; 0: none has a
 * peer. */
static double geometric_mean(const ls_kbench *b, int threads) {
    double logs = 0;
    int count = 0;
    for (int i = 0; i < b->rows.count; i++) {
        const ls_kbench_row *row = &b->rows.row[i];
        if (row->threads != threads || !row->has_peer) continue;
        logs += ls_log_f64(figures_of(b, row).ratio);
        count++;
    }
    return count > 0 ? ls_exp_f64(logs / count) : 0;
}

/* Prints a line for each ratio to the peer, their means, and each scaling over threads, for scripts that look for
 * regressions. */
static void print_ratios(const ls_kbench *b) {
    const ls_kbench_rows *rows = &b->rows;
    bool first = true;
    for (int i = 0; i < rows->count; i++) {
        const ls_kbench_row *row = &rows->row[i];
        if (!row->has_peer) continue;
        printf("%sratio %s/threads=%d %.2f\n", first ? "\n" : "", row->name, row->threads, figures_of(b, row).ratio);
        first = false;
    }
    for (int c = 0; c < b->counts; c++) {
        double mean = geometric_mean(b, b->count[c]);
        if (mean > 0) printf("ratio gemm/geomean/threads=%d %.2f\n", b->count[c], mean);
    }
    for (int i = 0; i < rows->count; i++) {
        const ls_kbench_row *row = &rows->row[i];
        double scaling = figures_of(b, row).scaling;
        if (scaling <= 0) continue;
        printf("%sscaling %s/threads=%d %.2f\n", first ? "\n" : "", row->name, row->threads, scaling);
        first = false;
    }
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* Returns a new object for a row, without figures that were not measured; NULL: out of memory. */
static json_t *make_kernel_json(const ls_kbench *b, const ls_kbench_row *row) {
    figures f = figures_of(b, row);
    return json_pack("{s:s, s:s, s:i, s:f, s:f, s:o*, s:o*, s:o*, s:o*, s:o*, s:o*}", "kernel", row->name, "family",
                     ls_kbench_family_name(row->family), "threads", row->threads, "time_us", 1e6 * f.seconds,
                     row->is_flops ? "flops_per_s" : "bytes_per_s", f.rate, "ns_per_elem",
                     ls_cli_json_real_if(row->elems > 0, 1e9 * f.seconds / row->elems), "yardstick",
                     ls_cli_json_text_if(f.share > 0 ? row->yardstick : NULL), "of_yardstick",
                     ls_cli_json_real_if(f.share > 0, f.share), "scaling",
                     ls_cli_json_real_if(f.scaling > 0, f.scaling), "peer_time_us",
                     ls_cli_json_real_if(row->has_peer, 1e6 * f.peer_seconds), "ratio",
                     ls_cli_json_real_if(row->has_peer, f.ratio));
}

/* Returns row i of the bench ctx as a new object. A callback of ls_cli_json_list(). */
static json_t *row_json_at(const void *ctx, int i) {
    const ls_kbench *b = ctx;
    return make_kernel_json(b, &b->rows.row[i]);
}

/* Returns thread count number c of the bench ctx, with its peak, as a new object. A callback of ls_cli_json_list(). */
static json_t *count_json(const void *ctx, int c) {
    const ls_kbench *b = ctx;
    double mean = geometric_mean(b, b->count[c]);
    return json_pack("{s:i, s:f, s:o*}", "threads", b->count[c], "peak_flops_per_s", b->peak_flops_s[c],
                     "gemm_ratio_geomean", ls_cli_json_real_if(mean > 0, mean));
}

/* Prints machine and measurements as JSON. */
static ls_status print_kernels_json(const ls_kbench *b) {
    json_t *rows = ls_cli_json_list(b->rows.count, row_json_at, b);
    json_t *machine = json_pack(
        "{s:s, s:i, s:s, s:s, s:s, s:b, s:i, s:b, s:o*, s:o*, s:o}", "cpu", ls_cpu_detect()->model, "cores",
        ls_cpu_count(), "lockstep", LS_VERSION, "isa", b->env.kernels->isa, "gemm", b->env.kernels->gemm.name, "pinned",
        b->placement.cpus != NULL, "rounds", b->rounds, "quick", b->quick, "peer", ls_cli_json_text_if(b->peer.path),
        "peer_library", ls_cli_json_text_if(b->peer.path ? b->peer.library : NULL), "threads",
        ls_cli_json_list(b->counts, count_json, b));
    return ls_cli_print_json_lines(json_pack("{s:o, s:o}", "machine", machine, "rows", rows));
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* Shows what is measured now; NULL removes the line. A callback. */
static void progress(const ls_kbench *b, const char *what) {
    if (what)
        ls_cli_progress("%d thread%s, round %d of %d: %s", b->env.threads, b->env.threads == 1 ? "" : "s",
                        b->env.round + 1, b->rounds, what);
    else
        ls_cli_progress_end();
}

/* Checks the options and fills the bench from them. --quick measures one round unless --rounds is given. */
static ls_status read_options(const ls_options *opts, ls_kbench *b) {
    LS_TRY(ls_options_blame(opts, LS_OPT_only, ls_kbench_families_read(opts->only, b->has_family)));
    if (opts->peer != NULL && access(opts->peer, X_OK) != 0)
        return ls_options_fail(opts, LS_OPT_peer, "not found, or not executable");
    if (opts->peer != NULL && !b->has_family[LS_KBENCH_GEMM])
        return ls_options_fail(opts, LS_OPT_peer, "the peer measures gemm, which --only %s excludes", opts->only);
    if (opts->workers > 1)
        return ls_options_fail(opts, LS_OPT_workers, "bench kernels runs in one process; use --threads");
    if (opts->trace != NULL) return ls_options_fail(opts, LS_OPT_trace, "bench kernels writes no trace: omit it");
    if (ls_launcher_place().size > 1)
        return ls_fail(LS_ERR_INPUT, "bench kernels runs in one process: start it without mpirun or srun");
    bool one_round = opts->quick && opts->source[LS_OPT_rounds].origin == LS_ORIGIN_DEFAULT;
    b->rounds = one_round ? 1 : (int)opts->rounds;
    b->quick = opts->quick;
    b->pin = opts->pin;
    b->threads = (int)opts->threads;
    b->say = progress;
    b->peer = (ls_bench_peer){.path = opts->peer, .library = "unknown CPU"};
    return LS_OK;
}

/* Measures for each thread count and prints each table when it is complete. */
static ls_status run_kernel_bench(const ls_options *opts, ls_kbench *b) {
    LS_TRY(read_options(opts, b));
    LS_TRY(ls_kbench_open(b));
    if (!opts->json) print_header(b);
    for (int c = 0; c < b->counts; c++) {
        LS_TRY(ls_kbench_run(b, c));
        if (!opts->json) print_rows(b, c);
    }
    if (opts->json) return print_kernels_json(b);
    print_ratios(b);
    return LS_OK;
}

/* Runs `lockstep bench kernels`, in the floating-point environment that training uses. */
ls_status ls_cmd_bench_kernels(const ls_options *opts) {
    static ls_kbench b;
    ls_fpenv_set();
    ls_status status = run_kernel_bench(opts, &b);
    ls_kbench_close(&b);
    return status;
}
