/* line_scan.h: the line of a step as metrics.h writes it, read without a JSON tree. */
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

/* Fills *out and says true where the line is the object of a step with known members alone, each once; the values are
 * to the bit what a JSON parser makes of them. False: the line may be anything, and a parser is to look at it. */
bool ls_line_scan_step(const char *line, size_t bytes, ls_run_log_step *out, ls_line_usage *usage);

/* The number at *at, which is moved behind it, as JSON writes numbers; NaN, and *at NULL: there is none, or it has more
 * digits than are handled here. Correctly rounded. For tests. */
double ls_line_scan_number(const char **at, const char *end);

#endif
