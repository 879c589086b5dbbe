/* auto.h: `lockstep train --auto`: the layout is chosen for this machine. */
#ifndef LS_CLI_TRAIN_AUTO_H
#define LS_CLI_TRAIN_AUTO_H

#include "cli/train/session.h"
#include "plan/native/native.h"

/* What the settings mean to the planner. */
ls_own_task ls_train_own_task(const ls_settings *settings);
/* Completes the session's wish by the layout that is predicted to be fastest, and says which in two lines. What the
 * wish has already stays. Starts workers where the machine has to be measured. */
ls_status ls_train_auto(ls_train_session *session);

#endif
