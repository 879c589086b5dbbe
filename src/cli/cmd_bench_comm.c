/* cmd_bench_comm.c: `lockstep bench comm` measures the collectives on 2, 4, 8, … workers, beside a peer program when
 * one is given. The two sides take turns, round by round, so that a machine which changes its speed changes both. */
#include "cli/cli.h"
#include "run/inputs/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/log.h"
#include "base/status.h"
#include "cli/bench/comm.h"

enum { CASES_MAX = 10 };

typedef struct bench {
    const ls_options *opts;
    ls_workers_options workers;
    ls_place place;
    ls_bench_machine machine;
    ls_bench_plan plan; /* without the number of workers */
    bool peer_works;
    int case_count;
    ls_bench_case cases[CASES_MAX];
    ls_bench_round own[LS_BENCH_ROUNDS_MAX], peer[LS_BENCH_ROUNDS_MAX];
} bench;

/* A line on the terminal that the next one replaces; no side takes it away. */
static void progress(int workers, int round, int rounds, const char *side) {
    if (!isatty(STDERR_FILENO)) return;
    if (side == NULL)
        fprintf(stderr, "\r\033[K");
    else
        fprintf(stderr, "\r\033[K%d workers, round %d of %d: %s", workers, round + 1, rounds, side);
    fflush(stderr);
}

static ls_status bench_setup(bench *b, const ls_options *opts) {
    char where[LS_OPTION_WHERE_MAX];
    b->opts = opts;
    b->plan.trace = opts->trace;
    LS_TRY(ls_bench_plan_sizes(&b->plan, opts->min_size, opts->max_size));
    if (ls_bench_plan_ops(&b->plan, opts->ops) != LS_OK) {
        ls_options_where(opts, LS_OPT_ops, where);
        return ls_fail_at(LS_ERR_INPUT, "%s: ", where);
    }
    if (opts->peer != NULL && access(opts->peer, X_OK) != 0)
        return ls_options_fail(opts, LS_OPT_peer, "not found, or not executable");
    b->place = ls_launcher_place();
    if (b->place.size > LS_WORKERS_MAX)
        return ls_fail(LS_ERR_INPUT, "bench comm on %d workers: the maximum is %d", b->place.size, LS_WORKERS_MAX);
    if (opts->peer != NULL && b->place.size > 0)
        return ls_options_fail(
            opts, LS_OPT_peer,
            "the peer is started with mpirun, so bench comm --peer cannot itself run under mpirun or srun");
    LS_TRY(ls_workers_options_from(opts, &b->workers));
    b->plan.private_buffers = opts->buffers[0] == 'p';
    b->peer_works = opts->peer != NULL;
    b->machine = (ls_bench_machine){
        .cpu = ls_cpu_detect()->model,
        .cores = ls_cpu_count(),
        .rounds = b->place.size > 0 ? 1 : (int)opts->rounds, /* a launcher's workers can be joined once */
        .private_buffers = b->plan.private_buffers,
        .pinned = opts->pin,
        .peer = opts->peer,
        .peer_library = "unknown CPU",
    };
    return LS_OK;
}

/* Leaves out the sizes whose buffers, two for each worker, would take more than half of the machine's memory. */
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

/* A peer that fails is not asked again. */
static void run_peer(bench *b, const ls_bench_plan *plan, int round) {
    if (!b->peer_works) return;
    progress(plan->workers, round, b->machine.rounds, "peer");
    if (ls_bench_peer_run(b->opts->peer, b->machine.cores, plan, &b->peer[round], b->machine.peer_library) == LS_OK)
        return;
    progress(0, 0, 0, NULL);
    ls_log_warn("cannot compare with the peer: %s", ls_status_message());
    b->peer_works = false;
}

static ls_status run_case(bench *b, int workers) {
    ls_bench_case *one = &b->cases[b->case_count];
    int rounds = b->machine.rounds;
    one->plan = b->plan;
    one->plan.workers = workers;
    LS_TRY(plan_fit_memory(&one->plan));
    for (int r = 0; r < rounds; r++) {
        progress(workers, r, rounds, "lockstep");
        LS_TRY(ls_bench_measure(&b->workers, &one->plan, &b->own[r]));
        run_peer(b, &one->plan, r);
    }
    progress(0, 0, 0, NULL);
    ls_bench_rounds_median(b->own, rounds, &one->own);
    one->has_peer = b->peer_works;
    if (one->has_peer) ls_bench_rounds_median(b->peer, rounds, &one->peer);
    b->case_count++;
    if (!b->opts->json && b->place.rank == 0) ls_bench_print_case(&b->machine, one);
    return LS_OK;
}

static ls_status run_cases(bench *b) {
    if (b->place.size > 0) return run_case(b, b->place.size);
    if (b->opts->workers > 0) return run_case(b, (int)b->opts->workers);
    for (int workers = 2; workers <= LS_WORKERS_MAX && (workers == 2 || workers <= b->machine.cores); workers *= 2)
        LS_TRY(run_case(b, workers));
    return LS_OK;
}

ls_status ls_cmd_bench_comm(const ls_options *opts) {
    ls_status status = LS_OK;
    bench *b = calloc(1, sizeof *b);
    if (b == NULL) return ls_fail(LS_ERR_RESOURCE, "out of memory for %zu bytes of results", sizeof *b);
    LS_TRY_OUT(bench_setup(b, opts));
    if (!opts->json && b->place.rank == 0) ls_bench_print_header(&b->machine);
    LS_TRY_OUT(run_cases(b));
    if (b->place.rank > 0) goto out;
    if (opts->json)
        status = ls_bench_print_json(&b->machine, b->cases, b->case_count);
    else
        ls_bench_print_ratios(b->cases, b->case_count);
out:
    progress(0, 0, 0, NULL);
    free(b);
    return status;
}
