/* plan.h: the fields of an ls_plan (lockstep.h), which is a search for the fastest layouts, with its question and its
 * answer. There are two kinds: for a cluster of chips, from tables (question, answer), and "native", for this program
 * on a machine that lockstep probe measured (settings, machine, found). The commands plan and train of the program read
 * the fields to print them. One thread at a time uses a plan. */
#ifndef LS_API_PLAN_H
#define LS_API_PLAN_H

#include <jansson.h>

#include "api/options.h"
#include "lab/probe/probe.h"
#include "plan/answer.h"
#include "plan/native/native.h"

struct ls_plan {
    const ls_options *options; /* of plan, or of train with --auto-layout; borrowed */
    bool is_native; /* for this program, on a machine that probe measured; otherwise for a cluster of chips */

    ls_plan_question question; /* also of a native plan: its task has the shape */
    ls_plan_answer answer;     /* unless is_native */

    /* of a native plan: */
    ls_settings settings;
    ls_native_machine machine;
    ls_native_found found;
    bool measured_now; /* the machine was measured for this plan; false: earlier */

    json_t *json; /* what ls_plan_whole_json() has made; NULL: not yet */
    char *text;   /* what ls_plan_json() has made from it; NULL: not yet */
};

/* ---- plan_question.c: the request in the options ----------------------------------------------------------------- */

/* Makes the planner's question from the options of "plan". *measured is a new reference to the figures in a cluster
 * file that probe wrote; NULL: there are none. On failure there is nothing to release. */
ls_status ls_plan_question_read(const ls_options *options, ls_plan_question *out, json_t **measured);
/* Reads one name of --cluster into *out: a chip of the table, as a site of one chip, or a cluster file; then *is_file
 * is true, and *measured a new reference to probe's figures in it, or NULL. Applies --gpus-per-node, --node-link and
 * --network. On failure there is nothing to release. */
ls_status ls_cluster_option_site(const ls_options *o, const char *name, ls_site *out, bool *is_file, json_t **measured);

/* ---- plan.c ------------------------------------------------------------------------------------------------------ */

/* A callback for progress, as in ls_probe_options: `what` is measured now; NULL: the measurement has ended. */
typedef void (*ls_plan_say)(void *ctx, const char *what);

/* Fills the open knobs of the request of a training run with those of the layout that is predicted to be fastest on
 * this machine, for --auto-layout; what the request has already stays. Starts workers to measure the machine if its
 * file is missing or old; under a launcher that is LS_ERR_INPUT. The caller destroys *out, also on failure. */
ls_status ls_plan_complete(const ls_options *options, const ls_settings *settings, ls_plan_say say, void *ctx,
                           ls_layout_request *request, ls_plan **out);
/* Measures the machine into *machine and writes the cluster file, whose path it returns in `path`. Starts workers.
 * Under a launcher all processes return, and only the first, for which *first is true, writes. */
ls_status ls_plan_probe(const ls_options *options, ls_plan_say say, char path[PATH_MAX], ls_native_machine *machine,
                        bool *first);
/* Returns layout `index` (with --robust, layout 0 is the robust one) as a file for train --layout: a new reference;
 * NULL if memory is short. */
json_t *ls_plan_layout_json(const ls_plan *plan, int index);

/* ---- plan_json.c ------------------------------------------------------------------------------------------------- */

/* Returns in *out what `lockstep plan --json` prints; made at the first call and borrowed from the plan.
 * LS_ERR_RESOURCE if memory is short. */
ls_status ls_plan_whole_json(ls_plan *plan, json_t **out);

#endif
