/* line_scan.h: parses a line of a step as metrics.h writes it, without a JSON tree. */
#ifndef LS_OBSERVE_LINE_SCAN_H
#define LS_OBSERVE_LINE_SCAN_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "observe/run_read.h"

/* The lists of a step, by kind: `count` of each that is there. */
typedef struct ls_line_usage {
    int count[LS_USAGE_KINDS];
    float ms[LS_USAGE_KINDS][LS_WORKERS_MAX];
} ls_line_usage;

/* As a line of metrics has a time: below 0 or far too long is none. */
static inline float ls_line_ms(double ms) { return ms >= 0 && ms < 1e12 ? (float)ms : (float)NAN; }
extern const char *const ls_line_usage_names[LS_USAGE_KINDS];

/* Fills *out and returns true if the line is the object of a step with only known members, each once; values are those
 * of a JSON parser to the bit. Returns false for any other line, which the JSON parser must read. */
bool ls_line_scan_step(const char *line, size_t bytes, ls_run_log_step *out, ls_line_usage *usage);

/* The number at *at, which is moved behind it, as JSON writes numbers; NaN, and *at NULL: there is none, or it has more
 * digits than are handled here. Correctly rounded. For tests. */
double ls_line_scan_number(const char **at, const char *end);

#endif
