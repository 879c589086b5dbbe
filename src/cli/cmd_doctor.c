/* cmd_doctor.c: `lockstep doctor RUN`: reads a run directory alone and writes its post-mortem; --times FILE: a table of
 * measured times instead. */
#include "cli/cli.h"
#include "cli/doctor/report.h"
#include "cli/doctor/times.h"

static ls_status diagnose(const ls_options *options, const ls_run_log *run) {
    static ls_diagnosis diagnosis;
    ls_status status = ls_diagnose(run, &diagnosis);
    if (status == LS_OK && options->json)
        status = ls_doctor_print_json(options->run, run, &diagnosis);
    else if (status == LS_OK)
        ls_doctor_print(options->run, run, &diagnosis);
    ls_diagnosis_free(&diagnosis);
    return status;
}

ls_status ls_cmd_doctor(const ls_options *options) {
    bool numerics = options->show == LS_DOCTOR_NUMERICS;
    ls_run_log run;
    if (options->times && options->run) return ls_fail(LS_ERR_INPUT, "doctor takes a run or --times FILE, not both");
    if (options->times) return ls_doctor_times(options);
    if (!options->run) return ls_fail(LS_ERR_INPUT, "doctor needs a run: lockstep doctor RUN, or --times FILE");
    if (options->step > 0 && !numerics)
        return ls_options_fail(options, LS_OPT_step,
                               "the verdict covers the whole run: add --show numerics to see one step");
    LS_TRY(ls_run_log_open(options->run, &run));
    ls_status status =
        numerics ? ls_doctor_print_numerics(options->run, &run, options->step, options->json) : diagnose(options, &run);
    ls_run_log_free(&run);
    return status;
}
