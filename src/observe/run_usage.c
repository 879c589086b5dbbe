/* run_usage.c: how the workers of a trace spent their time: some of its steps, evenly spread. */
#include "observe/timeline.h"
#include "observe/run_parts.h"

enum { SAMPLES_MAX = 16 };

/* Waiting for reductions that goes on when the last worker has done its work. */
static double finish_us(const ls_timeline *line, const ls_timeline_worker *w) {
    double sum = 0;
    for (size_t i = 0; i < w->count; i++) {
        const ls_trace_span *span = &w->spans[i];
        double begin = span->begin_us > line->work_end_us ? span->begin_us : line->work_end_us;
        if (span->mark == LS_MARK_FINISH && span->end_us > begin) sum += span->end_us - begin;
    }
    return sum;
}

/* Busy is time inside actions, less waiting in there; waiting is all other time of the work, and that for reductions.
 */
static ls_status add_step(ls_run_log *run, const ls_timeline *line) {
    float busy[LS_WORKERS_MAX], wait[LS_WORKERS_MAX];
    double work_us = line->work_end_us - line->work_begin_us;
    for (int r = 0; r < line->workers; r++) {
        const ls_timeline_worker *w = &line->worker[r];
        busy[r] = (float)(w->busy * work_us / 1e3);
        wait[r] = (float)(((w->waiting + w->bubble) * work_us + finish_us(line, w)) / 1e3);
    }
    return ls_run_log_add_usage(run, line->step, line->workers, busy, wait);
}

ls_status ls_run_log_add_trace(ls_run_log *run, const char *source, const ls_trace *trace) {
    ls_timeline line;
    LS_TRY(ls_timeline_make(trace, source, 0, &line));
    int64_t first = line.first_step, last = line.last_step, count;
    ls_timeline_free(&line);
    if (__builtin_sub_overflow(last, first, &count) || count < 0 || count > INT32_MAX)
        return ls_fail(LS_ERR_INPUT, "%s: steps %lld to %lld cannot belong to one run", source, (long long)first,
                       (long long)last);
    count++;
    int64_t samples = count < SAMPLES_MAX ? count : SAMPLES_MAX;
    run->usage_of_trace = true;
    for (int64_t i = 0; i < samples; i++) {
        /* The middle of part i of the steps; a step in between that is not whole is no loss. */
        int64_t step = first + (2 * i + 1) * count / (2 * samples);
        ls_status status = ls_timeline_make(trace, source, step, &line);
        if (status == LS_ERR_RESOURCE) return status;
        if (status != LS_OK) continue;
        status = add_step(run, &line);
        ls_timeline_free(&line);
        LS_TRY(status);
    }
    return LS_OK;
}
