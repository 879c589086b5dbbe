/* timeline_svg.c: draws one step of all workers over time.
 *
 *     title, legend
 *     predicted   stage 0 |▇▇▇▇   ▇▇ |  bubble
 *                 stage 1 |  ▇▇▇▇▇   |
 *     measured    stage 0 |▇▇▇▇   ▇▇ |  busy, bubble      a lane for each worker: boxes for what it did, waits behind
 *                 stage 1 |  ▇▇▇▇▇   |                    them, and below them a line while reductions are under way
 *                 compute |▇▇▇▇▇▇▇   |                    below it one for each queue of its GPU, kernels by kind
 *                         0 … time
 *
 * Both parts have the same scale, and their first actions begin at the same place. Of waits and reductions, which can
 * be many thousands, those that a line on a screen could not tell apart are drawn as one; of kernels a point shows the
 * kind that took most of its time. */
#include <math.h>

#include "report/axis.h"
#include "report/numbers.h"
#include "report/charts.h"

enum {
    WIDTH = 960,
    LEFT = 118,  /* of the lanes */
    RIGHT = 784, /* what is behind belongs to figures */
    TOP = 30,    /* below the title */
    LANE = 26,   /* from one to the next */
    BOX = 18,    /* height of a box in it */
    LINE = 3,    /* height of the line for reductions */
    QUEUE = 16,  /* from the lane of a queue to the next */
    QUEUE_BOX = 12,
    POINTS = 2 * (RIGHT - LEFT), /* of a lane of kernels: two a pixel */
    GROUP = 8,                   /* between stages that have several workers */
    CAPTION = 24                 /* above the lanes of a part */
};

typedef struct drawing {
    const ls_timeline *t;
    ls_svg_plot plot; /* its x is seconds of the trace's clock */
    int y;            /* top of the lane that is drawn now */
} drawing;

static const ls_svg_named looks[LS_MARK_KINDS] = {
    [LS_MARK_FORWARD] = {"u", "forward"},
    [LS_MARK_BACKWARD] = {"b", "backward"},
    [LS_MARK_BACKWARD_INPUT] = {"y", "backward (input)"},
    [LS_MARK_BACKWARD_WEIGHTS] = {"a", "backward (weights)"},
    [LS_MARK_FINISH] = {"h", "finish reductions"},
    [LS_MARK_OPTIMIZER] = {"r", "optimizer"},
    [LS_MARK_PUBLISH] = {"o", "weight update"},
    [LS_MARK_WAIT] = {"i", "waiting"},
    [LS_MARK_REDUCTION] = {"v", "reductions in flight"},
};

static const char *const kind_looks[LS_KERNEL_KINDS] = {
    [LS_KERNEL_PRODUCTS] = "u",   [LS_KERNEL_ATTENTION] = "b",     [LS_KERNEL_NORMS] = "a",
    [LS_KERNEL_LOSS] = "y",       [LS_KERNEL_OPTIMIZER] = "r",     [LS_KERNEL_ELEMENTWISE] = "o",
    [LS_KERNEL_CONVERSION] = "h", [LS_KERNEL_COMMUNICATION] = "v", [LS_KERNEL_COPIES] = "p",
    [LS_KERNEL_WAITING] = "i",
};

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

/* Draws the box of an action in the present lane; odd chunks have a light edge. */
static void draw_action(const drawing *d, ls_mark mark, int chunk, int micro, double begin_us, double end_us) {
    char title[96];
    snprintf(title, sizeof title, "%s, micro-batch %d, chunk %d: %.3f ms", looks[mark].name, micro, chunk,
             (end_us - begin_us) / 1e3);
    ls_svg_action(&d->plot, begin_us / 1e6, end_us / 1e6, d->y, BOX, looks[mark].look, chunk % 2, micro, title);
}

/* Draws an empty lane with its name on the left and figures on the right. */
static void draw_label(const drawing *d, const char *name, const char *figures) {
    FILE *out = d->plot.out;
    ls_svg_text(out, LEFT - 8, d->y + 13, "e n", "%s", name);
    ls_svg_text(out, RIGHT + 8, d->y + 13, "n", "%s", figures);
    ls_svg_rect(out, LEFT, d->y, RIGHT - LEFT, BOX, "z");
}

/* Draws the caption of a part with its duration, and moves below it. */
static void draw_caption(drawing *d, const char *text, double us) {
    ls_svg_text(d->plot.out, 8, d->y + 16, "t n", "%s: %s", text, LS_TIME(us / 1e6));
    d->y += CAPTION;
}

/* ---- lanes ------------------------------------------------------------------------------------------------------- */

