/* timeline.c: chooses a step of a trace and measures it. */
#include "observe/timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Times are written to the nanosecond; sums of large ones may be off by more. */
static const double SLACK_US = 0.5;

/* ---- the step ---------------------------------------------------------------------------------------------------- */

/* qsort() order of step spans: by number of the step, then by worker. */
static int compare_steps(const void *a, const void *b) {
    const ls_trace_span *x = *(const ls_trace_span *const *)a, *y = *(const ls_trace_span *const *)b;
    if (x->n != y->n) return x->n < y->n ? -1 : 1;
    return (x->worker > y->worker) - (x->worker < y->worker);
}

/* Returns whether the spans are those of one step, one span of each worker, from a part of the trace where no event
 * was lost. */
static bool is_whole(const ls_trace *t, const ls_trace_span *const *steps, size_t count) {
    if (count != (size_t)t->workers) return false;
    for (int w = 0; w < t->workers; w++)
        if (steps[w]->worker != w || steps[w]->begin_us < t->complete_from[w]) return false;
    return true;
}

/* Moves the spans of complete steps to the front, `workers` spans for each; *whole: number of such steps. */
static void keep_whole(const ls_trace *t, const ls_trace_span **steps, size_t count, size_t *whole) {
    *whole = 0;
    for (size_t at = 0, end; at < count; at = end) {
        for (end = at + 1; end < count && steps[end]->n == steps[at]->n;) end++;
        if (!is_whole(t, steps + at, end - at)) continue;
        memmove(steps + *whole * (size_t)t->workers, steps + at, (end - at) * sizeof *steps);
        ++*whole;
    }
}

/* Sets *chosen to the index, among the complete steps, of step `wanted`; for 0 to the middle one. Fails if it is not
 * there. */
static ls_status choose_traced_step(const ls_trace_span *const *steps, size_t whole, int workers, int64_t wanted,
                                    const char *source, size_t *chosen) {
    if (whole == 0)
        return ls_fail(LS_ERR_INPUT,
                       "%s contains no complete training step; record one with lockstep train --trace run", source);
    int64_t first = steps[0]->n, last = steps[(whole - 1) * (size_t)workers]->n;
    *chosen = whole / 2;
    if (wanted == 0) return LS_OK;
    for (*chosen = 0; *chosen < whole; ++*chosen)
        if (steps[*chosen * (size_t)workers]->n == wanted) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "%s does not contain all of step %lld; complete steps are %lld to %lld", source,
                   (long long)wanted, (long long)first, (long long)last);
}

/* Selects the spans of each worker that begin inside its step (without the span of the step itself), and sets the
 * step's begin and end over all workers. */
static void cut_step(const ls_trace *t, const ls_trace_span *const *step, ls_timeline *out) {
    out->begin_us = HUGE_VAL;
    out->end_us = -HUGE_VAL;
    for (int w = 0; w < t->workers; w++) {
        ls_timeline_worker *worker = &out->worker[w];
        const ls_trace_span *at = step[w], *end = t->spans + t->first[w + 1];
        worker->begin_us = at->begin_us;
        worker->end_us = at->end_us;
        worker->spans = ++at;
        while (at < end && at->begin_us < worker->end_us) at++;
        worker->count = (size_t)(at - worker->spans);
        if (worker->begin_us < out->begin_us) out->begin_us = worker->begin_us;
        if (worker->end_us > out->end_us) out->end_us = worker->end_us;
    }
}

/* Chooses a complete step (see choose_traced_step()) and sets what belongs to it: its spans, begin and end. */
static ls_status find_step(const ls_trace *t, const char *source, int64_t wanted, ls_timeline *out) {
    size_t count = 0, whole = 0, chosen = 0;
    const ls_trace_span **steps = malloc((t->count + 1) * sizeof *steps);
    if (!steps) return ls_fail(LS_ERR_RESOURCE, "out of memory for the steps of a trace");
    for (size_t i = 0; i < t->count; i++)
        if (t->spans[i].mark == LS_MARK_STEP) steps[count++] = &t->spans[i];
    if (count > 0) qsort(steps, count, sizeof *steps, compare_steps);
    keep_whole(t, steps, count, &whole);
    ls_status status = choose_traced_step(steps, whole, t->workers, wanted, source, &chosen);
    if (status == LS_OK) {
        const ls_trace_span *const *step = steps + chosen * (size_t)t->workers;
        out->step = step[0]->n;
        out->first_step = steps[0]->n;
        out->last_step = steps[(whole - 1) * (size_t)t->workers]->n;
        cut_step(t, step, out);
    }
    free(steps);
    return status;
}

