/* line_scan.h: the fast path of reading metrics: parses the line of a training step, in the form that metrics.h writes,
 * without building a JSON tree. run_lines.c tries it first. */
#ifndef LS_OBSERVE_LINE_SCAN_H
#define LS_OBSERVE_LINE_SCAN_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "observe/run_read.h"

/* The lists of times by worker in the line of a step ("busy_ms":[...]): `count` entries of each kind, 0 for an absent
 * list. */
typedef struct ls_line_usage {
    int count[LS_USAGE_KINDS];
    float ms[LS_USAGE_KINDS][LS_WORKERS_MAX];
} ls_line_usage;

/* Returns the time as a float, or NaN if it is negative, 1e12 or more, or NaN. */
static inline float ls_line_ms(double ms) { return ms >= 0 && ms < 1e12 ? (float)ms : (float)NAN; }
/* The JSON keys of those lists, by kind: "busy_ms", "wait_ms", ... */
extern const char *const ls_line_usage_names[LS_USAGE_KINDS];

/* Parses the line of a training step into *out and *usage. Returns true if the line is a JSON object in the form that
 * metrics.h writes: no blanks, no escapes, only known members in any order, each at most once, with "step" and "loss".
 * Values then equal those of a JSON parser to the bit. Returns false for any other line, which the JSON parser must
 * read; *out and *usage are then undefined. Does not verify the line's checksum. */
bool ls_line_scan_step(const char *line, size_t bytes, ls_run_log_step *out, ls_line_usage *usage);

/* Parses the JSON number at *at, correctly rounded, and moves *at behind it. Sets *at to NULL if there is no number,
 * it is too large for a double, or longer than is handled here (18 digits without leading zeros, in 47 characters,
 * always are). Public for tests. */
double ls_line_scan_number(const char **at, const char *end);

#endif
