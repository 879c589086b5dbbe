/* verdict.c: which cause comes first, what followed it, and what would have to be recorded to know more. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "observe/diagnose/parts.h"

enum { FEW_STEPS = 10, LOOK = 9 };

/* ---- order ------------------------------------------------------------------------------------------------------- */

static int rank_of(const ls_finding *f) { return f->is_note ? 2 : f->cause == LS_CAUSE_SLOW_WORKER; }

static int compare(const void *a, const void *b) {
    const ls_finding *x = a, *y = b;
    if (rank_of(x) != rank_of(y)) return rank_of(x) - rank_of(y);
    if (x->onset != y->onset) return x->onset < y->onset ? -1 : 1;
    return (int)x->cause - (int)y->cause;
}

static void order(ls_diagnosis *d) {
    qsort(d->finding, (size_t)d->finding_count, sizeof *d->finding, compare);
    for (int i = 0; i < d->finding_count; i++) d->cause_count += !d->finding[i].is_note;
}

static ls_verdict judge(const ls_case *c) {
    const ls_diagnosis *d = c->out;
    if (d->cause_count > 0) return d->finding[0].cause == LS_CAUSE_UNKNOWN ? LS_VERDICT_NOT_ENOUGH : LS_VERDICT_CAUSE;
    return d->steps < FEW_STEPS ? LS_VERDICT_NOT_ENOUGH : LS_VERDICT_CLEAN;
}

/* ---- what followed ----------------------------------------------------------------------------------------------- */

