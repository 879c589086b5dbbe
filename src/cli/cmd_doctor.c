/* cmd_doctor.c: `lockstep doctor RUN`: diagnoses a run from the files in its directory, also after it has failed; with
 * a second run compares both; --times FILE: explains a table of measured times instead. */
#include <string.h>

#include "cli/cli.h"
#include "cli/doctor/compare.h"
#include "cli/doctor/price.h"
#include "cli/doctor/report.h"
#include "cli/doctor/times.h"

/* Replaces the advice of the first cause of lost time that another layout may cure (network, bubble, imbalance) by the
 * layout that the planner finds, if that is clearly faster. */
static void add_layout_advice(const char *path, ls_diagnosis *d) {
    const ls_utilisation *u = &d->use;
    double steps = 1 - u->share[LS_USE_CHECKPOINTS] - u->share[LS_USE_EVALUATION], ms = u->step_ms / steps;
    ls_step_parts parts = {.workers = u->workers,
                           .all = u->step_ms,
                           .computing = ms * u->share[LS_USE_COMPUTING],
                           .network = ms * u->share[LS_USE_NETWORK],
                           .bubble = ms * u->share[LS_USE_BUBBLE],
                           .imbalance = ms * u->share[LS_USE_IMBALANCE],
                           .input = ms * u->share[LS_USE_INPUT],
                           .host = ms * (u->share[LS_USE_HOST] + u->share[LS_USE_GPU])};
    for (int i = 0; i < d->cause_count; i++) {
        ls_finding *f = &d->finding[i];
        if (f->cause != LS_CAUSE_NETWORK && f->cause != LS_CAUSE_BUBBLE && f->cause != LS_CAUSE_IMBALANCE) continue;
        char text[sizeof f->action];
        if (ls_doctor_price(path, &parts, text, sizeof text)) memcpy(f->action, text, sizeof text);
        return;
    }
}

/* Diagnoses the run and prints the verdict, as text or JSON. */
static ls_status diagnose_and_print(const ls_options *options, const ls_run_log *run) {
    static ls_diagnosis diagnosis;
    ls_status status = ls_diagnose(run, &diagnosis);
    if (status == LS_OK) add_layout_advice(options->run, &diagnosis);
    if (status == LS_OK && options->json)
        status = ls_doctor_print_json(options->run, run, &diagnosis);
    else if (status == LS_OK)
        ls_doctor_print(options->run, run, &diagnosis);
    ls_diagnosis_free(&diagnosis);
    return status;
}

/* Opens and diagnoses both runs, RUN and the one it is compared with, and prints how they differ. */
static ls_status compare_two_runs(const ls_options *options) {
    const char *const name[2] = {options->run, options->against};
    static ls_run_log run[2];
    static ls_diagnosis diagnosis[2];
    ls_status status = LS_OK;
    int opened = 0, made = 0;
    for (; status == LS_OK && opened < 2; opened += status == LS_OK)
        status = ls_run_log_open(name[opened], &run[opened]);
    for (; status == LS_OK && made < 2; made += status == LS_OK) status = ls_diagnose(&run[made], &diagnosis[made]);
    if (status == LS_OK) status = ls_doctor_compare(name, run, diagnosis, options->json);
    while (made > 0) ls_diagnosis_free(&diagnosis[--made]);
    while (opened > 0) ls_run_log_free(&run[--opened]);
    return status;
}

/* Runs `lockstep doctor`. A diagnosis that finds faults is LS_OK; only what cannot be read or asked for fails. */
ls_status ls_cmd_doctor(const ls_options *options) {
    bool numerics = options->show == LS_DOCTOR_NUMERICS;
    ls_run_log run;
    if (options->times && options->run) return ls_fail(LS_ERR_INPUT, "doctor takes a run or --times FILE, not both");
    if (options->times) return ls_doctor_times(options);
    if (!options->run) return ls_fail(LS_ERR_INPUT, "doctor needs a run: lockstep doctor RUN, or --times FILE");
    if (options->step > 0 && !numerics)
        return ls_options_fail(options, LS_OPT_step,
                               "the verdict covers the whole run: add --show numerics to see one step");
    if (options->against && numerics)
        return ls_options_fail(options, LS_OPT_against, "two runs are compared as a whole: leave out --show numerics");
    if (options->against) return compare_two_runs(options);
    LS_TRY(ls_run_log_open(options->run, &run));
    ls_status status = numerics ? ls_doctor_print_numerics(options->run, &run, options->step, options->json)
                                : diagnose_and_print(options, &run);
    ls_run_log_free(&run);
    return status;
}
