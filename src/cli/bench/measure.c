/* measure.c: lockstep's side of `lockstep bench comm`.
 *
 * Each operation and size: one checked call, then batches that grow until one is long enough to tell how many calls
 * fill BATCH_S, then SAMPLES batches of that many calls, each behind a barrier. Worker 0 collects the times per
 * call on the board, a mapping that it shares with the parent; the parent takes the slowest worker of each sample and
 * the median of the samples. bench/comm_openmpi.c does the same with MPI: change both or neither.
 *
 * The inputs stay as they are from call to call, as is usual in such benchmarks: small vectors are read from caches.
 * Element i of worker r's input is base(i) + r, small whole numbers, so that every sum is exact and known. */
#include "cli/bench/comm.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/status.h"
#include "observe/trace.h"

enum { SAMPLES = 5, REPEATS_MAX = 20000 };
static const double BATCH_S = 0.02;    /* a sample */
static const double EXPLORE_S = 0.004; /* long enough to tell the time of one call */
static const size_t COPY_BYTES = (size_t)64 << 20;

typedef struct board {
    char transport[16];
    int threads;
    /* seconds[row][sample][rank]; rows: op · LS_BENCH_SIZES_MAX + size, then one for the copies */
    double seconds[];
} board;

enum { COPY_ROW = LS_BENCH_OP_COUNT * LS_BENCH_SIZES_MAX, ROWS };

typedef struct job {
    const ls_bench_plan *plan;
    board *board;
} job;

/* One worker's view of the vector that is being measured. */
typedef struct vector {
    ls_comm *comm;
    int rank, size;
    size_t elems;
    float *in, *out;
    size_t shards[LS_WORKERS_MAX + 1];  /* even shards, first elements */
    size_t shard_bytes[LS_WORKERS_MAX]; /* the same in bytes */
} vector;

static double *board_cell(board *b, int workers, int row, int sample, int rank) {
    return &b->seconds[((size_t)row * SAMPLES + (size_t)sample) * (size_t)workers + (size_t)rank];
}

/* Collects the workers' times, which may be on several machines, on worker 0's board. */
static ls_status board_write(board *b, const vector *v, int row, int sample, double seconds) {
    size_t bytes[LS_WORKERS_MAX];
    double times[LS_WORKERS_MAX];
    for (int r = 0; r < v->size; r++) bytes[r] = sizeof seconds;
    LS_TRY(ls_comm_all_gather(v->comm, &seconds, times, bytes));
    if (v->rank == 0) memcpy(board_cell(b, v->size, row, sample, 0), times, sizeof seconds * (size_t)v->size);
    return LS_OK;
}

static unsigned base_of(size_t i) { return ((uint32_t)i * 2654435761u >> 22); }

static float expected_sum(const vector *v, size_t i) {
    unsigned w = (unsigned)v->size;
    return (float)(w * base_of(i) + w * (w - 1) / 2);
}

static void vector_resize(vector *v, size_t bytes) {
    v->elems = bytes / sizeof(float);
    for (int r = 0; r <= v->size; r++) v->shards[r] = v->elems * (size_t)r / (size_t)v->size;
    for (int r = 0; r < v->size; r++) v->shard_bytes[r] = (v->shards[r + 1] - v->shards[r]) * sizeof(float);
}

/* ---- one call, and whether it gave the right numbers ---- */

static ls_status ping_pong(const vector *v) {
    size_t bytes = v->elems * sizeof(float);
    if (v->rank == 0) {
        LS_TRY(ls_comm_send(v->comm, 1, 0, v->in, bytes));
        return ls_comm_recv(v->comm, 1, 0, v->out, bytes);
    }
    if (v->rank == 1) {
        LS_TRY(ls_comm_recv(v->comm, 0, 0, v->out, bytes));
        return ls_comm_send(v->comm, 0, 0, v->in, bytes);
    }
    return LS_OK;
}

static ls_status call_once(const vector *v, ls_bench_op op) {
    const void *parts[1] = {v->in};
    switch (op) {
    case LS_BENCH_ALL_REDUCE: return ls_comm_all_reduce(v->comm, NULL, LS_F32, parts, v->out, v->elems);
    case LS_BENCH_REDUCE_SCATTER:
        return ls_comm_reduce_scatter(v->comm, NULL, LS_F32, parts, v->out, v->shards, v->elems);
    case LS_BENCH_ALL_GATHER: return ls_comm_all_gather(v->comm, v->in, v->out, v->shard_bytes);
    default: return ping_pong(v);
    }
}

