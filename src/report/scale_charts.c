/* scale_charts.c: the drawings of the page of `lockstep scale`.
 *
 *     1 worker,  batch 8  ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇ 12.1 ms          parts: what a step is spent on, size by size
 *     2 workers, batch 8  ▇▇▇▇▇▇▇▇░░▒ 7.9 ms
 *
 * and the speed-up against the number of workers, a line for each batch: dots measured, dashes predicted. */
#include "report/axis.h"
#include "report/scale_page.h"

enum { NAMES = 150, FIGURES = 80, ROW = 22, BAR = 14, HEIGHT = 220, BATCHES_MAX = 32 };

/* Draws a bar for each measured size, divided by what a step was spent on. An ls_svg_draw; ctx is an ls_scale_found. */
static int draw_parts(FILE *out, int width, const void *ctx) {
    const ls_scale_found *f = ctx;
    static const ls_svg_named keys[] = {{"u", "computing"}, {"m", "synchronising"}, {"i", "idle"}, {"o", "overhead"}};
    bool narrow = ls_svg_is_narrow(width); /* then names stand above their bars */
    double most = 0, y = ls_svg_keys(out, 0, width, 2, keys, 4) + 6, left = narrow ? 0 : NAMES;
    for (int i = 0; i < f->points; i++)
        if (f->point[i].seconds > most) most = f->point[i].seconds;
    double scale = (width - left - FIGURES) / most;
    for (int i = 0; i < f->points; i++, y += ROW) {
        const ls_scaling_point *p = &f->point[i];
        double parts[] = {p->compute, ls_scaling_sync_of(p), p->idle, p->other}, end = left;
        ls_svg_text(out, narrow ? 0 : left - 8, y + 11, narrow ? "n" : "e n", "%d worker%s, batch %zu", p->workers,
                    p->workers == 1 ? "" : "s", p->batch);
        if (narrow) y += 15;
        for (int k = 0; k < 4; k++) end = ls_svg_rect(out, end, y, parts[k] * scale, BAR, keys[k].look);
        ls_svg_text(out, end + 6, y + 11, "t n", "%s", LS_SECONDS(p->seconds));
    }
    return (int)y + 4;
}

void ls_scale_parts_chart(ls_page *page, const ls_scale_found *f) {
    ls_page_add_chart(page, "parts", draw_parts, f, "Time of a step by kind, for each number of workers and batch.");
}

/* Returns whether the point has this batch and a known speedup. */
static bool is_of(const ls_scale_found *f, const ls_scaling_point *at, size_t batch) {
    return at->batch == batch && ls_scale_speedup(f, at) > 0;
}

/* Writes the CSS classes of a line for batch number `series`. */
static void look_of(int series, bool predicted, char look[16]) {
    snprintf(look, 16, predicted ? "s%d d" : "s%d", series % (LS_SVG_SERIES / 2));
}

/* Draws a line through the measured sizes of one batch; returns the last of them, or NULL. */
static const ls_scaling_point *put_measured(ls_svg_plot *p, const ls_scale_found *f, size_t batch, int series) {
    const ls_scaling_point *last = NULL;
    char look[16];
    look_of(series, false, look);
    ls_svg_curve_begin(p, look, 0);
    for (int i = 0; i < f->points; i++) {
        if (!is_of(f, &f->point[i], batch)) continue;
        last = &f->point[i];
        ls_svg_curve_to(p, last->workers, ls_scale_speedup(f, last));
    }
    ls_svg_curve_end(p);
    for (int i = 0; i < f->points; i++)
        if (is_of(f, &f->point[i], batch)) ls_svg_dot(p, f->point[i].workers, ls_scale_speedup(f, &f->point[i]), look);
    return last;
}

/* Draws a line from the last measured size through predicted ones, with their ranges; returns the last point. */
static const ls_scaling_point *put_predicted(ls_svg_plot *p, const ls_scale_found *f, const ls_scaling_point *last,
                                             int series) {
    size_t batch = last->batch;
    char look[16];
    look_of(series, true, look);
    ls_svg_curve_begin(p, look, 0);
    ls_svg_curve_to(p, last->workers, ls_scale_speedup(f, last));
    for (int i = 0; i < f->nexts; i++) {
        if (!is_of(f, &f->next[i], batch)) continue;
        last = &f->next[i];
        ls_svg_curve_to(p, last->workers, ls_scale_speedup(f, last));
    }
    ls_svg_curve_end(p);
    look_of(series, false, look);
    for (int i = 0; i < f->nexts; i++) {
        const ls_scaling_point *at = &f->next[i];
        if (!is_of(f, at, batch)) continue;
        /* Ranges of several batches stand beside each other. */
        double x = ls_svg_x(p, at->workers) + 3 * (series % 4) - 3, speedup = ls_scale_speedup(f, at);
        double most = speedup * at->seconds / at->low, least = speedup * at->seconds / at->high;
        double top = ls_svg_y(p, most < p->y_last ? most : p->y_last), bottom = ls_svg_y(p, least);
        ls_svg_line(p->out, x, bottom, x, top, look);
        ls_svg_line(p->out, x - 3, bottom, x + 3, bottom, look);
        ls_svg_line(p->out, x - 3, top, x + 3, top, look);
    }
    return last;
}

