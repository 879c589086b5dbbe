/* timeline_report.c: a row for each worker: what it did in the step, and how its gradient reductions went. */
#include "cli/timeline_report.h"

#include <inttypes.h>
#include <math.h>

#include "cli/print.h"

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* The mean of the workers from `first` to `end` − 1, or a worker itself. */
static ls_timeline_worker mean(const ls_timeline *t, int first, int end) {
    ls_timeline_worker m = {.stage = t->worker[first].stage};
    double n = end - first;
    for (int r = first; r < end; r++) {
        const ls_timeline_worker *w = &t->worker[r];
        for (int mark = 0; mark < LS_MARK_KINDS; mark++) m.us[mark] += w->us[mark] / n;
        m.end_us += (w->end_us - w->begin_us) / n;
        m.busy += w->busy / n;
        m.waiting += w->waiting / n;
        m.bubble += w->bubble / n;
        m.predicted_bubble += w->predicted_bubble / n;
    }
    return m;
}

static double forward_us(const ls_timeline_worker *w) { return w->us[LS_MARK_FORWARD]; }

static double backward_us(const ls_timeline_worker *w) {
    return w->us[LS_MARK_BACKWARD] + w->us[LS_MARK_BACKWARD_INPUT] + w->us[LS_MARK_BACKWARD_WEIGHTS];
}

static void print_row(const char *name, const ls_timeline_worker *w) {
    printf("%-22s %10.3f %10.3f %7.1f %% %7.1f %% %7.1f %%", name, forward_us(w) / 1e3, backward_us(w) / 1e3,
           100 * w->busy, 100 * w->waiting, 100 * w->bubble);
    if (isnan(w->predicted_bubble))
        printf(" %9s", "-");
    else
        printf(" %7.1f %%", 100 * w->predicted_bubble);
    printf(" %10.3f %10.3f %10.3f %10.3f\n", w->us[LS_MARK_FINISH] / 1e3, w->us[LS_MARK_OPTIMIZER] / 1e3,
           w->us[LS_MARK_PUBLISH] / 1e3, (w->end_us - w->begin_us) / 1e3);
}

