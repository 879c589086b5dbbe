/* line_scan.h: the fast path of reading metrics: parses the line of a training step, in the form that metrics.h writes,
 * without building a JSON tree. run_lines.c tries it first. */
#ifndef LS_OBSERVE_LINE_SCAN_H
#define LS_OBSERVE_LINE_SCAN_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "observe/run_read.h"

/* Times by worker that the line of a step lists ("busy_ms":[…]); `count` is 0 for a list that is absent. */
typedef struct ls_line_usage {
    int count[LS_USAGE_KINDS];
    float ms[LS_USAGE_KINDS][LS_WORKERS_MAX];
} ls_line_usage;

/* Returns the time as a float, or NaN if it is negative, 1e12 or more, or NaN. */
static inline float ls_line_ms(double ms) { return ms >= 0 && ms < 1e12 ? (float)ms : (float)NAN; }
extern const char *const ls_line_usage_names[LS_USAGE_KINDS];

/* Fills *out and returns true if the line is the object of a step with only known members, each once; values are those
 * of a JSON parser to the bit. Returns false for any other line, which the JSON parser must read. */
bool ls_line_scan_step(const char *line, size_t bytes, ls_run_log_step *out, ls_line_usage *usage);

/* Parses the JSON number at *at, correctly rounded, and moves *at behind it. Sets *at to NULL if there is none, it is
 * too large for a double, or it has more digits than are handled here (18 always are). Public for tests. */
double ls_line_scan_number(const char **at, const char *end);

#endif
