/* help.h: writes --help, --help-all, man pages, completions and docs/reference/options.md from the tables of commands
 * and options. The caller checks `out` for write errors. */
#ifndef LS_CONFIG_HELP_H
#define LS_CONFIG_HELP_H

#include <stdbool.h>
#include <stdio.h>

#include "config/options.h"

/* Width of a terminal; examples may be longer, up to LS_HELP_LINE_MAX. */
enum { LS_HELP_COLUMNS = 80, LS_HELP_LINE_MAX = 100 };

typedef struct ls_exit_code {
    int code;
    const char *meaning; /* NULL: the end of the list */
} ls_exit_code;
extern const ls_exit_code ls_exit_codes[];

/* Writes what the program can do: usage, commands, exit status. */
void ls_help_overview(FILE *out, bool colour);
/* Writes the help of one command: what it does, its common options or all of them, examples. */
void ls_help_command(FILE *out, ls_command command, bool all, bool colour);
/* Writes the names and summaries of the commands whose first of two words is `group`, or of all (NULL). */
void ls_help_list(FILE *out, const char *group);
/* Writes docs/reference/options.md: all commands and options as a page of Markdown. */
void ls_help_markdown(FILE *out);
/* Writes a man page, section 1, for a command, or for the program (LS_COMMAND_COUNT). */
void ls_help_man(FILE *out, ls_command command);

typedef enum ls_shell { LS_SHELL_BASH, LS_SHELL_ZSH, LS_SHELL_FISH, LS_SHELLS } ls_shell;
extern const char *const ls_shell_names[LS_SHELLS];
/* Writes the script that makes a shell complete commands, options and their values. */
void ls_help_completion(FILE *out, ls_shell shell);

#endif
