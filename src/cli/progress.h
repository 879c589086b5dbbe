/* progress.h: how far a long command is, on a terminal. */
#ifndef LS_CLI_PROGRESS_H
#define LS_CLI_PROGRESS_H

/* A line on standard error that the next one replaces, and one that takes it away. Nothing where it is no terminal. */
void ls_cli_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
void ls_cli_progress_end(void);
/* What of this machine is being measured; NULL: it is done. */
void ls_cli_progress_probe(void *ctx, const char *what);

#endif
