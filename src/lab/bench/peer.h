/* peer.h: runs another program that measures the same things, such as bench/comm_openmpi.c.
 *
 * A peer prints one line for each time. "# library TEXT" names its library; other lines that begin with #, and empty
 * ones, are ignored. */
#ifndef LS_LAB_BENCH_PEER_H
#define LS_LAB_BENCH_PEER_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

#include "lockstep.h"

enum { LS_BENCH_LIBRARY_MAX = 64, LS_BENCH_PEER_ARGS_MAX = 280 };

/* Starts as zeros but for the path. */
typedef struct ls_bench_peer {
    const char *path;                   /* NULL: there is none */
    bool failed;                        /* it failed once and is not run again */
    char library[LS_BENCH_LIBRARY_MAX]; /* unchanged if the peer names none */
} ls_bench_peer;

/* One run of it. Starts as zeros. */
typedef struct ls_bench_program {
    int argc;                               /* arguments so far */
    char *argv[LS_BENCH_PEER_ARGS_MAX + 1]; /* owned; ends with NULL */
    const char *missing;          /* argv[0] is looked for on the PATH; what to do when it is not there. NULL: a path */
    const char *const *variables; /* set to "1" for the program; ends with NULL. NULL: none */
    const cpu_set_t *cpus;        /* what it may use; NULL: what the caller may */
    const char *called;           /* the program in messages: "mpirun -n 4 ./peer" */
    const char *advice;           /* what to do when it takes too long, or NULL */
    const char *line_form;        /* "op size_bytes time_us" */
    /* Called with each line that is neither a comment nor empty: reads its time; false: it is not a requested one. */
    bool (*read_line)(void *ctx, const char *line);
    void *ctx;
} ls_bench_program;

/* Adds an argument; lack of memory is reported by the run. */
void ls_bench_program_add(ls_bench_program *program, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Runs the program, reads its lines, and releases the arguments, also on failure. LS_ERR_FAILED if it cannot be run,
 * fails, or prints another line; LS_ERR_DEADLINE after 10 minutes. */
ls_status ls_bench_program_run(ls_bench_program *program, char library[LS_BENCH_LIBRARY_MAX]);

/* Reads a comma-separated list of names into flags; NULL or "" or "all": all of them. Returns the first name that is
 * not one of them, or NULL. */
const char *ls_bench_names_read(const char *list, const char *const *names, int count, bool *has);

#endif
