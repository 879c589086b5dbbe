/* cmd_timeline.c: `lockstep timeline RUN`: finds the trace of a run, measures one step of it and draws it; a row for
 * each worker says what it did in the step, and how its gradient reductions went. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "config/saved_config.h"
#include "observe/timeline.h"
#include "parallel/layout/layout.h"
#include "report/charts.h"
#include "report/svg.h"

enum { SHOWN = 160, LAYOUT_BYTES_MAX = 1 << 20, TITLE_MAX = 512, KERNELS_SHOWN = 12 };

typedef struct timeline {
    const ls_options *opts;
    char trace_path[PATH_MAX], layout_path[PATH_MAX], svg_path[PATH_MAX]; /* to read, to read if it exists, to write */
    ls_trace trace;
    ls_timeline line;
    char title[TITLE_MAX];
} timeline;

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* Writes the first `length` bytes of `folder` and then `name` as a path; fails if it is too long. */
static ls_status join_trace_path(char path[PATH_MAX], const char *folder, int length, const char *name) {
    if (snprintf(path, PATH_MAX, "%.*s%s", length, folder, name) >= PATH_MAX)
        return ls_fail(LS_ERR_INPUT, "path %.*s… is too long", SHOWN, folder);
    return LS_OK;
}

/* Writes the path that the run's saved --trace option names; "" if it names none, or the trace lies in the run's
 * folder. */
static ls_status trace_of_config(const char *run, char path[PATH_MAX]) {
    char config[PATH_MAX];
    json_t *json = NULL;
    ls_saved_config found = ls_saved_config_find(run, config);
    path[0] = '\0';
    if (found != LS_CONFIG_SOUND && found != LS_CONFIG_OF_COPY) return LS_OK;
    LS_TRY(ls_json_load_file(config, LAYOUT_BYTES_MAX, &json));
    const char *trace = json_string_value(json_object_get(json, "trace"));
    if (trace && strcmp(trace, "run") != 0 && strlen(trace) < PATH_MAX) memcpy(path, trace, strlen(trace) + 1);
    json_decref(json);
    return LS_OK;
}

/* Sets the paths for a run's folder. A trace that is not there is taken from where --trace wrote it. */
static ls_status find_in_run(timeline *t, const char *run) {
    int length = (int)strlen(run);
    char named[PATH_MAX];
    LS_TRY(join_trace_path(t->trace_path, run, length, "/trace.json"));
    LS_TRY(join_trace_path(t->layout_path, run, length, "/layout.json"));
    LS_TRY(join_trace_path(t->svg_path, run, length, "/timeline.svg"));
    if (ls_file_exists(t->trace_path)) return LS_OK;
    LS_TRY(trace_of_config(run, named));
    if (!named[0])
        return ls_fail(LS_ERR_INPUT, "%.*s has no trace.json; record one with lockstep train --trace run", SHOWN, run);
    if (!ls_file_exists(named))
        return ls_fail(LS_ERR_INPUT,
                       "the trace of %.*s was written to %.*s, which does not exist; give the trace file itself", SHOWN,
                       run, SHOWN, named);
    memcpy(t->trace_path, named, sizeof named);
    return LS_OK;
}

/* Sets the paths for a trace file: layout.json in its folder, and the drawing under its name with .svg. */
static ls_status find_beside(timeline *t, const char *file) {
    const char *slash = strrchr(file, '/');
    size_t length = strlen(file);
    if (length > 5 && strcmp(file + length - 5, ".json") == 0) length -= 5;
    LS_TRY(join_trace_path(t->trace_path, file, (int)strlen(file), ""));
    LS_TRY(join_trace_path(t->layout_path, file, slash ? (int)(slash - file) + 1 : 0, "layout.json"));
    return join_trace_path(t->svg_path, file, (int)length, ".svg");
}

/* Sets all paths from RUN, a folder or a trace file, and --out. Fails if the drawing cannot be written, or would
 * replace the trace. */