/* ---- stages ------------------------------------------------------------------------------------------------------ */

/* Returns whether the worker ran any action; sets *chunk to the lowest chunk (consecutive blocks of the model) that
 * it ran. */
static bool first_chunk(const ls_timeline_worker *w, int64_t *chunk) {
    bool found = false;
    for (size_t i = 0; i < w->count; i++) {
        if (!ls_mark_is_action(w->spans[i].mark) || (found && w->spans[i].n >= *chunk)) continue;
        *chunk = w->spans[i].n;
        found = true;
    }
    return found;
}

/* Sets stage and pipeline of a worker, checks that its chunks are on that stage, and raises t->chunks, the chunks per
 * stage. */
static ls_status place_worker(ls_timeline *t, int rank, const char *source) {
    ls_timeline_worker *w = &t->worker[rank];
    w->stage = rank / t->pipelines;
    w->pipeline = rank % t->pipelines;
    for (size_t i = 0; i < w->count; i++) {
        const ls_trace_span *span = &w->spans[i];
        if (!ls_mark_is_action(span->mark)) continue;
        if (span->n % t->stages != w->stage)
            return ls_fail(LS_ERR_INPUT, "%s: worker %d of stage %d ran chunk %lld, which is not on its stage", source,
                           rank, w->stage, (long long)span->n);
        if (span->n / t->stages >= t->chunks) t->chunks = (int)(span->n / t->stages) + 1;
    }
    return LS_OK;
}

/* Derives the number of stages from the first chunk of each worker, because the trace does not have it, and places
 * the workers. */
static ls_status find_stages(ls_timeline *t, const char *source) {
    for (int r = 0; r < t->workers; r++) {
        int64_t chunk = 0;
        if (!first_chunk(&t->worker[r], &chunk))
            return ls_fail(LS_ERR_INPUT, "%s: worker %d recorded nothing in step %lld", source, r, (long long)t->step);
        if (chunk >= t->workers)
            return ls_fail(LS_ERR_INPUT, "%s: chunk %lld is the first one of worker %d, but there are only %d workers",
                           source, (long long)chunk, r, t->workers);
        if (chunk >= t->stages) t->stages = (int)chunk + 1;
    }
    if (t->workers % t->stages != 0)
        return ls_fail(LS_ERR_INPUT, "%s: %d workers cannot be divided among %d stages", source, t->workers, t->stages);
    t->pipelines = t->workers / t->stages;
    for (int r = 0; r < t->workers; r++) LS_TRY(place_worker(t, r, source));
    return LS_OK;
}

void ls_timeline_set_mesh(ls_timeline *timeline, int dp, int tp, int pp) {
    if (dp < 1 || tp < 1 || pp != timeline->stages || (int64_t)dp * tp != timeline->pipelines) return;
    timeline->dp = dp;
    timeline->tp = tp;
}

/* ---- measures ---------------------------------------------------------------------------------------------------- */

/* Returns the length of the part that two intervals have in common; 0 if there is none. */
static double overlap(double a_begin, double a_end, double b_begin, double b_end) {
    double begin = a_begin > b_begin ? a_begin : b_begin, end = a_end < b_end ? a_end : b_end;
    return end > begin ? end - begin : 0;
}

/* Sums the spans of a worker by kind, and its waits inside actions, and extends Work to its actions. Fails if two
 * actions overlap. */
