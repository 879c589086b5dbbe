/* own_workers.c: refuses to run under a launcher. */
#include "cli/own_workers.h"

#include "base/status.h"
#include "comm/launcher.h"

ls_status ls_cli_require_own_workers(const char *command) {
    ls_launcher launcher = ls_launcher_detect();
    if (launcher.kind == LS_LAUNCHER_NONE || launcher.stale) return LS_OK;
    return ls_fail(launcher.rank == 0 ? LS_ERR_INPUT : LS_ERR_PEER,
                   "%s starts its own workers: run it without %s, which started this process as one of %d", command,
                   launcher.name, launcher.size);
}
