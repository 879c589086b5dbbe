/* curves.h: draws learning curves over steps, tokens or time, as charts of a page (page.h). The reports of runs use it.
 *
 *     title                                   marks: short lines at the top, where something happened
 *      4 |\   '        '
 *        | \__
 *      2 |    \_______ validation            the name of a curve stands behind its end
 *        |            ‾ training
 *        +-----------------
 *        0     1k     2k
 *              step
 */
#ifndef LS_REPORT_CURVES_H
#define LS_REPORT_CURVES_H

#include <stddef.h>

#include "report/axis.h"

typedef struct ls_curve_point {
    double x, y; /* a y that is not finite leaves a gap */
} ls_curve_point;

enum { LS_CURVE_GUIDE = -1 }; /* ls_curve.series of a line that is only there to compare with */

typedef struct ls_curve {
    const char *name; /* NULL: it has none, as the values behind a smoothed curve */
    int series;       /* 0 … LS_SVG_SERIES − 1: its colour; LS_CURVE_GUIDE: a dotted line to compare with */
    bool faint, dots; /* drawn thin and behind the others; with a dot at each point */
    bool dashed;      /* for predictions */
    bool loose;       /* dots without a line */
    const ls_curve_point *points; /* borrowed, with x ascending */
    size_t count;
} ls_curve;

typedef struct ls_curve_mark {
    double x;
    char what;        /* the letter at the top of the line */
    const char *text; /* shown when pointed at */
} ls_curve_mark;

/* A chart; all pointers are borrowed. */
typedef struct ls_curves {
    const char *title;
    const char *x_name, *y_name;
    ls_axis_unit x_unit, y_unit;
    bool x_log, y_log;
    bool from_zero;  /* the left scale begins with 0 */
    double y_most;   /* values above it are not shown; 0: all are */
    bool has_values; /* the wide chart also contains the points as numbers, for the tooltip of the live page */
    const ls_curve *curve;
    int count;
    const ls_curve_mark *marks;
    int mark_count;
} ls_curves;

/* Draws a chart of this width in pixels and returns its height; an ls_svg_draw whose ctx is an ls_curves. `out` NULL:
 * only measures. */
int ls_curves_draw(FILE *out, int width, const void *ctx);

/* With values, a wide chart has for each curve that is not faint
 *     <g data-name="NAME" data-points="X Y X Y …">, its line and dots, </g>
 * and its plot data-x-name and data-unit (LS_AXIS_SECONDS: "s", LS_AXIS_BYTES: "bytes", LS_AXIS_SHARE: "share"). */

/* Thins points in place to at most 2 · columns that look the same on a screen: the least and the greatest value of each
 * column, in their order; a column without finite values keeps a gap. Returns how many are left. */
size_t ls_curves_thin(ls_curve_point *points, size_t count, size_t columns);

#endif
