/* comm.c: measures the collectives, and runs a peer program that measures its own.
 *
 * Each operation and size: one checked call, then the samples of lab/timer.h; the slowest worker of each sample, and
 * the median of these. bench/comm_openmpi.c does the same with MPI: change both or neither.
 *
 * The inputs stay as they are from call to call, as is usual in such benchmarks: small vectors are read from caches.
 * Element i of worker r's input is base(i) + r, small whole numbers, so that every sum is exact and known. */
#include "lab/bench/comm.h"

#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "lab/calls.h"
#include "lab/trial.h"
#include "observe/trace.h"

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static const char *const op_names[LS_NATIVE_OPS] = {
    [LS_NATIVE_ALL_REDUCE] = "allreduce",
    [LS_NATIVE_REDUCE_SCATTER] = "reducescatter",
    [LS_NATIVE_ALL_GATHER] = "allgather",
    [LS_NATIVE_SEND] = "sendrecv",
};

static const size_t all_sizes[LS_BENCH_SIZES_MAX] = {
    4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 128 * MIB, 256 * MIB,
};

const char *ls_bench_op_name(ls_native_op op) { return op_names[op]; }

bool ls_bench_plan_has(const ls_bench_plan *plan, ls_native_op op) {
    return plan->has_op[op] && (op != LS_NATIVE_SEND || plan->workers > 1);
}

ls_status ls_bench_plan_ops(ls_bench_plan *plan, const char *list) {
    const char *unknown = ls_bench_names_read(list, op_names, LS_NATIVE_OPS, plan->has_op);
    if (!unknown) return LS_OK;
    return ls_fail(LS_ERR_INPUT,
                   "'%.*s' is not a collective; choose from allreduce, reducescatter, allgather and sendrecv",
                   (int)strcspn(unknown, ","), unknown);
}

ls_status ls_bench_plan_sizes(ls_bench_plan *plan, size_t min_bytes, size_t max_bytes) {
    plan->size_count = 0;
    for (int i = 0; i < LS_BENCH_SIZES_MAX; i++)
        if (all_sizes[i] >= min_bytes && all_sizes[i] <= max_bytes) plan->size_bytes[plan->size_count++] = all_sizes[i];
    if (plan->size_count > 0) return LS_OK;
    char min[24], max[24];
    ls_bench_size_text(min_bytes, min);
    ls_bench_size_text(max_bytes, max);
    return ls_fail(LS_ERR_INPUT,
                   "no size between --min-size %s and --max-size %s; available sizes are 4KiB, 16KiB, 64KiB, 256KiB, "
                   "1MiB, 4MiB, 16MiB, 64MiB, 128MiB and 256MiB",
                   min, max);
}

/* Each worker makes its shard (size/W) from the W inputs, so it reads `size` bytes. An all-reduce writes the shard to
 * all W outputs. An all-gather reads and writes the whole vector on each worker. */
double ls_bench_traffic_bytes(ls_native_op op, int workers, size_t size_bytes) {
    double size = (double)size_bytes;
    switch (op) {
    case LS_NATIVE_ALL_REDUCE:
    case LS_NATIVE_ALL_GATHER: return 2 * workers * size;
    case LS_NATIVE_REDUCE_SCATTER: return (workers + 1) * size;
    default: return 0;
    }
}

void ls_bench_size_text(size_t bytes, char text[24]) {
    if (bytes >= MIB && bytes % MIB == 0)
        snprintf(text, 24, "%zuMiB", bytes / MIB);
    else if (bytes >= KIB && bytes % KIB == 0)
        snprintf(text, 24, "%zuKiB", bytes / KIB);
    else
        snprintf(text, 24, "%zuB", bytes);
}

/* Drops the sizes whose buffers, two for each worker, would take more than half of the machine's memory. */
static ls_status plan_fit_memory(ls_bench_plan *plan) {
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page_bytes <= 0) return LS_OK;
    size_t share_bytes = (size_t)pages * (size_t)page_bytes / 4 / (size_t)plan->workers;
    int count = plan->size_count;
    while (count > 0 && plan->size_bytes[count - 1] > share_bytes) count--;
    if (count == 0)
        return ls_fail(LS_ERR_RESOURCE,
                       "%d workers do not have enough memory for vectors of %zu bytes; try a smaller --min-size",
                       plan->workers, plan->size_bytes[0]);
    if (count < plan->size_count)
        ls_log_warn("%d workers: skipping sizes above %zu bytes, whose buffers need more than half of the memory",
                    plan->workers, plan->size_bytes[count - 1]);
    plan->size_count = count;
    return LS_OK;
}

/* ---- checking ---------------------------------------------------------------------------------------------------- */

/* Returns the part of element i that all workers' inputs share. */
static unsigned base_of(size_t i) { return ((uint32_t)i * 2654435761u >> 22); }

