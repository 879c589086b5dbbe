/* scale_charts.c: the drawings of the page of `lockstep scale`.
 *
 *     1 worker,  batch 8  ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇ 12.1 ms          parts: what a step is spent on, size by size
 *     2 workers, batch 8  ▇▇▇▇▇▇▇▇░░▒ 7.9 ms
 *
 * and the speed-up against the number of workers, a line for each batch: dots measured, dashes predicted. */
#include "report/scale_page.h"
#include "report/svg.h"

enum {
    WIDTH = 720,
    NAMES = 170,
    FIGURES = 80,
    ROW = 22,
    BAR = 14,
    LEFT = 50,
    TOP = 26,
    HEIGHT = 220,
    PLOT = 560,
    LABEL = 13
};

static double put_part(FILE *out, double x, double y, double width, const char *look) {
    return ls_svg_rect(out, x, y, width, BAR, look);
}

void ls_scale_parts_chart(ls_page *page, const ls_scale_found *f) {
    double most = 0, y = 4, x = NAMES;
    for (int i = 0; i < f->points; i++)
        if (f->point[i].seconds > most) most = f->point[i].seconds;
    double scale = (WIDTH - NAMES - FIGURES) / most;
    FILE *out = ls_page_begin_chart(page, "parts");
    for (int i = 0; i < f->points; i++, y += ROW) {
        const ls_scaling_point *p = &f->point[i];
        ls_svg_text(out, NAMES - 8, y + 11, "e n", "%d worker%s, batch %zu", p->workers, p->workers == 1 ? "" : "s",
                    p->batch);
        double end = put_part(out, NAMES, y, p->compute * scale, "u");
        end = put_part(out, end, y, ls_scaling_sync_of(p) * scale, "m");
        end = put_part(out, end, y, p->idle * scale, "i");
        end = put_part(out, end, y, p->other * scale, "o");
        ls_svg_text(out, end + 6, y + 11, "t n", "%s", LS_SECONDS(p->seconds));
    }
    x = ls_svg_key(out, x, y + 6, "u", "computing");
    x = ls_svg_key(out, x, y + 6, "m", "synchronising");
    x = ls_svg_key(out, x, y + 6, "i", "idle");
    ls_svg_key(out, x, y + 6, "o", "overhead");
    ls_page_end_chart(page, WIDTH, (int)y + 28, "Time of a step by kind, for each number of workers and batch.");
}

/* ---- speed-up ---------------------------------------------------------------------------------------------------- */

static void put_axes(const ls_svg_plot *p) {
    ls_svg_text(p->out, LEFT, 14, "t", "Speed-up over one worker with the same batch");
    ls_svg_grid(p, 8);
    for (double w = 1; w <= p->x_last; w *= 2)
        ls_svg_text(p->out, ls_svg_x(p, w), TOP + HEIGHT + 16, "c q n", "%s", LS_WHOLE(w));
    ls_svg_text(p->out, LEFT + PLOT, TOP + HEIGHT + 32, "e q n", "workers");
    double end = p->x_last < p->y_last ? p->x_last : p->y_last;
    ls_svg_line(p->out, ls_svg_x(p, 1), ls_svg_y(p, 1), ls_svg_x(p, end), ls_svg_y(p, end), "l3");
}

static bool is_of(const ls_scale_found *f, const ls_scaling_point *at, size_t batch) {
    return at->batch == batch && ls_scale_speedup(f, at) > 0;
}

/* A line through the sizes of one batch that were measured. Returns the last of them; NULL: none. */
static const ls_scaling_point *put_measured(ls_svg_plot *p, const ls_scale_found *f, size_t batch) {
    const ls_scaling_point *last = NULL;
    ls_svg_curve_begin(p, "l1", 0);
    for (int i = 0; i < f->points; i++) {
        if (!is_of(f, &f->point[i], batch)) continue;
        last = &f->point[i];
        ls_svg_curve_to(p, last->workers, ls_scale_speedup(f, last));
    }
    ls_svg_curve_end(p);
    for (int i = 0; i < f->points; i++)
        if (is_of(f, &f->point[i], batch)) ls_svg_dot(p, f->point[i].workers, ls_scale_speedup(f, &f->point[i]), "u");
    return last;
}

/* From the last size that was measured through those predicted, with the range that is expected of each. Returns the
 * last point. */
static const ls_scaling_point *put_predicted(ls_svg_plot *p, const ls_scale_found *f, const ls_scaling_point *last) {
    size_t batch = last->batch;
    ls_svg_curve_begin(p, "l2", 0);
    ls_svg_curve_to(p, last->workers, ls_scale_speedup(f, last));
    for (int i = 0; i < f->nexts; i++) {
        if (!is_of(f, &f->next[i], batch)) continue;
        last = &f->next[i];
        ls_svg_curve_to(p, last->workers, ls_scale_speedup(f, last));
    }
    ls_svg_curve_end(p);
    for (int i = 0; i < f->nexts; i++) {
        const ls_scaling_point *at = &f->next[i];
        if (!is_of(f, at, batch)) continue;
        double x = ls_svg_x(p, at->workers), speedup = ls_scale_speedup(f, at), most = speedup * at->seconds / at->low;
        ls_svg_line(p->out, x, ls_svg_y(p, speedup * at->seconds / at->high), x,
                    ls_svg_y(p, most < p->y_last ? most : p->y_last), "g");
    }
    return last;
}

void ls_scale_speed_chart(ls_page *page, const ls_scale_found *f) {
    FILE *out = ls_page_begin_chart(page, "speed-up");
    ls_svg_plot p = {
        .out = out, .left = LEFT, .top = TOP, .width = PLOT, .height = HEIGHT, .x_first = 1, .x_last = 2, .y_last = 2};
    double label_y = 0; /* of the label before: two must not lie on each other */
    for (int i = 0; i < f->points + f->nexts; i++) {
        const ls_scaling_point *at = i < f->points ? &f->point[i] : &f->next[i - f->points];
        if (!(ls_scale_speedup(f, at) > 0)) continue;
        if (at->workers > p.x_last) p.x_last = at->workers;
        if (ls_scale_speedup(f, at) > p.y_last) p.y_last = ls_scale_speedup(f, at);
    }
    p.y_last *= 1.05;
    put_axes(&p);
    for (int i = 0; i < f->points; i++) {
        if (f->point[i].workers > 1) continue;
        const ls_scaling_point *last = put_measured(&p, f, f->point[i].batch);
        if (!last) continue;
        last = put_predicted(&p, f, last);
        double y = ls_svg_y(&p, ls_scale_speedup(f, last)) + 4, apart = y - label_y;
        label_y = apart < LABEL && apart > -LABEL ? label_y - LABEL : y;
        ls_svg_text(p.out, ls_svg_x(&p, last->workers) + 8, label_y, "n", "batch %zu", last->batch);
    }
    ls_page_end_chart(page, WIDTH, TOP + HEIGHT + 40,
                      "Dots are measured, dashes predicted for workers with cores of their own, vertical lines the "
                      "error of the prediction; the dotted line is ideal.");
}
