/* report.c: prints what `lockstep bench comm` measured: a table and ratio lines for people and scripts that look
 * at lines, or one JSON object. */
#include "cli/bench/comm.h"

#include <stdio.h>

#include "base/status.h"
#include "cli/print_json.h"

static const char *buffers_name(const ls_bench_machine *machine) {
    return machine->private_buffers ? "private" : "shared";
}

static double bytes_per_s(size_t bytes, double time_us) { return (double)bytes / (time_us * 1e-6); }

/* The operation's memory traffic per second over that of plain copies (a copy reads and writes each byte). */
static double of_copy(const ls_bench_case *one, ls_bench_op op, int s) {
    double traffic_bytes = ls_bench_traffic_bytes(op, one->plan.workers, one->plan.size_bytes[s]);
    if (one->own.copy_bytes_per_s <= 0) return 0;
    return traffic_bytes / (one->own.time_us[op][s] * 1e-6) / (2 * one->own.copy_bytes_per_s);
}

static double ratio(const ls_bench_case *one, ls_bench_op op, int s) {
    return one->peer.time_us[op][s] / one->own.time_us[op][s];
}

/* ---- table ---- */

void ls_bench_print_header(const ls_bench_machine *machine) {
    printf("lockstep %s bench comm: %s, %d cores, fp32, %s buffers, workers %s, median of %d round%s\n", LS_VERSION,
           machine->cpu, machine->cores, buffers_name(machine), machine->pinned ? "pinned" : "not pinned",
           machine->rounds, machine->rounds == 1 ? "" : "s");
    printf("size: bytes of the whole vector. time: of the slowest worker, for one operation (send/receive: one "
           "way).\nGB/s: size / time, 10^9 bytes. traffic: bytes that the operation reads and writes in memory, all "
           "workers.\nof copy: traffic per second / that of all workers copying 64 MiB blocks; above 100 %%: served by "
           "caches.\n");
    if (machine->peer != NULL) printf("ratio: the peer's time / lockstep's; above 1 lockstep is faster.\n");
    fflush(stdout);
}

