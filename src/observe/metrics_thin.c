/* metrics_thin.c: files of metrics that were set aside, with fewer steps.
 *
 * A line is recognised by its first two members, which metrics.h and run/loop_record.c write in this order:
 * {"step":N,"loss":… Any other line stays, even if it is damaged, and lines that stay are copied byte for byte. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "observe/metrics.h"

/* A file grows beyond LS_METRICS_FILE_MAX if it cannot be set aside. */
enum { BYTES_MAX = 1 << 30 };

static const char step_key[] = "{\"step\":";

/* Returns the step that a line begins with, and what follows the number; −1 if it has none (*rest may be unset). */
static int64_t read_step(const char *line, const char **rest) {
    char *end;
    if (strncmp(line, step_key, sizeof step_key - 1) != 0) return -1;
    const char *digits = line + sizeof step_key - 1;
    int64_t step = *digits >= '0' && *digits <= '9' ? strtoll(digits, &end, 10) : -1;
    *rest = step >= 0 ? end : line;
    return step;
}

static bool begins_with(const char *text, const char *word) { return strncmp(text, word, strlen(word)) == 0; }

/* Returns the step of a line of a kind that is thinned (training steps, numerics, noise); -1 for other lines. */
static int64_t step_of_series(const char *line) {
    const char *rest;
    int64_t step = read_step(line, &rest);
    if (step < 0) return -1;
    bool is_one =
        begins_with(rest, ",\"loss\":") || begins_with(rest, ",\"numerics\":") || begins_with(rest, ",\"noise\":");
    return is_one ? step : -1;
}

/* Returns whether the file's first line says that it was thinned before. */
static bool is_thinned(const char *text) {
    const char *rest;
    return read_step(text, &rest) >= 0 && begins_with(rest, ",\"thinned\":");
}

/* Returns where the next line begins: behind the newline, or `end` for a last line without one. */
static const char *end_of_line(const char *line, const char *end) {
    const char *newline = memchr(line, '\n', (size_t)(end - line));
    return newline ? newline + 1 : end;
}

/* Returns the highest step of lines that are thinned, -1 if there are none; that step stays. */
static int64_t find_last_step(const char *text, const char *end) {
    int64_t last = -1;
    for (const char *line = text; line < end; line = end_of_line(line, end)) {
        int64_t step = step_of_series(line);
        if (step > last) last = step;
    }
    return last;
}

/* Moves the lines that stay to the front of the buffer; returns their size in bytes. */
static size_t move_lines(char *text, size_t bytes) {
    const char *end = text + bytes;
    int64_t last = find_last_step(text, end);
    char *to = text;
    for (const char *line = text, *next; line < end; line = next) {
        next = end_of_line(line, end);
        int64_t step = step_of_series(line);
        if (step >= 0 && step != last && step % LS_METRICS_THIN_EVERY != 0) continue;
        memmove(to, line, (size_t)(next - line));
        to += next - line;
    }
    return (size_t)(to - text);
}

ls_status ls_metrics_thin(const char *path) {
    char *text = NULL, *whole = NULL, line[128];
    const char *rest;
    size_t bytes;
    LS_TRY(ls_file_read(path, BYTES_MAX, &text, &bytes));
    ls_status status = LS_OK;
    if (is_thinned(text)) goto out;
    int64_t first = read_step(text, &rest);
    size_t line_bytes = (size_t)snprintf(line, sizeof line, "{\"step\":%" PRId64 ",\"thinned\":%d}\n",
                                         first > 0 ? first : 0, LS_METRICS_THIN_EVERY);
    bytes = move_lines(text, bytes);
    whole = malloc(line_bytes + bytes);
    if (whole) {
        memcpy(whole, line, line_bytes);
        memcpy(whole + line_bytes, text, bytes);
        status = ls_file_write_atomic(path, whole, line_bytes + bytes);
    } else {
        status = ls_fail(LS_ERR_RESOURCE, "out of memory to thin %s", path);
    }
out:
    free(whole);
    free(text);
    return status;
}
