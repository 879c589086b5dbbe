/* curves.c: draws a chart of curves: finds the ends of the scales, then draws axes, marks, curves and names. */
#include "report/curves.h"

#include <math.h>
#include <string.h>

#include "numerics/elementary.h"

enum { TOP = 30, MARKS = 16, HEIGHT = 200, TICKS = 6, RIGHT = 10, NAMED_MAX = 32 };

size_t ls_curves_thin(ls_curve_point *points, size_t count, size_t columns) {
    size_t kept = 0;
    if (count <= 2 * columns || columns == 0) return count;
    for (size_t c = 0; c < columns; c++) {
        size_t from = count * c / columns, to = count * (c + 1) / columns, least = to, most = to;
        for (size_t i = from; i < to; i++) {
            if (!isfinite(points[i].y)) continue;
            if (least == to || points[i].y < points[least].y) least = i;
            if (most == to || points[i].y > points[most].y) most = i;
        }
        if (least == to) { /* a column with nothing but gaps */
            points[kept++] = points[from];
            continue;
        }
        ls_curve_point first = points[least < most ? least : most], second = points[least < most ? most : least];
        points[kept++] = first;
        if (least != most) points[kept++] = second;
    }
    return kept;
}

/* Returns whether the point is drawn: finite, on its scales, and not above y_most. */
static bool is_shown(const ls_curves *c, const ls_curve_point *at) {
    return isfinite(at->x) && isfinite(at->y) && !(c->x_log && at->x <= 0) && !(c->y_log && at->y <= 0) &&
           !(c->y_most > 0 && at->y > c->y_most);
}

/* Sets the plot's ranges so that all points that are shown lie inside, with some room above and below. */
static void find_ends(const ls_curves *c, ls_svg_plot *p) {
    double x_first = HUGE_VAL, x_last = -HUGE_VAL, y_first = HUGE_VAL, y_last = -HUGE_VAL;
    for (int k = 0; k < c->count; k++)
        for (size_t i = 0; i < c->curve[k].count; i++) {
            const ls_curve_point *at = &c->curve[k].points[i];
            if (!is_shown(c, at)) continue;
            if (at->x < x_first) x_first = at->x;
            if (at->x > x_last) x_last = at->x;
            if (at->y < y_first) y_first = at->y;
            if (at->y > y_last) y_last = at->y;
        }
    if (!(x_last >= x_first)) x_first = 1, x_last = 2, y_first = 1, y_last = 2;
    if (!(x_last > x_first)) x_first = c->x_log ? x_first / 2 : x_first - .5, x_last = x_first + 1;
    if (c->from_zero && !c->y_log && y_first > 0) y_first = 0;
    if (!(y_last > y_first)) {
        double room = y_last != 0 ? fabs(y_last) * .1 : 1;
        y_first = c->from_zero && !c->y_log ? 0 : y_first - room;
        y_last += room;
    }
    if (c->y_log) {
        y_last *= 1.05;
        y_first /= 1.05;
    } else {
        double room = (y_last - y_first) * .04;
        y_last += room;
        if (y_first != 0) y_first -= room;
    }
    p->x_first = x_first;
    p->x_last = x_last;
    p->y_first = y_first;
    p->y_last = y_last;
    p->x_log = c->x_log;
    p->y_log = c->y_log;
}

/* Writes the CSS classes of a curve. */
static void look_of(const ls_curve *curve, char look[8]) {
    if (curve->series == LS_CURVE_GUIDE)
        snprintf(look, 8, "l3");
    else
        snprintf(look, 8, "s%d%s", curve->series % LS_SVG_SERIES, curve->faint ? " f" : curve->dashed ? " d" : "");
}

/* Draws the line of a curve, with gaps at points that are not shown. */
static void put_line(const ls_curves *c, ls_svg_plot *p, const ls_curve *curve, const char *look) {
    ls_svg_curve_begin(p, look, 0);
    for (size_t i = 0; i < curve->count; i++) {
        const ls_curve_point *at = &curve->points[i];
        ls_svg_curve_to(p, at->x, is_shown(c, at) ? at->y : (double)NAN);
    }
    ls_svg_curve_end(p);
}

