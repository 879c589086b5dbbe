/* log.c: formats a message as one line and passes it to the sink. The only file below cli/ that writes to stderr. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

atomic_int ls_log_threshold = LS_LOG_WARN;

static atomic_int worker_rank = -1;
static ls_log_sink line_sink;
static void *line_sink_ctx;

static const char *const labels[] = {
    [LS_LOG_ERROR] = "error", [LS_LOG_WARN] = "warning", [LS_LOG_INFO] = "info", [LS_LOG_DEBUG] = "debug"};

void ls_log_set_level(ls_log_level level) {
    atomic_store_explicit(&ls_log_threshold, (int)level, memory_order_relaxed);
}

void ls_log_set_worker(int rank) { atomic_store_explicit(&worker_rank, rank, memory_order_relaxed); }

void ls_log_set_sink(ls_log_sink sink, void *ctx) {
    line_sink = sink;
    line_sink_ctx = ctx;
}

/* ---- the handler of a program that uses the library -------------------------------------------------------------- */

static ls_message_fn handler;
static void *handler_ctx;

/* Passes a line without its newline to the handler that a program has set. Used as the sink. */
static void pass_to_handler(void *ctx, ls_log_level level, const char *line, size_t bytes) {
    char text[LS_LOG_LINE_MAX + 1];
    (void)ctx;
    (void)level;
    memcpy(text, line, bytes - 1);
    text[bytes - 1] = '\0';
    handler(handler_ctx, text);
}

void ls_message_handler_set(ls_message_fn take, void *ctx) {
    handler = take;
    handler_ctx = ctx;
    ls_log_set_sink(take ? pass_to_handler : NULL, NULL);
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

/* Ignores errors, because there is no place to report them. */
void ls_log_stderr(void *ctx, ls_log_level level, const char *line, size_t bytes) {
    (void)ctx;
    (void)level;
    while (bytes > 0) {
        ssize_t done = write(STDERR_FILENO, line, bytes);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return;
        line += done;
        bytes -= (size_t)done;
    }
}

/* Writes "lockstep: [worker 1] warning: " and returns its length. */
static size_t format_prefix(char *line, size_t capacity, ls_log_level level) {
    const char *label = labels[level];
    int rank = atomic_load_explicit(&worker_rank, memory_order_relaxed);
    int used = rank >= 0 ? snprintf(line, capacity, "lockstep: [worker %d] %s: ", rank, label)
                         : snprintf(line, capacity, "lockstep: %s: ", label);
    return (size_t)used;
}

/* Cuts `text` to `length` bytes at a UTF-8 character, with "..." at its end, and returns the new length. */
static size_t cut_line(char *text, size_t length) {
    static const char mark[] = "...";
    length -= sizeof mark - 1;
    while (length > 0 && ((unsigned char)text[length] & 0xC0) == 0x80) length--;
    memcpy(text + length, mark, sizeof mark);
    return length + sizeof mark - 1;
}

void ls_log_write(ls_log_level level, const char *format, ...) {
    if (!ls_log_is_on(level) || !line_sink) return;
    int saved_errno = errno;
    char line[LS_LOG_LINE_MAX + 1]; /* room for the newline and vsnprintf's NUL */
    size_t used = format_prefix(line, sizeof line, level);

    va_list args;
    va_start(args, format);
    int wanted = vsnprintf(line + used, LS_LOG_LINE_MAX - used, format, args);
    va_end(args);
    if (wanted < 0) goto out;

    size_t end = used + (size_t)wanted;
    if (end > LS_LOG_LINE_MAX - 1) end = cut_line(line, LS_LOG_LINE_MAX - 1);
    while (end > used && line[end - 1] == '\n') end--;
    for (size_t i = used; i < end; i++) {
        if (line[i] == '\n') line[i] = ' ';
    }
    line[end++] = '\n';

    line_sink(line_sink_ctx, level, line, end);
out:
    errno = saved_errno;
}