static void print_row(const ls_bench_case *one, ls_bench_op op, int s) {
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

void ls_bench_print_case(const ls_bench_machine *machine, const ls_bench_case *one) {
    int threads = one->own.threads;
    printf("\n%d worker%s, transport %s, %d thread%s each, total copy bandwidth %.2f GB/s", one->plan.workers,
           one->plan.workers == 1 ? "" : "s", one->own.transport, threads, threads == 1 ? "" : "s",
           one->own.copy_bytes_per_s * 1e-9);
    if (one->has_peer) printf(", peer %s", machine->peer_library);
    printf("\n%-14s %8s %12s %8s %12s %8s", "operation", "size", "time us", "GB/s", "traffic MiB", "of copy");
    if (one->has_peer) printf(" %12s %7s", "peer us", "ratio");
    putchar('\n');
    for (int op = 0; op < LS_BENCH_OP_COUNT; op++)
        for (int s = 0; s < one->plan.size_count; s++)
            if (ls_bench_plan_has(&one->plan, (ls_bench_op)op)) print_row(one, (ls_bench_op)op, s);
    fflush(stdout);
}

void ls_bench_print_ratios(const ls_bench_case *cases, int count) {
    char size[24];
    bool first = true;
    for (int c = 0; c < count; c++) {
        const ls_bench_case *one = &cases[c];
        for (int op = 0; one->has_peer && op < LS_BENCH_OP_COUNT; op++) {
            for (int s = 0; s < one->plan.size_count && ls_bench_plan_has(&one->plan, (ls_bench_op)op); s++) {
                ls_bench_size_text(one->plan.size_bytes[s], size);
                printf("%sratio %s/workers=%d/size=%s %.2f\n", first ? "\n" : "", ls_bench_op_name((ls_bench_op)op),
                       one->plan.workers, size, ratio(one, (ls_bench_op)op, s));
                first = false;
            }
        }
    }
}

/* ---- JSON ---- */

/* json_object_set_new() releases the value and fails when the value is NULL, so one check at the end is enough. */
static int put(json_t *object, const char *key, json_t *value) { return json_object_set_new(object, key, value); }

static json_t *row_json(const ls_bench_case *one, ls_bench_op op, int s) {
    size_t bytes = one->plan.size_bytes[s];
    double time_us = one->own.time_us[op][s];
    double traffic_bytes = ls_bench_traffic_bytes(op, one->plan.workers, bytes);
    json_t *row = json_object();
    int failed = put(row, "operation", json_string(ls_bench_op_name(op)));
    failed |= put(row, "workers", json_integer(one->plan.workers));
    failed |= put(row, "size_bytes", json_integer((json_int_t)bytes));
    failed |= put(row, "time_us", json_real(time_us));
    failed |= put(row, "bytes_per_s", json_real(bytes_per_s(bytes, time_us)));
    if (traffic_bytes > 0) {
        failed |= put(row, "traffic_bytes", json_integer((json_int_t)traffic_bytes));
        failed |= put(row, "of_copy", json_real(of_copy(one, op, s)));
    }
    if (one->has_peer) {
        failed |= put(row, "peer_time_us", json_real(one->peer.time_us[op][s]));
        failed |= put(row, "ratio", json_real(ratio(one, op, s)));
    }
    if (!failed) return row;
    json_decref(row);
    return NULL;
}

static json_t *machine_json(const ls_bench_machine *machine, const ls_bench_case *cases, int count) {
    json_t *facts = json_object(), *worlds = json_array();
    int failed = put(facts, "cpu", json_string(machine->cpu));
    failed |= put(facts, "cores", json_integer(machine->cores));
    failed |= put(facts, "lockstep", json_string(LS_VERSION));
    failed |= put(facts, "dtype", json_string("f32"));
    failed |= put(facts, "buffers", json_string(buffers_name(machine)));
    failed |= put(facts, "pinned", json_boolean(machine->pinned));
    failed |= put(facts, "rounds", json_integer(machine->rounds));
    if (machine->peer != NULL) {
        failed |= put(facts, "peer", json_string(machine->peer));
        failed |= put(facts, "peer_library", json_string(machine->peer_library));
    }
    for (int c = 0; c < count; c++) {
        json_t *world = json_object();
        failed |= put(world, "workers", json_integer(cases[c].plan.workers));
        failed |= put(world, "transport", json_string(cases[c].own.transport));
        failed |= put(world, "threads", json_integer(cases[c].own.threads));
        failed |= put(world, "copy_bytes_per_s", json_real(cases[c].own.copy_bytes_per_s));
        failed |= put(world, "peer_measured", json_boolean(cases[c].has_peer));
        failed |= json_array_append_new(worlds, world);
    }
    failed |= put(facts, "worlds", worlds);
    if (!failed) return facts;
    json_decref(facts);
    return NULL;
}

static json_t *rows_json(const ls_bench_case *cases, int count) {
    json_t *rows = json_array();
    int failed = rows == NULL;
    for (int c = 0; c < count; c++)
        for (int op = 0; op < LS_BENCH_OP_COUNT; op++)
            for (int s = 0; s < cases[c].plan.size_count && ls_bench_plan_has(&cases[c].plan, (ls_bench_op)op); s++)
                failed |= json_array_append_new(rows, row_json(&cases[c], (ls_bench_op)op, s));
    if (!failed) return rows;
    json_decref(rows);
    return NULL;
}

ls_status ls_bench_print_json(const ls_bench_machine *machine, const ls_bench_case *cases, int count) {
    json_t *all = json_object();
    int failed = put(all, "machine", machine_json(machine, cases, count));
    failed |= put(all, "rows", rows_json(cases, count));
    if (!failed) return ls_cli_print_json_lines(all);
    json_decref(all);
    return ls_fail(LS_ERR_RESOURCE, "out of memory for the JSON of the results");
}
