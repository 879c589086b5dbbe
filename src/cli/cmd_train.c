/* cmd_train.c: `lockstep train`: what can be wrong is looked at first, then the workers run. */
#include "base/files.h"
#include "cli/cli.h"
#include "cli/train/options.h"
#include "cli/train/report.h"
#include "cli/train/session.h"
#include "run/inputs/layout.h"

/* A folder that is there may be refused at once; a new one is made when everything that can be wrong was looked at. One
 * without a name is made here, so that all workers know which it is.
 * Data is opened before workers are forked, who then have it; a launcher's workers each open it. */
static ls_status set_up(ls_train_session *s, ls_options *pinned) {
    LS_TRY(ls_train_session_open(s, pinned));
    if (s->opts->dry_run) return LS_OK;
    if (s->launched) return LS_OK;
    if (s->opts->resume || ls_file_exists(s->out)) LS_TRY(ls_train_session_dir(s));
    LS_TRY(ls_train_session_data(s));
    return s->opts->out ? LS_OK : ls_train_session_dir(s);
}

static ls_status run(ls_train_session *s, ls_workers_options workers) {
    workers.workers = s->launched ? 0 : ls_layout_workers(&s->layout);
    workers.pass_signals = 1;
    return ls_workers_run(&workers, ls_train_worker, s);
}

ls_status ls_cmd_train(const ls_options *given) {
    ls_options opts;
    ls_train_session s = {.opts = &opts};
    ls_workers_options workers;
    ls_status status = ls_train_options_inherit(given, &opts);
    if (status == LS_OK) status = ls_workers_options_from(&opts, &workers);
    if (status == LS_OK) status = set_up(&s, &opts);
    if (status == LS_OK)
        status = opts.dry_run ? ls_train_print_dry(&s.settings, &s.layout, opts.json) : run(&s, workers);
    if (status != LS_OK) ls_train_session_abandon(&s);
    ls_train_session_close(&s);
    ls_options_fini(&opts);
    return status;
}
