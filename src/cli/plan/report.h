/* report.h: what `lockstep plan` prints for people. */
#ifndef LS_CLI_PLAN_REPORT_H
#define LS_CLI_PLAN_REPORT_H

#include "api/plan.h"

/* is_robust: the robust layout was asked for. */
void ls_plan_report(const ls_plan_answer *answer, bool is_robust);
/* For this program on a machine that was measured. */
void ls_plan_report_native(const ls_plan *plan);

#endif
