/* chart_svg.c: a chart is
 *
 *     title
 *     10^a |        ‾‾\__/    name
 *          |   __/            name
 *     10^b |__/
 *       0  |───────────────   name
 *          1 … step
 */
#include "report/chart_svg.h"

#include <math.h>
#include <stdbool.h>

#include "numerics/elementary.h"

enum {
    WIDTH = 960,
    LEFT = 70, /* of the scale */
    RIGHT = 640,
    TITLE = 34,   /* above a scale */
    HEIGHT = 240, /* of a scale, */
    ZERO = 22,    /* and from its end to the zeros */
    BOTTOM = 48,  /* below the zeros */
    LEGEND = 20,  /* from one name to the next */
    COLUMNS_MAX = 570,
    DECADES_SHOWN = 8
};

typedef struct plot {
    const ls_chart *chart;
    FILE *out;
    int top;
    int low, high; /* powers of ten at the ends of the scale */
} plot;

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

/* ---- scales ------------------------------------------------------------------------------------------------------ */

static double decades_of(double y) { return ls_log_f64(y) / 2.302585092994046; }

static bool is_on_scale(double y) { return isfinite(y) && y > 0; }

/* Whole decades around all values. */
static void find_decades(plot *p) {
    double least = HUGE_VAL, most = 0;
    for (int i = 0; i < p->chart->lines; i++)
        for (int64_t s = 0; s < p->chart->points; s++) {
            double y = p->chart->line[i].y[s];
            if (is_on_scale(y) && y < least) least = y;
            if (is_on_scale(y) && y > most) most = y;
        }
    /* A logarithm is rounded: a power of ten is an end itself, not one decade beyond. */
    p->low = most > 0 ? (int)floor(decades_of(least) + 1e-9) : -1;
    p->high = most > 0 ? (int)ceil(decades_of(most) - 1e-9) : 0;
    if (p->high <= p->low) p->high = p->low + 1;
}

static double x_of(const plot *p, int64_t step) {
    int64_t span = p->chart->points > 1 ? p->chart->points - 1 : 1;
    return LEFT + (double)(RIGHT - LEFT) * (double)step / (double)span;
}

static double y_of(const plot *p, double y) {
    if (y == 0) return p->top + HEIGHT + ZERO;
    return p->top + HEIGHT - HEIGHT * (decades_of(y) - p->low) / (p->high - p->low);
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

static void grid_line(const plot *p, double y) {
    fprintf(p->out, "<path d=\"M%d %.1fH%d\" class=\"g\"/>", LEFT, y, RIGHT);
}

static void y_axis(const plot *p) {
    int every = (p->high - p->low + DECADES_SHOWN - 1) / DECADES_SHOWN;
    for (int power = p->low; power <= p->high; power += every) {
        double y = p->top + HEIGHT - (double)HEIGHT * (power - p->low) / (p->high - p->low);
        grid_line(p, y);
        fprintf(p->out, "<text x=\"%d\" y=\"%.1f\" class=\"l\">10<tspan dy=\"-4\" font-size=\"8\">%d</tspan></text>\n",
                LEFT - 8, y + 4, power);
    }
    grid_line(p, y_of(p, 0));
    fprintf(p->out, "<text x=\"%d\" y=\"%.1f\" class=\"l\">0</text>\n", LEFT - 8, y_of(p, 0) + 4);
    fprintf(p->out, "<text transform=\"translate(16 %d) rotate(-90)\" class=\"m\">", p->top + HEIGHT / 2);
    put_text(p->out, p->chart->y_label);
    fputs("</text>\n", p->out);
}

/* Round numbers of steps, at most ten of them. */
static void x_axis(const plot *p) {
    const int64_t factors[] = {2, 5, 10};
    int64_t unit = 1, every = 1;
    int bottom = p->top + HEIGHT + ZERO;
    for (int i = 0; p->chart->points / every > 10; i++) {
        every = unit * factors[i % 3];
        if (i % 3 == 2) unit *= 10;
    }
    for (int64_t step = 1; step <= p->chart->points; step = step / every * every + every)
        fprintf(p->out, "<text x=\"%.1f\" y=\"%d\" class=\"m\">%lld</text>", x_of(p, step - 1), bottom + 18,
                (long long)step);
    fprintf(p->out, "<text x=\"%d\" y=\"%d\">step</text>\n", RIGHT + 14, bottom + 18);
}

static void curve(const plot *p, const ls_chart_line *line) {
    int64_t every = (p->chart->points + COLUMNS_MAX - 1) / COLUMNS_MAX;
    bool drawing = false;
    fprintf(p->out, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\" stroke-linejoin=\"round\" d=\"",
            line->colour, line->width);
    for (int64_t s = 0; s < p->chart->points; s += every) {
        double most = (double)NAN;
        for (int64_t k = s; k < s + every && k < p->chart->points; k++)
            if (isfinite(line->y[k]) && !(line->y[k] < most)) most = line->y[k];
        if (!isnan(most)) fprintf(p->out, "%c%.1f %.1f", drawing ? 'L' : 'M', x_of(p, s), y_of(p, most));
        drawing = !isnan(most);
    }
    fputs("\"/>\n", p->out);
}

static void legend(const plot *p) {
    for (int i = 0; i < p->chart->lines; i++) {
        const ls_chart_line *line = &p->chart->line[i];
        int y = p->top + 6 + i * LEGEND;
        fprintf(p->out, "<path d=\"M%d %dh22\" stroke=\"%s\" stroke-width=\"%.1f\"/><text x=\"%d\" y=\"%d\">",
                RIGHT + 14, y, line->colour, line->width + 1, RIGHT + 44, y + 4);
        put_text(p->out, line->name);
        fputs("</text>\n", p->out);
    }
}

static int height_of(const ls_chart *chart) {
    int names = chart->lines * LEGEND, scale = HEIGHT + ZERO;
    return TITLE + (names > scale ? names : scale) + BOTTOM;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static void draw(const ls_chart *chart, int top, FILE *out) {
    plot p = {.chart = chart, .out = out, .top = top + TITLE};
    find_decades(&p);
    fprintf(out, "<text x=\"12\" y=\"%d\" font-size=\"14\">", top + 20);
    put_text(out, chart->title);
    fputs("</text>\n", out);
    y_axis(&p);
    x_axis(&p);
    for (int i = 0; i < chart->lines; i++) curve(&p, &chart->line[i]);
    legend(&p);
}

void ls_chart_svg(const ls_chart *charts, int count, FILE *out) {
    int height = 0, top = 0;
    for (int i = 0; i < count; i++) height += height_of(&charts[i]);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"11\">\n"
            "<style>text{fill:#333}.l{text-anchor:end}.m{text-anchor:middle}.g{stroke:#d8dce1;fill:none}.b{fill:#fff}"
            "@media(prefers-color-scheme:dark){text{fill:#d4d8dd}.g{stroke:#3a4048}.b{fill:#14171b}}</style>\n"
            "<rect width=\"%d\" height=\"%d\" class=\"b\"/>\n",
            WIDTH, height, WIDTH, height, WIDTH, height);
    for (int i = 0; i < count; top += height_of(&charts[i]), i++) draw(&charts[i], top, out);
    fputs("</svg>\n", out);
}
