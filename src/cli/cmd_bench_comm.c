/* cmd_bench_comm.c: `lockstep bench comm` measures the collectives on 2, 4, 8, … workers, beside a peer program when
 * one is given. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/status.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "lab/bench/comm.h"
#include "run/inputs/inputs.h"

enum { CASES_MAX = 10 };

typedef struct bench {
    const ls_options *opts;
    ls_place place;
    const char *cpu;
    ls_bench_plan plan; /* without the number of workers */
    ls_bench_comm comm;
    int case_count;
    ls_bench_case cases[CASES_MAX];
} bench;

/* ---- table ------------------------------------------------------------------------------------------------------- */

/* Returns the bandwidth in bytes per second for a time in microseconds. */
static double bytes_per_s(size_t bytes, double time_us) { return (double)bytes / (time_us * 1e-6); }

/* Returns the operation's memory traffic per second over that of plain copies, which read and write each byte; 0 if
 * copies were not measured. s: index of the size. */
static double of_copy(const ls_bench_case *one, ls_native_op op, int s) {
    double traffic_bytes = ls_bench_traffic_bytes(op, one->plan.workers, one->plan.size_bytes[s]);
    if (one->own.copy_bytes_per_s <= 0) return 0;
    return traffic_bytes / (one->own.time_us[op][s] * 1e-6) / (2 * one->own.copy_bytes_per_s);
}

/* Returns the peer library's time over lockstep's; above 1 lockstep is faster. Meaningless without a peer. */
static double ratio(const ls_bench_case *one, ls_native_op op, int s) {
    return one->peer.time_us[op][s] / one->own.time_us[op][s];
}

/* Prints what is measured and what the columns mean. */
static void print_header(const bench *b) {
    printf("lockstep %s bench comm: %s, %d cores, fp32, %s buffers, workers %s, median of %d round%s\n", LS_VERSION,
           b->cpu, b->comm.cores, ls_bench_buffers_name(b->opts->buffers), b->opts->pin ? "pinned" : "not pinned",
           b->comm.rounds, b->comm.rounds == 1 ? "" : "s");
    printf("size: bytes of the whole vector. time: of the slowest worker, for one operation (send/receive: one "
           "way).\nGB/s: size / time, 10^9 bytes. traffic: bytes that the operation reads and writes in memory, all "
           "workers.\nof copy: traffic per second / that of all workers copying 64 MiB blocks; above 100 %%: served by "
           "caches.\n");
    if (b->comm.peer.path != NULL) printf("ratio: the peer's time / lockstep's; above 1 lockstep is faster.\n");
    fflush(stdout);
}

/* Prints the row of a collective at size number s. */
static void print_collective_row(const ls_bench_case *one, ls_native_op op, int s) {
    char size[24], traffic[24] = "-", share[24] = "-";
    double time_us = one->own.time_us[op][s];
    double traffic_bytes = ls_bench_traffic_bytes(op, one->plan.workers, one->plan.size_bytes[s]);
    ls_bench_size_text(one->plan.size_bytes[s], size);
    if (traffic_bytes > 0) {
        snprintf(traffic, sizeof traffic, "%.2f", traffic_bytes / (1 << 20));
        snprintf(share, sizeof share, "%.0f %%", 100 * of_copy(one, op, s));
    }
    printf("%-14s %8s %12.2f %8.2f %12s %8s", ls_bench_op_name(op), size, time_us,
           bytes_per_s(one->plan.size_bytes[s], time_us) * 1e-9, traffic, share);
    if (one->has_peer) printf(" %12.2f %7.2f", one->peer.time_us[op][s], ratio(one, op, s));
    putchar('\n');
}

