/* end.h: what `lockstep train` says when a run ends: what came of it, where it lies, and what to do next. */
#ifndef LS_CLI_TRAIN_END_H
#define LS_CLI_TRAIN_END_H

#include "cli/train/session.h"

/* Time, speed, best validation loss, checkpoint and the next commands, before the line that begins with "done:". The
 * first worker calls it. */
void ls_train_print_end(const ls_train_session *session, const ls_run_summary *summary);
/* The status of a run that a signal ended, after the loop has saved it, with how to go on as its message. */
ls_status ls_train_stopped(const ls_train_session *session, ls_status status);

#endif
