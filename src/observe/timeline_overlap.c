/* timeline_overlap.c: how much of the gradient reductions went on behind the backward pass. Everything is a list of
 * intervals that do not touch each other, in order of time. */
#include <stdlib.h>

#include "observe/timeline.h"

typedef struct interval {
    double begin, end;
    int64_t n;
} interval;

typedef struct intervals {
    interval *at;
    size_t count;
} intervals;

/* Joined with the last one where they overlap. */
static void add_joined(intervals *list, double begin, double end) {
    interval *last = list->count > 0 ? &list->at[list->count - 1] : NULL;
    if (last && begin <= last->end) {
        if (end > last->end) last->end = end;
    } else {
        list->at[list->count++] = (interval){.begin = begin, .end = end};
    }
}

static double length(const intervals *list) {
    double sum = 0;
    for (size_t i = 0; i < list->count; i++) sum += list->at[i].end - list->at[i].begin;
    return sum;
}

/* Of what is in both. */
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

static int compare_ends(const void *a, const void *b) {
    const interval *x = a, *y = b;
    return (x->end > y->end) - (x->end < y->end);
}

/* The waits for reductions. A wait is for the one that ends in it and has as many bytes: sums of a tp row are waited
 * for as well. Waits that overlap, which one thread cannot have, count once. */
static void list_exposed(const ls_timeline_worker *w, const intervals *by_end, intervals *out) {
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

ls_status ls_timeline_measure_reductions(ls_timeline_worker *worker) {
    ls_timeline_reductions *sum = &worker->reductions;
    interval *room = calloc(4 * worker->count + 1, sizeof *room);
    if (!room) return ls_fail(LS_ERR_RESOURCE, "out of memory for the reductions of %zu spans", worker->count);
    intervals under_way = {room, 0}, by_end = {room + worker->count, 0};
    intervals backward = {room + 2 * worker->count, 0}, exposed = {room + 3 * worker->count, 0};
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
    list_exposed(worker, &by_end, &exposed);
    sum->under_way = length(&under_way);
    sum->in_backward = common_length(&under_way, &backward) - common_length(&exposed, &backward);
    sum->exposed = length(&exposed);
    free(room);
    return LS_OK;
}
