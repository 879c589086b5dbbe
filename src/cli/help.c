/* help.c: answers that need no command: help in its forms and the version. */
#include "cli/cli.h"

#include <stdlib.h>
#include <unistd.h>

#include "config/help.h"

/* Colours are for people at a terminal who have not said no (no-color.org). */
static bool wants_colour(FILE *out) {
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    bool dumb = !term || !*term || (term[0] == 'd' && term[1] == 'u');
    return isatty(fileno(out)) && !dumb && !(no && *no);
}

static void write_group(const char *group, FILE *out) {
    fprintf(out, "usage: lockstep %s%s [options]\n\ncommands:\n", group ? group : "COMMAND", group ? " NAME" : "");
    ls_help_list(out, group);
    fprintf(out, "\nlockstep COMMAND --help shows the options of a command\n");
}

void ls_cli_answer(const ls_cli_request *request, FILE *out) {
    switch (request->task) {
    case LS_CLI_HELP_COMMAND: ls_help_command(out, request->command, request->all, wants_colour(out)); break;
    case LS_CLI_HELP_OVERVIEW: ls_help_overview(out, wants_colour(out)); break;
    case LS_CLI_HELP_MARKDOWN: ls_help_markdown(out); break;
    case LS_CLI_VERSION: ls_cli_write_version(out); break;
    case LS_CLI_HELP_GROUP:
    case LS_CLI_USAGE:
    case LS_CLI_RUN: write_group(request->group, out); break;
    }
}