/* Returns element i of the sum over all workers' inputs. */
static float expected_sum(const ls_link_vector *v, size_t i) {
    unsigned w = (unsigned)v->size;
    return (float)(w * base_of(i) + w * (w - 1) / 2);
}

/* Returns LS_ERR_FAILED for element i of the output. */
static ls_status fail_wrong(const ls_link_vector *v, size_t i, float expected) {
    return ls_fail(LS_ERR_FAILED, "%s of %zu bytes on %d workers is wrong: element %zu is %.9g, not %.9g",
                   ls_bench_op_name(v->op), v->elems * sizeof(float), v->size, i, (double)v->out[i], (double)expected);
}

/* Checks that the output, from its start on, holds elements first … end − 1 of the sum. */
static ls_status check_sum(const ls_link_vector *v, size_t first, size_t end) {
    for (size_t i = first; i < end; i++)
        if (v->out[i - first] != expected_sum(v, i)) return fail_wrong(v, i - first, expected_sum(v, i));
    return LS_OK;
}

/* Checks that the output from element `at` on holds the first `elems` elements of worker `from`'s input. */
static ls_status check_copy(const ls_link_vector *v, int from, size_t at, size_t elems) {
    for (size_t i = 0; i < elems; i++) {
        float expected = (float)(base_of(i) + (unsigned)from);
        if (v->out[at + i] != expected) return fail_wrong(v, at + i, expected);
    }
    return LS_OK;
}

/* Checks the whole output of the operation on this worker. */
static ls_status check_result(const ls_link_vector *v) {
    switch (v->op) {
    case LS_NATIVE_ALL_REDUCE: return check_sum(v, 0, v->elems);
    case LS_NATIVE_REDUCE_SCATTER: return check_sum(v, v->shards[v->rank], v->shards[v->rank + 1]);
    case LS_NATIVE_ALL_GATHER:
        for (int r = 0; r < v->size; r++) LS_TRY(check_copy(v, r, v->shards[r], v->shards[r + 1] - v->shards[r]));
        return LS_OK;
    default: return v->rank < 2 ? check_copy(v, 1 - v->rank, 0, v->elems) : LS_OK;
    }
}

/* ---- a worker ---------------------------------------------------------------------------------------------------- */

static const size_t COPY_BYTES = (size_t)64 << 20;

typedef struct job {
    const ls_bench_plan *plan;
    ls_bench_round *round; /* shared with the parent, written by worker 0 */
} job;

/* Computes the median over the samples of the slowest worker's seconds. Collective. */
static ls_status median_of_slowest(ls_comm *comm, const ls_timing *own, double *seconds) {
    ls_timing all[LS_WORKERS_MAX];
    size_t bytes[LS_WORKERS_MAX];
    int workers = ls_comm_size(comm);
    double most[LS_TIMER_SAMPLES_MAX] = {0};
    for (int r = 0; r < workers; r++) bytes[r] = sizeof *own;
    LS_TRY(ls_comm_all_gather(comm, own, all, bytes));
    for (int r = 0; r < workers; r++)
        for (int i = 0; i < own->samples; i++)
            if (all[r].seconds[i] > most[i]) most[i] = all[r].seconds[i];
    *seconds = ls_median(most, (size_t)own->samples);
    return LS_OK;
}

/* Checks the operation once and measures it; worker 0 writes *time_us. Collective. */
static ls_status measure_op(ls_link_vector *v, double *time_us) {
    ls_timer timer = {.comm = v->comm, .sample_s = 0.02, .samples_min = 5, .samples_max = 5};
    ls_timing timing = {0};
    double seconds;
    memset(v->out, 0xff, v->elems * sizeof(float)); /* NaN: what is not written is found */
    LS_TRY(ls_comm_barrier(v->comm));
    LS_TRY(ls_link_call(v));
    LS_TRY(check_result(v));
    LS_TRY(ls_link_time(&timer, v, &timing));
    LS_TRY(median_of_slowest(v->comm, &timing, &seconds));
    if (v->rank == 0) *time_us = 1e6 * seconds;
    return LS_OK;
}

typedef struct copying {
    ls_comm *comm;
    char *from, *to;
} copying;

/* Copies a block in every worker and waits for all, because workers that share a core copy one after the other. */
static ls_status copy_once(void *ctx) {
    const copying *c = ctx;
    memcpy(c->to, c->from, COPY_BYTES);
    __asm__ volatile("" : : "r"(c->to) : "memory"); /* the copy is never read: keep it all the same */
    return ls_comm_barrier(c->comm);
}

/* Measures memcpy() in all workers at once, as a yardstick: copied bytes per second of all of them; worker 0
 * writes it. */
