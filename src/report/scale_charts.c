/* scale_charts.c: the drawings of the page of `lockstep scale`.
 *
 *     1 worker,  batch 8  ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇ 12.1 ms          parts: what a step is spent on, size by size
 *     2 workers, batch 8  ▇▇▇▇▇▇▇▇░░▒ 7.9 ms
 *
 * and the speed-up against the number of workers, a line for each batch: dots measured, dashes predicted. */
#include <stdio.h>

#include "report/scale_page.h"

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

static void put_text(ls_memo_doc *doc, double x, double y, const char *style, const char *text) {
    if (doc->failed) return;
    ls_memo_put(doc, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, style);
    if (doc->open) ls_memo_escape(doc->open, text);
    ls_memo_put(doc, "</text>");
}

/* Returns where it ends. */
static double put_rect(ls_memo_doc *doc, double x, double y, double width, const char *style) {
    if (width > 0)
        ls_memo_put(doc, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" class=\"%s\"/>", x, y, width, BAR,
                    style);
    return x + (width > 0 ? width : 0);
}

void ls_scale_parts_chart(ls_memo_doc *doc, const ls_scale_found *f) {
    static const char *const legend[][2] = {
        {"u", "computing"}, {"m", "synchronising"}, {"i", "idle"}, {"o", "overhead"}};
    double most = 0, y = 4;
    for (int i = 0; i < f->points; i++)
        if (f->point[i].seconds > most) most = f->point[i].seconds;
    double scale = (WIDTH - NAMES - FIGURES) / most;
    ls_memo_begin(doc, LS_MEMO_CHART, "parts");
    for (int i = 0; i < f->points; i++, y += ROW) {
        const ls_scaling_point *p = &f->point[i];
        char name[64];
        snprintf(name, sizeof name, "%d worker%s, batch %zu", p->workers, p->workers == 1 ? "" : "s", p->batch);
        put_text(doc, NAMES - 8, y + 11, "e n", name);
        double x = put_rect(doc, NAMES, y, p->compute * scale, "u");
        x = put_rect(doc, x, y, ls_scaling_sync_of(p) * scale, "m");
        x = put_rect(doc, x, y, p->idle * scale, "i");
        x = put_rect(doc, x, y, p->other * scale, "o");
        put_text(doc, x + 6, y + 11, "t n", ls_memo_seconds(p->seconds).text);
        ls_memo_put(doc, "\n");
    }
    for (int i = 0; i < 4; i++) {
        put_rect(doc, NAMES + i * 130, y + 6, BAR, legend[i][0]);
        put_text(doc, NAMES + i * 130 + 20, y + 17, "n", legend[i][1]);
    }
    ls_memo_end_chart(doc, WIDTH, (int)y + 28, "Time of a step by kind, for each number of workers and batch.");
}

/* ---- speed-up ---------------------------------------------------------------------------------------------------- */

typedef struct plot {
    double most_workers, most_speed;
    double label_y; /* of the label before: two must not lie on each other */
} plot;

static double x_of(const plot *p, double workers) { return LEFT + (workers - 1) / (p->most_workers - 1) * PLOT; }
static double y_of(const plot *p, double speed) { return TOP + HEIGHT - speed / p->most_speed * HEIGHT; }

static void put_axes(ls_memo_doc *doc, const plot *p) {
    double every = 1;
    while (p->most_speed / every > 8) every *= 2;
    put_text(doc, LEFT, 14, "t", "Speed-up over one worker with the same batch");
    for (double v = 0; v <= p->most_speed; v += every) {
        ls_memo_put(doc, "<path d=\"M%d %.1fh%d\" class=\"g\"/>", LEFT, y_of(p, v), PLOT);
        put_text(doc, LEFT - 6, y_of(p, v) + 4, "e q n", ls_memo_whole(v).text);
    }
    for (double w = 1; w <= p->most_workers; w *= 2)
        put_text(doc, x_of(p, w), TOP + HEIGHT + 16, "c q n", ls_memo_whole(w).text);
    put_text(doc, LEFT + PLOT, TOP + HEIGHT + 32, "e q n", "workers");
    double end = p->most_workers < p->most_speed ? p->most_workers : p->most_speed;
    ls_memo_put(doc, "<path d=\"M%.1f %.1fL%.1f %.1f\" class=\"l3\"/>\n", x_of(p, 1), y_of(p, 1), x_of(p, end),
                y_of(p, end));
}

