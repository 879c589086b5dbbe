/* cmd_train.c: `lockstep train`: a run of the library, with what a person wants to see. */
#include <errno.h>

#include "base/status.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "cli/train/report.h"
#include "run/progress.h"

static ls_status show(void *ctx, const ls_run_event *event) {
    ls_progress *progress = ctx;
    switch (event->kind) {
    case LS_RUN_PREPARES: fprintf(stderr, "%s\n", event->text); return LS_OK;
    case LS_RUN_STEPPED: return ls_progress_step_done(progress, event->step);
    case LS_RUN_MEASURES: ls_cli_progress_probe(NULL, event->text); return LS_OK;
    case LS_RUN_PLANNED: ls_train_print_plan(event->plan); return LS_OK;
    case LS_RUN_STEPS_ENDED: return ls_progress_end(progress);
    default: return ls_progress_note(progress, event->text);
    }
}

/* Progress that cannot be printed is dropped; a full disk is told here, once the run is saved. A reader that has gone
 * away is no error. A forked worker's stream is not the one that main() looks at. */
static ls_status end_output(void) {
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return LS_OK;
    if (errno == EPIPE) return LS_OK;
    if (errno != 0) return ls_fail_errno(LS_ERR_RESOURCE, "cannot write to standard output; the run itself is saved");
    return ls_fail(LS_ERR_RESOURCE, "cannot write all of the output to standard output; the run itself is saved");
}

static ls_status train(ls_run *run, void *arg) {
    bool is_first = ls_run_get_state(run).rank == 0, speaks = is_first && !run->options.json;
    ls_progress_init(arg, run->options.json ? stderr : stdout, run->options.log_every);
    if (speaks && !run->recovers) ls_train_print_header(run);
    ls_status status = ls_run_train(run);
    if (ls_status_is_stop(status)) return ls_train_stopped(run, status);
    LS_TRY(status);
    if (run->loop.leaves) return end_output(); /* others go on */
    if (speaks) ls_train_print_end(run);
    LS_TRY(ls_train_print_done(run));
    return is_first ? end_output() : LS_OK;
}

ls_status ls_cmd_train(const ls_options *options) {
    ls_run *run = NULL;
    ls_progress progress;
    LS_TRY(ls_run_open(&(ls_run_setup){.options = options, .event = show, .event_ctx = &progress}, &run));
    if (run->options.source[LS_OPT_restarts].origin == LS_ORIGIN_DEFAULT && !run->launched) run->options.restarts = 3;
    ls_status status = run->options.dry_run ? ls_train_print_dry(&run->settings, &run->layout, run->options.json)
                                            : ls_run_workers(run, train, &progress);
    ls_run_close(run);
    return status;
}