/* Returns the number of predictions with a known speedup. */
static int count_predicted(const ls_scale_found *f) {
    int count = 0;
    for (int i = 0; i < f->nexts; i++) count += ls_scale_speedup(f, &f->next[i]) > 0;
    return count;
}

/* Sets the plot's ranges so that all points with a known speedup lie inside. */
static void find_ends(const ls_scale_found *f, ls_svg_plot *p) {
    p->x_first = 1;
    p->x_last = p->y_last = 2;
    for (int i = 0; i < f->points + f->nexts; i++) {
        const ls_scaling_point *at = i < f->points ? &f->point[i] : &f->next[i - f->points];
        if (!(ls_scale_speedup(f, at) > 0)) continue;
        if (at->workers > p->x_last) p->x_last = at->workers;
        if (ls_scale_speedup(f, at) > p->y_last) p->y_last = ls_scale_speedup(f, at);
    }
    p->y_last *= 1.05;
}

/* Draws the speedup against the number of workers, a line for each batch. An ls_svg_draw; ctx is an ls_scale_found. */
static int draw_speed(FILE *out, int width, const void *ctx) {
    static const ls_svg_named keys[] = {{"s0", "measured"}, {"s0 d", "predicted"}, {"l3", "ideal"}};
    const ls_scale_found *f = ctx;
    bool narrow = ls_svg_is_narrow(width), predicted = count_predicted(f) > 0;
    ls_svg_named shown[] = {keys[0], predicted ? keys[1] : keys[2], keys[2]};
    ls_svg_plot p = {.out = out, .height = HEIGHT};
    ls_svg_label labels[BATCHES_MAX];
    char names[BATCHES_MAX][24], looks[BATCHES_MAX][16];
    int count = 0;
    find_ends(f, &p);
    ls_svg_text(out, 0, 14, "t", narrow ? "Speed-up over one worker" : "Speed-up over one worker with the same batch");
    p.top = ls_svg_keys(out, 0, width, 26, shown, predicted ? 3 : 2) + 6;
    p.left = ls_axis_room(0, p.y_last, false, LS_AXIS_NUMBER, 8);
    p.width = width - p.left - 94;
    ls_axis_draw_y(&p, LS_AXIS_NUMBER, 8);
    double end = p.x_last < p.y_last ? p.x_last : p.y_last;
    ls_svg_line(out, ls_svg_x(&p, 1), ls_svg_y(&p, 1), ls_svg_x(&p, end), ls_svg_y(&p, end), "l3");
    for (int i = 0; i < f->points && count < BATCHES_MAX; i++) {
        if (f->point[i].workers > 1) continue;
        const ls_scaling_point *last = put_measured(&p, f, f->point[i].batch, count);
        if (!last) continue;
        last = put_predicted(&p, f, last, count);
        look_of(count, false, looks[count]);
        snprintf(names[count], sizeof names[count], "batch %zu", last->batch);
        labels[count] = (ls_svg_label){ls_svg_x(&p, last->workers), ls_svg_y(&p, ls_scale_speedup(f, last)),
                                       looks[count], names[count]};
        count++;
    }
    ls_svg_labels(out, labels, count, p.left + p.width, width, p.top, p.top + p.height);
    return (int)(p.top + p.height + ls_axis_draw_x(&p, width, LS_AXIS_WHOLE, "workers")) + 2;
}

void ls_scale_speed_chart(ls_page *page, const ls_scale_found *f) {
    ls_page_add_chart(page, "speed-up", draw_speed, f, "%s",
                      count_predicted(f) > 0
                          ? "Dots are measured; dashed lines are predicted for workers with cores of "
                            "their own, with the range that is expected; the dotted line is ideal."
                          : "Dots are measured; the dotted line is ideal.");
}
