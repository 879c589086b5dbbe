/* report.h: what `lockstep train` prints before the first step and after the last. */
#ifndef LS_CLI_TRAIN_REPORT_H
#define LS_CLI_TRAIN_REPORT_H

#include "api/plan.h"
#include "api/run.h"

/* --auto-layout: the layout that was chosen, and the next best. */
void ls_train_print_plan(const ls_plan *plan);
/* Model, data, batch, layout, memory; and the gradient groups of the DP groups where speeds were measured for them. The
 * first worker calls it. */
void ls_train_print_header(const ls_run *run);
/* Time, speed, best validation loss, the checkpoint where this command saved it, and the next commands. The first
 * worker calls it. */
void ls_train_print_end(const ls_run *run, bool has_saved);
/* Instead of header and end, for a resumed run whose last checkpoint has all its steps. */
void ls_train_print_finished(const ls_run *run);
/* One line: steps, loss, and the hashes of weights and identity. All workers call it; the first one prints. */
ls_status ls_train_print_done(const ls_run *run);
/* The status of a run that a signal ended, after it was saved, with how to go on as its message. */
ls_status ls_train_stopped(const ls_run *run, ls_status status);
/* What each worker would hold, and what it would send. */
ls_status ls_train_print_dry(const ls_settings *settings, const ls_layout *layout, bool json);

#endif
