/* kernels_report.c: prints what `lockstep bench kernels` measured: a table and ratio lines for people and scripts
 * that look at lines, or one JSON object. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "cli/bench/comm.h"
#include "cli/bench/kernels.h"
#include "numerics/elementary.h"

static double median_of(const double *values, int count) {
    double sorted[LS_KBENCH_ROUNDS_MAX];
    memcpy(sorted, values, sizeof *values * (size_t)count);
    return ls_bench_median(sorted, count);
}

/* The medians of one row. */
typedef struct figures {
    double seconds, rate, share, peer_seconds, ratio, scaling; /* 0: not measured */
} figures;

static double peak_of(const ls_kbench_machine *machine, int threads) {
    for (int c = 0; c < machine->counts; c++)
        if (machine->threads[c] == threads) return machine->peak_flops_s[c];
    return 0;
}

static figures figures_of(const ls_kbench_machine *machine, const ls_kbench_row *row) {
    figures f = {.seconds = median_of(row->seconds, machine->rounds)};
    double yard_rate = median_of(row->yard_rate, machine->rounds);
    if (yard_rate <= 0) yard_rate = peak_of(machine, row->threads);
    f.rate = row->work / f.seconds;
    f.scaling = median_of(row->scaling, machine->rounds);
    if (yard_rate > 0) f.share = f.rate / yard_rate;
    if (row->has_peer) {
        f.peer_seconds = median_of(row->peer_seconds, machine->rounds);
        f.ratio = f.peer_seconds / f.seconds;
    }
    return f;
}

/* ---- table ---- */

void ls_kbench_print_header(const ls_kbench_machine *machine) {
    printf("lockstep %s bench kernels: %s, %d cores, %s, matmuls %s, threads %s, median of %d round%s%s\n", LS_VERSION,
           machine->cpu, machine->cores, machine->isa, machine->gemm, machine->pinned ? "pinned" : "not pinned",
           machine->rounds, machine->rounds == 1 ? "" : "s", machine->quick ? ", quick" : "");
    printf("gemm/FORM/MxNxK: C has M rows and N columns, sums have K terms; NN, NT and TN say which operand is "
           "transposed.\nof peak: rate / peak rate of multiply-adds in registers on the same threads.\nof plain: rate "
           "/ rate of the same matmul in fp32 with one slice.\nof gemm: rate / rate of a matmul as large as the "
           "adjacent layer; operations hidden by a causal mask do not count.\nof loop: rate / rate of a plain loop "
           "over as many streams; GB/s: bytes that must be read and written once, 10^9 bytes.\nscaling: rate / rate of "
           "one thread, relative to the same for multiply-adds in registers on the same CPUs.\n");
    if (machine->peer != NULL) printf("ratio: the peer's time / lockstep's; above 1 lockstep is faster.\n");
    fflush(stdout);
}

static void print_row(const ls_kbench_machine *machine, const ls_kbench_row *row, bool peer_column) {
    figures f = figures_of(machine, row);
    char share[24] = "-", each[24] = "-";
    if (f.share > 0) snprintf(share, sizeof share, "%.0f %% of %s", 100 * f.share, row->yardstick);
    if (row->elems > 0) snprintf(each, sizeof each, "%.3f", 1e9 * f.seconds / row->elems);
    printf("%-45s %12.2f %9.2f %-7s %8s %15s", row->name, 1e6 * f.seconds, 1e-9 * f.rate,
           row->is_flops ? "GFLOP/s" : "GB/s", each, share);
    if (row->has_peer) printf(" %12.2f %7.2f", 1e6 * f.peer_seconds, f.ratio);
    if (!row->has_peer && peer_column) printf(" %12s %7s", "-", "-");
    putchar('\n');
}

void ls_kbench_print_rows(const ls_kbench_machine *machine, int count_index, const ls_kbench_rows *rows) {
    int threads = machine->threads[count_index];
    bool peer_column = false;
    for (int i = 0; i < rows->count; i++) peer_column |= rows->row[i].threads == threads && rows->row[i].has_peer;
    double peak = machine->peak_flops_s[count_index];
    printf("\n%d thread%s, peak ", threads, threads == 1 ? "" : "s");
    if (peak > 0)
        printf("%.1f GFLOP/s", 1e-9 * peak);
    else
        printf("unknown");
    if (peer_column) printf(", peer %s", machine->peer_library);
    printf("\n%-45s %12s %9s %-7s %8s %15s", "kernel", "time us", "rate", "", "ns/elem", "share");
    if (peer_column) printf(" %12s %7s", "peer us", "ratio");
    putchar('\n');
    for (int i = 0; i < rows->count; i++)
        if (rows->row[i].threads == threads) print_row(machine, &rows->row[i], peer_column);
    fflush(stdout);
}

static double geometric_mean(const ls_kbench_machine *machine, const ls_kbench_rows *rows, int threads) {
    double logs = 0;
    int count = 0;
    for (int i = 0; i < rows->count; i++) {
        const ls_kbench_row *row = &rows->row[i];
        if (row->threads != threads || !row->has_peer) continue;
        logs += ls_log_f64(figures_of(machine, row).ratio);
        count++;
    }
    return count > 0 ? ls_exp_f64(logs / count) : 0;
}

