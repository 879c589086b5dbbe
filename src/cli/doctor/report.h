/* report.h: prints the doctor's diagnosis of a run to standard output, as text or JSON. */
#ifndef LS_CLI_DOCTOR_REPORT_H
#define LS_CLI_DOCTOR_REPORT_H

#include "observe/diagnose/diagnose.h"

/* Prints the diagnosis for people. `name`: the run as the user named it. */
void ls_doctor_print(const char *name, const ls_run_log *run, const ls_diagnosis *diagnosis);
/* Prints the numerics of one step, or for 0 of the newest with any (numerics.c). LS_ERR_INPUT if there are none. */
ls_status ls_doctor_print_numerics(const char *name, const ls_run_log *run, int64_t step, bool json);
/* Prints the diagnosis as one JSON object. */
ls_status ls_doctor_print_json(const char *name, const ls_run_log *run, const ls_diagnosis *diagnosis);

#endif
