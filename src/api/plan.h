/* plan.h: the fields of an ls_plan (lockstep.h): the question and the answer. The commands of the program print them.
 */
#ifndef LS_API_PLAN_H
#define LS_API_PLAN_H

#include <jansson.h>

#include "api/options.h"
#include "lab/probe/probe.h"
#include "plan/answer.h"
#include "plan/native/native.h"

struct ls_plan {
    const ls_options *options; /* that asked; of plan, or of train with --auto-layout */
    bool is_native;            /* this program, on a machine that was measured; else a cluster of chips */

    ls_plan_question question;
    ls_plan_answer answer;

    ls_settings settings;
    ls_native_machine machine;
    ls_native_found found;
    bool measured_now; /* the machine; false: before */

    json_t *json; /* NULL: not yet */
    char *text;
};

/* ---- plan_question.c: what options ask for ----------------------------------------------------------------------- */

/* *measured: figures of a file of probe's; NULL: none. New reference. On failure nothing is left to release. */
ls_status ls_plan_question_read(const ls_options *options, ls_plan_question *out, json_t **measured);
/* A chip of the table, one of it, or a cluster file; then *is_file, and *measured is a new reference to what probe
 * found out, or NULL. `name` is the value of --cluster, or one of several. */
ls_status ls_cluster_option_site(const ls_options *o, const char *name, ls_site *out, bool *is_file, json_t **measured);

/* ---- plan.c ------------------------------------------------------------------------------------------------------ */

/* As in ls_probe_options. */
typedef void (*ls_plan_say)(void *ctx, const char *what);

/* Completes the request of a run by the layout that is predicted to be fastest on this machine; what it has already
 * stays. Starts workers where the machine has to be measured. The caller ends *out, after a failure too. */
ls_status ls_plan_complete(const ls_options *options, const ls_settings *settings, ls_plan_say say, void *ctx,
                           ls_layout_request *request, ls_plan **out);
/* ls_probe(), with what was measured: in the first process, which *first tells. */
ls_status ls_plan_probe(const ls_options *options, ls_plan_say say, char path[PATH_MAX], ls_native_machine *machine,
                        bool *first);
/* Of layout `index`: a file for train --layout. New reference. */
json_t *ls_plan_layout_json(const ls_plan *plan, int index);

/* ---- plan_json.c ------------------------------------------------------------------------------------------------- */

/* What `lockstep plan --json` prints, made at the first call. Borrowed. */
ls_status ls_plan_whole_json(ls_plan *plan, json_t **out);

#endif
