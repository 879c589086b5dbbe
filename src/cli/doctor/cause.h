/* cause.h: the doctor's verdict on a run that has just failed. */
#ifndef LS_CLI_DOCTOR_CAUSE_H
#define LS_CLI_DOCTOR_CAUSE_H

#include "base/status.h"

/* Prints to standard error cause and advice of a run whose numbers went wrong, so that the terminal advises what the
 * doctor does; nothing of another failure, which has its own advice. Returns `status` with its message. */
ls_status ls_doctor_print_cause(const char *run, ls_status status);

#endif
