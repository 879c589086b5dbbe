/* cmd_timeline.c: `lockstep timeline RUN`: finds the trace of a run, measures one step of it and draws it. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/timeline_report.h"
#include "parallel/layout/layout.h"
#include "report/charts.h"
#include "report/svg.h"

enum { SHOWN = 160, LAYOUT_BYTES_MAX = 1 << 20, TITLE_MAX = 512 };

typedef struct timeline {
    const ls_options *opts;
    char trace_path[PATH_MAX], layout_path[PATH_MAX], svg_path[PATH_MAX];
    ls_trace trace;
    ls_timeline line;
    char title[TITLE_MAX];
} timeline;

/* ---- files ------------------------------------------------------------------------------------------------------- */

static ls_status join(char path[PATH_MAX], const char *folder, int length, const char *name) {
    if (snprintf(path, PATH_MAX, "%.*s%s", length, folder, name) >= PATH_MAX)
        return ls_fail(LS_ERR_INPUT, "path %.*s… is too long", SHOWN, folder);
    return LS_OK;
}

/* Where the run's own words say that it put its trace; "" where they do not. */
static ls_status trace_of_config(const char *run, char path[PATH_MAX]) {
    char config[PATH_MAX];
    json_t *json = NULL;
    LS_TRY(join(config, run, (int)strlen(run), "/config.json"));
    path[0] = '\0';
    if (!ls_file_exists(config)) return LS_OK;
    LS_TRY(ls_json_load_file(config, LAYOUT_BYTES_MAX, &json));
    const char *trace = json_string_value(json_object_get(json, "trace"));
    if (trace && strcmp(trace, "run") != 0 && strlen(trace) < PATH_MAX) memcpy(path, trace, strlen(trace) + 1);
    json_decref(json);
    return LS_OK;
}

static ls_status find_in_run(timeline *t, const char *run) {
    int length = (int)strlen(run);
    char named[PATH_MAX];
    LS_TRY(join(t->trace_path, run, length, "/trace.json"));
    LS_TRY(join(t->layout_path, run, length, "/layout.json"));
    LS_TRY(join(t->svg_path, run, length, "/timeline.svg"));
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

static ls_status find_beside(timeline *t, const char *file) {
    const char *slash = strrchr(file, '/');
    size_t length = strlen(file);
    if (length > 5 && strcmp(file + length - 5, ".json") == 0) length -= 5;
    LS_TRY(join(t->trace_path, file, (int)strlen(file), ""));
    LS_TRY(join(t->layout_path, file, slash ? (int)(slash - file) + 1 : 0, "layout.json"));
    return join(t->svg_path, file, (int)length, ".svg");
}

static ls_status find_files(timeline *t) {
    const char *run = t->opts->run;
    struct stat about;
    if (!run) return ls_fail(LS_ERR_INPUT, "timeline needs a run or a trace: lockstep timeline RUN");
    if (strlen(run) >= PATH_MAX || stat(run, &about) != 0)
        return ls_fail_errno(LS_ERR_INPUT, "cannot open %.*s", SHOWN, run);
    if (S_ISDIR(about.st_mode))
        LS_TRY(find_in_run(t, run));
    else
        LS_TRY(find_beside(t, run));
    if (t->opts->out) LS_TRY(join(t->svg_path, t->opts->out, (int)strlen(t->opts->out), ""));
    if (strcmp(t->svg_path, t->trace_path) == 0)
        return ls_options_fail(t->opts, LS_OPT_out, "this is the trace itself; choose another name");
    return ls_file_can_write(t->svg_path);
}

/* ---- what is drawn ----------------------------------------------------------------------------------------------- */

/* "step 3: dp 2 × tp 1 × pp 4, 1f1b"; a layout that another run left here says nothing about this trace. */
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

static void draw(const void *timeline_of, FILE *out) {
    const timeline *t = timeline_of;
    ls_timeline_svg(&t->line, t->title, out);
}

static ls_status run(timeline *t) {
    LS_TRY(find_files(t));
    LS_TRY(ls_trace_open(t->trace_path, &t->trace));
    LS_TRY(ls_timeline_make(&t->trace, t->trace_path, t->opts->step, &t->line));
    LS_TRY(read_layout(t));
    LS_TRY(ls_svg_write(t->svg_path, draw, t));
    if (t->opts->json) return ls_timeline_print_json(&t->line, t->title, t->svg_path);
    ls_timeline_print(&t->line, t->title, t->svg_path);
    return LS_OK;
}

ls_status ls_cmd_timeline(const ls_options *options) {
    timeline *t = calloc(1, sizeof *t);
    if (!t) return ls_fail(LS_ERR_RESOURCE, "out of memory");
    t->opts = options;
    ls_status status = run(t);
    ls_timeline_free(&t->line);
    ls_trace_free(&t->trace);
    free(t);
    return status;
}
