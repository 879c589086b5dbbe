/* charts.c: draws curves of runs, the time of their workers, their layout. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/numbers.h"
#include "report/run/page.h"

/* ---- curves ------------------------------------------------------------------------------------------------------ */

/* How a column is drawn. */
typedef struct about {
    const char *title, *y_name, *stem; /* stem: of the chart's file name */
    ls_axis_unit unit;
    bool from_zero, smooths, dots;
} about;

static const about columns[LS_VIEW_COLUMNS] = {
    [LS_VIEW_LOSS] = {"Training loss", "nats per token", "loss", LS_AXIS_NUMBER, false, true, false},
    [LS_VIEW_VALIDATION] = {"Validation loss", "nats per token", "validation", LS_AXIS_NUMBER, false, false, true},
    [LS_VIEW_ACCURACY] = {"Accuracy on validation", "accuracy", "accuracy", LS_AXIS_SHARE, false, false, true},
    [LS_VIEW_LR] = {"Learning rate", "", "lr", LS_AXIS_NUMBER, true, false, false},
    [LS_VIEW_NORM] = {"Norm of the gradient", "", "norm", LS_AXIS_NUMBER, true, true, false},
    [LS_VIEW_SPEED] = {"Speed", "tokens per second", "speed", LS_AXIS_NUMBER, true, true, false},
    [LS_VIEW_MFU] = {"Model FLOPs utilisation", "MFU", "mfu", LS_AXIS_SHARE, true, true, false},
    [LS_VIEW_STEP_TIME] = {"Time of a step", "time", "step-time", LS_AXIS_SECONDS, true, true, false},
    [LS_VIEW_GOODPUT] = {"Goodput: time in steps that count, of all time", "goodput", "goodput", LS_AXIS_SHARE, true,
                         false, false},
    [LS_VIEW_MEMORY] = {"Memory of the workers on the first machine", "memory", "memory", LS_AXIS_BYTES, true, false,
                        false},
    [LS_VIEW_GPU_MEMORY] = {"Memory in use on the first GPU", "memory", "gpu-memory", LS_AXIS_BYTES, true, false,
                            false},
    [LS_VIEW_SCALE] = {"Loss scale", "exponent of 2", "scale", LS_AXIS_NUMBER, false, false, false},
};

enum { CURVES_MAX = 4 * LS_RUN_PAGE_RUNS_MAX, MARKS_MAX = 200, MARK_TEXT = 160 };

/* A chart and what it borrows. */
typedef struct sheet {
    ls_curves chart;
    ls_curve curve[CURVES_MAX];
    ls_curve_point *points[CURVES_MAX];
    char names[CURVES_MAX][LS_RUN_NAME_MAX + 16];
    ls_curve_mark marks[MARKS_MAX];
    char texts[MARKS_MAX][MARK_TEXT];
} sheet;

/* Begins an empty chart of this kind. */
static void begin_run_chart(sheet *s, const ls_view *runs, const ls_run_page_options *o, const about *a) {
    memset(s, 0, sizeof *s);
    s->chart = (ls_curves){.title = a->title,
                           .x_name = ls_view_x_names[o->x],
                           .y_name = a->y_name,
                           .x_unit = o->x == LS_VIEW_BY_TIME ? LS_AXIS_SECONDS : LS_AXIS_WHOLE,
                           .y_unit = a->unit,
                           .x_log = o->x_log,
                           .y_log = o->y_log && a->unit == LS_AXIS_NUMBER,
                           .from_zero = a->from_zero,
                           .has_values = o->is_live,
                           .curve = s->curve,
                           .marks = s->marks};
    if (o->x == LS_VIEW_BY_TOKENS && runs[0].is_images) s->chart.x_name = "images";
}

/* Frees the chart's points and the chart. */
static void free_run_chart(sheet *s) {
    for (int i = 0; i < CURVES_MAX; i++) free(s->points[i]);
    free(s);
}

/* Adds the curve of a column of a run; nothing if it was not recorded. name NULL: the curve has none. series: its
 * colour. */
