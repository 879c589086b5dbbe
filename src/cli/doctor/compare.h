/* compare.h: prints how two runs differ (`lockstep doctor A B`) in time, loss and options, and which change explains
 * it. */
#ifndef LS_CLI_DOCTOR_COMPARE_H
#define LS_CLI_DOCTOR_COMPARE_H

#include "observe/diagnose/diagnose.h"

/* Prints the comparison to standard output, as one object if `json`. `name`: the runs as the user named them. */
ls_status ls_doctor_compare(const char *const name[2], const ls_run_log run[2], const ls_diagnosis diagnosis[2],
                            bool json);

#endif