/* Draws a curve: its line, and dots if it has them or only one point is shown. */
static void put_curve(const ls_curves *c, ls_svg_plot *p, const ls_curve *curve) {
    char look[8];
    size_t shown = 0;
    look_of(curve, look);
    if (!curve->loose) put_line(c, p, curve, look);
    for (size_t i = 0; i < curve->count; i++) shown += is_shown(c, &curve->points[i]);
    if (!curve->dots && !curve->loose && shown > 1) return;
    for (size_t i = 0; i < curve->count; i++)
        if (is_shown(c, &curve->points[i]) && p->out)
            fprintf(p->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" class=\"%s\"/>\n",
                    ls_svg_x(p, curve->points[i].x), ls_svg_y(p, curve->points[i].y), look);
}

/* Begins a group that carries the curve's values as numbers, because those drawn are rounded to a tenth of a pixel. */
static void begin_values(const ls_curves *c, FILE *out, const ls_curve *curve) {
    fputs("<g data-name=\"", out);
    ls_svg_escape(out, curve->name ? curve->name : "");
    fputs("\" data-points=\"", out);
    for (size_t i = 0, n = 0; i < curve->count; i++)
        if (is_shown(c, &curve->points[i]))
            fprintf(out, "%s%.15g %.7g", n++ > 0 ? " " : "", curve->points[i].x, curve->points[i].y);
    fputs("\">\n", out);
}

/* Returns the name of a unit for the script of the live page; "": none. */
static const char *unit_of(ls_axis_unit unit) {
    return unit == LS_AXIS_SECONDS ? "s" : unit == LS_AXIS_BYTES ? "bytes" : unit == LS_AXIS_SHARE ? "share" : "";
}

/* Draws a curve, with its values as numbers if has_values, except for a guide. */
static void put_named(const ls_curves *c, ls_svg_plot *p, const ls_curve *curve, bool has_values) {
    has_values = has_values && curve->series != LS_CURVE_GUIDE;
    if (has_values) begin_values(c, p->out, curve);
    put_curve(c, p, curve);
    if (has_values) fputs("</g>\n", p->out);
}

/* Returns the last point that is shown, or NULL. */
static const ls_curve_point *last_of(const ls_curves *c, const ls_curve *curve) {
    for (size_t i = curve->count; i-- > 0;)
        if (is_shown(c, &curve->points[i])) return &curve->points[i];
    return NULL;
}

/* Lists name and look of each curve that has a name and is shown; returns how many. */
static int name_curves(const ls_curves *c, ls_svg_named *named, char looks[][8]) {
    int count = 0;
    for (int k = 0; k < c->count && count < NAMED_MAX; k++) {
        if (!c->curve[k].name || !last_of(c, &c->curve[k])) continue;
        look_of(&c->curve[k], looks[count]);
        named[count] = (ls_svg_named){looks[count], c->curve[k].name};
        count++;
    }
    return count;
}

/* Returns whether the names still differ if each is cut off at this width in pixels. */
static bool are_told_apart(const ls_svg_named *named, int count, double width) {
    size_t letters = (size_t)(width / ls_svg_text_width("m")) - 1;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++)
            if (strncmp(named[i].name, named[k].name, letters) == 0) return false;
    return true;
}

/* Draws the marks; leaves out one that would overlap the mark before it. */
static void put_marks(const ls_curves *c, const ls_svg_plot *p) {
    double last = -1e9;
    for (int i = 0; i < c->mark_count; i++) {
        double x = ls_svg_x(p, c->marks[i].x);
        if (c->marks[i].x < p->x_first || c->marks[i].x > p->x_last || !p->out) continue;
        if (x - last < 11) continue; /* the table has them all */
        last = x;
        fputs("<g>", p->out);
        if (c->marks[i].text) {
            fputs("<title>", p->out);
            ls_svg_escape(p->out, c->marks[i].text);
            fputs("</title>", p->out);
        }
        ls_svg_text(p->out, x, p->top - 5, "c n kt t", "%c", c->marks[i].what);
        fprintf(p->out, "<path class=\"mark\" d=\"M%.1f %.1fV%.1f\"/></g>\n", x, p->top, p->top + p->height);
    }
}

