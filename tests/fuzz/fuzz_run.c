/* fuzz_run.c: any bytes as the files of a run: metrics, options and layout, with a NUL between them. What is read is
 * diagnosed; all texts of the diagnosis are whole and can be printed. */
#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "observe/diagnose/diagnose.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check_text(const char *text, size_t room) {
    if (memchr(text, '\0', room) == NULL) abort();
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7F) abort();
    json_t *json = json_string(text);
    if (!json) abort(); /* not UTF-8 */
    json_decref(json);
}

static void check_run(const ls_run_log *run) {
    if (run->damaged_lines + run->unknown_lines > run->lines) abort();
    for (size_t i = 1; i < run->step_count; i++)
        if (run->steps[i].step <= run->steps[i - 1].step) abort();
    for (size_t i = 0; i < run->numerics_count; i++)
        if (run->numerics[i].block < 0 || run->numerics[i].block >= run->block_count) abort();
    for (size_t i = 0; i < run->usage_count; i++)
        if (run->usage[i].at + 2 * (size_t)run->usage[i].workers > run->usage_ms_count) abort();
    for (size_t i = 0; i < run->event_count; i++) {
        check_text(run->events[i].what, sizeof run->events[i].what);
        if (run->events[i].worker >= LS_WORKERS_MAX || run->events[i].suspect_count > LS_RUN_SUSPECTS_MAX) abort();
    }
    for (size_t i = 0; i < run->option_count; i++) check_text(run->options[i].value, sizeof run->options[i].value);
}

static void check(const ls_diagnosis *d) {
    if (d->cause_count > d->finding_count || d->finding_count > LS_FINDINGS_MAX) abort();
    if ((d->verdict == LS_VERDICT_CAUSE) != (d->cause_count > 0 && d->finding[0].cause != LS_CAUSE_UNKNOWN)) abort();
    for (int i = 0; i < d->finding_count; i++) {
        const ls_finding *f = &d->finding[i];
        if (f->is_note != (i >= d->cause_count)) abort();
        check_text(f->title, sizeof f->title);
        check_text(f->action, sizeof f->action);
        check_text(f->block, sizeof f->block);
        check_text(f->tensor, sizeof f->tensor);
        for (int e = 0; e < f->evidence_count; e++) check_text(f->evidence[e], sizeof f->evidence[e]);
    }
    for (int i = 0; i < d->followed_count; i++) check_text(d->followed[i].text, sizeof d->followed[i].text);
    for (int i = 0; i < d->missing_count; i++) check_text(d->missing[i], sizeof d->missing[i]);
}

typedef ls_status add_fn(ls_run_log *run, const char *text, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static add_fn *const add[] = {ls_run_log_add_metrics, ls_run_log_add_options, ls_run_log_add_layout};
    static ls_diagnosis d;
    ls_run_log run;
    ls_run_log_init(&run);
    ls_status status = LS_OK;
    for (size_t part = 0, at = 0; part < sizeof add / sizeof *add && status == LS_OK && at <= bytes; part++) {
        const uint8_t *nul = bytes > at ? memchr(data + at, 0, bytes - at) : NULL;
        size_t length = nul && part < 2 ? (size_t)(nul - data) - at : bytes - at;
        char *text = malloc(length ? length : 1); /* no room behind the last byte */
        if (!text) break;
        memcpy(text, data + at, length);
        status = add[part](&run, text, length);
        free(text);
        at += length + 1;
    }
    if (status == LS_OK) {
        check_run(&run);
        if (ls_diagnose(&run, &d) == LS_OK) {
            check(&d);
            ls_diagnosis_free(&d);
        }
    }
    ls_run_log_free(&run);
    return 0;
}
