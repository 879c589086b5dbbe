/* cmd_resize.c: `lockstep resize RUN --workers N`: asks the supervisor of a run for another number of workers. */
#include <stdio.h>

#include "base/status.h"
#include "cli/cli.h"
#include "run/recover/resize.h"

/* Runs `lockstep resize`: sends the request to the run's supervisor, the process that starts its workers, and prints
 * its answer. */
ls_status ls_cmd_resize(const ls_options *options) {
    char text[LS_RESIZE_TEXT_MAX];
    if (options->source[LS_OPT_workers].origin == LS_ORIGIN_DEFAULT)
        return ls_fail(LS_ERR_INPUT, "resize needs the number of workers: --workers N");
    LS_TRY(ls_resize_ask(options->run, (int)options->workers, text));
    printf("%s %s\n", options->run, text);
    return LS_OK;
}
