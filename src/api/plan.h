/* plan.h: what the options of plan ask for. */
#ifndef LS_API_PLAN_H
#define LS_API_PLAN_H

#include <jansson.h>

#include "config/options.h"
#include "plan/answer.h"

/* *measured: figures of a file of probe's; NULL: none. New reference. On failure nothing is left to release. */
ls_status ls_plan_question_read(const ls_options *options, ls_plan_question *out, json_t **measured);

#endif
