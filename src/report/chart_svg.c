/* chart_svg.c: a chart is
 *
 *     title                    y label
 *     10^a |        ‾‾\__/──  name, at the end of its curve
 *          |   __/       /──  name
 *     10^b |__/
 *       0  |───────────────   name
 *          1 … step
 */
#include "report/charts.h"

#include <math.h>
#include <stdbool.h>

#include "numerics/elementary.h"
#include "report/axis.h"

enum {
    WIDTH = 960,
    LEFT = 46, /* of the scale */
    RIGHT = 640,
    TITLE = 34,   /* above a scale */
    HEIGHT = 240, /* of a scale, */
    ZERO = 22,    /* and from its end to the zeros */
    BOTTOM = 56,  /* below the zeros */
    LEGEND = 14,  /* from one name to the next */
    LINES_MAX = 64,
    COLUMNS_MAX = 590,
    DECADES_SHOWN = 8
};

/* ---- the scale: x is a step from 1 on, y a power of ten ---------------------------------------------------------- */

/* Returns the decimal logarithm. */
static double decades_of(double y) { return ls_log_f64(y) / 2.302585092994046; }

/* Returns whether the value can be on a logarithmic scale: finite and above 0. */
static bool is_on_scale(double y) { return isfinite(y) && y > 0; }

/* Sets the plot's y range, in powers of ten, to whole decades around all values. */
static void find_decades(const ls_chart *chart, ls_svg_plot *p) {
    double least = HUGE_VAL, most = 0;
    for (int i = 0; i < chart->lines; i++)
        for (int64_t s = 0; s < chart->points; s++) {
            double y = chart->line[i].y[s];
            if (is_on_scale(y) && y < least) least = y;
            if (is_on_scale(y) && y > most) most = y;
        }
    /* A logarithm is rounded: a power of ten is an end itself, not one decade beyond. */
    p->y_first = most > 0 ? floor(decades_of(least) + 1e-9) : -1;
    p->y_last = most > 0 ? ceil(decades_of(most) - 1e-9) : 0;
    if (p->y_last <= p->y_first) p->y_last = p->y_first + 1;
}

/* Returns the value's y in powers of ten; zeros are on a line of their own below the scale. */
static double place_of(const ls_svg_plot *p, double y) {
    return y == 0 ? p->y_first - ZERO * (p->y_last - p->y_first) / HEIGHT : decades_of(y);
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

/* Draws the decades, the line of zeros, and the label. */
static void put_y_axis(const ls_svg_plot *p, const char *label) {
    int low = (int)p->y_first, high = (int)p->y_last, every = (high - low + DECADES_SHOWN - 1) / DECADES_SHOWN;
    for (int power = low; power <= high; power += every) {
        double y = ls_svg_y(p, power);
        ls_svg_line(p->out, LEFT, y, RIGHT, y, "g");
        fprintf(p->out,
                "<text x=\"%d\" y=\"%.1f\" class=\"e q n\">10<tspan dy=\"-4\" font-size=\"8\">%d</tspan></text>\n",
                LEFT - 8, y + 4, power);
    }
    double zero = ls_svg_y(p, place_of(p, 0));
    ls_svg_line(p->out, LEFT, zero, RIGHT, zero, "g");
    ls_svg_text(p->out, LEFT - 8, zero + 4, "e q n", "0");
    ls_svg_text(p->out, RIGHT, p->top - TITLE + 20, "e q n", "%s", label);
}

/* Draws the scale of steps below the line of zeros. */
static void put_x_axis(const ls_svg_plot *p) {
    ls_svg_plot axis = *p;
    axis.height += ZERO + 8;
    (void)ls_axis_draw_x(&axis, WIDTH, LS_AXIS_WHOLE, "step");
}

/* Draws a curve; each of at most COLUMNS_MAX columns has the largest value of its steps. */
static void put_curve(ls_svg_plot *p, const ls_chart_line *line, int64_t points) {
    int64_t every = (points + COLUMNS_MAX - 1) / COLUMNS_MAX;
    ls_svg_curve_begin(p, line->colour, line->width);
    for (int64_t s = 0; s < points; s += every) {
        double most = (double)NAN;
        for (int64_t k = s; k < s + every && k < points; k++)
            if (isfinite(line->y[k]) && !(line->y[k] < most)) most = line->y[k];
        ls_svg_curve_to(p, (double)(s + 1), isnan(most) ? most : place_of(p, most));
    }
    ls_svg_curve_end(p);
}

/* Returns the value at the end of a curve, as drawn; NaN: a gap. */
static double last_of(const ls_chart_line *line, int64_t points) {
    int64_t every = (points + COLUMNS_MAX - 1) / COLUMNS_MAX, from = (points - 1) / every * every;
    double most = (double)NAN;
    for (int64_t k = from; k < points; k++)
        if (isfinite(line->y[k]) && !(line->y[k] < most)) most = line->y[k];
    return most;
}

/* Returns the height of a chart in pixels, with room for all names. */
static int height_of(const ls_chart *chart) {
    int names = chart->lines * LEGEND, scale = HEIGHT + ZERO;
    return TITLE + (names > scale ? names : scale) + BOTTOM;
}

/* Draws a chart below y = `top`. */
static void draw_one_chart(const ls_chart *chart, int top, FILE *out) {
    ls_svg_plot p = {.out = out,
                     .left = LEFT,
                     .top = top + TITLE,
                     .width = RIGHT - LEFT,
                     .height = HEIGHT,
                     .x_first = 1,
                     .x_last = chart->points > 1 ? (double)chart->points : 2};
    find_decades(chart, &p);
    ls_svg_text(out, 12, top + 20, "t", "%s", chart->title);
    put_y_axis(&p, chart->y_label);
    put_x_axis(&p);
    for (int i = 0; i < chart->lines; i++) put_curve(&p, &chart->line[i], chart->points);
    ls_svg_label labels[LINES_MAX];
    int count = 0;
    for (int i = 0; i < chart->lines && count < LINES_MAX; i++) {
        double last = last_of(&chart->line[i], chart->points);
        if (isnan(last)) continue;
        labels[count++] =
            (ls_svg_label){RIGHT, ls_svg_y(&p, place_of(&p, last)), chart->line[i].colour, chart->line[i].name};
    }
    ls_svg_labels(out, labels, count, RIGHT, WIDTH, p.top, p.top + HEIGHT + ZERO + 4);
}

void ls_chart_svg(const ls_chart *charts, int count, FILE *out) {
    int height = 0, top = 0;
    for (int i = 0; i < count; i++) height += height_of(&charts[i]);
    ls_svg_begin(out, WIDTH, height);
    for (int i = 0; i < count; top += height_of(&charts[i]), i++) draw_one_chart(&charts[i], top, out);
    ls_svg_end(out);
}