void ls_kbench_print_ratios(const ls_kbench_machine *machine, const ls_kbench_rows *rows) {
    bool first = true;
    for (int i = 0; i < rows->count; i++) {
        const ls_kbench_row *row = &rows->row[i];
        if (!row->has_peer) continue;
        printf("%sratio %s/threads=%d %.2f\n", first ? "\n" : "", row->name, row->threads,
               figures_of(machine, row).ratio);
        first = false;
    }
    for (int c = 0; c < machine->counts; c++) {
        double mean = geometric_mean(machine, rows, machine->threads[c]);
        if (mean > 0) printf("ratio gemm/geomean/threads=%d %.2f\n", machine->threads[c], mean);
    }
    for (int i = 0; i < rows->count; i++) {
        const ls_kbench_row *row = &rows->row[i];
        double scaling = figures_of(machine, row).scaling;
        if (scaling <= 0) continue;
        printf("%sscaling %s/threads=%d %.2f\n", first ? "\n" : "", row->name, row->threads, scaling);
        first = false;
    }
}

/* ---- JSON ---- */

/* json_object_set_new() releases the value and fails when the value is NULL, so one check at the end is enough. */
static int put(json_t *object, const char *key, json_t *value) { return json_object_set_new(object, key, value); }

static json_t *row_json(const ls_kbench_machine *machine, const ls_kbench_row *row) {
    figures f = figures_of(machine, row);
    json_t *object = json_object();
    int failed = put(object, "kernel", json_string(row->name));
    failed |= put(object, "family", json_string(ls_kbench_family_name(row->family)));
    failed |= put(object, "threads", json_integer(row->threads));
    failed |= put(object, "time_us", json_real(1e6 * f.seconds));
    failed |= put(object, row->is_flops ? "flops_per_s" : "bytes_per_s", json_real(f.rate));
    if (row->elems > 0) failed |= put(object, "ns_per_elem", json_real(1e9 * f.seconds / row->elems));
    if (f.share > 0) {
        failed |= put(object, "yardstick", json_string(row->yardstick));
        failed |= put(object, "of_yardstick", json_real(f.share));
    }
    if (f.scaling > 0) failed |= put(object, "scaling", json_real(f.scaling));
    if (row->has_peer) {
        failed |= put(object, "peer_time_us", json_real(1e6 * f.peer_seconds));
        failed |= put(object, "ratio", json_real(f.ratio));
    }
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

static json_t *counts_json(const ls_kbench_machine *machine, const ls_kbench_rows *rows) {
    json_t *counts = json_array();
    int failed = counts == NULL;
    for (int c = 0; c < machine->counts; c++) {
        double mean = geometric_mean(machine, rows, machine->threads[c]);
        json_t *one = json_object();
        failed |= put(one, "threads", json_integer(machine->threads[c]));
        failed |= put(one, "peak_flops_per_s", json_real(machine->peak_flops_s[c]));
        if (mean > 0) failed |= put(one, "gemm_ratio_geomean", json_real(mean));
        failed |= json_array_append_new(counts, one);
    }
    if (!failed) return counts;
    json_decref(counts);
    return NULL;
}

static json_t *machine_json(const ls_kbench_machine *machine, const ls_kbench_rows *rows) {
    json_t *facts = json_object();
    int failed = put(facts, "cpu", json_string(machine->cpu));
    failed |= put(facts, "cores", json_integer(machine->cores));
    failed |= put(facts, "lockstep", json_string(LS_VERSION));
    failed |= put(facts, "isa", json_string(machine->isa));
    failed |= put(facts, "gemm", json_string(machine->gemm));
    failed |= put(facts, "pinned", json_boolean(machine->pinned));
    failed |= put(facts, "rounds", json_integer(machine->rounds));
    failed |= put(facts, "quick", json_boolean(machine->quick));
    if (machine->peer != NULL) {
        failed |= put(facts, "peer", json_string(machine->peer));
        failed |= put(facts, "peer_library", json_string(machine->peer_library));
    }
    failed |= put(facts, "threads", counts_json(machine, rows));
    if (!failed) return facts;
    json_decref(facts);
    return NULL;
}

ls_status ls_kbench_print_json(const ls_kbench_machine *machine, const ls_kbench_rows *rows) {
    json_t *all = json_object(), *list = json_array();
    ls_status status = LS_OK;
    int failed = put(all, "machine", machine_json(machine, rows));
    for (int i = 0; i < rows->count; i++) failed |= json_array_append_new(list, row_json(machine, &rows->row[i]));
    failed |= put(all, "rows", list);
    if (failed)
        status = ls_fail(LS_ERR_RESOURCE, "out of memory for the JSON of the results");
    else if (json_dumpf(all, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) != 0 || putchar('\n') == EOF)
        status = ls_fail_errno(LS_ERR_RESOURCE, "cannot write the results to standard output");
    json_decref(all);
    return status;
}
