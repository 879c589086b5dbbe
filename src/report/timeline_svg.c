/* timeline_svg.c: stages × time as a drawing.
 *
 *     title
 *     predicted   stage 0 |▇▇▇▇   ▇▇ |  bubble
 *                 stage 1 |  ▇▇▇▇▇   |
 *     measured    stage 0 |▇▇▇▇   ▇▇ |  busy, bubble      a lane for each worker: boxes for what it did, waits behind
 *                 stage 1 |  ▇▇▇▇▇   |                    them, and below them a line while reductions are under way
 *                         0 … time
 *     legend
 *
 * Both parts have the same scale, and their first actions begin at the same place. Of waits and reductions, which can
 * be many thousands, those that a line on a screen could not tell apart are drawn as one. */
#include <math.h>
#include <string.h>

#include "observe/timeline.h"

enum {
    WIDTH = 1220,
    LEFT = 118,   /* of the lanes */
    RIGHT = 1050, /* what is behind belongs to figures */
    TOP = 40,     /* of the first lane */
    LANE = 26,    /* from one to the next */
    BOX = 18,     /* height of a box in it */
    LINE = 3,     /* height of the line for reductions */
    GROUP = 8,    /* between stages that have several workers */
    CAPTION = 22, /* above the lanes of a part */
    DIGIT = 7,    /* width of a digit, and of what must be around it */
    LEGEND = 30
};

typedef struct drawing {
    const ls_timeline *t;
    FILE *out;
    double begin_us, scale; /* pixels of a microsecond */
    int y;
} drawing;

static const struct {
    const char *name, *colour;
} looks[LS_MARK_KINDS] = {
    [LS_MARK_FORWARD] = {"forward", "#7fb0e0"},
    [LS_MARK_BACKWARD] = {"backward", "#f0a94e"},
    [LS_MARK_BACKWARD_INPUT] = {"backward (input)", "#f5c563"},
    [LS_MARK_BACKWARD_WEIGHTS] = {"backward (weights)", "#8cc68a"},
    [LS_MARK_FINISH] = {"finish reductions", "#d9705f"},
    [LS_MARK_OPTIMIZER] = {"optimizer", "#b49ad8"},
    [LS_MARK_PUBLISH] = {"weight update", "#9aa5b1"},
    [LS_MARK_WAIT] = {"waiting", "#dfe3e8"},
    [LS_MARK_REDUCTION] = {"reductions in flight", "#c0392b"},
};

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

static void put_text(FILE *out, const char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '<')
            fputs("&lt;", out);
        else if (c == '&')
            fputs("&amp;", out);
        else
            fputc(c < 0x20 ? ' ' : c, out);
    }
}

static double x_of(const drawing *d, double us) { return LEFT + (us - d->begin_us) * d->scale; }

static void rect(const drawing *d, double from, double to, int y, int height, const char *colour, const char *more) {
    fprintf(d->out, "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\"%s", from, y, to - from, height,
            colour, more);
}

/* A box with the number of its micro-batch, where that fits; chunks behind the first are darker in turn. */
static void action(const drawing *d, ls_mark mark, int chunk, int micro, double begin_us, double end_us) {
    double from = x_of(d, begin_us), to = x_of(d, end_us);
    char number[16];
    int digits = snprintf(number, sizeof number, "%d", micro);
    rect(d, from, to, d->y, BOX, looks[mark].colour, chunk % 2 ? " class=\"odd\">" : " class=\"box\">");
    fprintf(d->out, "<title>%s, micro-batch %d, chunk %d: %.3f ms</title></rect>\n", looks[mark].name, micro, chunk,
            (end_us - begin_us) / 1e3);
    if (to - from >= digits * DIGIT + 2)
        fprintf(d->out, "<text x=\"%.2f\" y=\"%d\" class=\"n\">%s</text>\n", (from + to) / 2, d->y + 13, number);
}

