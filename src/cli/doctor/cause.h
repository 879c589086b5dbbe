/* cause.h: prints the advice of `lockstep doctor`, the program's diagnosis of a run, at the end of a `train` that
 * failed, so that the user need not run it. */
#ifndef LS_CLI_DOCTOR_CAUSE_H
#define LS_CLI_DOCTOR_CAUSE_H

#include "base/status.h"

/* Prints cause and advice to standard error if the numbers of the run in folder `run` went wrong; nothing after other
 * failures, whose messages have their own advice. Returns `status` itself, and keeps its message. */
ls_status ls_doctor_print_cause(const char *run, ls_status status);

#endif
