/* report.h: the post-mortem of a run, for people and for programs. */
#ifndef LS_CLI_DOCTOR_REPORT_H
#define LS_CLI_DOCTOR_REPORT_H

#include "observe/diagnose/diagnose.h"

/* `name` is the run as the user named it. */
void ls_doctor_print(const char *name, const ls_run_log *run, const ls_diagnosis *diagnosis);
/* The numerics of one step; 0: of the newest that has any (numerics.c). */
ls_status ls_doctor_print_numerics(const char *name, const ls_run_log *run, int64_t step, bool json);
ls_status ls_doctor_print_json(const char *name, const ls_run_log *run, const ls_diagnosis *diagnosis);

#endif
