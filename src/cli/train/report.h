/* report.h: what `lockstep train` prints before the first step and after the last. Functions without a status print to
 * standard output and leave write errors to the end of the command. */
#ifndef LS_CLI_TRAIN_REPORT_H
#define LS_CLI_TRAIN_REPORT_H

#include "api/plan.h"
#include "api/run.h"

/* Prints the layout that --auto-layout chose, its predicted time per step and the next best layouts; with --json to
 * standard error. Called before workers are forked. */
void ls_train_print_plan(const ls_plan *plan);
/* Prints model, data, batch, layout, memory, recovery and guards; and, if `--shares auto` measured the workers' speeds,
 * how many gradient groups each replica got. Only worker 0 calls it. */
void ls_train_print_header(const ls_run *run);
/* Prints time, speed, best validation loss and the commands to run next. has_saved: this command wrote the checkpoint
 * of the last step, so its path is printed too. Only worker 0 calls it. */
void ls_train_print_end(const ls_run *run, bool has_saved);
/* Prints, in place of header and end, that a resumed run has no steps left, and the command that forks it. */
void ls_train_print_finished(const ls_run *run);
/* Prints the last line of a run: steps, loss, and the hashes of weights and identity; with --json, an object.
 * Collective: all workers call it, and worker 0 prints. */
ls_status ls_train_print_done(const ls_run *run);
/* Returns `status`, that of a run which a signal stopped, and sets its message: the step of the checkpoint and the
 * command that continues the run. Prints nothing itself. */
ls_status ls_train_stopped(const ls_run *run, ls_status status);
/* Prints, for --dry-run, the memory of each worker and the bytes that it would send; as JSON if `json`. */
ls_status ls_train_print_dry(const ls_settings *settings, const ls_layout *layout, bool json);

#endif
