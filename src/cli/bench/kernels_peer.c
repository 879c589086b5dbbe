/* kernels_peer.c: the peer program of `lockstep bench kernels`. It gets the CPUs that lockstep's threads have: it
 * would inherit the one of the calling thread. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "cli/bench/kernels.h"
#include "cli/bench/program.h"

enum { SHAPE_CHARS = 48 };

typedef struct command {
    char path[4096], threads[16];
    char shapes[LS_KBENCH_ROWS_MAX][SHAPE_CHARS];
    char *argv[LS_KBENCH_ROWS_MAX + 3];
} command;

static ls_status command_make(command *c, const char *path, const ls_kbench_row *rows, int first, int end) {
    if (snprintf(c->path, sizeof c->path, "%s", path) >= (int)sizeof c->path)
        return ls_fail(LS_ERR_INPUT, "--peer: the path has more than %zu characters", sizeof c->path - 1);
    snprintf(c->threads, sizeof c->threads, "%d", rows[first].threads);
    int argc = 0;
    c->argv[argc++] = c->path;
    c->argv[argc++] = c->threads;
    for (int i = first; i < end; i++) {
        const ls_kbench_shape *s = &rows[i].shape;
        if (!rows[i].for_peer) continue;
        snprintf(c->shapes[i], SHAPE_CHARS, "%s:%zux%zux%zu", ls_kbench_form_name(s->form), s->m, s->n, s->k);
        c->argv[argc++] = c->shapes[i];
    }
    c->argv[argc] = NULL;
    return LS_OK;
}

/* ---- its output -------------------------------------------------------------------------------------------------- */

/* Rows first … end−1 and the round that the times are for. */
typedef struct reading {
    ls_kbench_row *rows;
    int first, end, round;
} reading;

static bool read_line(void *ctx, const char *line) {
    const reading *r = ctx;
    char form[3];
    size_t m = 0, n = 0, k = 0;
    double seconds = 0;
    if (sscanf(line, "%2s %zu %zu %zu %lf", form, &m, &n, &k, &seconds) != 5) return false;
    if (!isfinite(seconds) || seconds <= 0) return false;
    for (int i = r->first; i < r->end; i++) {
        const ls_kbench_shape *s = &r->rows[i].shape;
        if (!r->rows[i].for_peer || s->m != m || s->n != n || s->k != k) continue;
        if (strcmp(ls_kbench_form_name(s->form), form) != 0) continue;
        r->rows[i].peer_seconds[r->round] = seconds;
        return true;
    }
    return false;
}

static ls_status all_there(const char *path, const ls_kbench_row *rows, int first, int end, int round) {
    for (int i = first; i < end; i++)
        if (rows[i].for_peer && rows[i].peer_seconds[round] <= 0)
            return ls_fail(LS_ERR_FAILED, "%s printed no time for %s", path, rows[i].name);
    return LS_OK;
}

ls_status ls_kbench_peer_run(const char *path, const cpu_set_t *cpus, ls_kbench_row *rows, int first, int end,
                             int round, char library[LS_KBENCH_LIBRARY_MAX]) {
    ls_status status = LS_OK;
    reading r = {.rows = rows, .first = first, .end = end, .round = round};
    command *c = calloc(1, sizeof *c);
    if (c == NULL) return ls_fail(LS_ERR_RESOURCE, "out of memory for the command line of %s", path);
    LS_TRY_OUT(command_make(c, path, rows, first, end));
    ls_bench_program program = {
        .argv = c->argv,
        .cpus = cpus,
        .called = c->path,
        .line_form = "NT m n k seconds",
        .read_line = read_line,
        .ctx = &r,
        .library = library,
        .library_chars = LS_KBENCH_LIBRARY_MAX,
    };
    LS_TRY_OUT(ls_bench_program_run(&program));
    LS_TRY_OUT(all_there(path, rows, first, end, round));
out:
    free(c);
    return status;
}
