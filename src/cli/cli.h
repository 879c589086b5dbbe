/* cli.h: the program `lockstep`. main() finds the command, parses its options and calls its function; of all folders,
 * only this one prints.
 *
 * A command is a row of config/commands.def and a file cmd_<name>.c with its function, ls_cmd_<name>(). The function
 * prints results to standard output, as text or with --json as JSON, and returns a status; main() prints the message of
 * a failure and exits with its code. A process runs one command once, so data that is too large for the stack is
 * static. */
#ifndef LS_CLI_CLI_H
#define LS_CLI_CLI_H

#include <stdbool.h>
#include <stdio.h>

#include "comm/launch/launcher.h"
#include "config/help.h"
#include "config/options.h"
#include "lockstep.h"

/* Declares the function of each command in the table, such as ls_cmd_train(). */
#define LS_COMMAND(id, function, name, summary, examples) ls_status function(const ls_options *options);
#include "config/commands.def"
#undef LS_COMMAND
/* Runs `lockstep verify --order`: trains with sums of gradients added in several orders, and prints how losses and
 * weights then differ. LS_ERR_FAILED if lockstep's own sums depend on the number of workers. */
ls_status ls_cmd_verify_order(const ls_options *options);
/* Runs `lockstep verify --unit`: compares the tensor cores of the GPUs with the formulas of their matrix units, and
 * prints the result as a report. LS_ERR_FAILED if a GPU differs. */
ls_status ls_cmd_verify_unit(const ls_options *options);
/* Runs `lockstep plan --validate FILE`, which compares predicted step times with the measured runs in a CSV file of
 * published runs. */
ls_status ls_cmd_plan_validate(const ls_options *options);
/* Runs `lockstep plan --validate FILE` with --leave-out (cross-validation) or --fit DIR, which fit the cost model's
 * constants to the runs. */
ls_status ls_cmd_plan_fit(const ls_options *options);
/* Runs `lockstep plan --compare A.json B.json`, which prints two answers of `plan --json` as one table. */
ls_status ls_cmd_plan_compare(const ls_options *options);
/* Runs `lockstep plan --recovery RUN --mtbf HOURS`, which predicts the goodput of a run that recovers lost workers from
 * memory. */
ls_status ls_cmd_plan_recovery(const ls_options *options);

/* What a command line asks for. */
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
    LS_CLI_USAGE /* no command, or half of one: print the commands and fail */
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

/* Parses the words of the command line up to the options, without the program's name; borrows argv. No word at all is
 * the task USAGE. LS_ERR_INPUT for an unknown command. */
ls_status ls_cli_request_read(ls_cli_request *request, int argc, char *const argv[]);
/* Calls the function of the command and returns its status. */
ls_status ls_cli_run_command(ls_command command, const ls_options *options);
/* Prints help, the version, a man page or completions on `out`, for every task but RUN. */
void ls_cli_answer(const ls_cli_request *request, FILE *out);
/* Prints version, compiler, libraries, machine and GPUs, a line each. Looks for GPUs, so the driver is loaded. */
void ls_cli_write_version(FILE *out);
/* Prints version, libraries, machine and GPUs as one line of JSON; nothing if memory runs out. */
void ls_cli_write_version_json(FILE *out);

#endif
