/* comm.h: `lockstep bench comm`: measures the collectives, beside a peer program that measures the same (with MPI,
 * say).
 *
 *   plan ──┬─ lockstep's workers  → round ─┐
 *          └─ the peer program    → round ─┴─ medians over the rounds → case
 *
 * A size is the bytes of the whole fp32 vector; a time is that of the slowest worker for one operation, and for
 * send/receive one way of a ping-pong between workers 0 and 1. Bandwidth is size / time. */
#ifndef LS_LAB_BENCH_COMM_H
#define LS_LAB_BENCH_COMM_H

#include "lab/bench/peer.h"
#include "plan/native/machine.h"

enum { LS_BENCH_SIZES_MAX = 10, LS_BENCH_ROUNDS_MAX = 100 };

typedef struct ls_bench_plan {
    int workers;
    bool has_op[LS_NATIVE_OPS]; /* the operations to measure */
    int size_count;
    size_t size_bytes[LS_BENCH_SIZES_MAX]; /* ascending */
    bool private_buffers; /* malloc() instead of ls_world_alloc(), whose memory other workers can read */
    const char *trace;    /* file for the timeline of the last run, or NULL */
} ls_bench_plan;

/* What one side measured once. A time of 0: not measured. */
typedef struct ls_bench_round {
    double time_us[LS_NATIVE_OPS][LS_BENCH_SIZES_MAX]; /* of one operation, by size of the plan */
    double copy_bytes_per_s;                           /* lockstep's side only, as all below */
    char transport[16];                                /* of the workers: "shm", "mpi" */
    int threads;                                       /* of each worker */
} ls_bench_round;

/* One worker count: the medians over the rounds of both sides. */
typedef struct ls_bench_case {
    ls_bench_plan plan;
    ls_bench_round own, peer;
    bool has_peer; /* `peer` is there */
} ls_bench_case;

/* What all cases share. */
typedef struct ls_bench_comm {
    ls_workers_options workers; /* how to start workers; their number comes from the plan */
    int cores, rounds;          /* cores of the machine; rounds to measure */
    ls_bench_peer peer;
    /* Callback for progress; `side` is NULL at the end. */
    void (*say)(const struct ls_bench_comm *bench, int workers, int round, const char *side);
    ls_bench_round own_round[LS_BENCH_ROUNDS_MAX], peer_round[LS_BENCH_ROUNDS_MAX];
} ls_bench_comm;

/* Returns "allreduce" and so on. */
const char *ls_bench_op_name(ls_native_op op);
/* Returns whether the plan measures this operation: send/receive needs two workers. */
bool ls_bench_plan_has(const ls_bench_plan *plan, ls_native_op op);
/* Reads a comma-separated list of operations into plan->has_op; NULL or "" or "all": all of them. LS_ERR_INPUT for an
 * unknown one. */
ls_status ls_bench_plan_ops(ls_bench_plan *plan, const char *list);
/* Selects the benchmark's sizes from min_bytes to max_bytes. LS_ERR_INPUT if there is none. */
ls_status ls_bench_plan_sizes(ls_bench_plan *plan, size_t min_bytes, size_t max_bytes);
/* Returns the bytes that the operation moves in memory, over all workers; 0 if copies are no yardstick for it. */
double ls_bench_traffic_bytes(ls_native_op op, int workers, size_t size_bytes);
/* Writes "16MiB", "768KiB" or "100B". */
void ls_bench_size_text(size_t bytes, char text[24]);

/* Measures one->plan. The two sides take turns, round by round, so that a machine that changes its speed affects both.
 * Sizes whose buffers would take more than half of the memory are left out of the plan; LS_ERR_RESOURCE if none is
 * left. Starts workers: no thread may have been started. A failure of the peer is only a warning. */
ls_status ls_bench_case_run(ls_bench_comm *bench, ls_bench_case *one);

#endif
