/* help.h: --help, --help-all and docs/reference/options.md, made from the tables of commands and options. Write errors
 * stay in `out`. */
#ifndef LS_CONFIG_HELP_H
#define LS_CONFIG_HELP_H

#include <stdbool.h>
#include <stdio.h>

#include "config/options.h"

/* A terminal as it opens; examples may be longer, up to LS_HELP_LINE_MAX. */
enum { LS_HELP_COLUMNS = 80, LS_HELP_LINE_MAX = 100 };

typedef struct ls_exit_code {
    int code;
    const char *meaning; /* NULL: the end of the list */
} ls_exit_code;
extern const ls_exit_code ls_exit_codes[];

/* What the program can do. */
void ls_help_overview(FILE *out, bool colour);
/* One command: what it does, its common options or all of them, examples. */
void ls_help_command(FILE *out, ls_command command, bool all, bool colour);
/* The names and summaries of the commands whose first word is `group`, or of all (NULL). */
void ls_help_list(FILE *out, const char *group);
/* All of it as a page of Markdown. */
void ls_help_markdown(FILE *out);
/* As a page of the manual, section 1, in the macros of man(7): of a command, or of the program (LS_COMMAND_COUNT). */
void ls_help_man(FILE *out, ls_command command);

typedef enum ls_shell { LS_SHELL_BASH, LS_SHELL_ZSH, LS_SHELL_FISH, LS_SHELLS } ls_shell;
extern const char *const ls_shell_names[LS_SHELLS];
/* What makes the shell complete commands, options and their values. */
void ls_help_completion(FILE *out, ls_shell shell);

#endif
