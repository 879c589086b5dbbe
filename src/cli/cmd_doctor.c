/* cmd_doctor.c: `lockstep doctor RUN`: reads a run directory alone and writes its post-mortem. */
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/doctor_report.h"

ls_status ls_cmd_doctor(const ls_options *options) {
    ls_run run;
    if (!options->run) return ls_fail(LS_ERR_INPUT, "doctor needs a run: lockstep doctor RUN");
    ls_diagnosis *diagnosis = calloc(1, sizeof *diagnosis);
    if (!diagnosis) return ls_fail(LS_ERR_RESOURCE, "out of memory for a diagnosis");
    ls_status status = ls_run_open(options->run, &run);
    if (status == LS_OK) {
        status = ls_diagnose(&run, diagnosis);
        if (status == LS_OK && options->json)
            status = ls_doctor_print_json(options->run, &run, diagnosis);
        else if (status == LS_OK)
            ls_doctor_print(options->run, &run, diagnosis);
        ls_diagnosis_free(diagnosis);
        ls_run_free(&run);
    }
    free(diagnosis);
    return status;
}
