/* cmd_resize.c: `lockstep resize RUN --workers N`: a note in the folder of a run, which its supervisor takes. */
#include <stdio.h>

#include "base/status.h"
#include "cli/cli.h"
#include "run/recover/resize.h"

ls_status ls_cmd_resize(const ls_options *options) {
    if (options->source[LS_OPT_workers].origin == LS_ORIGIN_DEFAULT)
        return ls_fail(LS_ERR_INPUT, "resize needs the number of workers: --workers N");
    LS_TRY(ls_resize_ask(options->run, (int)options->workers));
    printf("%s was asked to go on with %d worker%s after the step under way\n", options->run, (int)options->workers,
           options->workers == 1 ? "" : "s");
    return LS_OK;
}
