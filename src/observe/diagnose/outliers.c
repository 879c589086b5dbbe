/* outliers.c: gradient groups, and workers as a whole, that stand out from their peers.
 *
 * Groups may stand out in the same way for different reasons. Bad data has a high loss in the same step, or the same
 * samples come up again; a worker that is wrong has whatever data, and the loss of the step itself is as usual. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "observe/diagnose/rules.h"

static const double HOT = 4;       /* score of a group's loss, or of a step's, that goes with bad data */
static const double MOSTLY = 0.75; /* of the outliers, from one worker */
static const double EARLY = 0.25;  /* of what the loss gains in all, still to come */
enum { EARLY_MOST = 8, EARLY_STEPS = 64 };
enum { FEW = 2, FEW_STEPS = 500 }; /* groups that may stand out in any run, and one more for so many steps */
enum { SCATTERED_BEFORE = 30 };    /* steps before a rise of the loss in which outliers belong to it */

/* ---- what they have in common ------------------------------------------------------------------------------------ */

/* All outlier events of a run, in the order of steps, and what they have in common. */
typedef struct outliers {
    const ls_run_log_event **event;
    size_t count;
    size_t hot;                     /* with a high loss of the group or, if not recorded, of the step */
    size_t again;                   /* whose samples had stood out in an earlier step */
    int worker;                     /* that has most of them */
    size_t of_worker, worker_count; /* workers: those with any */
    bool mostly_one;                /* the share MOSTLY is of one worker; false with one replica, unless of_workers */
    bool of_workers;                /* all are of workers as a whole */
    const ls_run_log_event *largest, *first_data;
} outliers;

/* qsort() order: by the first sample. */
static int compare_samples(const void *a, const void *b) {
    const ls_run_log_event *x = *(const ls_run_log_event *const *)a, *y = *(const ls_run_log_event *const *)b;
    return (x->first_sample > y->first_sample) - (x->first_sample < y->first_sample);
}

/* Counts, in o->again, outliers of different steps with overlapping samples. `sorted`: scratch memory for o->count
 * pointers. */
static void count_repeated_samples(outliers *o, const ls_run_log_event **sorted) {
    memcpy(sorted, o->event, o->count * sizeof *sorted);
    qsort(sorted, o->count, sizeof *sorted, compare_samples);
    for (size_t i = 1; i < o->count; i++) {
        const ls_run_log_event *a = sorted[i - 1], *b = sorted[i];
        if (a->first_sample < 0 || a->samples < 1 || a->step == b->step) continue;
        if (b->first_sample - a->first_sample < a->samples) o->again++;
    }
}

/* Finds the worker with most of the outliers, how many workers have any, and whether they are of groups or of whole
 * workers. */
static void count_workers(const ls_run_log *run, outliers *o) {
    size_t of[LS_WORKERS_MAX] = {0};
    o->worker = LS_RUN_NONE;
    o->of_workers = true;
    for (size_t i = 0; i < o->count; i++) {
        if (o->event[i]->worker >= 0) of[o->event[i]->worker]++;
        if (o->event[i]->group != LS_RUN_NONE) o->of_workers = false;
    }
    for (int w = 0; w < LS_WORKERS_MAX; w++) {
        o->worker_count += of[w] > 0;
        if (of[w] <= o->of_worker) continue;
        o->of_worker = of[w];
        o->worker = w;
    }
    o->mostly_one = (run->dp != 1 || o->of_workers) && (double)o->of_worker >= MOSTLY * (double)o->count;
}

/* Returns the gradient norm of the outlier divided by the median of its peers; NaN if that is unknown. */
static double factor_of(const ls_run_log_event *e) { return e->median > 0 ? e->norm / e->median : (double)NAN; }

/* Returns whether the loss jumped in this very step: a loss that was rising before says nothing about the data. */
static bool loss_jumped(const ls_series *s, long long step) {
    size_t at;
    if (!ls_series_find(s, step, &at) || s->at[at].step != step || at == 0) return false;
    if (s->at[at].in_data) return true;
    if ((double)s->at[at].score < HOT) return false;
    return s->at[at].loss - ls_series_before(s, at - 1, 3) >= 0.5 * (s->at[at].loss - ls_series_before(s, at - 1, 32));
}

/* Returns whether a high loss goes with the outlier: that of the group if it was recorded, else that of its step. */
static bool has_high_loss(const ls_series *s, const ls_run_log_event *e) {
    return isfinite(e->loss_score) && isfinite(e->group_loss) ? e->loss_score >= HOT : loss_jumped(s, e->step);
}

/* Counts the outliers with a high loss, notes the first of them, and finds the outlier with the largest norm /
 * median. */
static void count_high_losses(const ls_series *s, outliers *o) {
    for (size_t i = 0; i < o->count; i++) {
        const ls_run_log_event *e = o->event[i];
        if (!o->largest || !(factor_of(e) <= factor_of(o->largest))) o->largest = e;
        if (!has_high_loss(s, e)) continue;
        o->hot++;
        if (!o->first_data) o->first_data = e;
    }
}

