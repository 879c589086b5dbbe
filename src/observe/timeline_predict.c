/* timeline_predict.c: the lists of actions as they were run, given to the simulator with their mean durations.
 *
 * A duration is taken to be (mean of its action on its chunk) · (size of its micro-batch). The size is the median, over
 * all stages, of what its actions took against their means: a stage that was held up once does not make it larger. */
#include <stdio.h>
#include <stdlib.h>

#include "observe/timeline.h"

/* The simulator's input; tables are [stages][chunks]. The memory of all belongs to seconds[0]. */
typedef struct durations {
    double *seconds[LS_ACTION_KINDS]; /* mean of an action */
    double *counts[LS_ACTION_KINDS];  /* how many there were */
    double *share;                    /* by micro-batch: its size relative to the mean of all */
} durations;

/* The duration of an action divided by the mean of its kind on its chunk and stage. */
typedef struct ratio {
    int micro;
    double value;
} ratio;

/* Returns the worker of a pipeline that is on the stage. */
static const ls_timeline_worker *worker_of(const ls_timeline *t, int pipeline, int stage) {
    return &t->worker[stage * t->pipelines + pipeline];
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

/* Sets out->micros, the number of micro-batches. Fails if it exceeds the number of actions: some are missing then. */
static ls_status size_lists(const ls_timeline *t, int pipeline, ls_schedule *out) {
    size_t most = 0;
    for (int s = 0; s < t->stages; s++) {
        const ls_timeline_worker *w = worker_of(t, pipeline, s);
        size_t actions = 0;
        for (size_t i = 0; i < w->count; i++) {
            if (!ls_mark_is_action(w->spans[i].mark)) continue;
            actions++;
            if (w->spans[i].micro >= out->micros) out->micros = w->spans[i].micro + 1;
        }
        if (actions > LS_SCHEDULE_UNITS_MAX) return ls_fail(LS_ERR_FAILED, "there are too many actions");
        if (actions > most) most = actions;
    }
    if ((size_t)out->micros > most || (int64_t)out->stages * out->chunks > LS_SCHEDULE_UNITS_MAX / out->micros)
        return ls_fail(LS_ERR_FAILED, "micro-batches are missing");
    return LS_OK;
}

/* Copies the actions of a stage, in the order in which they ran, to the schedule. The memory belongs to the schedule.
 */
static ls_status fill_list(const ls_timeline *t, int pipeline, int stage, ls_schedule *out) {
    const ls_timeline_worker *w = worker_of(t, pipeline, stage);
    ls_action *list = out->actions[stage] = ls_region_take(&out->memory, w->count + 1, sizeof *list);
    if (!list) return ls_fail(LS_ERR_RESOURCE, "out of memory for a schedule of %zu actions", w->count);
    for (size_t i = 0; i < w->count; i++) {
        const ls_trace_span *span = &w->spans[i];
        if (!ls_mark_is_action(span->mark)) continue;
        ls_action_kind kind = (ls_action_kind)span->mark;
        bool apart = kind == LS_ACTION_BACKWARD_INPUT || kind == LS_ACTION_BACKWARD_WEIGHTS;
        list[out->count[stage]++] = (ls_action){.kind = kind,
                                                .chunk = (int)(span->n / t->stages),
                                                .micro = span->micro,
                                                .slot = span->micro,
                                                .kept = apart ? span->micro : -1};
    }
    return LS_OK;
}

/* Builds a schedule from the trace, with a slot for every micro-batch: slots do not affect time. */
static ls_status read_lists(const ls_timeline *t, int pipeline, ls_schedule *out) {
    size_t chunks = (size_t)t->stages * (size_t)t->chunks;
    *out = (ls_schedule){.kind = LS_SCHEDULE_1F1B, .stages = t->stages, .chunks = t->chunks};
    LS_TRY(size_lists(t, pipeline, out));
    out->count = ls_region_take(&out->memory, (size_t)t->stages, sizeof *out->count);
    out->actions = ls_region_take(&out->memory, (size_t)t->stages, sizeof *out->actions);
    out->slots = ls_region_take(&out->memory, chunks, sizeof *out->slots);
    out->kept = ls_region_take(&out->memory, chunks, sizeof *out->kept);
    if (out->memory.is_short) return ls_fail(LS_ERR_RESOURCE, "out of memory for a schedule of %d stages", t->stages);
    for (size_t i = 0; i < chunks; i++) out->slots[i] = out->kept[i] = out->micros;
    for (int s = 0; s < t->stages; s++) LS_TRY(fill_list(t, pipeline, s, out));
    return LS_OK;
}

/* ---- durations --------------------------------------------------------------------------------------------------- */

/* Allocates the tables, zeroed, as one block that the caller frees through d->seconds[0]. */
static ls_status make_durations(const ls_schedule *s, durations *d) {
    size_t chunks = (size_t)s->stages * (size_t)s->chunks, micros = (size_t)s->micros;
    double *numbers = calloc(2 * LS_ACTION_KINDS * chunks + micros, sizeof *numbers);
    if (!numbers) return ls_fail(LS_ERR_RESOURCE, "out of memory for the durations of %d stages", s->stages);
    for (size_t kind = 0; kind < LS_ACTION_KINDS; kind++) {
        d->seconds[kind] = numbers + 2 * kind * chunks;
        d->counts[kind] = d->seconds[kind] + chunks;
    }
    d->share = numbers + 2 * LS_ACTION_KINDS * chunks;
    return LS_OK;
}

/* Returns the index of an action in the tables of durations. */
static size_t place(const ls_timeline *t, int stage, const ls_trace_span *span) {
    return (size_t)stage * (size_t)t->chunks + (size_t)(span->n / t->stages);
}

static double seconds_of(const ls_trace_span *span) { return (span->end_us - span->begin_us) * 1e-6; }

/* Fills the tables with the mean duration of each kind of action on each chunk and stage, in seconds. */
static void take_means(const ls_timeline *t, int pipeline, durations *d) {
    for (int s = 0; s < t->stages; s++) {
        const ls_timeline_worker *w = worker_of(t, pipeline, s);
        for (size_t i = 0; i < w->count; i++) {
            const ls_trace_span *span = &w->spans[i];
            if (!ls_mark_is_action(span->mark)) continue;
            d->seconds[span->mark][place(t, s, span)] += seconds_of(span);
            d->counts[span->mark][place(t, s, span)] += 1;
        }
    }
    size_t chunks = (size_t)t->stages * (size_t)t->chunks;
    for (int kind = 0; kind < LS_ACTION_KINDS; kind++)
        for (size_t i = 0; i < chunks; i++)
            if (d->counts[kind][i] > 0) d->seconds[kind][i] /= d->counts[kind][i];
}

/* qsort() order: by micro-batch, then by value, so that the median of each micro-batch is in the middle of its
 * ratios. */
static int compare_ratios(const void *a, const void *b) {
    const ratio *x = a, *y = b;
    if (x->micro != y->micro) return x->micro < y->micro ? -1 : 1;
    return (x->value > y->value) - (x->value < y->value);
}

/* Lists the ratio of every action of the pipeline to its mean; returns how many there are. */
static size_t list_ratios(const ls_timeline *t, int pipeline, const durations *d, ratio *out) {
    size_t count = 0;
    for (int s = 0; s < t->stages; s++) {
        const ls_timeline_worker *w = worker_of(t, pipeline, s);
        for (size_t i = 0; i < w->count; i++) {
            const ls_trace_span *span = &w->spans[i];
            double mean = ls_mark_is_action(span->mark) ? d->seconds[span->mark][place(t, s, span)] : 0;
            if (mean > 0) out[count++] = (ratio){span->micro, seconds_of(span) / mean};
        }
    }
    return count;
}

/* Computes the relative sizes of micro-batches; their mean is 1, so that the total time stays the same. */
static ls_status take_shares(const ls_timeline *t, int pipeline, const ls_schedule *schedule, durations *d) {
    size_t capacity = 1, count;
    double sum = 0;
    for (int s = 0; s < schedule->stages; s++) capacity += (size_t)schedule->count[s];
    ratio *ratios = malloc(capacity * sizeof *ratios);
    if (!ratios) return ls_fail(LS_ERR_RESOURCE, "out of memory for the sizes of %d micro-batches", schedule->micros);
    count = list_ratios(t, pipeline, d, ratios);
    if (count > 0) qsort(ratios, count, sizeof *ratios, compare_ratios);
    for (size_t at = 0, end; at < count; at = end) {
        for (end = at + 1; end < count && ratios[end].micro == ratios[at].micro;) end++;
        sum += d->share[ratios[at].micro] = ratios[at + (end - at) / 2].value;
    }
    for (int m = 0; m < schedule->micros; m++) d->share[m] = sum > 0 ? d->share[m] * schedule->micros / sum : 1;
    free(ratios);
    return LS_OK;
}

/* Builds the schedule of one pipeline from the trace, and simulates it with the measured durations. */
static ls_status predict_one(const ls_timeline *t, int pipeline, ls_schedule *schedule, ls_simulation *simulation) {
    durations d = {0};
    ls_status status;
    LS_TRY(read_lists(t, pipeline, schedule));
    LS_TRY(make_durations(schedule, &d));
    take_means(t, pipeline, &d);
    LS_TRY_OUT(take_shares(t, pipeline, schedule, &d));
    ls_simulate_costs costs = {.micro_share = d.share};
    for (int kind = 0; kind < LS_ACTION_KINDS; kind++) costs.seconds[kind] = d.seconds[kind];
    status = ls_simulate(schedule, &costs, simulation);
out:
    free(d.seconds[0]);
    return status;
}

/* Frees all predictions and keeps the last failure message as the reason. */
static void drop_prediction(ls_timeline *t) {
    snprintf(t->no_prediction, sizeof t->no_prediction, "%s", ls_status_message());
    for (int p = 0; p < t->pipelines; p++) {
        ls_schedule_free(&t->schedule[p]);
        ls_simulation_free(&t->prediction[p]);
    }
    free(t->schedule);
    free(t->prediction);
    t->schedule = NULL;
    t->prediction = NULL;
}

ls_status ls_timeline_predict(ls_timeline *t) {
    t->schedule = calloc((size_t)t->pipelines, sizeof *t->schedule);
    t->prediction = calloc((size_t)t->pipelines, sizeof *t->prediction);
    if (!t->schedule || !t->prediction)
        return ls_fail(LS_ERR_RESOURCE, "out of memory for %d predictions", t->pipelines);
    double longest = 0;
    for (int p = 0; p < t->pipelines; p++) {
        ls_status status = predict_one(t, p, &t->schedule[p], &t->prediction[p]);
        if (status == LS_ERR_RESOURCE) return status;
        if (status != LS_OK) {
            drop_prediction(t);
            return LS_OK;
        }
        if (t->prediction[p].seconds > longest) longest = t->prediction[p].seconds;
    }
    for (int r = 0; r < t->workers; r++) {
        ls_timeline_worker *w = &t->worker[r];
        w->predicted_bubble = longest > 0 ? 1 - t->prediction[w->pipeline].busy[w->stage] / longest : 0;
    }
    return LS_OK;
}
