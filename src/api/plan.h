/* plan.h: the inside of an ls_plan (lockstep.h), and what its options ask for. */
#ifndef LS_API_PLAN_H
#define LS_API_PLAN_H

#include <jansson.h>

#include "config/options.h"
#include "plan/native/native.h"
#include "plan/search.h"
#include "run/settings.h"

/* What the options ask. */
typedef struct ls_plan_question {
    ls_plan_task task;
    ls_layout_request request;
    json_t *measured;     /* of a file of probe's; NULL: none */
    double tokens, price; /* 0: not given */
} ls_plan_question;

/* On failure nothing is left to release. */
ls_status ls_plan_question_read(const ls_options *options, ls_plan_question *out);
void ls_plan_question_end(ls_plan_question *question);
/* Figures of probe's are of this program; another one is only a cluster of chips to it. */
bool ls_plan_is_native(const ls_options *options, const ls_plan_question *question);
/* Layouts of this program on the machine that was measured. */
ls_status ls_plan_search_native(const ls_options *options, const ls_plan_question *question, ls_settings *settings,
                                ls_native_machine *machine, ls_native_task *task, ls_native_found *out);
/* What the settings mean to the planner of this program. */
ls_native_task ls_train_native_task(const ls_settings *settings);

#endif
