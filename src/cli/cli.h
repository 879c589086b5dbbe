/* cli.h: the program. main() finds the command, fills its options and calls its function; only this folder prints.
 *
 * A command is a row of config/commands.def and a file cmd_<name>.c with the function. It returns a status and leaves
 * printing the message to main(). A process runs one command once, so what is too large for the stack is static. */
#ifndef LS_CLI_CLI_H
#define LS_CLI_CLI_H

#include <stdbool.h>
#include <stdio.h>

#include "comm/launcher.h"
#include "config/help.h"
#include "config/options.h"
#include "lockstep.h"

#define LS_COMMAND(id, function, name, summary, examples) ls_status function(const ls_options *options);
#include "config/commands.def"
#undef LS_COMMAND
/* `lockstep verify --order`: what the order of a sum does to training. LS_ERR_FAILED where lockstep's own sums depend
 * on the number of workers. */
ls_status ls_cmd_verify_order(const ls_options *options);
/* `lockstep plan --validate FILE`: predictions beside the measured runs of a file. */
ls_status ls_cmd_plan_validate(const ls_options *options);
/* `lockstep plan --validate FILE --leave-out`, `--fit DIR`: fits the constants again. */
ls_status ls_cmd_plan_fit(const ls_options *options);
/* `lockstep plan --compare A.json B.json`: two answers as one table. */
ls_status ls_cmd_plan_compare(const ls_options *options);
ls_status ls_cmd_plan_recovery(const ls_options *options);

/* What the user asked for. */
typedef enum ls_cli_task {
    LS_CLI_RUN,
    LS_CLI_HELP_COMMAND,
    LS_CLI_HELP_OVERVIEW,
    LS_CLI_HELP_GROUP,
    LS_CLI_HELP_MARKDOWN,
    LS_CLI_HELP_MAN,
    LS_CLI_COMPLETION,
    LS_CLI_VERSION,
    LS_CLI_VERSION_JSON,
    LS_CLI_USAGE /* nothing, or half a command: show what there is and fail */
} ls_cli_task;

typedef struct ls_cli_request {
    ls_cli_task task;
    ls_command command; /* for RUN and HELP_COMMAND; for HELP_MAN, where LS_COMMAND_COUNT is the program itself */
    ls_shell shell;     /* for COMPLETION */
    bool all;           /* for HELP_COMMAND: every option, not only the common ones */
    const char *group;  /* for HELP_GROUP and USAGE: first word of the commands meant; NULL: all */
    int argc;           /* for RUN: the words behind the command */
    char *const *argv;
} ls_cli_request;

/* Makes sense of the words on the command line, up to the flags. */
ls_status ls_cli_request_read(ls_cli_request *request, int argc, char *const argv[]);
ls_status ls_cli_run_command(ls_command command, const ls_options *options);
/* Answers a request for help or the version on `out`. */
void ls_cli_answer(const ls_cli_request *request, FILE *out);
void ls_cli_write_version(FILE *out);
void ls_cli_write_version_json(FILE *out);

#endif