static ls_status measure_copy(ls_comm *comm, double *bytes_per_s) {
    ls_timer timer = {.comm = comm, .samples_min = 5, .samples_max = 5};
    ls_timing timing = {0};
    copying c = {.comm = comm, .from = malloc(COPY_BYTES), .to = malloc(COPY_BYTES)};
    ls_status status = LS_OK;
    double seconds = 0;
    if (c.from == NULL || c.to == NULL) {
        status = ls_fail(LS_ERR_RESOURCE, "out of memory for two blocks of %zu bytes to copy", COPY_BYTES);
        goto out;
    }
    memset(c.from, 1, COPY_BYTES);
    memset(c.to, 2, COPY_BYTES);
    LS_TRY_OUT(ls_timer_run(&timer, copy_once, &c, &timing));
    LS_TRY_OUT(median_of_slowest(comm, &timing, &seconds));
    if (ls_comm_rank(comm) == 0) *bytes_per_s = seconds > 0 ? ls_comm_size(comm) * (double)COPY_BYTES / seconds : 0;
out:
    free(c.from);
    free(c.to);
    return status;
}

/* Allocates a buffer of the world, or of malloc if it is private. */
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

/* Frees what buffer_alloc() allocated; NULL does nothing. */
static void buffer_free(ls_world *world, bool is_private, float *memory) {
    if (is_private)
        free(memory);
    else
        ls_world_free(world, memory);
}

/* Measures every size and operation of the plan. */
static ls_status measure_all(const job *j, ls_link_vector *v) {
    for (int s = 0; s < j->plan->size_count; s++) {
        ls_link_resize(v, j->plan->size_bytes[s]);
        for (int op = 0; op < LS_NATIVE_OPS; op++) {
            v->op = (ls_native_op)op;
            if (ls_bench_plan_has(j->plan, v->op)) LS_TRY(measure_op(v, &j->round->time_us[op][s]));
        }
    }
    return LS_OK;
}