static void label(const drawing *d, const char *name, const char *figures) {
    fprintf(d->out, "<text x=\"%d\" y=\"%d\" class=\"l\">%s</text>", LEFT - 8, d->y + 13, name);
    fprintf(d->out, "<text x=\"%d\" y=\"%d\">%s</text>\n", RIGHT + 8, d->y + 13, figures);
    fprintf(d->out, "<path d=\"M%d %d.5H%d\" class=\"g\"/>\n", LEFT, d->y + BOX, RIGHT);
}

static void caption(drawing *d, const char *text, double us) {
    fprintf(d->out, "<text x=\"8\" y=\"%d\" class=\"h\">%s: %.3f ms</text>\n", d->y + 14, text, us / 1e3);
    d->y += CAPTION;
}

/* ---- lanes ------------------------------------------------------------------------------------------------------- */

static void predicted_lane(const drawing *d, int stage) {
    const ls_schedule *s = &d->t->schedule[0];
    const ls_simulation *p = &d->t->prediction[0];
    char name[32], figures[64];
    snprintf(name, sizeof name, "stage %d", stage);
    snprintf(figures, sizeof figures, "bubble %.1f %%", 100 * ls_simulation_bubble(p, stage));
    label(d, name, figures);
    for (int i = 0; i < s->count[stage]; i++) {
        const ls_action *a = &s->actions[stage][i];
        const ls_simulated_action *when = &p->actions[stage][i];
        action(d, (ls_mark)a->kind, a->chunk, a->micro, d->t->work_begin_us + when->start * 1e6,
               d->t->work_begin_us + when->end * 1e6);
    }
}

/* Spans of one kind, as one where less than half a pixel is between them. */
static void strip(const drawing *d, const ls_timeline_worker *w, ls_mark mark, int y, int height) {
    double from = 0, to = -HUGE_VAL;
    for (size_t i = 0; i < w->count; i++) {
        const ls_trace_span *span = &w->spans[i];
        if (span->mark != mark) continue;
        double a = x_of(d, span->begin_us), b = x_of(d, span->end_us);
        if (a > to + 0.5) {
            if (to - from >= 0.1) rect(d, from, to, y, height, looks[mark].colour, "/>\n");
            from = a;
        }
        if (b > to) to = b;
    }
    if (to - from >= 0.1) rect(d, from, to, y, height, looks[mark].colour, "/>\n");
}

static void name_worker(const ls_timeline *t, int rank, char *name, size_t room) {
    const ls_timeline_worker *w = &t->worker[rank];
    int used = snprintf(name, room, "stage %d", w->stage);
    if (t->pipelines == 1) return;
    if (t->dp == 0)
        used += snprintf(name + used, room - (size_t)used, ", worker %d", rank);
    else {
        if (t->dp > 1) used += snprintf(name + used, room - (size_t)used, " dp %d", w->pipeline / t->tp);
        if (t->tp > 1) snprintf(name + used, room - (size_t)used, " tp %d", w->pipeline % t->tp);
    }
}

static void measured_lane(const drawing *d, int rank) {
    const ls_timeline_worker *w = &d->t->worker[rank];
    char name[64], figures[64];
    name_worker(d->t, rank, name, sizeof name);
    snprintf(figures, sizeof figures, "busy %.1f %%, bubble %.1f %%", 100 * w->busy, 100 * w->bubble);
    label(d, name, figures);
    strip(d, w, LS_MARK_WAIT, d->y + 3, BOX - 6);
    for (size_t i = 0; i < w->count; i++) {
        const ls_trace_span *span = &w->spans[i];
        if (ls_mark_is_action(span->mark))
            action(d, span->mark, (int)(span->n / d->t->stages), span->micro, span->begin_us, span->end_us);
    }
    /* Waits inside actions, as a notch in their boxes. */
    if (w->waiting_us > 0) strip(d, w, LS_MARK_WAIT, d->y + BOX - 5, 5);
    for (ls_mark mark = LS_MARK_FINISH; mark <= LS_MARK_PUBLISH; mark++) strip(d, w, mark, d->y, BOX);
    strip(d, w, LS_MARK_REDUCTION, d->y + BOX + 1, LINE);
}