static ls_status add_run_curve(sheet *s, const ls_view *run, ls_view_column column, int smooth, ls_view_x x, int series,
                               const char *name, bool faint) {
    enum { COLUMNS = 700 };
    int i = s->chart.count;
    size_t count;
    if (i == CURVES_MAX) return LS_OK;
    LS_TRY(ls_view_curve(run, column, smooth, x, &s->points[i], &count));
    if (count == 0) return LS_OK;
    count = ls_curves_thin(s->points[i], count, COLUMNS);
    if (name) snprintf(s->names[i], sizeof s->names[i], "%s", name);
    s->curve[i] = (ls_curve){.name = name ? s->names[i] : NULL,
                             .series = series,
                             .faint = faint,
                             .dots = columns[column].dots && count <= 60,
                             .points = s->points[i],
                             .count = count};
    s->chart.count++;
    return LS_OK;
}

/* Adds the curve smoothed as the options say, with the raw values, faint, behind it if `raw`. */
static ls_status add_smooth(sheet *s, const ls_view *run, ls_view_column column, const ls_run_page_options *o,
                            int series, const char *name, bool raw) {
    int smooth = columns[column].smooths ? o->smooth : 0;
    if (smooth > 0 && raw) LS_TRY(add_run_curve(s, run, column, 0, o->x, series, NULL, true));
    return add_run_curve(s, run, column, smooth, o->x, series, name, false);
}

/* Adds marks for events and restarts of the run; of very many events only some. */
static void add_marks(sheet *s, const ls_view *run, ls_view_x x) {
    static const char letters[LS_EVENT_KINDS] = {'o', 'f', 'n', 'u', 'r', 's', 'a', 'x'};
    const ls_run_log *log = ls_view_log(run);
    int count = 0;
    size_t every = log->event_count / (MARKS_MAX / 2) + 1;
    for (size_t i = 0; i < log->event_count && count < MARKS_MAX / 2; i += every) {
        const ls_run_log_event *e = &log->events[i];
        ls_run_event_text(e, s->texts[count], MARK_TEXT);
        s->marks[count] = (ls_curve_mark){ls_view_place(run, e->step, x), letters[e->kind], s->texts[count]};
        count++;
    }
    for (size_t i = 1; i < log->start_count && count < MARKS_MAX; i++) {
        const ls_run_log_start *start = &log->starts[i];
        snprintf(s->texts[count], MARK_TEXT, "step %lld: %s", start->step,
                 start->restart > 0 ? "a worker was lost; the run continued with new workers" : "the run was resumed");
        s->marks[count] =
            (ls_curve_mark){ls_view_place(run, start->step, x), start->restart > 0 ? 'R' : 'S', s->texts[count]};
        count++;
    }
    s->chart.mark_count = count;
}

/* Writes the caption; without anything to explain it is only for screen readers (\3 in front). Returns `text`. */
static const char *caption_of(const ls_run_page_options *o, const about *a, int marks, char text[256]) {
    int used = 0;
    text[0] = '\0';
    if (a->smooths && o->smooth > 0)
        used = snprintf(text, 256, "%s, smoothed with a half-life of %d steps. ", a->title, ls_view_halves[o->smooth]);
    else
        used = snprintf(text, 256, "%s%s. ", marks > 0 ? "" : "\3", a->title);
    if (marks > 0)
        snprintf(text + used, 256 - (size_t)used,
                 "Letters mark what happened: S resumed, R workers replaced, others as "
                 "in the list of events.");
    return text;
}

/* Adds the chart to the page, unless it has no curve. */
static void finish_run_chart(ls_page *page, sheet *s, const ls_run_page_options *o, const about *a) {
    char text[256];
    if (s->chart.count > 0)
        ls_page_add_chart(page, a->stem, ls_curves_draw, &s->chart, "%s", caption_of(o, a, s->chart.mark_count, text));
}

ls_status ls_run_chart(ls_page *page, const ls_view *runs, int count, const ls_run_page_options *o,
                       ls_view_column column) {
    sheet *s = malloc(sizeof *s);
    about a = columns[column];
    ls_status status = LS_OK;
    if (!s) return ls_fail(LS_ERR_RESOURCE, "out of memory for a chart");
    if (column == LS_VIEW_SPEED && runs[0].is_images) a.y_name = "images per second";
    if (runs[0].is_images && (column == LS_VIEW_LOSS || column == LS_VIEW_VALIDATION)) a.y_name = "nats per image";
    begin_run_chart(s, runs, o, &a);
    for (int r = 0; r < count && status == LS_OK; r++)
        status = add_smooth(s, &runs[r], column, o, r, runs[r].name, count == 1);
    if (status == LS_OK) finish_run_chart(page, s, o, &a);
    free_run_chart(s);
    return status;
}

