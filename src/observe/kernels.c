/* kernels.c: adds up the spans of queues, by lane, by kind and by kernel. */
#include "observe/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "observe/timeline.h"

static const double SMALL_GAP_US = 10;

static bool is_compute(const ls_kernel_lane *lane) { return strcmp(lane->name, "compute") == 0; }

/* ---- lanes ------------------------------------------------------------------------------------------------------- */

/* Sums the lane's spans: time by kind, busy time (all but waits), and the gaps between spans. */
static void measure_lane(ls_kernel_lane *lane) {
    double end = lane->count > 0 ? lane->kernel[0].begin_us : 0;
    for (size_t i = 0; i < lane->count; i++) {
        const ls_trace_kernel *k = &lane->kernel[i];
        double us = k->end_us - k->begin_us, gap = k->begin_us - end;
        lane->us[k->kind] += us;
        if (k->kind != LS_KERNEL_WAITING) lane->busy_us += us;
        if (gap > 0) lane->gaps++, lane->gaps_us += gap;
        if (gap > 0 && gap <= SMALL_GAP_US) lane->small_gaps++, lane->small_gaps_us += gap;
        if (k->end_us > end) end = k->end_us;
    }
}

/* Returns how many microseconds both queues were busy at the same time, waits excluded. Spans of one queue do not
 * overlap. */
static double common_us(const ls_kernel_lane *a, const ls_kernel_lane *b) {
    double us = 0;
    for (size_t i = 0, j = 0; i < a->count && j < b->count;) {
        const ls_trace_kernel *x = &a->kernel[i], *y = &b->kernel[j];
        double begin = x->begin_us > y->begin_us ? x->begin_us : y->begin_us;
        double end = x->end_us < y->end_us ? x->end_us : y->end_us;
        if (end > begin && x->kind != LS_KERNEL_WAITING && y->kind != LS_KERNEL_WAITING) us += end - begin;
        if (x->end_us < y->end_us)
            i++;
        else
            j++;
    }
    return us;
}

/* qsort() order: by worker, its compute queue first, then by name. */
static int compare_lanes(const void *a, const void *b) {
    const ls_kernel_lane *x = a, *y = b;
    if (x->worker != y->worker) return x->worker < y->worker ? -1 : 1;
    if (is_compute(x) != is_compute(y)) return is_compute(x) ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Adds a lane for each queue that has spans which began inside its worker's step. Spans of a queue lie together in
 * the trace. */
static void cut_lanes(const ls_trace *trace, const ls_timeline *timeline, ls_kernels *out) {
    for (size_t at = 0, end; at < trace->kernels; at = end) {
        const ls_trace_kernel *first = &trace->kernel[at];
        ls_kernel_lane lane = {.worker = first->worker, .name = trace->lane[first->lane].name};
        for (end = at; end < trace->kernels && trace->kernel[end].lane == first->lane; end++) {
            const ls_trace_kernel *k = &trace->kernel[end];
            const ls_timeline_worker *worker = &timeline->worker[k->worker];
            if (k->begin_us < worker->begin_us || k->begin_us >= worker->end_us) continue;
            if (lane.count++ == 0) lane.kernel = k;
        }
        if (lane.count > 0) out->lane[out->lanes++] = lane;
    }
}

/* Sorts and measures the lanes, counts the workers, and sets `hidden_us`, the busy time that overlaps with the same
 * worker's compute queue (0 if the worker has no such queue). */
static void add_lanes(ls_kernels *out) {
    const ls_kernel_lane *compute = NULL;
    if (out->lanes > 0) qsort(out->lane, out->lanes, sizeof *out->lane, compare_lanes);
    for (size_t i = 0; i < out->lanes; i++) {
        ls_kernel_lane *lane = &out->lane[i];
        measure_lane(lane);
        if (i == 0 || lane->worker != lane[-1].worker) {
            out->workers++;
            compute = is_compute(lane) ? lane : NULL;
        } else if (compute) {
            lane->hidden_us = common_us(lane, compute);
        }
    }
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* qsort() order that brings launches of the same kernel, operation and kind together. */
static int compare_keys(const void *a, const void *b) {
    const ls_kernel_row *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    if (order == 0) order = strcmp(x->of, y->of);
    return order ? order : (x->kind > y->kind) - (x->kind < y->kind);
}

/* qsort() order: most time first. */
static int compare_us(const void *a, const void *b) {
    const ls_kernel_row *x = a, *y = b;
    if (x->us != y->us) return x->us > y->us ? -1 : 1;
    return compare_keys(a, b);
}

/* Merges the rows of the same kernel, operation and kind in place, and sorts them by time, longest first. Returns how
 * many remain. */
static size_t join_rows(ls_kernel_row *row, size_t count) {
    size_t last = 0;
    if (count == 0) return 0;
    qsort(row, count, sizeof *row, compare_keys);
    for (size_t i = 1; i < count; i++) {
        if (compare_keys(&row[last], &row[i]) != 0) {
            row[++last] = row[i];
            continue;
        }
        row[last].count++;
        row[last].us += row[i].us;
        if (row[i].longest_us > row[last].longest_us) row[last].longest_us = row[i].longest_us;
    }
    qsort(row, last + 1, sizeof *row, compare_us);
    return last + 1;
}

/* Makes one row for each kernel, and the means per worker by kind. Leaves out the waits of communication queues,
 * because such a queue simply has nothing to do. Call it after add_lanes(), which counts the workers. */
static ls_status add_rows(ls_kernels *out) {
    size_t count = 0;
    for (size_t i = 0; i < out->lanes; i++) count += out->lane[i].count;
    out->row = calloc(count + 1, sizeof *out->row);
    if (!out->row) return ls_fail(LS_ERR_RESOURCE, "out of memory for the kernels of a step");
    for (size_t i = 0; i < out->lanes; i++)
        for (size_t j = 0; j < out->lane[i].count; j++) {
            const ls_trace_kernel *k = &out->lane[i].kernel[j];
            double us = k->end_us - k->begin_us;
            if (k->kind == LS_KERNEL_WAITING && !is_compute(&out->lane[i])) continue;
            out->us[k->kind] += us / out->workers;
            out->launches[k->kind] += 1.0 / out->workers;
            out->row[out->rows++] = (ls_kernel_row){k->name, k->of, k->kind, 1, us, us};
        }
    out->rows = join_rows(out->row, out->rows);
    return LS_OK;
}

ls_status ls_kernels_make(const ls_trace *trace, const ls_timeline *timeline, ls_kernels *out) {
    *out = (ls_kernels){.lane = calloc(trace->lanes + 1, sizeof *out->lane)};
    if (!out->lane) return ls_fail(LS_ERR_RESOURCE, "out of memory for the queues of a step");
    cut_lanes(trace, timeline, out);
    add_lanes(out);
    ls_status status = add_rows(out);
    if (status != LS_OK) ls_kernels_free(out);
    return status;
}

void ls_kernels_free(ls_kernels *kernels) {
    free(kernels->lane);
    free(kernels->row);
    *kernels = (ls_kernels){0};
}
