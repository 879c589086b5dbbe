/* help.h: writes --help, --help-all, man pages, shell completions and docs/reference/options.md from the tables of
 * commands and options (options.h), so that no text about an option exists twice. main() calls it. Nothing fails here:
 * the caller checks `out` for write errors. `colour`: headings in bold, for a terminal. */
#ifndef LS_CONFIG_HELP_H
#define LS_CONFIG_HELP_H

#include <stdbool.h>
#include <stdio.h>

#include "config/options.h"

/* Characters of a line, for a terminal of this width; examples may be longer, up to LS_HELP_LINE_MAX. */
enum { LS_HELP_COLUMNS = 80, LS_HELP_LINE_MAX = 100 };

/* The exit statuses of the program, in the order of ls_status. */
typedef struct ls_exit_code {
    int code;
    const char *meaning; /* NULL: the end of the list */
} ls_exit_code;
extern const ls_exit_code ls_exit_codes[];

/* Writes `lockstep --help`: usage, all commands with their summaries, and the exit statuses. */
void ls_help_overview(FILE *out, bool colour);
/* Writes `lockstep COMMAND --help`: summary, usage, options and examples. all: --help-all, every option with range,
 * details, environment variable and aliases, instead of one or two lines for each common option. */
void ls_help_command(FILE *out, ls_command command, bool all, bool colour);
/* Writes a line, name and summary, for each command whose name begins with the word `group` ("bench"); NULL: for all
 * commands. */
void ls_help_list(FILE *out, const char *group);
/* Writes docs/reference/options.md: all commands and options as a page of Markdown. */
void ls_help_markdown(FILE *out);
/* Writes a man page of section 1, in roff, for a command, or for the whole program if `command` is LS_COMMAND_COUNT. */
void ls_help_man(FILE *out, ls_command command);

typedef enum ls_shell { LS_SHELL_BASH, LS_SHELL_ZSH, LS_SHELL_FISH, LS_SHELLS } ls_shell;
extern const char *const ls_shell_names[LS_SHELLS];
/* Writes the script that makes a shell complete commands, options and their values. */
void ls_help_completion(FILE *out, ls_shell shell);

#endif
