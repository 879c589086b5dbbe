/* diagnose.c: all rules on one run, and the small things that they share. */
#include "observe/diagnose/diagnose.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "observe/diagnose/parts.h"

enum { RISE_STEPS = 10, RISE_STEPS_BROKEN = 3 };

static const char *const names[LS_CAUSES] = {
    [LS_CAUSE_FAULT] = "faulty worker",       [LS_CAUSE_OVERFLOW] = "overflow",
    [LS_CAUSE_BAD_DATA] = "bad data",         [LS_CAUSE_OUTLIER] = "outlier group",
    [LS_CAUSE_LOST_UPDATES] = "lost updates", [LS_CAUSE_UNDERFLOW] = "underflow",
    [LS_CAUSE_LR] = "learning rate too high", [LS_CAUSE_UNKNOWN] = "unknown",
    [LS_CAUSE_SLOW_WORKER] = "slow worker",
};

const char *ls_cause_name(ls_cause cause) { return names[cause]; }

/* ---- findings ---------------------------------------------------------------------------------------------------- */

ls_finding *ls_finding_add(ls_case *c, ls_cause cause, int64_t step) {
    ls_diagnosis *d = c->out;
    /* There are fewer rules than places. */
    ls_finding *f = &d->finding[d->finding_count < LS_FINDINGS_MAX ? d->finding_count++ : LS_FINDINGS_MAX - 1];
    *f = (ls_finding){
        .cause = cause, .onset = step, .step = step, .last_step = step, .worker = LS_RUN_NONE, .group = LS_RUN_NONE};
    return f;
}

/* Texts of a run are UTF-8, and a text that is cut must stay so. */
void ls_diagnose_print(char *out, size_t capacity, const char *format, va_list list) {
    char text[4 * LS_DIAGNOSE_LINE_MAX];
    vsnprintf(text, sizeof text, format, list);
    size_t bytes = strlen(text);
    if (bytes >= capacity) {
        bytes = capacity - 1;
        while (bytes > 0 && ((unsigned char)text[bytes] & 0xC0) == 0x80) bytes--;
    }
    memcpy(out, text, bytes);
    out[bytes] = '\0';
}

void ls_finding_title(ls_finding *f, const char *format, ...) {
    va_list list;
    va_start(list, format);
    ls_diagnose_print(f->title, sizeof f->title, format, list);
    va_end(list);
}

void ls_finding_evidence(ls_finding *f, const char *format, ...) {
    va_list list;
    if (f->evidence_count == LS_EVIDENCE_MAX) return;
    va_start(list, format);
    ls_diagnose_print(f->evidence[f->evidence_count++], sizeof f->evidence[0], format, list);
    va_end(list);
}

void ls_finding_action(ls_finding *f, const char *format, ...) {
    va_list list;
    va_start(list, format);
    ls_diagnose_print(f->action, sizeof f->action, format, list);
    va_end(list);
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

const ls_finding *ls_case_find(const ls_case *c, ls_cause cause) {
    for (int i = 0; i < c->out->finding_count; i++)
        if (c->out->finding[i].cause == cause && !c->out->finding[i].is_note) return &c->out->finding[i];
    return NULL;
}

bool ls_case_is_fp16(const ls_case *c) {
    int precision;
    if (ls_run_option_choice(c->run, LS_OPT_precision, &precision)) return precision == LS_PLAN_FP16;
    /* Only fp16 has a scale. */
    return c->run->of_kind[LS_EVENT_OVERFLOW] + c->run->of_kind[LS_EVENT_FLOOR] > 0;
}

static ls_status examine(ls_case *c) {
    LS_TRY(ls_series_make(c->run, &c->series));
    LS_TRY(ls_points_make(c->run, &c->series, &c->points));
    LS_TRY(ls_series_rise(&c->series, c->series.first_bad == LS_RUN_NONE ? RISE_STEPS : RISE_STEPS_BROKEN, &c->rise));
    ls_diagnose_faults(c);
    LS_TRY(ls_diagnose_outliers(c));
    ls_diagnose_overflow(c);
    ls_diagnose_underflow(c);
    ls_diagnose_lost(c);
    LS_TRY(ls_diagnose_usage(c));
    ls_diagnose_data(c);
    LS_TRY(ls_diagnose_lr(c));
    ls_diagnose_unknown(c);
    ls_diagnose_conclude(c);
    return LS_OK;
}

ls_status ls_diagnose(const ls_run_log *run, ls_diagnosis *out) {
    ls_case c = {.run = run, .out = out};
    *out = (ls_diagnosis){.first_step = LS_RUN_NONE, .last_step = LS_RUN_NONE, .planned_steps = LS_RUN_NONE};
    ls_status status = examine(&c);
    ls_series_free(&c.series);
    ls_points_free(&c.points);
    if (status != LS_OK) ls_diagnosis_free(out);
    return status;
}

void ls_diagnosis_free(ls_diagnosis *diagnosis) {
    if (!diagnosis) return;
    free(diagnosis->usage.worker);
    diagnosis->usage = (ls_usage){0};
}
