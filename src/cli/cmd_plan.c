/* cmd_plan.c: `lockstep plan`: layouts of a model on a cluster, or how well predictions meet measured runs. */
#include "cli/cli.h"
#include "cli/plan/command.h"

ls_status ls_cmd_plan(const ls_options *options) {
    if (options->validate) return ls_plan_validate_command(options);
    if (options->calibrate) return ls_fail(LS_ERR_INPUT, "--calibrate requires --validate FILE");
    return ls_plan_search_command(options);
}
