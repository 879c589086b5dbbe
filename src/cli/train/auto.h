/* auto.h: `lockstep train --auto`: the layout is chosen for this machine. */
#ifndef LS_CLI_TRAIN_AUTO_H
#define LS_CLI_TRAIN_AUTO_H

#include "api/run.h"
#include "plan/native/native.h"

/* Completes the run's request by the layout that is predicted to be fastest, and says which in two lines. What the
 * request has already stays. Starts workers where the machine has to be measured. */
ls_status ls_train_auto(ls_run *run);

#endif
