/* diagnose.c: all rules on one run: which cause comes first, what followed it, and what would have to be recorded to
 * know more; and the small things that rules share. */
#include "observe/diagnose/diagnose.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "observe/diagnose/rules.h"

enum { RISE_STEPS = 10, RISE_STEPS_BROKEN = 3, FEW_STEPS = 10, LOOK = 9 };

static const char *const names[LS_CAUSES] = {
    [LS_CAUSE_FAULT] = "faulty worker",        [LS_CAUSE_OVERFLOW] = "overflow",
    [LS_CAUSE_BAD_DATA] = "bad data",          [LS_CAUSE_OUTLIER] = "outlier group",
    [LS_CAUSE_LOST_UPDATES] = "lost updates",  [LS_CAUSE_UNDERFLOW] = "underflow",
    [LS_CAUSE_LR] = "learning rate too high",  [LS_CAUSE_UNKNOWN] = "unknown",
    [LS_CAUSE_LR_ZERO] = "learning rate is 0", [LS_CAUSE_ENDED] = "ended early",
    [LS_CAUSE_SLOW_WORKER] = "slow worker",    [LS_CAUSE_NETWORK] = "slow network",
    [LS_CAUSE_BUBBLE] = "pipeline bubble",     [LS_CAUSE_IMBALANCE] = "imbalance",
    [LS_CAUSE_INPUT] = "slow input",           [LS_CAUSE_CHECKPOINTS] = "checkpoints",
    [LS_CAUSE_EVALUATION] = "evaluation",      [LS_CAUSE_CORES] = "too few cores",
    [LS_CAUSE_GPUS] = "too few GPUs",
};

const char *ls_cause_name(ls_cause cause) { return names[cause]; }

const char *ls_spell(double seconds, char text[LS_SPELL_MAX]) {
    static const struct {
        double from, unit;
        const char *name;
    } units[] = {{172800, 86400, "days"}, {7200, 3600, "h"}, {120, 60, "min"}, {0, 1, "s"}};
    int u = 0;
    while (!(seconds >= units[u].from) && units[u].unit > 1) u++;
    snprintf(text, LS_SPELL_MAX, "%.1f %s", seconds / units[u].unit, units[u].name);
    return text;
}

/* ---- findings ---------------------------------------------------------------------------------------------------- */

ls_finding *ls_finding_add(ls_case *c, ls_cause cause, long long step, long long last_step, double size) {
    ls_diagnosis *d = c->out;
    /* There are fewer rules than places. */
    ls_finding *f = &d->finding[d->finding_count < LS_FINDINGS_MAX ? d->finding_count++ : LS_FINDINGS_MAX - 1];
    *f = (ls_finding){.cause = cause, .onset = step, .step = step, .last_step = last_step, .size = size};
    f->worker = f->group = LS_RUN_NONE;
    return f;
}

ls_finding *ls_note_add(ls_case *c, ls_cause cause, long long step, long long last_step, double size) {
    ls_finding *f = ls_finding_add(c, cause, step, last_step, size);
    f->is_note = true;
    return f;
}

void ls_finding_name(ls_finding *f, const ls_run_log_event *event) {
    memcpy(f->block, event->block, sizeof f->block);
    memcpy(f->tensor, event->tensor, sizeof f->tensor);
}

/* Texts of a run are UTF-8, and a text that is cut must stay so. */
void ls_diagnose_print(char *out, size_t capacity, const char *format, ...) {
    char text[4 * LS_DIAGNOSE_LINE_MAX];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    size_t bytes = strlen(text);
    if (bytes >= capacity) {
        bytes = capacity - 1;
        while (bytes > 0 && ((unsigned char)text[bytes] & 0xC0) == 0x80) bytes--;
    }
    memcpy(out, text, bytes);
    out[bytes] = '\0';
}