static ls_status find_files(timeline *t) {
    const char *run = t->opts->run;
    struct stat about;
    if (!run) return ls_fail(LS_ERR_INPUT, "timeline needs a run or a trace: lockstep timeline RUN");
    if (stat(run, &about) != 0) return ls_file_fail_open(run);
    if (S_ISDIR(about.st_mode))
        LS_TRY(find_in_run(t, run));
    else
        LS_TRY(find_beside(t, run));
    if (t->opts->out) LS_TRY(join_trace_path(t->svg_path, t->opts->out, (int)strlen(t->opts->out), ""));
    if (strcmp(t->svg_path, t->trace_path) == 0)
        return ls_options_fail(t->opts, LS_OPT_out, "this is the trace itself; choose another name");
    return t->opts->kernels ? LS_OK : ls_file_can_write(t->svg_path);
}

/* ---- what is drawn ----------------------------------------------------------------------------------------------- */

/* Writes "step 3: dp 2 × tp 1 × pp 4, 1f1b"; leaves out a layout that does not match the trace (of another run). */
static void make_title(timeline *t, const ls_layout_request *request) {
    const ls_timeline *line = &t->line;
    char schedule[64] = "", zero[32] = "";
    if (line->dp == 0) {
        snprintf(t->title, sizeof t->title, "step %lld: %d worker%s, %d stage%s", (long long)line->step, line->workers,
                 line->workers > 1 ? "s" : "", line->stages, line->stages > 1 ? "s" : "");
        return;
    }
    if (ls_knob_is_given(request, LS_KNOB_schedule) && line->stages > 1)
        snprintf(schedule, sizeof schedule, ", %s", ls_schedule_kind_name(request->knobs.schedule));
    if (request->knobs.zero > 0) snprintf(zero, sizeof zero, ", zero %d", request->knobs.zero);
    snprintf(t->title, sizeof t->title, "step %lld: dp %d × tp %d × pp %d%s%s", (long long)line->step, line->dp,
             line->tp, line->stages, schedule, zero);
}

/* Reads the run's layout, if its file exists, to name the workers by dp, tp and pp; then makes the title. */
static ls_status read_layout(timeline *t) {
    json_t *json = NULL;
    ls_layout_request request = ls_layout_request_none();
    ls_status status = LS_OK;
    if (ls_file_exists(t->layout_path)) {
        LS_TRY(ls_json_load_file(t->layout_path, LAYOUT_BYTES_MAX, &json));
        status = ls_layout_request_from_json(t->layout_path, json, &request);
        if (status == LS_OK) ls_timeline_set_mesh(&t->line, request.knobs.dp, request.knobs.tp, request.knobs.pp);
    }
    make_title(t, &request);
    json_decref(json);
    return status;
}

