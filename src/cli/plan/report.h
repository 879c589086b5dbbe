/* report.h: prints the answers of `lockstep plan` as text to standard output (JSON is made in api/plan_json.c): the
 * fastest layout, its predicted time and memory, and what limits it. */
#ifndef LS_CLI_PLAN_REPORT_H
#define LS_CLI_PLAN_REPORT_H

#include "api/plan.h"

/* Prints an answer about a cluster. is_robust: the user asked with --robust for the layout that stays good if the
 * assumptions are wrong. */
void ls_plan_report(const ls_plan_answer *answer, bool is_robust);
/* Prints a plan for training with this program itself on a machine that `lockstep probe` measured. */
void ls_plan_report_native(const ls_plan *plan);

#endif