/* Writes the names of the curves behind their ends. */
static void put_labels(const ls_curves *c, const ls_svg_plot *p, double right) {
    ls_svg_label labels[NAMED_MAX];
    char looks[NAMED_MAX][8];
    int count = 0;
    for (int k = 0; k < c->count && count < NAMED_MAX; k++) {
        const ls_curve_point *last = last_of(c, &c->curve[k]);
        if (!c->curve[k].name || !last) continue;
        look_of(&c->curve[k], looks[count]);
        labels[count] = (ls_svg_label){ls_svg_x(p, last->x), ls_svg_y(p, last->y), looks[count], c->curve[k].name};
        count++;
    }
    ls_svg_labels(p->out, labels, count, p->left + p->width, right, p->top + 4, p->top + p->height - 4);
}

int ls_curves_draw(FILE *out, int width, const void *ctx) {
    const ls_curves *c = ctx;
    ls_svg_named named[NAMED_MAX];
    char looks[NAMED_MAX][8], y_name[96];
    ls_svg_plot p = {.out = out, .top = TOP, .height = HEIGHT};
    int names = name_curves(c, named, looks);
    double widest = 0;
    find_ends(c, &p);
    for (int i = 0; i < names; i++) {
        double wide = ls_svg_text_width(named[i].name);
        if (wide > widest) widest = wide;
    }
    /* Long names are cut, unless they would then be the same. */
    if (!ls_svg_is_narrow(width) && widest > .3 * width - 20 && are_told_apart(named, names, .3 * width - 20))
        widest = .3 * width - 20;
    bool beside = names > 1 && widest + 20 <= .3 * width && names * 14 <= HEIGHT;
    ls_axis_name(c->y_name, p.y_last, c->y_unit, y_name, sizeof y_name);
    ls_svg_text(out, 0, 14, "t", "%s", c->title);
    if (*y_name) {
        bool fits = ls_svg_text_width(c->title) * 1.2 + ls_svg_text_width(y_name) + 20 < width;
        if (!fits) p.top += 16;
        ls_svg_text(out, fits ? width : 0, fits ? 14 : 30, fits ? "e q n" : "q n", "%s", y_name);
    }
    if (names > 1 && !beside) p.top = ls_svg_keys(out, 0, width, p.top - 4, named, names) + 4;
    if (c->mark_count > 0) p.top += MARKS;
    p.left = ls_axis_room(p.y_first, p.y_last, p.y_log, c->y_unit, TICKS);
    p.width = width - p.left - (beside ? widest + 26 : RIGHT);
    bool has_values = out && c->has_values && !ls_svg_is_narrow(width);
    if (out)
        fprintf(out, "<g class=\"plot\" data-box=\"%.1f %.1f %.1f %.1f\" data-x=\"%.17g %.17g %d\"", p.left, p.top,
                p.width, p.height, p.x_first, p.x_last, p.x_log);
    if (has_values) fprintf(out, " data-x-name=\"%s\" data-unit=\"%s\"", c->x_name, unit_of(c->y_unit));
    if (out) fputs(">\n", out);
    ls_axis_draw_y(&p, c->y_unit, TICKS);
    put_marks(c, &p);
    for (int k = 0; k < c->count; k++)
        if (c->curve[k].faint) put_curve(c, &p, &c->curve[k]);
    for (int k = 0; k < c->count; k++)
        if (!c->curve[k].faint) put_named(c, &p, &c->curve[k], has_values);
    double bottom = p.top + p.height + ls_axis_draw_x(&p, width, c->x_unit, c->x_name);
    if (out) fputs("</g>\n", out);
    if (beside) put_labels(c, &p, width);
    return (int)bottom + 2;
}