/* Draws the simulated actions of a stage. */
static void draw_predicted_lane(const drawing *d, int stage) {
    const ls_schedule *s = &d->t->schedule[0];
    const ls_simulation *p = &d->t->prediction[0];
    char name[32], figures[64];
    snprintf(name, sizeof name, "stage %d", stage);
    snprintf(figures, sizeof figures, "bubble %.1f %%", 100 * ls_simulation_bubble(p, stage));
    draw_label(d, name, figures);
    for (int i = 0; i < s->count[stage]; i++) {
        const ls_action *a = &s->actions[stage][i];
        const ls_simulated_action *when = &p->actions[stage][i];
        draw_action(d, (ls_mark)a->kind, a->chunk, a->micro, d->t->work_begin_us + when->start * 1e6,
                    d->t->work_begin_us + when->end * 1e6);
    }
}

/* Draws a worker's spans of one kind as boxes at y; those less than half a pixel apart as one. */
static void strip(const drawing *d, const ls_timeline_worker *w, ls_mark mark, int y, int height) {
    double from = 0, to = -HUGE_VAL;
    for (size_t i = 0; i < w->count; i++) {
        const ls_trace_span *span = &w->spans[i];
        if (span->mark != mark) continue;
        double a = ls_svg_x(&d->plot, span->begin_us / 1e6), b = ls_svg_x(&d->plot, span->end_us / 1e6);
        if (a > to + 0.5) {
            if (to - from >= 0.1) ls_svg_rect(d->plot.out, from, y, to - from, height, looks[mark].look);
            from = a;
        }
        if (b > to) to = b;
    }
    if (to - from >= 0.1) ls_svg_rect(d->plot.out, from, y, to - from, height, looks[mark].look);
}

/* Writes "stage 1 dp 0 tp 1", as far as the layout is known and has several workers on a stage. */
static void name_worker(const ls_timeline *t, int rank, char *name, size_t capacity) {
    const ls_timeline_worker *w = &t->worker[rank];
    int used = snprintf(name, capacity, "stage %d", w->stage);
    if (t->pipelines == 1) return;
    if (t->dp == 0)
        used += snprintf(name + used, capacity - (size_t)used, ", worker %d", rank);
    else {
        if (t->dp > 1) used += snprintf(name + used, capacity - (size_t)used, " dp %d", w->pipeline / t->tp);
        if (t->tp > 1) snprintf(name + used, capacity - (size_t)used, " tp %d", w->pipeline % t->tp);
    }
}

/* Draws what a worker did: waits, actions, the end of the step, and reductions below. */
static void draw_measured_lane(const drawing *d, int rank) {
    const ls_timeline_worker *w = &d->t->worker[rank];
    char name[64], figures[64];
    name_worker(d->t, rank, name, sizeof name);
    snprintf(figures, sizeof figures, "busy %.1f %%, bubble %.1f %%", 100 * w->busy, 100 * w->bubble);
    draw_label(d, name, figures);
    strip(d, w, LS_MARK_WAIT, d->y + 3, BOX - 6);
    for (size_t i = 0; i < w->count; i++) {
        const ls_trace_span *span = &w->spans[i];
        if (ls_mark_is_action(span->mark))
            draw_action(d, span->mark, (int)(span->n / d->t->stages), span->micro, span->begin_us, span->end_us);
    }
    /* Waits inside actions, as a notch in their boxes. */
    if (w->waiting_us > 0) strip(d, w, LS_MARK_WAIT, d->y + BOX - 5, 5);
    for (ls_mark mark = LS_MARK_FINISH; mark <= LS_MARK_PUBLISH; mark++) strip(d, w, mark, d->y, BOX);
    strip(d, w, LS_MARK_REDUCTION, d->y + BOX + 1, LINE);
}

/* Adds to each point (half a pixel of a lane) the share of it that each kind of kernel took. */
static void add_points(const ls_kernel_lane *lane, double begin_us, double us, double points[POINTS][LS_KERNEL_KINDS]) {
    for (size_t i = 0; i < lane->count; i++) {
        const ls_trace_kernel *k = &lane->kernel[i];
        double from = (k->begin_us - begin_us) / us * POINTS, to = (k->end_us - begin_us) / us * POINTS;
        if (from < 0) from = 0;
        if (to > POINTS) to = POINTS;
        for (int p = (int)from; p < to; p++) {
            double a = from > p ? from : p, b = to < p + 1 ? to : p + 1;
            points[p][k->kind] += b - a;
        }
    }
}

/* Returns the kind that took most of the point; LS_KERNEL_KINDS if the GPU was idle for most of it. */
static ls_kernel_kind most_of(const double point[LS_KERNEL_KINDS]) {
    ls_kernel_kind most = 0;
    double sum = 0;
    for (ls_kernel_kind kind = 0; kind < LS_KERNEL_KINDS; kind++) {
        sum += point[kind];
        if (point[kind] > point[most]) most = kind;
    }
    return sum < 0.5 ? LS_KERNEL_KINDS : most;
}