/* ---- findings ---------------------------------------------------------------------------------------------------- */

/* Adds the outlier's norm, and what it did to the sum of gradients, as evidence. */
static void describe_largest(ls_finding *f, const ls_run_log_event *e) {
    char of[64];
    if (e->group == LS_RUN_NONE)
        snprintf(of, sizeof of, "worker %d", e->worker);
    else
        snprintf(of, sizeof of, "group %d of worker %d", e->group, e->worker);
    LS_EVIDENCE(f, "largest at step %lld: gradient norm %.3g, median %.3g (%.1f times; score %.1f), %s", e->step,
                e->norm, e->median, factor_of(e), e->score, of);
    if (isfinite(e->angle_deg))
        LS_EVIDENCE(f, "it rotated the gradient by %.0f degrees and made its norm %.3g instead of %.3g", e->angle_deg,
                    e->length_with, e->length_without);
}

/* Adds the samples of the outlier's group as evidence, if they were recorded. */
static void describe_samples(ls_finding *f, const ls_run_log_event *e) {
    if (e->first_sample < 0) return;
    LS_EVIDENCE(f, "samples %lld to %lld of the run, at step %lld", e->first_sample,
                e->first_sample + (e->samples > 0 ? e->samples - 1 : 0), e->step);
}

/* Adds the finding that the data of the outliers is bad. */
static void add_bad_data(ls_case *c, const outliers *o) {
    const ls_run_log_event *e = o->first_data ? o->first_data : o->event[0];
    ls_finding *f = ls_finding_add(c, LS_CAUSE_BAD_DATA, e->step, o->event[o->count - 1]->step, (double)o->count);
    size_t at = 0;
    f->group = e->group;
    LS_TITLE(f, "bad data: %zu outlier gradient group%s, first at step %lld", o->count, o->count == 1 ? "" : "s",
             e->step);
    if (o->hot > 0 && isfinite(e->group_loss))
        LS_EVIDENCE(f, "the group's own loss is high in %zu of them: %.3f at step %lld, %.3f in other groups", o->hot,
                    e->group_loss, e->step, e->peers_loss);
    else if (o->hot > 0 && ls_series_find(&c->series, e->step, &at))
        LS_EVIDENCE(f, "the loss of the same step is high in %zu of them: %.3f at step %lld, %.3f before", o->hot,
                    c->series.at[at].loss, e->step, at > 0 ? ls_series_before(&c->series, at - 1, 16) : (double)NAN);
    if (o->again > 0)
        LS_EVIDENCE(f, "the same samples were outliers again in %zu later step%s", o->again, o->again == 1 ? "" : "s");
    describe_samples(f, e);
    describe_largest(f, o->largest);
    LS_ACTION(f, "inspect the text of these samples and remove it from --data; meanwhile --on-outlier skip-group "
                 "leaves such groups out of the update");
}

/* Adds the finding that groups, or a worker, stand out for a reason other than data. */
static void add_outlier(ls_case *c, const outliers *o) {
    const ls_run_log_event *e = o->event[0];
    bool one = o->of_worker >= 2 && o->mostly_one;
    ls_finding *f = ls_finding_add(c, LS_CAUSE_OUTLIER, e->step, o->event[o->count - 1]->step, factor_of(o->largest));
    f->worker = one || o->count == 1 ? o->worker : LS_RUN_NONE;
    f->group = e->group;
    if (one && o->of_workers)
        LS_TITLE(f, "worker %d contributes gradients that are too long: %zu of %zu steps with an outlier", o->worker,
                 o->of_worker, o->count);
    else if (o->count == 1 && o->of_workers)
        LS_TITLE(f, "the gradient of worker %d is an outlier at step %lld, %.1f times the usual", e->worker, e->step,
                 factor_of(e));
    else if (one)
        LS_TITLE(f, "worker %d produces outlier gradients: %zu of %zu outlier groups are its own", o->worker,
                 o->of_worker, o->count);
    else if (o->count == 1)
        LS_TITLE(f, "gradient group %d of worker %d is an outlier at step %lld, %.1f times the other groups", e->group,
                 e->worker, e->step, factor_of(e));
    else
        LS_TITLE(f, "%zu outlier gradient groups on %zu workers, first at step %lld", o->count, o->worker_count,
                 e->step);
    describe_largest(f, o->largest);
    describe_samples(f, o->largest);
    LS_EVIDENCE(f, "the loss of these steps is normal, so the data is not the cause%s",
                one ? "; the samples differ, the worker is the same" : "");
    if (o->of_workers && f->worker != LS_RUN_NONE)
        LS_ACTION(f, "--audit 0.05 computes groups of worker %d again and shows whether it is wrong", f->worker);
    else if (one)
        LS_ACTION(f,
                  "--audit 0.05 makes other workers recompute its groups and shows whether worker %d is wrong; "
                  "--on-outlier skip-group leaves them out of the update",
                  o->worker);
    else
        LS_ACTION(f, "--on-outlier skip-group leaves such groups out of the update; --audit 0.02 tells a faulty worker "
                     "from unusual data");
}

