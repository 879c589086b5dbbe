/* log.h: messages for the user: warnings, notes and debugging; one line each.
 *
 *     lockstep: warning: 8 workers on 2 cores
 *     lockstep: [worker 3] warning: …
 *
 * The library is silent until a sink is set: the command-line tool sends lines to stderr (ls_log_stderr), another
 * program may set its own handler (ls_message_handler_set in lockstep.h).
 *
 * Levels are ERROR < WARN < INFO < DEBUG; a message is written if its level is at most the level set (WARN at start). A
 * line goes to stderr in a single write(2), so that lines of several workers do not mix. Longer messages are cut.
 *
 * Errors are not logged where they occur but returned as ls_status. Any thread may log; the sink and the worker number
 * are set before threads start. errno is preserved. */
#ifndef LS_BASE_LOG_H
#define LS_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* X(value, "name") */
#define LS_LOG_LEVELS(X) X(LS_LOG_ERROR, "error") X(LS_LOG_WARN, "warn") X(LS_LOG_INFO, "info") X(LS_LOG_DEBUG, "debug")

typedef enum ls_log_level {
#define LS_LOG_VALUE(value, name) value,
    LS_LOG_LEVELS(LS_LOG_VALUE)
#undef LS_LOG_VALUE
} ls_log_level;

enum { LS_LOG_LINE_MAX = 1024 }; /* bytes of a line with its newline; below PIPE_BUF */

/* Receives each line, including its newline. */
typedef void (*ls_log_sink)(void *ctx, ls_log_level level, const char *line, size_t bytes);

/* Sets the highest level that is written. */
void ls_log_set_level(ls_log_level level);
/* Makes lines of this process name the worker from now on; a negative rank stops that. */
void ls_log_set_worker(int rank);
/* Sets where lines go; NULL, as at the start: they are dropped. */
void ls_log_set_sink(ls_log_sink sink, void *ctx);
/* Writes a line to standard error. To be set as the sink. */
void ls_log_stderr(void *ctx, ls_log_level level, const char *line, size_t bytes);

extern atomic_int ls_log_threshold;

/* Returns whether messages of this level are written. Any thread. */
static inline bool ls_log_is_on(ls_log_level level) {
    return (int)level <= atomic_load_explicit(&ls_log_threshold, memory_order_relaxed);
}

/* Passes a message to the sink as one line: with a prefix, newlines as spaces, cut to LS_LOG_LINE_MAX. */
void ls_log_write(ls_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The arguments are evaluated only when the level is on. */
#define LS_LOG_AT(level, ...)                                                                                          \
    do {                                                                                                               \
        if (ls_log_is_on(level)) ls_log_write(level, __VA_ARGS__);                                                     \
    } while (0)
#define ls_log_warn(...) LS_LOG_AT(LS_LOG_WARN, __VA_ARGS__)
#define ls_log_info(...) LS_LOG_AT(LS_LOG_INFO, __VA_ARGS__)
#define ls_log_debug(...) LS_LOG_AT(LS_LOG_DEBUG, __VA_ARGS__)

#endif
