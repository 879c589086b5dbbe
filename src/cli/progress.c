/* progress.c: lines that replace each other. */
#include "cli/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

void ls_cli_progress_end(void) {
    if (!isatty(STDERR_FILENO)) return;
    fprintf(stderr, "\r\033[K");
    fflush(stderr);
}

void ls_cli_progress(const char *format, ...) {
    va_list args;
    if (!isatty(STDERR_FILENO)) return;
    fprintf(stderr, "\r\033[K");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fflush(stderr);
}

void ls_cli_progress_probe(void *ctx, const char *what) {
    (void)ctx;
    if (what)
        ls_cli_progress("measuring this machine: %s", what);
    else
        ls_cli_progress_end();
}