static ls_status wrong(const vector *v, ls_bench_op op, size_t i, float expected) {
    return ls_fail(LS_ERR_FAILED, "%s of %zu bytes on %d workers is wrong: element %zu is %.9g, not %.9g",
                   ls_bench_op_name(op), v->elems * sizeof(float), v->size, i, (double)v->out[i], (double)expected);
}

static ls_status check_sum(const vector *v, ls_bench_op op, size_t first, size_t end) {
    for (size_t i = first; i < end; i++)
        if (v->out[i - first] != expected_sum(v, i)) return wrong(v, op, i - first, expected_sum(v, i));
    return LS_OK;
}

static ls_status check_copy(const vector *v, ls_bench_op op, int from, size_t at, size_t elems) {
    for (size_t i = 0; i < elems; i++) {
        float expected = (float)(base_of(i) + (unsigned)from);
        if (v->out[at + i] != expected) return wrong(v, op, at + i, expected);
    }
    return LS_OK;
}

static ls_status check(const vector *v, ls_bench_op op) {
    switch (op) {
    case LS_BENCH_ALL_REDUCE: return check_sum(v, op, 0, v->elems);
    case LS_BENCH_REDUCE_SCATTER: return check_sum(v, op, v->shards[v->rank], v->shards[v->rank + 1]);
    case LS_BENCH_ALL_GATHER:
        for (int r = 0; r < v->size; r++) LS_TRY(check_copy(v, op, r, v->shards[r], v->shards[r + 1] - v->shards[r]));
        return LS_OK;
    default: return v->rank < 2 ? check_copy(v, op, 1 - v->rank, 0, v->elems) : LS_OK;
    }
}

/* ---- time ---- */

static ls_status time_batch(const vector *v, ls_bench_op op, int repeats, double *seconds) {
    LS_TRY(ls_comm_barrier(v->comm));
    double start = ls_clock_seconds();
    for (int i = 0; i < repeats; i++) LS_TRY(call_once(v, op));
    *seconds = ls_clock_seconds() - start;
    return LS_OK;
}

/* The number of calls that fill BATCH_S by worker 0's clock; also the warm-up. */
static ls_status choose_repeats(const vector *v, ls_bench_op op, int *out) {
    double seconds = 0;
    int repeats = 1;
    for (;; repeats *= 4) {
        LS_TRY(time_batch(v, op, repeats, &seconds));
        LS_TRY(ls_comm_broadcast(v->comm, 0, &seconds, sizeof seconds));
        if (seconds >= EXPLORE_S || repeats * 4 > REPEATS_MAX) break;
    }
    double wanted = BATCH_S * repeats / (seconds > 0 ? seconds : 1e-9);
    *out = wanted < 1 ? 1 : wanted > REPEATS_MAX ? REPEATS_MAX : (int)wanted;
    return LS_OK;
}

static ls_status measure_op(const vector *v, ls_bench_op op, int row, board *b) {
    memset(v->out, 0xff, v->elems * sizeof(float)); /* NaN: what is not written is found */
    LS_TRY(ls_comm_barrier(v->comm));
    LS_TRY(call_once(v, op));
    LS_TRY(check(v, op));
    int repeats = 0;
    LS_TRY(choose_repeats(v, op, &repeats));
    bool idle = op == LS_BENCH_SEND_RECV && v->rank > 1;
    double calls = op == LS_BENCH_SEND_RECV ? 2.0 * repeats : repeats;
    for (int sample = 0; sample < SAMPLES; sample++) {
        double seconds = 0;
        LS_TRY(time_batch(v, op, repeats, &seconds));
        LS_TRY(board_write(b, v, row, sample, idle ? 0 : seconds / calls));
    }
    return LS_OK;
}

static ls_status measure_copy(const vector *v, board *b) {
    ls_status status = LS_OK;
    char *from = malloc(COPY_BYTES), *to = malloc(COPY_BYTES);
    if (from == NULL || to == NULL) {
        status = ls_fail(LS_ERR_RESOURCE, "out of memory for two blocks of %zu bytes to copy", COPY_BYTES);
        goto out;
    }
    memset(from, 1, COPY_BYTES);
    memset(to, 2, COPY_BYTES);
    for (int sample = 0; sample < SAMPLES; sample++) {
        LS_TRY_OUT(ls_comm_barrier(v->comm));
        double start = ls_clock_seconds();
        memcpy(to, from, COPY_BYTES);
        __asm__ volatile("" : : "r"(to) : "memory"); /* nobody reads the copy: keep it all the same */
        LS_TRY_OUT(ls_comm_barrier(v->comm));        /* workers that share a core copy one after the other */
        LS_TRY_OUT(board_write(b, v, COPY_ROW, sample, ls_clock_seconds() - start));
    }
out:
    free(from);
    free(to);
    return status;
}

