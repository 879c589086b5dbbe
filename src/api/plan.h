/* plan.h: the fields of an ls_plan (lockstep.h): the question and the answer. The commands of the program print them.
 * One thread at a time uses a plan. */
#ifndef LS_API_PLAN_H
#define LS_API_PLAN_H

#include <jansson.h>

#include "api/options.h"
#include "lab/probe/probe.h"
#include "plan/answer.h"
#include "plan/native/native.h"

struct ls_plan {
    const ls_options *options; /* of plan, or of train with --auto-layout; borrowed */
    bool is_native;            /* for this program, on a machine that probe measured; else a cluster of chips */

    ls_plan_question question;
    ls_plan_answer answer;

    ls_settings settings;
    ls_native_machine machine;
    ls_native_found found;
    bool measured_now; /* the machine was measured for this plan; false: earlier */

    json_t *json; /* NULL: not yet */
    char *text;
};

/* ---- plan_question.c: the request in the options ----------------------------------------------------------------- */

/* Makes the planner's question from the options of plan. *measured is a new reference to the figures in a file of
 * probe's; NULL: none. On failure there is nothing to release. */
ls_status ls_plan_question_read(const ls_options *options, ls_plan_question *out, json_t **measured);
/* Reads one name of --cluster: a chip of the table, which gives one chip, or a cluster file; then *is_file is true, and
 * *measured a new reference to probe's figures in it, or NULL. On failure there is nothing to release. */
ls_status ls_cluster_option_site(const ls_options *o, const char *name, ls_site *out, bool *is_file, json_t **measured);

/* ---- plan.c ------------------------------------------------------------------------------------------------------ */

/* A callback for progress, as in ls_probe_options. */
typedef void (*ls_plan_say)(void *ctx, const char *what);

/* Completes the request of a run with the layout that is predicted to be fastest on this machine; what the request has
 * already stays. Starts workers if the machine must be measured. The caller destroys *out, also on failure. */
ls_status ls_plan_complete(const ls_options *options, const ls_settings *settings, ls_plan_say say, void *ctx,
                           ls_layout_request *request, ls_plan **out);
/* Measures the machine for ls_probe(), and writes the file `path` in the first process, for which *first is true. */
ls_status ls_plan_probe(const ls_options *options, ls_plan_say say, char path[PATH_MAX], ls_native_machine *machine,
                        bool *first);
/* Returns layout `index` as a file for train --layout: a new reference, NULL if memory is short. */
json_t *ls_plan_layout_json(const ls_plan *plan, int index);

/* ---- plan_json.c ------------------------------------------------------------------------------------------------- */

/* Returns in *out what `lockstep plan --json` prints, made at the first call and borrowed from the plan. */
ls_status ls_plan_whole_json(ls_plan *plan, json_t **out);

#endif