/* Returns whether the outliers follow from a rise of the loss and did not cause it: the first outlier is not earlier
 * than the first step of the rise. If several workers have outliers, and no worker has most of them, the first may come
 * up to SCATTERED_BEFORE steps before the loss was lowest. False if the loss did not rise, or if all outliers have a
 * high loss (bad data). */
static bool is_consequence(const ls_case *c, const outliers *o) {
    if (!c->rise.found || o->hot == o->count) return false;
    bool scattered = o->worker_count > 1 && (double)o->of_worker < MOSTLY * (double)o->count;
    long long low = c->series.at[c->rise.low].step;
    return o->event[0]->step >= (scattered ? low - SCATTERED_BEFORE : c->series.at[c->rise.first].step);
}

/* Returns whether these are the few outliers that are normal while the loss falls fast: at most EARLY_MOST, none with a
 * high loss or repeated samples, not mostly of one worker, and before the last of them at least EARLY of the loss's
 * whole gain was still to come. Gradients are long then because embeddings are still near zero and a norm layer divides
 * by their length. False for a run of fewer than EARLY_STEPS steps. */
static bool is_early(const ls_case *c, const outliers *o) {
    const ls_series *s = &c->series;
    size_t at;
    if (o->count > EARLY_MOST || o->hot > 0 || o->again > 0 || s->count < EARLY_STEPS) return false;
    if (o->count > 1 && o->mostly_one) return false;
    const ls_run_log_event *last = o->event[o->count - 1];
    if (!ls_series_find(s, last->step, &at) || at == 0) return false;
    double end = ls_series_before(s, s->count - 1, 16), gain = s->at[0].loss - end;
    return gain > 0 && ls_series_before(s, at - 1, 16) - end >= EARLY * gain;
}

/* Returns whether these are the rare outliers of small models: at most FEW and one for each FEW_STEPS steps, all with a
 * recorded group loss, none high, no samples repeated, no lasting rise of the loss, and the same gradient if it was
 * recomputed (else no jump of the loss in that step). Two of one worker are no pattern yet. */
static bool is_harmless(const ls_case *c, const outliers *o) {
    if (o->count > FEW + c->series.count / FEW_STEPS || o->hot > 0 || o->again > 0 || c->rise.found) return false;
    if (o->count > FEW && o->mostly_one) return false;
    for (size_t i = 0; i < o->count; i++) {
        const ls_run_log_event *e = o->event[i];
        bool fine = e->has_recurs ? e->recurs : !loss_jumped(&c->series, e->step);
        if (!isfinite(e->group_loss) || !fine) return false;
    }
    return true;
}

/* Adds one finding for all outliers: a note if they are normal; else bad data, if at least half of them have a high
 * loss, samples repeat, or some have a high loss, are not mostly of one worker, and the loss alone shows bad data; else
 * a suspicious worker or group. */
static void judge_outlier_events(ls_case *c, const outliers *o) {
    const char *plural = o->count == 1 ? "" : "s";
    long long first = o->event[0]->step, last = o->event[o->count - 1]->step;
    if (is_early(c, o))
        LS_TITLE(ls_note_add(c, LS_CAUSE_OUTLIER, first, first, (double)o->count),
                 "%zu outlier gradient group%s while the loss was still falling fast, up to step %lld", o->count,
                 plural, last);
    else if (is_consequence(c, o))
        LS_TITLE(ls_note_add(c, LS_CAUSE_OUTLIER, first, first, (double)o->count),
                 "%zu outlier gradient group%s while the loss was rising", o->count, plural);
    else if (is_harmless(c, o))
        LS_TITLE(ls_note_add(c, LS_CAUSE_OUTLIER, first, first, (double)o->count),
                 "%zu outlier gradient group%s, up to step %lld; their losses are normal, %s, and nothing followed",
                 o->count, plural, last,
                 o->event[0]->has_recurs ? "recomputing them gave the same result"
                                         : "they were not recomputed (--on-outlier warn does)");
    else if (2 * o->hot >= o->count || o->again > 0 || (o->hot > 0 && !o->mostly_one && ls_loss_tells_data(c)))
        add_bad_data(c, o);
    else
        add_outlier(c, o);
}

ls_status ls_diagnose_outliers(ls_case *c) {
    const ls_run_log *run = c->run;
    size_t capacity = run->event_count;
    outliers o = {.event = NULL};
    if (run->of_kind[LS_EVENT_OUTLIER] == 0 || capacity == 0) return LS_OK;
    o.event = calloc(2 * capacity, sizeof *o.event);
    if (!o.event) return ls_fail(LS_ERR_RESOURCE, "out of memory for %zu events", capacity);
    for (size_t i = 0; i < capacity; i++)
        if (run->events[i].kind == LS_EVENT_OUTLIER) o.event[o.count++] = &run->events[i];
    if (o.count > 0) {
        count_repeated_samples(&o, o.event + capacity);
        count_workers(run, &o);
        count_high_losses(&c->series, &o);
        judge_outlier_events(c, &o);
    }
    free(o.event);
    return LS_OK;
}
