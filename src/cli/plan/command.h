/* command.h: the parts of `lockstep plan`: what its options ask, and how answers are printed. */
#ifndef LS_CLI_PLAN_COMMAND_H
#define LS_CLI_PLAN_COMMAND_H

#include <jansson.h>

#include "api/plan.h"

/* native.c: this program on a machine that was measured. */
ls_status ls_plan_native_command(const ls_options *options, const ls_shape *shape, const json_t *measured);
/* validate.c: predictions beside the measured runs of a file. */
ls_status ls_plan_validate_command(const ls_options *options);

/* report.c; a part of a whole: a line with its share as a bar, where there is any. */
void ls_plan_report(const ls_plan_answer *answer);
void ls_plan_print_part(const char *label, double value, double share);

/* json.c */
ls_status ls_plan_report_json(const ls_plan_answer *answer);
json_t *ls_plan_times_to_json(const double *time);
json_t *ls_plan_memory_to_json(const double *memory);
/* For --out. Takes the reference. */
ls_status ls_plan_layout_write(const char *path, json_t *json);

#endif