static void name_row(const ls_timeline *t, int rank, char *name, size_t room) {
    const ls_timeline_worker *w = &t->worker[rank];
    if (t->dp > 0)
        snprintf(name, room, "%d: pp %d dp %d tp %d", rank, w->stage, w->pipeline / t->tp, w->pipeline % t->tp);
    else
        snprintf(name, room, "%d: stage %d", rank, w->stage);
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static void print_workers(const ls_timeline *t) {
    char name[64];
    printf("\n%-22s %10s %10s %9s %9s %9s %9s %10s %10s %10s %10s\n", "worker", "forward", "backward", "busy",
           "waiting", "bubble", "predicted", "reductions", "optimizer", "weights", "step, ms");
    for (int r = 0; r < t->workers; r++) {
        name_row(t, r, name, sizeof name);
        print_row(name, &t->worker[r]);
    }
    for (int s = 0; t->pipelines > 1 && s < t->stages; s++) {
        ls_timeline_worker m = mean(t, s * t->pipelines, (s + 1) * t->pipelines);
        snprintf(name, sizeof name, "mean of stage %d", s);
        print_row(name, &m);
    }
    ls_timeline_worker m = mean(t, 0, t->workers);
    if (t->stages > 1) print_row("mean", &m);
}

static void print_reduction(const char *name, const ls_timeline_reductions *r) {
    printf("%-22s %10d %14" PRIu64 " %10.3f %12.3f %10.3f %7.1f %%\n", name, r->count, r->bytes, r->under_way / 1e3,
           r->in_backward / 1e3, r->exposed / 1e3, r->under_way > 0 ? 100 * r->in_backward / r->under_way : 0);
}

static ls_timeline_reductions total(const ls_timeline *t) {
    ls_timeline_reductions sum = {0};
    for (int r = 0; r < t->workers; r++) {
        const ls_timeline_reductions *one = &t->worker[r].reductions;
        sum.count += one->count;
        if (__builtin_add_overflow(sum.bytes, one->bytes, &sum.bytes)) sum.bytes = UINT64_MAX;
        sum.under_way += one->under_way;
        sum.in_backward += one->in_backward;
        sum.exposed += one->exposed;
    }
    return sum;
}

static void print_reductions(const ls_timeline *t) {
    char name[64];
    ls_timeline_reductions sum = total(t);
    if (sum.count == 0) return;
    printf("\n%-22s %10s %14s %10s %12s %10s %9s\n", "gradient reductions", "number", "bytes", "in flight",
           "in backward", "exposed", "hidden");
    for (int r = 0; r < t->workers; r++) {
        name_row(t, r, name, sizeof name);
        print_reduction(name, &t->worker[r].reductions);
    }
    print_reduction("total", &sum);
}

void ls_timeline_print(const ls_timeline *t, const char *title, const char *drawing) {
    double work_us = t->work_end_us - t->work_begin_us, predicted_us = ls_timeline_predicted_us(t);
    printf("%s\n", title);
    printf("steps %lld to %lld are complete in the trace; %" PRIu64 " events were lost\n", (long long)t->first_step,
           (long long)t->last_step, t->dropped_events);
    printf("forward and backward %.3f ms", work_us / 1e3);
    if (isnan(predicted_us))
        printf(", no prediction: %s\n", t->no_prediction);
    else
        printf(", predicted %.3f ms\n", predicted_us / 1e3);
    print_workers(t);
    print_reductions(t);
    printf("\ndrawn in %s\n", drawing);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static json_t *worker_json(const void *timeline, int rank) {
    const ls_timeline_worker *w = &((const ls_timeline *)timeline)->worker[rank];
    const ls_timeline_reductions *r = &w->reductions;
    json_t *reductions =
        json_pack("{s:i, s:I, s:f, s:f, s:f}", "number", r->count, "bytes", (json_int_t)r->bytes, "under_way_ms",
                  r->under_way / 1e3, "in_backward_ms", r->in_backward / 1e3, "exposed_ms", r->exposed / 1e3);
    return json_pack("{s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:o, s:f, s:f, s:f, s:f, s:o}", "worker", rank, "stage",
                     w->stage, "pipeline", w->pipeline, "forward_ms", forward_us(w) / 1e3, "backward_ms",
                     backward_us(w) / 1e3, "busy", w->busy, "waiting", w->waiting, "bubble", w->bubble,
                     "predicted_bubble", ls_cli_json_number(w->predicted_bubble), "finish_ms",
                     w->us[LS_MARK_FINISH] / 1e3, "optimizer_ms", w->us[LS_MARK_OPTIMIZER] / 1e3, "publish_ms",
                     w->us[LS_MARK_PUBLISH] / 1e3, "step_ms", (w->end_us - w->begin_us) / 1e3, "reductions",
                     reductions);
}

ls_status ls_timeline_print_json(const ls_timeline *t, const char *title, const char *drawing) {
    ls_timeline_reductions sum = total(t);
    return ls_cli_print_json(json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:i, s:f, s:o, s:f, s:o, s:s}", "title", title, "step", (json_int_t)t->step,
        "first_step", (json_int_t)t->first_step, "last_step", (json_int_t)t->last_step, "dropped_events",
        (json_int_t)t->dropped_events, "stages", t->stages, "work_ms", (t->work_end_us - t->work_begin_us) / 1e3,
        "predicted_ms", ls_cli_json_number(ls_timeline_predicted_us(t) / 1e3), "hidden",
        sum.under_way > 0 ? sum.in_backward / sum.under_way : 0, "workers",
        ls_cli_json_list(t->workers, worker_json, t), "drawing", drawing));
}