/* From the slowest to the fastest step that is expected of a prediction. */
static void put_bands(ls_memo_doc *doc, const plot *p, const ls_scale_found *f, size_t batch) {
    for (int i = 0; i < f->nexts; i++) {
        const ls_scaling_point *at = &f->next[i];
        double speedup = ls_scale_speedup(f, at);
        if (at->batch != batch || !(speedup > 0)) continue;
        double most = speedup * at->seconds / at->low;
        ls_memo_put(doc, "<path d=\"M%.1f %.1fV%.1f\" class=\"g\"/>", x_of(p, at->workers),
                    y_of(p, speedup * at->seconds / at->high), y_of(p, most < p->most_speed ? most : p->most_speed));
    }
}

/* A line through the sizes of one batch that were measured, or from the last of them through those predicted. */
static void put_line(ls_memo_doc *doc, plot *p, const ls_scale_found *f, size_t batch, bool predicted) {
    double last_x = 0, last_y = 0;
    bool any = false;
    ls_memo_put(doc, "<path class=\"%s\" d=\"", predicted ? "l2" : "l1");
    for (int i = 0; i < f->points; i++) {
        const ls_scaling_point *at = &f->point[i];
        if (at->batch != batch || !(ls_scale_speedup(f, at) > 0)) continue;
        last_x = x_of(p, at->workers);
        last_y = y_of(p, ls_scale_speedup(f, at));
        if (!predicted) ls_memo_put(doc, "%c%.1f %.1f", any ? 'L' : 'M', last_x, last_y);
        any = true;
    }
    if (!any || predicted) ls_memo_put(doc, "M%.1f %.1f", last_x, last_y);
    for (int i = 0; predicted && any && i < f->nexts; i++) {
        const ls_scaling_point *at = &f->next[i];
        if (at->batch != batch || !(ls_scale_speedup(f, at) > 0)) continue;
        last_x = x_of(p, at->workers);
        last_y = y_of(p, ls_scale_speedup(f, at));
        ls_memo_put(doc, "L%.1f %.1f", last_x, last_y);
    }
    ls_memo_put(doc, "\"/>");
    if (predicted && any) put_bands(doc, p, f, batch);
    char name[32];
    snprintf(name, sizeof name, "batch %zu", batch);
    if (predicted && any) {
        double apart = last_y + 4 - p->label_y;
        p->label_y = apart < LABEL && apart > -LABEL ? p->label_y - LABEL : last_y + 4;
        put_text(doc, last_x + 8, p->label_y, "n", name);
    }
    for (int i = 0; !predicted && i < f->points; i++) {
        const ls_scaling_point *at = &f->point[i];
        if (at->batch == batch && ls_scale_speedup(f, at) > 0)
            ls_memo_put(doc, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" class=\"u\"/>", x_of(p, at->workers),
                        y_of(p, ls_scale_speedup(f, at)));
    }
    ls_memo_put(doc, "\n");
}

void ls_scale_speed_chart(ls_memo_doc *doc, const ls_scale_found *f) {
    plot p = {.most_workers = 2, .most_speed = 2};
    for (int i = 0; i < f->points + f->nexts; i++) {
        const ls_scaling_point *at = i < f->points ? &f->point[i] : &f->next[i - f->points];
        if (!(ls_scale_speedup(f, at) > 0)) continue;
        if (at->workers > p.most_workers) p.most_workers = at->workers;
        if (ls_scale_speedup(f, at) > p.most_speed) p.most_speed = ls_scale_speedup(f, at);
    }
    p.most_speed *= 1.05;
    ls_memo_begin(doc, LS_MEMO_CHART, "speed-up");
    put_axes(doc, &p);
    for (int i = 0; i < f->points; i++) {
        if (f->point[i].workers > 1) continue;
        put_line(doc, &p, f, f->point[i].batch, false);
        put_line(doc, &p, f, f->point[i].batch, true);
    }
    ls_memo_end_chart(doc, WIDTH, TOP + HEIGHT + 40,
                      "Dots are measured, dashes predicted for workers with cores of their own, vertical lines the "
                      "error of the prediction; the dotted line is ideal.");
}
