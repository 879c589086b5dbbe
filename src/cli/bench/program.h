/* program.h: runs another program that measures the same things, and reads what it prints.
 *
 * A peer prints one line for each time; "# library TEXT" names its library, and lines that are empty or begin with #
 * say nothing else. */
#ifndef LS_CLI_BENCH_PROGRAM_H
#define LS_CLI_BENCH_PROGRAM_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

#include "lockstep.h"

typedef struct ls_bench_program {
    char *const *argv;            /* ends with NULL */
    const char *missing;          /* argv[0] is looked for on the PATH; what to do when it is not there. NULL: a path */
    const char *const *variables; /* set to "1" for the program; ends with NULL. NULL: none */
    const cpu_set_t *cpus;        /* what it may use; NULL: what the caller may */
    const char *called;           /* the program in messages: "mpirun -n 4 ./peer" */
    const char *advice;           /* what to do when it takes too long, or NULL */
    const char *line_form;        /* "op size_bytes time_us" */
    /* A line with a time; false: not one of those asked for. */
    bool (*read_line)(void *ctx, const char *line);
    void *ctx;
    char *library; /* gets the name; left alone when none is told */
    size_t library_chars;
} ls_bench_program;

/* Runs the program to its end, then reads the lines. */
ls_status ls_bench_program_run(const ls_bench_program *program);

#endif