static ls_status sum_worker_spans(ls_timeline *t, int rank, const char *source) {
    ls_timeline_worker *w = &t->worker[rank];
    const ls_trace_span *action = NULL; /* the last one that began */
    for (size_t i = 0; i < w->count; i++) {
        const ls_trace_span *span = &w->spans[i];
        w->us[span->mark] += span->end_us - span->begin_us;
        if (span->mark == LS_MARK_WAIT && action)
            w->waiting_us += overlap(span->begin_us, span->end_us, action->begin_us, action->end_us);
        if (!ls_mark_is_action(span->mark)) continue;
        if (action && span->begin_us < action->end_us - SLACK_US)
            return ls_fail(LS_ERR_INPUT, "%s: worker %d ran two actions at the same time, at %.0f us", source, rank,
                           span->begin_us);
        action = span;
        if (span->begin_us < t->work_begin_us) t->work_begin_us = span->begin_us;
        if (span->end_us > t->work_end_us) t->work_end_us = span->end_us;
    }
    return LS_OK;
}

/* Returns the time in all forward and backward actions, waits inside them included. */
static double action_us(const ls_timeline_worker *w) {
    double sum = 0;
    for (int kind = 0; kind < LS_ACTION_KINDS; kind++) sum += w->us[kind];
    return sum;
}

/* Finds the extent of Work, and each worker's shares of it: busy, waiting, bubble. */
static ls_status measure_timeline(ls_timeline *t, const char *source) {
    t->work_begin_us = HUGE_VAL;
    t->work_end_us = -HUGE_VAL;
    for (int r = 0; r < t->workers; r++) LS_TRY(sum_worker_spans(t, r, source));
    double work = t->work_end_us - t->work_begin_us;
    for (int r = 0; r < t->workers; r++) {
        ls_timeline_worker *w = &t->worker[r];
        double actions = action_us(w);
        w->busy = work > 0 ? (actions - w->waiting_us) / work : 0;
        w->waiting = work > 0 ? w->waiting_us / work : 0;
        w->bubble = 1 - w->busy - w->waiting;
        w->predicted_bubble = (double)NAN;
    }
    return LS_OK;
}

/* ---- reductions -------------------------------------------------------------------------------------------------- */

/* Intervals of time, to measure how much of the gradient reductions overlaps with the backward pass. n: bytes of a
 * reduction. */
typedef struct interval {
    double begin, end;
    int64_t n;
} interval;

/* A list of intervals. All but that of reductions by end are disjoint and ascending. */
typedef struct intervals {
    interval *at;
    size_t count;
} intervals;

/* Appends an interval, or extends the last one if they overlap. */
static void add_joined(intervals *list, double begin, double end) {
    interval *last = list->count > 0 ? &list->at[list->count - 1] : NULL;
    if (last && begin <= last->end) {
        if (end > last->end) last->end = end;
    } else {
        list->at[list->count++] = (interval){.begin = begin, .end = end};
    }
}

/* Returns the total length of the intervals. */
static double sum_lengths(const intervals *list) {
    double sum = 0;
    for (size_t i = 0; i < list->count; i++) sum += list->at[i].end - list->at[i].begin;
    return sum;
}

/* Returns how long both lists, disjoint and ascending, have an interval at the same time. */
static double common_length(const intervals *a, const intervals *b) {
    double sum = 0;
    for (size_t i = 0, j = 0; i < a->count && j < b->count;) {
        const interval *x = &a->at[i], *y = &b->at[j];
        double begin = x->begin > y->begin ? x->begin : y->begin, end = x->end < y->end ? x->end : y->end;
        if (end > begin) sum += end - begin;
        if (x->end < y->end)
            i++;
        else
            j++;
    }
    return sum;
}

/* qsort() order: by end. */
static int compare_ends(const void *a, const void *b) {
    const interval *x = a, *y = b;
    return (x->end > y->end) - (x->end < y->end);
}

/* Lists the waits for gradient reductions in *out. A wait belongs to the reduction that ends in it and has as many
 * bytes; other waits for sums are those of the TP group. Overlapping waits, which one thread cannot have, count once.
 */