/* ---- a worker ---- */

static ls_status buffer_alloc(ls_world *world, bool is_private, size_t bytes, float **out) {
    void *memory = NULL;
    if (!is_private) {
        LS_TRY(ls_world_alloc(world, bytes, &memory));
    } else if (posix_memalign(&memory, 64, bytes) != 0) {
        return ls_fail(LS_ERR_RESOURCE, "out of memory for a buffer of %zu bytes; try a smaller --max-size", bytes);
    }
    *out = memory;
    return LS_OK;
}

static void buffer_free(ls_world *world, bool is_private, float *memory) {
    if (is_private)
        free(memory);
    else
        ls_world_free(world, memory);
}

static ls_status measure_all(const job *j, vector *v) {
    for (int s = 0; s < j->plan->size_count; s++) {
        vector_resize(v, j->plan->size_bytes[s]);
        for (int op = 0; op < LS_BENCH_OP_COUNT; op++)
            if (ls_bench_plan_has(j->plan, (ls_bench_op)op))
                LS_TRY(measure_op(v, (ls_bench_op)op, op * LS_BENCH_SIZES_MAX + s, j->board));
    }
    return LS_OK;
}

static ls_status worker_main(ls_world *world, void *arg) {
    const job *j = arg;
    bool is_private = j->plan->private_buffers;
    size_t bytes = j->plan->size_bytes[j->plan->size_count - 1];
    vector v = {.comm = ls_world_comm(world), .rank = ls_world_rank(world), .size = ls_world_size(world)};
    ls_status status = LS_OK;
    if (v.size != j->plan->workers)
        return ls_fail(LS_ERR_FAILED, "%d workers were started instead of the %d requested", v.size, j->plan->workers);
    if (v.rank == 0) {
        snprintf(j->board->transport, sizeof j->board->transport, "%s", ls_world_transport(world));
        j->board->threads = ls_world_threads(world);
    }
    LS_TRY_OUT(ls_trace_begin(j->plan->trace));
    LS_TRY_OUT(measure_copy(&v, j->board));
    LS_TRY_OUT(buffer_alloc(world, is_private, bytes, &v.in));
    LS_TRY_OUT(buffer_alloc(world, is_private, bytes, &v.out));
    for (size_t i = 0; i < bytes / sizeof(float); i++) v.in[i] = (float)(base_of(i) + (unsigned)v.rank);
    LS_TRY_OUT(measure_all(j, &v));
    LS_TRY_OUT(ls_trace_end(world, j->plan->trace));
    LS_TRY_OUT(ls_comm_barrier(v.comm));
out:
    buffer_free(world, is_private, v.in);
    buffer_free(world, is_private, v.out);
    return status;
}

/* ---- the parent ---- */

static double row_seconds(board *b, int workers, int row) {
    double slowest[SAMPLES];
    for (int sample = 0; sample < SAMPLES; sample++) {
        slowest[sample] = 0;
        for (int rank = 0; rank < workers; rank++) {
            double seconds = *board_cell(b, workers, row, sample, rank);
            if (seconds > slowest[sample]) slowest[sample] = seconds;
        }
    }
    return ls_bench_median(slowest, SAMPLES);
}

static void board_read(board *b, int workers, ls_bench_round *out) {
    for (int row = 0; row < COPY_ROW; row++)
        out->time_us[row / LS_BENCH_SIZES_MAX][row % LS_BENCH_SIZES_MAX] = 1e6 * row_seconds(b, workers, row);
    double copy_s = row_seconds(b, workers, COPY_ROW);
    out->copy_bytes_per_s = copy_s > 0 ? workers * (double)COPY_BYTES / copy_s : 0;
    out->threads = b->threads;
    memcpy(out->transport, b->transport, sizeof out->transport);
}

ls_status ls_bench_measure(const ls_workers_options *options, const ls_bench_plan *plan, ls_bench_round *out) {
    size_t bytes = sizeof(board) + sizeof(double) * ROWS * SAMPLES * (size_t)plan->workers;
    board *b = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (b == MAP_FAILED) return ls_fail_errno(LS_ERR_RESOURCE, "cannot map %zu bytes for the results", bytes);
    ls_workers_options own = *options;
    own.workers = plan->workers;
    ls_status status = ls_workers_run(&own, worker_main, &(job){.plan = plan, .board = b});
    if (status == LS_OK) board_read(b, plan->workers, out);
    munmap(b, bytes);
    return status;
}