/* Draws the kernels of one GPU queue (stream) by kind. */
static void draw_queue_lane(const drawing *d, const ls_kernel_lane *lane) {
    double points[POINTS][LS_KERNEL_KINDS] = {{0}}, begin_us = d->plot.x_first * 1e6;
    double us = (d->plot.x_last - d->plot.x_first) * 1e6;
    add_points(lane, begin_us, us, points);
    ls_svg_text(d->plot.out, LEFT - 8, d->y + 10, "e n q", "%s", lane->name);
    ls_svg_text(d->plot.out, RIGHT + 8, d->y + 10, "n q", "%.3f ms", lane->busy_us / 1e3);
    for (int p = 0, end; p < POINTS; p = end) {
        ls_kernel_kind kind = most_of(points[p]);
        for (end = p + 1; end < POINTS && most_of(points[end]) == kind;) end++;
        if (kind < LS_KERNEL_KINDS)
            ls_svg_rect(d->plot.out, LEFT + p / 2.0, d->y, (end - p) / 2.0, QUEUE_BOX, kind_looks[kind]);
    }
}

/* Draws the lanes of a worker's GPU queues, and moves below them. */
static void draw_queue_lanes(drawing *d, int rank) {
    const ls_kernels *k = &d->t->kernels;
    for (size_t i = 0; i < k->lanes; i++) {
        if (k->lane[i].worker != rank) continue;
        draw_queue_lane(d, &k->lane[i]);
        d->y += QUEUE;
    }
}

/* ---- around them ------------------------------------------------------------------------------------------------- */

/* Returns whether any worker spent time on this kind. */
static bool is_seen(const ls_timeline *t, ls_mark mark) {
    for (int r = 0; r < t->workers; r++)
        if (t->worker[r].us[mark] > 0) return true;
    return false;
}

/* Draws the legend of the kinds that occur; returns the y where it ends. `out` NULL: only measures. */
static double legend(const ls_timeline *t, FILE *out, double y) {
    ls_svg_named keys[LS_MARK_KINDS + LS_KERNEL_KINDS];
    int count = 0;
    for (ls_mark mark = 0; mark < LS_MARK_STEP; mark++)
        if (is_seen(t, mark)) keys[count++] = looks[mark];
    y = ls_svg_keys(out, 8, WIDTH - 8, y, keys, count);
    count = 0;
    for (ls_kernel_kind kind = 0; kind < LS_KERNEL_KINDS; kind++)
        if (t->kernels.launches[kind] > 0) keys[count++] = (ls_svg_named){kind_looks[kind], ls_kernel_kind_name(kind)};
    return ls_svg_keys(out, 8, WIDTH - 8, y, keys, count);
}

/* Returns the height of all lanes in pixels. */
static int lanes_height(const ls_timeline *t) {
    int gaps = t->pipelines > 1 ? (t->stages - 1) * GROUP : 0;
    int predicted = t->prediction ? CAPTION + t->stages * LANE : 0;
    return predicted + CAPTION + t->workers * LANE + gaps + (int)t->kernels.lanes * QUEUE;
}

void ls_timeline_svg(const ls_timeline *t, const char *title, FILE *out) {
    double end_us = t->end_us, predicted_us = t->prediction ? t->work_begin_us + t->prediction[0].seconds * 1e6 : 0;
    if (predicted_us > end_us) end_us = predicted_us;
    if (!(end_us > t->begin_us)) end_us = t->begin_us + 1;
    drawing d = {
        .t = t,
        .plot = {
            .out = out, .left = LEFT, .width = RIGHT - LEFT, .x_first = t->begin_us / 1e6, .x_last = end_us / 1e6}};
    int top = (int)legend(t, NULL, TOP) + 2, bottom = top + lanes_height(t);
    ls_svg_begin(out, WIDTH, bottom + 44);
    ls_svg_text(out, 8, 20, "t", "%s", title);
    (void)legend(t, out, TOP);
    d.y = top;
    if (t->prediction) draw_caption(&d, "predicted", t->prediction[0].seconds * 1e6);
    for (int s = 0; t->prediction && s < t->stages; s++, d.y += LANE) draw_predicted_lane(&d, s);
    draw_caption(&d, "measured", t->work_end_us - t->work_begin_us);
    for (int r = 0; r < t->workers; r++) {
        if (r > 0 && t->pipelines > 1 && r % t->pipelines == 0) d.y += GROUP;
        draw_measured_lane(&d, r);
        d.y += LANE;
        draw_queue_lanes(&d, r);
    }
    /* Time begins with the step. */
    ls_svg_plot axis = d.plot;
    axis.x_last -= axis.x_first;
    axis.x_first = 0;
    axis.top = bottom + .5;
    (void)ls_axis_draw_x(&axis, WIDTH, LS_AXIS_SECONDS, "time");
    ls_svg_end(out);
}