static void list_exposed_waits(const ls_timeline_worker *w, const intervals *by_end, intervals *out) {
    double last_end = w->begin_us;
    size_t from = 0;
    for (size_t i = 0; i < w->count; i++) {
        const ls_trace_span *wait = &w->spans[i];
        if (wait->mark != LS_MARK_WAIT || !wait->for_sum || wait->begin_us < last_end) continue;
        last_end = wait->end_us;
        while (from < by_end->count && by_end->at[from].end < wait->begin_us) from++;
        bool found = false;
        for (size_t k = from; k < by_end->count && by_end->at[k].end <= wait->end_us && !found; k++)
            found = by_end->at[k].n == wait->n;
        if (found) add_joined(out, wait->begin_us, wait->end_us);
    }
}

/* Sums the gradient reductions of a worker from its spans: number, bytes, time in flight, overlapped with backward,
 * and exposed. */
static ls_status measure_reductions(ls_timeline_worker *worker) {
    ls_timeline_reductions *sum = &worker->reductions;
    interval *capacity = calloc(4 * worker->count + 1, sizeof *capacity);
    if (!capacity) return ls_fail(LS_ERR_RESOURCE, "out of memory for the reductions of %zu spans", worker->count);
    intervals under_way = {capacity, 0}, by_end = {capacity + worker->count, 0};
    intervals backward = {capacity + 2 * worker->count, 0}, exposed = {capacity + 3 * worker->count, 0};
    for (size_t i = 0; i < worker->count; i++) {
        const ls_trace_span *span = &worker->spans[i];
        if (ls_mark_is_action(span->mark) && span->mark != LS_MARK_FORWARD)
            add_joined(&backward, span->begin_us, span->end_us);
        if (span->mark != LS_MARK_REDUCTION) continue;
        sum->count++;
        if (__builtin_add_overflow(sum->bytes, (uint64_t)span->n, &sum->bytes)) sum->bytes = UINT64_MAX;
        add_joined(&under_way, span->begin_us, span->end_us);
        by_end.at[by_end.count++] = (interval){span->begin_us, span->end_us, span->n};
    }
    if (by_end.count > 0) qsort(by_end.at, by_end.count, sizeof *by_end.at, compare_ends);
    list_exposed_waits(worker, &by_end, &exposed);
    sum->under_way = sum_lengths(&under_way);
    sum->in_backward = common_length(&under_way, &backward) - common_length(&exposed, &backward);
    sum->exposed = sum_lengths(&exposed);
    free(capacity);
    return LS_OK;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

ls_status ls_timeline_make(const ls_trace *trace, const char *source, int64_t step, ls_timeline *out) {
    ls_status status;
    *out = (ls_timeline){.workers = trace->workers, .chunks = 1, .dropped_events = trace->dropped_events};
    out->worker = calloc((size_t)trace->workers + 1, sizeof *out->worker);
    if (!out->worker) {
        status = ls_fail(LS_ERR_RESOURCE, "out of memory for %d workers", trace->workers);
        goto out;
    }
    LS_TRY_OUT(find_step(trace, source, step, out));
    LS_TRY_OUT(find_stages(out, source));
    LS_TRY_OUT(measure_timeline(out, source));
    for (int r = 0; r < out->workers; r++) LS_TRY_OUT(measure_reductions(&out->worker[r]));
    LS_TRY_OUT(ls_timeline_predict(out));
    LS_TRY_OUT(ls_kernels_make(trace, out, &out->kernels));
    return LS_OK;
out:
    ls_timeline_free(out);
    return status;
}

void ls_timeline_free(ls_timeline *timeline) {
    if (!timeline) return;
    for (int p = 0; p < timeline->pipelines; p++) {
        if (timeline->schedule) ls_schedule_free(&timeline->schedule[p]);
        if (timeline->prediction) ls_simulation_free(&timeline->prediction[p]);
    }
    free(timeline->schedule);
    free(timeline->prediction);
    free(timeline->worker);
    ls_kernels_free(&timeline->kernels);
    *timeline = (ls_timeline){0};
}

double ls_timeline_predicted_us(const ls_timeline *timeline) {
    double most = (double)NAN;
    for (int p = 0; timeline->prediction && p < timeline->pipelines; p++)
        if (!(timeline->prediction[p].seconds * 1e6 <= most)) most = timeline->prediction[p].seconds * 1e6;
    return most;
}
