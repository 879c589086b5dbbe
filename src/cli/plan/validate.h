/* validate.h: predictions beside measured runs, for a program to read. */
#ifndef LS_CLI_PLAN_VALIDATE_H
#define LS_CLI_PLAN_VALIDATE_H

#include "plan/published/validate.h"

/* Times in seconds, memory in bytes, errors as shares of what was measured. */
ls_status ls_plan_validate_json(const ls_validation *v);

#endif
