/* comm.h: the parts of `lockstep bench comm`.
 *
 * A plan says what to measure on how many workers. Lockstep's own workers (bench_measure.c) and a peer program
 * (bench_peer.c) each turn it into rounds of the same shape; bench_report.c takes medians over the rounds and prints.
 *
 *   plan ──┬─ ls_bench_measure   → round ─┐
 *          └─ ls_bench_peer_run  → round ─┴─ case ─── table, ratios, JSON
 *
 * A size is the bytes of the whole fp32 vector; a time is that of the slowest worker for one operation, and for
 * send/receive one way of a ping-pong between workers 0 and 1. Bandwidth is size / time. */
#ifndef LS_CLI_BENCH_COMM_H
#define LS_CLI_BENCH_COMM_H

#include <stdbool.h>
#include <stddef.h>

#include "lockstep.h"

typedef enum ls_bench_op {
    LS_BENCH_ALL_REDUCE,
    LS_BENCH_REDUCE_SCATTER,
    LS_BENCH_ALL_GATHER,
    LS_BENCH_SEND_RECV,
    LS_BENCH_OP_COUNT
} ls_bench_op;

enum { LS_BENCH_SIZES_MAX = 10, LS_BENCH_ROUNDS_MAX = 100, LS_BENCH_LIBRARY_MAX = 64 };

typedef struct ls_bench_plan {
    int workers;
    bool has_op[LS_BENCH_OP_COUNT];
    int size_count;
    size_t size_bytes[LS_BENCH_SIZES_MAX];
    bool private_buffers; /* malloc instead of ls_world_alloc */
    const char *trace;    /* file for the timeline of the last run, or NULL */
} ls_bench_plan;

/* What one side measured once. A time of 0: not measured. */
typedef struct ls_bench_round {
    double time_us[LS_BENCH_OP_COUNT][LS_BENCH_SIZES_MAX];
    double copy_bytes_per_s; /* lockstep's side only */
    char transport[16];      /* lockstep's side only */
    int threads;             /* lockstep's side only */
} ls_bench_round;

/* One worker count: the medians over the rounds of both sides. */
typedef struct ls_bench_case {
    ls_bench_plan plan;
    ls_bench_round own, peer;
    bool has_peer;
} ls_bench_case;

typedef struct ls_bench_machine {
    const char *cpu;
    int cores;
    int rounds;
    bool private_buffers;
    bool pinned;
    const char *peer; /* path of the peer program, or NULL */
    char peer_library[LS_BENCH_LIBRARY_MAX];
} ls_bench_machine;

/* ---- plan (bench_plan.c) ---- */

/* "allreduce" */
const char *ls_bench_op_name(ls_bench_op op);
/* The operation of this name of `chars` characters, or LS_BENCH_OP_COUNT. */
ls_bench_op ls_bench_op_find(const char *name, size_t chars);
/* Whether the plan measures this operation: send/receive needs two workers. */
bool ls_bench_plan_has(const ls_bench_plan *plan, ls_bench_op op);
/* Reads a comma-separated list of operations; NULL or "" or "all": all of them. */
ls_status ls_bench_plan_ops(ls_bench_plan *plan, const char *list);
/* Takes the benchmark's sizes from min_bytes to max_bytes. */
ls_status ls_bench_plan_sizes(ls_bench_plan *plan, size_t min_bytes, size_t max_bytes);
/* Bytes that the operation reads and writes in memory, over all workers; 0 where copies are no yardstick. */
double ls_bench_traffic_bytes(ls_bench_op op, int workers, size_t size_bytes);
/* Sorts the values; 0 of none. */
double ls_bench_median(double *values, int count);
/* "16MiB", "768KiB", "100B" */
void ls_bench_size_text(size_t bytes, char text[24]);
/* The median of each time and of the copy bandwidth over the rounds. */
void ls_bench_rounds_median(const ls_bench_round *rounds, int count, ls_bench_round *out);

/* ---- the two sides ---- */

/* Starts the plan's workers, measures everything in it, and checks each result once. */
ls_status ls_bench_measure(const ls_workers_options *options, const ls_bench_plan *plan, ls_bench_round *out);
/* Runs `mpirun … path OPS SIZES…` and reads its lines "op size_bytes time_us"; "# library TEXT" names its library. */
ls_status ls_bench_peer_run(const char *path, int cores, const ls_bench_plan *plan, ls_bench_round *out,
                            char library[LS_BENCH_LIBRARY_MAX]);

/* ---- report (bench_report.c) ---- */

void ls_bench_print_header(const ls_bench_machine *machine);
void ls_bench_print_case(const ls_bench_machine *machine, const ls_bench_case *one);
void ls_bench_print_ratios(const ls_bench_case *cases, int count);
ls_status ls_bench_print_json(const ls_bench_machine *machine, const ls_bench_case *cases, int count);

#endif