/* ---- around them ------------------------------------------------------------------------------------------------- */

/* Ticks at round times: 1, 2 or 5 times a power of ten, at most a dozen of them. */
static void axis(const drawing *d, int bottom) {
    double span = (RIGHT - LEFT) / d->scale, step = 1e-3;
    const double factors[] = {2, 2.5, 2};
    for (int i = 0; span / step > 12; i = (i + 1) % 3) step *= factors[i];
    for (int i = 0; i * step <= span; i++) {
        double x = x_of(d, d->begin_us + i * step);
        fprintf(d->out, "<path d=\"M%.2f %dV%d\" class=\"g\"/>", x, TOP, bottom);
        fprintf(d->out, "<text x=\"%.2f\" y=\"%d\" class=\"m\">%g</text>\n", x, bottom + 13, i * step / 1e3);
    }
    fprintf(d->out, "<text x=\"%d\" y=\"%d\">ms</text>\n", RIGHT + 8, bottom + 13);
}

static bool is_seen(const ls_timeline *t, ls_mark mark) {
    for (int r = 0; r < t->workers; r++)
        if (t->worker[r].us[mark] > 0) return true;
    return false;
}

static void legend(const drawing *d) {
    double x = LEFT;
    for (ls_mark mark = 0; mark < LS_MARK_STEP; mark++) {
        if (!is_seen(d->t, mark)) continue;
        rect(d, x, x + 12, d->y + 4, mark == LS_MARK_REDUCTION ? LINE : 12, looks[mark].colour, "/>");
        fprintf(d->out, "<text x=\"%.0f\" y=\"%d\">%s</text>\n", x + 17, d->y + 14, looks[mark].name);
        x += 40 + 6.2 * (double)strlen(looks[mark].name);
    }
}

static int lanes_height(const ls_timeline *t) {
    int gaps = t->pipelines > 1 ? (t->stages - 1) * GROUP : 0;
    int predicted = t->prediction ? CAPTION + t->stages * LANE : 0;
    return predicted + CAPTION + t->workers * LANE + gaps;
}

static void open_page(const drawing *d, const char *title, int height) {
    fprintf(d->out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"11\">\n"
            "<style>text{fill:#333}.l{text-anchor:end}.n{text-anchor:middle}.m{text-anchor:middle;fill:#777}"
            ".h{font-weight:bold}.g{stroke:#e6e9ed;fill:none}.box,.odd{stroke:#fff;stroke-width:.5}"
            ".odd{filter:brightness(.82)}</style>\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n<text x=\"8\" y=\"20\" font-size=\"14\">",
            WIDTH, height, WIDTH, height, WIDTH, height);
    put_text(d->out, title);
    fprintf(d->out, "</text>\n");
}

void ls_timeline_svg(const ls_timeline *t, const char *title, FILE *out) {
    double end_us = t->end_us, predicted_us = t->prediction ? t->work_begin_us + t->prediction[0].seconds * 1e6 : 0;
    if (predicted_us > end_us) end_us = predicted_us;
    double span = end_us - t->begin_us;
    drawing d = {
        .t = t, .out = out, .begin_us = t->begin_us, .scale = (RIGHT - LEFT) / (span > 0 ? span : 1), .y = TOP};
    int bottom = TOP + lanes_height(t);
    open_page(&d, title, bottom + CAPTION + LEGEND);
    axis(&d, bottom);
    if (t->prediction) caption(&d, "predicted", t->prediction[0].seconds * 1e6);
    for (int s = 0; t->prediction && s < t->stages; s++, d.y += LANE) predicted_lane(&d, s);
    caption(&d, "measured", t->work_end_us - t->work_begin_us);
    for (int r = 0; r < t->workers; r++, d.y += LANE) {
        if (r > 0 && t->pipelines > 1 && r % t->pipelines == 0) d.y += GROUP;
        measured_lane(&d, r);
    }
    d.y = bottom + CAPTION;
    legend(&d);
    fprintf(out, "</svg>\n");
}
