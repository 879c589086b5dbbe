/* report.h: prints the answers of `lockstep plan` for people (JSON is made in api/plan_json.c). */
#ifndef LS_CLI_PLAN_REPORT_H
#define LS_CLI_PLAN_REPORT_H

#include "api/plan.h"

/* Prints an answer about a cluster. is_robust: the user asked for the robust layout (--robust). */
void ls_plan_report(const ls_plan_answer *answer, bool is_robust);
/* Prints a plan for this program itself on a measured machine. */
void ls_plan_report_native(const ls_plan *plan);

#endif
