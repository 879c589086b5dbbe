/* cause.c: the doctor's verdict on a run that has just failed. */
#include "cli/doctor/cause.h"

#include <limits.h>
#include <stdio.h>

#include "cli/print.h"
#include "observe/diagnose/diagnose.h"

/* Returns whether the failure's own message has told this cause already, or the cause only concerns time. */
static bool is_told(ls_cause cause) {
    /* These failures name a worker or a group, and have their advice. */
    if (cause == LS_CAUSE_FAULT || cause == LS_CAUSE_OUTLIER || cause == LS_CAUSE_ENDED) return true;
    return ls_cause_is_of_time(cause);
}

/* Prints the first finding, its advice and the command for the whole diagnosis to standard error; nothing if the user
 * knows the cause already. */
static void print_cause(const char *run, const ls_diagnosis *d) {
    enum { WORD_MAX = 4 * PATH_MAX };
    const ls_finding *f = &d->finding[0];
    char program[WORD_MAX], word[WORD_MAX];
    if (d->cause_count == 0 || is_told(f->cause)) return;
    fprintf(stderr, "doctor    %s\n", f->title);
    if (f->action[0]) fprintf(stderr, "          %s\n", f->action);
    fprintf(stderr, "next      %s doctor %s\n", ls_shell_program(program, sizeof program),
            ls_shell_word(run, word, sizeof word));
}

ls_status ls_doctor_print_cause(const char *run, ls_status status) {
    static ls_run_log log;
    static ls_diagnosis diagnosis;
    char message[LS_MESSAGE_MAX];
    snprintf(message, sizeof message, "%s", ls_status_message());
    if (ls_run_log_open(run, &log) == LS_OK) {
        if (log.stopped && ls_diagnose(&log, &diagnosis) == LS_OK) {
            print_cause(run, &diagnosis);
            ls_diagnosis_free(&diagnosis);
        }
        ls_run_log_free(&log);
    }
    return ls_fail(status, "%s", message);
}
