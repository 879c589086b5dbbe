/* progress.h: how far a long command is, on a terminal. */
#ifndef LS_CLI_PROGRESS_H
#define LS_CLI_PROGRESS_H

#include "config/options.h"
#include "lab/probe/probe.h"

/* A line on standard error that the next one replaces, and one that takes it away. Nothing where it is no terminal. */
void ls_cli_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
void ls_cli_progress_end(void);

/* How the options want this machine measured, up to so many workers (0: as ls_probe_options says), with such lines. */
ls_probe_options ls_cli_probe_options(const ls_options *options, int workers);

#endif