ls_status ls_run_loss_charts(ls_page *page, const ls_view *runs, int count, const ls_run_page_options *o) {
    about a = columns[LS_VIEW_LOSS];
    if (count > 1) {
        LS_TRY(ls_run_chart(page, runs, count, o, LS_VIEW_LOSS));
        return ls_run_chart(page, runs, count, o, LS_VIEW_VALIDATION);
    }
    sheet *s = malloc(sizeof *s);
    if (!s) return ls_fail(LS_ERR_RESOURCE, "out of memory for a chart");
    a.title = "Loss";
    if (runs[0].is_images) a.y_name = "nats per image";
    begin_run_chart(s, runs, o, &a);
    ls_status status = add_smooth(s, runs, LS_VIEW_LOSS, o, 0, "training", true);
    if (status == LS_OK) status = add_run_curve(s, runs, LS_VIEW_VALIDATION, 0, o->x, 1, "validation", false);
    add_marks(s, runs, o->x);
    if (status == LS_OK) finish_run_chart(page, s, o, &a);
    free_run_chart(s);
    return status;
}

/* ---- time of workers --------------------------------------------------------------------------------------------- */

enum { STEPS_USED = 50, WORKERS_SHOWN = 32, BAR = 14, ROW = 20, NAMES = 64, FIGURES = 62 };

typedef struct spent {
    double compute, input, network, wait, step; /* ms of a step, mean */
} spent;

typedef struct times {
    spent worker[LS_WORKERS_MAX];
    int workers;
    size_t steps; /* that the means are of */
} times;

/* Returns the time, or 0 if it was not recorded. */
static double known(float ms) { return isfinite(ms) ? (double)ms : 0; }

/* Computes the mean time of the workers in the last recorded steps that had as many workers as the last. */
static void find_times(const ls_run_log *log, times *t) {
    *t = (times){.workers = log->usage_count > 0 ? log->usage[log->usage_count - 1].workers : 0};
    for (size_t i = log->usage_count; i-- > 0 && t->steps < STEPS_USED;) {
        const ls_run_log_usage *u = &log->usage[i];
        if (u->workers != t->workers) break;
        t->steps++;
        for (int w = 0; w < u->workers; w++) {
            double busy = known(ls_run_log_times(log, u, LS_USAGE_BUSY)[w]);
            double wait = known(ls_run_log_times(log, u, LS_USAGE_WAIT)[w]);
            double net = known(ls_run_log_times(log, u, LS_USAGE_NET)[w]);
            double input = known(ls_run_log_times(log, u, LS_USAGE_INPUT)[w]);
            spent *s = &t->worker[w];
            if (input > busy) input = busy;
            if (net > wait) net = wait;
            s->compute += busy - input;
            s->input += input;
            s->network += net;
            s->wait += wait - net;
        }
    }
    for (int w = 0; w < t->workers && t->steps > 0; w++) {
        spent *s = &t->worker[w];
        s->compute /= (double)t->steps;
        s->input /= (double)t->steps;
        s->network /= (double)t->steps;
        s->wait /= (double)t->steps;
        s->step = s->compute + s->input + s->network + s->wait;
    }
}

/* Draws a bar for each worker, at most WORKERS_SHOWN. An ls_svg_draw; ctx is a `times`. */
static int draw_times(FILE *out, int width, const void *ctx) {
    static const ls_svg_named keys[] = {
        {"u", "computing"}, {"y", "reading data"}, {"m", "communication"}, {"i", "waiting for others"}};
    const times *t = ctx;
    double most = 1e-9, y = ls_svg_keys(out, 0, width, 2, keys, 4) + 4;
    int shown = t->workers < WORKERS_SHOWN ? t->workers : WORKERS_SHOWN;
    for (int w = 0; w < t->workers; w++)
        if (t->worker[w].step > most) most = t->worker[w].step;
    double scale = (width - NAMES - FIGURES) / most;
    for (int i = 0; i < shown; i++, y += ROW) {
        int w = (int)((long)i * t->workers / shown); /* spread evenly where there are too many */
        const spent *s = &t->worker[w];
        ls_svg_text(out, NAMES - 6, y + 11, "e n", "worker %d", w);
        double x = ls_svg_rect(out, NAMES, y, s->compute * scale, BAR, "u");
        x = ls_svg_rect(out, x, y, s->input * scale, BAR, "y");
        x = ls_svg_rect(out, x, y, s->network * scale, BAR, "m");
        x = ls_svg_rect(out, x, y, s->wait * scale, BAR, "i");
        ls_svg_text(out, x + 5, y + 11, "n", "%s", LS_SECONDS(s->step / 1e3));
    }
    return (int)y + 2;
}