static void follow(ls_diagnosis *d, int64_t step, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void follow(ls_diagnosis *d, int64_t step, const char *format, ...) {
    va_list list;
    if (d->followed_count == LS_FOLLOWED_MAX) return;
    ls_followed *f = &d->followed[d->followed_count++];
    f->step = step;
    va_start(list, format);
    ls_diagnose_print(f->text, sizeof f->text, format, list);
    va_end(list);
}

static int compare_followed(const void *a, const void *b) {
    const ls_followed *x = a, *y = b;
    return (x->step > y->step) - (x->step < y->step);
}

/* The loss from then to the end, where it is no longer what it was. */
static void follow_loss(ls_case *c, int64_t from) {
    const ls_series *s = &c->series;
    size_t at;
    if (s->count == 0) return;
    if (!ls_series_find(s, from, &at)) at = 0;
    double before = ls_series_before(s, at, LOOK), end = ls_series_before(s, s->count - 1, LOOK);
    if (s->count - 1 > at)
        follow(c->out, s->step[s->count - 1], "the loss, %.3f at step %lld, is %.3f at the end", before,
               (long long)from, end);
    if (s->first_bad > from) follow(c->out, s->first_bad, "loss or gradient is not finite");
}

static void follow_skips(ls_case *c, int64_t from) {
    const ls_run_log *run = c->run;
    int64_t first = LS_RUN_NONE;
    size_t skipped = 0, dropped = 0;
    for (size_t i = 0; i < run->step_count; i++) {
        if (run->steps[i].step <= from) continue;
        skipped += run->steps[i].skipped;
        dropped += run->steps[i].dropped > 0;
        if (run->steps[i].skipped && first == LS_RUN_NONE) first = run->steps[i].step;
    }
    if (skipped > 0) follow(c->out, first, "%zu step%s skipped from here on", skipped, skipped == 1 ? "" : "s");
    if (dropped > 0)
        follow(c->out, from + 1, "%zu step%s without the outlier groups", dropped, dropped == 1 ? "" : "s");
}

static void follow_validation(ls_case *c, int64_t from) {
    const ls_run_log *run = c->run;
    const ls_run_log_validation *best = NULL, *last = NULL;
    for (size_t i = 0; i < run->validation_count; i++) {
        const ls_run_log_validation *v = &run->validations[i];
        if (!best || v->loss < best->loss) best = v;
        last = v;
    }
    if (last && last->step > from)
        follow(c->out, last->step, "validation loss %.3f; the best was %.3f at step %lld", last->loss, best->loss,
               (long long)best->step);
}

static void follow_events(ls_case *c, int64_t from) {
    const ls_run_log *run = c->run;
    for (size_t i = 0; i < run->event_count; i++) {
        const ls_run_log_event *e = &run->events[i];
        if (e->step < from) continue;
        if (e->kind == LS_EVENT_FLOOR) follow(c->out, e->step, "the loss scale is at its minimum");
        if (e->kind == LS_EVENT_STOPPED) follow(c->out, e->step, "the run stopped: %s", e->what);
    }
}

static void tell_what_followed(ls_case *c) {
    ls_diagnosis *d = c->out;
    int64_t from = d->finding[0].onset;
    for (int i = 1; i < d->finding_count; i++) {
        const ls_finding *f = &d->finding[i];
        if (f->cause != LS_CAUSE_SLOW_WORKER && (!f->is_note || f->step >= from)) follow(d, f->step, "%s", f->title);
    }
    if (d->finding[0].cause != LS_CAUSE_SLOW_WORKER) {
        follow_loss(c, from);
        follow_skips(c, from);
        follow_validation(c, from);
    }
    follow_events(c, from);
    qsort(d->followed, (size_t)d->followed_count, sizeof *d->followed, compare_followed);
}

/* ---- what is missing --------------------------------------------------------------------------------------------- */

static void miss(ls_diagnosis *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void miss(ls_diagnosis *d, const char *format, ...) {
    va_list list;
    if (d->missing_count == LS_MISSING_MAX) return;
    va_start(list, format);
    ls_diagnose_print(d->missing[d->missing_count++], sizeof d->missing[0], format, list);
    va_end(list);
}

static bool is_off(const char *value) {
    return !value || !*value || strcmp(value, "0") == 0 || strcmp(value, "false") == 0 || strcmp(value, "off") == 0;
}

static void list_missing(ls_case *c) {
    const ls_run_log *run = c->run;
    ls_diagnosis *d = c->out;
    int workers = run->dp * run->tp * run->pp;
    if (run->lines == 0) miss(d, "metrics: the run completed no step, or its metrics.jsonl was removed");
    if (run->damaged_lines > 0)
        miss(d, "damaged lines in metrics.jsonl: %lld of %lld%s", (long long)run->damaged_lines, (long long)run->lines,
             run->ends_torn ? ", including the last one: the run was killed" : "");
    if (d->steps > 0 && d->steps < FEW_STEPS)
        miss(d, "only %zu step%s recorded: too few to judge", d->steps, d->steps == 1 ? "" : "s");
    if (run->numerics_count == 0) miss(d, "underflowed gradients, lost updates and norms per block: add --numerics 10");
    if (run->usage_count == 0 && workers != 1) {
        if (run->trace_problem[0])
            miss(d, "compute and wait times per worker: %.180s", run->trace_problem);
        else
            miss(d, "compute and wait times per worker: add --trace run");
    }
    ls_cause cause = d->cause_count > 0 ? d->finding[0].cause : LS_CAUSES;
    bool suspicious = cause == LS_CAUSE_OUTLIER || cause == LS_CAUSE_LR || cause == LS_CAUSE_UNKNOWN;
    if (suspicious && run->dp > 1 && is_off(ls_run_log_option_get(run, "audit")) && run->of_kind[LS_EVENT_AUDIT] == 0)
        miss(d, "whether a worker computes wrong results: add --audit 0.02, which recomputes a fraction of the "
                "gradients on other workers");
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

void ls_diagnose_conclude(ls_case *c) {
    const ls_run_log *run = c->run;
    ls_diagnosis *d = c->out;
    double planned = ls_run_log_option_number(run, "steps");
    d->steps = run->step_count;
    if (run->step_count > 0) {
        d->first_step = run->steps[0].step;
        d->last_step = run->steps[run->step_count - 1].step;
    }
    if (planned >= 0 && planned < 1e15) d->planned_steps = (int64_t)planned;
    order(d);
    d->verdict = judge(c);
    if (d->cause_count > 0) tell_what_followed(c);
    list_missing(c);
}
