/* cmd_probe.c: `lockstep probe`: measures this machine for the planner. */
#include "cli/cli.h"

ls_status ls_cmd_probe(const ls_options *options) {
    (void)options;
    return ls_fail(LS_ERR_FAILED, "not here yet");
}
