/* report.h: prints the doctor's diagnosis of a run to standard output, as text or JSON. */
#ifndef LS_CLI_DOCTOR_REPORT_H
#define LS_CLI_DOCTOR_REPORT_H

#include "observe/diagnose/diagnose.h"

/* Prints the diagnosis as text: what was found, the advice, where the time went. `name`: the run as the user named
 * it. */
void ls_doctor_print(const char *name, const ls_run_log *run, const ls_diagnosis *diagnosis);
/* Prints what rounding did in one step (train --numerics): for each block the norms of gradients, weights and updates,
 * and the shares of numbers that 16 bits flushed to zero. step 0: the newest recorded one. LS_ERR_INPUT if that step
 * was not recorded. */
ls_status ls_doctor_print_numerics(const char *name, const ls_run_log *run, int64_t step, bool json);
/* Prints the diagnosis as one JSON object. */
ls_status ls_doctor_print_json(const char *name, const ls_run_log *run, const ls_diagnosis *diagnosis);

#endif
