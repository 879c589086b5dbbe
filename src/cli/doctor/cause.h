/* cause.h: prints the doctor's advice at the end of a `train` that failed, so that the user need not ask for it. */
#ifndef LS_CLI_DOCTOR_CAUSE_H
#define LS_CLI_DOCTOR_CAUSE_H

#include "base/status.h"

/* Prints cause and advice to standard error if the numbers of the run went wrong; nothing after other failures, whose
 * messages have their own advice. Returns `status`, and keeps its message. */
ls_status ls_doctor_print_cause(const char *run, ls_status status);

#endif