/* Draws the timeline as SVG. A callback of ls_svg_write(). */
static void draw_timeline(const void *timeline_of, FILE *out) {
    const timeline *t = timeline_of;
    ls_timeline_svg(&t->line, t->title, out);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Returns the mean of the workers from `first` to `end` − 1; its end_us is the mean duration of the step, and begin_us
 * is 0. */
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

/* Returns the time of forward passes in microseconds. */
static double forward_us(const ls_timeline_worker *w) { return w->us[LS_MARK_FORWARD]; }

/* Returns the time of backward passes in microseconds, also of those of inputs and weights alone. */
static double backward_us(const ls_timeline_worker *w) {
    return w->us[LS_MARK_BACKWARD] + w->us[LS_MARK_BACKWARD_INPUT] + w->us[LS_MARK_BACKWARD_WEIGHTS];
}

/* Prints times in milliseconds and shares of the step of a worker or a mean; "-" without a prediction. */
static void print_worker_row(const char *name, const ls_timeline_worker *w) {
    printf("%-22s %10.3f %10.3f %7.1f %% %7.1f %% %7.1f %%", name, forward_us(w) / 1e3, backward_us(w) / 1e3,
           100 * w->busy, 100 * w->waiting, 100 * w->bubble);
    if (isnan(w->predicted_bubble))
        printf(" %9s", "-");
    else
        printf(" %7.1f %%", 100 * w->predicted_bubble);
    printf(" %10.3f %10.3f %10.3f %10.3f\n", w->us[LS_MARK_FINISH] / 1e3, w->us[LS_MARK_OPTIMIZER] / 1e3,
           w->us[LS_MARK_PUBLISH] / 1e3, (w->end_us - w->begin_us) / 1e3);
}

/* Writes "3: pp 1 dp 0 tp 1", or "3: stage 1" if the layout is not known. */
static void name_row(const ls_timeline *t, int rank, char *name, size_t room) {
    const ls_timeline_worker *w = &t->worker[rank];
    if (t->dp > 0)
        snprintf(name, room, "%d: pp %d dp %d tp %d", rank, w->stage, w->pipeline / t->tp, w->pipeline % t->tp);
    else
        snprintf(name, room, "%d: stage %d", rank, w->stage);
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

/* Prints a row for each worker, then the means of stages and of all. */
static void print_workers(const ls_timeline *t) {
    char name[64];
    printf("\n%-22s %10s %10s %9s %9s %9s %9s %10s %10s %10s %10s\n", "worker", "forward", "backward", "busy",
           "waiting", "bubble", "predicted", "reductions", "optimizer", "weights", "step, ms");
    for (int r = 0; r < t->workers; r++) {
        name_row(t, r, name, sizeof name);
        print_worker_row(name, &t->worker[r]);
    }
    for (int s = 0; t->pipelines > 1 && s < t->stages; s++) {
        ls_timeline_worker m = mean(t, s * t->pipelines, (s + 1) * t->pipelines);
        snprintf(name, sizeof name, "mean of stage %d", s);
        print_worker_row(name, &m);
    }
    ls_timeline_worker m = mean(t, 0, t->workers);
    if (t->stages > 1) print_worker_row("mean", &m);
}

/* Prints number, bytes and times of gradient reductions, and the share of their time that overlapped with backward. */
static void print_reduction(const char *name, const ls_timeline_reductions *r) {
    printf("%-22s %10d %14" PRIu64 " %10.3f %12.3f %10.3f %7.1f %%\n", name, r->count, r->bytes, r->under_way / 1e3,
           r->in_backward / 1e3, r->exposed / 1e3, r->under_way > 0 ? 100 * r->in_backward / r->under_way : 0);
}

/* Returns the sums over all workers; bytes that overflow become UINT64_MAX, because a trace is untrusted input. */
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

/* Prints the gradient reductions of each worker; nothing if there were none. */
static void print_reductions(const ls_timeline *t) {
    char name[64];
    ls_timeline_reductions sum = total(t);
    if (sum.count == 0) return;
    printf("\n%-22s %10s %14s %10s %12s %10s %9s\n", "gradient reductions", "number", "bytes", "in flight",
           "in backward", "exposed", "overlap");
    for (int r = 0; r < t->workers; r++) {
        name_row(t, r, name, sizeof name);
        print_reduction(name, &t->worker[r].reductions);
    }
    print_reduction("total", &sum);
}

/* ---- GPUs -------------------------------------------------------------------------------------------------------- */

/* Prints a row for each GPU queue (stream): launches, busy and waiting time, gaps, overlap with another queue. */
static void print_lanes(const ls_timeline *t) {
    printf("\n%-22s %10s %10s %10s %12s %10s %9s\n", "GPU queues", "launches", "busy, ms", "waiting", "gaps, ms",
           "≤ 10 us", "overlap");
    for (size_t i = 0; i < t->kernels.lanes; i++) {
        const ls_kernel_lane *l = &t->kernels.lane[i];
        printf("%4d: %-16s %10zu %10.3f %10.3f %12.3f %10.3f %7.1f %%\n", l->worker, l->name, l->count,
               l->busy_us / 1e3, l->us[LS_KERNEL_WAITING] / 1e3, l->gaps_us / 1e3, l->small_gaps_us / 1e3,
               l->busy_us > 0 ? 100 * l->hidden_us / l->busy_us : 0);
    }
}

/* Returns the duration of the step in microseconds, mean of the workers. */
static double mean_step_us(const ls_timeline *t) { return mean(t, 0, t->workers).end_us; }

/* Prints launches and time of kernels by kind, as means of the workers. */
static void print_kinds(const ls_timeline *t) {
    printf("\n%-22s %10s %10s %9s\n", "kind", "launches", "ms", "of step");
    for (ls_kernel_kind kind = 0; kind < LS_KERNEL_KINDS; kind++)
        if (t->kernels.launches[kind] > 0)
            printf("%-22s %10.1f %10.3f %7.1f %%\n", ls_kernel_kind_name(kind), t->kernels.launches[kind],
                   t->kernels.us[kind] / 1e3, 100 * t->kernels.us[kind] / mean_step_us(t));
}

/* Prints the `most` rows of kernels with the most time, as means of the workers. */
static void print_kernels(const ls_timeline *t, size_t most) {
    const ls_kernels *k = &t->kernels;
    printf("\n%10s %9s %9s %11s %11s  %-14s %-34s %s\n", "ms", "of step", "launches", "mean, us", "longest, us", "kind",
           "kernel", "for");
    for (size_t i = 0; i < k->rows && i < most; i++) {
        const ls_kernel_row *r = &k->row[i];
        double us = r->us / k->workers;
        printf("%10.3f %7.1f %% %9.1f %11.1f %11.1f  %-14s %-34s %s\n", us / 1e3, 100 * us / mean_step_us(t),
               (double)r->count / k->workers, r->us / (double)r->count, r->longest_us, ls_kernel_kind_name(r->kind),
               r->name, r->of);
    }
    if (k->rows > most) printf("%10s and %zu more: lockstep timeline --kernels\n", "", k->rows - most);
}

/* Prints queues, kinds and at most `most` kernels; nothing if the trace has no GPU times. */
static void print_gpus(const ls_timeline *t, size_t most) {
    if (t->kernels.lanes == 0) return;
    print_lanes(t);
    print_kinds(t);
    print_kernels(t, most);
}

/* Prints all tables as text. drawing: the path of the SVG file. */
static void print_timeline(const ls_timeline *t, const char *title, const char *drawing) {
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
    print_gpus(t, KERNELS_SHOWN);
    printf("\ndrawn in %s\n", drawing);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* Returns a worker of the timeline `line` as a new object. A callback of ls_cli_json_list(). */
static json_t *worker_json(const void *line, int rank) {
    const ls_timeline_worker *w = &((const ls_timeline *)line)->worker[rank];
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

/* Returns a new object with the milliseconds of each kind of kernel, without kinds that took none. */
static json_t *kinds_json(const double us[LS_KERNEL_KINDS]) {
    json_t *object = json_object();
    for (ls_kernel_kind kind = 0; kind < LS_KERNEL_KINDS; kind++)
        if (us[kind] > 0) (void)json_object_set_new(object, ls_kernel_kind_name(kind), json_real(us[kind] / 1e3));
    return object;
}

/* Returns a GPU queue as a new object. A callback of ls_cli_json_list(). */
static json_t *lane_json(const void *kernels, int i) {
    const ls_kernel_lane *l = &((const ls_kernels *)kernels)->lane[i];
    return json_pack("{s:i, s:s, s:I, s:f, s:f, s:f, s:f, s:I, s:f, s:I, s:o}", "worker", l->worker, "queue", l->name,
                     "launches", (json_int_t)l->count, "busy_ms", l->busy_us / 1e3, "waiting_ms",
                     l->us[LS_KERNEL_WAITING] / 1e3, "hidden_ms", l->hidden_us / 1e3, "gaps_ms", l->gaps_us / 1e3,
                     "gaps", (json_int_t)l->gaps, "small_gaps_ms", l->small_gaps_us / 1e3, "small_gaps",
                     (json_int_t)l->small_gaps, "kinds_ms", kinds_json(l->us));
}

/* Returns a kernel, as a mean of the workers, as a new object. A callback of ls_cli_json_list(). */
static json_t *make_kernel_row_json(const void *kernels, int i) {
    const ls_kernels *k = kernels;
    const ls_kernel_row *r = &k->row[i];
    return json_pack("{s:s, s:s, s:s, s:f, s:f, s:f}", "kernel", r->name, "for", r->of, "kind",
                     ls_kernel_kind_name(r->kind), "ms", r->us / 1e3 / k->workers, "launches",
                     (double)r->count / k->workers, "longest_us", r->longest_us);
}

/* Returns a new object with the GPU's queues and kernels; NULL if the trace has no GPU times. */
static json_t *gpus_json(const ls_kernels *k) {
    if (k->lanes == 0) return NULL;
    return json_pack("{s:o, s:o, s:o}", "kinds_ms", kinds_json(k->us), "queues",
                     ls_cli_json_list((int)k->lanes, lane_json, k), "kernels",
                     ls_cli_json_list((int)k->rows, make_kernel_row_json, k));
}

/* Prints the timeline as JSON. drawing: the path of the SVG file; NULL: none was drawn. */
static ls_status print_timeline_json(const ls_timeline *t, const char *title, const char *drawing) {
    ls_timeline_reductions sum = total(t);
    return ls_cli_print_json(json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:i, s:f, s:o, s:f, s:o, s:s*, s:o*}", "title", title, "step", (json_int_t)t->step,
        "first_step", (json_int_t)t->first_step, "last_step", (json_int_t)t->last_step, "dropped_events",
        (json_int_t)t->dropped_events, "stages", t->stages, "work_ms", (t->work_end_us - t->work_begin_us) / 1e3,
        "predicted_ms", ls_cli_json_number(ls_timeline_predicted_us(t) / 1e3), "hidden",
        sum.under_way > 0 ? sum.in_backward / sum.under_way : 0, "workers",
        ls_cli_json_list(t->workers, worker_json, t), "drawing", drawing, "gpu", gpus_json(&t->kernels)));
}

/* Finds and reads the trace, then draws and prints the step; with --kernels only prints the kernels, all of them. */
static ls_status run_timeline(timeline *t) {
    LS_TRY(find_files(t));
    LS_TRY(ls_trace_open(t->trace_path, &t->trace));
    LS_TRY(ls_timeline_make(&t->trace, t->trace_path, t->opts->step, &t->line));
    LS_TRY(read_layout(t));
    if (t->opts->kernels && t->line.kernels.lanes == 0)
        return ls_options_fail(t->opts, LS_OPT_kernels,
                               "%.*s has no times of a GPU: it was not trained with --device cuda", SHOWN,
                               t->trace_path);
    if (!t->opts->kernels) LS_TRY(ls_svg_write(t->svg_path, draw_timeline, t));
    if (t->opts->json) return print_timeline_json(&t->line, t->title, t->opts->kernels ? NULL : t->svg_path);
    if (t->opts->kernels) {
        printf("%s, %.3f ms\n", t->title, mean_step_us(&t->line) / 1e3);
        print_gpus(&t->line, SIZE_MAX);
        return LS_OK;
    }
    print_timeline(&t->line, t->title, t->svg_path);
    return LS_OK;
}

/* Runs `lockstep timeline` on a run's folder or a trace file. */
ls_status ls_cmd_timeline(const ls_options *options) {
    static timeline t;
    t.opts = options;
    ls_status status = run_timeline(&t);
    ls_timeline_free(&t.line);
    ls_trace_free(&t.trace);
    return status;
}