char *ls_finding_next(ls_finding *f) {
    return f->evidence[f->evidence_count < LS_EVIDENCE_MAX ? f->evidence_count++ : LS_EVIDENCE_MAX];
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

const ls_finding *ls_case_find(const ls_case *c, ls_cause cause) {
    for (int i = 0; i < c->out->finding_count; i++)
        if (c->out->finding[i].cause == cause && !c->out->finding[i].is_note) return &c->out->finding[i];
    return NULL;
}

void ls_case_name_base(const ls_case *c, long long step, char out[LS_BASE_TEXT_MAX]) {
    long long saved = ls_run_log_checkpoint_before(c->run, step);
    if (saved == LS_RUN_NONE)
        snprintf(out, LS_BASE_TEXT_MAX, "from the start (no earlier checkpoint exists)");
    else
        snprintf(out, LS_BASE_TEXT_MAX, "from step %lld (--fork RUN/checkpoints/step-%09lld)", saved, saved);
}

bool ls_case_is_fp16(const ls_case *c) {
    int precision;
    if (ls_run_option_choice(c->run, LS_OPT_precision, &precision)) return precision == LS_PLAN_FP16;
    /* Only fp16 has a scale. */
    return c->run->of_kind[LS_EVENT_OVERFLOW] + c->run->of_kind[LS_EVENT_FLOOR] > 0;
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

/* Returns the rank in the order of findings: 0 causes of wrong numbers, 1 causes that only cost time, 2 notes. */
static int class_of(const ls_finding *f) { return f->is_note ? 2 : ls_cause_is_of_time(f->cause); }

/* qsort() order: by class; causes of time by their share of it, the largest first; others by the step of their first
 * sign. */
static int compare_findings(const void *a, const void *b) {
    const ls_finding *x = a, *y = b;
    if (class_of(x) != class_of(y)) return class_of(x) - class_of(y);
    if (class_of(x) == 1 && x->share != y->share) return x->share > y->share ? -1 : 1;
    if (x->onset != y->onset) return x->onset < y->onset ? -1 : 1;
    return (int)x->cause - (int)y->cause;
}

/* Sorts the findings and counts the causes among them. */
static void sort_findings(ls_diagnosis *d) {
    qsort(d->finding, (size_t)d->finding_count, sizeof *d->finding, compare_findings);
    for (int i = 0; i < d->finding_count; i++) d->cause_count += !d->finding[i].is_note;
}

/* Returns the verdict; NOT_ENOUGH also if the first cause is UNKNOWN, or there is none but the run has fewer than
 * FEW_STEPS. */
static ls_verdict judge_case(const ls_case *c) {
    const ls_diagnosis *d = c->out;
    if (d->cause_count > 0) return d->finding[0].cause == LS_CAUSE_UNKNOWN ? LS_VERDICT_NOT_ENOUGH : LS_VERDICT_CAUSE;
    return d->steps < FEW_STEPS ? LS_VERDICT_NOT_ENOUGH : LS_VERDICT_CLEAN;
}

/* ---- what followed ----------------------------------------------------------------------------------------------- */

/* Adds an entry for an event that followed, and returns the place of its text; beyond the limit, a spare one. */
static char *add_followed(ls_diagnosis *d, long long step) {
    ls_followed *f = &d->followed[d->followed_count < LS_FOLLOWED_MAX ? d->followed_count++ : LS_FOLLOWED_MAX];
    f->step = step;
    return f->text;
}

#define FOLLOW(d, step, ...) ls_diagnose_print(add_followed(d, step), LS_DIAGNOSE_LINE_MAX, __VA_ARGS__)

/* qsort() order: by step. */
static int compare_followed(const void *a, const void *b) {
    const ls_followed *x = a, *y = b;
    return (x->step > y->step) - (x->step < y->step);
}

/* Adds to what followed how the loss changed from step `from` to the end, and the first step from which it is not
 * finite. */
static void follow_loss(ls_case *c, long long from) {
    const ls_series *s = &c->series;
    size_t at;
    if (s->count == 0) return;
    if (!ls_series_find(s, from, &at)) at = 0;
    double before = ls_series_before(s, at, LOOK), end = ls_series_before(s, s->count - 1, LOOK);
    if (s->count - 1 > at)
        FOLLOW(c->out, s->at[s->count - 1].step, "the loss, %.3f at step %lld, is %.3f at the end", before, from, end);
    if (s->first_bad > from) FOLLOW(c->out, s->first_bad, "loss or gradient is not finite");
}

/* Adds to what followed how many steps after `from` were skipped (overflow), and how many left out outlier groups. */
static void follow_skips(ls_case *c, long long from) {
    const ls_run_log *run = c->run;
    long long first = LS_RUN_NONE;
    size_t skipped = 0, dropped = 0;
    for (size_t i = 0; i < run->step_count; i++) {
        if (run->steps[i].step <= from) continue;
        skipped += run->steps[i].skipped;
        dropped += run->steps[i].dropped > 0;
        if (run->steps[i].skipped && first == LS_RUN_NONE) first = run->steps[i].step;
    }
    if (skipped > 0) FOLLOW(c->out, first, "%zu step%s skipped from here on", skipped, skipped == 1 ? "" : "s");
    if (dropped > 0)
        FOLLOW(c->out, from + 1, "%zu step%s without the outlier groups", dropped, dropped == 1 ? "" : "s");
}

/* Adds to what followed the last validation loss and the best one, if the last one is after step `from`. */
static void follow_validation(ls_case *c, long long from) {
    const ls_run_log *run = c->run;
    const ls_run_log_validation *best = NULL, *last = NULL;
    for (size_t i = 0; i < run->validation_count; i++) {
        const ls_run_log_validation *v = &run->validations[i];
        if (!best || v->loss < best->loss) best = v;
        last = v;
    }
    if (last && last->step > from)
        FOLLOW(c->out, last->step, "validation loss %.3f; the best was %.3f at step %lld", last->loss, best->loss,
               best->step);
}

/* Adds to what followed that the loss scale reached its minimum, and why the run stopped, if either is in step `from`
 * or later. */
static void follow_events(ls_case *c, long long from) {
    const ls_run_log *run = c->run;
    for (size_t i = 0; i < run->event_count; i++) {
        const ls_run_log_event *e = &run->events[i];
        if (e->step < from) continue;
        if (e->kind == LS_EVENT_FLOOR) FOLLOW(c->out, e->step, "the loss scale is at its minimum");
        if (e->kind == LS_EVENT_STOPPED && c->out->finding[0].cause != LS_CAUSE_ENDED)
            FOLLOW(c->out, e->step, "the run stopped: %s", e->what);
    }
}

/* Lists what happened after the first cause, by step: other causes and notes, loss, skips, validation and events. For
 * a cause that only costs time, or an early end, only other findings and events. */
static void tell_what_followed(ls_case *c) {
    ls_diagnosis *d = c->out;
    long long from = d->finding[0].onset;
    for (int i = 1; i < d->finding_count; i++) {
        const ls_finding *f = &d->finding[i];
        if (!ls_cause_is_of_time(f->cause) && (!f->is_note || f->step >= from)) FOLLOW(d, f->step, "%s", f->title);
    }
    if (!ls_cause_is_of_time(d->finding[0].cause) && d->finding[0].cause != LS_CAUSE_ENDED) {
        follow_loss(c, from);
        follow_skips(c, from);
        follow_validation(c, from);
    }
    follow_events(c, from);
    qsort(d->followed, (size_t)d->followed_count, sizeof *d->followed, compare_followed);
}

/* ---- what is missing --------------------------------------------------------------------------------------------- */

/* There are fewer reasons than places. */
#define MISS(d, ...) ls_diagnose_print((d)->missing[(d)->missing_count++], LS_DIAGNOSE_LINE_MAX, __VA_ARGS__)

/* Returns whether the value of an option turns it off; true also for NULL (not recorded) and "". */
static bool is_off(const char *value) {
    return !value || !*value || strcmp(value, "0") == 0 || strcmp(value, "false") == 0 || strcmp(value, "off") == 0;
}

/* Returns whether a guard was off; false also if the option was not recorded. For "auto" the run recorded whether it
 * was on. */
static bool guard_is_off(const ls_run_log *run, const char *option) {
    const char *value = ls_run_log_option_get(run, option);
    return value && (strcmp(value, "auto") == 0 ? !run->start.watched : is_off(value));
}

/* Adds the guards that were off: without them a run without findings proves less. */
static void list_guards_off(ls_case *c) {
    static const struct {
        const char *option, *looks_for;
    } guards[] = {{"on-outlier", "gradient groups that stand out: --on-outlier warn"},
                  {"check", "replicas that drift apart: --check replicas"},
                  {"audit", "workers that compute wrongly: --audit 0.02"}};
    char text[LS_DIAGNOSE_LINE_MAX] = "";
    for (size_t i = 0; i < sizeof guards / sizeof *guards; i++) {
        size_t used = strlen(text);
        if (guard_is_off(c->run, guards[i].option))
            snprintf(text + used, sizeof text - used, "%s%s", used ? "; " : "", guards[i].looks_for);
    }
    if (text[0]) MISS(c->out, "by guards that were off: %s", text);
}

/* Lists what was not recorded and which option records it: metrics, numerics, times of workers, guards, audits. */
static void list_missing(ls_case *c) {
    const ls_run_log *run = c->run;
    ls_diagnosis *d = c->out;
    int workers = run->dp * run->tp * run->pp;
    if (run->lines == 0) MISS(d, "metrics: the run completed no step, or its metrics.jsonl was removed");
    if (run->damaged_lines > 0)
        MISS(d, "damaged lines in metrics.jsonl: %lld of %lld%s", run->damaged_lines, run->lines,
             run->ends_torn ? ", including the last one: the run was killed" : "");
    if (d->verdict == LS_VERDICT_NOT_ENOUGH && d->cause_count == 0 && d->steps > 0)
        MISS(d, "only %zu step%s recorded: too few to judge", d->steps, d->steps == 1 ? "" : "s");
    if (run->numerics_count == 0) MISS(d, "underflowed gradients, lost updates and norms per block: add --numerics 10");
    if (run->usage_count == 0 && workers != 1) {
        if (run->trace_problem[0])
            MISS(d, "compute and wait times per worker: %.180s", run->trace_problem);
        else
            MISS(d, "compute and wait times per worker: add --trace run");
    }
    if (d->verdict == LS_VERDICT_CLEAN) list_guards_off(c);
    ls_cause cause = d->cause_count > 0 ? d->finding[0].cause : LS_CAUSES;
    bool suspicious = cause == LS_CAUSE_OUTLIER || cause == LS_CAUSE_LR || cause == LS_CAUSE_UNKNOWN;
    if (suspicious && run->dp > 1 && is_off(ls_run_log_option_get(run, "audit")) && run->of_kind[LS_EVENT_AUDIT] == 0)
        MISS(d, "whether a worker computes wrong results: add --audit 0.02, which recomputes a fraction of the "
                "gradients on other workers");
}

/* Finishes the diagnosis after all rules: order, verdict, what followed, what is missing. */
static void conclude_diagnosis(ls_case *c) {
    const ls_run_log *run = c->run;
    ls_diagnosis *d = c->out;
    double planned = ls_run_log_option_number(run, "steps");
    d->steps = run->step_count;
    if (run->step_count > 0) {
        d->first_step = run->steps[0].step;
        d->last_step = run->steps[run->step_count - 1].step;
    }
    if (planned >= 0 && planned < 1e15) d->planned_steps = (long long)planned;
    sort_findings(d);
    d->verdict = judge_case(c);
    if (d->cause_count > 0) tell_what_followed(c);
    list_missing(c);
}

/* ---- all rules on one run ---------------------------------------------------------------------------------------- */

/* Runs all rules. The order matters: later rules ask which causes were found before. */
static ls_status apply_rules(ls_case *c) {
    LS_TRY(ls_series_make(c->run, &c->series));
    LS_TRY(ls_points_make(c->run, &c->series, &c->points));
    LS_TRY(ls_series_rise(&c->series, c->series.first_bad == LS_RUN_NONE ? RISE_STEPS : RISE_STEPS_BROKEN, &c->rise));
    ls_diagnose_faults(c);
    LS_TRY(ls_diagnose_outliers(c));
    ls_diagnose_overflow(c);
    ls_diagnose_underflow(c);
    ls_diagnose_lost(c);
    LS_TRY(ls_diagnose_usage(c));
    ls_diagnose_gpu(c);
    ls_diagnose_time(c);
    ls_diagnose_data(c);
    LS_TRY(ls_diagnose_lr(c));
    ls_diagnose_ruined(c);
    ls_diagnose_unknown(c);
    ls_diagnose_ending(c);
    conclude_diagnosis(c);
    return LS_OK;
}

ls_status ls_diagnose(const ls_run_log *run, ls_diagnosis *out) {
    ls_case c = {.run = run, .out = out};
    *out = (ls_diagnosis){.first_step = LS_RUN_NONE, .last_step = LS_RUN_NONE, .planned_steps = LS_RUN_NONE};
    ls_status status = apply_rules(&c);
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