/* Measures in one worker; worker 0 writes the round. */
static ls_status worker_main(ls_world *world, void *arg) {
    const job *j = arg;
    bool is_private = j->plan->private_buffers;
    size_t bytes = j->plan->size_bytes[j->plan->size_count - 1];
    ls_link_vector v = {.comm = ls_world_comm(world), .rank = ls_world_rank(world), .size = ls_world_size(world)};
    ls_status status = LS_OK;
    if (v.size != j->plan->workers)
        return ls_fail(LS_ERR_FAILED, "%d workers were started instead of the %d requested", v.size, j->plan->workers);
    if (v.rank == 0) {
        snprintf(j->round->transport, sizeof j->round->transport, "%s", ls_world_transport(world));
        j->round->threads = ls_world_threads(world);
    }
    LS_TRY_OUT(ls_trace_begin(j->plan->trace));
    LS_TRY_OUT(measure_copy(v.comm, &j->round->copy_bytes_per_s));
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

/* Measures the plan once with lockstep's workers. */
static ls_status measure_round(const ls_workers_options *options, const ls_bench_plan *plan, ls_bench_round *out) {
    ls_workers_options workers = *options;
    ls_bench_round *round = ls_trial_alloc(1, sizeof *round);
    if (!round) return ls_fail_errno(LS_ERR_RESOURCE, "cannot map %zu bytes for the results", sizeof *round);
    workers.workers = plan->workers;
    ls_status status = ls_workers_run(&workers, worker_main, &(job){.plan = plan, .round = round});
    if (status == LS_OK) *out = *round;
    ls_trial_free(round);
    return status;
}

/* ---- the peer, run under mpirun ---------------------------------------------------------------------------------- */

typedef struct reading {
    const ls_bench_plan *plan;
    ls_bench_round *out;
} reading;

/* Reads a line "op size_bytes time_us" of the peer; false: not one that the plan requests. */
static bool read_comm_result(void *ctx, const char *line) {
    const reading *r = ctx;
    char name[32];
    size_t bytes = 0;
    double time_us = 0;
    if (sscanf(line, "%31s %zu %lf", name, &bytes, &time_us) != 3 || !isfinite(time_us) || time_us <= 0) return false;
    int op = 0;
    while (op < LS_NATIVE_OPS && strcmp(op_names[op], name) != 0) op++;
    for (int s = 0; op < LS_NATIVE_OPS && s < r->plan->size_count; s++) {
        if (r->plan->size_bytes[s] != bytes) continue;
        r->out->time_us[op][s] = time_us;
        return true;
    }
    return false;
}

/* Checks that the peer printed a time for every operation and size. */
static ls_status check_complete(const char *path, const ls_bench_plan *plan, const ls_bench_round *round) {
    for (int op = 0; op < LS_NATIVE_OPS; op++)
        for (int s = 0; s < plan->size_count && ls_bench_plan_has(plan, (ls_native_op)op); s++)
            if (round->time_us[op][s] <= 0)
                return ls_fail(LS_ERR_FAILED, "%s printed no time for %s of %zu bytes", path,
                               ls_bench_op_name((ls_native_op)op), plan->size_bytes[s]);
    return LS_OK;
}

/* Runs the peer under mpirun with the plan's operations and sizes, and stores its times in *out. `bind` binds each
 * process to a core. Environment variables let Open MPI run as root and start more processes than there are cores;
 * MPICH ignores them. Sets peer->library. LS_ERR_FAILED if mpirun or the peer fails, prints another line, or leaves out
 * a time. */
static ls_status run_peer_once(ls_bench_peer *peer, const ls_bench_plan *plan, bool bind, ls_bench_round *out) {
    static const char *const variables[] = {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                                            "OMPI_MCA_rmaps_base_oversubscribe", NULL};
    reading r = {.plan = plan, .out = out};
    char called[PATH_MAX + 64], missing[PATH_MAX + 64], ops[80] = "";
    ls_bench_program program = {.missing = missing,
                                .variables = variables,
                                .called = called,
                                .advice = "try a smaller --max-size",
                                .line_form = "op size_bytes time_us",
                                .read_line = read_comm_result,
                                .ctx = &r};
    *out = (ls_bench_round){0};
    snprintf(called, sizeof called, "mpirun -n %d %s", plan->workers, peer->path);
    snprintf(missing, sizeof missing, "install Open MPI or MPICH to run --peer %s", peer->path);
    for (int op = 0; op < LS_NATIVE_OPS; op++) {
        size_t used = strlen(ops);
        if (ls_bench_plan_has(plan, (ls_native_op)op))
            snprintf(ops + used, sizeof ops - used, "%s%s", used ? "," : "", op_names[op]);
    }
    ls_bench_program_add(&program, "mpirun");
    ls_bench_program_add(&program, "-n");
    ls_bench_program_add(&program, "%d", plan->workers);
    ls_bench_program_add(&program, "--bind-to");
    ls_bench_program_add(&program, "%s", bind ? "core" : "none");
    ls_bench_program_add(&program, "%s", peer->path);
    ls_bench_program_add(&program, "%s", ops);
    for (int s = 0; s < plan->size_count; s++) ls_bench_program_add(&program, "%zu", plan->size_bytes[s]);
    LS_TRY(ls_bench_program_run(&program, peer->library));
    return check_complete(peer->path, plan, out);
}

/* Runs the peer for one round, unless it has failed before. A failure is a warning, and the last attempt. */
static void run_peer(ls_bench_comm *b, const ls_bench_plan *plan, int round) {
    bool bind = plan->workers <= b->cores;
    if (!b->peer.path || b->peer.failed) return;
    b->say(b, plan->workers, round, "peer");
    ls_status status = run_peer_once(&b->peer, plan, bind, &b->peer_round[round]);
    /* mpirun counts physical cores and refuses to bind two processes to one. */
    if (status == LS_ERR_FAILED && bind) status = run_peer_once(&b->peer, plan, false, &b->peer_round[round]);
    if (status == LS_OK) return;
    b->say(b, 0, 0, NULL);
    ls_log_warn("cannot compare with the peer: %s", ls_status_message());
    b->peer.failed = true;
}

/* ---- a case ------------------------------------------------------------------------------------------------------ */

/* Computes the median of each time and of the copy bandwidth. */
static void rounds_median(const ls_bench_round *rounds, int count, ls_bench_round *out) {
    double values[LS_BENCH_ROUNDS_MAX];
    *out = rounds[0];
    for (int op = 0; op < LS_NATIVE_OPS; op++) {
        for (int s = 0; s < LS_BENCH_SIZES_MAX; s++) {
            for (int r = 0; r < count; r++) values[r] = rounds[r].time_us[op][s];
            out->time_us[op][s] = ls_median(values, (size_t)count);
        }
    }
    for (int r = 0; r < count; r++) values[r] = rounds[r].copy_bytes_per_s;
    out->copy_bytes_per_s = ls_median(values, (size_t)count);
}

ls_status ls_bench_case_run(ls_bench_comm *b, ls_bench_case *one) {
    LS_TRY(plan_fit_memory(&one->plan));
    for (int r = 0; r < b->rounds; r++) {
        b->say(b, one->plan.workers, r, "lockstep");
        LS_TRY(measure_round(&b->workers, &one->plan, &b->own_round[r]));
        run_peer(b, &one->plan, r);
    }
    b->say(b, 0, 0, NULL);
    rounds_median(b->own_round, b->rounds, &one->own);
    one->has_peer = b->peer.path && !b->peer.failed;
    if (one->has_peer) rounds_median(b->peer_round, b->rounds, &one->peer);
    return LS_OK;
}