bool ls_run_time_chart(ls_page *page, const ls_run_log *log) {
    times *t = malloc(sizeof *t);
    if (!t) return false;
    find_times(log, t);
    bool there = t->steps > 0 && t->workers > 1;
    if (there)
        ls_page_add_chart(page, "workers", draw_times, t,
                          "Where each worker%s spends the time of a step, mean of %zu step%s.",
                          t->workers > WORKERS_SHOWN ? " (a selection)" : "", t->steps, t->steps == 1 ? "" : "s");
    free(t);
    return there;
}

/* ---- layout ------------------------------------------------------------------------------------------------------ */

typedef struct grid {
    const ls_run_log *log;
    const ls_run_now *now;
} grid;

static const ls_svg_named now_keys[] = {{"u", "computing"},  {"i", "waiting"},  {"a", "evaluating, sampling"},
                                        {"r", "checkpoint"}, {"y", "starting"}, {"v", "no sign of life"}};

/* Draws the box of a worker with its number, and what it is doing as its tooltip. */
static void put_worker(FILE *out, const grid *g, int rank, double x, double y, double wide, double high) {
    const ls_worker_now *now = g->now && rank < g->now->workers ? &g->now->worker[rank] : NULL;
    const char *look = now ? now->look : "u";
    if (!out) return;
    fprintf(out, "<g><title>worker %d", rank);
    if (now && now->doing[0]) {
        fputs(": ", out);
        ls_svg_escape(out, now->doing);
    }
    if (now && now->memory_bytes > 0) fprintf(out, ", %s", LS_GIB(now->memory_bytes));
    fputs("</title>", out);
    ls_svg_rect(out, x, y, wide - 2, high - 2, look);
    char text[16];
    snprintf(text, sizeof text, "%d", rank);
    if (wide >= ls_svg_text_width(text) + 2 && high >= 14)
        ls_svg_text(out, x + (wide - 2) / 2, y + high / 2 + 3, "w", "%s", text);
    fputs("</g>\n", out);
}

/* Draws a frame for each replica (dp), in it a row for each tensor-parallel part (tp) and a column for each stage (pp).
 * An ls_svg_draw; ctx is a grid. */
static int draw_grid(FILE *out, int width, const void *ctx) {
    const grid *g = ctx;
    enum { GAP = 10, HEAD = 16, HIGH = 24 };
    int dp = g->log->dp, tp = g->log->tp, pp = g->log->pp;
    double wide = 46, y = 2, x = 0;
    if (wide * pp > width) wide = (double)width / pp;
    double frame = wide * pp, high = tp * HIGH + HEAD;
    if (g->now && g->now->workers > 0) y = ls_svg_keys(out, 0, width, y, now_keys, 6) + 4;
    for (int d = 0; d < dp; d++) {
        if (x > 0 && x + frame > width) {
            x = 0;
            y += high + GAP;
        }
        ls_svg_text(out, x, y + 11, "q n", dp > 1 ? "dp %d" : "one replica", d);
        for (int t = 0; t < tp; t++)
            for (int s = 0; s < pp; s++)
                put_worker(out, g, t + tp * (d + dp * s), x + s * wide, y + HEAD + t * HIGH, wide, HIGH);
        double label = dp > 1 ? 0 : ls_svg_text_width("one replica");
        x += (frame > label ? frame : label) + GAP;
    }
    return (int)(y + high) + 4;
}

void ls_run_layout_chart(ls_page *page, const ls_run_log *log, const ls_run_now *now) {
    if (log->dp < 1 || log->tp < 1 || log->pp < 1 || log->dp > LS_WORKERS_MAX || log->tp > LS_WORKERS_MAX ||
        log->pp > LS_WORKERS_MAX || (long)log->dp * log->tp * log->pp > LS_WORKERS_MAX)
        return;
    grid g = {log, now};
    ls_page_add_chart(
        page, "layout", draw_grid, &g,
        "The workers of the run by number: a group for each replica (dp), a row for each tensor-parallel part "
        "(tp), a column for each pipeline stage (pp).");
}