/* Prints the table of one number of workers. */
static void print_case(const bench *b, const ls_bench_case *one) {
    int threads = one->own.threads;
    printf("\n%d worker%s, transport %s, %d thread%s each, total copy bandwidth %.2f GB/s", one->plan.workers,
           one->plan.workers == 1 ? "" : "s", one->own.transport, threads, threads == 1 ? "" : "s",
           one->own.copy_bytes_per_s * 1e-9);
    if (one->has_peer) printf(", peer %s", b->comm.peer.library);
    printf("\n%-14s %8s %12s %8s %12s %8s", "operation", "size", "time us", "GB/s", "traffic MiB", "of copy");
    if (one->has_peer) printf(" %12s %7s", "peer us", "ratio");
    putchar('\n');
    for (int op = 0; op < LS_NATIVE_OPS; op++)
        for (int s = 0; s < one->plan.size_count; s++)
            if (ls_bench_plan_has(&one->plan, (ls_native_op)op)) print_collective_row(one, (ls_native_op)op, s);
    fflush(stdout);
}

/* Prints a line "ratio OP/workers=N/size=S X" for each measurement with a peer, for scripts that look for
 * regressions. */
static void print_ratios(const ls_bench_case *cases, int count) {
    char size[24];
    bool first = true;
    for (int c = 0; c < count; c++) {
        const ls_bench_case *one = &cases[c];
        for (int op = 0; one->has_peer && op < LS_NATIVE_OPS; op++) {
            for (int s = 0; s < one->plan.size_count && ls_bench_plan_has(&one->plan, (ls_native_op)op); s++) {
                ls_bench_size_text(one->plan.size_bytes[s], size);
                printf("%sratio %s/workers=%d/size=%s %.2f\n", first ? "\n" : "", ls_bench_op_name((ls_native_op)op),
                       one->plan.workers, size, ratio(one, (ls_native_op)op, s));
                first = false;
            }
        }
    }
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* Returns a new object for a collective at size number s; NULL: out of memory. */
static json_t *make_collective_json(const ls_bench_case *one, ls_native_op op, int s) {
    size_t bytes = one->plan.size_bytes[s];
    double time_us = one->own.time_us[op][s];
    double traffic_bytes = ls_bench_traffic_bytes(op, one->plan.workers, bytes);
    json_t *traffic = traffic_bytes > 0 ? json_integer((json_int_t)traffic_bytes) : NULL;
    return json_pack("{s:s, s:i, s:I, s:f, s:f, s:o*, s:o*, s:o*, s:o*}", "operation", ls_bench_op_name(op), "workers",
                     one->plan.workers, "size_bytes", (json_int_t)bytes, "time_us", time_us, "bytes_per_s",
                     bytes_per_s(bytes, time_us), "traffic_bytes", traffic, "of_copy",
                     ls_cli_json_real_if(traffic_bytes > 0, of_copy(one, op, s)), "peer_time_us",
                     ls_cli_json_real_if(one->has_peer, one->peer.time_us[op][s]), "ratio",
                     ls_cli_json_real_if(one->has_peer, ratio(one, op, s)));
}

/* Returns case c of the bench ctx as a new object. A callback of ls_cli_json_list(). */
static json_t *world_json(const void *ctx, int c) {
    const ls_bench_case *one = &((const bench *)ctx)->cases[c];
    return json_pack("{s:i, s:s, s:i, s:f, s:b}", "workers", one->plan.workers, "transport", one->own.transport,
                     "threads", one->own.threads, "copy_bytes_per_s", one->own.copy_bytes_per_s, "peer_measured",
                     one->has_peer);
}

/* Returns a new list of all measurements of all cases; NULL: out of memory. */
static json_t *rows_json(const ls_bench_case *cases, int count) {
    json_t *rows = json_array();
    int failed = 0;
    for (int c = 0; c < count; c++)
        for (int op = 0; op < LS_NATIVE_OPS; op++)
            for (int s = 0; s < cases[c].plan.size_count && ls_bench_plan_has(&cases[c].plan, (ls_native_op)op); s++)
                failed |= json_array_append_new(rows, make_collective_json(&cases[c], (ls_native_op)op, s));
    if (!failed) return rows;
    json_decref(rows);
    return NULL;
}

/* Prints machine and measurements as JSON. */
static ls_status print_collectives_json(const bench *b) {
    const char *peer = b->comm.peer.path;
    json_t *machine =
        json_pack("{s:s, s:i, s:s, s:s, s:s, s:b, s:i, s:o*, s:o*, s:o}", "cpu", b->cpu, "cores", b->comm.cores,
                  "lockstep", LS_VERSION, "dtype", "f32", "buffers", ls_bench_buffers_name(b->opts->buffers), "pinned",
                  b->opts->pin, "rounds", b->comm.rounds, "peer", ls_cli_json_text_if(peer), "peer_library",
                  ls_cli_json_text_if(peer ? b->comm.peer.library : NULL), "worlds",
                  ls_cli_json_list(b->case_count, world_json, b));
    return ls_cli_print_json_lines(
        json_pack("{s:o, s:o}", "machine", machine, "rows", rows_json(b->cases, b->case_count)));
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* Shows what is measured now; side: the library ("lockstep" or the peer), NULL: removes the line. A callback. */
static void progress(const ls_bench_comm *comm, int workers, int round, const char *side) {
    if (side)
        ls_cli_progress("%d workers, round %d of %d: %s", workers, round + 1, comm->rounds, side);
    else
        ls_cli_progress_end();
}

/* Checks the options and fills the plan: sizes, collectives, rounds, peer. */
static ls_status bench_setup(bench *b, const ls_options *opts) {
    b->opts = opts;
    b->plan.trace = opts->trace;
    LS_TRY(ls_bench_plan_sizes(&b->plan, opts->min_size, opts->max_size));
    LS_TRY(ls_options_blame(opts, LS_OPT_ops, ls_bench_plan_ops(&b->plan, opts->ops)));
    if (opts->peer != NULL && access(opts->peer, X_OK) != 0)
        return ls_options_fail(opts, LS_OPT_peer, "not found, or not executable");
    b->place = ls_launcher_place();
    if (b->place.size > LS_WORKERS_MAX)
        return ls_fail(LS_ERR_INPUT, "bench comm on %d workers: the maximum is %d", b->place.size, LS_WORKERS_MAX);
    if (opts->peer != NULL && b->place.size > 0)
        return ls_options_fail(
            opts, LS_OPT_peer,
            "the peer is started with mpirun, so bench comm --peer cannot itself run under mpirun or srun");
    LS_TRY(ls_workers_options_from(opts, &b->comm.workers));
    b->plan.private_buffers = opts->buffers == LS_BUFFERS_PRIVATE;
    b->cpu = ls_cpu_detect()->model;
    b->comm.cores = ls_cpu_count();
    b->comm.rounds = b->place.size > 0 ? 1 : (int)opts->rounds; /* a launcher's workers can be joined once */
    b->comm.peer = (ls_bench_peer){.path = opts->peer, .library = "unknown CPU"};
    b->comm.say = progress;
    return LS_OK;
}

/* Measures one number of workers, records it as the next case, and prints its table unless --json is given. */
static ls_status run_case(bench *b, int workers) {
    ls_bench_case *one = &b->cases[b->case_count];
    one->plan = b->plan;
    one->plan.workers = workers;
    LS_TRY(ls_bench_case_run(&b->comm, one));
    b->case_count++;
    if (!b->opts->json && b->place.rank == 0) print_case(b, one);
    return LS_OK;
}

/* Measures on the workers of the launcher, else on --workers, else on 2, 4, 8 … up to the number of cores. */
static ls_status run_cases(bench *b) {
    if (b->place.size > 0) return run_case(b, b->place.size);
    if (b->opts->workers > 0) return run_case(b, (int)b->opts->workers);
    for (int workers = 2; workers <= LS_WORKERS_MAX && (workers == 2 || workers <= b->comm.cores); workers *= 2)
        LS_TRY(run_case(b, workers));
    return LS_OK;
}

/* Runs `lockstep bench comm`; under a launcher every process takes part and rank 0 prints. */
ls_status ls_cmd_bench_comm(const ls_options *opts) {
    static bench b;
    LS_TRY(bench_setup(&b, opts));
    if (!opts->json && b.place.rank == 0) print_header(&b);
    ls_status status = run_cases(&b);
    ls_cli_progress_end();
    if (status != LS_OK || b.place.rank > 0) return status;
    if (opts->json) return print_collectives_json(&b);
    print_ratios(b.cases, b.case_count);
    return LS_OK;
}
