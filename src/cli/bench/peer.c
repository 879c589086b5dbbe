/* peer.c: the peer program of `lockstep bench comm`, run under mpirun.
 *
 * Rights and slots are given through Open MPI's environment: mpirun of MPICH ignores it and takes the same command
 * line. */
#include "cli/bench/comm.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "cli/bench/program.h"

enum { ARGS_MAX = LS_BENCH_SIZES_MAX + 10, TEXT_MAX = 24, PATH_CHARS = 4096 };

typedef struct command {
    char *argv[ARGS_MAX];
    char workers[TEXT_MAX];
    char ops[80];
    char sizes[LS_BENCH_SIZES_MAX][TEXT_MAX];
    char path[PATH_CHARS];
    char called[PATH_CHARS + 64], missing[PATH_CHARS + 64];
} command;

static void ops_text(const ls_bench_plan *plan, char *text, size_t chars) {
    size_t used = 0;
    for (int op = 0; op < LS_BENCH_OP_COUNT && used < chars; op++)
        if (ls_bench_plan_has(plan, (ls_bench_op)op))
            used +=
                (size_t)snprintf(text + used, chars - used, "%s%s", used ? "," : "", ls_bench_op_name((ls_bench_op)op));
}

static ls_status command_make(command *c, const char *path, const ls_bench_plan *plan, bool bind) {
    static char mpirun[] = "mpirun", n[] = "-n", bind_to[] = "--bind-to", core[] = "core", none[] = "none";
    if (snprintf(c->path, sizeof c->path, "%s", path) >= (int)sizeof c->path)
        return ls_fail(LS_ERR_INPUT, "--peer: the path has more than %zu characters", sizeof c->path - 1);
    snprintf(c->workers, sizeof c->workers, "%d", plan->workers);
    snprintf(c->called, sizeof c->called, "mpirun -n %s %s", c->workers, c->path);
    snprintf(c->missing, sizeof c->missing, "install Open MPI or MPICH to run --peer %s", c->path);
    ops_text(plan, c->ops, sizeof c->ops);
    int argc = 0;
    c->argv[argc++] = mpirun;
    c->argv[argc++] = n;
    c->argv[argc++] = c->workers;
    c->argv[argc++] = bind_to;
    c->argv[argc++] = bind ? core : none;
    c->argv[argc++] = c->path;
    c->argv[argc++] = c->ops;
    for (int s = 0; s < plan->size_count; s++) {
        snprintf(c->sizes[s], TEXT_MAX, "%zu", plan->size_bytes[s]);
        c->argv[argc++] = c->sizes[s];
    }
    c->argv[argc] = NULL;
    return LS_OK;
}

/* ---- its output ---- */

typedef struct reading {
    const ls_bench_plan *plan;
    ls_bench_round *out;
} reading;

static bool read_line(void *ctx, const char *line) {
    const reading *r = ctx;
    char name[32];
    size_t bytes = 0;
    double time_us = 0;
    if (sscanf(line, "%31s %zu %lf", name, &bytes, &time_us) != 3 || !isfinite(time_us) || time_us <= 0) return false;
    ls_bench_op op = ls_bench_op_find(name, strlen(name));
    for (int s = 0; op != LS_BENCH_OP_COUNT && s < r->plan->size_count; s++) {
        if (r->plan->size_bytes[s] != bytes) continue;
        r->out->time_us[op][s] = time_us;
        return true;
    }
    return false;
}

static ls_status all_there(const char *path, const ls_bench_plan *plan, const ls_bench_round *round) {
    for (int op = 0; op < LS_BENCH_OP_COUNT; op++)
        for (int s = 0; s < plan->size_count && ls_bench_plan_has(plan, (ls_bench_op)op); s++)
            if (round->time_us[op][s] <= 0)
                return ls_fail(LS_ERR_FAILED, "%s printed no time for %s of %zu bytes", path,
                               ls_bench_op_name((ls_bench_op)op), plan->size_bytes[s]);
    return LS_OK;
}

static ls_status run_once(const char *path, const ls_bench_plan *plan, bool bind, ls_bench_round *out,
                          char library[LS_BENCH_LIBRARY_MAX]) {
    static const char *const variables[] = {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                                            "OMPI_MCA_rmaps_base_oversubscribe", NULL};
    command c;
    reading r = {.plan = plan, .out = out};
    *out = (ls_bench_round){0};
    LS_TRY(command_make(&c, path, plan, bind));
    ls_bench_program program = {
        .argv = c.argv,
        .missing = c.missing,
        .variables = variables,
        .called = c.called,
        .advice = "try a smaller --max-size",
        .line_form = "op size_bytes time_us",
        .read_line = read_line,
        .ctx = &r,
        .library = library,
        .library_chars = LS_BENCH_LIBRARY_MAX,
    };
    LS_TRY(ls_bench_program_run(&program));
    return all_there(path, plan, out);
}

ls_status ls_bench_peer_run(const char *path, int cores, const ls_bench_plan *plan, ls_bench_round *out,
                            char library[LS_BENCH_LIBRARY_MAX]) {
    bool bind = plan->workers <= cores;
    ls_status status = run_once(path, plan, bind, out, library);
    /* mpirun counts physical cores and refuses to bind two processes to one. */
    if (status == LS_ERR_FAILED && bind) status = run_once(path, plan, false, out, library);
    return status;
}
